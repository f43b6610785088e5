/* test_options.c: base/options.h: option_read() finds the words of a command line in every form;
 * option_parse() stores every type; both refuse what does not fit. */
#include "base/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct target {
    bool loud;
    const char *file;
    int threads, color;
    double share, shift;
    uint64_t seed;
};

static const struct option_row rows[] = {
    {"loud", OPTION_FLAG, offsetof(struct target, loud), NULL, "be loud"},
    {"file", OPTION_TEXT, offsetof(struct target, file), "FILE", "a file"},
    {"threads", OPTION_COUNT, offsetof(struct target, threads), "N", "how many"},
    {"share", OPTION_NUMBER, offsetof(struct target, share), "X", "from 0"},
    {"shift", OPTION_SIGNED_NUMBER, offsetof(struct target, shift), "X", "any"},
    {"seed", OPTION_SEED, offsetof(struct target, seed), "N", "a seed"},
    {"color", OPTION_NAME, offsetof(struct target, color), "red|green|blue", "a color"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* Parses up to two words; returns how many it took, or the error. */
static int parse(const char *allowed, const char *first, const char *second, struct target *target,
                 struct error *error)
{
    const struct option_table table = {"paint", rows, ROWS, allowed};
    char *words[] = {(char *)first, (char *)second};
    int index = 0, r;

    *target = (struct target){.color = -1};
    r = option_parse(&table, second ? 2 : 1, words, &index, target, NULL, error);
    return r < 0 ? r : index + 1;
}

static void help_print(FILE *output)
{
    fputs("help\n", output);
}

static int option_take(size_t option, const char *value, void *data)
{
    const char **values = data;

    values[option] = value ? value : "taken";
    return option == 2 ? 7 : -1;
}

/* Reads up to three words as the command line of "paint". */
static int read_all(const char **values, const char *first, const char *second, const char *third)
{
    static const struct option_spelling spellings[] = {{"file", 'f', OPTION_VALUE_REQUIRED},
                                                       {"loud", 0, OPTION_VALUE_NONE},
                                                       {"end", 0, OPTION_VALUE_NONE}};
    static const struct option_program program = {"paint", help_print, spellings, 3, option_take};
    char *words[] = {(char *)"paint", (char *)first, (char *)second, (char *)third};
    int count = 1;

    while (count < 4 && words[count])
        count++;
    return option_read_all(&program, count, words, values);
}

static void test_programs(void **state)
{
    static const char *const wrong[] = {"word", "--file", "--loud=1", "-x", "--lout"};
    const char *values[3] = {0};

    (void)state;
    assert_int_equal(read_all(values, "--fil=a", "-fb", "--loud"), -1);
    assert_string_equal(values[0], "b");
    assert_string_equal(values[1], "taken");
    assert_int_equal(read_all(values, NULL, NULL, NULL), -1);
    assert_int_equal(read_all(values, "--end", "--x", NULL), 7);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_all(values, wrong[i], "--end", NULL),
                         i == 1 ? -1 : OPTION_EXIT_USAGE); /* a value may look like an option */
    assert_string_equal(values[0], "--end");
    assert_int_equal(read_all(values, "--file", NULL, NULL), OPTION_EXIT_USAGE);
}

static void test_values(void **state)
{
    struct error error = {0};
    struct target target;

    (void)state;
    assert_int_equal(parse(NULL, "--loud", "--file", &target, &error), 1);
    assert_true(target.loud);
    assert_int_equal(parse(NULL, "--file", "--loud", &target, &error), 2);
    assert_string_equal(target.file, "--loud");
    assert_int_equal(parse(NULL, "--file=a=b", NULL, &target, &error), 1);
    assert_string_equal(target.file, "a=b");
    assert_int_equal(parse(NULL, "--threads=1000000", NULL, &target, &error), 1);
    assert_int_equal(target.threads, OPTION_COUNT_MAX);
    assert_int_equal(parse(NULL, "--share", "1e-3", &target, &error), 2);
    assert_true(target.share == 1e-3);
    assert_int_equal(parse(NULL, "--shift", "-2.5", &target, &error), 2);
    assert_true(target.shift == -2.5);
    assert_int_equal(parse(NULL, "--seed", "18446744073709551615", &target, &error), 2);
    assert_true(target.seed == UINT64_MAX);
    assert_int_equal(parse(NULL, "--color", "blue", &target, &error), 2);
    assert_int_equal(target.color, 2);
    assert_int_equal(parse("threads color", "--color=red", NULL, &target, &error), 1);
    assert_int_equal(target.color, 0);
}

static void test_refused(void **state)
{
    static const struct {
        const char *allowed, *first, *second, *sentence;
    } cases[] = {
        {NULL, "--colour", "red", "paint has no option --colour, did you mean --color?"},
        {"loud", "--color", "red", "paint has no option --color"},
        {"share-all", "--share", "1", "paint has no option --share"},
        {NULL, "--", NULL, "paint has no option --"},
        {NULL, "--", "x", "paint has no option --"},
        {NULL, "--loud=yes", NULL, "--loud takes no value"},
        {NULL, "--file", NULL, "--file needs a value: --file FILE"},
        {NULL, "--threads", "0", "--threads must be a number from 1 to 1000000, not \"0\""},
        {NULL, "--threads", "2x", "--threads must be a number from 1 to 1000000, not \"2x\""},
        {NULL, "--threads", "99999999999999999999", "--threads must be"},
        {NULL, "--share", "-1", "--share must be a number from 0, not \"-1\""},
        {NULL, "--share", "nan", "--share must be a number from 0, not \"nan\""},
        {NULL, "--shift", "", "--shift must be a number, not \"\""},
        {NULL, "--seed", "-1", "--seed must be a whole number from 0, not \"-1\""},
        {NULL, "--seed", "18446744073709551616", "--seed must be a whole number from 0"},
        {NULL, "--color", "gree", "--color is one of red|green|blue, not \"gree\""},
        {NULL, "--color", "red|green", "--color is one of"},
        {NULL, "--color", "", "--color is one of"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {0};
        struct target target;

        assert_int_equal(parse(cases[i].allowed, cases[i].first, cases[i].second, &target, &error),
                         -22);
        if (strncmp(error.text, cases[i].sentence, strlen(cases[i].sentence)) != 0)
            fail_msg("\"%s\" instead of \"%s\"", error.text, cases[i].sentence);
    }
}

/* Reads the words and writes what was found, one letter of the event and its
 * option or value each. */
static const char *read_words(const char *line, bool abbreviations)
{
    static const struct option_spelling spellings[] = {{"all", 'a', OPTION_VALUE_NONE},
                                                       {"after", 0, OPTION_VALUE_REQUIRED},
                                                       {"name", 'n', OPTION_VALUE_REQUIRED},
                                                       {"form", 0, OPTION_VALUE_OPTIONAL}};
    static char text[256];
    char copy[256], *words[16], *rest = NULL;
    struct option_reader reader = {
        .spellings = spellings, .count = 4, .abbreviations = abbreviations, .argv = words};
    struct option_found found;
    enum option_event event;
    size_t used = 0;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[reader.argc++] = word;
    text[0] = '\0';
    while ((event = option_read(&reader, &found)) != OPTION_END)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s%.1s;",
                                 event == OPTION_UNKNOWN          ? "unknown "
                                 : event == OPTION_VALUE_MISSING  ? "missing "
                                 : event == OPTION_VALUE_UNWANTED ? "unwanted "
                                                                  : "",
                                 found.spelling ? found.spelling->name : "",
                                 found.spelling && found.value ? "=" : "",
                                 found.value ? found.value : "",
                                 event == OPTION_UNKNOWN && found.letter ? &found.letter : "");
    return text;
}

static void test_words(void **state)
{
    static const struct {
        const char *line;
        bool abbreviations;
        const char *found;
    } cases[] = {
        {"--all x --name=b c", false, "all;x;name=b;c;"},
        {"--name --all", false, "name=--all;"},
        {"-an5 -a -n 5", false, "all;name=5;all;name=5;"},
        {"-na", false, "name=a;"},
        {"-axn", false, "all;unknown x;missing name;"},
        {"- -- --all -n", false, "-;--all;-n;"},
        {"--form --form=file x", false, "form;form=file;x;"},
        {"--name= --all=1 --after", false, "name=;unwanted all;missing after;"},
        {"--na x --al", false, "unknown na;x;unknown al;"},
        {"--na x --al --a --aft=1", true, "name=x;all;unknown a;after=1;"},
        {"--names --=3", true, "unknown names;unknown =3;"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(read_words(cases[i].line, cases[i].abbreviations), cases[i].found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
