/* worker_export.c: `traind-worker export` writes the weights of a checkpoint for other programs. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "proto/json.h"
#include "worker/trainee/pytorch_module.h"
#include "worker/trainee/worker_export_c.h"
#include "worker/trainee/worker_export_onnx.h"
#include "worker/trainee/worker_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int read_weights(const struct worker_options *options, enum checkpoint_weights *weights,
                        struct error *error)
{
    const char *name = options->weights ? options->weights : "evaluated";

    *weights = strcmp(name, "trained") == 0 ? CHECKPOINT_TRAINED : CHECKPOINT_EVALUATED;
    if (*weights == CHECKPOINT_TRAINED || strcmp(name, "evaluated") == 0)
        return 0;
    return error_set(error, -EINVAL, "--weights must be evaluated or trained, not \"%s\"", name);
}

/* Whether the weights are those of the specification's model. */
static int check_weights(struct worker_setup *setup, const struct checkpoint *checkpoint,
                         struct error *error)
{
    struct graph graph;
    int r;

    graph_init(&graph, 1, false);
    r = worker_setup_build(setup, &graph, error);
    for (int32_t i = 0; i < graph.tensor_count && r == 0; i++) {
        const struct graph_tensor *tensor = &graph.tensors[i];
        const struct safetensors_tensor *stored = safetensors_find(&checkpoint->file, tensor->name);

        if (tensor->role != TENSOR_PARAMETER && tensor->role != TENSOR_STATISTIC)
            continue;
        r = stored && stored->rank == tensor->shape.rank &&
                    memcmp(stored->shape, tensor->shape.extent,
                           (size_t)stored->rank * sizeof *stored->shape) == 0
                ? 0
                : error_set(error, -EINVAL, "%s is not there, or of another shape", tensor->name);
    }
    graph_release(&graph);
    return r;
}

/* Describes the model of a checkpoint that has no description, from its job's specification and the
 * data, which must be unchanged. The caller frees the text. NULL with a sentence. */
static char *describe_model(const struct worker_options *options,
                            const struct checkpoint *checkpoint, struct error *error)
{
    struct worker_setup setup;
    char *description = NULL;

    if (worker_setup_describe(options->specification, &checkpoint->texts, &setup, error) == 0 &&
        check_weights(&setup, checkpoint, error) == 0)
        description = pytorch_module_describe(&setup, error);
    if (!description)
        error_prefix(error,
                     "an earlier traind wrote this checkpoint, which does not describe its model, "
                     "and its job's specification and data do not either (or leave the module out "
                     "with --no-module)");
    worker_setup_release(&setup);
    return description;
}

/* Writes the Python file beside the weights. `module` NULL: writes none. */
static int write_module(const struct worker_options *options, const char *module,
                        struct error *error)
{
    AUTO_FREE char *description = NULL;
    struct checkpoint checkpoint;
    int r;

    if (!module)
        return 0;
    r = checkpoint_open(options->input, &checkpoint, error);
    if (r < 0)
        return r;
    if (!checkpoint.texts.module && options->specification) {
        description = describe_model(options, &checkpoint, error);
        checkpoint.texts.module = description;
        r = description ? 0 : error->code;
    }
    if (r == 0)
        r = pytorch_module_write(&checkpoint, options->output, module, error);
    checkpoint_close(&checkpoint);
    return r;
}

static int export_weights(const struct worker_options *options, struct json_object *result,
                          uint64_t *bytes, char **module, struct error *error)
{
    char digest[SAFETENSORS_DIGEST_SIZE];
    enum checkpoint_weights weights;
    int r;

    if (!options->no_module && !(*module = pytorch_module_path(options->output, error)))
        return error->code;
    r = read_weights(options, &weights, error);
    if (r == 0)
        r = write_module(options, *module, error);
    if (r == 0)
        r = checkpoint_export(options->input, options->output, weights, digest, bytes, error);
    if (r == 0) {
        json_set_string(result, "digest", digest);
        json_set_string(result, "module", *module);
    }
    return r;
}

static int check_options(const struct worker_options *options, struct error *error)
{
    if (!!options->output + !!options->onnx + !!options->c_file != 1)
        return error_set(error, -EINVAL,
                         "export needs --output FILE for weights, --onnx FILE or --c FILE for the "
                         "network, and one of them");
    if (!options->output && (options->weights || options->no_module))
        return error_set(error, -EINVAL,
                         "--weights and --no-module go with --output, not with --onnx and --c");
    return 0;
}

static int export_file(const struct worker_options *options, const char *path,
                       struct json_object *result, uint64_t *bytes, char **module,
                       struct error *error)
{
    int r = file_check_result(path, options->input, error);

    if (r < 0)
        return r;
    if (options->output)
        return export_weights(options, result, bytes, module, error);
    return (options->onnx ? worker_export_onnx : worker_export_c)(options, bytes, error);
}

int worker_export(const struct worker_options *options)
{
    JSON_AUTO struct json_object *result = json_object_new_object();
    const char *path = options->output ? options->output
                       : options->onnx ? options->onnx
                                       : options->c_file;
    AUTO_FREE char *module = NULL;
    struct error error = {0};
    uint64_t bytes = 0;
    char size[32];

    if (check_options(options, &error) < 0 ||
        export_file(options, path, result, &bytes, &module, &error) < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
        return EXIT_FAILURE;
    }
    json_set_string(result, "output", path);
    json_set_int(result, "bytes", (int64_t)bytes);
    if (options->json) {
        json_print(result, stdout);
        return EXIT_SUCCESS;
    }
    printf("%s: %s\n", path, text_format_bytes(bytes, size, sizeof size));
    if (module)
        printf("%s: the model in PyTorch\n", module);
    return EXIT_SUCCESS;
}
