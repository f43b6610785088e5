/* test_text_data: text as samples: vocabulary, contexts, split and baselines. */
#include "engine/data/split.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *path;
static struct dataset_config config;

static int reset(void **state)
{
    (void)state;
    config = (struct dataset_config){
        .format = DATASET_TEXT, .paths = &path, .path_count = 1, .text.context = 3};
    return 0;
}

static struct dataset *open_text(const char *text)
{
    path = data_file_write_text("text", text);
    return data_open(&config, NULL);
}

static char warning[512];

static void on_warning(void *context, const char *text)
{
    (void)context;
    snprintf(warning, sizeof warning, "%s", text);
}

/* A byte order mark is no symbol; a broken character makes the text bytes, with a warning. */
static void test_mark_and_broken_byte(void **state)
{
    static const struct dataset_events events = {.warning = on_warning};
    struct dataset *dataset, *test;

    (void)state;
    config.events = &events;
    dataset = open_text("abcabcabc");
    path = data_file_write_text("marked", "\xef\xbb\xbf"
                                          "cabcab");
    test = data_open(&config, dataset);
    assert_int_equal(test->symbol_count, 6);
    dataset_close(test);
    path = data_file_write_text("marked", "\xef\xbb\xbf"
                                          "xabcab");
    data_expect_refusal(&config, dataset, -EINVAL, "marked:1, column 1:", "\"x\"", NULL);
    dataset_close(dataset);
    dataset = open_text("\xef\xbb\xbf"
                        "abcabcabc");
    assert_int_equal(dataset->vocabulary.count, 3);
    dataset_close(dataset);
    assert_string_equal(warning, "");
    dataset = open_text("ab\nab\xe9 abcabc");
    assert_true(dataset->vocabulary.bytes);
    dataset_close(dataset);
    assert_non_null(strstr(warning, "text:2: byte 6 of the file, 0xE9, is no UTF-8"));
}

/* Sample `index` must be `symbols` (context, then label), given as text. */
static void check_sample(const struct dataset *dataset, uint32_t index, const char *text)
{
    int32_t expected[16], row[16], label;
    struct error error = {0};
    size_t count;

    assert_int_equal(
        dataset_vocabulary_encode(&dataset->vocabulary, text, expected, 16, &count, &error), 0);
    assert_int_equal(count, dataset->sample_elements + 1);
    assert_int_equal(dataset_gather(dataset, NULL, &index, 1, row, &label, &error), 0);
    assert_memory_equal(row, expected, (count - 1) * sizeof *row);
    assert_int_equal(label, expected[count - 1]);
}

static void test_samples(void **state)
{
    struct dataset *dataset = open_text("cabbage");

    (void)state;
    assert_int_equal(dataset->count, 4);
    assert_int_equal(dataset->shape[0], 3);
    assert_int_equal(dataset->classes, 5); /* a b c e g */
    assert_int_equal(dataset->vocabulary.symbols[0], 'a');
    assert_int_equal(dataset->vocabulary.symbols[4], 'g');
    check_sample(dataset, 0, "cabb");
    check_sample(dataset, 3, "bage");
    uint32_t beyond = 4;
    int32_t row[3], label;
    struct error error = {0};
    assert_int_equal(dataset_gather(dataset, NULL, &beyond, 1, row, &label, &error), -ERANGE);
    dataset_close(dataset);
}

static void test_several_files(void **state)
{
    const char *paths[] = {data_file_write_text("one", "abc"), data_file_write_text("two", "dé")};

    (void)state;
    config.paths = paths;
    config.path_count = 2;
    struct dataset *dataset = data_open(&config, NULL);
    assert_int_equal(dataset->symbol_count, 5);
    check_sample(dataset, 1, "bcdé");
    dataset_close(dataset);
}

static void test_code_points(void **state)
{
    struct dataset *dataset = open_text("aé€😀a€");
    char bytes[4];

    (void)state;
    assert_false(dataset->vocabulary.bytes);
    assert_int_equal(dataset->symbol_count, 6);
    assert_int_equal(dataset->classes, 4);
    check_sample(dataset, 2, "€😀a€");
    assert_int_equal(dataset_vocabulary_decode(&dataset->vocabulary, 0, bytes), 1);
    assert_int_equal(dataset_vocabulary_decode(&dataset->vocabulary, 1, bytes), 2);
    assert_memory_equal(bytes, "é", 2);
    assert_int_equal(dataset_vocabulary_decode(&dataset->vocabulary, 2, bytes), 3);
    assert_memory_equal(bytes, "€", 3);
    assert_int_equal(dataset_vocabulary_decode(&dataset->vocabulary, 3, bytes), 4);
    assert_memory_equal(bytes, "😀", 4);
    assert_int_equal(dataset_vocabulary_decode(&dataset->vocabulary, 4, bytes), 0);
    dataset_close(dataset);
}

static void test_bytes(void **state)
{
    struct dataset *dataset = open_text("a\xff\xe9 b");
    char bytes[4];

    (void)state;
    assert_true(dataset->vocabulary.bytes);
    assert_int_equal(dataset->symbol_count, 5);
    assert_int_equal(dataset->vocabulary.symbols[4], 0xff);
    assert_int_equal(dataset_vocabulary_decode(&dataset->vocabulary, 4, bytes), 1);
    assert_int_equal((uint8_t)bytes[0], 0xff);
    check_sample(dataset, 1, "\xff\xe9 b");
    dataset_close(dataset);
}

/* More than 256 symbols no longer fit into a byte each. */
static void test_many_symbols(void **state)
{
    static char text[3 * 600 + 1];

    (void)state;
    for (int i = 0; i < 600; i++) {
        text[3 * i] = (char)0xe4;
        text[3 * i + 1] = (char)(0x80 + i / 64);
        text[3 * i + 2] = (char)(0x80 + i % 64);
    }
    struct dataset *dataset = open_text(text);
    uint32_t index = 500;
    int32_t row[3], label;
    struct error error;
    assert_int_equal(dataset->element, DATASET_INT32);
    assert_int_equal(dataset->classes, 600);
    assert_int_equal(dataset_gather(dataset, NULL, &index, 1, row, &label, &error), 0);
    assert_int_equal(row[0], 500);
    assert_int_equal(row[2], 502);
    assert_int_equal(label, 503);
    dataset_close(dataset);
}

static void test_vocabulary_text(void **state)
{
    static const char *const texts[] = {"hello, wörld €", "b\xfftes"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct dataset *dataset = open_text(texts[i]);
        struct dataset_vocabulary copy;
        struct error error = {0};
        char *text = dataset_vocabulary_format(&dataset->vocabulary);

        assert_int_equal(dataset_vocabulary_parse(text, &copy, &error), 0);
        assert_int_equal(copy.bytes, i == 1);
        assert_int_equal(copy.count, dataset->vocabulary.count);
        assert_memory_equal(copy.symbols, dataset->vocabulary.symbols,
                            (size_t)copy.count * sizeof *copy.symbols);
        dataset_vocabulary_release(&copy);
        free(text);
        dataset_close(dataset);
    }
    static const char *const damaged[] = {"",        "ascii 61",     "utf-8 61 61", "utf-8 62 61",
                                          "utf-8 x", "utf-8 110000", "bytes 100",   "utf-8  61 ",
                                          "utf-8,61"};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct dataset_vocabulary copy;
        assert_int_equal(dataset_vocabulary_parse(damaged[i], &copy, NULL), -EINVAL);
    }
}

static void test_reference(void **state)
{
    struct dataset *train = open_text("the cat sat\n");
    struct dataset *test;

    (void)state;
    path = data_file_write_text("test", "that hat\n");
    test = data_open(&config, train);
    assert_int_equal(test->classes, train->classes);
    check_sample(test, 0, "that");
    dataset_close(test);
    path = data_file_write_text("test", "that\nhat é\n");
    data_expect_refusal(&config, train, -EINVAL, "test:2, column 5", "\"é\" (U+00E9)",
                        "training text", NULL);
    path = data_file_write_text("test", "that \x01 hat\n");
    data_expect_refusal(&config, train, -EINVAL, "test:1, column 6", "U+0001", NULL);
    path = data_file_write_text("test", "that\xff");
    data_expect_refusal(&config, train, -EINVAL, "not valid UTF-8", "convert", NULL);
    path = data_file_write_text("test", "the");
    data_expect_refusal(&config, train, -EINVAL, "3 symbols", "context of 3", NULL);
    dataset_close(train);
}

static void test_refusals(void **state)
{
    (void)state;
    path = data_file_write_text("text", "abc");
    data_expect_refusal(&config, NULL, -EINVAL, "3 symbols", "context of 3", NULL);
    path = data_file_write_text("text", "");
    data_expect_refusal(&config, NULL, -EINVAL, "is empty", NULL);
    config.text.context = 0;
    data_expect_refusal(&config, NULL, -EINVAL, "context is 0", NULL);
}

/* The tail is the validation part: no label of it is a label of the training part. */
static void test_split(void **state)
{
    struct dataset *dataset = open_text("aaaaaaaaaabbbbbccc");
    struct dataset_split split;
    struct error error = {0};

    (void)state;
    assert_int_equal(dataset->count, 15);
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.2, .seed = 7},
                                   &split, &error),
                     0);
    assert_int_equal(split.train.count, 12);
    assert_int_equal(split.validation.count, 3);
    assert_null(split.indices);
    assert_int_equal(dataset_view_index(&split.train, 11), 11);
    assert_int_equal(dataset_view_index(&split.validation, 0), 12);
    check_sample(dataset, 11, "bbbb");
    check_sample(dataset, 12, "bbbc");
    struct dataset_normalisation normalisation;
    assert_int_equal(dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &split.train,
                                                   &normalisation, &error),
                     -EINVAL);
    dataset_split_release(&split);
    dataset_close(dataset);
}

/* How often each symbol of a text is a label, over the view as an epoch shifts it. */
static void count_labels(const struct dataset_view *view, int64_t shift, int counts[])
{
    int64_t context = view->dataset->sample_elements;

    for (int64_t i = 0; i < view->count; i++) {
        uint32_t index = (uint32_t)(dataset_view_index(view, i) + shift);
        int32_t symbols[8], labels[8];
        struct error error = {0};

        assert_int_equal(dataset_gather(view->dataset, NULL, &index, 1, symbols, labels, &error),
                         0);
        for (int64_t k = 0; k < context; k++) {
            if (k + 1 < context && labels[k] >= 0)
                assert_int_equal(labels[k], symbols[k + 1]);
            counts[index + k + 1] += labels[k] >= 0;
        }
    }
}

/* Labels for each symbol: evaluation has every symbol but the first for a label once, whatever the
 * length of the text. An epoch of training has none twice, and what it leaves out is less than two
 * windows, at another end in another epoch. */
static void test_windows(void **state)
{
    static char text[64];

    (void)state;
    config.text.labels_each = true;
    for (int length = 4; length < 40; length++) {
        memset(text, 0, sizeof text);
        for (int i = 0; i < length; i++)
            text[i] = (char)('a' + i * i % 7);
        struct dataset *dataset = open_text(text);
        struct dataset_view all = dataset_view_all(dataset);
        struct dataset_split split;
        struct error error = {0};
        int counts[64] = {0};

        assert_int_equal(dataset_target_bytes(dataset), 3 * sizeof(int32_t));
        count_labels(&all, 0, counts);
        for (int i = 0; i < length; i++)
            assert_int_equal(counts[i], i > 0);
        assert_int_equal(dataset_split(dataset,
                                       &(struct dataset_split_config){.fraction = 0, .seed = 7},
                                       &split, &error),
                         0);
        for (uint32_t epoch = 0; epoch < 9; epoch++) {
            int64_t shift = dataset_view_shift(&split.train, 7, epoch);
            int seen[64] = {0}, missed = 0;

            count_labels(&split.train, shift, seen);
            for (int i = 1; i < length; i++) {
                assert_true(seen[i] <= 1 || dataset->last_ignored);
                missed += seen[i] == 0;
            }
            assert_true(missed <= 6);
            assert_true(seen[0] == 0);
        }
        dataset_split_release(&split);
        dataset_close(dataset);
    }
}

/* Of a text read in streams: each row of a batch begins with the symbol that follows the same row
 * of the batch before, in whole windows, and each window is there once; with a shorter last batch,
 * and of a text that is shorter than a batch, too. */
static void test_streams(void **state)
{
    enum { ROWS = 4 };
    static char text[128];

    (void)state;
    config.text.labels_each = config.text.streams = true;
    for (int length = 4; length < 100; length++) {
        memset(text, 0, sizeof text);
        for (int i = 0; i < length; i++)
            text[i] = (char)('a' + i * i % 7);
        struct dataset *dataset = open_text(text);
        struct dataset_view all = dataset_view_all(dataset);
        int64_t rows = all.count < ROWS ? all.count : ROWS;
        int seen[64] = {0}, counts[128] = {0};

        assert_int_equal(all.count, (length - 1) / 3);
        for (int64_t position = 0; position < all.count; position++) {
            int64_t place = dataset_stream_place(all.count, rows, position);

            assert_true(place >= 0 && place < all.count && !seen[place]++);
            if (position >= rows)
                assert_int_equal(place, dataset_stream_place(all.count, rows, position - rows) + 1);
            assert_int_equal(dataset_view_index(&all, place), 3 * place);
        }
        count_labels(&all, 0, counts);
        for (int i = 0; i < length; i++)
            assert_int_equal(counts[i], i > 0 && i <= 3 * all.count);
        dataset_close(dataset);
    }
}

/* The parts share no label, and the validation part has each of its symbols once. */
static void test_split_windows(void **state)
{
    int train[64] = {0}, validation[64] = {0};
    struct dataset_split split;
    struct error error = {0};
    int64_t shifts = 0;

    (void)state;
    config.text.labels_each = true;
    struct dataset *dataset = open_text("abcabcabbacbcabcabacbcbacbabcbbacbcabbabcabcbac");
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.2, .seed = 7},
                                   &split, &error),
                     0);
    for (uint32_t epoch = 0; epoch < 50; epoch++) {
        int64_t shift = dataset_view_shift(&split.train, 7, epoch);

        assert_true(shift >= 0 && shift < split.train.shifts);
        shifts |= INT64_C(1) << shift;
        count_labels(&split.train, shift, train);
    }
    assert_true(shifts == (INT64_C(1) << split.train.shifts) - 1); /* all were drawn */
    count_labels(&split.validation, 0, validation);
    for (int64_t i = 1; i < dataset->symbol_count; i++) {
        bool held_out = i > split.validation.first;

        assert_int_equal(validation[i], held_out);
        assert_true(!held_out || train[i] == 0);
    }
    assert_true(split.validation.first >= 33 && split.validation.first <= 36);
    dataset_split_release(&split);
    dataset_close(dataset);
}

/* Short texts, too, share no label between the parts, or are refused. */
static void test_split_of_short_texts(void **state)
{
    static const double fractions[] = {0.01, 0.2, 0.5, 0.9};

    (void)state;
    config.text.labels_each = true;
    for (int64_t length = config.text.context + 2; length < 5 * config.text.context; length++) {
        char text[64] = "";

        for (int64_t i = 0; i < length; i++)
            text[i] = (char)('a' + i * i % 7);
        struct dataset *dataset = open_text(text);
        for (size_t k = 0; k < sizeof fractions / sizeof *fractions; k++) {
            int train[64] = {0}, validation[64] = {0};
            struct dataset_split split;
            struct error error = {0};
            int r = dataset_split(
                dataset, &(struct dataset_split_config){.fraction = fractions[k], .seed = 7},
                &split, &error);

            if (length < 2 * config.text.context + 1) {
                assert_int_equal(r, -EINVAL);
                assert_non_null(strstr(error.text, "smaller model.context"));
                continue;
            }
            assert_int_equal(r, 0);
            for (uint32_t epoch = 0; epoch < 20; epoch++)
                count_labels(&split.train, dataset_view_shift(&split.train, 7, epoch), train);
            count_labels(&split.validation, 0, validation);
            for (int64_t i = 1; i < length; i++) {
                assert_true(validation[i] == 0 || train[i] == 0);
                assert_int_equal(validation[i], i > split.validation.first);
            }
            dataset_split_release(&split);
        }
        dataset_close(dataset);
    }
}

/* Against counts made by hand. */
static void test_baselines(void **state)
{
    config.text.context = 1;
    struct dataset *dataset = open_text("abababaabb");
    struct dataset_view train = {.dataset = dataset, .first = 0, .count = 6};
    struct dataset_view validation = {.dataset = dataset, .first = 6, .count = 3};
    struct text_baselines baselines;
    struct error error = {0};

    (void)state;
    /* training pairs: ab x 3, ba x 3; validation pairs: aa, ab, bb */
    double expected = -(log(1 / 5.0) + log(4 / 5.0) + log(1 / 5.0)) / 3;
    assert_int_equal(text_baselines(&train, &validation, &baselines, &error), 0);
    assert_true(fabs(baselines.uniform - log(2)) < 1e-15);
    assert_true(fabs(baselines.bigram - expected) < 1e-15);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_mark_and_broken_byte, reset),
        cmocka_unit_test_setup(test_samples, reset),
        cmocka_unit_test_setup(test_several_files, reset),
        cmocka_unit_test_setup(test_code_points, reset),
        cmocka_unit_test_setup(test_bytes, reset),
        cmocka_unit_test_setup(test_many_symbols, reset),
        cmocka_unit_test_setup(test_vocabulary_text, reset),
        cmocka_unit_test_setup(test_reference, reset),
        cmocka_unit_test_setup(test_refusals, reset),
        cmocka_unit_test_setup(test_split, reset),
        cmocka_unit_test_setup(test_windows, reset),
        cmocka_unit_test_setup(test_streams, reset),
        cmocka_unit_test_setup(test_split_windows, reset),
        cmocka_unit_test_setup(test_split_of_short_texts, reset),
        cmocka_unit_test_setup(test_baselines, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
