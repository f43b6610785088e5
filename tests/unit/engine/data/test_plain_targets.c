/* test_plain_targets.c: labels of 0 or 1 and probabilities in tables: what is none is named with
 * its line and column. */
#include "engine/data/dataset.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const char *path;
static const char *const targets[] = {"p", "q"};
static struct dataset_config config;

static int reset(void **state)
{
    (void)state;
    config = (struct dataset_config){.format = DATASET_TABLE,
                                     .paths = &path,
                                     .path_count = 1,
                                     .target = DATASET_TARGET_VALUE,
                                     .table = {.targets = targets, .target_count = 2}};
    return 0;
}

#define REFUSE(text, ...)                                                             \
    do {                                                                              \
        path = data_file_write_text("table.csv", text);                               \
        data_expect_refusal(&config, NULL, -EINVAL, __VA_ARGS__, (const char *)NULL); \
    } while (0)

static void labels_of_tables(void **state)
{
    (void)state;
    config.plain_targets = DATASET_PLAIN_LABELS;
    path = data_file_write_text("table.csv", "p,a,q\n1,5,0\n0,6,1\n");
    dataset_close(data_open(&config, NULL));
    REFUSE("p,a,q\n1,5,0\n,6,1\n0,6,2\n", "table.csv:4: \"2\" in the column q",
           "binary_cross_entropy has labels that are 0 or 1");
    config.table.targets = NULL;
    config.csv.label_column = "q";
    config.format = DATASET_CSV;
    REFUSE("p,a,q\n1,5,0\n0,6,0.5\n", "table.csv:3, column 3: 0.5", "labels that are 0 or 1");
}

static void probabilities_of_tables(void **state)
{
    (void)state;
    config.plain_targets = DATASET_PLAIN_PROBABILITIES;
    path = data_file_write_text("table.csv", "p,a,q\n0.333,5,0.666\n0,6,1\n");
    dataset_close(data_open(&config, NULL));
    REFUSE("p,a,q\n1,5,0\n1.5,6,-0.5\n", "table.csv:3: \"-0.5\" in the column q",
           "soft_cross_entropy has probabilities, which are at least 0");
    REFUSE("p,a,q\n1,5,0\n,6,1\n0.5,6,0.7\n", "table.csv:4: the 2 values to predict add up to 1.2",
           "whose sum is 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(labels_of_tables, reset),
        cmocka_unit_test_setup(probabilities_of_tables, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
