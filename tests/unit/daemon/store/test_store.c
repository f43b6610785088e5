/* test_store.c: the store's promises: order, group commit, isolation of a failing request,
 * durability when the process is killed, a full disk, and unreadable files that stay unchanged. */
#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/store/connection.h"
#include "daemon/store/statement.h"
#include "tests/support/store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- requests -------------------------------------------------------------------------------- */

struct insertion {
    const char *name;
    int fail_with; /* with which it fails after it has written the row */
    int64_t id;
    int result, order;
    char sentence[128];
    struct progress *progress;
};

/* The state that the requests of a test share. */
struct progress {
    sem_t gate;   /* the blocking request waits here, on the storage thread */
    int finished; /* how many `done` callbacks ran; only the loop uses it */
    int commits;  /* only the storage thread uses it */
};

static const char insert_sql[] =
    "INSERT INTO job (name, kind, state, uid, user, priority, spec, submitted)"
    "  VALUES (:name, 'command', 'queued', 0, 'root', 0, '{}', 0)";

static int insert(struct store_connection *connection, void *data, struct error *error)
{
    struct insertion *insertion = data;
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_sql, error);

    statement_bind_text(&statement, ":name", insertion->name);
    if (statement_run(&statement) < 0)
        return statement.result;
    insertion->id = statement_row_id(&statement);
    if (insertion->fail_with)
        return error_set(error, insertion->fail_with, "asked to fail");
    return 0;
}

static void on_inserted(void *data, int result, const struct error *error)
{
    struct insertion *insertion = data;

    insertion->result = result;
    insertion->order = ++insertion->progress->finished;
    snprintf(insertion->sentence, sizeof insertion->sentence, "%.100s", error ? error->text : "");
}

static int count_commit(void *data)
{
    ((struct progress *)data)->commits++;
    return 0;
}

/* Blocks, so that later requests pile up. */
static int wait_at_gate(struct store_connection *connection, void *data, struct error *error)
{
    struct progress *progress = data;

    (void)error;
    sqlite3_commit_hook(store_database(connection), count_commit, progress);
    while (sem_wait(&progress->gate) < 0)
        ;
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void requests_that_pile_up_share_a_commit(void **state)
{
    enum { COUNT = 100 };
    struct store_fixture fixture;
    struct progress progress = {0};
    struct insertion insertions[COUNT];

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    sem_init(&progress.gate, 0, 0);
    store_write(fixture.store, wait_at_gate, NULL, &progress);
    for (int i = 0; i < COUNT; i++) {
        insertions[i] = (struct insertion){.name = "x", .progress = &progress};
        store_write(fixture.store, insert, on_inserted, &insertions[i]);
    }
    sem_post(&progress.gate);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(insertions[i].result, 0);
        assert_int_equal(insertions[i].order, i + 1);
        assert_int_equal(insertions[i].id, i + 1);
    }
    /* the gate's own transaction may have begun before the first of them, or include some of
     * them */
    assert_in_range(progress.commits, 1, 2);
    assert_int_equal(store_fixture_rows(&fixture), COUNT);
    store_fixture_close(&fixture);
    sem_destroy(&progress.gate);
    store_fixture_end(&fixture);
}

static void a_failing_request_harms_no_other(void **state)
{
    struct store_fixture fixture;
    struct progress progress = {0};
    struct insertion insertions[] = {{.name = "a"},
                                     {.name = "b", .fail_with = -EPERM},
                                     {.name = NULL}, /* NOT NULL */
                                     {.name = "c"}};

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    sem_init(&progress.gate, 0, 0);
    store_write(fixture.store, wait_at_gate, NULL, &progress);
    for (size_t i = 0; i < 4; i++) {
        insertions[i].progress = &progress;
        store_write(fixture.store, insert, on_inserted, &insertions[i]);
    }
    sem_post(&progress.gate);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(insertions[0].result, 0);
    assert_int_equal(insertions[1].result, -EPERM);
    assert_string_equal(insertions[1].sentence, "asked to fail");
    assert_int_equal(insertions[2].result, -EEXIST);
    assert_int_equal(insertions[3].result, 0);
    assert_int_equal(store_fixture_rows(&fixture), 2);
    store_fixture_close(&fixture);
    sem_destroy(&progress.gate);
    store_fixture_end(&fixture);
}

static void what_nobody_waits_for_joins_the_next_commit(void **state)
{
    struct store_fixture fixture;
    struct progress progress = {0};
    struct insertion insertions[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        insertions[i].progress = &progress;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    sem_init(&progress.gate, 0, 1);
    store_write(fixture.store, wait_at_gate, NULL, &progress); /* it counts commits */
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    progress.commits = 0;
    store_write_soon(fixture.store, insert, on_inserted, &insertions[0]);
    store_write_soon(fixture.store, insert, on_inserted, &insertions[1]);
    store_write(fixture.store, insert, on_inserted, &insertions[2]);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(insertions[i].result, 0);
        assert_int_equal(insertions[i].order, i + 1);
        assert_int_equal(insertions[i].id, i + 1);
    }
    assert_int_equal(progress.commits, 1);
    /* with no other request, it is written in time, too */
    store_write_soon(fixture.store, insert, on_inserted, &insertions[3]);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(insertions[3].order, 4);
    insertions[3].name = "e";
    /* it is written before the end, too */
    store_write_soon(fixture.store, insert, on_inserted, &insertions[3]);
    store_fixture_close(&fixture);
    assert_int_equal(insertions[3].order, 5);
    store_fixture_open(&fixture);
    assert_int_equal(store_fixture_rows(&fixture), 5);
    store_fixture_close(&fixture);
    sem_destroy(&progress.gate);
    store_fixture_end(&fixture);
}

static void a_failing_request_alone(void **state)
{
    struct store_fixture fixture;
    struct progress progress = {0};
    struct insertion failing = {.name = "a", .fail_with = -EPERM, .progress = &progress};
    struct insertion after = {.name = "b", .progress = &progress};

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_write(fixture.store, insert, on_inserted, &failing);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(failing.result, -EPERM);
    assert_string_equal(failing.sentence, "asked to fail");
    assert_int_equal(store_fixture_rows(&fixture), 0);
    store_write(fixture.store, insert, on_inserted, &after);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(after.result, 0);
    assert_int_equal(store_fixture_rows(&fixture), 1);
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
}

/* Stops before the last row, as a query does that has found its result. */
static int read_first_row(struct store_connection *connection, void *data, struct error *error)
{
    static const char sql[] = "SELECT id FROM job ORDER BY id";
    AUTO_STATEMENT struct statement row = statement_open(connection, sql, error);

    if (statement_next(&row) != 1)
        return row.result < 0 ? row.result : -EIO;
    *(int64_t *)data = statement_int(&row, 0);
    return *(int64_t *)data > 0 ? 0 : -EIO;
}

static int read_first_row_and_fail(struct store_connection *connection, void *data,
                                   struct error *error)
{
    int result = read_first_row(connection, data, error);

    return result < 0 ? result : error_set(error, -EPERM, "asked to fail");
}

static void a_query_that_stops_early_hides_nothing_from_the_next(void **state)
{
    static const store_work queries[] = {read_first_row, read_first_row_and_fail};
    struct store_fixture fixture;
    struct progress progress = {0};
    struct insertion insertions[5];
    int64_t first = 0;
    int rows = 0;

    (void)state;
    for (int i = 0; i < 5; i++)
        insertions[i] = (struct insertion){.name = "x", .progress = &progress};
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_write(fixture.store, insert, on_inserted, &insertions[rows++]);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    for (int i = 0; i < 4; i++) {
        /* each on the reader, and the last one on the writer */
        if (i < 2)
            store_read(fixture.store, queries[i], NULL, &first);
        else
            store_write(fixture.store, queries[i - 2], NULL, &first);
        store_write(fixture.store, insert, on_inserted, &insertions[rows++]);
        while (store_pending(fixture.store) > 0)
            uv_run(&fixture.loop, UV_RUN_ONCE);
        assert_int_equal(first, 1);
        assert_int_equal(insertions[rows - 1].result, 0);
        assert_int_equal(store_fixture_rows(&fixture), rows);
    }
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
}

/* Two queries, each of which waits until the other one has begun. */
struct meeting {
    sem_t begun[2];
};

struct guest {
    struct meeting *meeting;
    int place;
};

static int meet(struct store_connection *connection, void *data, struct error *error)
{
    const struct guest *guest = data;

    (void)connection;
    (void)error;
    sem_post(&guest->meeting->begun[guest->place]);
    while (sem_wait(&guest->meeting->begun[1 - guest->place]) < 0)
        ;
    return 0;
}

/* Two queries that any reader may take run at once, and one runs beside a query that has its place
 * in the order. With a single reader this never ends. */
static void queries_run_beside_others(void **state)
{
    struct store_fixture fixture;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    for (int ordered = 0; ordered < 2; ordered++) {
        struct meeting meeting;
        struct guest guests[2] = {{&meeting, 0}, {&meeting, 1}};

        for (int i = 0; i < 2; i++)
            sem_init(&meeting.begun[i], 0, 0);
        (ordered ? store_read : store_read_beside)(fixture.store, meet, NULL, &guests[0]);
        store_read_beside(fixture.store, meet, NULL, &guests[1]);
        while (store_pending(fixture.store) > 0)
            uv_run(&fixture.loop, UV_RUN_ONCE);
        for (int i = 0; i < 2; i++)
            sem_destroy(&meeting.begun[i]);
    }
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
}

/* A query that has its place in the order does not wait for a long one that was there before. If
 * it does, this never ends. */
static void a_long_query_holds_up_no_other(void **state)
{
    struct store_fixture fixture;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    for (int i = 0; i < 50; i++) {
        struct meeting meeting;
        struct guest guests[2] = {{&meeting, 0}, {&meeting, 1}};

        for (int k = 0; k < 2; k++)
            sem_init(&meeting.begun[k], 0, 0);
        store_read_beside(fixture.store, meet, NULL, &guests[0]);
        if (i % 2)
            usleep(1000); /* it has begun */
        store_read(fixture.store, meet, NULL, &guests[1]);
        while (store_pending(fixture.store) > 0)
            uv_run(&fixture.loop, UV_RUN_ONCE);
        for (int k = 0; k < 2; k++)
            sem_destroy(&meeting.begun[k]);
    }
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
}

static int limit_pages(struct store_connection *connection, void *data, struct error *error)
{
    char sql[64];

    (void)error;
    snprintf(sql, sizeof sql, "PRAGMA traind.max_page_count=%d", *(int *)data);
    assert_int_equal(sqlite3_exec(store_database(connection), sql, NULL, NULL, NULL), SQLITE_OK);
    return 0;
}

static void a_full_disk_is_answered_and_survived(void **state)
{
    struct store_fixture fixture;
    struct progress progress = {0};
    struct insertion before = {.name = "before", .progress = &progress};
    struct insertion after = {.name = "after", .progress = &progress};
    struct insertion large = {.progress = &progress};
    int one_page = 1, many_pages = 1 << 30;
    AUTO_FREE char *name = malloc(1 << 20);

    (void)state;
    assert_non_null(name);
    memset(name, 'x', 1 << 20);
    name[(1 << 20) - 1] = '\0';
    large.name = name;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_write(fixture.store, insert, on_inserted, &before);
    store_write(fixture.store, limit_pages, NULL, &one_page); /* the limit is the present size */
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    store_write(fixture.store, insert, on_inserted, &large);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(large.result, -ENOSPC);
    assert_non_null(strstr(large.sentence, "full"));
    assert_int_equal(store_fixture_rows(&fixture), 1);
    store_write(fixture.store, limit_pages, NULL, &many_pages);
    store_write(fixture.store, insert, on_inserted, &after);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(before.result, 0);
    assert_int_equal(after.result, 0);
    assert_int_equal(store_fixture_rows(&fixture), 2);
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
}

/* ---- a process that is killed ---------------------------------------------------------------- */

static void die_in_done(void *data, int result, const struct error *error)
{
    (void)data;
    (void)result;
    (void)error;
    kill(getpid(), SIGKILL);
}

static int die_in_work(struct store_connection *connection, void *data, struct error *error)
{
    insert(connection, data, error);
    kill(getpid(), SIGKILL);
    return 0;
}

static void run_and_die(struct store_fixture *fixture, store_work work, store_done done)
{
    struct insertion insertion = {.name = "x"};
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct store_fixture own = *fixture;

        if (uv_loop_init(&own.loop) < 0 ||
            store_open(&own.loop, own.directory, NULL, &own.store, NULL) < 0)
            _exit(1);
        store_write(own.store, work, done, &insertion);
        uv_run(&own.loop, UV_RUN_DEFAULT);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void what_was_acknowledged_survives_a_kill(void **state)
{
    struct store_fixture fixture;

    (void)state;
    store_fixture_begin(&fixture);
    for (int i = 1; i <= 5; i++) {
        run_and_die(&fixture, insert, die_in_done);
        run_and_die(&fixture, die_in_work, NULL);
        store_fixture_open(&fixture);
        assert_int_equal(store_fixture_rows(&fixture), i);
        store_fixture_close(&fixture);
    }
    store_fixture_end(&fixture);
}

/* ---- what is found on disk ------------------------------------------------------------------- */

static char *read_whole(const struct store_fixture *fixture, const char *name, size_t *size)
{
    char path[320], *content = NULL;

    snprintf(path, sizeof path, "%s/%s", fixture->directory, name);
    assert_int_equal(file_read(AT_FDCWD, path, 1 << 26, &content, size, NULL), 0);
    return content;
}

static void expect_refusal(struct store_fixture *fixture, const char *name, int code,
                           const char *sentence)
{
    struct error error = {0};
    size_t size_before, size_after;
    AUTO_FREE char *before = read_whole(fixture, name, &size_before);

    assert_int_equal(store_open(&fixture->loop, fixture->directory, NULL, &fixture->store, &error),
                     code);
    if (!strstr(error.text, sentence))
        fail_msg("the sentence is: %s", error.text);
    AUTO_FREE char *after = read_whole(fixture, name, &size_after);
    assert_int_equal(size_before, size_after);
    assert_memory_equal(before, after, size_before);
}

static void write_at(const struct store_fixture *fixture, const char *name, off_t offset,
                     size_t size)
{
    char path[320];
    AUTO_FREE char *garbage = malloc(size);

    assert_non_null(garbage);
    memset(garbage, 0xa5, size);
    snprintf(path, sizeof path, "%s/%s", fixture->directory, name);
    AUTO_CLOSE int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, garbage, size, offset), (ssize_t)size);
}

static void damaged_and_newer_databases_are_left_alone(void **state)
{
    struct store_fixture fixture;
    char path[320];
    sqlite3 *connection;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_fixture_close(&fixture);
    run_and_die(&fixture, insert, die_in_done); /* an unclean end, so that everything is checked */

    snprintf(path, sizeof path, "%s/traind.db", fixture.directory);
    AUTO_FREE char *sound = NULL;
    size_t size;
    /* move the log into the file without marking a clean end, so that the log does not hide the
     * damage below */
    assert_int_equal(sqlite3_open(path, &connection), SQLITE_OK);
    assert_int_equal(sqlite3_exec(connection, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(connection);
    sound = read_whole(&fixture, "traind.db", &size);

    write_at(&fixture, "traind.db", 4096 * 2, 4096); /* a page in the middle */
    expect_refusal(&fixture, "traind.db", -ERROR_DAMAGED, ".dump");
    write_at(&fixture, "traind.db", 0, 100); /* the header */
    expect_refusal(&fixture, "traind.db", -ERROR_DAMAGED, ".dump");

    assert_int_equal(file_replace(AT_FDCWD, path, sound, size, 0600, 0, NULL), 0);
    assert_int_equal(sqlite3_open(path, &connection), SQLITE_OK);
    assert_int_equal(sqlite3_exec(connection, "PRAGMA user_version=99", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(connection);
    expect_refusal(&fixture, "traind.db", -ERROR_OTHER_VERSION, "schema 99");

    /* without traind.db, its ids would be used again */
    store_fixture_remove(&fixture, "traind.db");
    expect_refusal(&fixture, "checkpoints.db", -ERROR_DAMAGED, "missing");
    store_fixture_end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_pile_up_share_a_commit),
        cmocka_unit_test(what_nobody_waits_for_joins_the_next_commit),
        cmocka_unit_test(a_failing_request_harms_no_other),
        cmocka_unit_test(a_failing_request_alone),
        cmocka_unit_test(a_query_that_stops_early_hides_nothing_from_the_next),
        cmocka_unit_test(queries_run_beside_others),
        cmocka_unit_test(a_long_query_holds_up_no_other),
        cmocka_unit_test(a_full_disk_is_answered_and_survived),
        cmocka_unit_test(what_was_acknowledged_survives_a_kill),
        cmocka_unit_test(damaged_and_newer_databases_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
