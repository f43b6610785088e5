/* test_fasta: records, their labels, faults. */
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

static const char *path;
static struct dataset_config config;
static char warnings[1024];

static void on_warning(void *context, const char *text)
{
    (void)context;
    snprintf(warnings, sizeof warnings, "%s", text);
}

static const struct dataset_events events = {.warning = on_warning};

static int reset(void **state)
{
    (void)state;
    warnings[0] = '\0';
    config = (struct dataset_config){.format = DATASET_FASTA,
                                     .paths = &path,
                                     .path_count = 1,
                                     .sequence.tokens = DATASET_TOKENS_NUCLEOTIDES,
                                     .csv.delimiter = ' ',
                                     .events = &events};
    return 0;
}

static struct dataset *open_text(const char *text)
{
    path = data_file_write_text("set.fa", text);
    return data_open(&config, NULL);
}

#define REFUSE(text, ...)                                                                       \
    do {                                                                                        \
        path = data_file_write_text("set.fa", text);                                            \
        data_expect_refusal(&config, NULL, -EINVAL, "set.fa", __VA_ARGS__, (const char *)NULL); \
    } while (0)

static void check_row(const struct dataset *dataset, uint32_t index, const int32_t *tokens,
                      int32_t label)
{
    int32_t row[16], found;
    struct error error = {0};

    assert_int_equal(dataset_gather(dataset, NULL, &index, 1, row, &found, &error), 0);
    assert_memory_equal(row, tokens, (size_t)dataset->shape[0] * sizeof *row);
    assert_int_equal(found, label);
}

/* Wrapped lines, CRLF, blank lines, comments, lower case, N. */
static void test_records(void **state)
{
    struct dataset *dataset =
        open_text("; a comment\r\n>a first 1\r\nAC\r\ngt\r\n\r\n>b second 0\r\n"
                  "N\n>c third 1\nACGTA");

    (void)state;
    assert_int_equal(dataset->count, 3);
    assert_int_equal(dataset->shape[0], 5);
    check_row(dataset, 0, (const int32_t[]){0, 1, 2, 3, 5}, 1);
    check_row(dataset, 1, (const int32_t[]){4, 5, 5, 5, 5}, 0);
    check_row(dataset, 2, (const int32_t[]){0, 1, 2, 3, 0}, 1);
    dataset_close(dataset);
}

static void test_labels(void **state)
{
    struct dataset *dataset;

    (void)state;
    config.csv.label_column = "1";
    config.csv.delimiter = '|';
    dataset = open_text(">x y | tata |train\nAC\n>z|other|train\nAC\n");
    assert_string_equal(dataset->class_names[0], "other");
    assert_string_equal(dataset->class_names[1], "tata");
    dataset_close(dataset);
    config.csv.label_column = "class";
    config.csv.delimiter = ' ';
    dataset = open_text(">x class=2 length=2\nAC\n>y length=2 class=0\nAC\n");
    assert_int_equal(dataset->classes, 3);
    check_row(dataset, 0, (const int32_t[]){0, 1}, 2);
    dataset_close(dataset);
    REFUSE(">x class=2\nAC\n>y\nAC\n", ":3", "\"y\"", "no field class");
}

static void test_class_of_file(void **state)
{
    const char *paths[3], *classes[] = {"0", "1", "0"};
    struct dataset *dataset;

    (void)state;
    paths[0] = data_file_write_text("no.fa", ">a\nAC\n>b\nCC\n");
    paths[1] = data_file_path("yes.fa.gz");
    gzFile file = gzopen(paths[1], "wb");
    assert_int_equal(gzputs(file, ">c\nGG\n"), 6);
    assert_int_equal(gzclose(file), Z_OK);
    paths[2] = data_file_write_text("more.fa", ">d\nTT\n");
    config.paths = paths;
    config.path_count = 3;
    config.fasta.class_of_file = classes;
    config.fasta.class_count = 3;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->count, 4);
    assert_int_equal(dataset->classes, 2);
    check_row(dataset, 2, (const int32_t[]){2, 2}, 1);
    check_row(dataset, 3, (const int32_t[]){3, 3}, 0);
    dataset_close(dataset);
    config.fasta.class_count = 2;
    data_expect_refusal(&config, NULL, -EINVAL, "2 classes for 3 files", (const char *)NULL);
}

static void test_faults(void **state)
{
    struct dataset *dataset;

    (void)state;
    REFUSE(">a 1\nAC\n>b 0\n>c 1\nAC\n", ":3", "\"b 0\" is empty", "empty_records");
    REFUSE(">a 1\nAC\n>b 0\n", ":3", "is empty");
    REFUSE("AC\n>a 1\nAC\n", ":1", "before the first record");
    REFUSE(">a 1\nAC\nAXG\n", ":3, column 2", "\"X\"", "no nucleotide");
    REFUSE("; nothing\n", "no sequence");
    config.fasta.skips_empty = true;
    dataset = open_text(">a 1\nAC\n>b 0\n>c 0\nAC\n>d 1\n");
    assert_int_equal(dataset->count, 2);
    assert_non_null(strstr(warnings, "set.fa:3: the record is empty; 2 such records are left out"));
    dataset_close(dataset);
}

/* A sequence of ten million letters does not take more than these, and a batch may cut it. */
static void test_long_sequence(void **state)
{
    size_t letters = 10 << 20, used;
    char *text = malloc(2 * letters);
    struct dataset *dataset;

    (void)state;
    used = (size_t)sprintf(text, ">a 0\nACGT\n>b 0\nACG\n>long 1\n");
    for (size_t i = 0; i < letters; i++) {
        text[used++] = "ACGT"[i * i % 4];
        if (i % 60 == 59)
            text[used++] = '\n';
    }
    text[used] = '\0';
    dataset = open_text(text);
    assert_int_equal(dataset->shape[0], letters);
    assert_true(dataset->memory_bytes < letters + 1024);
    assert_non_null(strstr(warnings, "66.7% of each batch is padding"));
    dataset_close(dataset);
    config.sequence.length = 8;
    dataset = open_text(text);
    assert_int_equal(dataset->shape[0], 8);
    assert_non_null(strstr(warnings, "1 of 3 sequences are longer than 8 tokens"));
    assert_non_null(strstr(warnings, "line 6"));
    dataset_close(dataset);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_records, reset),
        cmocka_unit_test_setup(test_labels, reset),
        cmocka_unit_test_setup(test_class_of_file, reset),
        cmocka_unit_test_setup(test_faults, reset),
        cmocka_unit_test_setup(test_long_sequence, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
