/* test_onnx_nodes.c: models of a few nodes, whose results a formula tells. */
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

/* Rows that steps became have their channels last, however many steps there are. */
static void batch_norm_of_rows_has_their_channels(void **state)
{
    static const int64_t steps[2] = {2, 2}, rows[] = {-1, 2}, there[] = {2, -1, 2},
                         back[] = {-1, 2, 2}, turn[] = {1, 0, 2}, two = 2, three = 3;
    static const float weight[] = {2, 3}, bias[] = {0.5f, -1}, mean[] = {1, -2},
                       variance[] = {4, 9};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int turned = 0; turned < 2; turned++) { /* the steps come before the samples */
        struct made_model made;

        made_begin(&made, 2, steps);
        made_integers(&made, "rows", rows, &two);
        made_integers(&made, "back", turned ? there : back, &three);
        made_floats(&made, "w", 1, &two, weight, 2);
        made_floats(&made, "b", 1, &two, bias, 2);
        made_floats(&made, "m", 1, &two, mean, 2);
        made_floats(&made, "v", 1, &two, variance, 2);
        if (turned)
            made_ints(&made, made_node(&made, "Transpose", "t", "x", NULL), "perm", turn, 3);
        made_node(&made, "Reshape", "r", turned ? "t" : "x", "rows", NULL);
        made_node(&made, "BatchNormalization", "n", "r", "w", "b", "m", "v", NULL);
        made_node(&made, "Reshape", turned ? "s" : "y", "n", "back", NULL);
        if (turned)
            made_ints(&made, made_node(&made, "Transpose", "y", "s", NULL), "perm", turn, 3);
        assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 4);
        for (int i = 0; i < MADE_BATCH * 4; i++) {
            double difference = (double)samples[i] - (double)mean[i % 2];

            made_expect_near(y[i],
                             (double)weight[i % 2] * difference / sqrt((double)variance[i % 2]) +
                                 (double)bias[i % 2],
                             1e-5);
        }
    }
}

/* A number of each sample, as behind squeeze(-1), is an output of one column. */
static void single_numbers_are_a_column(void **state)
{
    static const int64_t axis = 1, one = 1;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;
    int node;

    (void)state;
    made_begin(&made, 1, &eight);
    made_integers(&made, "axis", &axis, &one);
    node = made_node(&made, "ReduceSum", "y", "x", "axis", NULL);
    made_int(&made, node, "keepdims", 0);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH);
    for (int i = 0; i < MADE_BATCH; i++) {
        double sum = 0;

        for (int k = 0; k < 8; k++)
            sum += (double)samples[i * 8 + k];
        made_expect_near(y[i], sum, 1e-6);
    }
}

/* Nodes as exporters of other frameworks, or old ones, write them. */
static void nodes_of_other_exporters_are_known(void **state)
{
    static const char *const types[] = {"HardSigmoid", "Sum", "Dropout"};
    static const float number = 0.25f;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct made_model made;
        int node;

        made_begin(&made, 1, &eight);
        made_float(&made, "number", &number);
        made_node(&made, "Neg", "n", "x", NULL);
        node = k == 1 ? made_node(&made, "Sum", "y", "number", "x", "n", "x", NULL)
                      : made_node(&made, types[k], "y", "x", NULL);
        if (k == 0) {
            made_attribute(&made, node, "alpha")->f = 0.5f;
            made.attribute[node][0].has_f = true;
        }
        if (k == 2) { /* its mask, which nobody reads */
            made.node[node].output[1] = (char *)"mask";
            made.node[node].n_output = 2;
        }
        assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
        for (int i = 0; i < MADE_BATCH * 8; i++)
            made_expect_near(y[i],
                             k == 0   ? fmin(fmax(0.5 * (double)samples[i] + 0.5, 0), 1)
                             : k == 1 ? (double)samples[i] + 0.25
                                      : (double)samples[i],
                             1e-6);
    }
}

/* Biases that a node leaves out are 0, and functions the usual ones. */
static void recurrent_layers_need_no_biases(void **state)
{
    static const int64_t steps[2] = {4, 1}, w[] = {1, 4, 1}, r[] = {1, 4, 1}, b[] = {1, 8};
    static const float input[] = {0.5f, -1, 0.3f, 2}, hidden[] = {1, 0.2f, -0.4f, 0.7f}, zeros[8];
    static const float x[MADE_BATCH * 4] = {1, -2, 0.5f, 3, -1, 0.1f, 2, -0.7f};
    ProtobufCBinaryData usual[] = {{.len = 7, .data = (uint8_t *)"Sigmoid"},
                                   {.len = 4, .data = (uint8_t *)"Tanh"},
                                   {.len = 4, .data = (uint8_t *)"tanh"}};
    float y[2][MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int biased = 0; biased < 2; biased++) {
        struct made_model made;
        int node;

        made_begin(&made, 2, steps);
        made_floats(&made, "w", 3, w, input, 4);
        made_floats(&made, "r", 3, r, hidden, 4);
        if (biased)
            made_floats(&made, "b", 2, b, zeros, 8);
        node = made_node(&made, "LSTM", "y", "x", "w", "r", biased ? "b" : NULL, NULL);
        made_int(&made, node, "layout", 1);
        if (biased) {
            Onnx__Attribute *activations = made_attribute(&made, node, "activations");

            activations->n_strings = 3;
            activations->strings = usual;
        }
        assert_int_equal(made_compute(&made, x, y[biased]), MADE_BATCH * 4);
    }
    for (int i = 0; i < MADE_BATCH * 4; i++)
        made_expect_near(y[0][i], y[1][i], 1e-6);
    assert_true(fabsf(y[0][3]) > 1e-2f);
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
        cmocka_unit_test(extremes_round_no_small_constant),
        cmocka_unit_test(batch_norm_of_rows_has_their_channels),
        cmocka_unit_test(single_numbers_are_a_column),
        cmocka_unit_test(nodes_of_other_exporters_are_known),
        cmocka_unit_test(recurrent_layers_need_no_biases),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
