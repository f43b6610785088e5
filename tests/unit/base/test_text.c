/* test_text.c: the text helpers and the error type of base/. */
#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_escape_controls(void **state)
{
    char output[64], small[8];

    (void)state;
    assert_string_equal(text_escape_controls("a\x1b[31m\n\x7f", output, sizeof output),
                        "a\\x1b[31m\\x0a\\x7f");
    /* U+009B also introduces control sequences; other letters of two bytes stay */
    assert_string_equal(text_escape_controls("\xc2\x9b é", output, sizeof output), "\\x9b é");
    assert_string_equal(text_escape_controls("\xff\xe2\x82x\xf0", output, sizeof output),
                        "\\xff\\xe2\\x82x\\xf0");
    /* a name may not reverse the direction of the line, either */
    assert_string_equal(
        text_escape_controls("a\u202Eb\u2069\u061C\u200F\u2028\u2013", output, sizeof output),
        "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa9\\xd8\\x9c\\xe2\\x80\\x8f\\xe2\\x80\\xa8\u2013");
    assert_string_equal(text_escape_controls("abcéé", small, sizeof small), "abcé");
    text_escape_controls("abcdefghijkl", small, sizeof small);
    assert_in_range(strlen(small), 1, sizeof small - 1);
}

static void test_cut(void **state)
{
    char output[64];

    (void)state;
    assert_int_equal(text_fit("Größe", 24, output, sizeof output), 5); /* not bytes */
    assert_string_equal(output, "Größe");
    assert_int_equal(text_fit("Größe", 3, output, sizeof output), 3);
    assert_string_equal(output, "Grö"); /* between characters */
    assert_int_equal(text_fit("ab\n", 5, output, sizeof output), 2);
    assert_string_equal(output, "ab"); /* an escape is whole, or not there */
    assert_int_equal(text_fit("ab\n", 6, output, sizeof output), 6);
    assert_string_equal(output, "ab\\x0a");
}

static void test_printable(void **state)
{
    static const char *const refused[] = {"a\x1b[0m",
                                          "tab\t",
                                          "\x7f",
                                          "\xc2\x80",
                                          "x\xc2\x9b"
                                          "1m",
                                          "\u202A",
                                          "a\u202E",
                                          "a\u2066b",
                                          "\u2069",
                                          "\u200F",
                                          "\u061C",
                                          "\u2028",
                                          "\xff",
                                          "a\xe2",
                                          "\xed\xa0\x80"};
    char escaped[5];

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_false(text_is_printable(refused[i]));
    assert_true(text_is_printable(""));
    assert_true(text_is_printable("vgg 19; größe 日本 😀 \u00a0\u2013\u202f\u206a"));
    assert_int_equal(text_printable_length("éa"), 2);
    assert_int_equal(text_printable_length("a\x80"), 1);
    assert_int_equal(text_escape_character("\xc2\x9bx", escaped), 2);
    assert_string_equal(escaped, "\\x9b");
    assert_int_equal(text_escape_character("\u202E", escaped), 1);
    assert_string_equal(escaped, "\\xe2");
}

static void test_nearest(void **state)
{
    static const char *const names[] = {"name", "lr", "momentum", "weight_decay"};

    (void)state;
    assert_string_equal(text_nearest("lrate", names, 4), "lr");
    assert_string_equal(text_nearest("momentmu", names, 4), "momentum");
    assert_string_equal(text_nearest("weight_decya", names, 4), "weight_decay");
    assert_string_equal(text_nearest("weight", names, 4), "weight_decay");
    assert_null(text_nearest("something", names, 4));
    assert_null(text_nearest("x", names, 0));
}

static void test_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t length, valid;
    } cases[] = {
        {"", 0, 0},
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10, 10},
        {"a\xc0\x80", 3, 1},        /* overlong NUL */
        {"a\xe0\x80\xaf", 4, 1},    /* overlong slash */
        {"\xed\xa0\x80", 3, 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 4, 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 4, 0}, /* no letter begins with this byte */
        {"ab\xe2\x82", 4, 2},       /* cut off */
        {"\xf0\x9f\x98x", 4, 0},    /* the last byte continues no letter */
        {"\xe2\x82x", 3, 0},        /* the same for three bytes */
        {"\x80", 1, 0},             /* continuation alone */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_utf8_prefix(cases[i].text, cases[i].length), cases[i].valid);
        assert_int_equal(text_is_utf8(cases[i].text, cases[i].length),
                         cases[i].valid == cases[i].length);
    }
}

static void test_bytes(void **state)
{
    char output[32];
    uint64_t bytes;

    (void)state;
    assert_int_equal(text_parse_bytes("64 MiB", &bytes), 0);
    assert_int_equal(bytes, 64 << 20);
    assert_int_equal(text_parse_bytes("1.5G", &bytes), 0);
    assert_int_equal(bytes, 3 << 29);
    assert_int_equal(text_parse_bytes("512", &bytes), 0);
    assert_int_equal(bytes, 512);
    assert_int_equal(text_parse_bytes("-1", &bytes), -EINVAL);
    assert_int_equal(text_parse_bytes("nan", &bytes), -EINVAL);
    assert_int_equal(text_parse_bytes("1e30", &bytes), -EINVAL);
    assert_int_equal(text_parse_bytes("5 apples", &bytes), -EINVAL);
    assert_int_equal(text_parse_bytes("", &bytes), -EINVAL);
    assert_string_equal(text_format_bytes(1536, output, sizeof output), "1.5 KiB");
    assert_string_equal(text_format_bytes(12, output, sizeof output), "12 B");
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {{"500 ms", 0.5}, {"10 s", 10}, {"5 min", 300}, {"2 h", 7200},
                 {"1d", 86400},   {"10", 10},   {"1.5 h", 5400}};
    char output[32];
    double seconds;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_parse_duration(cases[i].text, &seconds), 0);
        assert_float_equal(seconds, cases[i].seconds, 1e-9);
    }
    assert_int_equal(text_parse_duration("soon", &seconds), -EINVAL);
    assert_int_equal(text_parse_duration("-1 s", &seconds), -EINVAL);
    assert_int_equal(text_parse_duration("inf", &seconds), -EINVAL);
    assert_string_equal(text_format_duration(200, output, sizeof output), "3 min 20 s");
    assert_string_equal(text_format_duration(7500, output, sizeof output), "2 h 05 min");
    assert_string_equal(text_format_duration(0.0123, output, sizeof output), "12.3 ms");
}

static void test_error(void **state)
{
    struct error error = {0};
    char filler[2 * ERROR_TEXT_MAX];

    (void)state;
    assert_int_equal(error_set(&error, -EINVAL, "%d apples", 3), -EINVAL);
    assert_string_equal(error.text, "3 apples");
    assert_int_equal(error_prefix(&error, "basket"), -EINVAL);
    assert_string_equal(error.text, "basket: 3 apples");
    assert_int_equal(error_set_errno(&error, -ENOENT, "cannot open %s", "x"), -ENOENT);
    assert_string_equal(error.text, "cannot open x: No such file or directory");
    memset(filler, 'a', sizeof filler);
    filler[sizeof filler - 1] = '\0';
    error_set(&error, -EIO, "%s", filler);
    assert_int_equal(strlen(error.text), ERROR_TEXT_MAX - 1);
    error_prefix(&error, "before");
    assert_int_equal(strncmp(error.text, "before: aaa", 11), 0);
    /* cuts within a letter of two bytes, and bytes that are not UTF-8 */
    memset(filler, 'a', sizeof filler - 1);
    memcpy(filler + ERROR_TEXT_MAX - 2, "é", 2);
    error_set(&error, -EIO, "%s", filler);
    assert_true(text_is_utf8(error.text, strlen(error.text)));
    error_set(&error, -EIO, "%s", "a\xff\xe2\x82z");
    assert_string_equal(error.text, "a???z");
    assert_int_equal(error_set(NULL, -EPERM, "nobody listens"), -EPERM);

    assert_int_equal(error_no_memory(&error, "the %d bytes of a tensor", 12), -ENOMEM);
    assert_string_equal(error.text, "no memory for the 12 bytes of a tensor");
    assert_int_equal(error.code, -ENOMEM);
    assert_int_equal(error_no_memory(NULL, "anything"), -ENOMEM);
    error_set_errno(&error, -ERROR_NONFINITE_LOSS, "step 3");
    assert_string_equal(error.text, "step 3: the loss is not finite");
    for (int kind = ERROR_KIND_FIRST; kind < ERROR_KIND_END; kind++)
        assert_non_null(error_code_text(-kind));
}

static void lines_end_between_words(void **state)
{
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"", ""},
        {"one two", "- one two\n"},
        {"one two three", "- one two\n  three\n"},
        {"one  incomprehensible two", "- one\n  incomprehensible\n  two\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_FREE char *printed = NULL;
        size_t size;
        FILE *output = open_memstream(&printed, &size);

        text_print_wrapped("- ", "  ", cases[i].text, 10, output);
        fclose(output);
        assert_string_equal(printed, cases[i].printed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_between_words),
        cmocka_unit_test(test_escape_controls),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_error),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
