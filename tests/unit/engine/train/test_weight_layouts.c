/* test_weight_layouts.c: parameters become the weights of the file that their model came from, and
 * parameters again. */
#include "engine/train/weight_layouts.h"
#include "tests/support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "b" stands transposed in the graph; of "rows" it has two parts, and of "joined" "c" and "d". */
static const char layouts[] =
    "{\"b.from0\":{\"shape\":[2,3],\"pieces\":["
    "{\"weight\":\"b\",\"shape\":[3,2],\"offset\":0,\"extent\":[2,3],\"stride\":[1,2]}]},"
    "\"rows.from0\":{\"shape\":[1,2],\"pieces\":["
    "{\"weight\":\"rows\",\"shape\":[2,2],\"offset\":0,\"extent\":[2],\"stride\":[1]}]},"
    "\"rows.from2\":{\"shape\":[1,2],\"pieces\":["
    "{\"weight\":\"rows\",\"shape\":[2,2],\"offset\":2,\"extent\":[2],\"stride\":[1]}]},"
    "\"joined\":{\"shape\":[3],\"pieces\":["
    "{\"weight\":\"c\",\"shape\":[1],\"offset\":0,\"extent\":[],\"stride\":[]},"
    "{\"weight\":\"d\",\"shape\":[1,2],\"offset\":0,\"extent\":[2],\"stride\":[1]}]}}";

static const float b_parameter[] = {1, 2, 3, 4, 5, 6}, b_weight[] = {1, 4, 2, 5, 3, 6};
static const float rows[] = {7, 8, 9, 10}, joined[] = {11, 12, 13}, other[] = {14};

static const struct safetensors_tensor parameters[] = {
    {"first", SAFETENSORS_FLOAT32, 1, {1}, sizeof other, other, false},
    {"b.from0", SAFETENSORS_FLOAT32, 2, {2, 3}, sizeof b_parameter, b_parameter, false},
    {"rows.from0", SAFETENSORS_FLOAT32, 2, {1, 2}, 2 * sizeof *rows, rows, false},
    {"joined", SAFETENSORS_FLOAT32, 1, {3}, sizeof joined, joined, false},
    {"rows.from2", SAFETENSORS_FLOAT32, 2, {1, 2}, 2 * sizeof *rows, rows + 2, false}};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static struct safetensors_tensor *copy_of_parameters(int count)
{
    struct safetensors_tensor *copy = malloc(sizeof parameters);

    assert_non_null(copy);
    return memcpy(copy, parameters, (size_t)count * sizeof *copy);
}

static void expect_tensor(const struct safetensors_tensor *tensor, const char *name, int rank,
                          int64_t first_extent, const float *values, size_t count)
{
    assert_string_equal(tensor->name, name);
    assert_int_equal(tensor->rank, rank);
    assert_int_equal(tensor->shape[0], first_extent);
    assert_int_equal(tensor->bytes, count * sizeof *values);
    assert_memory_equal(tensor->data, values, tensor->bytes);
}

static void weights_are_put_together(void **state)
{
    struct safetensors_tensor *tensors = copy_of_parameters(PARAMETERS);
    struct error error = {0};
    int count = PARAMETERS;

    (void)state;
    assert_int_equal(weight_layouts_scatter(layouts, &tensors, &count, &error), 0);
    assert_int_equal(count, 5);
    expect_tensor(&tensors[0], "first", 1, 1, other, 1);
    expect_tensor(&tensors[1], "b", 2, 3, b_weight, 6);
    expect_tensor(&tensors[2], "rows", 2, 2, rows, 4);
    expect_tensor(&tensors[3], "c", 1, 1, joined, 1);
    expect_tensor(&tensors[4], "d", 2, 1, joined + 1, 2);
    weight_layouts_free(tensors, count);
}

static void a_weight_that_lacks_a_part_stays_in_parts(void **state)
{
    struct safetensors_tensor *tensors = copy_of_parameters(PARAMETERS - 1);
    struct error error = {0};
    int count = PARAMETERS - 1;

    (void)state;
    assert_int_equal(weight_layouts_scatter(layouts, &tensors, &count, &error), 0);
    assert_int_equal(count, 5);
    expect_tensor(&tensors[2], "rows.from0", 2, 1, rows, 2);
    weight_layouts_free(tensors, count);
}

/* Constants may be read in several orders, and in parts that overlap. */
static void constants_that_are_read_twice_are_there_once(void **state)
{
    static const char twice[] =
        "{\"k.from0\":{\"shape\":[2,2],\"pieces\":["
        "{\"weight\":\"k\",\"shape\":[2,2],\"offset\":0,\"extent\":[2,2],\"stride\":[1,2]}]},"
        "\"grid.from0\":{\"shape\":[2],\"pieces\":["
        "{\"weight\":\"grid\",\"shape\":[4],\"offset\":0,\"extent\":[2],\"stride\":[1]}]},"
        "\"grid.from1\":{\"shape\":[2],\"pieces\":["
        "{\"weight\":\"grid\",\"shape\":[4],\"offset\":1,\"extent\":[2],\"stride\":[1]}]}}";
    static const float turned[] = {7, 9, 8, 10};
    struct safetensors_tensor *tensors = malloc(4 * sizeof *tensors);
    struct error error = {0};
    int count = 4;

    (void)state;
    assert_non_null(tensors);
    tensors[0] = (struct safetensors_tensor){
        "k.from0", SAFETENSORS_FLOAT32, 2, {2, 2}, sizeof turned, turned, false};
    tensors[1] =
        (struct safetensors_tensor){"k", SAFETENSORS_FLOAT32, 2, {2, 2}, sizeof rows, rows, false};
    tensors[2] = (struct safetensors_tensor){
        "grid.from0", SAFETENSORS_FLOAT32, 1, {2}, 2 * sizeof *rows, rows, false};
    tensors[3] = (struct safetensors_tensor){
        "grid.from1", SAFETENSORS_FLOAT32, 1, {2}, 2 * sizeof *rows, rows + 1, false};
    assert_int_equal(weight_layouts_scatter(twice, &tensors, &count, &error), 0);
    assert_int_equal(count, 3);
    expect_tensor(&tensors[0], "k", 2, 2, rows, 4);
    expect_tensor(&tensors[1], "grid.from0", 1, 2, rows, 2); /* of which a number is missing */
    expect_tensor(&tensors[2], "grid.from1", 1, 2, rows + 1, 2);
    weight_layouts_free(tensors, count);
}

/* A weight whose rows stand in the other direction in the graph, as of flip(). */
static void weights_backwards_are_put_together(void **state)
{
    static const char backwards[] =
        "{\"k.from2\":{\"shape\":[2,2],\"pieces\":["
        "{\"weight\":\"k\",\"shape\":[2,2],\"offset\":2,\"extent\":[2,2],\"stride\":[-2,1]}]}}";
    static const float turned[] = {9, 10, 7, 8};
    struct safetensors_tensor *tensors = malloc(sizeof *tensors);
    struct error error = {0};
    int count = 1;

    (void)state;
    assert_non_null(tensors);
    tensors[0] = (struct safetensors_tensor){
        "k.from2", SAFETENSORS_FLOAT32, 2, {2, 2}, sizeof turned, turned, false};
    assert_int_equal(weight_layouts_scatter(backwards, &tensors, &count, &error), 0);
    assert_int_equal(count, 1);
    expect_tensor(&tensors[0], "k", 2, 2, rows, 4);
    weight_layouts_free(tensors, count);
}

static void parameters_are_put_together(void **state)
{
    struct safetensors_tensor weights[] = {
        {"net.b", SAFETENSORS_FLOAT32, 2, {3, 2}, sizeof b_weight, b_weight, false},
        {"net.rows", SAFETENSORS_FLOAT32, 2, {2, 2}, sizeof rows, rows, false},
        {"net.c", SAFETENSORS_FLOAT32, 1, {1}, sizeof *joined, joined, false},
        {"net.d", SAFETENSORS_FLOAT32, 1, {2}, 2 * sizeof *joined, joined + 1, false}};
    const char *path = data_file_path("weights.safetensors");
    struct safetensors_writer *writer;
    struct safetensors file;
    struct error error = {0};

    (void)state;
    assert_int_equal(safetensors_writer_open(path, NULL, 0, weights, 4, &writer, &error), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(safetensors_writer_add(writer, weights[i].data, weights[i].bytes, &error),
                         0);
    assert_int_equal(safetensors_writer_finish(writer, NULL, NULL, &error), 0);
    assert_int_equal(safetensors_open(path, &file, &error), 0);
    assert_int_equal(weight_layouts_gather(layouts, "net.", &file, &error), 0);
    expect_tensor(safetensors_find(&file, "net.b.from0"), "net.b.from0", 2, 2, b_parameter, 6);
    expect_tensor(safetensors_find(&file, "net.rows.from2"), "net.rows.from2", 2, 1, rows + 2, 2);
    assert_null(safetensors_find(&file, "net.joined")); /* "d" has another shape in the file */
    safetensors_close(&file);
}

static void damaged_descriptions_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{\"a\":1}",
        "{\"a\":{}}",
        "{\"a\":{\"shape\":[2],\"pieces\":[]}}",
        "{\"a\":{\"shape\":[-2],\"pieces\":[]}}",
        "{\"a\":{\"shape\":[2],\"pieces\":[{}]}}",
        "{\"a\":{\"shape\":[2],\"pieces\":[{\"weight\":\"b\",\"shape\":[2],\"offset\":1,"
        "\"extent\":[2],\"stride\":[1]}]}}",
        "{\"a\":{\"shape\":[2],\"pieces\":[{\"weight\":\"b\",\"shape\":[2],\"offset\":-1,"
        "\"extent\":[2],\"stride\":[1]}]}}",
        "{\"a\":{\"shape\":[2],\"pieces\":[{\"weight\":\"b\",\"shape\":[2],\"offset\":0,"
        "\"extent\":[2],\"stride\":[9223372036854775807]}]}}",
        "{\"a\":{\"shape\":[2],\"pieces\":[{\"weight\":\"b\",\"shape\":[2],\"offset\":0,"
        "\"extent\":[2],\"stride\":[]}]}}",
        "{\"a\":{\"shape\":[9223372036854775807,3],\"pieces\":[]}}",
        "{\"a\":{\"shape\":[4611686018427387904],\"pieces\":[{\"weight\":\"b\",\"shape\":[8,8],"
        "\"offset\":0,\"extent\":[4611686018427387904],\"stride\":[0]}]}}",
        "{\"a\":{\"shape\":[2],\"pieces\":[{\"weight\":\"b\",\"shape\":[2],"
        "\"offset\":0,\"extent\":[2],\"stride\":[-1]}]}}",
        "{\"a\":{\"shape\":[65],\"pieces\":[{\"weight\":\"b\",\"shape\":[8,8],"
        "\"offset\":0,\"extent\":[65],\"stride\":[0]}]}}"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct safetensors_tensor *tensors = copy_of_parameters(PARAMETERS);
        struct safetensors file = {0};
        struct error error = {0};
        int count = PARAMETERS;

        if (weight_layouts_scatter(texts[i], &tensors, &count, &error) == 0 ||
            weight_layouts_gather(texts[i], "", &file, &error) == 0)
            fail_msg("accepted: %s", texts[i]);
        assert_non_null(strstr(error.text, "damaged"));
        weight_layouts_free(tensors, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_put_together),
        cmocka_unit_test(a_weight_that_lacks_a_part_stays_in_parts),
        cmocka_unit_test(constants_that_are_read_twice_are_there_once),
        cmocka_unit_test(weights_backwards_are_put_together),
        cmocka_unit_test(parameters_are_put_together),
        cmocka_unit_test(damaged_descriptions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
