/* sample_rows.c: see sample_rows.h. The key of a bucket begins with its place, so that a
 * transaction writes the same few pages however many series there are. */
#include "daemon/store/sample_rows.h"

#include "daemon/store/statement.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct sample_resolution sample_resolutions[SAMPLE_RESOLUTIONS] = {
    {10, 390}, {60, 1500}, {900, 3072}, {10800, 5850}};

/* Rows hold whole numbers of these parts of a unit, which SQLite stores in few bytes and adds
 * without error: 0.1% of the time, bytes, 0.1 °C, milliwatts, jobs. */
static const double parts_of_unit[SAMPLE_QUANTITIES] = {
    [SAMPLE_UTILISATION] = 1000, [SAMPLE_MEMORY_USED] = 1, [SAMPLE_TEMPERATURE] = 10,
    [SAMPLE_POWER] = 1000,       [SAMPLE_JOBS] = 1,        [SAMPLE_QUEUED] = 1,
    [SAMPLE_RUNNING] = 1};

/* 64 TiB in bytes; the sum over 3 h of ten samples a second stays below 2^63 */
static const double parts_max = 0x1p46;
/* in the year 10889 */
static const double time_max = 0x1p48 / 1000;

static bool sample_is_possible(const struct sample *sample)
{
    return sample->time >= 0 && sample->time < time_max &&
           fabs(sample->value) * parts_of_unit[sample->quantity] <= parts_max;
}

static int64_t number_of(const struct sample *sample, const struct sample_resolution *resolution)
{
    return (int64_t)sample->time / resolution->seconds;
}

/* ---- series ---------------------------------------------------------------------------------- */

/* `seen` decides which device is forgotten; hours are exact enough for that. */
static const char upsert_series[] =
    "INSERT INTO sample_series (device, quantity, seen) VALUES (:device, :quantity, :time)"
    " ON CONFLICT (device, quantity) DO UPDATE SET seen = excluded.seen"
    "  WHERE abs(seen - excluded.seen) > 3600";
static const char select_series[] =
    "SELECT id FROM sample_series WHERE device = :device AND quantity = :quantity";

static int series_find(struct store_connection *connection, const struct sample *sample,
                       int64_t *series, struct error *error)
{
    AUTO_STATEMENT struct statement upsert = statement_open(connection, upsert_series, error);
    AUTO_STATEMENT struct statement row = statement_open(connection, select_series, error);
    const char *quantity = sample_quantity_to_string(sample->quantity);
    int result;

    statement_bind_text(&upsert, ":device", sample->device);
    statement_bind_text(&upsert, ":quantity", quantity);
    statement_bind_double(&upsert, ":time", sample->time);
    result = statement_run(&upsert);
    if (result < 0)
        return result;
    statement_bind_text(&row, ":device", sample->device);
    statement_bind_text(&row, ":quantity", quantity);
    if (statement_next(&row) <= 0)
        return row.result < 0 ? row.result : -EIO;
    *series = statement_int(&row, 0);
    return 0;
}

static const char select_forgotten[] =
    "SELECT device FROM sample_series WHERE device <> '' GROUP BY device"
    " ORDER BY max(seen) DESC, device LIMIT 1 OFFSET :devices";
static const char delete_buckets_of_device[] =
    "DELETE FROM sample_bucket WHERE series IN (SELECT id FROM sample_series WHERE device ="
    " :device)";
static const char delete_series_of_device[] = "DELETE FROM sample_series WHERE device = :device";

static int device_forget(struct store_connection *connection, const char *device,
                         struct error *error)
{
    static const char *const deletions[] = {delete_buckets_of_device, delete_series_of_device};
    int result = 0;

    for (size_t i = 0; i < sizeof deletions / sizeof *deletions && result == 0; i++) {
        AUTO_STATEMENT struct statement statement = statement_open(connection, deletions[i], error);

        statement_bind_text(&statement, ":device", device);
        result = statement_run(&statement);
    }
    return result;
}

/* Removes devices until there are no more than SAMPLE_DEVICES_MAX. */
static int devices_bound(struct store_connection *connection, struct error *error)
{
    char device[256];
    int result = 1;

    while (result > 0) {
        {
            AUTO_STATEMENT struct statement row =
                statement_open(connection, select_forgotten, error);

            statement_bind_int(&row, ":devices", SAMPLE_DEVICES_MAX);
            result = statement_next(&row);
            if (result > 0)
                statement_copy_text(&row, 0, device, sizeof device);
        }
        if (result > 0 && device_forget(connection, device, error) < 0)
            return error->code;
    }
    return result;
}

/* ---- buckets --------------------------------------------------------------------------------- */

static const char delete_earlier_turn[] =
    "DELETE FROM sample_bucket"
    " WHERE resolution = :resolution AND place = :place AND number <> :number";

/* Clears the place of a bucket from rows of its earlier turn, of all series. */
static int place_take(struct store_connection *connection,
                      const struct sample_resolution *resolution, int64_t number,
                      struct error *error)
{
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, delete_earlier_turn, error);

    statement_bind_int(&statement, ":resolution", resolution->seconds);
    statement_bind_int(&statement, ":place", number % resolution->places);
    statement_bind_int(&statement, ":number", number);
    return statement_run(&statement);
}

/* Takes the places of all samples, which are in the order in which they were taken. */
static int places_take(struct store_connection *connection, const struct sample *samples,
                       size_t count, struct error *error)
{
    int result = 0;

    for (size_t r = 0; r < SAMPLE_RESOLUTIONS; r++) {
        int64_t taken = -1;

        for (size_t i = 0; i < count && result == 0; i++) {
            int64_t number;

            if (!sample_is_possible(&samples[i]))
                continue;
            number = number_of(&samples[i], &sample_resolutions[r]);
            if (number != taken)
                result = place_take(connection, &sample_resolutions[r], number, error);
            taken = number;
        }
    }
    return result;
}

/* Where the clock was set back by just the length of the ring, the place has another bucket. */
static const char upsert_bucket[] =
    "INSERT INTO sample_bucket (resolution, place, series, number, samples, total, least, greatest)"
    " VALUES (:resolution, :place, :series, :number, :samples, :total, :least, :greatest)"
    " ON CONFLICT (resolution, place, series) DO UPDATE SET"
    "  samples = samples + excluded.samples, total = total + excluded.total,"
    "  least = min(least, excluded.least), greatest = max(greatest, excluded.greatest)"
    "  WHERE number = excluded.number";

/* A bucket while samples are added, in parts of the unit. */
struct filling {
    int64_t number, samples, total, least, greatest;
};

static int bucket_store(struct store_connection *connection, int64_t series,
                        const struct sample_resolution *resolution, const struct filling *filling,
                        struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, upsert_bucket, error);

    statement_bind_int(&statement, ":resolution", resolution->seconds);
    statement_bind_int(&statement, ":place", filling->number % resolution->places);
    statement_bind_int(&statement, ":series", series);
    statement_bind_int(&statement, ":number", filling->number);
    statement_bind_int(&statement, ":samples", filling->samples);
    statement_bind_int(&statement, ":total", filling->total);
    statement_bind_int(&statement, ":least", filling->least);
    statement_bind_int(&statement, ":greatest", filling->greatest);
    return statement_run(&statement);
}

static void filling_add(struct filling *filling, const struct sample *sample)
{
    int64_t parts = llround(sample->value * parts_of_unit[sample->quantity]);

    if (filling->samples++ == 0)
        filling->least = filling->greatest = parts;
    filling->total += parts;
    filling->least = parts < filling->least ? parts : filling->least;
    filling->greatest = parts > filling->greatest ? parts : filling->greatest;
}

/* Stores samples of one series, in the order of their times, at one resolution. */
static int series_store(struct store_connection *connection, int64_t series,
                        const struct sample_resolution *resolution, const struct sample *samples,
                        size_t count, struct error *error)
{
    struct filling filling = {0};
    int result = 0;

    for (size_t i = 0; i < count && result == 0; i++) {
        int64_t number = number_of(&samples[i], resolution);

        if (filling.samples > 0 && filling.number != number) {
            result = bucket_store(connection, series, resolution, &filling, error);
            filling = (struct filling){0};
        }
        filling.number = number;
        filling_add(&filling, &samples[i]);
    }
    return result < 0 ? result : bucket_store(connection, series, resolution, &filling, error);
}

/* ---- storing --------------------------------------------------------------------------------- */

static int compare_series(const struct sample *a, const struct sample *b)
{
    int order = strcmp(a->device, b->device);

    return order ? order : (a->quantity > b->quantity) - (a->quantity < b->quantity);
}

static int compare_samples(const void *left, const void *right)
{
    const struct sample *a = left, *b = right;
    int order = compare_series(a, b);

    return order ? order : (a->time > b->time) - (a->time < b->time);
}

/* Stores the samples of one series in all resolutions. */
static int run_store(struct store_connection *connection, const struct sample *samples,
                     size_t count, struct error *error)
{
    int64_t series;
    int result = series_find(connection, samples, &series, error);

    for (size_t r = 0; r < SAMPLE_RESOLUTIONS && result == 0; r++)
        result = series_store(connection, series, &sample_resolutions[r], samples, count, error);
    return result;
}

int samples_store(struct store_connection *connection, struct sample *samples, size_t count,
                  struct error *error)
{
    size_t possible = 0;
    int result;

    for (size_t i = 0; i < count; i++)
        if (sample_is_possible(&samples[i]))
            samples[possible++] = samples[i];
    result = places_take(connection, samples, possible, error);
    qsort(samples, possible, sizeof *samples, compare_samples);
    for (size_t begin = 0, end; begin < possible && result == 0; begin = end) {
        for (end = begin + 1; end < possible; end++)
            if (compare_series(&samples[begin], &samples[end]) != 0)
                break;
        result = run_store(connection, samples + begin, end - begin, error);
    }
    return result < 0 ? result : devices_bound(connection, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char select_buckets[] =
    "WITH RECURSIVE wanted (number) AS (SELECT :first UNION ALL"
    "  SELECT number + 1 FROM wanted WHERE number < :last)"
    " SELECT quantity, wanted.number, samples, total, least, greatest"
    " FROM wanted CROSS JOIN sample_series CROSS JOIN sample_bucket"
    "  ON resolution = :resolution AND place = wanted.number % :places"
    "  AND series = sample_series.id AND sample_bucket.number = wanted.number"
    " WHERE device = :device";

int samples_read(struct store_connection *connection, const char *device,
                 const struct sample_span *span,
                 void (*take)(void *data, const struct sample_bucket *bucket), void *data,
                 struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_buckets, error);

    statement_bind_text(&rows, ":device", device);
    statement_bind_int(&rows, ":resolution", span->resolution->seconds);
    statement_bind_int(&rows, ":places", span->resolution->places);
    statement_bind_int(&rows, ":first", span->first);
    statement_bind_int(&rows, ":last", span->last);
    while (statement_next(&rows) > 0) {
        int quantity = statement_choice(&rows, 0, sample_quantity_from_string, -1);
        double parts;

        if (quantity < 0) /* of a later traind that was taken back */
            continue;
        parts = parts_of_unit[quantity];
        take(data, &(struct sample_bucket){.quantity = (enum sample_quantity)quantity,
                                           .number = statement_int(&rows, 1),
                                           .samples = statement_int(&rows, 2),
                                           .total = (double)statement_int(&rows, 3) / parts,
                                           .least = (double)statement_int(&rows, 4) / parts,
                                           .greatest = (double)statement_int(&rows, 5) / parts});
    }
    return rows.result;
}

static const char select_device[] = "SELECT 1 FROM sample_series WHERE device = :device LIMIT 1";

int samples_exist(struct store_connection *connection, const char *device, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_device, error);

    statement_bind_text(&row, ":device", device);
    return statement_next(&row);
}
