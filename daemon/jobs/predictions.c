/* predictions.c: see predictions.h. */
#include "daemon/jobs/predictions.h"

#include "base/hash.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of log(measured / predicted) of models not seen before: tests/bench/prediction found root mean
 * squares of 0.19 to 0.27 (docs/profile.md); a busy machine scatters more. It counts as so many
 * measured steps' own. */
static const double usual_deviation = 0.25, usual_weight = 4;

/* A scale of 1 counts as so many steps that were measured. */
static const double scale_weight = 1;

/* Fewer measured runs of a step say nothing about predictions, and are not stored. */
static const double steps_enough = 10;

/* Before the first measurement: anything. */
static const double unknown_deviation = 1.5;

/* So that nobody crowds out the others. */
enum { ROWS_LOADED_MAX = 50000, ROWS_OF_A_USER_MAX = 5000 };

void predictions_init(struct predictions_table *table, const struct devices *devices,
                      struct store *store)
{
    *table = (struct predictions_table){.devices = devices, .store = store};
}

void predictions_release(struct predictions_table *table)
{
    while (table->first) {
        struct predictions *predictions = table->first;

        table->first = predictions->next;
        free(predictions->table.rows);
        free(predictions);
    }
}

struct predictions *predictions_of_user(struct predictions_table *table, uid_t uid)
{
    struct predictions *predictions = table->first;

    while (predictions && predictions->uid != uid)
        predictions = predictions->next;
    if (predictions || !(predictions = calloc(1, sizeof *predictions)))
        return predictions;
    predictions->owner = table;
    predictions->uid = uid;
    predictions->next = table->first;
    table->first = predictions;
    return predictions;
}

uint64_t prediction_step(const char *digest)
{
    char first[17], *end;
    uint64_t step;

    snprintf(first, sizeof first, "%s", digest);
    step = strtoull(first, &end, 16);
    return *end || strlen(first) < 16 ? hash_text(digest) : step;
}

/* Types are numbered anew with each start; their names stay. */
static int32_t key_of_type(const char *name)
{
    return (int32_t)(hash_text(name) & INT32_MAX);
}

static int32_t prediction_type(const struct predictions *predictions, int type)
{
    return key_of_type(predictions->owner->devices->type_names[type]);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* At most half full. */
static int grow(struct predictions *predictions)
{
    struct predictor grown = {
        .capacity = predictions->table.capacity ? predictions->table.capacity * 2 : 64};

    if (predictions->count * 2 < predictions->table.capacity)
        return 0;
    grown.rows = calloc(grown.capacity, sizeof *grown.rows);
    if (!grown.rows)
        return -ENOMEM;
    for (size_t i = 0; i < predictions->table.capacity; i++) {
        const struct predictor_row *row = &predictions->table.rows[i];

        if (row->used)
            *predictor_find(&grown, row->plan, row->type, true) = *row;
    }
    free(predictions->table.rows);
    predictions->table = grown;
    return 0;
}

static struct predictor_row *row_take(struct predictions *predictions, uint64_t step, int32_t type)
{
    struct predictor_row *row = predictor_find(&predictions->table, step, type, false);

    if (row || grow(predictions) < 0)
        return row;
    row = predictor_find(&predictions->table, step, type, true);
    predictions->count += row != NULL;
    return row;
}

bool predictions_find(const struct predictions *predictions, uint64_t step, int type,
                      struct step_time *time)
{
    struct predictor table = predictions->table;
    const struct predictor_row *row =
        predictor_find(&table, step, prediction_type(predictions, type), false);

    if (row)
        *time = row->time;
    return row;
}

/* ---- how far predictions are off ------------------------------------------------------------- */

static struct prediction_scale *scale_find(const struct predictions *predictions, int32_t type)
{
    for (int i = 0; i < predictions->scale_count; i++)
        if (predictions->scales[i].type == type)
            return (struct prediction_scale *)&predictions->scales[i];
    return NULL;
}

/* Takes in a step that has been measured well enough. */
static void scale_take(struct predictions *predictions, const struct predictor_row *row)
{
    struct prediction_scale *scale = scale_find(predictions, row->type);
    double error = log(row->time.seconds / row->prior);

    if (!(row->prior > 0) || !isfinite(error))
        return;
    if (!scale) {
        if (predictions->scale_count == DEVICE_TYPES_MAX)
            return;
        scale = &predictions->scales[predictions->scale_count++];
        *scale = (struct prediction_scale){.type = row->type};
    }
    scale->count++;
    scale->sum += error;
    scale->squares += error * error;
}

double predictions_scale(const struct predictions *predictions, int type, double *deviation)
{
    const struct prediction_scale *scale =
        scale_find(predictions, prediction_type(predictions, type));
    double mean, scatter;

    *deviation = usual_deviation;
    if (!scale)
        return 1;
    mean = scale->sum / (scale->count + scale_weight);
    scatter = fmax(scale->squares - 2 * mean * scale->sum + mean * mean * scale->count, 0);
    *deviation = sqrt((usual_deviation * usual_deviation * usual_weight + scatter) /
                      (usual_weight + scale->count));
    return exp(mean);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* A row on its way into the database, or out of it. */
struct stored_row {
    uid_t uid;
    char step[17], type[sizeof((struct devices *)0)->type_names[0]];
    struct predictor_row row;
};

static int write_row(struct store_connection *connection, void *data, struct error *error)
{
    const struct stored_row *stored = data;
    sqlite3_stmt *statement = store_statement(
        connection,
        "INSERT INTO step_time (step, type, seconds, deviation, steps, predicted, time, uid)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, unixepoch(), ?7)"
        " ON CONFLICT (uid, step, type) DO UPDATE SET seconds = ?3, deviation = ?4, steps = ?5,"
        " predicted = ?6, time = excluded.time",
        error);

    if (!statement)
        return error->code;
    store_bind_text(statement, 1, stored->step);
    store_bind_text(statement, 2, stored->type);
    store_bind_double(statement, 3, stored->row.time.seconds);
    store_bind_double(statement, 4, stored->row.time.deviation);
    store_bind_double(statement, 5, stored->row.time.steps);
    store_bind_double(statement, 6, stored->row.prior > 0 ? stored->row.prior : NAN);
    store_bind_int(statement, 7, stored->uid);
    return store_statement_run(statement, error);
}

static void on_written(void *data, int result, const struct error *error)
{
    if (result < 0)
        log_warning("a measured step time is not stored: %s", error->text);
    free(data);
}

/* Whenever twice as many steps are measured as the last time: a few writes for each run. */
static void store_row(struct predictions *predictions, struct predictor_row *row, int type)
{
    struct stored_row *stored;

    if (!predictions->owner->store || row->time.steps < 2 * row->stored_steps)
        return;
    stored = malloc(sizeof *stored);
    if (!stored)
        return;
    row->stored_steps = row->time.steps;
    *stored = (struct stored_row){.uid = predictions->uid, .row = *row};
    snprintf(stored->step, sizeof stored->step, "%016" PRIx64, row->plan);
    snprintf(stored->type, sizeof stored->type, "%s",
             predictions->owner->devices->type_names[type]);
    store_write_soon(predictions->owner->store, write_row, on_written, stored);
}

struct load {
    struct predictions_table *table;
    struct stored_row *rows;
    size_t count, capacity;
};

static int load_row(struct load *load, sqlite3_stmt *statement, struct error *error)
{
    struct stored_row *row;

    if (load->count == load->capacity) {
        size_t capacity = load->capacity ? load->capacity * 2 : 64;
        struct stored_row *rows = realloc(load->rows, capacity * sizeof *rows);

        if (!rows)
            return error_set(error, -ENOMEM, "not enough memory to load the step times");
        load->rows = rows;
        load->capacity = capacity;
    }
    row = &load->rows[load->count++];
    *row = (struct stored_row){.uid = (uid_t)sqlite3_column_int64(statement, 6),
                               .row = {.time = {.seconds = sqlite3_column_double(statement, 2),
                                                .deviation = sqlite3_column_double(statement, 3),
                                                .steps = sqlite3_column_double(statement, 4)},
                                       .prior = sqlite3_column_double(statement, 5)}};
    snprintf(row->step, sizeof row->step, "%s", sqlite3_column_text(statement, 0));
    snprintf(row->type, sizeof row->type, "%s", sqlite3_column_text(statement, 1));
    return 0;
}

static int load_work(struct store_connection *connection, void *data, struct error *error)
{
    sqlite3_stmt *statement =
        store_statement(connection,
                        "SELECT step, type, seconds, deviation, steps, predicted, uid FROM"
                        " (SELECT *, row_number() OVER (PARTITION BY uid ORDER BY time DESC) AS"
                        " place FROM step_time) WHERE place <= ?2 ORDER BY time DESC LIMIT ?1",
                        error);
    int result, r = 0;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, ROWS_LOADED_MAX);
    store_bind_int(statement, 2, ROWS_OF_A_USER_MAX);
    while (r == 0 && (result = store_statement_next(statement, error)) > 0)
        r = load_row(data, statement, error);
    return r < 0 ? r : result;
}

static void on_loaded(void *data, int result, const struct error *error)
{
    struct load *load = data;

    if (result < 0)
        log_warning("the measured step times are not known: %s", error->text);
    for (size_t i = 0; i < load->count; i++) {
        const struct stored_row *stored = &load->rows[i];
        struct predictions *predictions = predictions_of_user(load->table, stored->uid);
        struct predictor_row *row =
            predictions
                ? row_take(predictions, prediction_step(stored->step), key_of_type(stored->type))
                : NULL;

        if (!row || row->time.steps > 0 || !(stored->row.time.seconds > 0))
            continue;
        row->time = stored->row.time;
        row->prior = stored->row.prior;
        row->stored_steps = row->time.steps;
        scale_take(predictions, row);
    }
    free(load->rows);
    free(load);
}

void predictions_load(struct predictions_table *table)
{
    struct load *load = calloc(1, sizeof *load);

    if (!load) {
        log_warning("not enough memory to load the step times");
        return;
    }
    load->table = table;
    store_read(table->store, load_work, on_loaded, load);
}

/* ---- measuring ------------------------------------------------------------------------------- */

void predictions_observe(struct predictions *predictions, uint64_t step, int type, double predicted,
                         double seconds, double steps)
{
    struct predictor_row *row;
    bool known;

    if (!(seconds > 0) || !(steps > 0) || !isfinite(seconds) || !isfinite(steps))
        return;
    row = row_take(predictions, step, prediction_type(predictions, type));
    if (!row)
        return;
    known = row->time.steps >= steps_enough;
    if (!(row->time.steps > 0)) {
        row->time = (struct step_time){.seconds = seconds, .deviation = unknown_deviation};
        row->prior = predicted > 0 ? predicted : 0;
    }
    step_time_observe(&row->time, seconds, steps);
    if (row->time.steps < steps_enough)
        return;
    if (!known)
        scale_take(predictions, row);
    store_row(predictions, row, type);
}
