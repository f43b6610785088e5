/* test_command_history_rows.c: what is kept of the earlier runs of a user's commands is bounded. */
#include "daemon/store/command_history_rows.h"
#include "daemon/store/connection.h"
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

/* A run of the user's command of that number, which ended so many seconds after the epoch. */
static void run_command(struct store_connection *connection, int number, struct error *error)
{
    const struct command_run run = {.completed = true, .seconds = 1};
    char sql[160];

    snprintf(sql, sizeof sql, "UPDATE job SET plan_digest = 'command %d' WHERE id = 1", number);
    execute(connection, sql);
    assert_int_equal(command_history_store(connection, 1, "cpu", &run, error), 0);
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

static void the_oldest_commands_of_a_user_are_forgotten(void **state)
{
    struct store_fixture fixture;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_write(fixture.store, run_all, NULL, NULL);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_commands_of_a_user_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
