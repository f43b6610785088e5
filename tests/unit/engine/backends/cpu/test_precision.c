/* test_precision.c: types smaller than float32: how numbers are rounded, where a graph casts to
 * them, and updates under a loss scale. (test_cpu_operators covers products.) */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- rounding -------------------------------------------------------------------------------- */

/* Finds the representable number nearest to x by division; ties go to the one whose last bit is 0.
 * `bits`: of the mantissa behind the leading one. Numbers below 2^lowest are as close to each other
 * as those above it. */
static double nearest(double x, int bits, int lowest, double largest)
{
    int exponent;
    double unit, rounded;

    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
    unit = ldexp(1, (exponent - 1 > lowest ? exponent - 1 : lowest) - bits);
    rounded = nearbyint(x / unit) * unit; /* the default rounding mode is to nearest even */
    return fabs(rounded) > largest ? copysign(INFINITY, x) : rounded;
}

static double round_reference(enum tensor_type type, double x)
{
    return type == TENSOR_BFLOAT16 ? nearest(x, 7, -126, 0x1.fep127) : nearest(x, 10, -14, 65504);
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Checks every exponent with mantissas at, beside and between the ties, with both signs. */
static void check_rounding(const struct kernels *kernels, enum tensor_type type)
{
    static const uint32_t mantissas[] = {0,        1,        0xfff,    0x1000,   0x1001,  0x3000,
                                         0x7fff,   0x8000,   0x8001,   0x18000,  0x17fff, 0x2bcde,
                                         0x7f7fff, 0x7f8000, 0x7fefff, 0x7ff000, 0x7fffff};
    enum { COUNT = sizeof mantissas / sizeof mantissas[0] };

    for (uint32_t high = 0; high < 512; high++) {
        float x[COUNT], y[COUNT];

        for (int i = 0; i < COUNT; i++)
            x[i] = float_of(high << 23 | mantissas[i]);
        kernels->round_values(type, x, y, COUNT);
        for (int i = 0; i < COUNT; i++) {
            float expected = (float)round_reference(type, (double)x[i]);

            if (isnan(x[i]) ? !isnan(y[i]) : memcmp(&expected, &y[i], sizeof expected) != 0)
                fail_msg("%s, kernels %s: %a becomes %a, not %a", tensor_type_to_string(type),
                         kernels->level, (double)x[i], (double)y[i], (double)expected);
        }
    }
}

static void test_rounding(void **state)
{
    (void)state;
    for (int i = 0; kernels_available()[i]; i++) {
        check_rounding(kernels_available()[i], TENSOR_BFLOAT16);
        check_rounding(kernels_available()[i], TENSOR_FLOAT16);
    }
}

/* ---- casts ----------------------------------------------------------------------------------- */

static const struct conv_attributes three = {
    .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1};

/* Convolution, batch norm, ReLU, linear. */
static void build(struct graph *graph, bool training, enum tensor_type type)
{
    struct error error = {0};
    int32_t x;

    graph_init(graph, 6, training);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 4, 4}, 3);
    x = graph_conv2d(graph, x, "0", 16, &three, true);
    x = graph_batch_norm(graph, x, "1", 1e-5f, 0.1f);
    x = graph_activation(graph, x, "2", ACTIVATION_RELU);
    x = graph_flatten(graph, x, "3");
    graph_mse(graph, graph_linear(graph, x, "4", 5, true));
    if ((training && graph_differentiate(graph, &error)) ||
        graph_lower_precision(graph, type, &error))
        fail_msg("%s", error.text);
}

static const struct graph_node *find_node(const struct graph *graph, enum graph_op op)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == op)
            return &graph->nodes[i];
    return NULL;
}

static int count_nodes(const struct graph *graph, enum graph_op op)
{
    int count = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].op == op;
    return count;
}

/* The operands of every product have the type, and no other tensor has. A tensor that several
 * products read is cast once. */
static void expect_types(const struct graph *graph, enum tensor_type type)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        bool product = node->op >= OP_LINEAR && node->op <= OP_CONV2D_BACKWARD_WEIGHTS;

        for (int k = 0; k < node->input_count; k++)
            if (node->input[k] >= 0)
                assert_int_equal(graph->tensors[node->input[k]].type,
                                 product && k < 2 ? type : TENSOR_FLOAT32);
        for (int k = 0; k < node->output_count; k++)
            assert_int_equal(graph->tensors[node->output[k]].type,
                             node->op == OP_CAST ? type : TENSOR_FLOAT32);
    }
}

static void test_casts(void **state)
{
    struct optimizer_config sgd = {.kind = OPTIMIZER_SGD};
    struct error error = {0};
    struct graph graph;

    (void)state;
    build(&graph, true, TENSOR_BFLOAT16);
    assert_int_equal(graph_add_optimizer(&graph, &sgd, &error), 0);
    if (graph_finish(&graph, &error)) /* checks producers and phases */
        fail_msg("%s", error.text);
    expect_types(&graph, TENSOR_BFLOAT16);
    /* the samples, two weights, the input of linear, two gradients of results */
    assert_int_equal(count_nodes(&graph, OP_CAST), 6);
    assert_int_equal(find_node(&graph, OP_LINEAR)->input[1],
                     find_node(&graph, OP_LINEAR_BACKWARD_DATA)->input[1]);
    assert_int_equal(find_node(&graph, OP_CONV2D)->input[0],
                     find_node(&graph, OP_CONV2D_BACKWARD_WEIGHTS)->input[0]);
    assert_int_not_equal(graph_gradient_of(&graph, graph_find_tensor(&graph, "4.weight")), -1);
    graph_release(&graph);

    build(&graph, false, TENSOR_FLOAT16);
    assert_int_equal(graph_finish(&graph, &error), 0);
    expect_types(&graph, TENSOR_FLOAT16);
    assert_int_equal(count_nodes(&graph, OP_CAST), 4);
    graph_release(&graph);

    build(&graph, true, TENSOR_FLOAT32);
    assert_int_equal(count_nodes(&graph, OP_CAST), 0);
    graph_release(&graph);

    build(&graph, true, TENSOR_TF32); /* such products round their operands themselves */
    assert_int_equal(graph.compute_type, TENSOR_TF32);
    assert_int_equal(count_nodes(&graph, OP_CAST), 0);
    graph_release(&graph);
}

static void expect_refusal(struct graph *graph, enum tensor_type type, const char *sentence)
{
    struct error error = {0};

    assert_int_equal(graph_lower_precision(graph, type, &error), -EINVAL);
    assert_string_equal(error.text, sentence);
    graph_release(graph);
}

static void test_misuse(void **state)
{
    struct optimizer_config sgd = {.kind = OPTIMIZER_SGD};
    struct graph graph;

    (void)state;
    build(&graph, true, TENSOR_FLOAT32);
    expect_refusal(&graph, TENSOR_INT32, "products cannot be calculated in int32");
    build(&graph, true, TENSOR_FLOAT16);
    expect_refusal(&graph, TENSOR_BFLOAT16, "the graph calculates in float16 already");
    build(&graph, true, TENSOR_FLOAT32);
    assert_int_equal(graph_add_optimizer(&graph, &sgd, NULL), 0);
    expect_refusal(&graph, TENSOR_FLOAT16, "the precision is chosen before the optimizer is added");
}

/* A device without the type says so; it does not compute in another type. */
static void test_refusal(void **state)
{
    const struct backend *backend = backend_cpu();
    const struct backend_device_config config = {.threads = 1};
    struct backend_device_info info;
    struct backend_device *device;
    struct backend_program *program;
    struct error error = {0};
    struct graph graph;

    (void)state;
    build(&graph, false, TENSOR_FLOAT16);
    assert_int_equal(backend->device_open(&config, &device, &error), 0);
    backend->device_describe(device, &info);
    assert_true(info.compute_types & 1u << TENSOR_FLOAT32);
    assert_false(info.compute_types & 1u << TENSOR_FLOAT16);
    assert_int_equal(backend->program_prepare(device, &graph, NULL, &program, &error),
                     -ERROR_UNSUPPORTED);
    assert_string_equal(error.text, "this CPU does not calculate in float16");
    backend->device_close(device);
    graph_release(&graph);
}

/* ---- loss scale ------------------------------------------------------------------------------ */

enum { SAMPLE_ELEMENTS = 6 * 48, TARGET_ELEMENTS = 6 * 5 };

struct trained {
    struct graph graph;
    struct test_session session;
    _Alignas(64) float samples[SAMPLE_ELEMENTS];
    _Alignas(64) float targets[TARGET_ELEMENTS];
};

static void trained_open(struct trained *trained, enum tensor_type type, enum optimizer_kind kind)
{
    static const struct test_session_options options = {
        .threads = 2, .tasks = 3, .emulate_precision = true};
    const struct optimizer_config config = {.kind = kind,
                                            .momentum = 0.9,
                                            .beta1 = 0.9,
                                            .beta2 = 0.99,
                                            .epsilon = 1e-8,
                                            .weight_decay = 0.01};
    struct error error = {0};

    for (int i = 0; i < SAMPLE_ELEMENTS; i++)
        trained->samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < TARGET_ELEMENTS; i++)
        trained->targets[i] = (float)(i * 53 % 103) / 50.0f - 1.0f;
    build(&trained->graph, true, type);
    if (graph_add_optimizer(&trained->graph, &config, &error) ||
        graph_finish(&trained->graph, &error))
        fail_msg("%s", error.text);
    test_session_open(&trained->session, &trained->graph, &options);
    test_session_initialize(&trained->session, 3);
    test_session_input(&trained->session, trained->graph.input, trained->samples);
    test_session_input(&trained->session, trained->graph.target, trained->targets);
}

static void trained_close(struct trained *trained)
{
    test_session_close(&trained->session);
    graph_release(&trained->graph);
}

static bool trained_step(struct trained *trained, const struct step_scalars *scalars)
{
    test_session_run(&trained->session, PROGRAM_STEP, scalars);
    return trained->session.backend->program_update_skipped(trained->session.program);
}

/* Reads all parameters and states, one after the other; the caller frees them. */
static float *trained_read(struct trained *trained, size_t *bytes)
{
    const struct graph *graph = &trained->graph;
    float *values = NULL;

    *bytes = 0;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        size_t size = (size_t)graph_shape_elements(&graph->tensors[i].shape) * sizeof(float);

        if (graph->tensors[i].role != TENSOR_PARAMETER &&
            graph->tensors[i].role != TENSOR_OPTIMIZER)
            continue;
        values = realloc(values, *bytes + size);
        assert_non_null(values);
        test_session_read(&trained->session, i, values + *bytes / sizeof(float));
        *bytes += size;
    }
    return values;
}

static void expect_equal(struct trained *a, struct trained *b)
{
    size_t bytes, other_bytes;
    float *own = trained_read(a, &bytes), *other = trained_read(b, &other_bytes);

    assert_int_equal(bytes, other_bytes);
    assert_memory_equal(own, other, bytes);
    free(own);
    free(other);
}

/* In float32, a loss scale that is a power of two changes no bit, with and without clipping. */
static void test_unscaling(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        struct trained plain, scaled;

        trained_open(&plain, TENSOR_FLOAT32, OPTIMIZER_ADAMW);
        trained_open(&scaled, TENSOR_FLOAT32, OPTIMIZER_ADAMW);
        for (int step = 1; step <= 5; step++) {
            struct step_scalars scalars = {.step = step,
                                           .batch = step,
                                           .learning_rate = 0.01f,
                                           .gradient_scale = 1,
                                           .clip_norm = clip ? 0.1f : 0};

            assert_false(trained_step(&plain, &scalars));
            scalars.loss_scale = 65536;
            assert_false(trained_step(&scaled, &scalars));
        }
        expect_equal(&plain, &scaled);
        trained_close(&plain);
        trained_close(&scaled);
    }
}

/* An update with a gradient beyond float16's range changes nothing. The optimizer goes on as if
 * that update had not been: Adam's correction and SGD's first step of the momentum do not count
 * it. */
static void test_skipped_update(void **state)
{
    static const enum optimizer_kind kinds[] = {OPTIMIZER_ADAM, OPTIMIZER_SGD};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct step_scalars scalars = {
            .step = 1, .batch = 1, .learning_rate = 0.01f, .gradient_scale = 1, .loss_scale = 128};
        struct trained plain, skipping;

        trained_open(&plain, TENSOR_FLOAT16, kinds[k]);
        trained_open(&skipping, TENSOR_FLOAT16, kinds[k]);
        assert_false(trained_step(&plain, &scalars));
        scalars.loss_scale = 0x1p30f;
        assert_true(trained_step(&skipping, &scalars));
        scalars = (struct step_scalars){.step = 2,
                                        .batch = 2,
                                        .learning_rate = 0.01f,
                                        .gradient_scale = 1,
                                        .loss_scale = 128,
                                        .skipped = 1};
        assert_false(trained_step(&skipping, &scalars));
        expect_equal(&plain, &skipping);
        trained_close(&plain);
        trained_close(&skipping);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),  cmocka_unit_test(test_casts),
        cmocka_unit_test(test_misuse),    cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_unscaling), cmocka_unit_test(test_skipped_update),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
