/* predictions.c: see predictions.h. */
#include "daemon/jobs/predictions.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/store/step_time_rows.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The standard deviation of log(measured / predicted) for models not seen before.
 * tests/bench/prediction found root mean squares of 0.19 to 0.27 (docs/profile.md); on a busy
 * machine they are larger. This prior has the weight of `usual_weight` measured steps. */
static const double usual_deviation = 0.25, usual_weight = 4;

/* The prior factor 1 has the weight of this many measured steps. */
static const double scale_weight = 1;

/* A step that was measured fewer times neither corrects predictions nor is stored. */
static const double steps_enough = 10;

/* The deviation before the first measurement, which is very large. */
static const double unknown_deviation = 1.5;

/* The second limit keeps one user's rows from displacing those of others. */
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
    if (predictions)
        return predictions;
    predictions = memory_zero(sizeof *predictions);
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

/* A key from the type's name, because each start numbers the types anew. */
static int32_t key_of_type(const char *name)
{
    return (int32_t)(hash_text(name) & INT32_MAX);
}

static int32_t prediction_type(const struct predictions *predictions, int type)
{
    return key_of_type(predictions->owner->devices->type_names[type]);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Doubles the table, which is kept at most half full. */
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

/* Takes in a step that has been measured often enough. */
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

static int write_row(struct store_connection *connection, void *data, struct error *error)
{
    return step_time_store(connection, data, error);
}

static void on_written(void *data, int result, const struct error *error)
{
    if (result < 0)
        log_warning("a measured step time could not be stored: %s", error->text);
    free(data);
}

/* Stores the row whenever twice as many steps are measured as at the last time, so a run costs a
 * few writes. */
static void store_row(struct predictions *predictions, struct predictor_row *row, int type)
{
    struct step_time_row *stored;

    if (!predictions->owner->store || row->time.steps < 2 * row->stored_steps)
        return;
    stored = malloc(sizeof *stored);
    if (!stored)
        return;
    row->stored_steps = row->time.steps;
    *stored = (struct step_time_row){.uid = predictions->uid,
                                     .seconds = row->time.seconds,
                                     .deviation = row->time.deviation,
                                     .steps = row->time.steps,
                                     .predicted = row->prior};
    snprintf(stored->step, sizeof stored->step, "%016" PRIx64, row->plan);
    snprintf(stored->type, sizeof stored->type, "%s",
             predictions->owner->devices->type_names[type]);
    store_write_soon(predictions->owner->store, write_row, on_written, stored);
}

struct load {
    struct predictions_table *table;
    struct step_time_row *rows;
    size_t count, capacity;
};

static int load_row(void *data, const struct step_time_row *row)
{
    struct load *load = data;

    if (load->count == load->capacity) {
        size_t capacity = load->capacity ? load->capacity * 2 : 64;
        struct step_time_row *rows = realloc(load->rows, capacity * sizeof *rows);

        if (!rows)
            return -ENOMEM;
        load->rows = rows;
        load->capacity = capacity;
    }
    load->rows[load->count++] = *row;
    return 0;
}

static int load_work(struct store_connection *connection, void *data, struct error *error)
{
    return step_times_read(connection, ROWS_LOADED_MAX, ROWS_OF_A_USER_MAX, load_row, data, error);
}

static void on_loaded(void *data, int result, const struct error *error)
{
    struct load *load = data;

    if (result < 0)
        log_warning("the stored step times cannot be read: %s", error->text);
    for (size_t i = 0; i < load->count; i++) {
        const struct step_time_row *stored = &load->rows[i];
        struct predictions *predictions = predictions_of_user(load->table, stored->uid);
        struct predictor_row *row =
            row_take(predictions, prediction_step(stored->step), key_of_type(stored->type));

        if (!row || row->time.steps > 0 || !(stored->seconds > 0))
            continue;
        row->time = (struct step_time){
            .seconds = stored->seconds, .deviation = stored->deviation, .steps = stored->steps};
        row->prior = stored->predicted;
        row->stored_steps = row->time.steps;
        scale_take(predictions, row);
    }
    free(load->rows);
    free(load);
}

void predictions_load(struct predictions_table *table)
{
    struct load *load = memory_zero(sizeof *load);

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
