/* history.c: History. Input: a device, or none for the queue; a span of time; how many points.
 * Output: for each quantity that was sampled, its buckets of equally many seconds, so that a reply
 * has the size of a curve on a screen, however long the span is. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory.h"
#include "daemon/devices/device.h"
#include "daemon/jobs/samples.h"
#include "daemon/methods/methods.h"
#include "daemon/store/sample_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 400, POINTS_MAX = 1000 /* a message may have 1 MiB */ };
static const double span_default = 3600;

/* Some buckets of the store as one. */
struct point {
    int64_t samples; /* 0: there are none */
    double total, least, greatest;
};

struct history_query {
    struct call *call;
    char device[DEVICE_ID_MAX]; /* its id, as the samples have it */
    bool is_here;               /* such a device is in the table, or it is the queue */
    bool found;                 /* … or was in it once */
    int64_t count;              /* of points */
    struct sample_span span;
    int64_t group;        /* buckets of a point */
    struct point *points; /* `count` for each quantity; owned */
    double to;
    struct json_object *reply; /* owned */
};

/* ---- which buckets --------------------------------------------------------------------------- */

/* How far back the buckets of a resolution reach. */
static double seconds_covered(const struct sample_resolution *resolution)
{
    return (double)(resolution->seconds * (resolution->places - 1));
}

/* The coarsest resolution that still has a bucket for each point, or the finest one that covers the
 * span. Both give the same points, the former by fewer rows. */
static const struct sample_resolution *resolution_choose(double from, double to, double now,
                                                         int64_t count)
{
    const struct sample_resolution *resolution = sample_resolutions;
    const struct sample_resolution *last = sample_resolutions + SAMPLE_RESOLUTIONS - 1;
    double wanted = (to - from) / (double)count;

    while (resolution < last &&
           ((double)resolution[1].seconds <= wanted || from < now - seconds_covered(resolution)))
        resolution++;
    return resolution;
}

/* Groups begin at multiples of their length, so that the points of a chart stay what they are while
 * time goes on. */
static void span_divide(struct history_query *query)
{
    struct sample_span *span = &query->span;
    int64_t buckets = span->last - span->first + 1, begin;

    query->group = (buckets + query->count - 1) / query->count;
    begin = span->first - span->first % query->group;
    if ((span->last - begin) / query->group >= query->count && query->count > 1) {
        query->group = (buckets + query->count - 2) / (query->count - 1);
        begin = span->first - span->first % query->group;
    }
    if ((span->last - begin) / query->group < query->count)
        span->first = begin;
}

static void span_choose(struct history_query *query, double from, double to)
{
    const struct sample_resolution *oldest = &sample_resolutions[SAMPLE_RESOLUTIONS - 1];
    double now = clock_now();
    struct sample_span *span = &query->span;
    bool outside;

    to = fmin(to, now); /* what is later is of a clock that was wrong */
    from = fmax(from, now - seconds_covered(oldest));
    outside = from > to; /* the span lies before the oldest bucket, or in the future */
    from = fmin(from, to);
    query->to = to;
    span->resolution = resolution_choose(from, to, now, query->count);
    span->first = (int64_t)fmax(from, 0) / span->resolution->seconds;
    span->last = (int64_t)fmax(to, 0) / span->resolution->seconds;
    span_divide(query);
    if (outside)
        span->last = span->first - 1;
}

/* ---- the reply ------------------------------------------------------------------------------- */

static void point_take(void *data, const struct sample_bucket *bucket)
{
    struct history_query *query = data;
    int64_t index = (bucket->number - query->span.first) / query->group;
    struct point *point = &query->points[bucket->quantity * query->count + index];

    if (point->samples == 0) {
        point->least = bucket->least;
        point->greatest = bucket->greatest;
    }
    point->samples += bucket->samples;
    point->total += bucket->total;
    point->least = fmin(point->least, bucket->least);
    point->greatest = fmax(point->greatest, bucket->greatest);
}

/* The buckets of one quantity; NULL: there are none. */
static struct json_object *series_json(const struct history_query *query,
                                       enum sample_quantity quantity)
{
    const struct point *points = query->points + quantity * query->count;
    struct json_object *series = json_object_new_object();
    struct json_object *times = json_object_new_array(), *counts = json_object_new_array();
    struct json_object *minima = json_object_new_array(), *maxima = json_object_new_array();
    struct json_object *means = json_object_new_array();

    json_set_string(series, "quantity", sample_quantity_to_string(quantity));
    json_set(series, "times", times);
    json_set(series, "minima", minima);
    json_set(series, "maxima", maxima);
    json_set(series, "means", means);
    json_set(series, "counts", counts);
    for (int64_t i = 0; i < query->count; i++) {
        int64_t number = query->span.first + i * query->group;

        if (points[i].samples == 0)
            continue;
        json_object_array_add(times,
                              json_object_new_int64(number * query->span.resolution->seconds));
        json_object_array_add(minima, json_new_double(points[i].least));
        json_object_array_add(maxima, json_new_double(points[i].greatest));
        json_object_array_add(means, json_new_double(points[i].total / (double)points[i].samples));
        json_object_array_add(counts, json_object_new_int64(points[i].samples));
    }
    if (json_object_array_length(times) > 0)
        return series;
    json_object_put(series);
    return NULL;
}

static struct json_object *history_reply(const struct history_query *query)
{
    struct json_object *reply = json_object_new_object(), *list = json_object_new_array();
    int64_t seconds = query->span.resolution->seconds;

    json_set_double(reply, "from", (double)(query->span.first * seconds));
    json_set_double(reply, "to", query->to);
    json_set_int(reply, "seconds", seconds * query->group);
    json_set_double(reply, "period", samples_period(query->call->daemon));
    for (int quantity = 0; quantity < SAMPLE_QUANTITIES; quantity++) {
        struct json_object *series = series_json(query, (enum sample_quantity)quantity);

        if (series)
            json_object_array_add(list, series);
    }
    json_set(reply, "series", list);
    return reply;
}

/* ---- the call -------------------------------------------------------------------------------- */

static int read_history(struct store_connection *connection, void *data, struct error *error)
{
    struct history_query *query = data;
    int result = query->is_here ? 1 : samples_exist(connection, query->device, error);

    query->found = result > 0;
    if (result <= 0)
        return result;
    if (query->span.first <= query->span.last)
        result = samples_read(connection, query->device, &query->span, point_take, query, error);
    if (result >= 0)
        query->reply = history_reply(query);
    return result < 0 ? result : 0;
}

static void on_history(void *data, int result, const struct error *error)
{
    struct history_query *query = data;
    struct call *call = query->call;

    if (result < 0) {
        call_fail_storage(call, error);
    } else if (!query->found) {
        struct json_object *parameters = json_object_new_object();

        json_set_string(parameters, "device", json_get_string(call->parameters, "device", ""));
        call_fail(call, "NoSuchDevice", parameters,
                  "there is no device \"%s\", and no history of such an id",
                  json_get_string(call->parameters, "device", ""));
    } else {
        call_reply(call, TAKE_POINTER(query->reply));
    }
    json_object_put(query->reply);
    free(query->points);
    free(query);
}

static void on_stored(void *data)
{
    struct history_query *query = data;

    store_read(query->call->daemon->store, read_history, on_history, query);
}

/* Whose samples are asked for. A text that is too long to be an id is none of a device. */
static void device_find(struct history_query *query, const char *name)
{
    const struct device *device = name ? devices_find(query->call->daemon->devices, name) : NULL;

    query->is_here = !name || device;
    snprintf(query->device, sizeof query->device, "%s",
             !name                                          ? SAMPLE_QUEUE
             : device                                       ? device->id
             : strlen(name) < sizeof query->device && *name ? name
                                                            : "no device");
}

static void handle_history(struct call *call)
{
    double to = json_get_double(call->parameters, "to", clock_now());
    double from = json_get_double(call->parameters, "from", fmin(to, clock_now()) - span_default);
    struct history_query *query;

    if (from > to) {
        call_fail(call, "InvalidSpan", NULL, "the span begins (from: %.15g) after its end (%.15g)",
                  from, to);
        return;
    }
    query = memory_zero(sizeof *query);
    query->call = call;
    query->count = json_get_int(call->parameters, "points", POINTS);
    query->count = query->count < 1 ? 1 : query->count > POINTS_MAX ? POINTS_MAX : query->count;
    query->points = calloc((size_t)query->count * SAMPLE_QUANTITIES, sizeof *query->points);
    if (!query->points) {
        free(query);
        call_fail(call, "InternalError", NULL, "no memory left");
        return;
    }
    device_find(query, json_get_string(call->parameters, "device", NULL));
    span_choose(query, from, to);
    samples_flush(call->daemon, on_stored, query);
}

/* Strangers see how much devices are used, and how many jobs wait and run. */
METHOD(History, handle_history, ACCESS_ANYBODY, METHOD_LONG);
