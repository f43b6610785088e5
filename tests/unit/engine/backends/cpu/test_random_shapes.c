/* test_random_shapes.c [CASES [SEED]]: plans networks of small convolutions of every shape, and
 * runs them forward and backward on the CPU backend in each of its ways. It compares the results
 * with loops in double precision (tests/support/plain_graph.h). `make check-shapes` draws
 * thousands. */
#include "base/philox.h"
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "tests/support/plain_graph.h"
#include "tests/support/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    CASES = 400,
    CHANNELS_MAX = 40,
    KERNEL_MAX = 9,
    SIDE_MAX = 20,
    BATCH_MAX = 9,
    LAYERS_MAX = 4,
    TAPS_MAX = 1500000, /* of all convolutions: the loops take some milliseconds for them */
    DESCRIPTION_MAX = 4096
};

static uint64_t seed = 1;
static int cases = CASES;
static int ambiguous;  /* how many cases were run, but not compared */
static uint64_t draws; /* made so far for the present case */

static int draw(int low, int high)
{
    uint32_t word = philox_draw(seed, philox_stream(PHILOX_TEST, 0), draws++).word[0];

    return low + (int)(word % (uint32_t)(high - low + 1));
}

static bool chance(int percent)
{
    return draw(1, 100) <= percent;
}

/* ---- a network ---- */

struct network {
    struct graph graph;
    enum tensor_type type;
    int64_t taps;
    bool twice; /* adds the gradients of a second batch */
    char description[DESCRIPTION_MAX];
};

/* Prints the network and how it is run. It is also called if the program ends abnormally. */
static struct network *present;

static void describe(struct network *network, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void describe(struct network *network, const char *format, ...)
{
    size_t used = strlen(network->description);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(network->description + used, DESCRIPTION_MAX - used, format, arguments);
    va_end(arguments);
}

static void tell_present(void)
{
    if (present)
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, present->description);
}

static const int64_t *shape_of(const struct network *network, int32_t tensor)
{
    return network->graph.tensors[tensor].shape.extent;
}

/* Draws a window over `side` pixels that fits at least once. Small windows are as likely as large
 * ones. */
static void draw_window(struct conv_attributes *a, const int64_t side[2], bool pool)
{
    bool square = chance(60);

    for (int d = 0; d < 2; d++) {
        int kernel_max = chance(50) ? 3 : KERNEL_MAX, room;

        a->kernel[d] = d && square ? a->kernel[0] : draw(1, kernel_max);
        a->stride[d] = chance(60) ? 1 : draw(1, 3);
        a->dilation[d] = pool || chance(75) ? 1 : draw(2, 3);
        room = a->kernel[d] / 2 * a->dilation[d];
        a->padding[d] = pool ? draw(0, a->kernel[d] / 2) : chance(60) ? room : draw(0, room + 1);
        while ((a->kernel[d] - 1) * a->dilation[d] + 1 > side[d] + 2 * a->padding[d]) {
            a->kernel[d] = (a->kernel[d] + 1) / 2;
            a->dilation[d] = 1;
            a->padding[d] = a->padding[d] < a->kernel[d] / 2 ? a->padding[d] : a->kernel[d] / 2;
        }
    }
    a->groups = 1;
}

static int draw_channels(void)
{
    static const int round_numbers[] = {1, 8, 16, 24, 32};

    return chance(40) ? round_numbers[draw(0, 4)] : draw(1, CHANNELS_MAX);
}

static int32_t append_convolution(struct network *network, int32_t x, const char *name)
{
    const int64_t *shape = shape_of(network, x);
    int64_t in = shape[1];
    struct conv_attributes a;
    int out = draw_channels();
    bool bias = chance(50);

    draw_window(&a, shape + 2, false);
    if (chance(15)) { /* depthwise, possibly with several filters for each channel */
        a.groups = (int)in;
        out = (int)in * (chance(80) || in > CHANNELS_MAX / 2 ? 1 : 2);
    } else if (chance(25)) {
        int groups = draw(1, 8);

        if (in % groups == 0) {
            a.groups = groups;
            out = (out + groups - 1) / groups * groups;
        }
    }
    describe(network,
             " conv %d kernel %dx%d stride %d,%d padding %d,%d dilation %d,%d groups %d%s;", out,
             a.kernel[0], a.kernel[1], a.stride[0], a.stride[1], a.padding[0], a.padding[1],
             a.dilation[0], a.dilation[1], a.groups, bias ? " bias" : "");
    x = graph_conv2d(&network->graph, x, name, out, &a, bias);
    if (x >= 0)
        network->taps += graph_shape_elements(&network->graph.tensors[x].shape) * in / a.groups *
                         a.kernel[0] * a.kernel[1];
    return x;
}

static int32_t append_pool(struct network *network, int32_t x, const char *name)
{
    bool maximum = network->type == TENSOR_FLOAT32 && chance(60);
    struct conv_attributes a;

    draw_window(&a, shape_of(network, x) + 2, true);
    describe(network, " %s pool %dx%d stride %d,%d padding %d,%d;", maximum ? "max" : "average",
             a.kernel[0], a.kernel[1], a.stride[0], a.stride[1], a.padding[0], a.padding[1]);
    return maximum ? graph_max_pool2d(&network->graph, x, name, &a)
                   : graph_average_pool2d(&network->graph, x, name, &a);
}

/* Appends an operator after a convolution. In 16 bits it is none with a kink, where rounding would
 * decide. */
static int32_t append_others(struct network *network, int32_t x, int layer)
{
    static const enum activation_kind kinds[] = {ACTIVATION_RELU, ACTIVATION_SILU, ACTIVATION_TANH};
    const int64_t *shape = shape_of(network, x);
    char name[32];

    snprintf(name, sizeof name, "%d-norm", layer);
    if (chance(30) && shape[0] * shape[2] * shape[3] > 7) {
        describe(network, " norm;");
        x = graph_batch_norm(&network->graph, x, name, 1e-5f, 0.1f);
    }
    snprintf(name, sizeof name, "%d-active", layer);
    if (chance(70)) {
        enum activation_kind kind =
            kinds[network->type == TENSOR_FLOAT32 && chance(70) ? 0 : draw(1, 2)];

        describe(network, " %s;", activation_kind_to_string(kind));
        x = graph_activation(&network->graph, x, name, kind);
    }
    snprintf(name, sizeof name, "%d-pool", layer);
    return chance(20) ? append_pool(network, x, name) : x;
}

/* Returns 0, or an error if the drawn shape is impossible. */
static int network_build(struct network *network, struct error *error)
{
    struct graph *graph = &network->graph;
    int64_t sample[3] = {draw_channels(), chance(15) ? 1 : draw(1, SIDE_MAX),
                         chance(10) ? 1 : draw(1, SIDE_MAX)};
    int64_t batch = draw(1, BATCH_MAX);
    int layers = draw(1, LAYERS_MAX), features = draw(1, 20);
    bool training = chance(85);
    int32_t x;
    int r;

    graph_init(graph, batch, training);
    graph->wants_input_gradient = training && chance(50);
    graph->accumulate = network->twice = training && chance(25);
    describe(network, "%s, %s of %d images %dx%dx%d:", tensor_type_to_string(network->type),
             training ? network->twice ? "two batches" : "a batch" : "evaluation", (int)batch,
             (int)sample[0], (int)sample[1], (int)sample[2]);
    x = graph_input(graph, TENSOR_FLOAT32, sample, 3);
    for (int i = 0; i < layers && x >= 0 && network->taps < TAPS_MAX; i++) {
        char name[32];

        snprintf(name, sizeof name, "%d", i);
        x = append_convolution(network, x, name);
        if (x >= 0)
            x = append_others(network, x, i);
    }
    if (x >= 0) {
        x = graph_flatten(graph, x, "flat");
        if (chance(70)) {
            describe(network, " linear %d", features);
            x = graph_linear(graph, x, "last", features, chance(50));
        }
    }
    graph_mse(graph, x);
    if (training && (r = graph_differentiate(graph, error)) < 0)
        return r;
    if (network->type != TENSOR_FLOAT32 &&
        (r = graph_lower_precision(graph, network->type, error)) < 0)
        return r;
    return graph_finish(graph, error);
}

/* ---- how it is run ---- */

static struct test_session_options draw_options(struct network *network)
{
    static const int blocks[] = {0, 8, 16}, tasks[] = {0, 1, 2, 3, 8};
    static char digits[9];
    struct test_session_options options = {
        .threads = draw(1, 2), .tasks = tasks[draw(0, 4)], .emulate_precision = true};
    int levels = 0;

    while (kernels_available()[levels])
        levels++;
    options.kernels = chance(60) ? 0 : draw(0, levels - 1);
    options.image_block = blocks[draw(0, 2)];
    options.channels_last = chance(25);
    options.tiles = chance(40) ? TILES_AS_DEVICE : chance(50) ? TILES_ALWAYS : TILES_NEVER;
    options.plain_tiles = chance(50);
    options.native_bfloat16 = chance(50) && onednn_bfloat16() != ONEDNN_BFLOAT16_NONE;
    for (size_t i = 0; i + 1 < sizeof digits; i++)
        digits[i] = (char)('0' + draw(0, 7));
    options.direct_convolutions = chance(50) ? digits : NULL;
    describe(network,
             "; %d threads, %d tasks, kernels %d, blocks %d, channels_last %d, tiles %d%s, "
             "native %d, direct \"%s\"",
             options.threads, options.tasks, options.kernels, options.image_block,
             options.channels_last, options.tiles, options.plain_tiles ? " plain" : "",
             options.native_bfloat16, options.direct_convolutions ? digits : "");
    return options;
}

/* Numbers in [-1, 1), as multiples of 1/1000, so that float16 has all of them, and their sums to
 * some digits. */
static float *random_values(struct plain_graph *plain, int32_t tensor, int stream, double scale)
{
    int64_t count = graph_shape_elements(&plain->graph->tensors[tensor].shape);
    size_t bytes = ((size_t)count * sizeof(float) + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT;
    float *values = aligned_alloc(MEMORY_ALIGNMENT, bytes * MEMORY_ALIGNMENT);

    for (int64_t i = 0; i < count; i++) {
        uint32_t word =
            philox_draw(seed, philox_stream(PHILOX_TEST, (uint32_t)stream), (uint64_t)i).word[0];

        values[i] = (float)(scale * (2 * (double)philox_uniform(word) - 1));
        plain->values[tensor][i] = (double)values[i];
    }
    return values;
}

/* Writes weights that make results about as large as their operands, and scales of about 1. */
static void write_persistent(struct test_session *session, struct plain_graph *plain)
{
    const struct graph *graph = plain->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        int64_t count = graph_shape_elements(&tensor->shape);
        bool positive = tensor->role == TENSOR_STATISTIC || strstr(tensor->name, "norm");
        float *values;

        if (!graph_tensor_is_persistent(graph, i) || tensor->role == TENSOR_GRADIENT)
            continue;
        values = random_values(plain, i, 1 + i,
                               tensor->shape.rank > 1
                                   ? sqrt(3.0 * (double)tensor->shape.extent[0] / (double)count)
                                   : 0.5);
        for (int64_t k = 0; positive && k < count; k++)
            plain->values[i][k] = (double)(values[k] += 1);
        test_session_write(session, i, values);
        free(values);
    }
}

static void write_input(struct test_session *session, struct plain_graph *plain, int32_t tensor,
                        int stream, float **values)
{
    *values = random_values(plain, tensor, stream, 1);
    test_session_input(session, tensor, *values);
}

/* ---- what came out ---- */

/* The root of the summed squared differences, relative to that of the expected values. */
static double difference(const double *expected, const double *values, int64_t count, double floor)
{
    double error = 0, size = 0;

    for (int64_t i = 0; i < count; i++) {
        error += pow(values[i] - expected[i], 2);
        size += pow(expected[i], 2);
    }
    size = fmax(sqrt(size), floor * sqrt((double)count));
    return size > 0 ? sqrt(error) / size : error;
}

static int64_t farthest(const double *expected, const double *values, int64_t count)
{
    int64_t at = 0;

    for (int64_t i = 0; i < count; i++)
        if (!(fabs(values[i] - expected[i]) <= fabs(values[at] - expected[at])))
            at = i;
    return at;
}

static double tolerance(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 ? 5e-5 : type == TENSOR_FLOAT16 ? 5e-3 : 4e-2;
}

/* Describes the chosen ways of the program. */
static void describe_methods(const struct test_session *session)
{
    for (int32_t i = 0; i < session->graph->node_count; i++) {
        const struct graph_node *node = &session->graph->nodes[i];
        struct node_description description;

        session->backend->program_describe(session->program, i, &description);
        if (description.method[0])
            describe(present, "; %s %s: %s", node->name, graph_op_to_string(node->op),
                     description.method);
    }
}

/* Reads the program's values of a tensor, times `times`; the caller frees them. */
static double *read_values(struct test_session *session, int32_t tensor, int64_t count,
                           double times)
{
    float *values = malloc((size_t)count * sizeof *values);
    double *result = malloc((size_t)count * sizeof *result);

    test_session_read(session, tensor, values);
    for (int64_t i = 0; i < count; i++)
        result[i] = (double)values[i] / times;
    free(values);
    return result;
}

/* The results of the program, and the expected ones. */
struct results {
    struct test_session *session;
    const struct network *network;
    struct plain_graph exact, rounded;
};

/* An error counts if it is this many times as large as rounding alone would make it. Behind batch
 * norms of nearly equal numbers, rounding errors are large. */
enum { ROUNDINGS = 1000, ROUNDINGS_OF_16_BITS = 50 };

static void compare(const struct results *results, int32_t tensor, double times, double floor)
{
    const struct network *network = results->network;
    const double *expected;
    double *values, error, rounding;
    int64_t count;

    if (tensor < 0)
        return;
    count = graph_shape_elements(&network->graph.tensors[tensor].shape);
    expected = results->exact.values[tensor];
    values = read_values(results->session, tensor, count, times);
    error = difference(expected, values, count, floor);
    rounding = difference(expected, results->rounded.values[tensor], count, floor);
    rounding *= network->type == TENSOR_FLOAT32 ? ROUNDINGS : ROUNDINGS_OF_16_BITS;
    if (!(error <= fmax(tolerance(network->type), rounding))) {
        int64_t at = farthest(expected, values, count);

        describe_methods(results->session);
        tell_present();
        fail_msg("%s: error %g, where rounding excuses %g; of %lld numbers the %lldth is %g "
                 "instead of %g",
                 network->graph.tensors[tensor].name, error, rounding, (long long)count,
                 (long long)at, values[at], expected[at]);
    }
    free(values);
}

static double root_mean_square(const struct plain_graph *plain, int32_t tensor)
{
    int64_t count = graph_shape_elements(&plain->graph->tensors[tensor].shape);
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += pow(plain->values[tensor][i], 2);
    return sqrt(sum / (double)count);
}

/* The size that a parameter's gradient would have if its terms did not cancel, as they do in front
 * of a batch norm. Rounding errors are relative to it. */
static double gradient_size(const struct plain_graph *plain, int32_t gradient)
{
    const struct graph_tensor *tensor = &plain->graph->tensors[gradient];
    const struct graph_node *node = &plain->graph->nodes[tensor->producer];
    const struct graph_tensor *dy = &plain->graph->tensors[node->input[1]];
    double terms = (double)graph_shape_elements(&dy->shape) / (double)dy->shape.extent[1];
    double size = root_mean_square(plain, node->input[1]) * sqrt(terms);

    return tensor->shape.rank > 1 ? size * root_mean_square(plain, node->input[0]) : size;
}

static void compare_all(const struct results *results)
{
    const struct graph *graph = &results->network->graph;

    compare(results, graph->output, 1, 0.01);
    if (!graph->training)
        return;
    compare(results, graph->input_gradient, 1, 0);
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER) {
            int32_t gradient = graph_gradient_of(graph, i);

            compare(results, gradient, results->network->twice ? 2 : 1,
                    gradient_size(&results->exact, gradient));
        }
}

/* Whether rounding may decide on which side of a ReLU's kink a number is. */
static bool is_ambiguous(const struct results *results)
{
    const struct graph *graph = &results->network->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const double *x = results->exact.values[node->input[0]];
        const double *rounded = results->rounded.values[node->input[0]];
        int64_t count = graph_shape_elements(&graph->tensors[node->input[0]].shape);
        double rounding = 0;

        if (node->op != OP_ACTIVATION || node->attributes.activation != ACTIVATION_RELU)
            continue;
        for (int64_t k = 0; k < count; k++)
            rounding = fmax(rounding, fabs(x[k] - rounded[k]));
        for (int64_t k = 0; k < count; k++)
            if (x[k] != 0 && fabs(x[k]) < ROUNDINGS * rounding)
                return true;
    }
    return results->exact.ambiguous;
}

/* Runs with rounding, from the same values as the exact run. */
static void run_rounded(struct results *results)
{
    const struct graph *graph = &results->network->graph;

    plain_graph_init(&results->rounded, graph);
    results->rounded.rounds = true;
    for (int32_t i = 0; i < graph->tensor_count; i++)
        memcpy(results->rounded.values[i], results->exact.values[i],
               (size_t)graph_shape_elements(&graph->tensors[i].shape) * sizeof(double));
    plain_graph_run(&results->rounded);
}

static void network_run(struct network *network)
{
    struct test_session_options options = draw_options(network);
    struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    unsigned phases = PROGRAM_FORWARD | (network->graph.training ? PROGRAM_BACKWARD : 0);
    struct test_session session;
    struct results results = {.session = &session, .network = network};
    float *samples, *target;

    plain_graph_init(&results.exact, &network->graph);
    test_session_open(&session, &network->graph, &options);
    write_persistent(&session, &results.exact);
    write_input(&session, &results.exact, network->graph.input, -1, &samples);
    write_input(&session, &results.exact, network->graph.target, -2, &target);
    run_rounded(&results);
    plain_graph_run(&results.exact);
    test_session_run(&session, phases, &scalars);
    scalars.accumulate = true;
    if (network->twice)
        test_session_run(&session, phases, &scalars);
    ambiguous += is_ambiguous(&results);
    if (!is_ambiguous(&results))
        compare_all(&results);
    test_session_close(&session);
    plain_graph_release(&results.exact);
    plain_graph_release(&results.rounded);
    free(samples);
    free(target);
}

static void test_random(void **state)
{
    int run = 0, first = (int)seed;

    (void)state;
    atexit(tell_present);
    assert_true(cases > 0);
    for (int i = 0; run < cases; i++) {
        struct network network = {.type = TENSOR_FLOAT32};
        struct error error = {0};

        seed = (uint64_t)first + (uint64_t)i;
        draws = 0;
        network.type = chance(60) ? TENSOR_FLOAT32 : chance(60) ? TENSOR_BFLOAT16 : TENSOR_FLOAT16;
        present = &network;
        if (network_build(&network, &error) == 0 && network.taps <= TAPS_MAX) {
            network_run(&network);
            run++;
        }
        present = NULL;
        graph_release(&network.graph);
    }
    printf("%d cases, %d of them too close to a kink to be compared\n", cases, ambiguous);
    assert_true(2 * ambiguous <= cases);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    if (argc > 1)
        cases = atoi(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
