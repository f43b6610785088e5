/* start_time.c: see start_time.h. */
#include "client/submission/start_time.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int refuse(const char *text, struct error *error)
{
    return error_set(error, -EINVAL,
                     "\"%.80s\" is no time: write +2h, 03:00, today 18:00, tomorrow 03:00, "
                     "2027-01-01, 2027-01-01T03:00, with seconds or a final UTC if need be, or "
                     "@SECONDS since 1970",
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

/* Reads a date into `parts`. 1: there is one, 0: there is none, -EINVAL: it is malformed. */
static int take_date(const char **text, struct tm *parts)
{
    int year, month, day;

    if (take_word(text, "today"))
        return 1;
    if (take_word(text, "tomorrow")) {
        parts->tm_mday++;
        return 1;
    }
    if (strlen(*text) < 5 || (*text)[4] != '-')
        return 0;
    if (!take_number(text, 4, &year) || !take_character(text, '-') ||
        !take_number(text, 2, &month) || !take_character(text, '-') || !take_number(text, 2, &day))
        return -EINVAL;
    parts->tm_year = year - 1900;
    parts->tm_mon = month - 1;
    parts->tm_mday = day;
    return month >= 1 && month <= 12 && day >= 1 && day <= 31 ? 1 : -EINVAL;
}

/* Reads "03:00" or "03:00:30". Returns as take_date(). */
static int take_clock(const char **text, struct tm *parts)
{
    if (!isdigit((unsigned char)**text))
        return 0;
    if (!take_number(text, 2, &parts->tm_hour) || !take_character(text, ':') ||
        !take_number(text, 2, &parts->tm_min))
        return -EINVAL;
    if (take_character(text, ':') && !take_number(text, 2, &parts->tm_sec))
        return -EINVAL;
    return parts->tm_hour < 24 && parts->tm_min < 60 && parts->tm_sec < 60 ? 1 : -EINVAL;
}

/* Reads a date, a time of day or both. */
static int parse_calendar(const char *text, double now, double *time, struct error *error)
{
    size_t length = strlen(text);
    bool utc = length > 0 && (strcasecmp(text + length - 1, "Z") == 0 ||
                              (length > 3 && strcasecmp(text + length - 3, "UTC") == 0));
    time_t present = (time_t)now;
    struct tm parts, wanted;
    const char *at = text;
    int date, clock;

    if (!(utc ? gmtime_r(&present, &parts) : localtime_r(&present, &parts)))
        return refuse(text, error);
    parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
    date = take_date(&at, &parts);
    if (date < 0 || (date && *at && !strchr(" Tt", *at)))
        return refuse(text, error);
    at += date && *at;
    clock = take_clock(&at, &parts);
    while (*at == ' ')
        at++;
    if (clock < 0 || (!date && !clock) ||
        (*at && strcasecmp(at, "UTC") != 0 && strcasecmp(at, "Z") != 0))
        return refuse(text, error);
    parts.tm_isdst = -1;
    wanted = parts;
    *time = (double)(utc ? timegm(&parts) : mktime(&parts));
    if (strncasecmp(text, "tomorrow", 8) == 0)
        wanted.tm_mday = parts.tm_mday; /* it may be the first of the next month */
    if (parts.tm_mday != wanted.tm_mday || parts.tm_hour != wanted.tm_hour ||
        parts.tm_min != wanted.tm_min)
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
        return error_set(error, -EINVAL,
                         "\"%.80s\" has passed already; for the next day write the day, too, as in "
                         "\"tomorrow 03:00\"",
                         text);
    return result;
}
