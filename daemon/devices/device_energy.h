/* device_energy.h: how much energy the attempts on a device take, by the device's meter, which
 * counts for all of it and is read once a second while one of them is there.
 *
 * Between two readings the energy is divided by the time: at each moment it belongs to the attempts
 * that are on the device then, in equal parts. What an attempt takes from the last reading to its
 * end is estimated with the power between the last two. An attempt counts from when this daemon
 * gave it the device, or found it there again. */
#pragma once

#include <stdbool.h>

struct device_claim;
struct device;

/* An attempt's, of one of its devices. */
struct energy_use {
    bool metered;
    double device_joules, joules; /* of the whole device meanwhile; this attempt's part */
    double waiting_seconds, waiting_portion; /* since the last reading, and its part of them */
};

/* How much energy a device has taken; all zero: it has no meter. */
struct energy_meter {
    bool known;
    double joules, read_at; /* the last reading, and when (clock_now()) */
    double marked_at;       /* up to when time has been divided */
    double watts;           /* mean between the last two readings, else as the device said */
};

/* Before an attempt comes to the device. */
void device_energy_mark(struct device *device, double now);
/* The meter says `joules`; `watts`: the power at this moment, NAN: not known. */
void device_energy_read(struct device *device, double joules, double watts, double now);
/* Before the attempt leaves its devices: what has not been read is estimated. */
void device_claim_settle_energy(struct device_claim *claim, double now);

/* The attempt's part, or with `whole` all that its devices took meanwhile; NAN where one of its
 * devices has no meter. */
double device_claim_energy(const struct device_claim *claim, bool whole);
