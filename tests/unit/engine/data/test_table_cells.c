/* test_table_cells.c: numbers of tables as people write them, and their units. */
#include "engine/data/description.h"
#include "engine/data/table_columns.h"
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
    table_file_reset(DATASET_TABLE);
    return 0;
}

static void check_number(const char *text, double expected, enum table_unit expected_unit)
{
    enum table_unit unit;
    double value;

    if (!table_cell_number_with_unit(&table_file.config, text, strlen(text), &value, &unit))
        fail_msg("\"%s\" is no number", text);
    if (value != expected || unit != expected_unit)
        fail_msg("\"%s\" is %g of the unit %d", text, value, (int)unit);
}

static void check_words(const char *const *words, size_t count)
{
    double value;

    for (size_t i = 0; i < count; i++)
        if (table_cell_number(&table_file.config, words[i], strlen(words[i]), &value))
            fail_msg("\"%s\" is the number %g", words[i], value);
}

static void numbers_as_people_write_them(void **state)
{
    static const char *const words[] = {
        "%",        "$",     "12%%", "$5 %",  "%5",      "0x10",   "1_000",      "--5",
        "\u2212-5", "1,234", "1,5",  "0,123", "12,34,5", "1,2345", "1234,567.5", "1,234e5",
        "12:30",    "5 $ 6", "e5",   "1 000", "5kg",     "-$-5",   "1,234,56"};

    (void)state;
    check_number("12%", 12, TABLE_PERCENT);
    check_number("-0.5 %", -0.5, TABLE_PERCENT);
    check_number("$3.50", 3.5, TABLE_DOLLAR);
    check_number("-$1,234.50", -1234.5, TABLE_DOLLAR);
    check_number("$-3", -3, TABLE_DOLLAR);
    check_number("3.5\u00a0\u20ac", 3.5, TABLE_EURO);
    check_number("\u00a3 3", 3, TABLE_POUND);
    check_number("\u22121.5e3", -1500, TABLE_NO_UNIT);
    check_number("1,234.5", 1234.5, TABLE_NO_UNIT);
    check_number("12,345,678", 12345678, TABLE_NO_UNIT);
    check_words(words, sizeof words / sizeof *words);
}

/* As spreadsheets write accounts: blanks inside of the quotes, and brackets for a minus. */
static void accounts_are_numbers(void **state)
{
    static const char *const words[] = {"()",     "(5",    "5)",   "(-5)",  "-(5)",
                                        "((5))",  "$($5)", "(5%",  "( )",   " ",
                                        "(5) kg", "(a)",   "$ - ", "$(-5)", "-$(5)"};
    struct dataset *dataset;

    (void)state;
    check_number(" 5.25 ", 5.25, TABLE_NO_UNIT);
    check_number("\t7", 7, TABLE_NO_UNIT);
    check_number(" $ 11,494.76 ", 11494.76, TABLE_DOLLAR);
    check_number(" $(12,958.42)", -12958.42, TABLE_DOLLAR);
    check_number(" $ (3.5) ", -3.5, TABLE_DOLLAR);
    check_number("($3.50)", -3.5, TABLE_DOLLAR);
    check_number("(1,234,567)", -1234567, TABLE_NO_UNIT);
    check_number("( 8.5 \u20ac)", -8.5, TABLE_EURO);
    check_number("(12.5%)", -12.5, TABLE_PERCENT);
    check_words(words, sizeof words / sizeof *words);
    dataset = table_file_open(
        "a,b,y\n\" 5 \",\" 2026-01-02 \",u\n\" NA \",2026-01-03,v\n\"  \",2026-01-04,u\n", NULL);
    assert_int_equal(dataset->table->columns[0].kind, TABLE_NUMBER);
    assert_int_equal(dataset->table->columns[0].present, 1);
    assert_int_equal(dataset->table->columns[1].kind, TABLE_DATE);
    dataset_close(dataset);
}

static void the_decimal_sign_tells_what_parts_thousands(void **state)
{
    static const char *const words[] = {"1,234.5", "1.5", "1,2,3"}, *const others[] = {"1.234,5"};

    (void)state;
    table_file.config.table.decimal = DATASET_DECIMAL_POINT;
    check_number("1,234", 1234, TABLE_NO_UNIT);
    check_words(others, 1);
    table_file.config.table.decimal = DATASET_DECIMAL_COMMA;
    check_number("1,234", 1.234, TABLE_NO_UNIT);
    check_number("1.234", 1234, TABLE_NO_UNIT);
    check_number("-1.234.567,25 \u20ac", -1234567.25, TABLE_EURO);
    check_words(words, sizeof words / sizeof *words);
}

static void a_column_has_one_unit(void **state)
{
    struct dataset *train = table_file_open("a,b,y\n$1,10%,u\n$2.5,20%,v\n", NULL), *read, *test;
    struct error error;
    char *text;

    (void)state;
    test = table_file_open("a,b,y\n$7,5%,u\n", train);
    assert_true(((const float *)test->buffer)[0] == 7 && ((const float *)test->buffer)[1] == 5);
    dataset_close(test);
    REFUSE_BESIDE(train, "a,b,y\n7,5%,u\n", "table.csv:2: \"7\" in the column a", "another unit");
    text = dataset_description_format(train); /* as a checkpoint keeps it */
    assert_int_equal(dataset_description_parse(text, &read, &error), 0);
    REFUSE_BESIDE(read, "a,b,y\n$7,0.05,u\n", "table.csv:2: \"0.05\" in the column b");
    dataset_close(read);
    free(text);
    dataset_close(train);
    REFUSE_BESIDE(NULL, "a,y\n5%,u\n3%,v\n0.1,u\n", "table.csv:4: \"0.1\" in the column a",
                  "another unit than the first number");
}

static void numbers_to_predict_have_one_unit(void **state)
{
    struct dataset *train, *test;

    (void)state;
    table_file.config.target = DATASET_TARGET_VALUE;
    train = table_file_open("a,y\n3,\n1,\"$1,000.50\"\n2,$5\n", NULL);
    assert_true(train->count == 2 && train->targets[0] == 1000.5f);
    test = table_file_open("a,y\n3,$7\n", train);
    assert_true(test->targets[0] == 7);
    dataset_close(test);
    REFUSE_BESIDE(train, "a,y\n3,7\n", "table.csv:2: \"7\" in the column y", "another unit");
    dataset_close(train);
    REFUSE_BESIDE(NULL, "a,y\n1,$5\n2,5\n", "table.csv:3: \"5\" in the column y", "another unit");
}

/* What may be meant otherwise than it is read is told. */
static void forms_that_are_not_read_are_told(void **state)
{
    static const char *const left_out[] = {
        "a,b,y\n1,0x10,u\n2,0x1f,v\n", "a,b,y\n1,1_000,u\n2,5,v\n", "a,b,y\n1,5 kg,u\n2,1.5M,v\n"};

    (void)state;
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        table_file.warnings[0] = '\0';
        dataset_close(table_file_open(left_out[i], NULL));
        if (!strstr(table_file.warnings,
                    "\"b\" (texts that hardly ever return; if they are numbers, write"))
            fail_msg("%s: %s", left_out[i], table_file.warnings);
    }
    table_file.warnings[0] = '\0';
    dataset_close(table_file_open("a,b,y\n1,14:05,u\n2,0:30:15.5,v\n", NULL));
    assert_non_null(strstr(table_file.warnings,
                           "\"b\" (texts that hardly ever return; if they are times, write"));
    dataset_close(table_file_open("a,b,y\n1,3 PM,u\n2,3 PM,v\n", NULL));
    assert_non_null(strstr(table_file.warnings,
                           "column \"b\", such as 3 PM, are categories; if they are times"));
    table_file.warnings[0] = '\0';
    dataset_close(table_file_open("a,b,c,y\n1,1st,n1,u\n2,1st,12 Main Street,v\n", NULL));
    assert_string_equal(table_file.warnings,
                        "columns are left out: \"c\" (texts that hardly ever return)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(numbers_as_people_write_them, reset),
        cmocka_unit_test_setup(accounts_are_numbers, reset),
        cmocka_unit_test_setup(the_decimal_sign_tells_what_parts_thousands, reset),
        cmocka_unit_test_setup(a_column_has_one_unit, reset),
        cmocka_unit_test_setup(numbers_to_predict_have_one_unit, reset),
        cmocka_unit_test_setup(forms_that_are_not_read_are_told, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
