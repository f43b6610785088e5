/* sample_rows.h: the rows of tables sample_series and sample_bucket: what was sampled of devices
 * and of the queue, in buckets of several lengths (resolutions).
 *
 * Each resolution is a ring: bucket number n begins n times the resolution's seconds after the
 * epoch, and its place is n modulo the number of places. Whoever takes a place removes all rows of
 * its earlier turn. So the number of rows has a bound that no clock can break: one that was wrong
 * costs the places that it took, and no row is removed for being old. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/sample_types.h"

#include <stddef.h>
#include <stdint.h>

struct sample_resolution {
    int64_t seconds; /* of a bucket */
    int64_t places;  /* buckets of each series; never changed, because rows lie at their places */
};

enum {
    SAMPLE_RESOLUTIONS = 4,
    SAMPLE_DEVICES_MAX = 128 /* beyond it the device that was seen longest ago is forgotten */
};

/* The finest one first. Each covers a little more than an hour, a day, a month, two years. */
extern const struct sample_resolution sample_resolutions[SAMPLE_RESOLUTIONS];

struct sample {
    const char *device; /* its id, or SAMPLE_QUEUE; borrowed */
    enum sample_quantity quantity;
    double time; /* seconds since the epoch */
    double value;
};

/* Adds the samples to their buckets of all resolutions. Sorts them. Those whose time or value is no
 * possible one are passed over. 0 or negative errno. */
int samples_store(struct store_connection *connection, struct sample *samples, size_t count,
                  struct error *error);

/* A range of buckets of one resolution: their numbers, both included. */
struct sample_span {
    const struct sample_resolution *resolution;
    int64_t first, last;
};

struct sample_bucket {
    enum sample_quantity quantity;
    int64_t number, samples;
    double total, least, greatest; /* `total`: the sum of the samples */
};

/* Passes the buckets of a device to `take`, in the order of their numbers. Returns 0, also where
 * there are none, or negative errno. */
int samples_read(struct store_connection *connection, const char *device,
                 const struct sample_span *span,
                 void (*take)(void *data, const struct sample_bucket *bucket), void *data,
                 struct error *error);

/* Whether there are samples of the device: 1, 0 or negative errno. */
int samples_exist(struct store_connection *connection, const char *device, struct error *error);
