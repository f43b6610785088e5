/* dependency_rows.c: see dependency_rows.h. */
#include "daemon/store/dependency_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sweep_rows.h"

#include <errno.h>

/* As the index job_missed_of_sweep has it. */
#define MISSED "state IN ('failed', 'cancelled')"

/* Some of its jobs may be no rows yet: those are open, unless the sweep was cancelled. Others are
 * rows no more: those count as they ended. */
static int sweep_state(struct store_connection *connection, int64_t first_job,
                       enum dependency_condition condition, enum job_state *state,
                       struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT cancelled IS NOT NULL AND expanded < points,"
        "  removed_failed > 0 OR EXISTS (SELECT 1 FROM job WHERE sweep = ?1 AND"
        "    state = 'failed' AND " MISSED "),"
        "  removed_cancelled > 0 OR EXISTS (SELECT 1 FROM job WHERE sweep = ?1 AND"
        "    state = 'cancelled' AND " MISSED "),"
        "  (cancelled IS NULL AND expanded < points) OR EXISTS (SELECT 1 FROM job WHERE"
        "    id >= first_job AND id < first_job + points AND"
        "    state NOT IN ('done', 'failed', 'cancelled'))"
        " FROM sweep WHERE first_job = ?1",
        error);
    bool failed, cancelled, open;
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, first_job);
    result = store_statement_next(statement, error);
    if (result < 0)
        return result;
    if (result == 0)
        return error_set(error, -ENOENT,
                         "there is no sweep %lld to wait for; a sweep is named by the number of "
                         "its first job",
                         (long long)first_job);
    failed = sqlite3_column_int(statement, 1) != 0;
    cancelled = sqlite3_column_int(statement, 0) || sqlite3_column_int(statement, 2);
    open = sqlite3_column_int(statement, 3) != 0;
    if (open && (condition == DEPENDENCY_END || (!failed && !cancelled)))
        *state = JOB_QUEUED;
    else
        *state = failed ? JOB_FAILED : cancelled ? JOB_CANCELLED : JOB_DONE;
    return 0;
}

static int job_state_find(struct store_connection *connection, int64_t job, enum job_state *state,
                          struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection,
                                              "SELECT state FROM job WHERE id = ?1 UNION ALL "
                                              "SELECT iif(cancelled IS NULL, 'queued', "
                                              "'cancelled') " SWEEP_OF_POINT_TO_COME " LIMIT 1",
                                              error);
    int result, found;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, job);
    result = store_statement_next(statement, error);
    if (result < 0)
        return result;
    if (result == 0)
        return error_set(error, -ENOENT, "there is no job %lld to wait for", (long long)job);
    found = job_state_from_string((const char *)sqlite3_column_text(statement, 0));
    *state = found < 0 ? JOB_QUEUED : (enum job_state)found;
    return 0;
}

int dependency_state(struct store_connection *connection, int64_t on_job,
                     enum dependency_condition condition, enum job_state *state,
                     struct error *error)
{
    return on_job < 0 ? sweep_state(connection, -on_job, condition, state, error)
                      : job_state_find(connection, on_job, state, error);
}

int dependencies_insert(struct store_connection *connection, int64_t job,
                        struct dependencies *dependencies, int64_t *missing, struct error *error)
{
    for (size_t i = 0; i < dependencies->count; i++) {
        struct dependency *dependency = &dependencies->list[i];
        sqlite3_stmt *statement;
        int result = dependency_state(connection, dependency->on_job, dependency->condition,
                                      &dependency->state, error);

        *missing = dependency->on_job;
        if (result < 0)
            return result;
        statement = store_statement(connection,
                                    "INSERT OR REPLACE INTO dependency (job, on_job, condition) "
                                    "VALUES (?, ?, ?)",
                                    error);
        if (!statement)
            return -EIO;
        store_bind_int(statement, 1, job);
        store_bind_int(statement, 2, dependency->on_job);
        store_bind_text(statement, 3, dependency_condition_to_string(dependency->condition));
        result = store_statement_run(statement, error);
        if (result < 0)
            return result;
    }
    return 0;
}

/* Those on sweeps, whose numbers are dependency_on_sweep() so far. */
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
    sqlite3_stmt *statement = store_statement(connection, select_dependencies, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    while ((result = store_statement_next(statement, error)) > 0) {
        struct json_object *dependency = json_object_new_object();

        row_set_int(dependency, "job", statement, 0);
        row_set_text(dependency, "on", statement, 1);
        row_set_text(dependency, "state", statement, 2);
        json_object_array_add(dependencies, dependency);
    }
    return result < 0 ? result : dependencies_name_sweeps(connection, dependencies, error);
}
