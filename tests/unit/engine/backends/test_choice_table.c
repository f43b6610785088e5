/* test_choice_table.c: processes that share a file of choices choose the same. A damaged or missing
 * file costs one measurement. */
#include "engine/backends/choice_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/test_choice_table.XXXXXX", path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/choices.txt", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static struct choice_table *open_table(const char *file)
{
    struct choice_table *table = NULL;
    struct error error = {0};

    if (choice_table_open(file, &table, &error) < 0)
        fail_msg("%s", error.text);
    return table;
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

/* Both have measured at the same time: the one that stores its choice later takes the other's
 * choice. */
static void test_first_counts(void **state)
{
    struct choice_table *first = open_table(path), *second = open_table(path), *later;

    (void)state;
    assert_null(choice_table_find(second, "forward,8"));
    assert_string_equal(choice_table_add(first, "forward,8", "own"), "own");
    assert_string_equal(choice_table_add(second, "forward,8", "plan 3 4=5"), "own");
    assert_string_equal(choice_table_add(second, "forward,16", "plan 3 4=5"), "plan 3 4=5");
    later = open_table(path);
    assert_string_equal(choice_table_find(later, "forward,8"), "own");
    assert_string_equal(choice_table_find(later, "forward,16"), "plan 3 4=5");
    choice_table_close(first);
    choice_table_close(second);
    choice_table_close(later);
    unlink(path);
}

/* Lines that are cut, empty, without a choice or too long; the lines around them count. */
static void test_damaged_file(void **state)
{
    char text[CHOICES_KEY_MAX + 64] = "a 1\n\nnothing\n", *end = text + strlen(text);
    struct choice_table *table;

    (void)state;
    memset(end, 'k', CHOICES_KEY_MAX);
    strcpy(end + CHOICES_KEY_MAX, " 2\nb 3\na 4\nc 5");
    write_file(text);
    table = open_table(path);
    assert_string_equal(choice_table_find(table, "a"), "1");
    assert_string_equal(choice_table_find(table, "b"), "3");
    assert_null(choice_table_find(table, "nothing"));
    assert_null(choice_table_find(table, "c"));
    choice_table_close(table);
    unlink(path);
}

/* A full disk cuts a line: neither that line nor the next one is read as another choice. */
static void test_cut_line(void **state)
{
    static const char *const cut[] = {"b", "b ", "b 1", "b 12"};
    struct choice_table *table, *later;

    (void)state;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char text[16];

        snprintf(text, sizeof text, "a 1\n%s", cut[i]);
        write_file(text);
        table = open_table(path);
        assert_string_equal(choice_table_add(table, "c", "3"), "3");
        assert_string_equal(choice_table_add(table, "b", "1234"), "1234");
        later = open_table(path);
        assert_string_equal(choice_table_find(later, "a"), "1");
        assert_string_equal(choice_table_find(later, "b"), "1234");
        assert_string_equal(choice_table_find(later, "c"), "3");
        choice_table_close(later);
        choice_table_close(table);
        unlink(path);
    }
}

/* A process that cannot use a choice measures anew, once for all later processes. A process that
 * already uses the earlier choice keeps it. */
static void test_replaces_useless(void **state)
{
    struct choice_table *table, *other, *later;

    (void)state;
    write_file("a rubbish\nb 2\n");
    table = open_table(path);
    other = open_table(path);
    assert_string_equal(choice_table_add(table, "a", "plan 1"), "plan 1");
    later = open_table(path);
    assert_string_equal(choice_table_find(later, "a"), "plan 1");
    assert_string_equal(choice_table_find(later, "b"), "2");
    assert_string_equal(choice_table_add(other, "c", "3"), "3");
    assert_string_equal(choice_table_find(other, "a"), "rubbish");
    choice_table_close(table);
    choice_table_close(other);
    choice_table_close(later);
    unlink(path);
}

static void test_without_file(void **state)
{
    struct choice_table *table = open_table(NULL), *elsewhere = open_table("/nowhere/choices.txt");

    (void)state;
    assert_string_equal(choice_table_add(table, "a", "1"), "1");
    assert_string_equal(choice_table_find(table, "a"), "1");
    write_file("a 2\nb 3\n");
    choice_table_keep(table, path);
    assert_string_equal(choice_table_find(table, "a"), "1"); /* programs were made by it */
    assert_string_equal(choice_table_find(table, "b"), "3");
    assert_string_equal(choice_table_add(elsewhere, "a", "1"), "1");
    choice_table_close(table);
    choice_table_close(elsewhere);
    unlink(path);
}

/* More choices than the table has room for at first. */
static void test_many(void **state)
{
    struct choice_table *table = open_table(path);
    char key[32], text[32];

    (void)state;
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "problem,%d", i);
        snprintf(text, sizeof text, "%d", i);
        assert_string_equal(choice_table_add(table, key, text), text);
    }
    choice_table_close(table);
    table = open_table(path);
    assert_string_equal(choice_table_find(table, "problem,0"), "0");
    assert_string_equal(choice_table_find(table, "problem,299"), "299");
    choice_table_close(table);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_counts), cmocka_unit_test(test_damaged_file),
        cmocka_unit_test(test_cut_line),     cmocka_unit_test(test_replaces_useless),
        cmocka_unit_test(test_without_file), cmocka_unit_test(test_many)};

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
