/* table_dates.c: see table_dates.h. */
#include "engine/data/table_dates.h"

#include "engine/data/table_columns.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { MINUTES_OF_DAY = 24 * 60, DAYS_TO_2000 = 10957 /* from 1970-01-01 */ };

struct place {
    const char *at, *end;
};

static bool take(struct place *place, char wanted)
{
    bool found = place->at < place->end && *place->at == wanted;

    place->at += found;
    return found;
}

static bool take_text(struct place *place, const char *wanted)
{
    size_t length = strlen(wanted);
    bool found =
        (size_t)(place->end - place->at) >= length && strncasecmp(place->at, wanted, length) == 0;

    place->at += found ? length : 0;
    return found;
}

/* Reads one of the names, or its first three letters and perhaps a dot. Returns its place in the
 * list; -1: it is none. */
static int take_name(struct place *place, const char *const *names, int count)
{
    enum { SHORT = 3 };

    for (int i = 0; i < count; i++) {
        if (take_text(place, names[i]))
            return i;
        if (place->end - place->at >= SHORT && strncasecmp(place->at, names[i], SHORT) == 0 &&
            (place->end - place->at == SHORT || !isalpha((unsigned char)place->at[SHORT]))) {
            place->at += SHORT;
            take(place, '.');
            return i;
        }
    }
    return -1;
}

/* Reads a number of `least` to `most` digits. */
static bool take_digits(struct place *place, int least, int most, int *value)
{
    int count = 0;

    *value = 0;
    while (count < most && place->at < place->end && isdigit((unsigned char)*place->at)) {
        *value = 10 * *value + *place->at++ - '0';
        count++;
    }
    return count >= least;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 2000-01-01 to the first of January. */
static int64_t days_to_year(int year)
{
    int64_t before = year - 1;

    return before * 365 + before / 4 - before / 100 + before / 400 - 719162 - DAYS_TO_2000;
}

/* "2026-11-23" or "2026/11/23" */
static bool take_year_first(struct place *place, int parts[3])
{
    char between;

    if (!take_digits(place, 4, 4, &parts[0]) || place->at == place->end)
        return false;
    between = *place->at;
    return (between == '-' || between == '/') && take(place, between) &&
           take_digits(place, 1, 2, &parts[1]) && take(place, between) &&
           take_digits(place, 1, 2, &parts[2]);
}

/* "23.11.2026", "11/23/2026", or "23/11/2026" */
static bool take_year_last(struct place *place, enum table_date_order order, int parts[3],
                           struct table_date *date)
{
    int first, second;
    char between;

    if (!take_digits(place, 1, 2, &first) || place->at == place->end)
        return false;
    between = *place->at;
    if ((between != '.' && between != '/') || !take(place, between) ||
        !take_digits(place, 1, 2, &second) || !take(place, between) ||
        !take_digits(place, 4, 4, &parts[0]))
        return false;
    date->has_order = between == '/';
    bool month_first = date->has_order && order == TABLE_DATE_MONTH_FIRST;
    parts[1] = month_first ? first : second;
    parts[2] = month_first ? second : first;
    return true;
}

static bool take_month(struct place *place, int *month)
{
    static const char *const names[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

    *month = 1 + take_name(place, names, sizeof names / sizeof *names);
    return *month > 0;
}

/* "1 Jan 2024", "01-Jan-2024", "January 1, 2024" or "2024-Jan-01", perhaps behind "Mon, " */
static bool take_month_name(struct place *place, int parts[3])
{
    static const char *const days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                       "Friday", "Saturday", "Sunday"};
    char between;

    if (take_name(place, days, sizeof days / sizeof *days) >= 0 &&
        ((take(place, ','), false) || !take(place, ' ')))
        return false;
    if (take_month(place, &parts[1]))
        return take(place, ' ') && take_digits(place, 1, 2, &parts[2]) &&
               (take(place, ','), take(place, ' ')) && take_digits(place, 4, 4, &parts[0]);
    if (place->end - place->at > 4 && isdigit((unsigned char)place->at[2]))
        return take_digits(place, 4, 4, &parts[0]) && take(place, '-') &&
               take_month(place, &parts[1]) && take(place, '-') &&
               take_digits(place, 1, 2, &parts[2]);
    if (!take_digits(place, 1, 2, &parts[2]) || place->at == place->end)
        return false;
    take(place, '.');
    between = place->at < place->end ? *place->at : '\0';
    return (between == ' ' || between == '-') && take(place, between) &&
           take_month(place, &parts[1]) && take(place, between) &&
           take_digits(place, 4, 4, &parts[0]);
}

/* Reads "AM" or "PM", and makes the hour one of 24. */
static bool take_half_day(struct place *place, int *hour)
{
    struct place before = *place;
    bool after_noon;

    if (!take(place, ' '))
        take_text(place, "\u202f"); /* a narrow blank, as browsers and Java write it */
    after_noon = take_text(place, "PM") || take_text(place, "p.m.");
    if (!after_noon && !take_text(place, "AM") && !take_text(place, "a.m.")) {
        *place = before;
        return false;
    }
    *hour = *hour >= 1 && *hour <= 12 ? *hour % 12 + 12 * after_noon : MINUTES_OF_DAY;
    return true;
}

/* Reads the time of day behind a date into `minutes`. */
static bool take_time(struct place *place, double *minutes)
{
    int hour, minute = 0, second = 0, zone_hour = 0, zone_minute = 0;
    double fraction = 0, weight = 0.1;

    if (!take_digits(place, 1, 2, &hour))
        return false;
    if (take(place, ':') ? !take_digits(place, 2, 2, &minute) ||
                               (take(place, ':') && !take_digits(place, 2, 2, &second))
                         : !take_half_day(place, &hour))
        return false;
    if (take(place, '.'))
        for (; place->at < place->end && isdigit((unsigned char)*place->at); place->at++) {
            fraction += weight * (*place->at - '0');
            weight /= 10;
        }
    take_half_day(place, &hour);
    take(place, ' ');
    if (place->at < place->end && (*place->at == '+' || *place->at == '-')) {
        int sign = *place->at++ == '-' ? -1 : 1;

        if (!take_digits(place, 2, 2, &zone_hour) || (take(place, ':'), false) ||
            (place->at < place->end && !take_digits(place, 2, 2, &zone_minute)))
            return false;
        zone_hour *= sign;
        zone_minute *= sign;
    } else if (!take_text(place, "Z") && !take_text(place, "UTC")) {
        take_text(place, "GMT");
    }
    *minutes = (hour - zone_hour) * 60 + minute - zone_minute + (second + fraction) / 60;
    return hour < 24 && minute < 60 && second < 61;
}

bool table_date_parse(const char *text, size_t length, enum table_date_order order,
                      struct table_date *date)
{
    table_text_trim(&text, &length);
    struct place place = {text, text + length};
    int parts[3];
    double minutes = 0, days_in_year;

    *date = (struct table_date){0};
    if (!take_year_first(&place, parts)) {
        place.at = text;
        if (!take_year_last(&place, order, parts, date)) {
            place.at = text;
            date->has_order = false;
            if (!take_month_name(&place, parts))
                return false;
        }
    }
    if (parts[0] < 1 || parts[1] < 1 || parts[1] > 12 || parts[2] < 1 ||
        parts[2] > days_of_month(parts[0], parts[1]))
        return false;
    if (place.at < place.end) {
        date->has_time = true;
        if ((!take(&place, 'T') && !((take(&place, ','), true) && take(&place, ' '))) ||
            !take_time(&place, &minutes) || place.at < place.end)
            return false;
    }
    days_in_year = parts[2] - 1 + minutes / MINUTES_OF_DAY;
    for (int month = 1; month < parts[1]; month++)
        days_in_year += days_of_month(parts[0], month);
    date->days = (double)days_to_year(parts[0]) + days_in_year;
    date->year = days_in_year / (is_leap(parts[0]) ? 366 : 365);
    return true;
}

static void circle(double share, float *features)
{
    features[0] = (float)sin(2 * M_PI * share);
    features[1] = (float)cos(2 * M_PI * share);
}

void table_date_features(const struct table_date *date, bool with_time, float *features)
{
    features[0] = (float)date->days;
    circle(date->year, features + 1);
    circle(date->days / 7 - floor(date->days / 7), features + 3);
    if (with_time)
        circle(date->days - floor(date->days), features + 5);
}

const char *table_date_feature_name(int feature)
{
    static const char *const names[TABLE_DATE_TIME_FEATURES] = {
        "days", "year_sin", "year_cos", "week_sin", "week_cos", "day_sin", "day_cos"};

    return names[feature];
}
