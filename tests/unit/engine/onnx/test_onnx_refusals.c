/* test_onnx_refusals.c: models of a few nodes such as no exporter writes, which are refused
 * with a sentence. */
#include "tests/support/made_model.h"
#include "tests/support/temporary_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const int64_t image[3] = {1, 4, 4};

static void outputs_that_are_left_out_are_no_crash(void **state)
{
    static const float ones[] = {1, 1};
    static const int64_t one = 1;
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_floats(&made, "p", 1, (const int64_t[]){2}, ones, 2);
    made_node(&made, "Add", "", "p", "p", NULL);
    made_node(&made, "Relu", "y", "x", NULL);
    made_refuse(&made, "");
    made_begin(&made, 3, image);
    made_integers(&made, "one", &one, &one);
    made_int(&made, made_node(&made, "SplitToSequence", "", "x", "one", NULL), "axis", 1);
    made_node(&made, "Relu", "y", "x", NULL);
    made_refuse(&made, "");
}

static void weights_of_endless_repeats_are_refused(void **state)
{
    static const int64_t shape[] = {1LL << 31, 1LL << 31, 1, 1}, four = 4;
    static const float half = 0.5f;
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_float(&made, "half", &half);
    made_integers(&made, "shape", shape, &four);
    made_node(&made, "Expand", "w", "half", "shape", NULL);
    made_node(&made, "Conv", "y", "x", "w", NULL);
    made_refuse(&made, "would have to be computed");
}

static void strides_of_empty_weights_are_checked(void **state)
{
    static const int64_t extent[] = {0, 1LL << 40, 1LL << 40};
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_floats(&made, "w", 3, extent, NULL, 0);
    made_node(&made, "Relu", "y", "x", NULL);
    made_refuse(&made, "impossible shape");
}

static void nodes_without_inputs_form_no_circle(void **state)
{
    static const int64_t groups[] = {0, 1, -1}, back[] = {-1, 1, 4, 4}, three = 3, four = 4,
                         one = 1;
    static const float unit = 1, zero = 0;
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_integers(&made, "groups", groups, &three);
    made_integers(&made, "back", back, &four);
    made_floats(&made, "one", 1, &one, &unit, 1);
    made_floats(&made, "zero", 1, &one, &zero, 1);
    made_node(&made, "Reshape", "r", "x", "groups", NULL);
    made_node(&made, "InstanceNormalization", "n", "r", "one", "zero", NULL);
    made_node(&made, "Reshape", "b", "n", "back", NULL);
    made_node(&made, "Unsqueeze", "u", NULL);
    made_node(&made, "Mul", "m", "b", "u", NULL);
    made_node(&made, "Add", "y", "m", "u", NULL);
    made_refuse(&made, "an operand is missing");
}

static void windows_are_checked(void **state)
{
    static const int64_t huge[] = {500000000, 1}, other[] = {3, 3};
    static const float weights[4] = {1, 1, 1, 1};
    struct made_model made;
    int node;

    (void)state;
    made_begin(&made, 3, image);
    node = made_node(&made, "MaxPool", "y", "x", NULL);
    made_ints(&made, node, "kernel_shape", huge, 2);
    made_ints(&made, node, "dilations", huge, 2);
    made_text(&made, node, "auto_pad", "SAME_UPPER");
    made_refuse(&made, "window is too large");
    made_begin(&made, 3, image);
    made_floats(&made, "w", 4, (const int64_t[]){1, 1, 2, 2}, weights, 4);
    made_ints(&made, made_node(&made, "Conv", "y", "x", "w", NULL), "kernel_shape", other, 2);
    made_refuse(&made, "not that of its weights");
}

static void the_batch_is_no_number(void **state)
{
    static const int64_t zero = 0, one = 1;
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_integers(&made, "first", &zero, &one);
    made_node(&made, "Shape", "shape", "x", NULL);
    made_node(&made, "Gather", "batch", "shape", "first", NULL);
    made_int(&made, made_node(&made, "Cast", "number", "batch", NULL), "to", MADE_FLOAT);
    made_node(&made, "Div", "y", "x", "number", NULL);
    made_refuse(&made, "the number of samples in a batch");
}

static void a_bias_with_more_axes_stays_a_sum(void **state)
{
    static const int64_t two = 2, matrix[] = {2, 2}, row[] = {1, 1, 2}, out[] = {-1, 2};
    static const float weights[] = {1, 2, 3, 4}, bias[] = {1, 1};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_floats(&made, "w", 2, matrix, weights, 4);
    made_floats(&made, "b", 3, row, bias, 2);
    made_integers(&made, "out", out, &two);
    made_node(&made, "MatMul", "m", "x", "w", NULL);
    made_node(&made, "Add", "a", "m", "b", NULL);
    made_int(&made, made_node(&made, "Softmax", "s", "a", NULL), "axis", 1);
    made_node(&made, "Reshape", "y", "s", "out", NULL);
    made_refuse(&made, "the batch would be its features");
}

static void a_diagonal_of_samples_is_refused(void **state)
{
    static const int64_t two = 2, matrix[] = {2, 2};
    static const float weights[4] = {1};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_floats(&made, "w", 2, matrix, weights, 4);
    made_node(&made, "Softmax", "s", "w", NULL);
    made_node(&made, "Trilu", "t", "s", "s", NULL);
    made_node(&made, "MatMul", "y", "x", "t", NULL);
    made_refuse(&made, "k depends on the samples");
}

/* A view of a parameter that was turned in part would end beyond its numbers. */
static void an_input_too_many_is_refused(void **state)
{
    static const int64_t two = 2, matrix[] = {6, 2};
    static const float weights[12] = {1};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_floats(&made, "w", 2, matrix, weights, 12);
    made_node(&made, "Transpose", "t", "w", "x", NULL);
    made_node(&made, "MatMul", "y", "x", "t", NULL);
    made_refuse(&made, "it has 2 inputs, and its operator 1");
}

static void a_list_is_no_operand(void **state)
{
    static const int64_t halves[] = {2, 2}, two = 2;
    static const float numbers[] = {1, 2, 3, 4};
    struct made_model made;

    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        made_begin(&made, 3, image);
        made_integers(&made, "halves", halves, &two);
        made_floats(&made, "p", 1, (const int64_t[]){4}, numbers, 4);
        made_int(&made, made_node(&made, "SplitToSequence", "list", "x", "halves", NULL), "axis",
                 2);
        made_node(&made, "Exp", "e", "p", NULL);
        made_node(&made, "Add", "y", "list", alone ? "e" : "p", NULL);
        made_refuse(&made, "of a list of tensors");
    }
}

static void an_axis_is_cut_once(void **state)
{
    static const int64_t numbers[6] = {1, 2, 3, 4, 5, 6}, starts[] = {5, 5}, ends[] = {6, 6},
                         axes[] = {0, 0}, six = 6, two = 2;
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_integers(&made, "numbers", numbers, &six);
    made_integers(&made, "starts", starts, &two);
    made_integers(&made, "ends", ends, &two);
    made_integers(&made, "axes", axes, &two);
    made_node(&made, "Slice", "part", "numbers", "starts", "ends", "axes", NULL);
    made_int(&made, made_node(&made, "Cast", "factor", "part", NULL), "to", MADE_FLOAT);
    made_node(&made, "Mul", "y", "x", "factor", NULL);
    made_refuse(&made, "it names an axis twice");
}

/* Steps along an axis of one number, over and over, reach no farther. */
static void steps_that_take_one_number_add_up_to_none(void **state)
{
    static const int64_t numbers[1] = {3}, zero = 0, most = INT64_MAX, one = 1, step = INT32_MAX;
    float x[MADE_BATCH * 16] = {1}, y[MADE_BATCH * MADE_SAMPLE_MAX];
    const char *names[6] = {"numbers", "a", "b", "c", "d", "e"};
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_integers(&made, "numbers", numbers, &one);
    made_integers(&made, "start", &zero, &one);
    made_integers(&made, "end", &most, &one);
    made_integers(&made, "axis", &zero, &one);
    made_integers(&made, "step", &step, &one);
    for (int i = 0; i < 5; i++)
        made_node(&made, "Slice", names[i + 1], names[i], "start", "end", "axis", "step", NULL);
    made_int(&made, made_node(&made, "Cast", "factor", "e", NULL), "to", MADE_FLOAT);
    made_node(&made, "Mul", "y", "x", "factor", NULL);
    made_compute(&made, x, y);
    assert_true(y[0] == 3);
}

/* Axes of no number hide others whose product cannot be counted. */
static void shapes_that_cannot_be_counted_are_refused(void **state)
{
    static const int64_t shape[] = {0, 1LL << 62, 1LL << 62}, three = 3, none = 0, one = 1;
    static const char *const makers[] = {"Expand", "Reshape", "ConstantOfShape"};
    static const float half = 0.5f;
    struct made_model made;

    (void)state;
    for (int k = 0; k < 3; k++) {
        int node;

        made_begin(&made, 3, image);
        made_integers(&made, "shape", shape, &three);
        made_floats(&made, "half", 1, k == 1 ? &none : &one, &half, k != 1);
        node = k == 2 ? made_node(&made, makers[k], "w", "shape", NULL)
                      : made_node(&made, makers[k], "w", "half", "shape", NULL);
        made_int(&made, node, "allowzero", 1);
        made_int(&made, made_node(&made, "Gather", "g", "w", "shape", NULL), "axis", 0);
        made_node(&made, "Mul", "y", "x", "g", NULL);
        made_refuse(&made, k == 1 ? "the new shape" : "such a shape is impossible");
    }
}

static void a_flattened_batch_is_counted(void **state)
{
    static const int64_t wide[3] = {256, 256, 256};
    struct made_model made;

    (void)state;
    made_begin(&made, 3, wide);
    made_int(&made, made_node(&made, "Flatten", "y", "x", NULL), "axis", 0);
    made_refuse(&made, "too many numbers");
}

static void endless_constants_are_refused(void **state)
{
    static const int64_t zero = 0, one = 1, many = 1 << 26;
    static const char *const names[6] = {"a", "b", "c", "d", "e", "f"};
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_integers(&made, "zero", &zero, &one);
    made_integers(&made, "one", &one, &one);
    made_integers(&made, "many", &many, &one);
    made_node(&made, "Range", "a", "zero", "many", "one", NULL);
    for (int i = 1; i < 6; i++)
        made_node(&made, "Range", names[i], "zero", "many", "one", NULL);
    made_node(&made, "Relu", "y", "x", NULL);
    made_refuse(&made, "would have to be computed together");
}

static void a_bias_of_samples_is_refused(void **state)
{
    static const float weights[1] = {1};
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_floats(&made, "w", 4, (const int64_t[]){1, 1, 1, 1}, weights, 1);
    made_node(&made, "Conv", "y", "x", "w", "x", NULL);
    made_refuse(&made, "its weights must be constant");
}

/* A bias of a number for each row is none of a number for each column. */
static void a_bias_of_rows_is_refused(void **state)
{
    static const int64_t two = 2, matrix[] = {2, 2}, column[] = {2, 1};
    static const float weights[] = {1, 2, 3, 4}, bias[] = {1, 5};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_floats(&made, "w", 2, matrix, weights, 4);
    made_floats(&made, "b", 2, column, bias, 2);
    made_node(&made, "Gemm", "y", "x", "w", "b", NULL);
    made_refuse(&made, "a bias for each row");
}

/* What the batch has made of a node tells its file's. */
static void refusals_of_a_fixed_batch_say_so(void **state)
{
    static const int64_t two = 2, shape[] = {3, 2};
    static const float numbers[6];

    (void)state;
    for (int open = 0; open < 2; open++) {
        struct made_model made;

        made_begin(&made, 1, &two);
        if (!open) {
            made.dimension[0].has_dim_value = true;
            made.dimension[0].dim_value = 3;
        }
        made_floats(&made, "w", 2, shape, numbers, 6);
        made_int(&made, made_node(&made, "Concat", "y", "x", "w", NULL), "axis", 1);
        made_refuse(&made,
                    open ? "along the batch" : "along the batch; the file has a fixed batch of 3");

        /* the number of samples is no count of repeats either */
        made_begin(&made, 1, &two);
        made_floats(&made, "w", 2, shape, numbers, 6);
        made_node(&made, "Shape", "s", "x", NULL);
        made_node(&made, open ? "Tile" : "Expand", "y", "w", "s", NULL);
        made_refuse(&made, open ? "repeats 3 numbers along the batch"
                                : "an extent of 3 cannot be expanded to the batch");
    }
}

/* Rows of several tables in one are told by sums of symbols, which only data can have. */
static void symbols_are_no_summands(void **state)
{
    static const int64_t two = 2, offsets[] = {0, 3}, table[] = {6, 2};
    static const float numbers[12];
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made.tensor_type.elem_type = MADE_INT64;
    made_integers(&made, "offsets", offsets, &two);
    made_floats(&made, "w", 2, table, numbers, 12);
    made_node(&made, "Add", "a", "x", "offsets", NULL);
    made_node(&made, "Gather", "y", "w", "a", NULL);
    made_refuse(&made, "node a): of the samples' symbols, which only embeddings read");
}

/* What no node has given is no input that was left out. */
static void a_product_of_a_single_number_is_refused(void **state)
{
    static const int64_t two = 2;
    static const float numbers[] = {1, 2};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_floats(&made, "p", 1, &two, numbers, 2);
    made_int(&made, made_node(&made, "ReduceSum", "sum", "p", NULL), "keepdims", 0);
    made_node(&made, "MatMul", "m", "sum", "p", NULL);
    made_node(&made, "Clip", "y", "x", "m", NULL);
    made_refuse(&made, "a single number");
}

static void outputs_that_no_node_gives_are_missing(void **state)
{
    static const int64_t one = 1;
    static const float number[] = {1};
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_floats(&made, "n", 1, &one, number, 1);
    for (int i = 0; i < 5; i++)
        made_floats(&made, (const char *[]){"w", "b", "m", "v", "u"}[i], 1, &one, number, 1);
    made_node(&made, "BatchNormalization", "bn", "x", "w", "b", "m", "v", NULL);
    made.outputs[0][1] = (char *)"mean";
    made.node[0].n_output = 2;
    made_node(&made, "Clip", "y", "bn", "mean", NULL);
    made_refuse(&made, "whose output 1 is read");
}

static void operators_of_other_domains_are_others(void **state)
{
    static const int64_t two = 2, matrix[] = {2, 2};
    static const float weights[] = {1, 2, 3, 4}, bias[] = {1, 1};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_floats(&made, "w", 2, matrix, weights, 4);
    made_floats(&made, "b", 1, &two, bias, 2);
    made_node(&made, "MatMul", "m", "x", "w", NULL);
    made.node[made_node(&made, "Add", "y", "m", "b", NULL)].domain = (char *)"com.example";
    made_refuse(&made, "Add (node y)");
}

static void equations_are_not_cut(void **state)
{
    static const int64_t shape[] = {2, 2};
    struct made_model made;

    (void)state;
    made_begin(&made, 2, shape);
    made_text(&made, made_node(&made, "Einsum", "y", "x", "x", NULL), "equation",
              "bxz,bxz->b                                                      xz");
    made_refuse(&made, "other than a product");
}

static void masks_have_the_axes_of_the_scores(void **state)
{
    static const int64_t heads[] = {2, 2, 2}, wide[] = {1, 1, 1, 1, 2, 2, 2, 2}, few[] = {3, 2, 2};
    static const float numbers[16] = {0};
    struct made_model made;

    (void)state;
    for (int k = 0; k < 2; k++) {
        made_begin(&made, 3, heads);
        made_floats(&made, "mask", k ? 3 : 8, k ? few : wide, numbers, k ? 12 : 16);
        made_node(&made, "Attention", "y", "x", "x", "x", "mask", NULL);
        made_refuse(&made, "a mask that does not fit the scores");
    }
}

static void names_of_weights_are_no_others(void **state)
{
    static const int64_t two = 2;
    static const float numbers[] = {3, 4};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, &two);
    made_floats(&made, "r.output", 1, &two, numbers, 2);
    made_node(&made, "Relu", "r", "x", NULL);
    made_node(&made, "Mul", "y", "r", "r.output", NULL);
    made_refuse(&made, "have the name of what a node gives");
}

static void factors_in_functions_are_known(void **state)
{
    struct made_model made;
    Onnx__Attribute *alpha;

    (void)state;
    made_begin(&made, 3, image);
    alpha = made_attribute(&made, made_node(&made, "Swish", "y", "x", NULL), "alpha");
    alpha->has_f = true;
    alpha->f = 2;
    made_refuse(&made, "Swish (node y): with an alpha");
}

/* A constant whose numbers are one and the same makes the other operand repeat all the same. */
static void equal_numbers_of_more_axes_are_no_number(void **state)
{
    static const int64_t two = 2, rows[] = {3, 1, 1, 1}, axes[] = {1, 1, 1, 1, 1}, four = 4,
                         five = 5, single = 1;
    static const float root = 0.70710678f, one = 1;
    static const struct {
        const char *type, *words;
    } cases[] = {{"Pow", "to other than a constant power"},
                 {"Where", "or of more axes"},
                 {"Erf", "the first axis of the model's output y is not the batch"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_model made;

        made_begin(&made, 3, image);
        made_integers(&made, "two", &two, &single);
        made_integers(&made, "shape", i < 2 ? rows : axes, i < 2 ? &four : &five);
        made_node(&made, "Expand", "whole", "two", "shape", NULL);
        made_int(&made, made_node(&made, "Cast", "twos", "whole", NULL), "to", MADE_FLOAT);
        made_float(&made, "root", &root);
        made_float(&made, "one", &one);
        if (i == 0) {
            made_node(&made, "Pow", "p", "x", "twos", NULL);
        } else if (i == 1) {
            made_node(&made, "Less", "m", "x", "one", NULL);
            made_node(&made, "Where", "p", "m", "one", "twos", NULL);
        } else {
            made_node(&made, "Mul", "r", "x", "root", NULL);
            made_node(&made, "Erf", "e", "r", NULL);
            made_node(&made, "Add", "s", "e", "one", NULL);
            made_node(&made, "Mul", "g", "x", "s", NULL);
            made_node(&made, "Mul", "p", "g", "twos", NULL);
        }
        made_node(&made, "Relu", "y", "p", NULL);
        made_refuse(&made, cases[i].words);
    }
}

static void what_no_operator_means_is_refused(void **state)
{
    static const float ones[] = {1, 1, 1, 1};
    struct made_model made;
    Onnx__Attribute *gamma;

    (void)state;
    made_begin(&made, 3, image);
    made_node(&made, "MaxPool", "y", "x", NULL);
    made_refuse(&made, "it has no kernel_shape");
    made_begin(&made, 3, image);
    gamma = made_attribute(&made, made_node(&made, "Selu", "y", "x", NULL), "gamma");
    gamma->has_f = true;
    made_refuse(&made, "with a gamma of 0");
    /* the product has as many axes as the matrix */
    made_begin(&made, 2, image + 1);
    made_floats(&made, "w", 4, (const int64_t[]){1, 1, 1, 4}, ones, 4);
    made_node(&made, "MatMul", "p", "w", "x", NULL);
    made_node(&made, "Relu", "y", "p", NULL);
    made_refuse(&made, "MatMul (node p)");
}

/* Rows of an embedding by the indices with another sign are others. */
static void symbols_have_no_factor(void **state)
{
    static const float table[] = {1, 2, 3};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, image + 1);
    made.tensor_type.elem_type = MADE_INT64;
    made_floats(&made, "t", 2, (const int64_t[]){3, 1}, table, 3);
    made_node(&made, "Neg", "n", "x", NULL);
    made_node(&made, "Gather", "y", "t", "n", NULL);
    made_refuse(&made, "Neg (node n): of whole numbers");
}

/* The cause is the number that the exporter had as a batch. */
static void a_fixed_batch_is_told(void **state)
{
    static const float ones[16] = {1};
    struct made_model made;

    (void)state;
    made_begin(&made, 1, image + 1);
    made.dimension[0].has_dim_value = true;
    made.dimension[0].dim_value = 4;
    made_floats(&made, "c", 2, (const int64_t[]){4, 4}, ones, 16);
    made_node(&made, "Shape", "s", "x", NULL);
    made_node(&made, "Expand", "e", "c", "s", NULL);
    made_node(&made, "Add", "y", "x", "e", NULL);
    made_refuse(&made, "an extent of 4 cannot be expanded to the batch; the file has a fixed batch "
                       "of 4, which may be why: export it with an open one");
}

/* A parameter of the most axes there are has no room for the batch before them. */
static void factors_of_many_axes_are_refused(void **state)
{
    static const int64_t extent[8] = {2, 1, 1, 1, 1, 1, 1, 2};
    static const float numbers[4] = {1, 2, 3, 4};
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_floats(&made, "p", 8, extent, numbers, 4);
    made_floats(&made, "q", 1, (const int64_t[]){2}, numbers, 2);
    made_node(&made, "Mul", "m", "p", "q", NULL);
    made_node(&made, "Add", "y", "x", "m", NULL);
    made_refuse(&made, "Mul (node m): of more than 7 dimensions");
}

static void attention_to_a_window_is_refused(void **state)
{
    struct made_model made;

    (void)state;
    made_begin(&made, 3, image);
    made_int(&made, made_node(&made, "Attention", "y", "x", "x", "x", NULL), "left_window_size", 1);
    made_refuse(&made, "Attention (node y): to a window of keys");
}

/* A sequence, or an optional value. */
static void an_input_that_is_no_tensor_is_refused(void **state)
{
    struct made_model made;

    (void)state;
    made_begin(&made, 1, image + 1);
    made.type.tensor_type = NULL;
    made_node(&made, "Identity", "y", "x", NULL);
    made_refuse(&made, "the input x of");
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_that_are_left_out_are_no_crash),
        cmocka_unit_test(a_diagonal_of_samples_is_refused),
        cmocka_unit_test(an_input_too_many_is_refused),
        cmocka_unit_test(weights_of_endless_repeats_are_refused),
        cmocka_unit_test(strides_of_empty_weights_are_checked),
        cmocka_unit_test(nodes_without_inputs_form_no_circle),
        cmocka_unit_test(windows_are_checked),
        cmocka_unit_test(the_batch_is_no_number),
        cmocka_unit_test(a_bias_with_more_axes_stays_a_sum),
        cmocka_unit_test(a_list_is_no_operand),
        cmocka_unit_test(an_axis_is_cut_once),
        cmocka_unit_test(steps_that_take_one_number_add_up_to_none),
        cmocka_unit_test(shapes_that_cannot_be_counted_are_refused),
        cmocka_unit_test(a_flattened_batch_is_counted),
        cmocka_unit_test(endless_constants_are_refused),
        cmocka_unit_test(a_bias_of_samples_is_refused),
        cmocka_unit_test(a_bias_of_rows_is_refused),
        cmocka_unit_test(refusals_of_a_fixed_batch_say_so),
        cmocka_unit_test(symbols_are_no_summands),
        cmocka_unit_test(a_product_of_a_single_number_is_refused),
        cmocka_unit_test(outputs_that_no_node_gives_are_missing),
        cmocka_unit_test(operators_of_other_domains_are_others),
        cmocka_unit_test(equations_are_not_cut),
        cmocka_unit_test(masks_have_the_axes_of_the_scores),
        cmocka_unit_test(names_of_weights_are_no_others),
        cmocka_unit_test(factors_in_functions_are_known),
        cmocka_unit_test(equal_numbers_of_more_axes_are_no_number),
        cmocka_unit_test(what_no_operator_means_is_refused),
        cmocka_unit_test(symbols_have_no_factor),
        cmocka_unit_test(a_fixed_batch_is_told),
        cmocka_unit_test(factors_of_many_axes_are_refused),
        cmocka_unit_test(attention_to_a_window_is_refused),
        cmocka_unit_test(an_input_that_is_no_tensor_is_refused),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
