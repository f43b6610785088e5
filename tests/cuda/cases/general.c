/* general.c: a table of cases, which compare_operators runs and judges. They are operators over
 * plain tensors, as models of other programs need them, and those of images that need no window. A
 * product stands before them and a linear layer behind, so the tensors between are stored in the
 * type. */
#include "engine/graph/forward.h"
#include "tests/cuda/cases.h"

#include <string.h>

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define ROWS(count, steps, features) .batch = count, .sample = {steps, features}, .rank = 2
#define IMAGES(count, channels, height, width) \
    .batch = count, .sample = {channels, height, width}, .rank = 3
#define CASE(text, of, function)                             \
    {                                                        \
        .name = text, of, .build = function, .steps = 2, SGD \
    }
/* rounded, numbers may fall on the other side of a step or of a maximum */
#define EXACT(text, of, function)                                                    \
    {                                                                                \
        .name = text, of, .build = function, .steps = 2, .types = FLOAT32_ALONE, SGD \
    }

static int32_t head(struct graph *graph, int32_t x)
{
    return graph_linear(graph, graph_flatten(graph, x, "flatten"), "head", 10, true);
}

/* ---- columns, axes, rows by number ---- */

static int32_t build_slices(struct graph *graph, int32_t x)
{
    int32_t parts[2];

    x = graph_linear(graph, x, "0", 24, true);
    parts[0] = graph_slice(graph, x, 0, 7, "1");
    parts[1] = graph_slice(graph, x, 5, 16, "2");
    return head(graph, graph_concatenate(graph, parts, 2, "3"));
}

static int32_t permuted(struct graph *graph, int32_t x, const struct permute_attributes *how)
{
    x = graph_linear(graph, x, "0", 24, true);
    x = graph_permute(graph, x, how, "1");
    return head(graph, graph_activation(graph, x, "2", ACTIVATION_TANH));
}

/* The axes of heads before those of steps; steps last; a matrix transposed; five axes turned. */
static int32_t build_permute_heads(struct graph *graph, int32_t x)
{
    return permuted(graph, x, &(struct permute_attributes){3, {1, 0, 2}, {9, 3, 8}});
}

static int32_t build_permute_steps(struct graph *graph, int32_t x)
{
    return permuted(graph, x, &(struct permute_attributes){3, {1, 2, 0}, {9, 3, 8}});
}

static int32_t build_permute_matrix(struct graph *graph, int32_t x)
{
    return permuted(graph, x, &(struct permute_attributes){2, {1, 0}, {37, 24}});
}

/* Pairs of axes of which one is the last of the result, the other that of the operand. */
static int32_t build_permute_keys(struct graph *graph, int32_t x)
{
    return permuted(graph, x, &(struct permute_attributes){3, {1, 2, 0}, {37, 2, 12}});
}

static int32_t build_permute_apart(struct graph *graph, int32_t x)
{
    return permuted(graph, x, &(struct permute_attributes){5, {1, 4, 3, 0, 2}, {2, 3, 18, 3, 8}});
}

static int32_t build_permute_axes(struct graph *graph, int32_t x)
{
    return permuted(graph, x, &(struct permute_attributes){5, {4, 1, 3, 0, 2}, {3, 3, 2, 3, 4}});
}

/* The map of a take, as the values of a statistic. */
struct map {
    struct initial_values values;
    struct take_attributes take;
    double rows[64];
};

static void map_read(const struct initial_values *values, int64_t first, int64_t end, float *to)
{
    const struct map *map = (const struct map *)(const void *)values;
    double numbers[256] = {0};

    memcpy(numbers, map->rows, sizeof map->rows);
    take_map_invert(&map->take, numbers);
    for (int64_t i = first; i < end; i++)
        to[i - first] = (float)numbers[i];
}

static int32_t map_append(struct graph *graph, const struct map *map)
{
    const struct graph_shape shape = {.rank = 1, .extent = {take_map_elements(&map->take)}};

    return graph_given_parameter(
        graph, "map", true, &shape,
        (struct initializer){.kind = INITIALIZER_GIVEN, .values = &map->values});
}

/* Rows that are taken twice, once, never; and places that nothing fills. */
static int32_t build_take(struct graph *graph, int32_t x)
{
    static const struct map map = {{.read = map_read}, {1, 9, 8, 24}, {3, -1, 0, 0, 8, -1, 5, 3}};

    x = graph_linear(graph, x, "0", 24, true);
    return head(graph, graph_take(graph, x, map_append(graph, &map), &map.take, "1"));
}

static int32_t build_take_columns(struct graph *graph, int32_t x)
{
    static const struct map map = {{.read = map_read}, {9, 24, 5, 1}, {23, 0, 11, 0, -1}};

    x = graph_linear(graph, x, "0", 24, true);
    return head(graph, graph_take(graph, x, map_append(graph, &map), &map.take, "1"));
}

static int32_t take_parameter(struct graph *graph, int32_t x, const struct map *map)
{
    const struct take_attributes *take = &map->take;
    const int64_t taken = take->outer * take->to * take->inner;
    const struct broadcast_attributes all = {BROADCAST_MULTIPLY, 1, taken, 1};
    const struct graph_shape shape = {.rank = 3, .extent = {take->outer, take->from, take->inner}};
    int32_t parameter = graph_parameter(
        graph, "rows", &shape, (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = 1});

    x = graph_linear(graph, graph_flatten(graph, x, "0"), "0", (int)taken, true);
    parameter = graph_take(graph, parameter, map_append(graph, map), take, "1");
    return head(graph, graph_broadcast(graph, x, parameter, &all, "2"));
}

static int32_t build_take_parameter(struct graph *graph, int32_t x)
{
    static const struct map map = {{.read = map_read}, {2, 3, 4, 9}, {2, 0, 2, -1}};

    return take_parameter(graph, x, &map);
}

static int32_t build_take_wide_parameter(struct graph *graph, int32_t x)
{
    static const struct map map = {{.read = map_read}, {2, 3, 4, 36}, {2, 0, 2, -1}};

    return take_parameter(graph, x, &map);
}

/* ---- sums, softmax, products ---- */

static int32_t summed(struct graph *graph, int32_t x, const struct axis_sum_attributes *how)
{
    x = graph_linear(graph, x, "0", 24, true);
    return head(graph, graph_axis_sum(graph, x, how, "1"));
}

static int32_t build_sum_rows(struct graph *graph, int32_t x)
{
    return summed(graph, x, &(struct axis_sum_attributes){9, 24, 1, 1.0f / 24});
}

static int32_t build_sum_steps(struct graph *graph, int32_t x)
{
    return summed(graph, x, &(struct axis_sum_attributes){1, 9, 24, 0.5f});
}

static int32_t build_sum_all(struct graph *graph, int32_t x)
{
    return summed(graph, x, &(struct axis_sum_attributes){1, 216, 1, 0.1f});
}

/* So many that a block makes a sum. */
static int32_t build_sum_many(struct graph *graph, int32_t x)
{
    static const struct axis_sum_attributes how = {1, 693, 1, 0.1f};

    x = graph_linear(graph, x, "0", 77, true);
    return head(graph, graph_axis_sum(graph, x, &how, "1"));
}

static int32_t build_softmax(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 24, true);
    return head(graph, graph_softmax(graph, x, "1"));
}

static int32_t build_softmax_wide(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 777, true);
    return head(graph, graph_softmax(graph, x, "1"));
}

/* Both factors are made of the samples. */
static int32_t product(struct graph *graph, int32_t x, const struct batch_product_attributes *how)
{
    const int a = (int)(how->groups * how->rows * how->depth);
    const int b = (int)(how->groups * how->depth * how->columns);
    int32_t first, second;

    x = graph_flatten(graph, x, "0");
    first = graph_linear(graph, x, "1", a, true);
    second = graph_linear(graph, x, "2", b, true);
    return head(graph, graph_batch_product(graph, first, second, how, "3"));
}

static int32_t build_product(struct graph *graph, int32_t x)
{
    return product(graph, x, &(struct batch_product_attributes){3, 5, 7, 6, false, false});
}

static int32_t build_product_first(struct graph *graph, int32_t x)
{
    return product(graph, x, &(struct batch_product_attributes){2, 8, 4, 16, true, false});
}

static int32_t build_product_second(struct graph *graph, int32_t x)
{
    return product(graph, x, &(struct batch_product_attributes){2, 33, 17, 8, false, true});
}

static int32_t build_product_both(struct graph *graph, int32_t x)
{
    return product(graph, x, &(struct batch_product_attributes){1, 16, 24, 8, true, true});
}

/* ---- two tensors, number by number ---- */

/* With a parameter of two to three, and with numbers of one to two that the samples make. Where a
 * is a divisor it lies between one and two. */
static int32_t broadcast(struct graph *graph, int32_t x, enum broadcast_kind kind, int64_t outer,
                         int64_t middle, int64_t inner)
{
    const struct broadcast_attributes how = {kind, outer, middle, inner};
    const struct graph_shape shape = {.rank = 1, .extent = {middle}};
    int32_t parameter = graph_parameter(
        graph, "numbers", &shape, (struct initializer){.kind = INITIALIZER_CONSTANT, .bound = 2});
    int32_t own = graph_linear(graph, graph_flatten(graph, x, "0"), "0", (int)middle, false);

    own = graph_affine(graph, graph_activation(graph, own, "1", ACTIVATION_SIGMOID), 1, 1, "2");
    x = graph_linear(graph, x, "3", 24, false);
    if (outer * inner == 1)
        x = graph_flatten(graph, x, "3");
    if (kind == BROADCAST_DIVIDE_REVERSE)
        x = graph_affine(graph, graph_activation(graph, x, "4", ACTIVATION_SIGMOID), 1, 1, "5");
    x = graph_broadcast(graph, x, parameter, &how, "6");
    return head(graph, graph_broadcast(graph, x, own, &how, "7"));
}

#define BROADCASTS(name, outer, middle, inner)                                        \
    static int32_t build_add_##name(struct graph *graph, int32_t x)                   \
    {                                                                                 \
        return broadcast(graph, x, BROADCAST_ADD, outer, middle, inner);              \
    }                                                                                 \
    static int32_t build_subtract_##name(struct graph *graph, int32_t x)              \
    {                                                                                 \
        return broadcast(graph, x, BROADCAST_SUBTRACT, outer, middle, inner);         \
    }                                                                                 \
    static int32_t build_subtract_reverse_##name(struct graph *graph, int32_t x)      \
    {                                                                                 \
        return broadcast(graph, x, BROADCAST_SUBTRACT_REVERSE, outer, middle, inner); \
    }                                                                                 \
    static int32_t build_multiply_##name(struct graph *graph, int32_t x)              \
    {                                                                                 \
        return broadcast(graph, x, BROADCAST_MULTIPLY, outer, middle, inner);         \
    }                                                                                 \
    static int32_t build_divide_##name(struct graph *graph, int32_t x)                \
    {                                                                                 \
        return broadcast(graph, x, BROADCAST_DIVIDE, outer, middle, inner);           \
    }                                                                                 \
    static int32_t build_divide_reverse_##name(struct graph *graph, int32_t x)        \
    {                                                                                 \
        return broadcast(graph, x, BROADCAST_DIVIDE_REVERSE, outer, middle, inner);   \
    }
/* a quotient of two numbers of one sign varies so little that 16 bits do not hold it */
#define BROADCAST_CASES(text, name, count, KIND)                                        \
    KIND("add " text, ROWS(count, 9, 20), build_add_##name),                            \
        KIND("subtract " text, ROWS(count, 9, 20), build_subtract_##name),              \
        KIND("subtract from " text, ROWS(count, 9, 20), build_subtract_reverse_##name), \
        KIND("multiply by " text, ROWS(count, 9, 20), build_multiply_##name),           \
        KIND("divide by " text, ROWS(count, 9, 20), build_divide_##name),               \
        EXACT("divide " text, ROWS(count, 9, 20), build_divide_reverse_##name)

BROADCASTS(row, 9, 24, 1)
BROADCASTS(step, 1, 9, 24)
BROADCASTS(middle, 3, 6, 12)
BROADCASTS(all, 1, 216, 1)
BROADCASTS(single, 216, 1, 1)

/* ---- functions of numbers ---- */

static int32_t function(struct graph *graph, int32_t x, enum number_function kind)
{
    const struct function_attributes how = {kind, 2.5f};

    return head(graph, graph_function(graph, graph_linear(graph, x, "0", 24, true), &how, "1"));
}

/* Of numbers between a half and one and a half. */
static int32_t function_positive(struct graph *graph, int32_t x, enum number_function kind)
{
    const struct function_attributes how = {kind, 2.5f};

    x = graph_linear(graph, x, "0", 24, true);
    x = graph_affine(graph, graph_activation(graph, x, "1", ACTIVATION_SIGMOID), 1, 0.5f, "2");
    return head(graph, graph_function(graph, x, &how, "3"));
}

#define FUNCTION(name, of, kind)                                \
    static int32_t build_##name(struct graph *graph, int32_t x) \
    {                                                           \
        return of(graph, x, kind);                              \
    }
FUNCTION(exp, function, FUNCTION_EXP)
FUNCTION(sin, function, FUNCTION_SIN)
FUNCTION(cos, function, FUNCTION_COS)
FUNCTION(erf, function, FUNCTION_ERF)
FUNCTION(log, function_positive, FUNCTION_LOG)
FUNCTION(sqrt, function_positive, FUNCTION_SQRT)
FUNCTION(reciprocal, function_positive, FUNCTION_RECIPROCAL)
FUNCTION(power, function_positive, FUNCTION_POWER)

/* ---- rounding as integers would ---- */

static int32_t build_fake_quantize(struct graph *graph, int32_t x)
{
    return head(graph, graph_fake_quantize(graph, x, "0"));
}

static int32_t build_fake_quantize_rows(struct graph *graph, int32_t x)
{
    return head(graph, graph_fake_quantize_rows(graph, x, "0"));
}

/* ---- images ---- */

static int32_t convolved(struct graph *graph, int32_t x, int channels)
{
    static const struct conv_attributes conv = SQUARE(1, 1, 0);

    return graph_conv2d(graph, x, "0", channels, &conv, false);
}

static int32_t build_adaptive_average(struct graph *graph, int32_t x)
{
    x = convolved(graph, x, 8);
    return head(graph, graph_adaptive_average_pool2d(graph, x, "1", 3, 5));
}

/* Almost as many results as pixels: windows overlap. */
static int32_t build_adaptive_overlapping(struct graph *graph, int32_t x)
{
    x = convolved(graph, x, 5);
    return head(graph, graph_adaptive_average_pool2d(graph, x, "1", 4, 7));
}

static int32_t build_adaptive_max(struct graph *graph, int32_t x)
{
    x = convolved(graph, x, 8);
    return head(graph, graph_adaptive_max_pool2d(graph, x, "1", 3, 5));
}

static int32_t resized(struct graph *graph, int32_t x, int64_t height, int64_t width,
                       enum resize_mode mode)
{
    const struct resize resize = {.height = height, .width = width, .mode = mode};

    return head(graph, graph_resize2d(graph, convolved(graph, x, 8), "1", &resize));
}

static int32_t build_nearest(struct graph *graph, int32_t x)
{
    return resized(graph, x, 16, 14, RESIZE_NEAREST);
}

static int32_t build_nearest_smaller(struct graph *graph, int32_t x)
{
    return resized(graph, x, 3, 5, RESIZE_NEAREST);
}

static int32_t build_bilinear(struct graph *graph, int32_t x)
{
    return resized(graph, x, 17, 21, RESIZE_BILINEAR);
}

static int32_t build_bilinear_smaller(struct graph *graph, int32_t x)
{
    return resized(graph, x, 3, 1, RESIZE_BILINEAR);
}

static int32_t build_bilinear_corners(struct graph *graph, int32_t x)
{
    return resized(graph, x, 19, 1, RESIZE_BILINEAR_CORNERS);
}

/* Numbers whose mean is far larger than their deviation. */
static int32_t build_batch_norm_far(struct graph *graph, int32_t x)
{
    x = graph_affine(graph, x, 1, 30, "shift");
    return head(graph, graph_batch_norm(graph, x, "1", 1e-5f, 0.1f));
}

static int32_t group_normed(struct graph *graph, int32_t x, int channels, int groups)
{
    x = graph_group_norm(graph, convolved(graph, x, channels), "1", groups, 1e-5f);
    return head(graph, graph_activation(graph, x, "2", ACTIVATION_SILU));
}

static int32_t build_group_norm(struct graph *graph, int32_t x)
{
    return group_normed(graph, x, 24, 4);
}

static int32_t build_instance_norm(struct graph *graph, int32_t x)
{
    return group_normed(graph, x, 5, 5);
}

static int32_t build_one_group(struct graph *graph, int32_t x)
{
    return group_normed(graph, x, 40, 1);
}

/* Of sequences: [B,C,L]. */
static int32_t build_group_norm_rows(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 24, true);
    x = graph_group_norm(graph, x, "1", 3, 1e-5f);
    return head(graph, graph_activation(graph, x, "2", ACTIVATION_SILU));
}

/* So long that a group is divided. */
static int32_t build_group_norm_long(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 1500, true);
    x = graph_group_norm(graph, x, "1", 3, 1e-5f);
    return head(graph, graph_activation(graph, x, "2", ACTIVATION_SILU));
}

/* Of rows: [B,C]. */
static int32_t build_group_norm_numbers(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, graph_flatten(graph, x, "0"), "0", 48, true);
    x = graph_group_norm(graph, x, "1", 4, 1e-5f);
    return head(graph, graph_activation(graph, x, "2", ACTIVATION_SILU));
}

static int32_t build_channel_dropout(struct graph *graph, int32_t x)
{
    x = graph_channel_dropout(graph, convolved(graph, x, 12), "1", 0.4f);
    return head(graph, x);
}

static int32_t build_channel_dropout_rows(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 24, true);
    return head(graph, graph_channel_dropout(graph, x, "1", 0.4f));
}

/* A transposed convolution has a bias of channels. */
static int32_t build_transposed(struct graph *graph, int32_t x)
{
    static const struct conv_attributes conv = SQUARE(2, 2, 0);
    static const int padding[2] = {0, 0};

    x = graph_conv_transpose2d(graph, convolved(graph, x, 8), "1", 12, &conv, padding, true);
    return head(graph, x);
}

/* Rows of an image are multiplied by a parameter that has the image's axes. */
static int32_t build_image_parameter(struct graph *graph, int32_t x)
{
    static const struct broadcast_attributes all = {BROADCAST_MULTIPLY, 1, 448, 1};
    const struct graph_shape shape = {.rank = 4, .extent = {1, 8, 8, 7}};
    int32_t parameter = graph_parameter(
        graph, "scale", &shape, (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = 1});

    x = graph_flatten(graph, convolved(graph, x, 8), "1");
    x = graph_broadcast(graph, x, parameter, &all, "2");
    x = graph_reshape(graph, x, "3", (int64_t[]){8, 8, 7}, 3);
    return head(graph, graph_activation(graph, x, "4", ACTIVATION_TANH));
}

/* Positions, as models have them that add them to images whose channels are last. */
static int32_t build_image_positions(struct graph *graph, int32_t x)
{
    const struct graph_shape shape = {.rank = 4, .extent = {1, 3, 3, 24}};
    int32_t parameter = graph_parameter(
        graph, "positions", &shape, (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = 1});

    x = graph_add_positions(graph, graph_linear(graph, x, "0", 24, true), "1", parameter);
    return head(graph, graph_activation(graph, x, "2", ACTIVATION_TANH));
}

static int32_t build_conv1d(struct graph *graph, int32_t x)
{
    static const struct conv_attributes conv = WINDOW(1, 3, 1, 2, 0, 1);

    x = graph_linear(graph, x, "0", 24, true);
    x = graph_conv1d(graph, x, "1", 16, &conv, true);
    return head(graph, graph_activation(graph, x, "2", ACTIVATION_TANH));
}

static const struct test_case cases[] = {
    CASE("slices", ROWS(6, 9, 20), build_slices),
    CASE("permute heads", ROWS(6, 9, 20), build_permute_heads),
    CASE("permute steps to the end", ROWS(6, 9, 20), build_permute_steps),
    CASE("permute a matrix", ROWS(6, 37, 20), build_permute_matrix),
    CASE("permute keys", ROWS(6, 37, 20), build_permute_keys),
    CASE("permute axes that lie apart", ROWS(6, 108, 20), build_permute_apart),
    CASE("permute five axes", ROWS(6, 9, 20), build_permute_axes),
    CASE("take rows", ROWS(6, 9, 20), build_take),
    CASE("take columns", ROWS(6, 9, 20), build_take_columns),
    CASE("take rows of a parameter", ROWS(70, 9, 20), build_take_parameter),
    CASE("take wide rows of a parameter", ROWS(70, 9, 20), build_take_wide_parameter),
    CASE("mean of rows", ROWS(6, 9, 20), build_sum_rows),
    CASE("sum of steps", ROWS(6, 9, 20), build_sum_steps),
    CASE("sum of a sample", ROWS(6, 9, 20), build_sum_all),
    EXACT("sum of a long sample", ROWS(6, 9, 20), build_sum_many),
    CASE("softmax", ROWS(6, 9, 20), build_softmax),
    CASE("softmax of long rows", ROWS(6, 3, 20), build_softmax_wide),
    EXACT("softmax of 40,000 rows", ROWS(20000, 2, 3), build_softmax),
    EXACT("batch product, 34,000 matrices", ROWS(17000, 1, 4), build_product_first),
    CASE("batch product", ROWS(6, 3, 20), build_product),
    CASE("batch product, first transposed", ROWS(6, 3, 20), build_product_first),
    CASE("batch product, second transposed", ROWS(6, 3, 20), build_product_second),
    CASE("batch product, both transposed", ROWS(6, 3, 20), build_product_both),
    BROADCAST_CASES("a row", row, 6, CASE),
    BROADCAST_CASES("a number of each step", step, 8, CASE),
    BROADCAST_CASES("a middle axis", middle, 7, EXACT),
    BROADCAST_CASES("as many numbers", all, 6, CASE),
    BROADCAST_CASES("a single number", single, 6, EXACT),
    BROADCAST_CASES("a single number, many samples", single, 300, EXACT),
    /* So many that a block makes their sum. The terms of "add" would nearly cancel. */
    EXACT("multiply by a single number, 700 samples", ROWS(700, 9, 20), build_multiply_single),
    BROADCAST_CASES("a row, many samples", row, 300, EXACT),
    BROADCAST_CASES("a number of each step, many samples", step, 300, EXACT),
    {.name = "multiply by a row, accumulated",
     ROWS(6, 9, 20),
     .build = build_multiply_row,
     .accumulate = true,
     SGD},
    CASE("exp", ROWS(6, 9, 20), build_exp),
    EXACT("log", ROWS(6, 9, 20), build_log),
    EXACT("sqrt", ROWS(6, 9, 20), build_sqrt),
    EXACT("reciprocal", ROWS(6, 9, 20), build_reciprocal),
    CASE("sin", ROWS(6, 9, 20), build_sin),
    CASE("cos", ROWS(6, 9, 20), build_cos),
    CASE("erf", ROWS(6, 9, 20), build_erf),
    EXACT("power", ROWS(6, 9, 20), build_power),
    EXACT("fake quantize", ROWS(6, 9, 20), build_fake_quantize),
    EXACT("fake quantize images", IMAGES(6, 3, 9, 7), build_fake_quantize),
    EXACT("fake quantize rows", ROWS(6, 9, 20), build_fake_quantize_rows),
    CASE("adaptive average", IMAGES(5, 3, 9, 11), build_adaptive_average),
    CASE("adaptive average, overlapping", IMAGES(5, 3, 5, 8), build_adaptive_overlapping),
    EXACT("adaptive maximum", IMAGES(5, 3, 9, 11), build_adaptive_max),
    EXACT("batch norm, mean far from 0", IMAGES(40, 4, 16, 16), build_batch_norm_far),
    CASE("nearest, larger", IMAGES(5, 3, 8, 7), build_nearest),
    CASE("nearest, smaller", IMAGES(5, 3, 8, 7), build_nearest_smaller),
    CASE("bilinear, larger", IMAGES(5, 3, 8, 7), build_bilinear),
    CASE("bilinear, smaller", IMAGES(5, 3, 8, 7), build_bilinear_smaller),
    CASE("bilinear, corners", IMAGES(5, 3, 8, 7), build_bilinear_corners),
    CASE("group norm", IMAGES(5, 3, 8, 7), build_group_norm),
    CASE("instance norm", IMAGES(5, 3, 8, 7), build_instance_norm),
    CASE("group norm, one group", IMAGES(5, 3, 20, 20), build_one_group),
    CASE("group norm of sequences", ROWS(6, 9, 20), build_group_norm_rows),
    CASE("group norm of long sequences", ROWS(3, 9, 20), build_group_norm_long),
    CASE("group norm of numbers", ROWS(40, 9, 20), build_group_norm_numbers),
    {.name = "group norm, accumulated",
     IMAGES(5, 3, 8, 7),
     .build = build_group_norm,
     .accumulate = true,
     SGD},
    {.name = "group norm, evaluation",
     IMAGES(5, 3, 8, 7),
     .build = build_group_norm,
     .evaluation = true,
     SGD},
    CASE("channel dropout", IMAGES(5, 3, 8, 7), build_channel_dropout),
    CASE("channel dropout of sequences", ROWS(6, 9, 20), build_channel_dropout_rows),
    CASE("transposed convolution", IMAGES(5, 3, 8, 7), build_transposed),
    CASE("parameter of an image's shape", IMAGES(5, 3, 8, 7), build_image_parameter),
    CASE("positions of an image's shape", ROWS(6, 9, 20), build_image_positions),
    CASE("conv1d", ROWS(6, 9, 20), build_conv1d),
};

const struct case_table general_cases = {cases, sizeof cases / sizeof *cases};
