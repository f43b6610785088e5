/* open_untrusted.c: opens files of strangers, for tests/fuzz.
 *
 *   open_untrusted idx IMAGES LABELS | npy SAMPLES LABELS | csv FILE | text FILE |
 *                  cifar_binary FILE | safetensors FILE
 *
 * takes its cases from standard input, one a line, and answers each with a line: "ok" or the
 * sentence. What opens is read from beginning to end. The exit status is 1 when a promise is broken
 * (a refusal without a sentence, values outside of what was announced), 0 otherwise. */
#include "base/cleanup.h"
#include "engine/data/dataset.h"
#include "engine/train/safetensors.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int broken(const char *promise)
{
    printf("BROKEN PROMISE: %s\n", promise);
    return 1;
}

static int report(int result, const struct error *error)
{
    if (result < 0 && (!*error->text || error->code != result))
        return broken("a refusal has a sentence");
    printf("%s\n", result < 0 ? error->text : "ok");
    return 0;
}

/* Every sample, normalised both ways: finite values, labels below the classes. */
static int read_samples(const struct dataset *dataset)
{
    struct dataset_view all = dataset_view_all(dataset);
    size_t elements = (size_t)dataset->sample_elements;
    AUTO_FREE float *row = calloc(elements, sizeof *row);
    struct error error = {0};

    for (int kind = 0; kind < 2; kind++) {
        struct dataset_normalisation normalisation = {0};
        bool text = dataset->format == DATASET_TEXT;

        if (!text && dataset_normalisation_measure((enum dataset_normalisation_kind)kind, &all,
                                                   &normalisation, &error) < 0)
            return broken("an opened set can be measured");
        for (uint32_t i = 0; i < dataset->count; i++) {
            int32_t label;

            if (dataset_gather(dataset, &normalisation, &i, 1, row, &label, &error) < 0)
                return broken("an opened set can be gathered");
            if (label < 0 || label >= dataset->classes)
                return broken("labels are below the classes");
            for (size_t e = 0; !text && e < elements; e++)
                if (!isfinite(row[e]))
                    return broken("values are finite");
            for (size_t e = 0; text && e < elements; e++)
                if (((int32_t *)row)[e] < 0 || ((int32_t *)row)[e] >= dataset->vocabulary.count)
                    return broken("symbols are in the vocabulary");
        }
        dataset_normalisation_release(&normalisation);
    }
    return 0;
}

static int try_dataset(int format, char *path, const char *labels)
{
    struct dataset_config config = {.format = (enum dataset_format)format,
                                    .paths = (const char *const[]){path},
                                    .path_count = 1,
                                    .labels_path = labels,
                                    .text.context = 4};
    struct dataset *dataset = NULL;
    struct error error = {0};
    int result = dataset_open(&config, NULL, &dataset, &error);
    int fault = result < 0 ? 0 : read_samples(dataset);

    dataset_close(dataset);
    return fault ? fault : report(result, &error);
}

static int try_safetensors(const char *path)
{
    struct safetensors file;
    struct error error = {0};
    int result = safetensors_open(path, &file, &error);
    unsigned sum = 0;

    for (int i = 0; result == 0 && i < file.tensor_count; i++)
        for (size_t b = 0; b < file.tensors[i].bytes; b++)
            sum += ((const uint8_t *)file.tensors[i].data)[b];
    if (result == 0)
        safetensors_close(&file);
    return report(result, &error) | (sum == UINT32_MAX); /* the sum is used: bytes were read */
}

int main(void)
{
    char line[2048];

    while (fgets(line, sizeof line, stdin)) {
        char *rest = NULL, *kind = strtok_r(line, " \n", &rest);
        char *path = strtok_r(NULL, " \n", &rest), *labels = strtok_r(NULL, " \n", &rest);
        int format = kind ? dataset_format_from_string(kind) : -1;

        if (!path || (format < 0 && strcmp(kind, "safetensors") != 0)) {
            fprintf(stderr, "usage: see the head of tests/helpers/open_untrusted.c\n");
            return 2;
        }
        if (format < 0 ? try_safetensors(path) : try_dataset(format, path, labels))
            return 1;
        fflush(stdout);
    }
    return 0;
}
