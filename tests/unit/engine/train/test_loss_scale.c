/* test_loss_scale.c: how the loss scale reacts to overflows (torch.amp.GradScaler's rule), and
 * which type auto chooses on which device. */
#include "engine/graph/forward.h"
#include "engine/train/loss_scale.h"
#include "engine/train/precision.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void updates(struct loss_scale *loss_scale, int count, bool skipped)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(loss_scale_update(loss_scale, skipped, NULL), 0);
}

static void expect(const struct loss_scale *loss_scale, double scale, int64_t good_steps,
                   int64_t skipped)
{
    assert_true(loss_scale->scale == scale);
    assert_int_equal(loss_scale->good_steps, good_steps);
    assert_int_equal(loss_scale->skipped, skipped);
}

/* The values are get_scale() and _get_growth_tracker() of torch.amp.GradScaler("cpu") after the
 * same updates. */
static void test_rule(void **state)
{
    struct loss_scale loss_scale = {0};

    (void)state;
    loss_scale_begin(&loss_scale, true);
    expect(&loss_scale, 65536, 0, 0);
    updates(&loss_scale, 1999, false);
    expect(&loss_scale, 65536, 1999, 0);
    updates(&loss_scale, 1, false);
    expect(&loss_scale, 131072, 0, 0);
    updates(&loss_scale, 1500, false);
    updates(&loss_scale, 2, true);
    expect(&loss_scale, 32768, 0, 2);
    updates(&loss_scale, 4000, false);
    expect(&loss_scale, 131072, 0, 2);
}

/* The scale neither becomes infinite nor zero. */
static void test_limits(void **state)
{
    struct loss_scale loss_scale = {.scale = 0x1p127, .good_steps = 1999};
    struct error error = {0};

    (void)state;
    updates(&loss_scale, 1, false);
    expect(&loss_scale, 0x1p127, 0, 0);
    loss_scale.scale = 0x1p-126;
    assert_int_equal(loss_scale_update(&loss_scale, true, &error), -ERROR_NONFINITE_LOSS);
    assert_non_null(strstr(error.text, "stay infinite in float16"));
}

/* A run without a loss scale does not get one. A run resumed with another precision starts with a
 * new scale, but updates that the optimizer did not count stay uncounted. */
static void test_begin(void **state)
{
    struct loss_scale loss_scale = {.scale = 1024, .good_steps = 5, .skipped = 3};

    (void)state;
    loss_scale_begin(&loss_scale, true);
    expect(&loss_scale, 1024, 5, 3);
    loss_scale_begin(&loss_scale, false);
    expect(&loss_scale, 0, 0, 3);
    updates(&loss_scale, 3, true);
    expect(&loss_scale, 0, 0, 3);
    loss_scale_begin(&loss_scale, true);
    expect(&loss_scale, 65536, 0, 3);
}

enum {
    FLOAT32 = 1 << TENSOR_FLOAT32,
    BFLOAT16 = 1 << TENSOR_BFLOAT16,
    FLOAT16 = 1 << TENSOR_FLOAT16,
    TF32 = 1 << TENSOR_TF32
};

static struct backend_device_info make_device(unsigned types, unsigned linear, unsigned convolution)
{
    return (struct backend_device_info){.name = "gpu",
                                        .model = "Example",
                                        .features = "tensor units",
                                        .compute_types = types,
                                        .fast_linear_types = linear,
                                        .fast_convolution_types = convolution};
}

/* Makes an MLP, optionally with a convolution before it. */
static void make_model(struct graph *graph, bool convolution, bool values)
{
    static const struct conv_attributes one = {
        .stride = {1, 1}, .dilation = {1, 1}, .kernel = {1, 1}, .groups = 1};
    int32_t x;

    graph_init(graph, 1, false);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 4, 4}, 3);
    if (convolution)
        x = graph_conv2d(graph, x, "0", 2, &one, true);
    x = graph_linear(graph, graph_flatten(graph, x, "1"), "2", 3, true);
    if (values)
        graph_mse(graph, x);
    else
        graph_cross_entropy(graph, x);
    assert_int_equal(graph->error.code, 0);
}

static bool no_graph(const struct graph *graph)
{
    (void)graph;
    return false;
}

/* Candidates are the types that are fast for all products of the model. There are none if values
 * are predicted. */
static void test_candidates(void **state)
{
    static const struct {
        unsigned types, linear, convolution, mlp, cnn;
    } cases[] = {
        {FLOAT32, 0, 0, 0, 0},
        {FLOAT32 | BFLOAT16 | FLOAT16, 0, 0, 0, 0},
        {FLOAT32 | BFLOAT16, BFLOAT16, 0, BFLOAT16, 0},
        {FLOAT32 | BFLOAT16 | FLOAT16, BFLOAT16 | FLOAT16, FLOAT16, BFLOAT16 | FLOAT16, FLOAT16},
        {FLOAT32 | BFLOAT16 | TF32, BFLOAT16 | TF32, TF32, BFLOAT16 | TF32, TF32},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int kind = 0; kind < 4; kind++) {
            struct backend_device_info device =
                make_device(cases[i].types, cases[i].linear, cases[i].convolution);
            bool convolution = kind & 1, values = kind & 2;
            unsigned expected = values ? 0 : convolution ? cases[i].cnn : cases[i].mlp;
            struct precision precision;
            struct graph model;

            make_model(&model, convolution, values);
            assert_int_equal(precision_choose("auto", false, &model, &device, &precision, NULL), 0);
            assert_int_equal(precision.type, TENSOR_FLOAT32);
            assert_int_equal(precision.candidates, expected);
            device.convolutions_are_fast = no_graph;
            assert_int_equal(precision_choose("auto", false, &model, &device, &precision, NULL), 0);
            assert_int_equal(precision.candidates, convolution ? 0 : expected);
            graph_release(&model);
        }
}

/* The chosen type if these are measured one by one, in milliseconds for 64 samples. */
static void expect_measured(unsigned candidates, double samples, double float32, double bfloat16,
                            double tf32, enum tensor_type type, const char *reason)
{
    const double milliseconds[] = {[TENSOR_FLOAT32] = float32,
                                   [TENSOR_BFLOAT16] = bfloat16,
                                   [TENSOR_FLOAT16] = 0.001,
                                   [TENSOR_TF32] = tf32};
    struct backend_device_info device = make_device(FLOAT32, 0, 0);
    struct precision precision = {.candidates = candidates};
    struct precision_times times = {.batch = 64};
    int next;

    while ((next = precision_next(&precision, &times, samples)) >= 0)
        times.seconds[next] = 1e-3 * milliseconds[next];
    precision_compare(&device, &times, samples, &precision);
    assert_int_equal(precision.type, type);
    assert_string_equal(precision.reason, reason);
}

static void test_measured(void **state)
{
    (void)state;
    expect_measured(BFLOAT16, 1e6, 20, 10, 0, TENSOR_BFLOAT16,
                    "auto: measured on gpu, a step of 64 samples takes 20 ms in float32; bfloat16: "
                    "10 ms");
    /* slower, and faster but not clearly */
    expect_measured(BFLOAT16, 1e6, 20, 30, 0, TENSOR_FLOAT32,
                    "auto: measured on gpu, a step of 64 samples takes 20 ms in float32; bfloat16: "
                    "30 ms, not enough less");
    expect_measured(BFLOAT16, 1e6, 20, 17, 0, TENSOR_FLOAT32,
                    "auto: measured on gpu, a step of 64 samples takes 20 ms in float32; bfloat16: "
                    "17 ms, not enough less");
    /* clearly faster, by 9 s of the run; nothing else is measured if that takes 9 s */
    expect_measured(BFLOAT16, 64 * 900, 20, 10, 0, TENSOR_FLOAT32,
                    "auto: measured on gpu, a step of 64 samples takes 20 ms in float32; bfloat16: "
                    "10 ms, not enough less");
    expect_measured(BFLOAT16, 64 * 450, 20, 1, 0, TENSOR_FLOAT32,
                    "auto: measured on gpu, a step of 64 samples takes 20 ms in float32, the whole "
                    "run seconds");
    /* float16, which needs a loss scale, only if there is no bfloat16; then tf32 */
    expect_measured(BFLOAT16 | FLOAT16 | TF32, 1e6, 20, 19, 9, TENSOR_TF32,
                    "auto: measured on gpu, a step of 64 samples takes 20 ms in float32; tf32: 9 "
                    "ms");
    expect_measured(FLOAT16, 1e6, 20, 0, 0, TENSOR_FLOAT16,
                    "auto: measured on gpu, a step of 64 samples takes 20 ms in float32; float16: "
                    "0.001 ms");
}

static void test_choice(void **state)
{
    struct backend_device_info device = make_device(FLOAT32 | FLOAT16, 0, 0);
    struct precision precision;
    struct error error = {0};
    struct graph model;

    (void)state;
    make_model(&model, true, false);
    assert_int_equal(precision_choose("float16", false, &model, &device, &precision, &error), 0);
    assert_int_equal(precision.type, TENSOR_FLOAT16);
    assert_string_equal(precision.reason, "set in the specification");
    assert_int_equal(precision_choose("bfloat16", false, &model, &device, &precision, &error),
                     -EINVAL);
    assert_string_equal(error.text,
                        "train.precision is \"bfloat16\", which gpu (Example; tensor "
                        "units) does not have; valid here: auto, float32, float16, tf32");
    assert_int_equal(precision_choose("float16", true, &model, &device, &precision, &error),
                     -EINVAL);
    assert_string_equal(error.text,
                        "train.precision is \"pure_float16\", which gpu (Example; tensor "
                        "units) does not have; valid here: auto, float32, float16, tf32");
    device.rounds_parameters = true;
    assert_int_equal(precision_choose("float16", true, &model, &device, &precision, &error), 0);
    assert_int_equal(precision_choose("bfloat16", true, &model, &device, &precision, &error),
                     -EINVAL);
    assert_string_equal(error.text, "train.precision is \"pure_bfloat16\", which gpu (Example; "
                                    "tensor units) does not have; valid here: auto, float32, "
                                    "float16, tf32, pure_float16");
    assert_int_equal(precision_choose("tf32", false, &model, &device, &precision, &error), 0);
    assert_int_equal(precision.type, TENSOR_FLOAT32);
    assert_string_equal(
        precision.reason,
        "gpu (tensor units) does not have tf32, of which float32 is the exact form");
    device.compute_types |= TF32;
    assert_int_equal(precision_choose("tf32", false, &model, &device, &precision, &error), 0);
    assert_int_equal(precision.type, TENSOR_TF32);
    assert_string_equal(precision.reason, "set in the specification");
    assert_int_equal(precision_choose("int32", false, &model, &device, &precision, &error),
                     -EINVAL);
    assert_int_equal(precision_choose("half", false, &model, &device, &precision, &error), -EINVAL);
    graph_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_begin),    cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_measured), cmocka_unit_test(test_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
