/* open_untrusted.c: opens files of strangers, for tests/fuzz.
 *
 *   open_untrusted idx IMAGES LABELS | npy SAMPLES LABELS | csv FILE | text FILE |
 *                  cifar_binary FILE | safetensors FILE | image FILE | cache FILE | onnx FILE
 *
 * takes its cases from standard input, one a line, and answers each with a line: "ok" or the
 * sentence. `cache` puts the file in the place of a cached set (below XDG_CACHE_HOME) and asks for
 * that set, which must be right in any case: "ok" when the file was used. `onnx` makes a graph of
 * the file and its gradients, and computes them once. What opens is read from beginning to end. The
 * exit status is 1 when a promise is broken (a refusal without a sentence, values outside of what
 * was announced), 0 otherwise. */
#include "base/cleanup.h"
#include "base/file.h"
#include "engine/data/cache.h"
#include "engine/data/dataset.h"
#include "engine/data/image.h"
#include "engine/data/image_resize.h"
#include "engine/graph/forward.h"
#include "engine/onnx/onnx.h"
#include "engine/train/safetensors.h"
#include "tests/support/session.h"

#include <fcntl.h>
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
    for (const char *at = result < 0 ? error->text : "ok"; *at; at++)
        putchar(*at == '\n' || *at == '\r' ? ' ' : *at); /* names in the file may have them */
    putchar('\n');
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

static int try_image(const char *path)
{
    struct image image = {0};
    struct image_resizer resizer = {0};
    struct error error = {0};
    AUTO_FREE char *bytes = NULL;
    AUTO_FREE uint8_t *planes = NULL;
    uint8_t resized[3 * 16];
    size_t size;
    int result = file_read(AT_FDCWD, path, 1 << 24, &bytes, &size, &error);

    if (result == 0)
        result = image_decode(path, (const uint8_t *)bytes, size, &image, &error);
    if (result == 0) {
        planes = malloc((size_t)(3 * image.width * image.height));
        if (!planes)
            return broken("there is memory");
        image_to_planes(&image, 1, planes);
        image_to_planes(&image, 3, planes);
        result =
            image_resize(&resizer, planes, 3, image.height, image.width, resized, 4, 4, &error);
    }
    image_resizer_release(&resizer);
    image_release(&image);
    return report(result, &error);
}

/* ---- the cache ---- */

enum { CACHED_COUNT = 5, CACHED_ELEMENTS = 3 * 4 * 4 };
static bool made;
static char warning[ERROR_TEXT_MAX];

static int make_cached(void *context, void *samples, void *targets, struct error *error)
{
    (void)context;
    (void)error;
    made = true;
    for (int i = 0; i < CACHED_COUNT * CACHED_ELEMENTS; i++)
        ((uint8_t *)samples)[i] = (uint8_t)(i * 11);
    for (int i = 0; i < CACHED_COUNT; i++)
        ((int32_t *)targets)[i] = i;
    return 0;
}

static void on_warning(void *context, const char *text)
{
    (void)context;
    snprintf(warning, sizeof warning, "%s", text);
}

/* Copies the file to where the cached set is looked for. */
static int put_into_cache(const char *path, const char *identity, struct error *error)
{
    AUTO_FREE char *folder_path = NULL, *bytes = NULL;
    AUTO_CLOSE int folder = cache_folder_open(&folder_path, error);
    char name[CACHE_NAME_SIZE];
    size_t size;

    if (folder < 0 || file_read(AT_FDCWD, path, 1 << 24, &bytes, &size, error) < 0)
        return -1;
    snprintf(name, sizeof name, "%.64s.data", identity);
    return file_replace(folder, name, bytes, size, 0600, false, error);
}

static int try_cache(const char *path)
{
    static const struct dataset_events events = {.warning = on_warning};
    struct cache_entry entry = {.source = "the set of the test",
                                .element = DATASET_UINT8,
                                .rank = 3,
                                .shape = {3, 4, 4},
                                .count = CACHED_COUNT,
                                .target_width = 1,
                                .make = make_cached,
                                .events = &events};
    struct dataset *dataset = calloc(1, sizeof *dataset);
    struct error error = {0};
    bool right;

    memset(entry.identity, 'a', sizeof entry.identity - 1);
    memset(entry.content, 'b', sizeof entry.content - 1);
    made = false;
    warning[0] = '\0';
    if (strcmp(path, "-") != 0 && put_into_cache(path, entry.identity, &error) < 0)
        return broken(error.text);
    if (!dataset || cache_obtain(&entry, dataset, &error) < 0)
        return broken("a damaged file of the cache is made again");
    right = dataset->count == CACHED_COUNT;
    for (int i = 0; right && i < CACHED_COUNT * CACHED_ELEMENTS; i++)
        right = dataset->samples[0][i] == (uint8_t)(i * 11);
    for (int i = 0; right && i < CACHED_COUNT; i++)
        right = dataset->labels[i] == i;
    dataset_close(dataset);
    if (!right)
        return broken("a cached set is right");
    if (made && strcmp(path, "-") != 0 && !*warning)
        return broken("a damaged file of the cache is named");
    printf("%s%s\n", made ? path : "ok", made ? warning : "");
    return 0;
}

/* ---- models ---- */

/* The samples that the model names; an extent that is left open, or too long, is 8. */
static int32_t input_append(struct graph *graph, const struct onnx_interface *interface)
{
    int64_t shape[GRAPH_RANK_MAX] = {3, 8, 8};
    int rank = interface->rank > 0 && interface->rank < GRAPH_RANK_MAX ? interface->rank : 3;

    for (int r = 0; r < rank && interface->rank; r++) {
        int64_t extent = interface->sample_shape[r];

        shape[r] = extent < 1 || extent > 256 ? 8 : extent;
    }
    return graph_input(graph, interface->symbols ? TENSOR_INT32 : TENSOR_FLOAT32, shape, rank);
}

/* The first values of all parameters; what a damaged file makes too large stays unread. */
static void read_values(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        const struct initial_values *values = tensor->initializer.values;
        int64_t elements = graph_shape_elements(&tensor->shape);
        AUTO_FREE float *room = NULL;

        if (!values || elements < 1 || elements > 1 << 24)
            continue;
        room = malloc((size_t)elements * sizeof *room);
        if (room)
            values->read(values, 0, elements, room);
    }
}

/* One forward and one backward pass over inputs of zeros, unless the graph is large. */
static void pass_run(const struct graph *graph)
{
    enum { ELEMENTS_MAX = 1 << 20 };
    static const struct test_session_options options = {.threads = 1};
    static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};
    static _Alignas(64) const float zeros[ELEMENTS_MAX];
    const int32_t inputs[] = {graph->input, graph->target, graph->lengths};
    struct test_session session;
    int64_t sum = 0;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        int64_t elements = graph_shape_elements(&graph->tensors[i].shape);

        if (elements > ELEMENTS_MAX || (sum += elements) > 4 * ELEMENTS_MAX)
            return;
    }
    test_session_open(&session, graph, &options);
    test_session_initialize(&session, 1);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] >= 0)
            test_session_input(&session, inputs[i], zeros);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    test_session_close(&session);
}

static int try_onnx(const char *path)
{
    struct onnx_model *model = NULL;
    struct error error = {0};
    struct graph graph;
    int32_t x, output = -1;
    int result = onnx_open(NULL, path, &model, &error);
    struct onnx_interface interface;

    if (result < 0)
        return report(result, &error);
    interface = onnx_interface(model);
    graph_init(&graph, 2, true);
    x = input_append(&graph, &interface);
    if (x >= 0)
        result = onnx_build(model, true, &graph, x, &output, &error);
    if (result == 0 && !graph.error.code)
        graph_mse(&graph, graph_flatten(&graph, output, "flatten"));
    if (result == 0 && !graph.error.code)
        result = graph_differentiate(&graph, &error);
    if (result == 0)
        result = graph_finish(&graph, &error);
    if (result == 0)
        read_values(&graph);
    if (result == 0)
        pass_run(&graph);
    result = report(result, &error);
    graph_release(&graph);
    onnx_close(model);
    return result;
}

static int try_one(const char *kind, int format, char *path, const char *labels)
{
    if (format >= 0)
        return try_dataset(format, path, labels);
    if (strcmp(kind, "onnx") == 0)
        return try_onnx(path);
    if (strcmp(kind, "image") == 0)
        return try_image(path);
    return strcmp(kind, "cache") == 0 ? try_cache(path) : try_safetensors(path);
}

int main(void)
{
    char line[2048];

    while (fgets(line, sizeof line, stdin)) {
        char *rest = NULL, *kind = strtok_r(line, " \n", &rest);
        char *path = strtok_r(NULL, " \n", &rest), *labels = strtok_r(NULL, " \n", &rest);
        int format = kind ? dataset_format_from_string(kind) : -1;

        if (!path ||
            (format < 0 && strcmp(kind, "safetensors") != 0 && strcmp(kind, "image") != 0 &&
             strcmp(kind, "cache") != 0 && strcmp(kind, "onnx") != 0)) {
            fprintf(stderr, "usage: see the head of tests/helpers/open_untrusted.c\n");
            return 2;
        }
        if (try_one(kind, format, path, labels))
            return 1;
        fflush(stdout);
    }
    return 0;
}
