/* device_energy.h: the energy that attempts use. A device's meter counts the whole device; it is
 * read once a second while an attempt runs there.
 *
 * Between two readings the energy is spread evenly over the time. At each moment it is shared
 * equally by the attempts on the device at that moment. The energy from the last reading to an
 * attempt's end is estimated from the mean power between the last two readings. An attempt counts
 * from the time when this daemon gave it the device, or found it there after a restart.
 *
 * The processors' meter is divided by processor time instead, because their attempts keep from one
 * core to all of them busy. It is read when an attempt begins and when none of its processes
 * remains. The attempt's part of what the machine used meanwhile is its processor time, which its
 * shim counts, over that of all programs. So it bears its part of what idle cores use, too. An
 * attempt that outlives the daemon has no figure. */
#pragma once

#include <stdbool.h>

struct device_claim;
struct device;

/* The energy of an attempt on one of its devices. */
struct energy_use {
    bool metered;
    double device_joules, joules; /* of the whole device meanwhile; the attempt's part of it */
    double waiting_seconds, waiting_portion; /* since the last reading: the seconds, and the
                                              * attempt's part of them */
    /* of a meter that is divided by processor time: the reading when the attempt began, and how
     * long all programs kept the device busy meanwhile, in seconds of its cores */
    bool divided_by_time;
    double first_joules, first_busy, busy_seconds;
};

/* The meter of a device; all zero: it has none. */
struct energy_meter {
    bool known;
    double joules, read_at; /* the last reading, and when (clock_now()) */
    double marked_at;       /* the time up to which seconds have been divided */
    double watts;           /* mean between the last two readings, or else the power that the device
                             * reported */
};

/* Divides the time so far. Call it before an attempt joins the device. */
void device_energy_mark(struct device *device, double now);
/* Takes a reading of the meter, `joules`. `watts` is the power at this moment; NAN: unknown. */
void device_energy_read(struct device *device, double joules, double watts, double now);
/* Estimates the energy since the last reading. Call it before the attempt leaves its devices. */
void device_claim_settle_energy(struct device_claim *claim, double now);

/* Takes the first, or the last, reading of a meter that is divided by processor time: the joules
 * that the device has used, and the seconds for which its cores were busy. NAN: not known. */
void device_energy_begin(struct energy_use *use, double joules, double busy_seconds);
void device_energy_end(struct energy_use *use, double joules, double busy_seconds);

/* The attempt's part of the energy, or with `whole` all that its devices used meanwhile. NAN if one
 * of its devices has no meter. `cpu_seconds`: the processor time of the attempt; NAN: not known. */
double device_claim_energy(const struct device_claim *claim, bool whole, double cpu_seconds);
