/* measurements.h: what the devices were measured at, second by second, for curves. It holds the
 * values that were put into it, wherever they come from: those that `top` has seen itself, and
 * older ones that somebody else kept. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    MEASUREMENTS_SLOT_SECONDS = 2, /* values of one slot are averaged */
    MEASUREMENTS_SLOTS = 1800      /* of a device: the last hour */
};

enum measured_value { MEASURED_UTILISATION, MEASURED_MEMORY, MEASURED_VALUES };

struct measurements;

/* NULL: not enough memory. */
struct measurements *measurements_new(void);
void measurements_free(struct measurements *measurements);

/* Puts the measurements of a device, parts from 0 to 1 or NAN where nothing was measured, into all
 * slots from `from` up to `to`, in seconds since the epoch; both may be the same moment. Values may
 * come in any order: what is older than an hour before the newest is left out. */
void measurements_put(struct measurements *measurements, const char *device, double from, double to,
                      const double values[MEASURED_VALUES]);

/* The mean of the slot that lies `slots_ago` slots before the one of `now`; NAN: nothing is
 * known. */
double measurements_get(const struct measurements *measurements, const char *device,
                        enum measured_value value, double now, size_t slots_ago);
