/* test_gradients_general.c: the gradients of operators over plain tensors on the CPU backend
 * against finite differences of the loss (tests/support/finite_differences.h). */
#include "engine/graph/forward.h"
#include "tests/support/finite_differences.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 3, STEPS = 4, WIDTH = 6, COUNT = STEPS * WIDTH };

/* Appends what is tested behind x [B,STEPS,WIDTH]. */
typedef int32_t appender(struct graph *graph, int32_t x, const void *how);

/* Numbers from 0.5 to 1.5, so that quotients are tame. */
static void fill(float *values, int64_t count, int factor)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(i * factor % 101) / 101.0f + 0.5f;
}

static void check(const char *name, appender *append, const void *how)
{
    float *samples = gradients_allocate(BATCH * COUNT), *target;
    struct error error = {0};
    struct graph graph;
    int64_t elements;
    int32_t x;

    graph_init(&graph, BATCH, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){STEPS, WIDTH}, 2);
    x = graph_flatten(&graph, append(&graph, x, how), "flatten");
    if (graph.error.code)
        fail_msg("%s: %s", name, graph.error.text);
    elements = graph_shape_elements(&graph.tensors[x].shape);
    graph_mse(&graph, x);
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s: %s", name, error.text);
    target = gradients_allocate(elements);
    fill(samples, BATCH * COUNT, 37);
    fill(target, elements, 53);
    gradients_check(name, &graph, NULL, samples, target);
    graph_release(&graph);
    free(samples);
    free(target);
}

static int32_t append_slices(struct graph *graph, int32_t x, const void *how)
{
    int32_t parts[2] = {graph_slice(graph, x, 0, 3, "0"), graph_slice(graph, x, 2, 4, "1")};

    (void)how;
    return graph_concatenate(graph, parts, 2, "2");
}

static int32_t append_permute(struct graph *graph, int32_t x, const void *how)
{
    return graph_permute(graph, x, how, "0");
}

static int32_t append_affine(struct graph *graph, int32_t x, const void *how)
{
    (void)how;
    return graph_affine(graph, x, -1.5f, 0.25f, "0");
}

static int32_t append_softmax(struct graph *graph, int32_t x, const void *how)
{
    (void)how;
    return graph_softmax(graph, graph_affine(graph, x, 3, 0, "0"), "1");
}

static void test_moves(void **state)
{
    const struct permute_attributes permute = {.rank = 3, .order = {1, 2, 0}, .extent = {4, 2, 3}};

    (void)state;
    check("slice", append_slices, NULL);
    check("permute", append_permute, &permute);
    check("affine", append_affine, NULL);
    check("softmax", append_softmax, NULL);
}

/* With a parameter, and with the sums or the first numbers of the samples. */
static int32_t append_broadcast(struct graph *graph, int32_t x, const void *how)
{
    const struct broadcast_attributes *broadcast = how;
    const struct graph_shape shape = {.rank = 1, .extent = {broadcast->middle}};
    int32_t parameter = graph_parameter(
        graph, "parameter", &shape, (struct initializer){.kind = INITIALIZER_CONSTANT, .bound = 2});
    int32_t row = graph_slice(graph, graph_flatten(graph, x, "0"), 1, broadcast->middle, "1");
    int32_t y = graph_broadcast(graph, x, parameter, broadcast, "2");

    return graph_broadcast(graph, y, row, broadcast, "3");
}

static void test_broadcasts(void **state)
{
    static const int64_t extents[][3] = {{4, 6, 1}, {1, 4, 6}, {2, 2, 6}, {24, 1, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        for (int kind = BROADCAST_ADD; kind <= BROADCAST_DIVIDE_REVERSE; kind++) {
            const struct broadcast_attributes how = {(enum broadcast_kind)kind, extents[i][0],
                                                     extents[i][1], extents[i][2]};

            check("broadcast", append_broadcast, &how);
        }
}

/* x W, with x or W stored transposed; both are made of the samples. */
static int32_t append_product(struct graph *graph, int32_t x, const void *how)
{
    int32_t y = graph_affine(graph, x, 0.5f, 0.1f, "0");

    return graph_batch_product(graph, x, y, how, "1");
}

static void test_products(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 4; transposed++) {
        const struct batch_product_attributes product = {
            .groups = 2,
            .rows = 3,
            .columns = 3,
            .depth = 4,
            .transpose_a = transposed & 1,
            .transpose_b = transposed & 2,
        };

        check("batch_product", append_product, &product);
    }
}

/* Images of 2x2 pixels whose channels are divided and joined in another order, in blocks of
 * different sizes where the channels fill them. */
static int32_t append_images(struct graph *graph, int32_t x, const void *how)
{
    const struct conv_attributes pixel = {
        .stride = {1, 1}, .dilation = {1, 1}, .kernel = {1, 1}, .groups = 1};
    const int64_t widths[2] = {*(const int64_t *)how, 24 - *(const int64_t *)how};
    int32_t parts[2];

    x = graph_reshape(graph, x, "0", (int64_t[]){6, 2, 2}, 3);
    x = graph_conv2d(graph, x, "1", 24, &pixel, true);
    graph_split(graph, x, widths, 2, parts, "2");
    x = graph_concatenate(graph, (int32_t[]){parts[1], x, parts[0]}, 3, "3");
    return graph_image_tokens(graph, x, "4");
}

static void test_channels(void **state)
{
    (void)state;
    check("channels in blocks", append_images, (const int64_t[]){16});
    check("channels", append_images, (const int64_t[]){5});
}

static int32_t append_function(struct graph *graph, int32_t x, const void *how)
{
    return graph_function(graph, x, how, "0");
}

static void test_functions(void **state)
{
    (void)state;
    for (int kind = FUNCTION_EXP; kind <= FUNCTION_POWER; kind++) {
        const struct function_attributes function = {(enum number_function)kind, 2.5f};

        check(number_function_to_string(function.kind), append_function, &function);
    }
}

/* The map of a take, as the values of a statistic. */
struct map {
    struct initial_values values;
    const struct take_attributes *take;
    const double *rows;
};

static void map_read(const struct initial_values *values, int64_t first, int64_t end, float *to)
{
    const struct map *map = (const struct map *)values;
    double numbers[64] = {0};

    assert_true(take_map_elements(map->take) <= 64);
    memcpy(numbers, map->rows, (size_t)map->take->to * sizeof *numbers);
    take_map_invert(map->take, numbers);
    for (int64_t i = first; i < end; i++)
        to[i - first] = (float)numbers[i];
}

static int32_t map_append(struct graph *graph, const struct map *map)
{
    const struct graph_shape shape = {.rank = 1, .extent = {take_map_elements(map->take)}};

    return graph_given_parameter(
        graph, "map", true, &shape,
        (struct initializer){.kind = INITIALIZER_GIVEN, .values = &map->values});
}

static int32_t append_take(struct graph *graph, int32_t x, const void *how)
{
    const struct map *map = how;

    return graph_take(graph, x, map_append(graph, map), map->take, "0");
}

/* The same rows of a parameter, added to the samples' numbers. */
static int32_t append_take_shared(struct graph *graph, int32_t x, const void *how)
{
    const struct map *map = how;
    const struct graph_shape shape = {
        .rank = 3, .extent = {map->take->outer, map->take->from, map->take->inner}};
    struct broadcast_attributes all = {BROADCAST_MULTIPLY, 1, COUNT, 1};
    int32_t parameter = graph_parameter(
        graph, "parameter", &shape, (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = 1});

    parameter = graph_take(graph, parameter, map_append(graph, map), map->take, "0");
    return graph_broadcast(graph, graph_flatten(graph, x, "1"), parameter, &all, "2");
}

/* Rows that are taken twice, once, never; and places that nothing fills. */
static void test_takes(void **state)
{
    static const double rows[] = {3, -1, 0, 0, 2, -1}, shared[] = {1, 1, -1, 0, 2, 1, 0, 2};
    static const struct take_attributes takes[] = {{1, 4, 6, 6}, {6, 4, 6, 1}, {2, 4, 6, 3}};
    static const struct take_attributes other = {1, 3, 8, 3};
    const struct map map = {{.read = map_read}, &other, shared};

    (void)state;
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)
        check("take", append_take, &(struct map){{.read = map_read}, &takes[i], rows});
    check("take of a parameter", append_take_shared, &map);
}

static int32_t append_axis_sum(struct graph *graph, int32_t x, const void *how)
{
    return graph_axis_sum(graph, x, how, "0");
}

static void test_axis_sums(void **state)
{
    static const struct axis_sum_attributes sums[] = {
        {4, 6, 1, 0.5f}, {1, 4, 6, 1}, {2, 3, 4, -2}, {1, 24, 1, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        check("axis_sum", append_axis_sum, &sums[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),     cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_products),  cmocka_unit_test(test_channels),
        cmocka_unit_test(test_functions), cmocka_unit_test(test_takes),
        cmocka_unit_test(test_axis_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
