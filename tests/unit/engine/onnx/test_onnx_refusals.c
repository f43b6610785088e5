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
    made_refuse(&made, "its first input is a constant");
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_that_are_left_out_are_no_crash),
        cmocka_unit_test(an_input_too_many_is_refused),
        cmocka_unit_test(weights_of_endless_repeats_are_refused),
        cmocka_unit_test(strides_of_empty_weights_are_checked),
        cmocka_unit_test(nodes_without_inputs_form_no_circle),
        cmocka_unit_test(windows_are_checked),
        cmocka_unit_test(the_batch_is_no_number),
        cmocka_unit_test(a_bias_with_more_axes_stays_a_sum),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
