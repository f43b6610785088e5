/* test_description.c: what a checkpoint keeps of a table is read back, unless its parts do not
 * belong together. */
#include "engine/data/description.h"
#include "tests/support/table_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static int reset(void **state)
{
    (void)state;
    table_file_reset(DATASET_TABLE);
    return 0;
}

/* Labels beyond the classes would be counted beyond the metrics' memory. */
static void labels_are_those_of_the_classes(void **state)
{
    struct dataset *train = table_file_open("a,y\n1,2\n2,4\n3,6\n", NULL), *read = NULL;
    char *text = dataset_description_format(train);
    struct error error;

    (void)state;
    assert_int_equal(dataset_description_parse(text, &read, &error), 0);
    dataset_close(read);
    table_file_check_damaged(text, "label 0x1.8p+2\n", "label 0x1.8p+2\nlabel 0x1.8p+3\n");
    table_file_check_damaged(text, "label 0x1.8p+2\n", "label 0x1p+2\n");
    table_file_check_damaged(text, "label 0x1.8p+2\n", "label 0x1p+0\n");
    free(text);
    dataset_close(train);
}

static void each_value_to_predict_has_a_column(void **state)
{
    static const char *const targets[] = {"y", "z"};
    struct dataset *train;
    char *text;

    (void)state;
    table_file.config.target = DATASET_TARGET_VALUE;
    table_file.config.table.targets = targets;
    table_file.config.table.target_count = 2;
    train = table_file_open("a,y,z\n1,2,3\n2,4,5\n", NULL);
    text = dataset_description_format(train);
    table_file_check_damaged(text, "left_out 0 0 0 1", "left_out 0 0 0 0");
    table_file_check_damaged(text, "left_out 0 0 0 1", "left_out 0 0 0 -1");
    table_file_check_damaged(text, "left_out 0 0 0 1", "left_out 0 0 0 2");
    free(text);
    dataset_close(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(labels_are_those_of_the_classes, reset),
        cmocka_unit_test_setup(each_value_to_predict_has_a_column, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
