/* worker_export.c: `traind-worker export`: the weights of a checkpoint for other programs. */
#include "base/text.h"
#include "engine/train/checkpoint.h"
#include "proto/json.h"
#include "worker/worker_options.h"

#include <stdio.h>

int worker_export(const struct worker_options *options)
{
    char digest[SAFETENSORS_DIGEST_SIZE], size[32];
    struct error error = {0};
    uint64_t bytes;

    if (checkpoint_export(options->input, options->output, digest, &bytes, &error) < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
        return EXIT_FAILURE;
    }
    if (options->json) {
        JSON_AUTO struct json_object *json = json_object_new_object();

        json_set_string(json, "output", options->output);
        json_set_int(json, "bytes", (int64_t)bytes);
        json_set_string(json, "digest", digest);
        printf("%s\n", json_text(json, NULL));
    } else {
        printf("%s: %s\n", options->output, text_format_bytes(bytes, size, sizeof size));
    }
    return EXIT_SUCCESS;
}
