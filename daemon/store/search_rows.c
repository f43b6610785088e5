/* search_rows.c: see search_rows.h. */
#include "daemon/store/search_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"
#include "proto/job_spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- results --------------------------------------------------------------------------------- */

static const char select_last[] = "SELECT max(rung), max(step) FROM search_result WHERE job = :job";
static const char select_metrics[] = "SELECT step, epoch, value FROM metric"
                                     " WHERE job = :job AND name = :name AND step >= :step"
                                     " ORDER BY step";
static const char insert_result[] =
    "INSERT OR IGNORE INTO search_result (sweep, job, rung, step, resource, value)"
    " VALUES (:sweep, :job, :rung, :step, :resource, :value)";

static int result_insert(struct store_connection *connection, int64_t sweep, int64_t step,
                         const struct search_row *row, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_result, error);

    statement_bind_int(&statement, ":sweep", sweep);
    statement_bind_int(&statement, ":job", row->job);
    statement_bind_int(&statement, ":rung", row->rung);
    statement_bind_int(&statement, ":step", step);
    statement_bind_double(&statement, ":resource", row->resource);
    statement_bind_double(&statement, ":value", row->value);
    return statement_run(&statement);
}

/* Reads the next rung of the job, and from which step on its metrics count: the last one's may lie
 * behind further rungs. */
static int last_read(struct store_connection *connection, int64_t job, uint32_t *rung,
                     int64_t *step, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_last, error);

    statement_bind_int(&row, ":job", job);
    if (statement_next(&row) <= 0)
        return row.result;
    *rung = statement_is_null(&row, 0) ? 0 : (uint32_t)statement_int(&row, 0) + 1;
    *step = statement_is_null(&row, 1) ? -1 : statement_int(&row, 1);
    return 0;
}

int search_results_add(struct store_connection *connection, const struct search *search,
                       int64_t sweep, int64_t job, unsigned *room,
                       void (*take)(void *data, const struct search_row *row), void *data,
                       struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_metrics, error);
    uint32_t rungs = search_rungs(search), rung = 0;
    int64_t step = -1;
    int result = last_read(connection, job, &rung, &step, error);

    statement_bind_int(&rows, ":job", job);
    statement_bind_text(&rows, ":name", search->metric);
    statement_bind_int(&rows, ":step", step);
    while (result == 0 && rung < rungs && (*room > 0) && statement_next(&rows) > 0) {
        struct search_row row = {
            .job = job,
            .resource = search->by_steps              ? (double)statement_int(&rows, 0)
                        : statement_is_null(&rows, 1) ? NAN
                                                      : statement_double(&rows, 1),
            .value = statement_is_null(&rows, 2) ? NAN : statement_double(&rows, 2),
        };

        /* a measurement may lie behind several rungs */
        while (result == 0 && *room > 0 && rung < rungs &&
               row.resource >= search_rung_at(search, rung)) {
            row.rung = rung++;
            result = result_insert(connection, sweep, statement_int(&rows, 0), &row, error);
            if (result == 0)
                take(data, &row);
            --*room;
        }
    }
    return result < 0 ? result : rows.result < 0 ? rows.result : 0;
}

static const char select_any[] = "SELECT 1 FROM metric WHERE job = :job AND name = :name LIMIT 1";

int search_metric_is_there(struct store_connection *connection, const struct search *search,
                           int64_t job, bool *there, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_any, error);

    statement_bind_int(&row, ":job", job);
    statement_bind_text(&row, ":name", search->metric);
    *there |= statement_next(&row) > 0;
    return row.result < 0 ? row.result : 0;
}

static const char update_settled[] = "UPDATE sweep SET results_due = 0 WHERE first_job = :sweep";

int search_settled_store(struct store_connection *connection, int64_t sweep, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_settled, error);

    statement_bind_int(&statement, ":sweep", sweep);
    return statement_run(&statement);
}

static const char select_settled[] = "SELECT NOT results_due FROM sweep WHERE first_job = :sweep";

int search_settled_read(struct store_connection *connection, int64_t sweep, bool *settled,
                        struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_settled, error);

    statement_bind_int(&row, ":sweep", sweep);
    *settled = statement_next(&row) > 0 && statement_int(&row, 0) != 0;
    return row.result < 0 ? row.result : 0;
}

static const char select_results[] = "SELECT job, rung, resource, value, passed FROM search_result"
                                     " WHERE sweep = :sweep ORDER BY id";

int search_results_read(struct store_connection *connection, int64_t sweep,
                        void (*take)(void *data, const struct search_row *row), void *data,
                        struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_results, error);

    statement_bind_int(&rows, ":sweep", sweep);
    while (statement_next(&rows) > 0) {
        struct search_row row = {
            .job = statement_int(&rows, 0),
            .rung = (uint32_t)statement_int(&rows, 1),
            .resource = statement_double(&rows, 2),
            .value = statement_is_null(&rows, 3) ? NAN : statement_double(&rows, 3),
            .passed = statement_int(&rows, 4) != 0,
        };

        take(data, &row);
    }
    return rows.result;
}

static const char update_passed[] =
    "UPDATE search_result SET passed = 1 WHERE job = :job AND rung = :rung";

int search_passed_store(struct store_connection *connection, int64_t job, uint32_t rung,
                        struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_passed, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":rung", rung);
    return statement_run(&statement);
}

/* ---- trials ---------------------------------------------------------------------------------- */

static const char select_trials[] = "SELECT job.id, job.state, search_trial.chosen,"
                                    " coalesce(search_trial.stopped, 0) FROM job"
                                    " LEFT JOIN search_trial ON search_trial.job = job.id"
                                    " WHERE job.sweep = :sweep ORDER BY job.id";

int search_trials_read(struct store_connection *connection, int64_t sweep,
                       void (*take)(void *data, int64_t job, enum job_state state, bool stopped,
                                    struct json_object *values),
                       void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_trials, error);

    statement_bind_int(&rows, ":sweep", sweep);
    while (statement_next(&rows) > 0)
        take(data, statement_int(&rows, 0),
             (enum job_state)statement_choice(&rows, 1, job_state_from_string, JOB_FAILED),
             statement_int(&rows, 3) != 0, row_read_object(&rows, 2));
    return rows.result;
}

static const char upsert_values[] =
    "INSERT INTO search_trial (job, sweep, chosen) VALUES (:job, :sweep, :chosen)"
    " ON CONFLICT (job) DO UPDATE SET chosen = excluded.chosen";

int search_values_store(struct store_connection *connection, int64_t sweep, int64_t job,
                        const char *values, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, upsert_values, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":sweep", sweep);
    statement_bind_text(&statement, ":chosen", values);
    return statement_run(&statement);
}

static const char upsert_stopped[] =
    "INSERT INTO search_trial (job, sweep, stopped) VALUES (:job, :sweep, 1)"
    " ON CONFLICT (job) DO UPDATE SET stopped = 1";

int search_stopped_store(struct store_connection *connection, int64_t sweep, int64_t job,
                         struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, upsert_stopped, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":sweep", sweep);
    return statement_run(&statement);
}

static const char delete_results[] = "DELETE FROM search_result WHERE sweep = :sweep";
static const char delete_trials[] = "DELETE FROM search_trial WHERE sweep = :sweep";

int search_rows_delete(struct store_connection *connection, int64_t sweep, struct error *error)
{
    AUTO_STATEMENT struct statement results = statement_open(connection, delete_results, error);
    AUTO_STATEMENT struct statement trials = statement_open(connection, delete_trials, error);

    statement_bind_int(&results, ":sweep", sweep);
    statement_bind_int(&trials, ":sweep", sweep);
    return statement_run(&results) < 0 ? results.result : statement_run(&trials);
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Of a search the last value of its metric: a trial that ended between two rungs has one, too. Of
 * other sweeps the value that chose the job's best checkpoint. A trial may come to its end while a
 * traind that has stored its verdict, and not yet ended it, is killed: then it was not stopped. */
static const char select_page[] =
    "SELECT job.id, state, reason, device, chosen,"
    "  coalesce(stopped, 0) AND state NOT IN ('done', 'failed'),"
    "  (SELECT max(rung) FROM search_result WHERE search_result.job = job.id),"
    "  iif(:metric IS NULL, best_metric, :metric), iif(:metric IS NULL, best_step, last.step),"
    "  iif(:metric IS NULL, best_epoch, last.epoch), iif(:metric IS NULL, best_value, last.value),"
    "  " SQL_RAN ", iif(EXISTS (SELECT 1 FROM transition"
    "   WHERE transition.job = job.id AND from_state = to_state), spec, NULL)"
    " FROM job LEFT JOIN search_trial ON search_trial.job = job.id"
    " LEFT JOIN metric AS last ON last.job = job.id AND last.name = :metric AND last.step ="
    "   (SELECT max(step) FROM metric WHERE metric.job = job.id AND metric.name = :metric)"
    " WHERE job.sweep = :sweep AND job.id >= :first ORDER BY job.id";

/* The value of a key such as "data.train.path[0]"; NULL: it is not there. */
static struct json_object *value_at(struct json_object *spec, const char *path)
{
    while (spec && *path) {
        AUTO_FREE char *key = strndup(path, strcspn(path, ".["));

        if (!key)
            return NULL;
        if (*path == '[')
            spec = json_object_is_type(spec, json_type_array)
                       ? json_object_array_get_idx(spec, (size_t)strtoul(path + 1, NULL, 10))
                       : NULL;
        else
            spec = json_get(spec, key);
        path += *path == '[' ? strcspn(path, "]") + 1 : strlen(key);
        path += *path == '.';
    }
    return spec;
}

/* The values of a point, of a job that was edited as its specification has them now. */
static struct json_object *values_now(const struct sweep_points *points, int64_t index,
                                      struct json_object *spec)
{
    JSON_AUTO struct json_object *values = sweep_point_values(points, index);
    JSON_AUTO struct json_object *given = NULL, *normalised = NULL;
    struct json_object *now;
    struct error error;

    if (!spec)
        return TAKE_POINTER(values);
    now = json_object_new_object();
    if (sweep_point_spec(points, index, spec, &given, &error) == 0)
        job_spec_normalise(given, &normalised, NULL, &error);
    json_object_object_foreach (values, path, value) {
        struct json_object *present = value_at(spec, path);
        bool same = json_object_equal(value_at(normalised, path), present);

        json_object_object_add(now, path, json_object_get(same ? value : present));
    }
    return now;
}

static struct json_object *trial_make(const struct statement *row, int64_t sweep,
                                      const struct sweep_points *points)
{
    struct json_object *trial = json_object_new_object(), *chosen = row_read_object(row, 4);
    JSON_AUTO struct json_object *edited = row_read_object(row, 12);
    int64_t index = statement_int(row, 0) - sweep;

    row_set_int(trial, "job", row, 0);
    json_set(trial, "values", chosen ? chosen : values_now(points, index, edited));
    row_set_text(trial, "state", row, 1);
    row_set_text(trial, "reason", row, 2);
    row_set_text(trial, "device", row, 3);
    json_set_bool(trial, "stopped", statement_int(row, 5) != 0);
    row_set_int(trial, "rung", row, 6);
    row_set_text(trial, "metric", row, 7);
    row_set_int(trial, "step", row, 8);
    row_set_double(trial, "epoch", row, 9);
    row_set_double(trial, "value", row, 10);
    row_set_double(trial, "ran", row, 11);
    return trial;
}

int search_trials_list(struct store_connection *connection, int64_t sweep, int64_t first,
                       const struct sweep_points *points,
                       bool (*take)(void *data, struct json_object *trial), void *data,
                       struct error *error)
{
    const struct search *search = sweep_points_search(points);
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_page, error);

    statement_bind_int(&rows, ":sweep", sweep);
    statement_bind_int(&rows, ":first", first);
    statement_bind_text(&rows, ":metric", search ? search->metric : NULL);
    while (statement_next(&rows) > 0)
        if (!take(data, trial_make(&rows, sweep, points)))
            break;
    return rows.result < 0 ? rows.result : 0;
}

/* Trials that failed, or that a person has cancelled, come last. */
#define SELECT_BEST                                                           \
    "SELECT result.job FROM search_result AS result"                          \
    " JOIN job ON job.id = result.job"                                        \
    " LEFT JOIN search_trial ON search_trial.job = result.job"                \
    " WHERE result.sweep = :sweep AND result.value IS NOT NULL"               \
    " ORDER BY job.state = 'failed'"                                          \
    "  OR job.state = 'cancelled' AND NOT coalesce(search_trial.stopped, 0)," \
    " rung DESC, value"
static const char select_lowest[] = SELECT_BEST ", result.id LIMIT 1";
static const char select_highest[] = SELECT_BEST " DESC, result.id LIMIT 1";

int search_best_find(struct store_connection *connection, int64_t sweep,
                     const struct search *search, int64_t *job, struct error *error)
{
    AUTO_STATEMENT struct statement row =
        statement_open(connection, search->falls ? select_lowest : select_highest, error);

    statement_bind_int(&row, ":sweep", sweep);
    *job = statement_next(&row) > 0 ? statement_int(&row, 0) : 0;
    return row.result < 0 ? row.result : 0;
}
