/* test_detection: which format a file is told to have by its name and its first bytes, and that no
 * bytes make it read beyond their end. tests/integration/test_trainctl_init has whole folders. */
#include "engine/data/detection.h"
#include "tests/support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 3000, BYTES_MOST = 200 };

/* Bytes and their number. */
#define BYTES(text)           \
    {                         \
        text, sizeof text - 1 \
    }

static enum dataset_format format_of(const char *name, const char *text)
{
    struct detection detection;
    struct error error = {0};
    enum dataset_format format;

    if (detection_open(data_file_write_text(name, text), &detection, &error) < 0)
        fail_msg("%s: %s", name, error.text);
    format = detection.format;
    detection_release(&detection);
    return format;
}

static void test_texts_and_tables(void **state)
{
    (void)state;
    assert_int_equal(format_of("a.txt", "To be, or not to be,\nthat is the question.\n"),
                     DATASET_TEXT);
    assert_int_equal(format_of("b.txt", "1;2;x\n3;4;y\n"), DATASET_TABLE);
    assert_int_equal(format_of("c.csv", "one column\n1\n2\n"), DATASET_TABLE);
    assert_int_equal(format_of("d", "a\tb\n1\t2\n3\t4\n"), DATASET_TABLE);
    assert_int_equal(format_of("e.fa", ">one\nACGT\n>two\nAC\n"), DATASET_FASTA);
    assert_int_equal(format_of("f", "one line, without an end"), DATASET_TEXT);
    assert_int_equal(format_of("g.dat", "# from a station\n1,2,x\n3,4,y\n"), DATASET_TABLE);
}

/* Columns that blanks part, as many data sets of UCI and numpy.savetxt() have them. */
static void test_columns_between_blanks(void **state)
{
    (void)state;
    assert_int_equal(format_of("housing.data", " 0.0063  18.0  2.31\n 0.0273   0.0  7.07\n"
                                               " 0.0272   0.0  7.07\n"),
                     DATASET_TABLE);
    assert_int_equal(format_of("german.data", "A11 6 A34 67 1\nA12 48 A32 22 2\nA14 12 A34 49 1\n"),
                     DATASET_TABLE);
    assert_int_equal(
        format_of("elnino.dat", " YR   MON  NINO3\n1950   1   23.11\n1950   2   24.20\n"),
        DATASET_TABLE);
    assert_int_equal(format_of("saved.txt", "# year value\n1.7e+03 5.0e+00\n1.7e+03 1.1e+01\n"
                                            "1.7e+03 -1.6e+01\n"),
                     DATASET_TABLE);
    assert_int_equal(format_of("poem.txt", "to be or\nnot to be\nthat is 1\nquestion of 5\n"),
                     DATASET_TEXT);
    assert_int_equal(format_of("two.txt", "Chapter 1\nChapter 2\n"), DATASET_TEXT);
}

/* Packed files are no texts, though no byte of them may be zero. */
static void test_packed_files(void **state)
{
    static const char *const contents[] = {"BZh91AY&SY", "\x28\xb5\x2f\xfd abc"};

    (void)state;
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct detection detection;
        struct error error = {0};

        assert_int_not_equal(
            detection_open(data_file_write_text("packed", contents[i]), &detection, &error), 0);
        assert_non_null(strstr(error.text, "is packed by "));
        detection_release(&detection);
    }
}

static void test_letters_of_sequences(void **state)
{
    struct detection detection;
    struct error error;

    (void)state;
    detection_open(data_file_write_text("dna.fa", ">x is no base\nACGTN\nacgu\n;y\n>z\nA\n"),
                   &detection, &error);
    assert_true(detection.is_dna);
    assert_int_equal(detection.samples, 2);
    detection_release(&detection);
    detection_open(data_file_write_text("protein.fa", ">x\nMKV\n"), &detection, &error);
    assert_false(detection.is_dna);
    detection_release(&detection);
}

/* Files that belong together are found by their names. */
static void test_partners(void **state)
{
    const char *train = data_file_write_text("p_train.csv", "a,b\n1,2\n");
    char path[512];
    struct detection detection;
    struct error error;

    (void)state;
    snprintf(path, sizeof path, "%s", train);
    data_file_write_text("p_test.csv", "a,b\n3,4\n");
    assert_int_equal(detection_open(path, &detection, &error), 0);
    assert_int_equal(detection.test.path_count, 1);
    assert_non_null(strstr(detection.test.paths[0], "p_test.csv"));
    assert_int_equal(detection.note_count, 1);
    detection_release(&detection);
}

/* Whatever the bytes are, there is a format or a sentence. Beginnings of real files are among
 * them, cut off anywhere. */
static void test_any_bytes(void **state)
{
    static const char *const names[] = {"x.npy", "x.npz",    "train-images", "x.bin", "x.fa",
                                        "x.csv", "x-labels", "x.txt",        "x"};
    static const struct {
        const char *bytes;
        size_t size;
    } beginnings[] = {
        BYTES("\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (9, 9)}"),
        BYTES("\0\0\x08\x03\0\0\xff\xff\0\0\0\x1c"),
        BYTES("\0\0\x08\x01\0\0\0\2\0\1"),
        BYTES("PK\3\4\x14\0\0\0"),
        BYTES("\x89PNG\r\n\x1a\n"),
        BYTES("\xff\xfe"
              "a\0,\0"),
        BYTES(">"),
        BYTES("#x\n"),
        BYTES("\x1f\x8b\x08\0")};
    uint8_t content[BYTES_MOST];

    (void)state;
    srandom(1);
    for (int i = 0; i < ROUNDS; i++) {
        size_t kind = (size_t)random() % (sizeof beginnings / sizeof *beginnings);
        size_t size = 1 + (size_t)random() % (BYTES_MOST - 1);
        const char *name = names[(size_t)random() % (sizeof names / sizeof *names)];
        struct detection detection;
        struct error error = {0};

        for (size_t k = 0; k < size; k++)
            content[k] = (uint8_t)(random() % 3 ? random() : ",\n 1"[random() % 4]);
        memcpy(content, beginnings[kind].bytes,
               size < beginnings[kind].size ? size : beginnings[kind].size);
        if (detection_open(data_file_write(name, content, size), &detection, &error) < 0)
            assert_int_not_equal(strlen(error.text), 0);
        else
            assert_int_not_equal(detection.train.path_count, 0);
        detection_release(&detection);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_and_tables), cmocka_unit_test(test_columns_between_blanks),
        cmocka_unit_test(test_packed_files),     cmocka_unit_test(test_letters_of_sequences),
        cmocka_unit_test(test_partners),         cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests_name("detection", tests, NULL, NULL);
}
