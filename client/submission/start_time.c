/* start_time.c: see start_time.h. */
#include "client/submission/start_time.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int refuse(const char *text, struct error *error)
{
    return error_set(error, -EINVAL,
                     "\"%.80s\" is no time: write +2h, 3:00, today 18:00, tomorrow 3:00, "
                     "Friday 18:00, 2027-01-01, 2027-01-01T03:00, with seconds or a final UTC "
                     "if need be, or @SECONDS since 1970",
                     text);
}

/* Reads exactly `digits` digits and skips them. False: they are not there. */
static bool take_number(const char **text, int digits, int *value)
{
    *value = 0;
    for (int i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)(*text)[i]))
            return false;
        *value = 10 * *value + (*text)[i] - '0';
    }
    *text += digits;
    return true;
}

static bool take_character(const char **text, char wanted)
{
    bool found = **text == wanted;

    *text += found;
    return found;
}

static bool take_word(const char **text, const char *word)
{
    size_t length = strlen(word);

    if (strncasecmp(*text, word, length) != 0 || isalnum((unsigned char)(*text)[length]))
        return false;
    *text += length;
    return true;
}

/* Reads the name of a day or its first three letters. Returns 0 for Sunday to 6, or -1. */
static int take_weekday(const char **text)
{
    static const char *const names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};

    for (int day = 0; day < 7; day++) {
        char shortened[] = {names[day][0], names[day][1], names[day][2], 0};

        if (take_word(text, names[day]) || take_word(text, shortened))
            return day;
    }
    return -1;
}

/* Moves a date, into the next month if need be. The time of day stays. */
static void add_days(struct tm *date, int days)
{
    struct tm moved = {
        .tm_year = date->tm_year, .tm_mon = date->tm_mon, .tm_mday = date->tm_mday + days};

    timegm(&moved);
    date->tm_year = moved.tm_year;
    date->tm_mon = moved.tm_mon;
    date->tm_mday = moved.tm_mday;
}

/* Reads a date into `date`, which holds today's; `weekly`: it is a day of the week.
 * 1: there is a date, 0: there is none, -EINVAL: it is malformed. */
static int take_date(const char **text, struct tm *date, bool *weekly)
{
    int year, month, day, weekday;

    *weekly = false;
    if (take_word(text, "today"))
        return 1;
    if (take_word(text, "tomorrow")) {
        add_days(date, 1);
        return 1;
    }
    weekday = take_weekday(text);
    if (weekday >= 0) {
        add_days(date, (weekday - date->tm_wday + 7) % 7);
        *weekly = true;
        return 1;
    }
    if (strlen(*text) < 5 || (*text)[4] != '-')
        return 0;
    if (!take_number(text, 4, &year) || !take_character(text, '-') ||
        !take_number(text, 2, &month) || !take_character(text, '-') || !take_number(text, 2, &day))
        return -EINVAL;
    date->tm_year = year - 1900;
    date->tm_mon = month - 1;
    date->tm_mday = day;
    return month >= 1 && month <= 12 && day >= 1 && day <= 31 ? 1 : -EINVAL;
}

/* Reads "3:00", "03:00" or "03:00:30". Returns as take_date(). */
static int take_clock(const char **text, struct tm *parts)
{
    if (!isdigit((unsigned char)**text))
        return 0;
    if (!take_number(text, (*text)[1] == ':' ? 1 : 2, &parts->tm_hour) ||
        !take_character(text, ':') || !take_number(text, 2, &parts->tm_min))
        return -EINVAL;
    if (take_character(text, ':') && !take_number(text, 2, &parts->tm_sec))
        return -EINVAL;
    return parts->tm_hour < 24 && parts->tm_min < 60 && parts->tm_sec < 60 ? 1 : -EINVAL;
}

/* The seconds since 1970 of a date and a time of day. False: the calendar has no such time. */
static bool calendar_seconds(const struct tm *wanted, bool utc, double *seconds)
{
    struct tm parts = *wanted;

    parts.tm_isdst = -1;
    *seconds = (double)(utc ? timegm(&parts) : mktime(&parts));
    return parts.tm_mday == wanted->tm_mday && parts.tm_hour == wanted->tm_hour &&
           parts.tm_min == wanted->tm_min;
}

/* Reads a date, a time of day or both. */
static int parse_calendar(const char *text, double now, double *time, struct error *error)
{
    size_t length = strlen(text);
    bool utc = length > 0 && (strcasecmp(text + length - 1, "Z") == 0 ||
                              (length > 3 && strcasecmp(text + length - 3, "UTC") == 0));
    time_t present = (time_t)now;
    struct tm parts;
    const char *at = text;
    int date, clock;
    bool weekly, exists;

    if (!(utc ? gmtime_r(&present, &parts) : localtime_r(&present, &parts)))
        return refuse(text, error);
    parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
    date = take_date(&at, &parts, &weekly);
    if (date < 0 || (date && *at && !strchr(" Tt", *at)))
        return refuse(text, error);
    at += date && *at;
    clock = take_clock(&at, &parts);
    while (*at == ' ')
        at++;
    if (clock < 0 || (!date && !clock) ||
        (*at && strcasecmp(at, "UTC") != 0 && strcasecmp(at, "Z") != 0))
        return refuse(text, error);
    exists = calendar_seconds(&parts, utc, time);
    if (weekly && *time <= now) {
        add_days(&parts, 7);
        exists = calendar_seconds(&parts, utc, time);
    }
    if (!exists)
        return error_set(
            error, -EINVAL,
            "\"%.80s\" does not exist: the month is shorter, or clocks are set forward "
            "over it",
            text);
    return 0;
}

int start_time_parse(const char *text, double now, double *time, struct error *error)
{
    double seconds;
    char *end;
    int result = 0;

    if (*text == '+') {
        result = text_parse_duration(text + 1, &seconds) < 0 || !(seconds >= 0)
                     ? refuse(text, error)
                     : 0;
        *time = now + seconds;
    } else if (*text == '@') {
        *time = strtod(text + 1, &end);
        result = end == text + 1 || *end || !isfinite(*time) ? refuse(text, error) : 0;
    } else {
        result = parse_calendar(text, now, time, error);
    }
    if (result == 0 && *time <= now)
        return error_set(error, -EINVAL, "\"%.80s\" has passed already%s", text,
                         text[strspn(text, "0123456789:")] /* it names a day */
                             ? ""
                             : "; for the next day write the day, too, as in \"tomorrow 03:00\"");
    return result;
}
