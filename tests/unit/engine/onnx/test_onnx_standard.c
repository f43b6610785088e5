/* test_onnx_standard.c: what the standard of ONNX allows and torch.onnx does not write. */
#include "tests/support/made_model.h"
#include "tests/support/temporary_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const float samples[MADE_BATCH * 8] = {-1e6f, -1e4f, -7, -3,   -1e-3f, -1e-6f, 0, 0.3f,
                                              1e-6f, 1e-3f, 4,  6.5f, 9,      1e4f,   3, 1e6f};
static const int64_t eight = 8;

/* A start before the first number is the first number, also of a negative step. */
static void slices_backwards_begin_within_the_axis(void **state)
{
    static const int64_t start = -100, end = -1000, axis = 1, step = -1, one = 1;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_integers(&made, "start", &start, &one);
    made_integers(&made, "end", &end, &one);
    made_integers(&made, "axis", &axis, &one);
    made_integers(&made, "step", &step, &one);
    made_node(&made, "Slice", "y", "x", "start", "end", "axis", "step", NULL);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH);
    assert_true(y[0] == samples[0] && y[1] == samples[8]);
}

/* Files of proto3 leave out a number that is 0. */
static void an_attribute_without_its_number_is_0(void **state)
{
    enum { TYPE_FLOAT = 1, TYPE_INT = 2 };
    static const int64_t axes = 1, one = 1, row[] = {1, 8};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;
    Onnx__Attribute *left_out;

    (void)state;
    made_begin(&made, 2, row);
    made_integers(&made, "axes", &axes, &one);
    left_out =
        made_attribute(&made, made_node(&made, "ReduceSum", "r", "x", "axes", NULL), "keepdims");
    left_out->has_type = true;
    left_out->type = TYPE_INT;
    left_out = made_attribute(&made, made_node(&made, "LeakyRelu", "l", "r", NULL), "alpha");
    left_out->has_type = true;
    left_out->type = TYPE_FLOAT;
    made_node(&made, "ReduceSum", "y", "l", "axes", NULL);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH);
    made_expect_near(y[0], 0.3, 1e-6);
}

/* A second output that nothing reads, as PyTorch's older exporter writes the mask of a dropout. */
static void outputs_that_nothing_reads_are_no_matter(void **state)
{
    static const struct {
        const char *type, *input;
    } cases[] = {{"Dropout", NULL}, {"MaxPool", NULL}, {"LayerNormalization", "w"}};
    static const int64_t row[] = {1, 8}, one[] = {1};
    static const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_model made;
        int node;

        made_begin(&made, 2, row);
        made_floats(&made, "w", 1, &eight, ones, 8);
        node = made_node(&made, cases[i].type, "y", "x", cases[i].input, NULL);
        if (i == 1)
            made_ints(&made, node, "kernel_shape", one, 1);
        made.outputs[node][1] = (char *)"more";
        made.node[node].n_output = 2;
        assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
    }
}

/* The number of samples stays what it is where a shape is cast, wherever it stands in it; sums of
 * few bits wrap. */
static void shapes_are_cast_and_sums_wrap(void **state)
{
    enum { INT32 = 6, UINT8 = 2 };
    static const int64_t order[] = {1, 0}, number = 200, one = 1;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_integers(&made, "number", &number, &one);
    made_ints(&made, made_node(&made, "Transpose", "t", "x", NULL), "perm", order, 2);
    made_node(&made, "Shape", "s", "t", NULL);
    made_int(&made, made_node(&made, "Cast", "few", "s", NULL), "to", INT32);
    made_int(&made, made_node(&made, "Cast", "shape", "few", NULL), "to", MADE_INT64);
    made_node(&made, "Reshape", "r", "t", "shape", NULL);
    made_ints(&made, made_node(&made, "Transpose", "u", "r", NULL), "perm", order, 2);
    made_int(&made, made_node(&made, "Cast", "small", "number", NULL), "to", UINT8);
    made_node(&made, "Add", "sum", "small", "small", NULL);
    made_int(&made, made_node(&made, "Cast", "factor", "sum", NULL), "to", MADE_FLOAT);
    made_node(&made, "Mul", "y", "u", "factor", NULL);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
    for (int i = 0; i < MADE_BATCH * 8; i++)
        made_expect_near(y[i], 144 * (double)samples[i], 1e-6);
}

/* beta times one number is added to all columns. */
static void one_bias_is_that_of_all_columns(void **state)
{
    static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, bias = 3;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;
    Onnx__Attribute *beta;
    int node;

    (void)state;
    made_begin(&made, 1, &eight);
    made_floats(&made, "w", 2, (const int64_t[]){8, 2}, ones, 16);
    made_float(&made, "b", &bias);
    node = made_node(&made, "Gemm", "y", "x", "w", "b", NULL);
    beta = made_attribute(&made, node, "beta");
    beta->has_f = true;
    beta->f = 2;
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 2);
    for (int i = 0; i < MADE_BATCH * 2; i++) {
        double sum = 6;

        for (int k = 0; k < 8; k++)
            sum += (double)samples[i / 2 * 8 + k];
        made_expect_near(y[i], sum, 1e-6);
    }
}

/* ((1 2 3) (4 5 6)) times ((1 2) (3 4) (5 6)), the means of its columns, at most 40. */
static void constants_are_multiplied_reduced_and_clipped(void **state)
{
    static const int64_t numbers[] = {1, 2, 3, 4, 5, 6}, left[] = {2, 3}, right[] = {3, 2},
                         rows = 0, most = 40, one = 1, two = 2, six = 6;
    static const double factors[] = {35.5, 40};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_integers(&made, "numbers", numbers, &six);
    made_integers(&made, "left", left, &two);
    made_integers(&made, "right", right, &two);
    made_integers(&made, "rows", &rows, &one);
    made_integers(&made, "whole", &most, &one);
    made_int(&made, made_node(&made, "Cast", "n", "numbers", NULL), "to", MADE_FLOAT);
    made_int(&made, made_node(&made, "Cast", "most", "whole", NULL), "to", MADE_FLOAT);
    made_node(&made, "Reshape", "a", "n", "left", NULL);
    made_node(&made, "Reshape", "b", "n", "right", NULL);
    made_node(&made, "MatMul", "p", "a", "b", NULL);
    made_int(&made, made_node(&made, "ReduceMean", "m", "p", "rows", NULL), "keepdims", 0);
    made_node(&made, "Clip", "k", "m", "", "most", NULL);
    made_node(&made, "Mul", "y", "x", "k", NULL);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 2);
    for (int i = 0; i < MADE_BATCH * 2; i++)
        made_expect_near(y[i], factors[i % 2] * (double)samples[i], 1e-6);
}

/* Rows of a parameter in another order are a Gemm's weights. */
static void weights_may_be_rows_in_another_order(void **state)
{
    static const float weights[16] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 2}, biases[] = {3, 4};
    static const int64_t order[] = {1, 0}, two = 2;
    float y[MADE_BATCH * MADE_SAMPLE_MAX];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &eight);
    made_floats(&made, "w", 2, (const int64_t[]){2, 8}, weights, 16);
    made_floats(&made, "b", 1, &two, biases, 2);
    made_integers(&made, "order", order, &two);
    made_node(&made, "Gather", "turned", "w", "order", NULL);
    made_int(&made, made_node(&made, "Gemm", "y", "x", "turned", "b", NULL), "transB", 1);
    assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 2);
    for (int i = 0; i < MADE_BATCH; i++) {
        double sum = 4;

        for (int k = 0; k < 8; k++)
            sum += (double)samples[i * 8 + k];
        made_expect_near(y[2 * i], 2 * (double)samples[i * 8 + 1] + 3, 1e-6);
        made_expect_near(y[2 * i + 1], sum, 1e-6);
    }
}

static void sums_and_means_have_any_number_of_operands(void **state)
{
    static const float constant[] = {8, 7, 6, 5, 4, 3, 2, 1};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int mean = 0; mean < 2; mean++) {
        struct made_model made;

        made_begin(&made, 1, &eight);
        made_floats(&made, "c", 1, &eight, constant, 8);
        made_node(&made, "Relu", "r", "x", NULL);
        made_node(&made, mean ? "Mean" : "Sum", "y", "c", "x", "r", NULL);
        assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
        for (int i = 0; i < MADE_BATCH * 8; i++) {
            double x = (double)samples[i], sum = (double)constant[i % 8] + x + (x > 0 ? x : 0);

            made_expect_near(y[i], mean ? sum / 3 : sum, 1e-6);
        }
    }
}

/* The mode of opset 28, in which the pixels of a channel stay side by side. */
static void blocks_of_pixels_become_channels_in_either_order(void **state)
{
    static const int64_t sample[] = {2, 2, 2};
    static const int from[2][8] = {{0, 4, 1, 5, 2, 6, 3, 7}, {0, 1, 2, 3, 4, 5, 6, 7}};
    float y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int columns_first = 0; columns_first < 2; columns_first++) {
        struct made_model made;
        int node;

        made_begin(&made, 3, sample);
        node = made_node(&made, "SpaceToDepth", "y", "x", NULL);
        made_int(&made, node, "blocksize", 2);
        made_text(&made, node, "mode", columns_first ? "CRD" : "DCR");
        assert_int_equal(made_compute(&made, samples, y), MADE_BATCH * 8);
        for (int i = 0; i < MADE_BATCH * 8; i++)
            assert_true(y[i] == samples[i / 8 * 8 + from[columns_first][i % 8]]);
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_backwards_begin_within_the_axis),
        cmocka_unit_test(an_attribute_without_its_number_is_0),
        cmocka_unit_test(outputs_that_nothing_reads_are_no_matter),
        cmocka_unit_test(shapes_are_cast_and_sums_wrap),
        cmocka_unit_test(one_bias_is_that_of_all_columns),
        cmocka_unit_test(constants_are_multiplied_reduced_and_clipped),
        cmocka_unit_test(weights_may_be_rows_in_another_order),
        cmocka_unit_test(sums_and_means_have_any_number_of_operands),
        cmocka_unit_test(blocks_of_pixels_become_channels_in_either_order),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
