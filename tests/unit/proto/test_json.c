/* test_json.c: what json_parse() accepts and refuses, and how it prints numbers. */
#include "base/file.h"
#include "proto/json.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int parse(const char *text, struct json_object **object, struct error *error)
{
    return json_parse(text, strlen(text), object, error);
}

static void test_accepts(void **state)
{
    static const char *const texts[] = {
        "{}",
        " [ ] ",
        "null",
        "0",
        "-0",
        "1.5e-3",
        "\"a\\/\"",
        "{\"\\u0041\\u00e9\":\"\\u20ac\\ufffe\\ue000\\t\"}",
        "\t{\"a\":1}\r\n",
        "\"\\ud83d\\ude00\"",
        "1e308",
        "5e-324",
        "9223372036854775807",
        "\"é\"",
        "[true,false,null]",
        "-9223372036854775808",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        JSON_AUTO struct json_object *object = NULL;
        struct error error = {0};

        if (parse(texts[i], &object, &error) < 0)
            fail_msg("%s: %s", texts[i], error.text);
    }
}

static void test_refuses(void **state)
{
    static const struct {
        const char *text, *part; /* of the sentence */
    } cases[] = {
        {"", "line 1, column 1: the text is empty"},
        {"{", "ends in the middle"},
        {"[1,]", "line 1, column 4"},
        {"{\"a\":1,}", "line 1, column 8"},
        {"{'a':1}", "column 2"},
        {"[1 2]", "column 4"},
        {"{} {}", "column 4"},
        {"// a\n1", "column 1"},
        {"01", "not a JSON number"},
        {"-01", "not a JSON number"},
        {"1.", "not a JSON number"},
        {"1.e5", "not a JSON number"},
        {".5", "column 1"},
        {"+1", "column 1"},
        {"-", "not a JSON number"},
        {"[1e]", "not a JSON number"},
        {"0x10", "column"},
        {"NaN", "only bare words"},
        {"-Infinity", "not a JSON number"},
        {"[\n  nul]", "line 2, column 3"},
        {"True", "only bare words"},
        {"1e999", "range of a double"},
        {"9223372036854775808", "64 bits"},
        {"-9223372036854775809", "64 bits"},
        {"\"a", "has no end"},
        {"\"a\\", "has no end"},
        {"\"a\nb\"", "control character"},
        {"\"\\x\"", "no such escape"},
        {"\"\\u00g0\"", "hexadecimal"},
        {"\"\\u0000\"", "NUL"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\ud800\\u0041\"", "surrogate"},
        {"\"\\ude00\"", "surrogate"},
        {"\"\xc0\x80\"", "line 1, column 2: invalid UTF-8"},
        {"[\"é\", \"\xff\"]", "line 1, column 8: invalid UTF-8"},
        {"{\"a\":1,\"a\":2}", "column 8: the key \"a\" is there twice"},
        {"[{\"x\":{\"b\":1,\"c\":2,\"\\u0062\":3}}]", "the key \"b\" is there twice"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json_object *object;
        struct error error = {0};

        assert_int_equal(parse(cases[i].text, &object, &error), -EINVAL);
        assert_null(object);
        if (!strstr(error.text, cases[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].text, error.text, cases[i].part);
    }
}

static void test_nul_between(void **state)
{
    struct json_object *object;

    (void)state;
    assert_int_equal(json_parse("[1]\0", 4, &object, NULL), -EINVAL);
    assert_int_equal(json_parse("\"a\0b\"", 5, &object, NULL), -EINVAL);
}

/* The same key in two separate objects is no duplicate. */
static void test_keys_of_siblings(void **state)
{
    JSON_AUTO struct json_object *object = NULL;
    struct error error = {0};

    (void)state;
    if (parse("{\"a\":{\"b\":1},\"c\":{\"b\":2},\"b:\":\":\"}", &object, &error) < 0)
        fail_msg("%s", error.text);
}

static void test_depth(void **state)
{
    char text[2 * (JSON_DEPTH_MAX + 1) + 1];
    struct json_object *object;
    struct error error;

    (void)state;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(parse(text, &object, &error), depth > JSON_DEPTH_MAX ? -EMSGSIZE : 0);
        json_object_put(object);
    }
}

static void check_double(double value, const char *expected)
{
    JSON_AUTO struct json_object *object = json_new_double(value);
    const char *text = json_text(object, NULL);

    assert_true(strtod(text, NULL) == value);
    if (expected)
        assert_string_equal(text, expected);
}

/* The text that printf() and strtod() find: the fewest digits, at least 15, that read back. */
static void check_digits(double value)
{
    JSON_AUTO struct json_object *object = json_new_double(value);
    char expected[64];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(expected, sizeof expected - 2, "%.*g", digits, value);
        if (strtod(expected, NULL) == value)
            break;
    }
    if (!strpbrk(expected, ".e"))
        strcat(expected, ".0");
    assert_string_equal(json_text(object, NULL), expected);
}

/* Numbers with few digits, times, powers of two and of ten, and their neighbours. */
static void test_usual_doubles(void **state)
{
    uint64_t bits = 88172645463325252u;

    (void)state;
    for (int power = -1074; power < 1024; power++)
        if (power > -1022)
            for (int side = -1; side <= 1; side++)
                check_digits(side ? nextafter(ldexp(1, power), side * INFINITY) : ldexp(1, power));
    for (int power = -5; power <= 17; power++)
        for (int side = -1; side <= 1; side++)
            for (double most = 1; most < 10; most += 1.125)
                check_digits(side ? -nextafter(most * pow(10, power), side * INFINITY)
                                  : most * pow(10, power));
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        check_digits((double)(bits >> 11) * pow(2, -(double)(bits % 80)));
        check_digits(1.7e9 + (double)(bits >> 40) * 1e-6);
        check_digits((double)(bits % 1000000) / 1000);
        check_digits((double)(bits % 4096) / 4096 + (double)(bits >> 44)); /* ties */
    }
}

static void test_doubles(void **state)
{
    uint64_t bits = 88172645463325252u;

    (void)state;
    check_double(0.1, "0.1");
    check_double(1, "1.0");
    check_double(-0.0, "-0.0");
    check_double(1e-3, "0.001");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(5e-324, "5e-324");
    check_double(DBL_MAX, NULL);
    check_double(0.1 + 0.2, "0.30000000000000004");
    for (int i = 0; i < 20000; i++) { /* xorshift64 over all bit patterns */
        double value;

        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            check_double(value, NULL);
    }
    assert_null(json_new_double(NAN));
    assert_null(json_new_double(INFINITY));
}

static void test_members(void **state)
{
    JSON_AUTO struct json_object *object = json_object_new_object();
    size_t length;

    (void)state;
    json_set_int(object, "i", 7);
    json_set_double(object, "d", 2.5);
    json_set_double(object, "nan", NAN);
    json_set_bool(object, "b", true);
    json_set_string(object, "s", "a/b");
    json_set_string(object, "none", NULL);
    assert_string_equal(json_text(object, &length),
                        "{\"i\":7,\"d\":2.5,\"nan\":null,\"b\":true,\"s\":\"a/b\",\"none\":null}");
    assert_int_equal(length, strlen(json_text(object, NULL)));
    assert_int_equal(json_get_int(object, "i", -1), 7);
    assert_int_equal(json_get_int(object, "d", -1), -1); /* another type */
    assert_int_equal(json_get_int(object, "x", -1), -1);
    assert_float_equal(json_get_double(object, "d", 0), 2.5, 0);
    assert_float_equal(json_get_double(object, "i", 0), 7, 0);
    assert_float_equal(json_get_double(object, "nan", -1), -1, 0);
    assert_true(json_get_bool(object, "b", false));
    assert_string_equal(json_get_string(object, "s", ""), "a/b");
    assert_string_equal(json_get_string(object, "none", "absent"), "absent");
    assert_null(json_get(NULL, "s"));
}

static void test_file(void **state)
{
    static const char content[] = "{\"a\":\n tru}";
    const char *folder = getenv("TMPDIR");
    char path[512];
    struct json_object *object;
    struct error error;

    (void)state;
    snprintf(path, sizeof path, "%s/test_json.%d", folder ? folder : "/tmp", (int)getpid());
    assert_int_equal(file_replace(AT_FDCWD, path, content, sizeof content - 1, 0600, 0, &error), 0);
    assert_int_equal(json_parse_file(path, 1024, &object, &error), -EINVAL);
    assert_int_equal(strncmp(error.text, path, strlen(path)), 0);
    assert_non_null(strstr(error.text, ": line 2, column 2: "));
    assert_int_equal(json_parse_file(path, 5, &object, &error), -EFBIG);
    unlink(path);
    assert_int_equal(json_parse_file(path, 1024, &object, &error), -ENOENT);
}

static void test_print(void **state)
{
    static const char hostile[] =
        "{\"m\\u009b31m\":\"\\u202Ea\\u2066\\u061c\\u007fé😀\\u001b\",\"b\":[1]}";
    static const char printed[] =
        "{\"m\\u009b31m\":\"\\u202ea\\u2066\\u061c\\u007fé😀\\u001b\",\"b\":[1]}\n";
    JSON_AUTO struct json_object *object = NULL, *again = NULL, *broken = NULL;
    AUTO_FREE char *text = NULL;
    struct error error = {0};
    size_t size;
    FILE *file = open_memstream(&text, &size);

    (void)state;
    assert_int_equal(parse(hostile, &object, &error), 0);
    json_print(object, file);
    fflush(file);
    assert_string_equal(text, printed);
    rewind(file);
    json_print_indented(object, file);
    fflush(file);
    assert_null(strstr(text, "\xc2\x9b"));
    assert_non_null(strstr(text, "{\n"));
    assert_int_equal(parse(text, &again, &error), 0); /* the same object */
    assert_true(json_object_equal(object, again));
    broken = json_object_new_string("a\xff");
    rewind(file);
    json_print(broken, file);
    fclose(file);
    assert_memory_equal(text, "\"a\\ufffd\"\n", 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),       cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_nul_between),   cmocka_unit_test(test_keys_of_siblings),
        cmocka_unit_test(test_depth),         cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_usual_doubles), cmocka_unit_test(test_members),
        cmocka_unit_test(test_file),          cmocka_unit_test(test_print),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
