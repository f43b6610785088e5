/* spool_store.c: see spool_store.h. One request is one transaction with the rows of a slice of a
 * batch and the offset behind it. So each record is stored exactly once even if a process is
 * killed. */
#include "daemon/store/spool_store.h"

#include "daemon/store/attempt_rows.h"
#include "daemon/store/event_rows.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/metric_rows.h"
#include "daemon/store/statement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The largest cost of one of a batch's transactions: half of the bulk rows of a transaction
 * (store.c). */
enum { SLICE_COST_MAX = 500 };

bool spool_store_needed(const struct spool_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->records[i].type != SPOOL_PROGRESS)
            return true;
    return batch->skipped > 0;
}

static double number_or_nan(struct json_object *object, const char *key)
{
    return json_get_double(object, key, NAN);
}

/* Stores a row for each value. `replace`: a later value of the same step replaces the earlier
 * one. */
static int metrics_store(struct store_connection *connection, struct spool_store *request,
                         const struct spool_record *record, struct json_object *values,
                         int64_t step, bool replace, struct error *error)
{
    json_object_object_foreach (values, name, value) {
        struct metric_row metric = {.name = name,
                                    .step = step,
                                    .epoch = number_or_nan(record->object, "epoch"),
                                    .time = record->time,
                                    .value = value ? json_object_get_double(value) : NAN};
        int result = metric_store(connection, request->job, &metric, replace, error);

        if (result < 0)
            return result;
        request->measured = true;
    }
    return 0;
}

static int best_store(struct store_connection *connection, struct spool_store *request,
                      struct json_object *best, struct error *error)
{
    struct job_best row = {.metric = json_get_string(best, "metric", ""),
                           .value = number_or_nan(best, "value"),
                           .step = json_get_int(best, "step", 0),
                           .epoch = number_or_nan(best, "epoch")};

    if (!spool_name_fits(row.metric))
        return 0;
    request->job_changed = true;
    return job_best_store(connection, request->job, &row, error);
}

/* Replaces what earlier attempts measured behind the step where this attempt begins. */
static int start_store(struct store_connection *connection, struct spool_store *request,
                       const struct spool_record *record, struct error *error)
{
    int64_t step = json_get_int(record->object, "resumed_from_step", -1);
    int result = event_store(connection, request->job, request->attempt, record->time, "start",
                             record->object, error);

    if (result == 0)
        result = metrics_supersede(connection, request->job, step, error);
    if (result == 0 && step >= 0)
        result = checkpoints_supersede(connection, request, step, error);
    if (result == 0 && step >= 0)
        result = attempt_resumed_store(connection, request->job, request->attempt, step, error);
    return result;
}

static int error_store(struct store_connection *connection, struct spool_store *request,
                       const struct spool_record *record, struct error *error)
{
    int result = event_store(connection, request->job, request->attempt, record->time, "error",
                             record->object, error);

    return result < 0
               ? result
               : attempt_message_store(connection, request->job, request->attempt,
                                       json_get_string(record->object, "message", ""), error);
}

static int result_store(struct store_connection *connection, struct spool_store *request,
                        const struct spool_record *record, struct error *error)
{
    struct json_object *metrics = json_get(record->object, "metrics");
    struct json_object *best = json_get(record->object, "best");
    int result = event_store(connection, request->job, request->attempt, record->time, "result",
                             record->object, error);

    if (result == 0 && metrics)
        result = metrics_store(connection, request, record, metrics,
                               json_get_int(record->object, "steps", 0), false, error);
    if (result == 0 && best && json_get_string(best, "metric", NULL))
        result = best_store(connection, request, best, error);
    return result;
}

static int record_store(struct store_connection *connection, struct spool_store *request,
                        const struct spool_record *record, struct error *error)
{
    switch (record->type) {
    case SPOOL_START:
        return start_store(connection, request, record, error);
    case SPOOL_METRIC:
        return metrics_store(connection, request, record, json_get(record->object, "values"),
                             json_get_int(record->object, "step", 0), true, error);
    case SPOOL_CHECKPOINT:
        return checkpoint_store(connection, request, record, error);
    case SPOOL_BEST:
        return best_store(connection, request, record->object, error);
    case SPOOL_WARNING:
        return event_store(connection, request->job, request->attempt, record->time, "warning",
                           record->object, error);
    case SPOOL_PROFILE:
        return event_store(connection, request->job, request->attempt, record->time, "profile",
                           json_get(record->object, "profile"), error);
    case SPOOL_ERROR:
        return error_store(connection, request, record, error);
    case SPOOL_RESULT:
        return result_store(connection, request, record, error);
    case SPOOL_PROGRESS: /* only kept in memory */
    case SPOOL_PLAN:     /* stored with the job's change of state: jobs/planning.c */
        break;
    }
    return 0;
}

/* Reports skipped lines to the user, who cannot read the daemon's log. */
static int complaint_store(struct store_connection *connection, struct spool_store *request,
                           struct error *error)
{
    char message[sizeof request->batch->complaint + 64];
    struct timespec now;

    if (!request->complains || request->batch->skipped == 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(message, sizeof message, "%lld bad lines of the spool are left out; %s",
             (long long)request->batch->skipped, request->batch->complaint);
    return warning_store(connection, request->job, request->attempt, (double)now.tv_sec, message,
                         error);
}

/* The cost in written rows. Opening a checkpoint's file and copying a large one count, too, as does
 * the search for values behind the step where an attempt starts. */
static unsigned record_cost(const struct spool_record *record)
{
    enum { START_COST = 100, CHECKPOINT_COST = 10, MEBIBYTE_COST = 250 };

    switch (record->type) {
    case SPOOL_START:
        return START_COST;
    case SPOOL_METRIC:
        return (unsigned)json_object_object_length(json_get(record->object, "values"));
    case SPOOL_CHECKPOINT: {
        int64_t mebibytes = json_get_int(record->object, "bytes", 0) >> 20;

        return CHECKPOINT_COST + MEBIBYTE_COST * (unsigned)(mebibytes < 4 ? mebibytes : 4);
    }
    case SPOOL_RESULT:
        return SPOOL_NUMBERS_MAX;
    case SPOOL_PROGRESS:
    case SPOOL_PLAN:
        return 0;
    case SPOOL_BEST:
    case SPOOL_PROFILE:
    case SPOOL_WARNING:
    case SPOOL_ERROR:
        break;
    }
    return 2;
}

/* Chooses the records from `first` on for one transaction, at least one. Returns the index behind
 * the last, and their cost. */
static size_t slice_end(const struct spool_batch *batch, size_t first, unsigned *cost)
{
    size_t end = first;

    for (*cost = 1; end < batch->count; end++) {
        unsigned more = record_cost(&batch->records[end]);

        if (end > first && *cost + more > SLICE_COST_MAX)
            break;
        *cost += more;
    }
    return end;
}

unsigned spool_store_cost(const struct spool_store *request)
{
    unsigned cost;

    slice_end(request->batch, request->next, &cost);
    return cost;
}

static const char upsert_offset[] =
    "INSERT INTO spool_offset (job, attempt, offset, n) VALUES (:job, :attempt, :offset, :n)"
    " ON CONFLICT (job, attempt) DO UPDATE SET offset = excluded.offset, n = excluded.n";

static int offset_store(struct store_connection *connection, const struct spool_store *request,
                        const struct spool_position *position, struct error *error)
{
    if (request->attempt == 0) /* a planning run is repeated, not continued */
        return 0;

    AUTO_STATEMENT struct statement statement = statement_open(connection, upsert_offset, error);
    statement_bind_int(&statement, ":job", request->job);
    statement_bind_int(&statement, ":attempt", request->attempt);
    statement_bind_int(&statement, ":offset", position->offset);
    statement_bind_int(&statement, ":n", position->n);
    return statement_run(&statement);
}

int spool_store_work(struct store_connection *connection, void *data, struct error *error)
{
    struct spool_store *request = data;
    const struct spool_batch *batch = request->batch;
    size_t first = request->next;
    unsigned cost;
    size_t end = slice_end(batch, first, &cost);
    int result = 0;

    while (request->next < end && result == 0) {
        result = record_store(connection, request, &batch->records[request->next], error);
        if (result < 0)
            return result;
        request->next += result == 0;
    }
    request->finished = request->next == batch->count;
    if (request->finished) {
        result = complaint_store(connection, request, error);
        return result < 0 ? result : offset_store(connection, request, &batch->after, error);
    }
    if (request->next == first) /* only a slice of a checkpoint's file was copied */
        return 0;
    return offset_store(connection, request, &batch->records[request->next - 1].after, error);
}

void spool_store_release(struct spool_store *request)
{
    for (size_t i = 0; i < request->obsolete_count; i++)
        free(request->obsolete[i].path);
    free(request->obsolete);
    request->obsolete = NULL;
    request->obsolete_count = 0;
}
