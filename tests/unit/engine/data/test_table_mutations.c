/* test_table_mutations.c: more than 200 damaged forms of one table. Each opens with numbers alone,
 * or is refused with one sentence that names the file, the line and the column, or says why there
 * is none to name. */
#include "base/cleanup.h"
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

enum { ROWS = 60, COLUMNS = 6 };

struct text {
    char *bytes; /* owned */
    size_t size;
};

static const char *path;
static int opened, refused;

static void text_release(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

static void text_add(struct text *text, const void *bytes, size_t size)
{
    text->bytes = realloc(text->bytes, text->size + size + 1);
    assert_non_null(text->bytes);
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

static void text_add_word(struct text *text, const char *word)
{
    text_add(text, word, strlen(word));
}

/* The table: `word` stands in one column of the row, or of all rows (-1). */
static struct text table_make(int row, int column, const char *word, const char *delimiter)
{
    static const char *const names[COLUMNS] = {"id", "age", "town", "joined", "note", "member"};
    static const char *const towns[] = {"Rome", "Oslo", "Bonn"};
    struct text text = {0};

    for (int c = 0; c < COLUMNS; c++) {
        text_add_word(&text, names[c]);
        text_add_word(&text, c + 1 < COLUMNS ? delimiter : "\n");
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            char cells[COLUMNS][32];

            snprintf(cells[0], sizeof cells[0], "%d", r);
            snprintf(cells[1], sizeof cells[1], "%d.5", 18 + r * 7 % 50);
            snprintf(cells[2], sizeof cells[2], "%s", towns[r * 5 % 3]);
            snprintf(cells[3], sizeof cells[3], "2026-%02d-%02d", 1 + r % 12, 1 + r % 28);
            snprintf(cells[4], sizeof cells[4], "note %d", r * 17);
            snprintf(cells[5], sizeof cells[5], "%s", r * 11 % 7 < 4 ? "yes" : "no");
            text_add_word(&text, c == column && (row < 0 || r == row) ? word : cells[c]);
            text_add_word(&text, c + 1 < COLUMNS ? delimiter : "\n");
        }
    return text;
}

/* ---- what must hold ---- */

/* Whether the sentence has a line of the file, and says what of it is wrong. */
static bool names_place(const char *sentence)
{
    static const char *const parts[] = {"column", "label", "the row of names", "such text"};
    const char *behind = sentence + strlen(path);

    if (behind[0] != ':' || behind[1] < '1' || behind[1] > '9')
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(behind, parts[i]))
            return true;
    return false;
}

/* Whether it says why there is no line to name. */
static bool says_why_not(const char *sentence)
{
    static const char *const reasons[] = {
        "is empty",                    /* nothing to count lines in */
        "has no row",                  /* but blank lines */
        "has no row that can be used", /* all of them lack a value */
        "not lines of text",           /* but a file of another program */
        "not a table",                 /* but a text of another kind */
        "packed bytes",
        "gzip",                           /* damage in front of any line */
        "the numbers of the column \"age" /* all of them together */
    };

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(sentence, reasons[i]))
            return true;
    return false;
}

static void check_refusal(const char *name, const struct error *error)
{
    size_t length = strlen(error->text);

    refused++;
    if (error->code != -EINVAL || length + 1 >= sizeof error->text || strchr(error->text, '\n') ||
        error->text[length - 1] == '.' || !strstr(error->text, path))
        fail_msg("%s: not one sentence: %s", name, error->text);
    if (!(strncmp(error->text, path, strlen(path)) == 0 && names_place(error->text)) &&
        !says_why_not(error->text))
        fail_msg("%s: no line and column: %s", name, error->text);
}

static void check_samples(const char *name, const struct dataset *dataset)
{
    const float *features = dataset->buffer;

    opened++;
    assert_true(dataset->count > 0 && dataset->count <= 2 * ROWS && dataset->sample_elements > 0);
    for (int64_t i = 0; i < dataset->count * dataset->sample_elements; i++)
        if (!isfinite(features[i]))
            fail_msg("%s: element %lld is not finite", name, (long long)i);
    for (int64_t i = 0; i < dataset->count; i++)
        assert_in_range(dataset->labels[i], 0, dataset->classes - 1);
}

/* Opens the text as a table with that column of labels, and releases it. */
static void try_text(struct text text, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void try_text(struct text text, const char *label, const char *format, ...)
{
    struct dataset_config config = {.format = DATASET_TABLE,
                                    .paths = &path,
                                    .path_count = 1,
                                    .csv.comment_prefix = "",
                                    .csv.label_column = label};
    struct dataset *dataset = NULL;
    struct error error = {0};
    char name[80];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    path = data_file_write("table.csv", text.bytes ? text.bytes : "", text.size);
    if (dataset_open(&config, NULL, &dataset, &error) < 0)
        check_refusal(name, &error);
    else
        check_samples(name, dataset);
    dataset_close(dataset);
    text_release(&text);
}

/* ---- the damage ---- */

static struct text cut(const struct text *text, size_t size)
{
    struct text made = {0};

    text_add(&made, text->bytes, size < text->size ? size : text->size);
    return made;
}

static struct text insert(const struct text *text, size_t place, const char *bytes, size_t size)
{
    struct text made = cut(text, place);

    text_add(&made, bytes, size);
    text_add(&made, text->bytes + place, text->size - place);
    return made;
}

static void truncated_anywhere(void **state)
{
    CLEANUP(text_release) struct text table = table_make(0, -1, "", ",");

    (void)state;
    for (size_t i = 0; i <= 40; i++)
        try_text(cut(&table, table.size * i / 40), "member", "cut %zu", i);
    for (size_t i = 1; i < 8; i++)
        try_text(cut(&table, table.size - i), "member", "cut %zu from the end", i);
}

static void bytes_in_between(void **state)
{
    static const char *const bytes[] = {"\"", "\r",   "\n",           ",",           ";",
                                        "\t", "\xff", "\xef\xbb\xbf", "\xed\xa0\x80"};
    CLEANUP(text_release) struct text table = table_make(0, -1, "", ",");

    (void)state;
    for (size_t place = 0; place < table.size; place += table.size / 7) {
        try_text(insert(&table, place, "", 1), "member", "a byte of zero at %zu", place);
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
            try_text(insert(&table, place, bytes[i], strlen(bytes[i])), "member",
                     "bytes %zu at %zu", i, place);
    }
}

static void other_delimiters(void **state)
{
    static const char *const delimiters[] = {";", "\t", "|",  "^",  ":",  "~",    " ",
                                             "!", "/",  "\\", ", ", ",,", "\x01", "\""};

    (void)state;
    for (size_t i = 0; i < sizeof delimiters / sizeof *delimiters; i++)
        try_text(table_make(0, -1, "", delimiters[i]), "member", "delimiter %zu", i);
}

static void words_in_cells(void **state)
{
    static const char *const words[] = {"",
                                        "NA",
                                        "1e400",
                                        "-1e400",
                                        "1e39",
                                        "1e-400",
                                        "0x1F",
                                        "inf",
                                        "nan",
                                        "1_000",
                                        "1,000",
                                        "1 000",
                                        "1.2.3",
                                        "--5",
                                        "1e",
                                        "+",
                                        ".",
                                        "1e5000000",
                                        "\xd9\xa3",
                                        "\"3.5\"",
                                        "\" 3.5\"",
                                        "\"3\"5",
                                        "$5",
                                        "TRUE",
                                        "x",
                                        "2026-02-30",
                                        "2026-13-01",
                                        "0000-01-01",
                                        "99999-01-01",
                                        "2026-1-1",
                                        "01.02.2026",
                                        "31/31/2026",
                                        "20260230",
                                        "2026-02-29T25:00"};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int column = 0; column < COLUMNS; column++) {
            try_text(table_make(10, column, words[i], ","), "member", "%s in column %d", words[i],
                     column);
            try_text(table_make(-1, column, words[i], ","), "member", "%s all over column %d",
                     words[i], column);
        }
}

/* The table in an encoding whose characters have `width` bytes, the lowest one at `low`. */
static struct text encode(const struct text *text, size_t width, size_t low, bool mark)
{
    struct text made = {0};

    for (size_t i = 0; i < text->size + mark; i++) {
        unsigned code = mark && i == 0 ? 0xfeff : (uint8_t)text->bytes[i - mark];
        char bytes[4] = {0};

        bytes[low] = (char)code;
        bytes[low ? low - 1 : 1] = (char)(code >> 8);
        text_add(&made, bytes, width);
    }
    return made;
}

static void other_encodings(void **state)
{
    static const size_t widths[] = {2, 2, 4, 4}, lows[] = {0, 1, 0, 3};
    CLEANUP(text_release) struct text table = table_make(0, -1, "", ",");

    (void)state;
    for (int i = 0; i < 8; i++) {
        CLEANUP(text_release) struct text made = encode(&table, widths[i / 2], lows[i / 2], i % 2);

        try_text(cut(&made, made.size), "member", "encoding %d", i);
        for (size_t size = 1; size < 8; size++)
            try_text(cut(&made, size), "member", "encoding %d cut at %zu", i, size);
        for (size_t k = 1; k < 5; k++)
            try_text(cut(&made, made.size / 2 + k), "member", "encoding %d cut in the middle", i);
    }
}

static void other_files(void **state)
{
    static const char *const texts[] = {"\xef\xbb\xbf",
                                        "\"",
                                        "\"\"\"\"\"\"\"",
                                        "\n\n\n\n",
                                        "    ",
                                        "\r\r\r",
                                        ",,,\n,,,\n",
                                        "a\n1\n2\n",
                                        "member\nyes\nno\nyes\n",
                                        "# c\n# d\n",
                                        "[1, 2, 3]",
                                        "{\"a\": 1}\n{\"a\": 2}\n",
                                        "<html><body>Not found</body></html>\n",
                                        "PK\3\4\24",
                                        "PAR1garbagePAR1",
                                        "%PDF-1.4\n",
                                        "\x1f\x8b\x08 not packed at all",
                                        "sep=;\na,member\n1,yes\n",
                                        "sep=\"\na,member\n1,yes\n",
                                        "id,member\n",
                                        "id,member",
                                        "id,member\n1,yes\n",
                                        "1,yes\n",
                                        "id,id,member\n1,2,yes\n2,1,no\n",
                                        ",,member\n1,2,yes\n2,1,no\n",
                                        "0,1,member\n1,2,yes\n2,1,no\n",
                                        "0,1,2\n1,2,yes\n2,1,no\n",
                                        "id,member\n1,yes,\n2,no,\n",
                                        "id,member,\n1,yes,\n2,no,\n",
                                        "Report of 2026\n\nid,member\n1,yes\n",
                                        "id,member\n1,yes\n2,no\n2 rows\n",
                                        "id,member\n1,yes\nid,member\n2,no\n",
                                        "id,member\n1,yes\n2;no\n",
                                        "id,member\r1,yes\r2,no\r"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct text text = {0};

        text_add_word(&text, texts[i]);
        try_text(text, "member", "file %zu", i);
    }
}

static void large_ones(void **state)
{
    enum { COLUMNS_MANY = 1000000, LONG = 4 << 20 };
    CLEANUP(text_release) struct text table = table_make(0, -1, "", ",");
    struct text wide = {0};

    (void)state;
    for (int more = 0; more < 2; more++) {
        int columns = COLUMNS_MANY + more * 100000;
        char *cells = malloc((size_t)columns * 2);

        assert_non_null(cells);
        for (int i = 0; i < columns; i++)
            memcpy(cells + 2 * i, "7,", 2);
        cells[2 * columns - 1] = '\n';
        for (int row = 0; row < 2; row++) {
            cells[2 * columns - 2] = (char)('0' + row);
            text_add(&wide, cells, (size_t)columns * 2);
        }
        free(cells);
        try_text(wide, "last", "%d columns", columns);
        wide = (struct text){0};
    }
    char *letters = malloc(LONG);
    assert_non_null(letters);
    memset(letters, 'x', LONG);
    try_text(insert(&table, table.size, letters, LONG), "member", "a long line");
    try_text(insert(&table, 3, letters, LONG), "member", "a long name");
    letters[0] = '"';
    memset(letters + LONG / 2, '\n', LONG / 2);
    try_text(insert(&table, 60, letters, LONG), "member", "a long quote");
    free(letters);
}

static void there_are_200_of_both(void **state)
{
    (void)state;
    assert_true(opened >= 50 && refused >= 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_anywhere), cmocka_unit_test(bytes_in_between),
        cmocka_unit_test(other_delimiters),   cmocka_unit_test(words_in_cells),
        cmocka_unit_test(other_encodings),    cmocka_unit_test(other_files),
        cmocka_unit_test(large_ones),         cmocka_unit_test(there_are_200_of_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
