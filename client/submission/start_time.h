/* start_time.h: reads the time at which a job is to start, as people write it. */
#pragma once

#include "base/error.h"

/* Reads "+2h", "03:00", "tomorrow 03:00", "2027-01-01", "2027-01-01T03:00:30", "2027-01-01 03:00
 * UTC" or "@1798772400", a subset of the words of systemd.time(7), in local time. `now` and `*time`
 * are seconds since the epoch. -EINVAL with a sentence: it is none of these, no such time exists,
 * or it has passed. */
int start_time_parse(const char *text, double now, double *time, struct error *error);
