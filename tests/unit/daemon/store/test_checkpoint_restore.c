/* test_checkpoint_restore.c: if the table of checkpoints cannot be read, that is an error. The
 * checkpoint is not skipped. */
#include "daemon/store/connection.h"
#include "daemon/store/spool_store.h"
#include "tests/support/store_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES_MAX = 16 };

static int64_t read_number(sqlite3 *database, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t number;

    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

/* Overwrites the first page of the table of checkpoints, and of each of its indexes. */
static void damage_checkpoints(const struct store_fixture *fixture)
{
    int64_t pages[PAGES_MAX], page_bytes;
    char path[320], *noise;
    sqlite3_stmt *statement;
    sqlite3 *database;
    size_t count = 0;
    int file;

    snprintf(path, sizeof path, "%s/checkpoints.db", fixture->directory);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    page_bytes = read_number(database, "PRAGMA page_size");
    read_number(database, "PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_prepare_v2(database, "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'checkpoint'",
                       -1, &statement, NULL);
    while (count < PAGES_MAX && sqlite3_step(statement) == SQLITE_ROW)
        pages[count++] = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    assert_true(count > 0);

    noise = malloc((size_t)page_bytes);
    assert_non_null(noise);
    memset(noise, 0xff, (size_t)page_bytes);
    file = open(path, O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pwrite(file, noise, (size_t)page_bytes, (pages[i] - 1) * page_bytes),
                         page_bytes);
    close(file);
    free(noise);
}

static void a_table_that_cannot_be_read_ends_the_search(void **state)
{
    struct store_connection *connection = NULL;
    struct checkpoint_restore restore;
    struct store_fixture fixture;
    struct error error = {0};
    char path[320];

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_fixture_close(&fixture);
    damage_checkpoints(&fixture);
    assert_int_equal(store_connection_open(fixture.directory, STORE_READ_ONLY, &connection, &error),
                     0);

    snprintf(path, sizeof path, "%s/resume", fixture.directory);
    checkpoint_restore_init(&restore, fixture.directory, 1, getuid(), path, NULL);
    assert_int_equal(checkpoint_restore_next(connection, &restore, &error), -ERROR_DAMAGED);
    assert_non_null(strstr(error.text, "damaged"));
    assert_int_not_equal(access(path, F_OK), 0);

    checkpoint_restore_close(&restore);
    store_connection_close(connection);
    store_fixture_end(&fixture);
}

/* A job that begins with the checkpoint of another one waits for the database, and fails only where
 * the checkpoint itself is gone. */
static void a_damaged_source_is_told_from_a_damaged_database(void **state)
{
    const struct checkpoint_source source = {.job = 1, .step = -1, .asker = getuid()};
    struct store_connection *connection = NULL;
    struct checkpoint_restore restore;
    struct store_fixture fixture;
    struct error error = {0};
    sqlite3 *database;
    char path[320];
    int result;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_fixture_close(&fixture);
    snprintf(path, sizeof path, "%s/traind.db", fixture.directory);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    snprintf(path, sizeof path,
             "INSERT INTO job (id, name, kind, state, uid, user, priority, spec, reason, submitted)"
             " VALUES (1, 'a', 'native', 'done', %u, 'a', 0, '{}', '', 1)",
             (unsigned)getuid());
    assert_int_equal(sqlite3_exec(database, path, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(database);
    snprintf(path, sizeof path, "%s/checkpoints.db", fixture.directory);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(database,
                     "INSERT INTO checkpoint (job, attempt, step, epoch, time, bytes, digest, best,"
                     " location, path, metrics)"
                     " VALUES (1, 1, 7, 1, 1, 5, 'x', 0, 'database', 'p', '{}')",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(database);

    for (int damaged = 0; damaged < 2; damaged++) { /* first, only its content is missing */
        if (damaged)
            damage_checkpoints(&fixture);
        assert_int_equal(
            store_connection_open(fixture.directory, STORE_READ_ONLY, &connection, &error), 0);
        snprintf(path, sizeof path, "%s/weights", fixture.directory);
        checkpoint_restore_init_source(&restore, fixture.directory, &source, path);
        while ((result = checkpoint_restore_next(connection, &restore, &error)) > 0)
            ;
        assert_int_equal(result, damaged ? -ERROR_DAMAGED : -ERROR_STALE_FILE);
        assert_int_equal(error.code, result);
        assert_true(damaged == !strstr(error.text, "the checkpoint of step 7 of job 1"));
        assert_null(strstr(error.text, "9223372036854775807"));
        checkpoint_restore_close(&restore);
        store_connection_close(connection);
    }
    store_fixture_end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_cannot_be_read_ends_the_search),
        cmocka_unit_test(a_damaged_source_is_told_from_a_damaged_database),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
