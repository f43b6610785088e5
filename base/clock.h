/* clock.h: the time of day. */
#pragma once

/* Seconds since the epoch. */
double clock_now(void);
