/* clock.h: the time of day, and time that passes. */
#pragma once

/* Seconds since the epoch. */
double clock_now(void);

/* Seconds since the machine started, which nobody sets. */
double clock_monotonic(void);
