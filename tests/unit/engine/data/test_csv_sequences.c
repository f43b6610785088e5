/* test_csv_sequences: tables of sequences and labels: tokens, padding, cutting, classes, faults. */
#include "engine/data/loader.h"
#include "tests/support/table_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int reset(void **state)
{
    (void)state;
    table_file_reset(DATASET_CSV_SEQUENCES);
    table_file.config.sequence.tokens = DATASET_TOKENS_NUCLEOTIDES;
    return 0;
}

/* The sentence names the file, too. */
#define REFUSE_NAMED(text, ...) REFUSE(text, "table.csv", __VA_ARGS__)

static void check_row(const struct dataset *dataset, uint32_t index, const int32_t *tokens,
                      int32_t label)
{
    int32_t row[16], found;
    struct error error = {0};

    assert_true(dataset->shape[0] <= 16);
    assert_int_equal(dataset_gather(dataset, NULL, &index, 1, row, &found, &error), 0);
    assert_memory_equal(row, tokens, (size_t)dataset->shape[0] * sizeof *row);
    assert_int_equal(found, label);
}

/* A quote inside a quoted text is doubled (RFC 4180). */
static void test_quotes(void **state)
{
    struct dataset *dataset;

    (void)state;
    table_file.config.sequence.tokens = DATASET_TOKENS_CHARACTERS;
    dataset = table_file_open("\"the \"\"text\"\"\",label\n\"a\"\",b\"\"\"\"\",\"\"\"x\"\"\"\n"
                              "\"\"\"\" , y\nb\"\",y\n",
                              NULL);
    assert_int_equal(dataset->count, 3);
    assert_int_equal(dataset->vocabulary.count, 4); /* " , a b */
    check_row(dataset, 0, (const int32_t[]){2, 0, 1, 3, 0, 0}, 0);
    check_row(dataset, 1, (const int32_t[]){0, 4, 4, 4, 4, 4}, 1);
    check_row(dataset, 2, (const int32_t[]){3, 0, 0, 4, 4, 4}, 1); /* not quoted: as it stands */
    assert_string_equal(dataset->class_names[0], "\"x\"");
    dataset_close(dataset);
    table_file.config.sequence.column = "the \"text\"";
    dataset = table_file_open("\"the \"\"text\"\"\",label\nab,0\n", NULL);
    assert_int_equal(dataset->count, 1);
    dataset_close(dataset);
    table_file.config.sequence.column = NULL;
    dataset = table_file_open("text,label\nab,0\n\"over two\nlines\",1\n", NULL);
    assert_int_equal(dataset->count, 2);
    assert_int_equal(dataset_sample_length(dataset, 1), 14);
    dataset_close(dataset);
    REFUSE_NAMED("text,label\nab,0\n\"not closed\nlines,1\n", ":3, column 1", "counterpart");
    REFUSE_NAMED("text,label\n\"ab\"cd,0\n", ":2, column 1", "counterpart");
}

/* CRLF, a byte order mark, quotes, a comment, lower case, U and ambiguous codes. */
static void test_nucleotides(void **state)
{
    struct dataset *dataset =
        table_file_open("\xef\xbb\xbfsequence,label\r\nACGTN,1\r\n# left out\r\n"
                        "\"acgu\", 0\r\n\r\nRyk,2",
                        NULL);

    (void)state;
    assert_int_equal(dataset->count, 3);
    assert_int_equal(dataset->rank, 1);
    assert_int_equal(dataset->shape[0], 5);
    assert_int_equal(dataset->classes, 3);
    assert_int_equal(dataset_vocabulary_size(&dataset->vocabulary), 6);
    check_row(dataset, 0, (const int32_t[]){0, 1, 2, 3, 4}, 1);
    check_row(dataset, 1, (const int32_t[]){0, 1, 2, 3, 5}, 0);
    check_row(dataset, 2, (const int32_t[]){4, 4, 4, 5, 5}, 2);
    assert_int_equal(dataset_sample_length(dataset, 0), 5);
    assert_int_equal(dataset_sample_length(dataset, 2), 3);
    assert_string_equal(table_file.warnings, "");
    dataset_close(dataset);
}

static void test_kmers(void **state)
{
    struct dataset *dataset;

    (void)state;
    table_file.config.sequence.tokens = DATASET_TOKENS_KMERS;
    table_file.config.sequence.kmer = 3;
    table_file.config.sequence.kmer_stride = 1;
    dataset = table_file_open("sequence,label\nACGTT,0\nAANCC,1\nTTT,1\n", NULL);
    assert_int_equal(dataset->shape[0], 3);
    assert_int_equal(dataset_vocabulary_size(&dataset->vocabulary), 66);
    check_row(dataset, 0, (const int32_t[]){6, 27, 47}, 0); /* 012 123 233 of base 4 */
    check_row(dataset, 1, (const int32_t[]){64, 64, 64}, 1);
    check_row(dataset, 2, (const int32_t[]){63, 65, 65}, 1);
    dataset_close(dataset);
    table_file.config.sequence.kmer_stride = 2;
    dataset = table_file_open("sequence,label\nACGTT,0\nACGTTA,0\nTTT,1\n", NULL);
    assert_int_equal(dataset->shape[0], 2);
    check_row(dataset, 0, (const int32_t[]){6, 47}, 0);
    check_row(dataset, 1, (const int32_t[]){6, 47}, 0);
    check_row(dataset, 2, (const int32_t[]){63, 65}, 1);
    dataset_close(dataset);
    REFUSE_NAMED("sequence,label\nACGT,0\nAC,1\n", ":3", "2 nucleotides", "k-mer of 3");
}

static void test_characters(void **state)
{
    struct dataset *dataset;

    (void)state;
    table_file.config.sequence.tokens = DATASET_TOKENS_CHARACTERS;
    table_file.config.sequence.column = "text";
    table_file.config.csv.label_column = "kind";
    dataset = table_file_open("kind,number,text\ngood,1,bé\nbad,2,eab\ngood,3,a\n", NULL);
    assert_int_equal(dataset->shape[0], 3);
    assert_int_equal(dataset->vocabulary.count, 4); /* a b e é */
    assert_int_equal(dataset->class_count, 2);
    assert_string_equal(dataset->class_names[0], "bad");
    check_row(dataset, 0, (const int32_t[]){1, 3, 4}, 1);
    check_row(dataset, 1, (const int32_t[]){2, 0, 1}, 0);
    check_row(dataset, 2, (const int32_t[]){0, 4, 4}, 1);

    table_file.path =
        data_file_write_text("test.csv", "kind,number,text\ngood,1,abba\ngood,1,ab\n");
    struct dataset *test = data_open(&table_file.config, dataset);
    assert_int_equal(test->shape[0], 3);
    assert_int_equal(test->classes, 2);
    check_row(test, 0, (const int32_t[]){0, 1, 1}, 1);
    assert_non_null(strstr(table_file.warnings, "1 of 2 sequences are longer than 3 tokens"));
    assert_non_null(strstr(table_file.warnings, "line 2"));
    dataset_close(test);
    table_file.path = data_file_write_text("test.csv", "kind,number,text\ngood,1,ab\ngood,2,abx\n");
    data_expect_refusal(&table_file.config, dataset, -EINVAL, "test.csv:3", "column 10",
                        "\"x\" (U+0078)", "4 characters", (const char *)NULL);
    table_file.path = data_file_write_text("test.csv", "kind,number,text\ngood,1,ab\nugly,2,ab\n");
    data_expect_refusal(&table_file.config, dataset, -EINVAL, "test.csv:3", "\"ugly\"",
                        "training data", (const char *)NULL);
    dataset_close(dataset);
}

/* More than 256 characters no longer fit into a byte each. */
static void test_many_characters(void **state)
{
    char text[4096] = "sequence,label\n";
    size_t used = strlen(text);
    struct dataset *dataset;
    int32_t row[600], label;
    struct error error = {0};

    (void)state;
    for (int i = 599; i >= 0; i--) {
        text[used++] = (char)(0xe4 + i / 4096);
        text[used++] = (char)(0x80 | (i >> 6 & 0x3f));
        text[used++] = (char)(0x80 | (i & 0x3f));
    }
    strcpy(text + used, ",1\n");
    table_file.config.sequence.tokens = DATASET_TOKENS_CHARACTERS;
    dataset = table_file_open(text, NULL);
    assert_int_equal(dataset->element, DATASET_INT32);
    assert_int_equal(dataset->vocabulary.count, 600);
    assert_int_equal(dataset_gather(dataset, NULL, &(uint32_t){0}, 1, row, &label, &error), 0);
    for (int i = 0; i < 600; i++)
        assert_int_equal(row[i], 599 - i);
    dataset_close(dataset);
}

static void test_bytes(void **state)
{
    struct dataset *dataset;

    (void)state;
    table_file.config.sequence.tokens = DATASET_TOKENS_BYTES;
    table_file.config.sequence.length = 3;
    dataset = table_file_open("a\xff,0\nbcde,1\n", NULL);
    assert_int_equal(dataset->count, 2);
    assert_int_equal(dataset_vocabulary_size(&dataset->vocabulary), 257);
    check_row(dataset, 0, (const int32_t[]){'a', 0xff, 256}, 0);
    check_row(dataset, 1, (const int32_t[]){'b', 'c', 'd'}, 1);
    assert_non_null(strstr(table_file.warnings,
                           "1 of 2 sequences are longer than 3 tokens, the longest has "
                           "4"));
    dataset_close(dataset);
}

static void test_values(void **state)
{
    struct dataset *dataset, *train;
    int32_t row[4];
    float target;
    struct error error = {0};

    (void)state;
    table_file.config.target = DATASET_TARGET_VALUE;
    dataset = table_file_open("sequence,activity\nACGT,1.5\nAC,-2e-3\n", NULL);
    assert_int_equal(dataset_gather(dataset, NULL, &(uint32_t){1}, 1, row, &target, &error), 0);
    assert_true(target == -2e-3f);
    dataset_close(dataset);
    REFUSE_NAMED("sequence,activity\nACGT,1.5\nAC,nan\n", ":3", "\"nan\"", "no float32 number");
    /* of another table the column that is called as in the training */
    train = table_file_open("sequence,activity\nACGT,1.5\nAC,-2e-3\n", NULL);
    assert_string_equal(train->target_name, "activity");
    dataset = table_file_open("sequence,activity,batch\nACGT,7,1\nAC,8,2\n", train);
    assert_int_equal(dataset_gather(dataset, NULL, &(uint32_t){1}, 1, row, &target, &error), 0);
    assert_true(target == 8);
    dataset_close(dataset);
    dataset_close(train);
}

/* The first row may be a sequence with a word as its class. */
static void test_header(void **state)
{
    struct dataset *dataset = table_file_open("ACGT,promoter\nACGG,other\n", NULL);

    (void)state;
    assert_int_equal(dataset->count, 2);
    assert_string_equal(dataset->class_names[1], "promoter");
    dataset_close(dataset);
    dataset = table_file_open("dna,label\nACGG,1\nACGA,0\n", NULL);
    assert_int_equal(dataset->count, 2);
    assert_null(dataset->class_names);
    dataset_close(dataset);
}

/* Where all cells are words, later rows tell whether the first one names the columns. */
static void test_header_of_words(void **state)
{
    struct dataset *dataset, *test;

    (void)state;
    table_file.config.sequence.tokens = DATASET_TOKENS_CHARACTERS;
    dataset = table_file_open("good day,cat\nbad day,dog\nno day,cat\nat ease,dog\n", NULL);
    assert_int_equal(dataset->count, 4);
    test = table_file_open("good,cat\nbad,dog\n", dataset); /* a class of the training set */
    assert_int_equal(test->count, 2);
    dataset_close(test);
    test = table_file_open("dog,name\ngood,cat\n", dataset);
    assert_int_equal(test->count, 1);
    dataset_close(test);
    dataset_close(dataset);
    assert_non_null(
        strstr(table_file.warnings, "table.csv:1: \"dog,name\" is taken for the names"));
    table_file.warnings[0] = '\0';
    dataset = table_file_open("seq,kind\nMKV,cat\nMVV,dog\nKKV,cat\nKVM,dog\n", NULL); /* letters */
    assert_int_equal(dataset->count, 4);
    dataset_close(dataset);
    dataset = table_file_open("tin,Label\nnit,cat\nint,dog\ntin,cat\nit,dog\n", NULL);
    assert_int_equal(dataset->count, 4);
    dataset_close(dataset);
    table_file.config.csv.label_column = "kind";
    dataset = table_file_open("tin,kind\nnit,cat\nint,dog\ntin,cat\nit,dog\n", NULL);
    assert_int_equal(dataset->count, 4);
    dataset_close(dataset);
    assert_string_equal(table_file.warnings, "");
    table_file.config.csv.label_column = NULL;
    dataset = table_file_open("# words\ntin,kind\nnit,cat\nint,dog\ntin,cat\nit,dog\n", NULL);
    assert_int_equal(dataset->count, 4);
    dataset_close(dataset);
    assert_non_null(
        strstr(table_file.warnings, "table.csv:2: \"tin,kind\" is taken for the names"));
    table_file.config.csv.header = DATASET_HEADER_NO;
    table_file.warnings[0] = '\0';
    dataset = table_file_open("tin,kind\nnit,cat\nint,dog\ntin,cat\nit,dog\n", NULL);
    assert_int_equal(dataset->count, 5);
    dataset_close(dataset);
    table_file.config.csv.header = DATASET_HEADER_AUTO;
    table_file.config.sequence.tokens = DATASET_TOKENS_NUCLEOTIDES;
    dataset = table_file_open("dna,label\nACG,cat\nACC,dog\nCCC,cat\nGGG,dog\n", NULL);
    assert_int_equal(dataset->count, 4);
    dataset_close(dataset);
    assert_string_equal(table_file.warnings, "");
    dataset = table_file_open("dna,kind\nACG,cat\nACC,dog\nCCC,cat\nGGG,dog\n", NULL);
    assert_int_equal(dataset->count, 5);
    dataset_close(dataset);
    assert_non_null(strstr(table_file.warnings, "\"dna,kind\" is taken for a sample"));
}

/* One label that is no number makes no names of the numbers. */
static void test_odd_labels(void **state)
{
    static const char *const odd[] = {"nan", "NA", "0x1", "?", "1a"};
    static const char zero[] = "s,l\nAC,1\nAC,1\0garbage\n", quoted[] = "AC,0\nAC,\"1\0\"\"2\"\n";
    struct dataset *train, *dataset;
    char text[200];

    (void)state;
    train = table_file_open("AC,0\nAG,1\n", NULL);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(text, sizeof text, "AC,0\nAC,10\nAC,%s\nAC,2\n", odd[i]);
        REFUSE_NAMED(text, ":3", odd[i], "most labels are", "remove the sample", "c1");
        snprintf(text, sizeof text, "AC,0\nAC,%s\nAC,1\n", odd[i]);
        table_file.path = data_file_write_text("table.csv", text);
        data_expect_refusal(&table_file.config, train, -EINVAL, ":2", odd[i], "no number",
                            (const char *)NULL);
    }
    dataset_close(train);
    dataset = table_file_open("AC,1\nAG,2a\nAC,1\nAG,2a\n", NULL); /* half of them: names */
    assert_string_equal(dataset->class_names[0], "1");
    dataset_close(dataset);
    table_file.path = data_file_write("table.csv", zero, sizeof zero - 1);
    data_expect_refusal(&table_file.config, NULL, -EINVAL, ":3", "\"1\\x00garbage\"",
                        "byte of zero", (const char *)NULL);
    table_file.path = data_file_write("table.csv", quoted, sizeof quoted - 1);
    data_expect_refusal(&table_file.config, NULL, -EINVAL, ":2", "\\x00", "byte of zero",
                        (const char *)NULL);
}

static void test_mostly_padding(void **state)
{
    struct dataset *dataset = table_file_open("A,0\nC,1\nG,0\nACGTACGT,1\n", NULL);

    (void)state;
    assert_non_null(strstr(table_file.warnings, "padded to 8"));
    assert_non_null(strstr(table_file.warnings, "65.6% of each batch is padding"));
    dataset_close(dataset);
}

static void test_faults(void **state)
{
    (void)state;
    REFUSE_NAMED("sequence,label\nACGT,0\nAC-T,1\n", ":3, column 3", "\"-\"", "no nucleotide");
    REFUSE_NAMED("sequence,label\nACGT,0\n,1\n", ":3", "the sequence is empty");
    REFUSE_NAMED("sequence,label\nACGT,0\nACGT,\n", ":3", "the label is empty");
    REFUSE_NAMED("sequence,label\nACGT,0\nACGT\n", ":3", "1 column, but the first row 2");
    REFUSE_NAMED("sequence,label\nACGT,0\nACGT,-1\n", ":3", "\"-1\"", "no class");
    REFUSE_NAMED("sequence,label\nACGT,0\nACGT,0.5\n", ":3", "\"0.5\"", "no class");
    REFUSE_NAMED("ACGT\nACGA\n", ":1", "1 column", "delimiter");
    REFUSE_NAMED("sequence,label\n", "no sequence");
    REFUSE_NAMED("sequence\rACGT\r", ":1", "1 column", "delimiter");
    REFUSE_NAMED("\xff\xfes", "begins as UTF-16");
    REFUSE_NAMED("sequence,label\nACGT,0\nACGT,1000000\n", ":3", "\"1000000\"", "too high");
    REFUSE_NAMED("sequence,id\nAC,a\nAC,b\nAC,c\nAC,d\n", ":2", "\"a\"", "a class of its own");
    table_file.config.classes = 2;
    REFUSE_NAMED("sequence,label\nACGT,0\nACGT,2\n", ":3", "\"2\"", "number of classes");
    table_file.config.classes = 0;
    table_file.config.sequence.column = "sequenc";
    REFUSE_NAMED("sequence,label\nACGT,0\n", "no column named \"sequenc\"", "\"sequence\"?");
    table_file.config.sequence.column = "2";
    REFUSE_NAMED("sequence,label\nACGT,0\n", "sequence_column is 2", "0 to 1");
    table_file.config.sequence.column = "label";
    REFUSE_NAMED("sequence,label\nACGT,0\n", "sequence_column (label)", "label_column (last)",
                 "give two");
    table_file.config.sequence.column = NULL;
    table_file.config.sequence.tokens = DATASET_TOKENS_CHARACTERS;
    REFUSE_NAMED("sequence,label\nACGT,0\nA\xff,0\n", ":3", "UTF-8", "bytes");
}

static void test_vocabulary_texts(void **state)
{
    static const char *const texts[] = {"padded nucleotides", "padded kmers 6 2",
                                        "padded utf-8 41 e9", "padded bytes 0 ff", "utf-8 41"};
    struct error error = {0};
    struct dataset_vocabulary vocabulary;
    int32_t symbols[4];
    size_t count;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(dataset_vocabulary_parse(texts[i], &vocabulary, &error), 0);
        char *text = dataset_vocabulary_format(&vocabulary);
        assert_string_equal(text, texts[i]);
        free(text);
        dataset_vocabulary_release(&vocabulary);
    }
    assert_int_equal(dataset_vocabulary_parse("padded kmers 9 1", &vocabulary, &error), -EINVAL);
    assert_int_equal(dataset_vocabulary_parse("padded kmers 2", &vocabulary, &error), -EINVAL);
    assert_int_equal(dataset_vocabulary_parse("padded kmers 2 1", &vocabulary, &error), 0);
    assert_int_equal(dataset_vocabulary_encode(&vocabulary, "ACGT", symbols, 2, &count, &error), 0);
    assert_int_equal(count, 2);
    assert_int_equal(symbols[1], 6);
    assert_int_equal(dataset_vocabulary_encode(&vocabulary, "A!", symbols, 2, &count, &error),
                     -EINVAL);
}

/* The batches of an epoch are the same with any number of threads. */
static void test_threads(void **state)
{
    static char text[64 * 1024];
    size_t used = 0;
    uint64_t sums[3] = {0};
    struct dataset *dataset;

    (void)state;
    for (int i = 0; i < 500; i++) {
        for (int k = 0; k < 20 + i * 7 % 60; k++)
            text[used++] = "ACGTN"[(i * k + k * k + i) % 5];
        used += (size_t)sprintf(text + used, ",%d\n", i % 3);
    }
    table_file.config.sequence.tokens = DATASET_TOKENS_KMERS;
    table_file.config.sequence.kmer = 3;
    table_file.config.sequence.kmer_stride = 1;
    dataset = table_file_open(text, NULL);
    for (int i = 0; i < 3; i++) {
        struct loader_config wanted = {.view = dataset_view_all(dataset),
                                       .batch = 32,
                                       .shuffle = true,
                                       .seed = 3,
                                       .threads = i * i};
        struct error error = {0};
        struct loader *loader;
        struct loader_batch batch;
        void *memory = aligned_alloc(LOADER_ALIGNMENT, loader_memory_bytes(&wanted));

        assert_int_equal(loader_create(&wanted, memory, &loader, &error), 0);
        assert_int_equal(loader_begin_epoch(loader, 1, 64, &error), 0);
        while (loader_next(loader, &batch, &error) == 0 && batch.count) {
            const int32_t *tokens = batch.samples, *labels = batch.targets;

            for (int64_t k = 0; k < batch.count * dataset->shape[0]; k++)
                sums[i] = sums[i] * 31 + (uint64_t)tokens[k];
            for (int64_t k = 0; k < batch.count; k++)
                sums[i] = sums[i] * 31 + (uint64_t)labels[k];
            loader_release(loader);
        }
        assert_int_equal(error.code, 0);
        loader_free(loader);
        free(memory);
    }
    assert_true(sums[0] == sums[1] && sums[0] == sums[2]);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nucleotides, reset),
        cmocka_unit_test_setup(test_quotes, reset),
        cmocka_unit_test_setup(test_kmers, reset),
        cmocka_unit_test_setup(test_characters, reset),
        cmocka_unit_test_setup(test_many_characters, reset),
        cmocka_unit_test_setup(test_bytes, reset),
        cmocka_unit_test_setup(test_values, reset),
        cmocka_unit_test_setup(test_header, reset),
        cmocka_unit_test_setup(test_header_of_words, reset),
        cmocka_unit_test_setup(test_odd_labels, reset),
        cmocka_unit_test_setup(test_mostly_padding, reset),
        cmocka_unit_test_setup(test_faults, reset),
        cmocka_unit_test_setup(test_vocabulary_texts, reset),
        cmocka_unit_test_setup(test_threads, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
