/* table_dates.h: dates of tables as people write them, and what a model is given of them. Internal
 * to the folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether the first number of 03/04/2026 is the month or the day. */
enum table_date_order { TABLE_DATE_MONTH_FIRST, TABLE_DATE_DAY_FIRST };

struct table_date {
    double days;    /* since 2000-01-01 00:00, with the time of day; UTC if a zone was given */
    double year;    /* share of the year that has passed, in [0, 1) */
    bool has_time;  /* a time of day was given */
    bool has_order; /* it reads 3/4/2026, so that the order decides */
};

/* Reads "2026-11-23", "2026/11/23", "23.11.2026", "11/23/2026", "23 Nov 2026", "23-Nov-2026" or
 * "November 23, 2026", then perhaps "T" or a blank with "14:05", "14:05:30", "14:05:30.5" or "2:05
 * PM", then perhaps "Z", "UTC", "GMT" or "+01:00". Names are English ones. False: it is no date, or
 * one that the calendar does not have. */
bool table_date_parse(const char *text, size_t length, enum table_date_order order,
                      struct table_date *date);

/* The features of a date: days since 2000, then sine and cosine of the year and of the week, and of
 * the day for dates with a time. So close moments have close features, also around New Year. */
enum { TABLE_DATE_FEATURES = 5, TABLE_DATE_TIME_FEATURES = 7 };
void table_date_features(const struct table_date *date, bool with_time, float *features);
/* The name of the feature: "days", "year_sin", … */
const char *table_date_feature_name(int feature);
