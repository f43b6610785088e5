/* history.h: what the devices were measured at, second by second, for curves. It holds the values
 * that were put into it, wherever they come from: those that `top` has seen itself, and older ones
 * that somebody else kept. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_SLOT_SECONDS = 2, /* values of one slot are averaged */
    HISTORY_SLOTS = 1800      /* of a device: the last hour */
};

enum history_value { HISTORY_UTILISATION, HISTORY_MEMORY, HISTORY_VALUES };

struct history;

/* NULL: not enough memory. */
struct history *history_new(void);
void history_free(struct history *history);

/* Puts the measurements of a device, parts from 0 to 1 or NAN where nothing was measured, into all
 * slots from `from` up to `to`, in seconds since the epoch; both may be the same moment. Values may
 * come in any order: what is older than an hour before the newest is left out. */
void history_put(struct history *history, const char *device, double from, double to,
                 const double values[HISTORY_VALUES]);

/* The mean of the slot that lies `slots_ago` slots before the one of `now`; NAN: nothing is
 * known. */
double history_get(const struct history *history, const char *device, enum history_value value,
                   double now, size_t slots_ago);
