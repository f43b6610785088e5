/* clock.h: the time of day, and a monotonic clock. */
#pragma once

/* Seconds since the epoch. */
double clock_now(void);

/* Seconds since the machine started. Setting the time of day does not change them. */
double clock_monotonic(void);
