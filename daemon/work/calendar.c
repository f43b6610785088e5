/* calendar.c: see calendar.h. Each field becomes a set of bits, so the next time is found day by
 * day, and within a day by its fields. */
#include "daemon/work/calendar.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { TEXT_MAX = 256, YEARS = CALENDAR_YEAR_LAST - CALENDAR_YEAR_FIRST + 1 };

/* A field of the expression: its values are from `first` to `last`, bit 0 stands for `base`. */
struct field {
    const char *name;
    int first, last, base;
    bool from_end; /* values count backwards, so a step leads to smaller ones */
};
static const struct field second_field = {.name = "second", .last = 59},
                          minute_field = {.name = "minute", .last = 59},
                          hour_field = {.name = "hour", .last = 23},
                          day_field = {.name = "day", .first = 1, .last = 31},
                          day_from_end_field = {.name = "day",
                                                .first = 1,
                                                .last = 31,
                                                .from_end = true},
                          month_field = {.name = "month", .first = 1, .last = 12},
                          year_field = {.name = "year",
                                        .first = CALENDAR_YEAR_FIRST,
                                        .last = CALENDAR_YEAR_LAST,
                                        .base = CALENDAR_YEAR_FIRST};

static const struct {
    const char *name, *expression;
} shorthands[] = {
    {"minutely", "*-*-* *:*:00"},
    {"hourly", "*-*-* *:00:00"},
    {"daily", "*-*-* 00:00:00"},
    {"weekly", "Mon *-*-* 00:00:00"},
    {"monthly", "*-*-01 00:00:00"},
    {"quarterly", "*-01,04,07,10-01 00:00:00"},
    {"semiannually", "*-01,07-01 00:00:00"},
    {"yearly", "*-01-01 00:00:00"},
    {"annually", "*-01-01 00:00:00"},
};

static const char *const weekday_names[] = {"monday", "tuesday",  "wednesday", "thursday",
                                            "friday", "saturday", "sunday"};

/* ---- parsing --------------------------------------------------------------------------------- */

static void bits_set(uint64_t *bits, int index)
{
    bits[index / 64] |= UINT64_C(1) << (index % 64);
}

static bool bits_have(const uint64_t *bits, int index)
{
    return bits[index / 64] >> (index % 64) & 1;
}

/* Reads up to four digits. */
static int number_read(const char **at, const struct field *field, int *number, struct error *error)
{
    int digits = 0;

    for (*number = 0; isdigit((unsigned char)**at); (*at)++) {
        if (++digits > 4)
            return error_set(error, -EINVAL, "a number of the %s is too long", field->name);
        *number = 10 * *number + **at - '0';
    }
    if (digits == 0)
        return error_set(error, -EINVAL, "a number is missing where the %s is expected",
                         field->name);
    return 0;
}

/* Reads "*", "A" or "A..B", each perhaps with "/STEP", and adds the values to `bits`. */
static int part_read(const char **at, const struct field *field, uint64_t *bits,
                     struct error *error)
{
    int from = field->first, to = field->last, step = 1, result = 0;
    bool open = **at == '*'; /* up to the last value */
    bool counts_down = false;

    if (open)
        (*at)++;
    else
        result = number_read(at, field, &from, error);
    if (result == 0 && !open) {
        to = from;
        if (strncmp(*at, "..", 2) == 0) {
            *at += 2;
            result = number_read(at, field, &to, error);
        } else if (**at == '/' && field->from_end) { /* from that day to the end of the month */
            from = field->first;
            counts_down = true;
        } else if (**at == '/') {
            to = field->last;
        }
    }
    if (result == 0 && **at == '/') {
        (*at)++;
        result = number_read(at, field, &step, error);
    }
    if (result < 0)
        return result;
    if (from < field->first || to > field->last || from > to || step < 1)
        return error_set(error, -EINVAL,
                         "the %s is from %d to %d; ranges ascend, and a step is "
                         "at least 1",
                         field->name, field->first, field->last);
    for (int count = 0; count <= to - from; count += step)
        bits_set(bits, (counts_down ? to - count : from + count) - field->base);
    return 0;
}

/* Reads parts with commas between them. */
static int field_read(const char **at, const struct field *field, uint64_t *bits,
                      struct error *error)
{
    for (;;) {
        int result = part_read(at, field, bits, error);

        if (result < 0 || **at != ',')
            return result;
        (*at)++;
    }
}

/* The weekday that the letters name; -1: none. */
static int weekday_read(const char **at)
{
    size_t length = 0;

    while (isalpha((unsigned char)(*at)[length]))
        length++;
    for (int day = 0; day < 7; day++)
        if ((length == 3 || length == strlen(weekday_names[day])) &&
            strncasecmp(*at, weekday_names[day], length) == 0) {
            *at += length;
            return day;
        }
    return -1;
}

/* Reads "Mon..Fri,Sun". A range may go over the end of the week. */
static int weekdays_read(const char **at, uint64_t *bits, struct error *error)
{
    for (;;) {
        int from = weekday_read(at), to = from;

        if (from >= 0 && strncmp(*at, "..", 2) == 0) {
            *at += 2;
            to = weekday_read(at);
        }
        if (from < 0 || to < 0)
            return error_set(error, -EINVAL,
                             "days of the week are Mon, Tue, Wed, Thu, Fri, Sat, "
                             "Sun, as in Mon..Fri");
        for (int day = from;; day = (day + 1) % 7) {
            bits_set(bits, day);
            if (day == to)
                break;
        }
        if (**at != ',')
            return 0;
        (*at)++;
    }
}

/* Reads "YEAR-MONTH-DAY" or "MONTH-DAY"; "~" before the day counts it from the month's end. */
static int date_read(const char *at, struct calendar *calendar, struct error *error)
{
    bool has_year = false, from_end;
    int dashes = 0, result = 0;

    for (const char *c = at; *c; c++)
        dashes += *c == '-' || *c == '~';
    has_year = dashes == 2;
    if (dashes < 1 || dashes > 2)
        return error_set(error, -EINVAL, "a date is YEAR-MONTH-DAY or MONTH-DAY, with * for any");
    if (has_year) {
        result = field_read(&at, &year_field, calendar->years, error);
        if (result == 0 && *at++ != '-')
            return error_set(error, -EINVAL, "a date is YEAR-MONTH-DAY, with * for any");
    } else {
        memset(calendar->years, 0xff, sizeof calendar->years);
    }
    if (result == 0)
        result = field_read(&at, &month_field, &calendar->months, error);
    from_end = *at == '~';
    if (result == 0 && *at++ != '-' && !from_end)
        return error_set(error, -EINVAL, "a date is YEAR-MONTH-DAY, with * for any");
    if (result == 0)
        result = field_read(&at, from_end ? &day_from_end_field : &day_field,
                            from_end ? &calendar->days_from_end : &calendar->days, error);
    if (result == 0 && *at)
        return error_set(error, -EINVAL, "\"%s\" does not belong to a date", at);
    return result;
}

/* Reads "HOUR:MINUTE" or "HOUR:MINUTE:SECOND". */
static int time_read(const char *at, struct calendar *calendar, struct error *error)
{
    int result = field_read(&at, &hour_field, &calendar->hours, error);

    if (result == 0 && *at++ != ':')
        return error_set(error, -EINVAL, "a time of day is HOUR:MINUTE or HOUR:MINUTE:SECOND");
    if (result == 0)
        result = field_read(&at, &minute_field, &calendar->minutes, error);
    if (result == 0 && *at == ':') {
        at++;
        result = field_read(&at, &second_field, &calendar->seconds, error);
    } else if (result == 0) {
        calendar->seconds = 1;
    }
    if (result == 0 && *at)
        return error_set(error, -EINVAL,
                         "\"%s\" does not belong to a time of day; seconds are "
                         "whole",
                         at);
    return result;
}

static int words_read(char *text, struct calendar *calendar, struct error *error)
{
    bool weekday = false, date = false, time = false;
    char *rest = NULL;
    int result = 0;

    for (char *word = strtok_r(text, " \t", &rest); word && result == 0;
         word = strtok_r(NULL, " \t", &rest)) {
        if (calendar->utc)
            return error_set(error, -EINVAL, "nothing follows UTC");
        if (strcasecmp(word, "UTC") == 0) {
            calendar->utc = true;
        } else if (isalpha((unsigned char)*word) && !weekday && !date && !time) {
            const char *at = word;

            weekday = true;
            result = weekdays_read(&at, &calendar->weekdays, error);
            if (result == 0 && *at)
                result =
                    error_set(error, -EINVAL, "\"%s\" does not belong to days of the week", at);
        } else if (isalpha((unsigned char)*word)) {
            result = error_set(error, -EINVAL,
                               "\"%s\" is no time zone that is known: times are "
                               "local, or UTC",
                               word);
        } else if (strchr(word, ':') && !time) {
            time = true;
            result = time_read(word, calendar, error);
        } else if (!strchr(word, ':') && !date && !time) {
            date = true;
            result = date_read(word, calendar, error);
        } else {
            result = error_set(error, -EINVAL,
                               "\"%s\" comes too late: days of the week, a date "
                               "and a time of day follow each other",
                               word);
        }
    }
    if (result < 0)
        return result;
    if (!weekday && !date && !time)
        return error_set(error, -EINVAL, "it names no time");
    if (!weekday)
        calendar->weekdays = UINT64_MAX;
    if (!date) {
        memset(calendar->years, 0xff, sizeof calendar->years);
        calendar->months = calendar->days = UINT64_MAX;
    }
    if (!time)
        calendar->hours = calendar->minutes = calendar->seconds = 1;
    return 0;
}

int calendar_parse(const char *text, struct calendar *calendar, struct error *error)
{
    char copy[TEXT_MAX];
    size_t length = strlen(text), word = strcspn(text, " ");
    int result;

    *calendar = (struct calendar){.seconds = 0};
    if (length >= sizeof copy)
        return error_set(error, -EINVAL, "a calendar expression has at most %d characters",
                         TEXT_MAX - 1);
    strcpy(copy, text);
    for (size_t i = 0; i < sizeof shorthands / sizeof *shorthands; i++)
        if (word == strlen(shorthands[i].name) && strncasecmp(text, shorthands[i].name, word) == 0)
            snprintf(copy, sizeof copy, "%s%s", shorthands[i].expression, text + word);
    result = words_read(copy, calendar, error);
    return result < 0 ? error_prefix(error,
                                     "\"%.80s\" is no calendar expression such as daily, "
                                     "\"Mon..Fri 03:00\", \"*-*-01 04:30\" or \"*:0/15\"",
                                     text)
                      : 0;
}

/* ---- the next time --------------------------------------------------------------------------- */

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

static bool day_matches(const struct calendar *calendar, int year, int month, int day, int weekday)
{
    int from_end = month_days(year, month) - day + 1;

    return bits_have(calendar->years, year - CALENDAR_YEAR_FIRST) &&
           bits_have(&calendar->months, month) && bits_have(&calendar->weekdays, weekday) &&
           (calendar->days_from_end ? bits_have(&calendar->days_from_end, from_end)
                                    : bits_have(&calendar->days, day));
}

/* The moment of a local or UTC time, of which it is known whether it is daylight saving time; -1:
 * clocks do not show it. */
static int64_t moment_with(const struct calendar *calendar, const struct tm *wanted, int saving)
{
    struct tm parts = *wanted;
    time_t moment;

    parts.tm_isdst = saving;
    moment = calendar->utc ? timegm(&parts) : mktime(&parts);
    return parts.tm_hour == wanted->tm_hour && parts.tm_min == wanted->tm_min &&
                   parts.tm_mday == wanted->tm_mday
               ? (int64_t)moment
               : -1;
}

/* The moment of a local or UTC time, the first one if clocks show it twice; -1: they do not show
 * it. mktime() would choose one of two by what it was asked before. */
static int64_t moment_of(const struct calendar *calendar, const struct tm *wanted)
{
    int64_t saving = moment_with(calendar, wanted, 1), other = moment_with(calendar, wanted, 0);

    return saving < 0 || (other >= 0 && other < saving) ? other : saving;
}

/* Finds the first time of the day `parts` from its time of day on that is later than `after`. */
static bool day_search(const struct calendar *calendar, struct tm *parts, int64_t after,
                       int64_t *next)
{
    for (; parts->tm_hour < 24; parts->tm_hour++, parts->tm_min = parts->tm_sec = 0) {
        if (!bits_have(&calendar->hours, parts->tm_hour))
            continue;
        for (; parts->tm_min < 60; parts->tm_min++, parts->tm_sec = 0) {
            if (!bits_have(&calendar->minutes, parts->tm_min))
                continue;
            for (; parts->tm_sec < 60; parts->tm_sec++) {
                if (!bits_have(&calendar->seconds, parts->tm_sec))
                    continue;
                *next = moment_of(calendar, parts);
                if (*next > after)
                    return true;
                if (*next < 0)
                    break; /* the whole minute is skipped */
            }
        }
    }
    return false;
}

int calendar_next(const struct calendar *calendar, int64_t after, int64_t *next)
{
    time_t begin = (time_t)(after < 0 ? 0 : after);
    struct tm parts;
    int weekday;

    if (!(calendar->utc ? gmtime_r(&begin, &parts) : localtime_r(&begin, &parts)))
        return -ENOENT;
    weekday = (parts.tm_wday + 6) % 7;
    while (parts.tm_year + 1900 <= CALENDAR_YEAR_LAST) {
        int year = parts.tm_year + 1900, month = parts.tm_mon + 1;

        if (year >= CALENDAR_YEAR_FIRST &&
            day_matches(calendar, year, month, parts.tm_mday, weekday) &&
            day_search(calendar, &parts, after, next))
            return 0;
        parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
        weekday = (weekday + 1) % 7;
        if (++parts.tm_mday > month_days(year, month)) {
            parts.tm_mday = 1;
            if (++parts.tm_mon == 12) {
                parts.tm_mon = 0;
                parts.tm_year++;
            }
        }
    }
    return -ENOENT;
}
