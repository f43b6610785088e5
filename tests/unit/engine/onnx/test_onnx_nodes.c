/* test_onnx_nodes.c: models of a few nodes, whose results a formula tells. */
#include "engine/graph/forward.h"
#include "engine/models/models.h"
#include "tests/support/made_model.h"
#include "tests/support/temporary_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const int64_t image[3] = {1, 4, 4};

static const float samples[MADE_BATCH * 8] = {-1e6f, -1e4f, -7, -3,   -1e-3f, -1e-6f, 0, 0.3f,
                                              1e-6f, 1e-3f, 4,  6.5f, 9,      1e4f,   3, 1e6f};
static const int64_t eight = 8;

static void products_with_zero_are_zero(void **state)
{
    static const struct {
        const char *type;
        float number;
    } factors[] = {{"Mul", 0}, {"Div", INFINITY}};
    static const float one = 1;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct made_model made;

        made_begin(&made, 1, &eight);
        made_float(&made, "zero", &factors[k].number);
        made_float(&made, "one", &one);
        made_node(&made, factors[k].type, "m", "x", "zero", NULL);
        made_node(&made, "Add", "y", "m", "one", NULL);
        assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
        for (int i = 0; i < MADE_BATCH * 8; i++)
            assert_true(y[i] == 1);
    }
}

/* However far apart the bounds are, numbers between them stay what they are. */
static void bounds_round_no_numbers(void **state)
{
    static const float bounds[][2] = {{-1e4f, 1e4f}, {-1e9f, 1e9f}, {-5, 7},  {1e-6f, 1e6f},
                                      {-1e6f, -1},   {-2, 3},       {5, 100}, {-100, 0.5f}};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        struct made_model made;

        made_begin(&made, 1, &eight);
        made_float(&made, "least", &bounds[k][0]);
        made_float(&made, "most", &bounds[k][1]);
        made_node(&made, "Clip", "y", "x", "least", "most", NULL);
        made_compute(&made, samples, y);
        for (int i = 0; i < MADE_BATCH * 8; i++)
            made_expect_near(y[i], fmaxf(fminf(samples[i], bounds[k][1]), bounds[k][0]), 1e-6);
    }
}

static void error_functions_stand_alone(void **state)
{
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_node(&made, "Neg", "n", "x", NULL);
    made_node(&made, "Erf", "y", "n", NULL);
    made_compute(&made, samples, y);
    for (int i = 0; i < MADE_BATCH * 8; i++)
        made_expect_near(y[i], erf(-samples[i]), 1e-6);
}

/* The window is that of the weights where the node does not say it. */
static void same_padding_needs_no_kernel_shape(void **state)
{
    static const float weights[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const double sums[16] = {4, 6, 6, 4, 6, 9, 9, 6, 6, 9, 9, 6, 4, 6, 6, 4};
    float x[MADE_BATCH * 16], y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    for (int i = 0; i < MADE_BATCH * 16; i++)
        x[i] = 1;
    made_begin(&made, 3, image);
    made_floats(&made, "w", 4, (const int64_t[]){1, 1, 3, 3}, weights, 9);
    made_text(&made, made_node(&made, "Conv", "y", "x", "w", NULL), "auto_pad", "SAME_UPPER");
    assert_int_equal(made_compute(&made, x, y), MADE_BATCH * 16);
    for (int i = 0; i < MADE_BATCH * 16; i++)
        made_expect_near(y[i], sums[i % 16], 1e-6);
}

/* Factors of whole numbers: the root of 9, and the remainder of -7 by 3 with the sign of -7. */
static void constants_are_computed(void **state)
{
    static const int64_t nine = 9, minus = -7, three = 3, one = 1;
    static const float half = 0.5f;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_integers(&made, "nine", &nine, &one);
    made_float(&made, "half", &half);
    made_integers(&made, "minus", &minus, &one);
    made_integers(&made, "three", &three, &one);
    made_node(&made, "Pow", "root", "nine", "half", NULL);
    made_int(&made, made_node(&made, "Mod", "rest", "minus", "three", NULL), "fmod", 1);
    made_node(&made, "Mul", "whole", "root", "rest", NULL);
    made_int(&made, made_node(&made, "Cast", "factor", "whole", NULL), "to", MADE_FLOAT);
    made_node(&made, "Mul", "y", "x", "factor", NULL);
    made_compute(&made, samples, y);
    for (int i = 0; i < MADE_BATCH * 8; i++)
        made_expect_near(y[i], -3 * (double)samples[i], 1e-6);
}

/* Types of few bits keep the last ones: 300 is 44 of uint8, 200 is -56 of int8. */
static void casts_wrap(void **state)
{
    static const struct {
        int64_t number;
        int type;
        double expected;
    } casts[] = {{300, 2, 44}, {200, 3, -56}, {40000, 5, -25536}, {-1, 2, 255}};
    static const int64_t one = 1;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (size_t k = 0; k < sizeof casts / sizeof *casts; k++) {
        struct made_model made;

        made_begin(&made, 1, &eight);
        made_integers(&made, "number", &casts[k].number, &one);
        made_int(&made, made_node(&made, "Cast", "small", "number", NULL), "to", casts[k].type);
        made_int(&made, made_node(&made, "Cast", "factor", "small", NULL), "to", MADE_FLOAT);
        made_node(&made, "Mul", "y", "x", "factor", NULL);
        made_compute(&made, samples, y);
        for (int i = 0; i < MADE_BATCH * 8; i++)
            made_expect_near(y[i], casts[k].expected * (double)samples[i], 1e-6);
    }
}

/* ---- probabilities ---- */

/* A softmax at the end is the loss's, and the predictions'. */
static void a_last_softmax_is_left_to_the_loss(void **state)
{
    static const struct {
        const char *end;
        enum model_loss loss;
        enum graph_op last;
    } cases[] = {{"Softmax", LOSS_CROSS_ENTROPY, OP_LEAKY_RELU},
                 {"Softmax", LOSS_MSE, OP_SOFTMAX},
                 {"Sigmoid", LOSS_BINARY, OP_LEAKY_RELU},
                 {"Sigmoid", LOSS_MSE, OP_ACTIVATION}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct model_config config = {.kind = MODEL_ONNX};
        struct model_data data = {
            .rank = 1, .sample_shape = {8}, .outputs = 8, .loss = cases[k].loss, .no_loss = true};
        struct error error = {0};
        struct graph graph;
        struct made_model made;

        made_begin(&made, 1, &eight);
        made_node(&made, "LeakyRelu", "l", "x", NULL);
        made_node(&made, cases[k].end, "y", "l", NULL);
        made_write(&made);
        assert_int_equal(onnx_open(NULL, temporary_path("model.onnx"), &config.onnx, &error), 0);
        graph_init(&graph, MADE_BATCH, false);
        if (model_build(&config, &data, &graph, &error) || graph_finish(&graph, &error))
            fail_msg("%s", error.text);
        assert_int_equal(graph.nodes[graph.node_count - 1].op, cases[k].last);
        assert_int_equal(graph.output, graph.nodes[graph.node_count - 1].output[0]);
        graph_release(&graph);
        onnx_close(config.onnx);
    }
}

static void reductions_of_no_axes_are_no_operation(void **state)
{
    static const int64_t none = 0;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_integers(&made, "axes", NULL, &none);
    made_int(&made, made_node(&made, "ReduceSum", "y", "x", "axes", NULL), "noop_with_empty_axes",
             1);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
    for (int i = 0; i < MADE_BATCH * 8; i++)
        made_expect_near(y[i], samples[i], 1e-6);
}

/* The product of extent and factor is one of float32, as in onnxruntime: 3 pixels become 7. */
static void factors_of_images_are_float32(void **state)
{
    static const int64_t row[] = {1, 1, 3}, four = 4;
    static const float scales[] = {1, 1, 1, 7.0f / 3};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;
    int node;

    (void)state;
    made_begin(&made, 3, row);
    made_floats(&made, "scales", 1, &four, scales, 4);
    node = made_node(&made, "Resize", "y", "x", "", "scales", NULL);
    made_text(&made, node, "mode", "linear");
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 7);
}

/* The convolution of one tap reads the samples where the host has them, in another shape. */
static void convolutions_of_one_tap_read_samples(void **state)
{
    static const int64_t one = 1;
    static const float weight = 3;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_integers(&made, "axis", &one, &one);
    made_floats(&made, "w", 3, (const int64_t[]){1, 1, 1}, &weight, 1);
    made_node(&made, "Unsqueeze", "u", "x", "axis", NULL);
    made_node(&made, "Conv", "y", "u", "w", NULL);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
    for (int i = 0; i < MADE_BATCH * 8; i++)
        made_expect_near(y[i], 3 * (double)samples[i], 1e-6);
}

/* A weight of each column is none of each channel, though there are as many. */
static void weights_of_columns_are_none_of_channels(void **state)
{
    static const int64_t square[3] = {2, 1, 2}, groups[] = {0, 1, -1}, back[] = {-1, 2, 1, 2},
                         axes[] = {0, 1}, one = 1, two = 2, three = 3, four = 4;
    static const float unit = 1, zero = 0, weights[] = {2, 5}, biases[] = {0.5f, 0};
    static const float x[MADE_BATCH * 4] = {-3, 3, -3, 3, 5, 9, 5, 9};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 3, square);
    made_integers(&made, "groups", groups, &three);
    made_integers(&made, "back", back, &four);
    made_integers(&made, "axes", axes, &two);
    made_floats(&made, "one", 1, &one, &unit, 1);
    made_floats(&made, "zero", 1, &one, &zero, 1);
    made_floats(&made, "w", 1, &two, weights, 2);
    made_floats(&made, "b", 1, &two, biases, 2);
    made_node(&made, "Reshape", "r", "x", "groups", NULL);
    made_node(&made, "InstanceNormalization", "n", "r", "one", "zero", NULL);
    made_node(&made, "Reshape", "s", "n", "back", NULL);
    made_node(&made, "Unsqueeze", "v", "w", "axes", NULL);
    made_node(&made, "Mul", "m", "s", "v", NULL);
    made_node(&made, "Unsqueeze", "c", "b", "axes", NULL);
    made_node(&made, "Add", "y", "m", "c", NULL);
    made_compute(&made, x, y);
    for (int i = 0; i < MADE_BATCH * 4; i++)
        made_expect_near(y[i], i % 2 ? 5 : -1.5, 1e-3);
}

/* What is cut off at one end is gone before the other end repeats the rest. */
static void negative_padding_comes_first(void **state)
{
    static const int64_t pads[] = {0, -1, 0, 2}, four = 4;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_integers(&made, "pads", pads, &four);
    made_text(&made, made_node(&made, "Pad", "y", "x", "pads", NULL), "mode", "wrap");
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 9);
    for (int i = 0; i < MADE_BATCH * 9; i++)
        assert_true(y[i] == samples[i / 9 * 8 + 1 + i % 9 % 7]);
}

/* The logarithm of a share that float32 cannot hold. */
static void logarithms_of_small_shares_are_finite(void **state)
{
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_node(&made, "LogSoftmax", "y", "x", NULL);
    made_compute(&made, samples, y);
    for (int i = 0; i < MADE_BATCH * 8; i++) {
        const float *row = samples + i / 8 * 8;
        double largest = (double)row[0], sum = 0;

        for (int k = 0; k < 8; k++)
            largest = fmax(largest, (double)row[k]);
        for (int k = 0; k < 8; k++)
            sum += exp((double)row[k] - largest);
        made_expect_near(y[i], (double)row[i % 8] - largest - log(sum), 1e-6);
    }
}

/* A mask with a row for each head, of which there are as many as steps, is not one of steps. */
static void masks_of_heads_hide_no_steps_behind(void **state)
{
    enum { N = 3, WIDTH = 2 };
    static const int64_t sample[3] = {N, N, WIDTH}, order[] = {0, 1, 3, 2};
    static const int64_t mask[N * N] = {0, -1000000, -1000000, 0, 0, -1000000, 0, 0, 0},
                                  count = (int64_t)N * N, rows_of_heads[3] = {N, 1, N}, three = 3;
    float x[MADE_BATCH * N * N * WIDTH], y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    for (int i = 0; i < MADE_BATCH * N * N * WIDTH; i++)
        x[i] = (float)((i * 7) % 11 - 5) / 4;
    made_begin(&made, 3, sample);
    made_integers(&made, "whole", mask, &count);
    made_integers(&made, "heads", rows_of_heads, &three);
    made_node(&made, "Reshape", "shaped", "whole", "heads", NULL);
    made_int(&made, made_node(&made, "Cast", "mask", "shaped", NULL), "to", MADE_FLOAT);
    made_ints(&made, made_node(&made, "Transpose", "k", "x", NULL), "perm", order, 4);
    made_node(&made, "MatMul", "s", "x", "k", NULL);
    made_node(&made, "Add", "m", "s", "mask", NULL);
    made_node(&made, "Softmax", "p", "m", NULL);
    made_node(&made, "MatMul", "y", "p", "x", NULL);
    made_compute(&made, x, y);
    for (int i = 0; i < MADE_BATCH * N * N; i++) {
        const float *rows = x + i / N * N * WIDTH, *query = x + i * WIDTH;
        double sum = 0, first = 0;

        for (int k = 0; k < N; k++) {
            const float *key = rows + k * WIDTH;
            double share = exp((double)query[0] * (double)key[0] +
                               (double)query[1] * (double)key[1] + (double)mask[i / N % N * N + k]);

            sum += share;
            first += share * (double)key[0];
        }
        made_expect_near(y[i * WIDTH], first / sum, 1e-5);
    }
}

/* A large number is no reason to round the small one away. */
static void numbers_far_apart_are_chosen_exactly(void **state)
{
    static const float one = 1, far = -1e9f, zero = 0;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_float(&made, "one", &one);
    made_float(&made, "far", &far);
    made_float(&made, "zero", &zero);
    made_node(&made, "Greater", "m", "x", "zero", NULL);
    made_node(&made, "Where", "y", "m", "one", "far", NULL);
    made_compute(&made, samples, y);
    for (int i = 0; i < MADE_BATCH * 8; i++)
        assert_true(y[i] == (samples[i] > 0 ? one : far));
}

/* PyTorch's half pixels are others only where one number is left. */
static void signals_are_resized_by_half_pixels(void **state)
{
    static const int64_t row[] = {1, 8}, three = 3;
    static const float scales[] = {1, 1, 2};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;
    int node;

    (void)state;
    made_begin(&made, 2, row);
    made_floats(&made, "scales", 1, &three, scales, 3);
    node = made_node(&made, "Resize", "y", "x", "", "scales", NULL);
    made_text(&made, node, "mode", "linear");
    made_text(&made, node, "coordinate_transformation_mode", "pytorch_half_pixel");
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 16);
    assert_true(y[0] == samples[0]);
    made_expect_near(y[1], 0.75 * (double)samples[0] + 0.25 * (double)samples[1], 1e-6);
}

static void masks_side_by_side_stay_masks(void **state)
{
    static const float zero = 0;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_float(&made, "zero", &zero);
    made_node(&made, "Greater", "m", "x", "zero", NULL);
    made_int(&made, made_node(&made, "Concat", "c", "m", "m", NULL), "axis", 1);
    made_node(&made, "Not", "n", "c", NULL);
    made_int(&made, made_node(&made, "Cast", "y", "n", NULL), "to", MADE_FLOAT);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 16);
    for (int i = 0; i < MADE_BATCH * 16; i++)
        assert_true(y[i] == (samples[i / 16 * 8 + i % 8] <= 0));
}

/* The same of several outputs, each of which has a loss. */
static void softmaxes_of_several_outputs_are_left_to_the_losses(void **state)
{
    static const struct loss_head heads[] = {
        {.classes = 8, .labels = 1, .weight = 1},
        {.classes = 8, .labels = 1, .weight = 1, .binary = true},
        {.classes = 8, .labels = 1, .weight = 1}};
    static const char *const ends[] = {"Softmax", "Sigmoid", "Sigmoid"}, *const names[] = {"y", "a",
                                                                                           "b"};
    static const enum graph_op reads[] = {OP_LEAKY_RELU, OP_LEAKY_RELU, OP_ACTIVATION};
    struct model_config config = {.kind = MODEL_ONNX};
    struct model_data data = {.rank = 1,
                              .sample_shape = {8},
                              .outputs = 24,
                              .loss = LOSS_HEADS,
                              .heads = heads,
                              .head_count = 3,
                              .no_loss = true};
    Onnx__ValueInfo more[2], *outputs[3];
    struct error error = {0};
    const struct graph_node *last;
    struct made_model made;
    struct graph graph;

    (void)state;
    made_begin(&made, 1, &eight);
    outputs[0] = made.output[0];
    for (int i = 0; i < 3; i++) {
        char *scores[] = {(char *)"l", (char *)"m", (char *)"n"};

        made_node(&made, "LeakyRelu", scores[i], "x", NULL);
        made_node(&made, ends[i], names[i], scores[i], NULL);
        if (i == 0)
            continue;
        onnx__value_info__init(&more[i - 1]);
        more[i - 1].name = (char *)names[i];
        outputs[i] = &more[i - 1];
    }
    made.graph.n_output = 3;
    made.graph.output = outputs;
    made_write(&made);
    assert_int_equal(onnx_open(NULL, temporary_path("model.onnx"), &config.onnx, &error), 0);
    graph_init(&graph, MADE_BATCH, false);
    if (model_build(&config, &data, &graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    last = &graph.nodes[graph.node_count - 1];
    assert_int_equal(last->op, OP_CONCATENATE);
    assert_int_equal(graph.output, last->output[0]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(graph.nodes[graph.tensors[last->input[i]].producer].op, reads[i]);
    graph_release(&graph);
    onnx_close(config.onnx);
}

/* A number far below a small one rounds it no more than one far above. */
static void extremes_round_no_small_constant(void **state)
{
    static const float small[] = {0.1f, -0.2f, 0.3f, 1e-3f, -3, 0.7f, 1e-4f, -0.5f};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int largest = 0; largest < 2; largest++) {
        struct made_model made;

        made_begin(&made, 1, &eight);
        made_floats(&made, "c", 1, &eight, small, 8);
        made_node(&made, largest ? "Max" : "Min", "y", "x", "c", NULL);
        made_compute(&made, samples, y);
        for (int i = 0; i < MADE_BATCH * 8; i++)
            made_expect_near(y[i], (largest ? fmaxf : fminf)(samples[i], small[i % 8]), 1e-6);
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_with_zero_are_zero),
        cmocka_unit_test(bounds_round_no_numbers),
        cmocka_unit_test(error_functions_stand_alone),
        cmocka_unit_test(same_padding_needs_no_kernel_shape),
        cmocka_unit_test(constants_are_computed),
        cmocka_unit_test(casts_wrap),
        cmocka_unit_test(a_last_softmax_is_left_to_the_loss),
        cmocka_unit_test(reductions_of_no_axes_are_no_operation),
        cmocka_unit_test(factors_of_images_are_float32),
        cmocka_unit_test(convolutions_of_one_tap_read_samples),
        cmocka_unit_test(weights_of_columns_are_none_of_channels),
        cmocka_unit_test(negative_padding_comes_first),
        cmocka_unit_test(logarithms_of_small_shares_are_finite),
        cmocka_unit_test(masks_of_heads_hide_no_steps_behind),
        cmocka_unit_test(numbers_far_apart_are_chosen_exactly),
        cmocka_unit_test(signals_are_resized_by_half_pixels),
        cmocka_unit_test(masks_side_by_side_stay_masks),
        cmocka_unit_test(softmaxes_of_several_outputs_are_left_to_the_losses),
        cmocka_unit_test(extremes_round_no_small_constant),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
