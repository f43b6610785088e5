/* clock.h: the time of day, a monotonic clock, and the system's other clocks. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Seconds since the epoch. */
double clock_now(void);

/* Seconds since the machine started. Setting the time of day does not change them. */
double clock_monotonic(void);
/* The same clock in whole units, rounded down. */
int64_t clock_monotonic_milliseconds(void);
int64_t clock_monotonic_nanoseconds(void);

/* Seconds of any clock of clock_gettime(), such as the processor time of a thread. */
double clock_seconds(clockid_t clock);
