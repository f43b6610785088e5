/* test_onnx_export.c: files that onnx_export_write() writes, beside what runtimes make of them
 * (tests/reference/check-onnx-export, which needs onnxruntime). */
#include "base/file.h"
#include "engine/graph/forward.h"
#include "engine/onnx/onnx.pb-c.h"
#include "engine/onnx/onnx_export.h"
#include "tests/support/temporary_folder.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The graph has no parameters. */
static int read_nothing(void *context, const struct graph_tensor *tensor, float *values,
                        struct error *error)
{
    (void)context;
    (void)values;
    return error_set(error, -1, "there is no %s", tensor->name);
}

/* What a runtime takes for each pixel of the height, of a file that resizes or gathers. */
static void read_pixels(const Onnx__Graph *file, int64_t from, const struct resize *resize,
                        int64_t *pixels)
{
    const ProtobufCBinaryData *data = &file->initializer[0]->raw_data;
    float factor;

    if (strcmp(file->node[0]->op_type, "Gather") == 0) {
        assert_int_equal(data->len, (size_t)resize->height * sizeof *pixels);
        memcpy(pixels, data->data, data->len);
        return;
    }
    memcpy(&factor, data->data + 2 * sizeof factor, sizeof factor);
    assert_int_equal((int64_t)((float)from * factor), resize->height);
    for (int64_t i = 0; i < resize->height; i++)
        pixels[i] = (int64_t)fminf((float)(from - 1), floorf((float)i / factor));
}

/* Writes a graph that resizes; the caller releases the file with onnx__model__free_unpacked(). */
static Onnx__Model *export_resize(int64_t from, const struct resize *resize)
{
    struct onnx_export config = {.read = read_nothing};
    const char *path = temporary_path("resize.onnx");
    struct error error = {0};
    struct graph graph;
    Onnx__Model *model;
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
    free(content);
    graph_release(&graph);
    return model;
}

/* Runtimes take the extent times the factor, rounded down. */
static void runtimes_resize_to_the_same_extents(void **state)
{
    (void)state;
    for (int64_t from = 1; from < 12; from += 3)
        for (int64_t to = 4; to < 60; to += 11)
            for (int mode = RESIZE_NEAREST; mode <= RESIZE_BILINEAR_CORNERS; mode++) {
                const struct resize resize = {.mode = mode, .height = to, .width = 60 - to};
                Onnx__Model *model = export_resize(from, &resize);
                float factors[2];

                if (strcmp(model->graph->node[0]->op_type, "Gather") == 0) {
                    onnx__model__free_unpacked(model, NULL);
                    continue;
                }
                memcpy(factors, model->graph->initializer[0]->raw_data.data + 2 * sizeof(float),
                       sizeof factors);
                onnx__model__free_unpacked(model, NULL);
                if ((int64_t)((float)from * factors[0]) != resize.height ||
                    (int64_t)((float)from * factors[1]) != resize.width)
                    fail_msg("%lld becomes not %lld x %lld", (long long)from,
                             (long long)resize.height, (long long)resize.width);
            }
}

/* Beside a whole number either way of rounding may give the pixel before it. */
static void runtimes_take_the_same_pixels(void **state)
{
    enum { FROM = 30, MOST = 130 };

    (void)state;
    for (int64_t to = 4; to < MOST; to += 9) {
        const double scale = to == 49 ? 1.7 : (double)to / FROM;
        const struct resize resize = {.mode = RESIZE_NEAREST,
                                      .height = (int64_t)(FROM * scale),
                                      .width = FROM,
                                      .scale = {scale, 1}};
        Onnx__Model *model = export_resize(FROM, &resize);
        int64_t pixels[MOST];

        read_pixels(model->graph, FROM, &resize, pixels);
        onnx__model__free_unpacked(model, NULL);
        for (int64_t i = 0; i < resize.height; i++) {
            int64_t wanted = (int64_t)floorf((float)i * (float)(1 / scale));

            assert_int_equal(pixels[i], wanted < FROM ? wanted : FROM - 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runtimes_resize_to_the_same_extents),
        cmocka_unit_test(runtimes_take_the_same_pixels),
    };

    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
