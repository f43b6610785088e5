/* test_store_migration.c: a database of every released schema opens, keeps what it has and gets the
 * newest schema. */
#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/store/schema.h"
#include "tests/support/store_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void run_sql(const struct store_fixture *fixture, const char *database, const char *sql)
{
    char path[320];
    sqlite3 *connection;
    char *message = NULL;

    snprintf(path, sizeof path, "%s/%s", fixture->directory, database);
    assert_int_equal(sqlite3_open(path, &connection), SQLITE_OK);
    if (sqlite3_exec(connection, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", database, message);
    sqlite3_close(connection);
}

static void load_sql(const struct store_fixture *fixture, const char *database, const char *source)
{
    AUTO_FREE char *sql = NULL;
    size_t size;

    assert_int_equal(file_read(AT_FDCWD, source, 1 << 20, &sql, &size, NULL), 0);
    run_sql(fixture, database, sql);
}

/* Every statement of the schema, sorted, in one text. */
static char *read_schema(const struct store_fixture *fixture, const char *database)
{
    char path[320];
    sqlite3 *connection;
    sqlite3_stmt *statement;
    char *text = NULL;

    snprintf(path, sizeof path, "%s/%s", fixture->directory, database);
    assert_int_equal(sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(connection,
                                        "SELECT group_concat(sql, ';') FROM (SELECT sql FROM "
                                        "sqlite_master WHERE sql NOT NULL ORDER BY name)",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    text = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return text;
}

/* The number that the query returns. */
static int read_number(const struct store_fixture *fixture, const char *database, const char *query)
{
    char path[320];
    sqlite3 *connection;
    sqlite3_stmt *statement;
    int number;

    snprintf(path, sizeof path, "%s/%s", fixture->directory, database);
    assert_int_equal(sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(connection, query, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    number = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return number;
}

/* A database of each released schema opens, keeps its rows and gets the newest schema. */
static const struct released {
    int jobs, checkpoints; /* the versions of the schemas */
    int rows;              /* in table checkpoint */
} released_schemas[] = {{1, 1, 1},  {2, 1, 1},  {9, 1, 1},  {13, 2, 2},
                        {14, 2, 2}, {20, 2, 2}, {21, 2, 2}, {22, 2, 2}};

static void load_released(struct store_fixture *old, const struct released *released)
{
    char source[64];

    store_fixture_begin(old);
    snprintf(source, sizeof source, "tests/fixtures/traind-schema-%d.sql", released->jobs);
    load_sql(old, "traind.db", source);
    snprintf(source, sizeof source, "tests/fixtures/checkpoints-schema-%d.sql",
             released->checkpoints);
    load_sql(old, "checkpoints.db", source);
}

static void released_schemas_migrate(void **state)
{
    struct store_fixture old, fresh;

    (void)state;
    store_fixture_begin(&fresh);
    store_fixture_open(&fresh);
    store_fixture_close(&fresh);
    for (size_t i = 0; i < sizeof released_schemas / sizeof *released_schemas; i++) {
        load_released(&old, &released_schemas[i]);
        store_fixture_open(&old);
        assert_int_equal(store_fixture_rows(&old), 2);
        store_fixture_close(&old);
        for (int file = 0; file < 2; file++) {
            static const char *const names[] = {"traind.db", "checkpoints.db"};
            AUTO_FREE char *migrated = read_schema(&old, names[file]);
            AUTO_FREE char *made = read_schema(&fresh, names[file]);

            assert_string_equal(migrated, made);
        }
        assert_int_equal(
            read_number(&old, "checkpoints.db", "SELECT count(*) FROM checkpoint_chunk"), 1);
        assert_int_equal(read_number(&old, "checkpoints.db", "SELECT count(*) FROM checkpoint"),
                         released_schemas[i].rows);
        store_fixture_end(&old);
    }
    store_fixture_end(&fresh);
}

/* An id whose row was deleted before the migration is not used again after it. */
static void migrations_keep_what_numbers_were_given_out(void **state)
{
    static const struct {
        const char *database, *table;
    } counters[] = {
        {"traind.db", "job"}, {"traind.db", "metric"}, {"checkpoints.db", "checkpoint"}};

    (void)state;
    for (size_t i = 0; i < sizeof released_schemas / sizeof *released_schemas; i++) {
        struct store_fixture old;

        load_released(&old, &released_schemas[i]);
        for (size_t k = 0; k < sizeof counters / sizeof *counters; k++)
            run_sql(&old, counters[k].database, "UPDATE sqlite_sequence SET seq = 77");
        run_sql(&old, "checkpoints.db", "DELETE FROM checkpoint");
        store_fixture_open(&old);
        store_fixture_close(&old);
        for (size_t k = 0; k < sizeof counters / sizeof *counters; k++) {
            char query[128];

            snprintf(query, sizeof query,
                     "SELECT coalesce(sum(seq), 0) FROM sqlite_sequence WHERE name = '%s'",
                     counters[k].table);
            assert_int_equal(read_number(&old, counters[k].database, query), 77);
        }
        assert_int_equal(
            read_number(&old, "checkpoints.db", "SELECT count(*) FROM sqlite_sequence"), 1);
        store_fixture_end(&old);
    }
}

/* Two jobs of one command, a native job whose plan has the same digest, a command that another user
 * has run, one whose run has not ended, and one whose jobs were removed. */
static const char commands_sql[] =
    "INSERT INTO job (id, name, kind, state, uid, user, priority, spec, plan_digest, submitted) "
    "VALUES"
    " (91, 'x', 'command', 'done', 1000, 'u', 0, '{}', 'twice', 1),"
    " (92, 'x', 'command', 'failed', 1000, 'u', 0, '{}', 'twice', 1),"
    " (93, 'x', 'native', 'done', 1000, 'u', 0, '{}', 'twice', 1),"
    " (94, 'x', 'command', 'done', 1001, 'v', 0, '{}', 'another', 1),"
    " (95, 'x', 'command', 'running', 1000, 'u', 0, '{}', 'running', 1);"
    "INSERT INTO attempt (job, number, device, started, ended) VALUES (91, 1, 'cpu', 10, 20),"
    " (91, 2, 'cpu', 30, 40), (92, 1, 'GPU-1', 50, 60), (93, 1, 'cpu', 70, 80),"
    " (94, 1, 'cpu', 90, 100), (95, 1, 'cpu', 90, NULL);"
    "INSERT INTO command_history (uid, digest, device_type, runs, seconds, squares, cores, memory,"
    " device_memory) VALUES"
    " (1000, 'twice', 'cpu', 1, 1, 0, 1, 0, 0), (1000, 'twice', 'GPU', 1, 1, 0, 1, 0, 0),"
    " (1001, 'another', 'cpu', 1, 1, 0, 1, 0, 0), (1000, 'another', 'cpu', 1, 1, 0, 1, 0, 0),"
    " (1000, 'running', 'cpu', 1, 1, 0, 1, 0, 0), (1000, 'removed', 'cpu', 1, 1, 0, 1, 0, 0);";

/* The last attempts of its jobs say when a command ran, so that those that ran last are kept. */
static void migrations_tell_when_a_command_ran_last(void **state)
{
    static const struct {
        const char *where;
        int added;
    } commands[] = {{"uid = 1000 AND digest = 'twice' AND device_type = 'cpu'", 60},
                    {"uid = 1000 AND digest = 'twice' AND device_type = 'GPU'", 60},
                    {"uid = 1001 AND digest = 'another'", 100},
                    {"uid = 1000 AND digest = 'another'", 0},
                    {"uid = 1000 AND digest = 'running'", 0},
                    {"uid = 1000 AND digest = 'removed'", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof released_schemas / sizeof *released_schemas; i++) {
        struct store_fixture old;

        if (released_schemas[i].jobs < 5) /* which had no such table */
            continue;
        load_released(&old, &released_schemas[i]);
        run_sql(&old, "traind.db", commands_sql);
        store_fixture_open(&old);
        store_fixture_close(&old);
        for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
            char query[160];

            snprintf(query, sizeof query, "SELECT added FROM command_history WHERE %s",
                     commands[k].where);
            assert_int_equal(read_number(&old, "traind.db", query), commands[k].added);
        }
        if (released_schemas[i].jobs == 22) /* whose daemon may have stored a run */
            assert_int_equal(read_number(&old, "traind.db",
                                         "SELECT added FROM command_history WHERE digest = '01'"),
                             1700000500);
        store_fixture_end(&old);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(released_schemas_migrate),
        cmocka_unit_test(migrations_keep_what_numbers_were_given_out),
        cmocka_unit_test(migrations_tell_when_a_command_ran_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
