/* history.c: see history.h. Times are those of this machine's clock: minutes, hours or days before
 * now. */
#include "client/view/history.h"

#include "base/clock.h"
#include "base/text.h"
#include "client/view/chart.h"
#include "client/view/line.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12 };

/* The unit of the x axis. */
struct time_unit {
    double seconds, longest; /* `longest`: the span up to which it is used, in seconds */
    const char *title;
};

static const struct time_unit time_units[] = {
    {60, 7200, "minutes"}, {3600, 3 * 86400, "hours"}, {86400, INFINITY, "days"}};

/* When the first bucket of the reply begins; INFINITY: there is none. */
static double first_time(struct json_object *reply)
{
    struct json_object *list = json_get(reply, "series");
    double first = INFINITY;

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *times = json_get(json_object_array_get_idx(list, i), "times");

        if (times && json_object_array_length(times) > 0)
            first = fmin(first, json_object_get_double(json_object_array_get_idx(times, 0)));
    }
    return first;
}

/* ---- curves ---------------------------------------------------------------------------------- */

static struct json_object *series_find(struct json_object *reply, const char *quantity)
{
    struct json_object *list = json_get(reply, "series");
    size_t count = list ? json_object_array_length(list) : 0;

    for (size_t i = 0; i < count; i++) {
        struct json_object *series = json_object_array_get_idx(list, i);

        if (strcmp(json_get_string(series, "quantity", ""), quantity) == 0)
            return series;
    }
    return NULL;
}

/* A number of one of the lists of a series. */
static double number_at(struct json_object *series, const char *list, size_t index)
{
    return json_object_get_double(json_object_array_get_idx(json_get(series, list), index));
}

static size_t series_length(struct json_object *series)
{
    struct json_object *times = json_get(series, "times");

    return times ? json_object_array_length(times) : 0;
}

/* Adds the means of a quantity to the chart, times `factor`. Where buckets are missing the curve
 * has a point that is none, so that it is interrupted. A reply without the quantity gives no curve.
 */
static int curve_add(struct chart *chart, const char *name, struct json_object *reply,
                     const char *quantity, double factor, double unit)
{
    struct json_object *series = series_find(reply, quantity);
    size_t count = series_length(series);
    struct chart_curve *curve = &chart->curves[chart->count];
    double seconds =
        fmax(json_get_double(reply, "seconds", 0), json_get_double(reply, "period", 0));
    double before = INFINITY, now = clock_now();

    if (count == 0)
        return 0;
    chart->count++;
    *curve = (struct chart_curve){.name = name,
                                  .x = calloc(2 * count, sizeof *curve->x),
                                  .y = calloc(2 * count, sizeof *curve->y)};
    if (!curve->x || !curve->y)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        double time = number_at(series, "times", i);

        if (time - before > 2 * seconds)
            curve->y[curve->count++] = NAN;
        curve->x[curve->count] = round((time - now) / unit * 100) / 100;
        curve->y[curve->count++] = factor * number_at(series, "means", i);
        before = time;
    }
    return 0;
}

static void chart_release(struct chart *chart)
{
    for (size_t i = 0; i < chart->count; i++) {
        free(chart->curves[i].x);
        free(chart->curves[i].y);
    }
    free(chart->curves);
}

/* The unit for times since the first bucket, which may be much later than what was asked for. */
static const struct time_unit *time_unit_of(const struct device_history *histories, size_t count)
{
    const struct time_unit *unit = time_units;
    double first = INFINITY, now = clock_now();

    for (size_t i = 0; i < count; i++)
        first = fmin(first, first_time(histories[i].reply));
    while (now - first > unit->longest)
        unit++;
    return unit;
}

/* Makes room for as many curves. */
static int chart_begin(struct chart *chart, size_t curves, const struct time_unit *unit)
{
    *chart = (struct chart){.x_title = unit->title,
                            .curves = calloc(curves + 1, sizeof *chart->curves),
                            .from_zero = true,
                            .rows = ROWS};
    return chart->curves ? 0 : -ENOMEM;
}

static int chart_finish(struct chart *chart, int result, const struct display *display)
{
    if (result == 0 && chart->count > 0 && chart_print(chart, display, stdout) < 0)
        result = -ENOMEM;
    chart_release(chart);
    return result;
}

static bool history_has_samples(struct json_object *reply)
{
    struct json_object *list = json_get(reply, "series");

    return list && json_object_array_length(list) > 0;
}

/* Says why there is nothing to draw. */
static void nothing_print(struct json_object *reply)
{
    puts(json_get_double(reply, "period", 0) > 0
             ? "nothing was sampled in this time"
             : "nothing was sampled in this time: Period of [History] in the configuration is 0");
}

/* ---- the least, the mean and the greatest ---------------------------------------------------- */

struct extremes {
    double least, mean, greatest;
};

static bool extremes_find(struct json_object *reply, const char *quantity,
                          struct extremes *extremes)
{
    struct json_object *series = series_find(reply, quantity);
    double total = 0, samples = 0;

    *extremes = (struct extremes){.least = INFINITY, .greatest = -INFINITY};
    for (size_t i = 0; i < series_length(series); i++) {
        double count = number_at(series, "counts", i);

        extremes->least = fmin(extremes->least, number_at(series, "minima", i));
        extremes->greatest = fmax(extremes->greatest, number_at(series, "maxima", i));
        total += count * number_at(series, "means", i);
        samples += count;
    }
    extremes->mean = total / samples;
    return samples > 0;
}

/* "35% (0% to 100%)": the mean, the least and the greatest. */
static void extremes_print(const struct display *display, const char *label,
                           struct json_object *reply, const char *quantity, double factor,
                           const char *unit, int digits)
{
    struct extremes found;

    if (extremes_find(reply, quantity, &found))
        line_printf(display, label, STYLE_PLAIN, "%.*f%s (%.*f to %.*f%s)", digits,
                    factor * found.mean, unit, digits, factor * found.least, digits,
                    factor * found.greatest, unit);
}

static void memory_print(const struct display *display, struct json_object *reply)
{
    struct extremes found;
    char mean[48], least[48], greatest[48];

    if (extremes_find(reply, "memory_used", &found))
        line_printf(display, "memory", STYLE_PLAIN, "%s (%s to %s)",
                    text_format_bytes((uint64_t)found.mean, mean, sizeof mean),
                    text_format_bytes((uint64_t)found.least, least, sizeof least),
                    text_format_bytes((uint64_t)found.greatest, greatest, sizeof greatest));
}

/* ---- printing -------------------------------------------------------------------------------- */

int histories_print(const struct device_history *histories, size_t count,
                    const struct display *display)
{
    const struct time_unit *unit = time_unit_of(histories, count);
    struct chart chart;
    int result = chart_begin(&chart, count, unit);

    for (size_t i = 0; i < count && result == 0; i++)
        result = curve_add(&chart, histories[i].name, histories[i].reply, "utilisation", 100,
                           unit->seconds);
    if (result == 0 && chart.count > 0)
        puts("busy, %");
    else if (result == 0 && count > 0)
        nothing_print(histories[0].reply);
    return chart_finish(&chart, result, display);
}

int history_print_device(const struct device_history *history, const struct display *display)
{
    struct json_object *reply = history->reply;
    const struct time_unit *unit = time_unit_of(history, 1);
    struct chart chart;
    int result = chart_begin(&chart, 2, unit);

    if (result == 0)
        result = curve_add(&chart, "busy, %", reply, "utilisation", 100, unit->seconds);
    if (result == 0 && history->memory_total > 0)
        result = curve_add(&chart, "memory, %", reply, "memory_used", 100 / history->memory_total,
                           unit->seconds);
    if (result == 0 && !history_has_samples(reply))
        nothing_print(reply);
    result = chart_finish(&chart, result, display);
    if (result < 0)
        return result;
    extremes_print(display, "busy", reply, "utilisation", 100, "%", 0);
    memory_print(display, reply);
    extremes_print(display, "temperature", reply, "temperature", 1, " °C", 0);
    extremes_print(display, "power", reply, "power_watts", 1, " W", 0);
    extremes_print(display, "jobs", reply, "jobs", 1, "", 1);
    return 0;
}

int history_print_queue(struct json_object *reply, const struct display *display)
{
    const struct time_unit *unit = time_unit_of(&(struct device_history){.reply = reply}, 1);
    struct chart chart;
    int result = chart_begin(&chart, 2, unit);

    if (result == 0)
        result = curve_add(&chart, "queued", reply, "queued", 1, unit->seconds);
    if (result == 0)
        result = curve_add(&chart, "running", reply, "running", 1, unit->seconds);
    if (result == 0 && chart.count > 0)
        puts("jobs");
    else if (result == 0)
        nothing_print(reply);
    return chart_finish(&chart, result, display);
}
