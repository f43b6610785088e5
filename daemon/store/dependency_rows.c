/* dependency_rows.c: see dependency_rows.h. */
#include "daemon/store/dependency_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

#include <errno.h>

/* The same text as in the index job_missed_of_sweep, so that SQLite uses it. */
#define MISSED "state IN ('failed', 'cancelled')"

/* Trials that a search has stopped count as done.
 *
 * Columns: whether the sweep was cancelled with points that have no row; whether a job failed;
 * whether one was cancelled; whether points or jobs are open. */
static const char select_sweep_ends[] =
    "SELECT cancelled IS NOT NULL AND expanded < points,"
    "  removed_failed > 0 OR EXISTS (SELECT 1 FROM job"
    "    WHERE sweep = :sweep AND state = 'failed' AND " MISSED "),"
    "  removed_cancelled > 0 OR EXISTS (SELECT 1 FROM job"
    "    WHERE sweep = :sweep AND state = 'cancelled' AND " MISSED " AND NOT " SQL_STOPPED "),"
    "  (cancelled IS NULL AND expanded < points) OR EXISTS (SELECT 1 FROM job"
    "    WHERE id >= first_job AND id < first_job + points AND " SQL_LIVE ")"
    " FROM sweep WHERE first_job = :sweep";

/* Points that have no row yet are open unless the sweep was cancelled. Jobs that were removed count
 * as they ended. */
static int sweep_state(struct store_connection *connection, int64_t first_job,
                       enum dependency_condition condition, enum job_state *state,
                       struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_sweep_ends, error);
    bool failed, cancelled, open;

    statement_bind_int(&row, ":sweep", first_job);
    if (statement_next(&row) < 0)
        return row.result;
    if (row.result == 0)
        return error_set(error, -ENOENT,
                         "there is no sweep %lld to wait for; a sweep is named by the number of "
                         "its first job",
                         (long long)first_job);
    failed = statement_int(&row, 1) != 0;
    cancelled = statement_int(&row, 0) || statement_int(&row, 2);
    open = statement_int(&row, 3) != 0;
    if (open && (condition == DEPENDENCY_END || (!failed && !cancelled)))
        *state = JOB_QUEUED;
    else
        *state = failed ? JOB_FAILED : cancelled ? JOB_CANCELLED : JOB_DONE;
    return 0;
}

/* clang-format off */
static const char select_state[] =
    "SELECT state FROM job WHERE id = :job"
    " UNION ALL SELECT iif(cancelled IS NULL, 'queued', 'cancelled')" SQL_SWEEP_OF_POINT
    " LIMIT 1";
/* clang-format on */

static int job_state_find(struct store_connection *connection, int64_t job, enum job_state *state,
                          struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_state, job, error);

    if (row.result < 0)
        return row.result;
    if (row.result == 0)
        return error_set(error, -ENOENT, "there is no job %lld to wait for", (long long)job);
    *state = (enum job_state)statement_choice(&row, 0, job_state_from_string, JOB_QUEUED);
    return 0;
}

int dependency_state(struct store_connection *connection, int64_t on_job,
                     enum dependency_condition condition, enum job_state *state,
                     struct error *error)
{
    return on_job < 0 ? sweep_state(connection, -on_job, condition, state, error)
                      : job_state_find(connection, on_job, state, error);
}

static const char replace_dependency[] =
    "INSERT OR REPLACE INTO dependency (job, on_job, condition)"
    " VALUES (:job, :on_job, :condition)";

static int dependency_insert(struct store_connection *connection, int64_t job,
                             const struct dependency *dependency, struct error *error)
{
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, replace_dependency, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":on_job", dependency->on_job);
    statement_bind_text(&statement, ":condition",
                        dependency_condition_to_string(dependency->condition));
    return statement_run(&statement);
}

int dependencies_insert(struct store_connection *connection, int64_t job,
                        struct dependencies *dependencies, int64_t *missing, struct error *error)
{
    for (size_t i = 0; i < dependencies->count; i++) {
        struct dependency *dependency = &dependencies->list[i];
        int result = dependency_state(connection, dependency->on_job, dependency->condition,
                                      &dependency->state, error);

        *missing = dependency->on_job;
        if (result == 0)
            result = dependency_insert(connection, job, dependency, error);
        if (result < 0)
            return result;
    }
    return 0;
}

/* Completes the dependencies on sweeps, whose member `job` is still dependency_on_sweep(). */
static int dependencies_name_sweeps(struct store_connection *connection,
                                    struct json_object *dependencies, struct error *error)
{
    for (size_t i = 0; i < json_object_array_length(dependencies); i++) {
        struct json_object *dependency = json_object_array_get_idx(dependencies, i);
        int64_t on_job = json_get_int(dependency, "job", 0);
        int condition = dependency_condition_from_string(json_get_string(dependency, "on", ""));
        enum job_state state;
        int result;

        if (on_job > 0)
            continue;
        result = dependency_state(connection, on_job, (enum dependency_condition)condition, &state,
                                  error);
        if (result < 0 && result != -ENOENT)
            return result;
        json_set_int(dependency, "job", -on_job);
        json_set_int(dependency, "sweep", -on_job);
        /* dependency_state() has set it: NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
        json_set_string(dependency, "state", result < 0 ? NULL : job_state_to_string(state));
    }
    return 0;
}

static const char select_dependencies[] =
    "SELECT on_job, condition, (SELECT state FROM job WHERE job.id = on_job) FROM dependency"
    " WHERE job = :job ORDER BY on_job";

int dependencies_read_rows(struct store_connection *connection, int64_t job,
                           struct json_object *dependencies, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_dependencies, error);

    statement_bind_int(&rows, ":job", job);
    while (statement_next(&rows) > 0) {
        struct json_object *dependency = json_object_new_object();

        row_set_int(dependency, "job", &rows, 0);
        row_set_text(dependency, "on", &rows, 1);
        row_set_text(dependency, "state", &rows, 2);
        json_object_array_add(dependencies, dependency);
    }
    return rows.result < 0 ? rows.result
                           : dependencies_name_sweeps(connection, dependencies, error);
}

static const char select_live[] =
    "SELECT job.id, on_job, condition, (SELECT state FROM job AS other WHERE other.id = on_job)"
    " FROM job JOIN dependency ON dependency.job = job.id"
    " WHERE job." SQL_LIVE " AND job.state = 'queued' ORDER BY job.id";

int dependencies_live_read(struct store_connection *connection,
                           int (*take)(void *data, int64_t job,
                                       const struct dependency *dependency),
                           void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_live, error);

    while (statement_next(&rows) > 0) {
        struct dependency dependency = {
            .on_job = statement_int(&rows, 1),
            .index = -1,
            .condition = (enum dependency_condition)statement_choice(
                &rows, 2, dependency_condition_from_string, DEPENDENCY_SUCCESS),
            .state = (enum job_state)statement_choice(&rows, 3, job_state_from_string, JOB_QUEUED),
        };

        if (take(data, statement_int(&rows, 0), &dependency) < 0)
            return error_no_memory(error, "what jobs wait for");
    }
    return rows.result;
}

static const char delete_on[] = "DELETE FROM dependency WHERE on_job = :on_job";

int dependencies_on_delete(struct store_connection *connection, int64_t on_job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_on, error);

    statement_bind_int(&statement, ":on_job", on_job);
    return statement_run(&statement);
}
