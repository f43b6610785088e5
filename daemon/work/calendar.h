/* calendar.h: calendar expressions as systemd.time(7) has them, such as "Mon..Fri 03:00" or
 * "*-*-01 04:30 UTC": when jobs of a schedule begin. Seconds are whole, and a time is local unless
 * "UTC" ends the expression; other time zones are refused. A time that clocks skip does not come,
 * one that they show twice comes once. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { CALENDAR_YEAR_FIRST = 1970, CALENDAR_YEAR_LAST = 2199 };

/* What each field may be: bit i stands for the value i, or first value + i. */
struct calendar {
    uint64_t seconds, minutes, hours;
    uint64_t days;          /* of the month, from 1 */
    uint64_t days_from_end; /* 1: the month's last day; used instead of `days` unless 0 */
    uint64_t months;        /* from 1 */
    uint64_t weekdays;      /* 0: Monday */
    uint64_t years[4];      /* from CALENDAR_YEAR_FIRST */
    bool utc;
};

/* -EINVAL with a sentence that says what is wrong. */
int calendar_parse(const char *text, struct calendar *calendar, struct error *error);

/* The first time that is later than `after`; both in seconds since the epoch. -ENOENT: there is
 * none until the end of CALENDAR_YEAR_LAST. */
int calendar_next(const struct calendar *calendar, int64_t after, int64_t *next);
