/* test_command_history_rows.c: what is kept of the earlier runs of a user's commands is bounded. */
#include "daemon/store/command_history_rows.h"
#include "daemon/store/connection.h"
#include "daemon/store/statement.h"
#include "tests/support/store_fixture.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MORE = 5, COMMANDS = COMMAND_HISTORY_ROWS_MAX + MORE };

static const char fill_sql[] =
    "INSERT INTO job (id, name, kind, state, uid, user, priority, spec, submitted, attempt) VALUES"
    "  (1, 'x', 'command', 'running', 5, 'u', 0, '{}', 100, 1),"
    "  (2, 'y', 'command', 'running', 6, 'v', 0, '{}', 100, 1);"
    "UPDATE job SET plan_digest = 'another' WHERE id = 2;";

static void execute(struct store_connection *connection, const char *sql)
{
    assert_int_equal(sqlite3_exec(store_database(connection), sql, NULL, NULL, NULL), SQLITE_OK);
}

/* A run of the user's command of that number, which has just ended. */
static void run_now(struct store_connection *connection, int number, struct error *error)
{
    const struct command_run run = {.completed = true, .seconds = 1};
    char sql[160];

    snprintf(sql, sizeof sql, "UPDATE job SET plan_digest = 'command %d' WHERE id = 1", number);
    execute(connection, sql);
    assert_int_equal(command_history_store(connection, 1, "cpu", &run, error), 0);
}

/* The same, which ended so many seconds after the epoch. */
static void run_command(struct store_connection *connection, int number, struct error *error)
{
    char sql[160];

    run_now(connection, number, error);
    snprintf(sql, sizeof sql, "UPDATE command_history SET added = %d WHERE digest = 'command %d'",
             number, number);
    execute(connection, sql);
}

static int rows_of(struct store_connection *connection, uid_t uid, int number, struct error *error)
{
    struct command_history_row rows[COMMAND_HISTORY_TYPES_MAX];
    char digest[32];

    if (number < 0)
        snprintf(digest, sizeof digest, "another");
    else
        snprintf(digest, sizeof digest, "command %d", number);
    return command_history_read(connection, uid, digest, rows, error);
}

static int run_all(struct store_connection *connection, void *data, struct error *error)
{
    const struct command_run run = {.completed = true, .seconds = 1};

    (void)data;
    execute(connection, fill_sql);
    assert_int_equal(command_history_store(connection, 2, "cpu", &run, error), 0);
    execute(connection, "UPDATE command_history SET added = 0");
    for (int i = 0; i < COMMANDS; i++)
        run_command(connection, i, error);
    for (int i = 0; i < COMMANDS; i++)
        assert_int_equal(rows_of(connection, 5, i, error), i >= MORE);
    assert_int_equal(rows_of(connection, 6, -1, error), 1); /* another user's stays */
    return 0;
}

static void write_in_store(store_work work)
{
    struct store_fixture fixture;

    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_write(fixture.store, work, NULL, NULL);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
}

static void the_oldest_commands_of_a_user_are_forgotten(void **state)
{
    (void)state;
    write_in_store(run_all);
}

/* The user's history of commands `from` to `to - 1`: the higher the number, the later they ran. */
static void fill_history(struct store_connection *connection, int from, int to, double time)
{
    char sql[512];

    snprintf(sql, sizeof sql,
             "WITH number (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM number WHERE n < %d)"
             "INSERT INTO command_history (uid, digest, device_type, runs, seconds, squares, cores,"
             "  memory, device_memory, added)"
             " SELECT 5, 'command ' || n, 'cpu', 1, 1, 0, 1, 0, 0, %f + n FROM number",
             from, to - 1, time);
    execute(connection, sql);
}

static int run_after_future(struct store_connection *connection, void *data, struct error *error)
{
    const int first = COMMAND_HISTORY_ROWS_MAX;

    (void)data;
    execute(connection, fill_sql);
    fill_history(connection, 0, COMMAND_HISTORY_ROWS_MAX, 9e9);
    for (int i = first; i < first + MORE; i++)
        run_now(connection, i, error);
    run_now(connection, MORE, error); /* which would be the oldest by now */
    run_now(connection, first + MORE, error);
    for (int i = 0; i <= first + MORE; i++)
        assert_int_equal(rows_of(connection, 5, i, error), i >= MORE && i != MORE + 1);
    return 0;
}

static void commands_are_learnt_after_a_clock_that_ran_ahead(void **state)
{
    (void)state;
    write_in_store(run_after_future);
}

static int64_t rows_of_user(struct store_connection *connection, struct error *error)
{
    AUTO_STATEMENT struct statement row =
        statement_open(connection, "SELECT count(*) FROM command_history WHERE uid = 5", error);

    assert_true(statement_next(&row) > 0);
    return statement_int(&row, 0);
}

/* A database of an earlier traind has rows without a bound: no write deletes them all. */
static int run_with_surplus(struct store_connection *connection, void *data, struct error *error)
{
    const int surplus = 2 * COMMAND_HISTORY_DELETES_MAX + MORE;
    const int first = COMMAND_HISTORY_ROWS_MAX + surplus;
    int64_t rows = first;

    (void)data;
    execute(connection, fill_sql);
    fill_history(connection, 0, first, 0);
    for (int i = 0; i < 4; i++) {
        run_now(connection, first + i, error);
        rows += 1 - COMMAND_HISTORY_DELETES_MAX;
        if (rows < COMMAND_HISTORY_ROWS_MAX)
            rows = COMMAND_HISTORY_ROWS_MAX;
        assert_int_equal(rows_of_user(connection, error), rows);
    }
    assert_int_equal(rows, COMMAND_HISTORY_ROWS_MAX);
    for (int i = 0; i < first + 4; i++)
        assert_int_equal(rows_of(connection, 5, i, error), i >= surplus + 4);
    return 0;
}

static void many_commands_are_forgotten_in_slices(void **state)
{
    (void)state;
    write_in_store(run_with_surplus);
}

static void run_many(struct store_connection *connection, int from, int to, struct error *error)
{
    for (int i = from; i < to; i++)
        run_now(connection, i, error);
}

/* Commands that are run again and again, then a sweep, each point of which is a command. */
static int run_sweep(struct store_connection *connection, void *data, struct error *error)
{
    const int first = 2 * COMMAND_HISTORY_ROWS_MAX;

    (void)data;
    execute(connection, fill_sql);
    for (int times = 0; times < 3; times++)
        run_many(connection, 0, MORE, error);
    run_many(connection, MORE, first, error);
    for (int i = 0; i < first; i++)
        assert_int_equal(rows_of(connection, 5, i, error),
                         i < MORE || i >= first - COMMAND_HISTORY_ROWS_MAX + MORE);
    assert_int_equal(rows_of_user(connection, error), COMMAND_HISTORY_ROWS_MAX);
    return 0;
}

static void a_sweep_leaves_commands_that_ran_several_times(void **state)
{
    (void)state;
    write_in_store(run_sweep);
}

/* All that is known ran often, long ago: present commands are learnt, and take its place. */
static int run_new(struct store_connection *connection, void *data, struct error *error)
{
    const int first = COMMAND_HISTORY_ROWS_MAX;

    (void)data;
    execute(connection, fill_sql);
    fill_history(connection, 0, first, 0);
    execute(connection, "UPDATE command_history SET runs = 9");
    for (int times = 0; times < 2; times++)
        run_many(connection, first, first + COMMAND_HISTORY_NEWEST, error);
    for (int i = 0; i < first + COMMAND_HISTORY_NEWEST; i++)
        assert_int_equal(rows_of(connection, 5, i, error), i >= COMMAND_HISTORY_NEWEST);
    return 0;
}

static void new_commands_are_learnt_among_those_that_ran_often(void **state)
{
    (void)state;
    write_in_store(run_new);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_commands_of_a_user_are_forgotten),
        cmocka_unit_test(commands_are_learnt_after_a_clock_that_ran_ahead),
        cmocka_unit_test(many_commands_are_forgotten_in_slices),
        cmocka_unit_test(a_sweep_leaves_commands_that_ran_several_times),
        cmocka_unit_test(new_commands_are_learnt_among_those_that_ran_often),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
