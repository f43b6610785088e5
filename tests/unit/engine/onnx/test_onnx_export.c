/* test_onnx_export.c: files that onnx_export_write() writes, beside what runtimes make of them
 * (tests/reference/check-onnx-export, which needs onnxruntime). */
#include "base/file.h"
#include "engine/graph/forward.h"
#include "engine/onnx/onnx.pb-c.h"
#include "engine/onnx/onnx_export.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char path[] = "/tmp/test-onnx-export.XXXXXX";

static int file_make(void **state)
{
    (void)state;
    return mkstemp(path) < 0 ? -1 : 0;
}

static int file_remove(void **state)
{
    (void)state;
    return remove(path);
}

/* The graph has no parameters. */
static int read_nothing(void *context, const struct graph_tensor *tensor, float *values,
                        struct error *error)
{
    (void)context;
    (void)values;
    return error_set(error, -1, "there is no %s", tensor->name);
}

/* Writes a graph that resizes, and gives the file's factors of height and width. */
static void export_resize(int64_t from, const struct resize *resize, float factors[2])
{
    struct onnx_export config = {.read = read_nothing};
    struct error error = {0};
    struct graph graph;
    Onnx__Model *model;
    const Onnx__Tensor *scales;
    uint64_t bytes;
    char *content = NULL;
    size_t size = 0;
    int32_t x;

    graph_init(&graph, 1, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){1, from, from}, 3);
    graph_resize2d(&graph, x, "resize", resize);
    assert_int_equal(graph_finish(&graph, &error), 0);
    config.graph = &graph;
    if (onnx_export_write(&config, path, &bytes, &error) < 0 ||
        file_read(AT_FDCWD, path, 1 << 20, &content, &size, &error) < 0)
        fail_msg("%s", error.text);
    model = onnx__model__unpack(NULL, size, (const uint8_t *)content);
    assert_non_null(model);
    assert_int_equal(model->graph->n_initializer, 1);
    scales = model->graph->initializer[0];
    assert_int_equal(scales->raw_data.len, 4 * sizeof(float));
    memcpy(factors, scales->raw_data.data + 2 * sizeof(float), 2 * sizeof(float));
    onnx__model__free_unpacked(model, NULL);
    free(content);
    graph_release(&graph);
}

/* Runtimes take the extent times the factor, rounded down. */
static void runtimes_resize_to_the_same_extents(void **state)
{
    (void)state;
    for (int64_t from = 1; from < 12; from += 3)
        for (int64_t to = 4; to < 60; to += 11)
            for (int mode = RESIZE_NEAREST; mode <= RESIZE_BILINEAR_CORNERS; mode++) {
                const struct resize resize = {.mode = mode, .height = to, .width = 60 - to};
                float factors[2];

                export_resize(from, &resize, factors);
                if ((int64_t)((float)from * factors[0]) != resize.height ||
                    (int64_t)((float)from * factors[1]) != resize.width)
                    fail_msg("%lld becomes not %lld x %lld", (long long)from,
                             (long long)resize.height, (long long)resize.width);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runtimes_resize_to_the_same_extents),
    };

    return cmocka_run_group_tests(tests, file_make, file_remove);
}
