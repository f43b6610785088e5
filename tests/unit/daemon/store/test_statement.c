/* test_statement.c: a statement of the store reports a missing parameter, keeps its first failure,
 * and is reset however its scope is left. */
#include "daemon/store/connection.h"
#include "daemon/store/statement.h"
#include "tests/support/temporary_folder.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct store_connection *connection;
};

static int fixture_begin(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};

    assert_non_null(fixture);
    assert_int_equal(temporary_folder_make(state), 0);
    if (store_prepare(temporary_folder, NULL, &error) < 0 ||
        store_connection_open(temporary_folder, STORE_READ_WRITE, &fixture->connection, &error) < 0)
        fail_msg("%s", error.text);
    *state = fixture;
    return 0;
}

static int fixture_end(void **state)
{
    struct fixture *fixture = *state;

    store_connection_close(fixture->connection);
    free(fixture);
    return temporary_folder_remove(state);
}

static void statements_are_settled(const struct fixture *fixture)
{
    sqlite3 *database = store_database(fixture->connection);

    for (sqlite3_stmt *statement = sqlite3_next_stmt(database, NULL); statement;
         statement = sqlite3_next_stmt(database, statement))
        if (sqlite3_stmt_busy(statement))
            fail_msg("not reset: %s", sqlite3_sql(statement));
}

static const char insert_limit[] =
    "INSERT INTO job_group (uid, name, job_limit) VALUES (:uid, :name, :limit)";

static int limit_insert(struct fixture *fixture, int64_t uid, const char *name, int64_t limit,
                        struct error *error)
{
    AUTO_STATEMENT struct statement statement =
        statement_open(fixture->connection, insert_limit, error);

    statement_bind_int(&statement, ":uid", uid);
    statement_bind_text(&statement, ":name", name);
    statement_bind_int(&statement, ":limit", limit);
    return statement_run(&statement);
}

static const char select_names[] = "SELECT name FROM job_group ORDER BY name";

static int first_name(struct fixture *fixture, char *name, size_t size, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(fixture->connection, select_names, error);

    if (statement_next(&row) > 0)
        statement_copy_text(&row, 0, name, size);
    return row.result;
}

static void rows_come_back_as_they_were_bound(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};
    char name[16] = "";

    assert_int_equal(first_name(fixture, name, sizeof name, &error), 0);
    assert_int_equal(limit_insert(fixture, 7, "b", 2, &error), 0);
    assert_int_equal(limit_insert(fixture, 7, "a", 3, &error), 0);
    assert_int_equal(first_name(fixture, name, sizeof name, &error), 1);
    assert_string_equal(name, "a");
    statements_are_settled(fixture); /* although it stopped at the first of two rows */
}

static void a_statement_ends_once(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};

    assert_int_equal(limit_insert(fixture, 7, "a", 3, &error), 0);
    AUTO_STATEMENT struct statement rows =
        statement_open(fixture->connection, select_names, &error);
    assert_int_equal(statement_next(&rows), 1);
    assert_int_equal(statement_next(&rows), 0);
    assert_int_equal(statement_next(&rows), 0); /* it does not start again */
}

static void absent_values_are_null(void **state)
{
    static const char select_all[] = "SELECT :int, :text, :double, :known, :null, :blob";
    struct fixture *fixture = *state;
    struct error error = {0};
    char text[8] = "x";
    size_t size = 1;

    /* the second round sets no values, and those of the first must be gone */
    for (int round = 0; round < 2; round++) {
        AUTO_STATEMENT struct statement row =
            statement_open(fixture->connection, select_all, &error);

        statement_bind_int(&row, ":int", 5);
        statement_bind_text(&row, ":text", round == 0 ? "t" : NULL);
        statement_bind_double(&row, ":double", round == 0 ? 1.5 : NAN);
        statement_bind_known(&row, ":known", round == 0 ? 4 : -1, -1);
        statement_bind_null(&row, ":null");
        statement_bind_blob(&row, ":blob", "ab", 2);
        assert_int_equal(statement_next(&row), 1);
        assert_int_equal(statement_int(&row, 0), 5);
        for (int column = 1; column <= 3; column++)
            assert_int_equal(statement_is_null(&row, column), round == 1);
        assert_true(statement_is_null(&row, 4));
        statement_copy_text(&row, 1, text, sizeof text);
        assert_string_equal(text, round == 0 ? "t" : "");
        assert_float_equal(statement_double(&row, 2), round == 0 ? 1.5 : 0, 0);
        assert_memory_equal(statement_blob(&row, 5, &size), "ab", 2);
        assert_int_equal(size, 2);
    }
}

static void a_parameter_that_is_not_there_is_named(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};

    AUTO_STATEMENT struct statement statement =
        statement_open(fixture->connection, insert_limit, &error);
    statement_bind_int(&statement, ":uid", 7);
    statement_bind_int(&statement, ":limits", 7);
    statement_bind_text(&statement, ":name", "a"); /* the first failure stays */
    assert_int_equal(statement_run(&statement), -EINVAL);
    assert_int_equal(error.code, -EINVAL);
    assert_non_null(strstr(error.text, "no parameter :limits"));
    assert_int_equal(statement_changes(&statement), 0);
}

static void a_parameter_that_was_forgotten_is_named(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};

    AUTO_STATEMENT struct statement statement =
        statement_open(fixture->connection, insert_limit, &error);
    statement_bind_int(&statement, ":uid", 7);
    statement_bind_int(&statement, ":limit", 7);
    assert_int_equal(statement_run(&statement), -EINVAL);
    assert_non_null(strstr(error.text, "lacks its parameter :name"));
}

static void sql_that_does_not_compile_is_an_error(void **state)
{
    static const char wrong[] = "SELECT value FROM nowhere";
    struct fixture *fixture = *state;
    struct error error = {0};

    AUTO_STATEMENT struct statement row = statement_open(fixture->connection, wrong, &error);
    statement_bind_int(&row, ":job", 1);
    assert_int_equal(statement_next(&row), -EIO);
    assert_int_equal(error.code, -EIO);
    if (!strstr(error.text, "nowhere"))
        fail_msg("%s", error.text);
}

static void what_the_database_refuses_says_why(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};

    assert_int_equal(limit_insert(fixture, 7, "a", 3, &error), 0);
    assert_int_equal(limit_insert(fixture, 7, "a", 4, &error), -EEXIST);
    assert_int_equal(error.code, -EEXIST);
    assert_non_null(strstr(error.text, "refused"));
    statements_are_settled(fixture);
    assert_int_equal(limit_insert(fixture, 7, "b", 4, &error), 0);
}

static void a_statement_is_not_run_within_itself(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};
    char name[16] = "";

    assert_int_equal(limit_insert(fixture, 7, "a", 3, &error), 0);
    assert_int_equal(limit_insert(fixture, 7, "b", 3, &error), 0);
    AUTO_STATEMENT struct statement rows =
        statement_open(fixture->connection, select_names, &error);
    assert_int_equal(statement_next(&rows), 1);
    assert_int_equal(first_name(fixture, name, sizeof name, &error), -EINVAL);
    assert_non_null(strstr(error.text, "within itself"));
    assert_int_equal(statement_next(&rows), 1); /* the outer statement goes on */
    assert_string_equal(statement_text(&rows, 0), "b");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end)
    const struct CMUnitTest tests[] = {
        TEST(rows_come_back_as_they_were_bound),
        TEST(a_statement_ends_once),
        TEST(absent_values_are_null),
        TEST(a_parameter_that_is_not_there_is_named),
        TEST(a_parameter_that_was_forgotten_is_named),
        TEST(a_statement_is_not_run_within_itself),
        TEST(sql_that_does_not_compile_is_an_error),
        TEST(what_the_database_refuses_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
