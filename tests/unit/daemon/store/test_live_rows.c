/* test_live_rows.c: what a start of the daemon reads of the jobs that have not ended. */
#include "daemon/store/command_history_rows.h"
#include "daemon/store/connection.h"
#include "daemon/store/live_rows.h"
#include "tests/support/store_fixture.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS_MAX = 8 };

/* What was read. */
struct rows {
    struct live_job jobs[ROWS_MAX];
    int64_t history_jobs[ROWS_MAX];
    struct command_history_row histories[ROWS_MAX];
    size_t job_count, history_count;
};

static const char fill_sql[] =
    "INSERT INTO job (id, name, kind, state, uid, user, priority, spec, submitted, attempt,"
    "    plan_digest) VALUES"
    "  (1, 'x', 'command', 'queued', 5, 'u', 0, '{}', 100, 0, 'same'),"
    "  (2, 'x', 'command', 'queued', 5, 'u', 0, '{}', 100, 2, 'other'),"
    "  (3, 'x', 'command', 'running', 5, 'u', 0, '{}', 100, 1, 'same'),"
    "  (4, 'x', 'command', 'done', 5, 'u', 0, '{}', 100, 1, 'ended'),"
    "  (5, 'x', 'command', 'queued', 6, 'v', 0, '{}', 100, 0, 'same');"
    "INSERT INTO transition (job, time, from_state, to_state) VALUES"
    "  (2, 100, NULL, 'queued'), (2, 110, 'queued', 'starting'), (2, 500, 'preempting', 'queued'),"
    "  (2, 510, 'queued', 'starting'), (2, 900, 'preempting', 'queued'),"
    "  (2, 950, 'queued', 'queued');" /* an edit */
    "INSERT INTO command_history (uid, digest, device_type, runs, seconds, squares, cores, memory,"
    "    device_memory, utilisation, held_none) VALUES"
    "  (5, 'same', 'cpu', 2, 1, 0, 1, 10, 0, NULL, 0),"
    "  (5, 'same', 'gpu', 3, 1, 0, 1, 10, 70, NULL, 0),"
    "  (5, 'ended', 'cpu', 4, 1, 0, 1, 10, 0, NULL, 0);";

static int fill(struct store_connection *connection, void *data, struct error *error)
{
    (void)data;
    (void)error;
    assert_int_equal(sqlite3_exec(store_database(connection), fill_sql, NULL, NULL, NULL),
                     SQLITE_OK);
    return 0;
}

static int take_job(void *data, struct live_job *job)
{
    struct rows *rows = data;

    free(job->needs);
    rows->jobs[rows->job_count++] = *job;
    return 0;
}

static int take_history(void *data, int64_t job, const struct command_history_row *row)
{
    struct rows *rows = data;

    rows->history_jobs[rows->history_count] = job;
    rows->histories[rows->history_count++] = *row;
    return 0;
}

static int read_rows(struct store_connection *connection, void *data, struct error *error)
{
    int result = live_jobs_read(connection, "[]", take_job, data, error);

    return result < 0 ? result : command_histories_live_read(connection, take_history, data, error);
}

static struct rows filled_and_read(void)
{
    struct store_fixture fixture;
    struct rows rows = {0};

    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    store_write(fixture.store, fill, NULL, NULL);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    store_read(fixture.store, read_rows, NULL, &rows);
    while (store_pending(fixture.store) > 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    store_fixture_close(&fixture);
    store_fixture_end(&fixture);
    return rows;
}

static void a_job_that_ran_waits_since_it_was_queued_again(void **state)
{
    struct rows rows = filled_and_read();

    (void)state;
    assert_int_equal(rows.job_count, 4);
    assert_true(rows.jobs[0].queued == 100);
    assert_true(rows.jobs[1].queued == 900);
}

static void earlier_runs_come_with_the_first_job_of_the_command(void **state)
{
    struct rows rows = filled_and_read();

    (void)state;
    assert_int_equal(rows.history_count, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rows.history_jobs[i], 1);
    assert_int_equal(rows.histories[0].history.runs + rows.histories[1].history.runs, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_ran_waits_since_it_was_queued_again),
        cmocka_unit_test(earlier_runs_come_with_the_first_job_of_the_command),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
