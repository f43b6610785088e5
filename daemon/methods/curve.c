/* curve.c: Curve. Input: a job, a metric, how many points, a range of steps. Output: the values in
 * buckets of equally many steps, so that a reply has the size of a curve on a screen, however many
 * values there are. A reader thread walks over the rows and keeps the buckets alone. */
#include "base/memory.h"
#include "daemon/methods/methods.h"
#include "daemon/store/metric_rows.h"

#include <math.h>
#include <stdlib.h>

enum { POINTS = 400, POINTS_MAX = 2000 /* a message may have 1 MiB */ };

struct curve_query {
    struct call *call;
    int64_t id, points;
    const char *name;              /* lent by the call */
    struct metric_buckets buckets; /* `points` of them, owned */
    int64_t cursor;
    struct json_object *reply; /* owned */
};

/* The lists of the reply. */
static struct json_object *curve_reply(const struct curve_query *query)
{
    struct json_object *reply = json_object_new_object();
    struct json_object *steps = json_object_new_array(), *times = json_object_new_array();
    struct json_object *epochs = json_object_new_array(), *minima = json_object_new_array();
    struct json_object *maxima = json_object_new_array(), *means = json_object_new_array();
    struct json_object *counts = json_object_new_array();
    bool has_epochs = true;

    for (int64_t i = 0; i < query->points; i++) {
        const struct metric_bucket *bucket = &query->buckets.buckets[i];

        if (bucket->count == 0)
            continue;
        has_epochs = has_epochs && isfinite(bucket->epoch);
        json_object_array_add(steps, json_object_new_int64(bucket->step));
        json_object_array_add(times, json_new_double(bucket->time));
        json_object_array_add(epochs, json_new_double(bucket->epoch));
        json_object_array_add(minima, json_new_double(bucket->minimum));
        json_object_array_add(maxima, json_new_double(bucket->maximum));
        json_object_array_add(means, json_new_double(bucket->mean));
        json_object_array_add(counts, json_object_new_int64(bucket->count));
    }
    if (!has_epochs) {
        json_object_put(epochs);
        epochs = NULL;
    }
    json_set(reply, "steps", steps);
    json_set(reply, "times", times);
    json_set(reply, "epochs", epochs);
    json_set(reply, "minima", minima);
    json_set(reply, "maxima", maxima);
    json_set(reply, "means", means);
    json_set(reply, "counts", counts);
    json_set_int(reply, "rows", query->buckets.rows);
    json_set_int(reply, "nonfinite", query->buckets.nonfinite);
    json_set_int(reply, "next", query->cursor);
    return reply;
}

static int read_buckets(struct curve_query *query, struct store_connection *connection,
                        struct error *error)
{
    struct metric_buckets *buckets = &query->buckets;

    buckets->width =
        ((uint64_t)buckets->last - (uint64_t)buckets->first) / (uint64_t)query->points + 1;
    return metric_buckets_read(connection, query->id, query->name, buckets, error);
}

static int read_curve(struct store_connection *connection, void *data, struct error *error)
{
    struct curve_query *query = data;
    int result = metric_span_read(connection, query->id, query->name, &query->buckets.first,
                                  &query->buckets.last, &query->cursor, error);

    if (result > 0)
        result = read_buckets(query, connection, error);
    if (result == 0)
        query->reply = curve_reply(query);
    return result;
}

static void on_curve(void *data, int result, const struct error *error)
{
    struct curve_query *query = data;

    if (result < 0)
        call_fail_storage(query->call, error);
    else
        call_reply(query->call, query->reply);
    free(query->buckets.buckets);
    free(query);
}

static void handle_curve(struct call *call)
{
    struct curve_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->id = json_get_int(call->parameters, "id", 0);
    query->name = json_get_string(call->parameters, "name", "");
    query->points = json_get_int(call->parameters, "points", POINTS);
    query->buckets.first = json_get_int(call->parameters, "first", INT64_MIN);
    query->buckets.last = json_get_int(call->parameters, "last", INT64_MAX);
    if (query->points < 1)
        query->points = 1;
    if (query->points > POINTS_MAX)
        query->points = POINTS_MAX;
    query->buckets.buckets = calloc((size_t)query->points, sizeof *query->buckets.buckets);
    if (!query->buckets.buckets) {
        free(query);
        call_fail(call, "InternalError", NULL, "no memory left");
        return;
    }
    store_read_beside(call->daemon->store, read_curve, on_curve, query);
}

METHOD(Curve, handle_curve, ACCESS_OWNER, METHOD_LONG);
