/* test_client_table.c: widths, cutting and escaping of what trainctl prints for people. */
#include "base/cleanup.h"
#include "client/view/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct table_column columns[] = {
    {"JOB", true, 0}, {"NAME", false, 4}, {"EMPTY", false, 0}, {"WHAT", false, 6}};

/* Prints a table of `count` rows of four cells into a string that the caller frees. */
static char *table_to_text(const char *const (*rows)[4], size_t count, size_t screen)
{
    struct display display = {.terminal = screen > 0, .unicode = true, .columns = screen};
    struct table *table = table_new(columns, 4);
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < 4; j++)
            table_add(table, rows[i][j], STYLE_PLAIN);
    table_print(table, &display, file);
    fclose(file);
    table_free(table);
    return text;
}

static void test_layout(void **state)
{
    static const char *const rows[][4] = {
        {"1", "fashion", NULL, "0.31"}, {"12", "größe", "", ""}, {"123", "日本", NULL, "x"}};
    AUTO_FREE char *text = table_to_text(rows, 3, 0);

    (void)state;
    assert_string_equal(text, "JOB  NAME     WHAT\n"
                              "  1  fashion  0.31\n"
                              " 12  größe\n"
                              "123  日本     x\n");
}

static void test_narrow_screens(void **state)
{
    static const char *const rows[][4] = {
        {"1", "a-rather-long-name", NULL, "a sentence that is far too long for the screen"}};

    (void)state;
    for (size_t screen = 1; screen < 90; screen++) {
        AUTO_FREE char *text = table_to_text(rows, 1, screen);
        char *rest = NULL;

        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            assert_true(display_width(line) <= screen);
    }
    AUTO_FREE char *text = table_to_text(rows, 1, 30);
    assert_string_equal(text, "JOB  NAME         WHAT\n"
                              "  1  a-rather-l…  a sentence …\n");
}

static void test_escaping(void **state)
{
    static const char *const rows[][4] = {{"1", "a\033[31mb\n", NULL,
                                           "\xc2\x9b"
                                           "7\x7f"}};
    AUTO_FREE char *text = table_to_text(rows, 1, 0);

    (void)state;
    assert_string_equal(text, "JOB  NAME            WHAT\n"
                              "  1  a\\x1b[31mb\\x0a  \\x9b7\\x7f\n");
}

/* The names of metrics become titles, and a job chooses them. */
static void test_titles(void **state)
{
    static const struct table_column hostile[] = {{"m\xc2\x9b"
                                                   "31m",
                                                   true, 0},
                                                  {"a\u202Eb", false, 4}};
    const struct display display = {.unicode = true};
    struct table *table = table_new(hostile, 2);
    AUTO_FREE char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    (void)state;
    table_add(table, "1", STYLE_PLAIN);
    table_add(table, "2", STYLE_PLAIN);
    table_print(table, &display, file);
    fclose(file);
    table_free(table);
    assert_string_equal(text, "m\\x9b31m  a\\xe2\\x80\\xaeb\n"
                              "       1  2\n");
}

static void test_nothing(void **state)
{
    AUTO_FREE char *text = table_to_text(NULL, 0, 80);

    (void)state;
    assert_string_equal(text, "");
}

static void test_cut(void **state)
{
    char ascii[16] = "abcdef", wide[16] = "日本語", same[16] = "abc", none[16] = "abc";

    (void)state;
    display_cut(ascii, 4, true);
    assert_string_equal(ascii, "abc…");
    display_cut(wide, 4, false); /* a wide character does not fit into one column */
    assert_string_equal(wide, "日~");
    display_cut(same, 3, true);
    assert_string_equal(same, "abc");
    display_cut(none, 0, true);
    assert_string_equal(none, "");
}

static void test_formats(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(display_format_ago(100, 100.5, text, sizeof text), "now");
    assert_string_equal(display_format_ago(100, 159.9, text, sizeof text), "59 s ago");
    assert_string_equal(display_format_ago(100, 3699, text, sizeof text), "59 min ago");
    assert_string_equal(display_format_ago(0, 47 * 3600, text, sizeof text), "47 h ago");
    assert_string_equal(display_format_ago(0, 72 * 3600, text, sizeof text), "3 d ago");
    assert_string_equal(display_format_count(0, text, sizeof text), "0");
    assert_string_equal(display_format_count(999, text, sizeof text), "999");
    assert_string_equal(display_format_count(1234567.4, text, sizeof text), "1 234 567");
    assert_string_equal(display_format_value(0.31, text, sizeof text), "0.3100");
    assert_string_equal(display_format_value(12345.6, text, sizeof text), "12346");
    assert_string_equal(display_format_value(0.00031, text, sizeof text), "3.100e-04");
    assert_string_equal(display_format_value(NAN, text, sizeof text), "nan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),   cmocka_unit_test(test_narrow_screens),
        cmocka_unit_test(test_escaping), cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_cut),      cmocka_unit_test(test_formats),
        cmocka_unit_test(test_titles),
    };

    display_set_locale();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
