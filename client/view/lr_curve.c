/* lr_curve.c: see lr_curve.h. */
#include "client/view/lr_curve.h"

#include "client/view/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double smoothing = 0.98, divergence = 4;
enum { SKIPPED_FIRST = 10, SKIPPED_LAST = 5, ROWS_SHOWN = 20 };

static struct json_object *point_at(struct json_object *points, size_t i)
{
    return json_object_array_get_idx(points, i);
}

/* ---- points ---- */

/* The rows of a step follow each other. */
static struct json_object *points_new(struct json_object *rows)
{
    struct json_object *points = json_object_new_array(), *point = NULL;

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        int64_t step = json_get_int(row, "step", 0);
        bool is_loss = strcmp(json_get_string(row, "name", ""), "step_loss") == 0;

        if (!point || json_get_int(point, "step", -1) != step) {
            point = json_object_new_object();
            json_set_int(point, "step", step);
            json_object_array_add(points, point);
        }
        json_set_double(point, is_loss ? "loss" : "learning_rate",
                        json_get_double(row, "value", NAN));
    }
    return points;
}

static bool is_whole(struct json_object *point)
{
    return json_get_double(point, "learning_rate", 0) > 0 && json_get(point, "loss");
}

/* Smooths the losses, and returns the points before the divergence. */
static struct json_object *points_smooth(struct json_object *points, bool *diverged)
{
    struct json_object *kept = json_object_new_array();
    double average = 0, weight = 1, least = INFINITY;

    *diverged = false;
    for (size_t i = 0; i < json_object_array_length(points) && !*diverged; i++) {
        struct json_object *point = point_at(points, i);
        double smoothed;

        if (!is_whole(point)) /* the last step of an epoch, which has another row */
            continue;
        average = smoothing * average + (1 - smoothing) * json_get_double(point, "loss", NAN);
        weight *= smoothing;
        smoothed = average / (1 - weight);
        *diverged = !(smoothed <= divergence * fmin(least, smoothed) || least == INFINITY) ||
                    !isfinite(smoothed);
        if (*diverged)
            break;
        least = fmin(least, smoothed);
        json_set_double(point, "smoothed", smoothed);
        json_object_array_add(kept, json_object_get(point));
    }
    return kept;
}

/* The slope between the neighbours of a point. */
static double slope_at(struct json_object *points, size_t i)
{
    struct json_object *before = point_at(points, i - 1), *after = point_at(points, i + 1);

    return (json_get_double(after, "smoothed", NAN) - json_get_double(before, "smoothed", NAN)) /
           log(json_get_double(after, "learning_rate", 1) /
               json_get_double(before, "learning_rate", 1));
}

/* The learning rate of the steepest fall; NAN: there are too few points, or none falls. */
static double suggestion_find(struct json_object *points)
{
    size_t count = json_object_array_length(points);
    double steepest = 0, rate = NAN;

    for (size_t i = SKIPPED_FIRST; i + SKIPPED_LAST + 1 < count; i++)
        if (slope_at(points, i) < steepest) {
            steepest = slope_at(points, i);
            rate = json_get_double(point_at(points, i), "learning_rate", NAN);
        }
    return rate;
}

struct json_object *lr_curve_new(struct json_object *rows)
{
    struct json_object *curve = json_object_new_object(), *points = points_new(rows);
    bool diverged;
    struct json_object *kept = points_smooth(points, &diverged);
    double suggestion = suggestion_find(kept);

    json_object_put(points);
    json_set(curve, "points", kept);
    json_set_bool(curve, "diverged", diverged);
    if (isnan(suggestion))
        json_object_object_add(curve, "suggestion", NULL);
    else
        json_set_double(curve, "suggestion", suggestion);
    return curve;
}

/* ---- printing ---- */

static void add_number(struct table *table, double number, bool is_loss)
{
    char text[32];

    if (is_loss)
        display_format_value(number, text, sizeof text);
    else
        snprintf(text, sizeof text, "%.3g", number);
    table_add(table, text, STYLE_PLAIN);
}

void lr_curve_print(struct json_object *curve, const struct display *display)
{
    static const struct table_column columns[] = {
        {"STEP", true, 0}, {"LEARNING RATE", true, 0}, {"LOSS", true, 0}, {"SMOOTHED", true, 0}};
    struct json_object *points = json_get(curve, "points");
    size_t count = json_object_array_length(points), every = count / ROWS_SHOWN + 1;
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; table && i < count; i += every) {
        struct json_object *point = point_at(points, i);

        table_add_integer(table, json_get_int(point, "step", 0));
        add_number(table, json_get_double(point, "learning_rate", NAN), false);
        add_number(table, json_get_double(point, "loss", NAN), true);
        add_number(table, json_get_double(point, "smoothed", NAN), true);
    }
    if (table)
        table_print(table, display, stdout);
    table_free(table);
    if (json_get_bool(curve, "diverged", false))
        printf("the loss diverges behind step %" PRId64 "\n",
               json_get_int(point_at(points, count - 1), "step", 0));
    if (json_get(curve, "suggestion"))
        printf("suggestion: train.optimizer.lr %.2g, where the loss falls most steeply\n",
               json_get_double(curve, "suggestion", NAN));
    else
        printf("no suggestion: the loss falls nowhere, or there are too few steps; try --steps, "
               "--from and --to\n");
}
