/* figure_svg.c: see figure_svg.h. A curve is a line through the means of its buckets, in a band
 * from the least to the greatest value of each. */
#include "client/reports/figure_svg.h"

#include "client/reports/markup.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    WIDTH = 760,
    HEIGHT = 280, /* without the legend */
    LEFT = 64,
    RIGHT = 12,
    TOP = 28,
    BOTTOM = 38,
    LEGEND_LINE = 16,
    COLOURS = 8,
    TICKS = 5
};

/* Paul Tol's "bright" scheme (SRON/EPS/TN/09-002, issue 3.2), which people who do not see all
 * colours tell apart, and lighter ones for a dark page */
const char figure_style[] =
    ".figure{--axis:#555;--grid:#ddd;--text:#222;--c0:#4477aa;--c1:#ee6677;--c2:#228833;"
    "--c3:#aa7700;--c4:#2299bb;--c5:#aa3377;--c6:#777777;--c7:#000000}\n"
    "@media (prefers-color-scheme:dark){.figure{--axis:#aaa;--grid:#3a3a3a;--text:#ddd;"
    "--c0:#77aadd;--c1:#ff99aa;--c2:#66cc77;--c3:#ddcc66;--c4:#88ddff;--c5:#dd88bb;--c6:#bbbbbb;"
    "--c7:#ffffff}}\n"
    "@media print{.figure{--axis:#555;--grid:#ddd;--text:#222;--c0:#4477aa;--c1:#ee6677;"
    "--c2:#228833;--c3:#aa7700;--c4:#2299bb;--c5:#aa3377;--c6:#777777;--c7:#000000}}\n"
    ".figure text{fill:var(--text);font:12px sans-serif}.figure .title{font-weight:bold}\n"
    ".figure .axis{stroke:var(--axis);fill:none}.figure .grid{stroke:var(--grid);fill:none}\n"
    ".figure .line{fill:none;stroke-width:1.5;stroke-linejoin:round}\n"
    ".figure .band{stroke:none;fill-opacity:.18}\n";

struct range {
    double least, greatest;
};

/* Where values lie in the figure. */
struct plane {
    struct range x, y;
};

static double list_get(struct json_object *curve, const char *list, size_t index)
{
    struct json_object *value = json_object_array_get_idx(json_get(curve, list), index);

    return value ? json_object_get_double(value) : NAN;
}

static size_t list_length(struct json_object *curve)
{
    struct json_object *steps = json_get(curve, "steps");

    return steps ? json_object_array_length(steps) : 0;
}

static void range_include(struct range *range, double value)
{
    if (!isfinite(value))
        return;
    /* no number beyond half of the largest one, so that differences are finite */
    value = fmax(-DBL_MAX / 2, fmin(DBL_MAX / 2, value));
    range->least = fmin(range->least, value);
    range->greatest = fmax(range->greatest, value);
}

static void range_finish(struct range *range)
{
    double room;

    if (range->least > range->greatest)
        *range = (struct range){0, 1};
    room = range->least == 0 ? 1 : fabs(range->least) * 0.05;
    if (range->least == range->greatest)
        *range = (struct range){range->least - room, range->greatest + room};
}

static struct plane plane_find(struct json_object *curves)
{
    struct plane plane = {{INFINITY, -INFINITY}, {INFINITY, -INFINITY}};

    for (size_t c = 0; c < json_object_array_length(curves); c++) {
        struct json_object *curve = json_object_array_get_idx(curves, c);

        for (size_t i = 0; i < list_length(curve); i++) {
            range_include(&plane.x, list_get(curve, "steps", i));
            range_include(&plane.y, list_get(curve, "minima", i));
            range_include(&plane.y, list_get(curve, "maxima", i));
        }
    }
    range_finish(&plane.x);
    range_finish(&plane.y);
    return plane;
}

static double share_of(const struct range *range, double value)
{
    return fmin(fmax((value - range->least) / (range->greatest - range->least), 0), 1);
}

static double place_x(const struct plane *plane, double x)
{
    return LEFT + share_of(&plane->x, x) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct plane *plane, double y)
{
    return HEIGHT - BOTTOM - share_of(&plane->y, y) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, of which at most TICKS fit into the range. */
static double tick_distance(const struct range *range)
{
    double raw = (range->greatest - range->least) / TICKS, power = pow(10, floor(log10(raw)));
    double part = raw / power;

    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void axes_write(const struct plane *plane, const char *x_title, FILE *output)
{
    double distance = tick_distance(&plane->y), first = ceil(plane->y.least / distance);

    for (int i = 0; i <= TICKS + 1 && (first + i) * distance <= plane->y.greatest; i++) {
        double value = (first + i) * distance, y = place_y(plane, value);

        fprintf(output,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.6g</text>\n",
                LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, fabs(value) < distance / 2 ? 0 : value);
    }
    distance = tick_distance(&plane->x);
    first = ceil(plane->x.least / distance);
    for (int i = 0; i <= TICKS + 1 && (first + i) * distance <= plane->x.greatest; i++) {
        double value = (first + i) * distance, x = place_x(plane, value);

        fprintf(output,
                "<path class=\"axis\" d=\"M%.1f %dv5\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%.8g</text>\n",
                x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18, value);
    }
    fprintf(output, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
            WIDTH - RIGHT);
    fprintf(output, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH - RIGHT, HEIGHT - 4);
    markup_write_html(x_title, output);
    fputs("</text>\n", output);
}

/* A dash for each round of colours. */
static const char *dash_of(size_t curve)
{
    static const char *const dashes[] = {"", " stroke-dasharray=\"6 3\"",
                                         " stroke-dasharray=\"2 2\"",
                                         " stroke-dasharray=\"8 3 2 3\""};

    return dashes[curve / COLOURS % (sizeof dashes / sizeof *dashes)];
}

static void curve_write(const struct plane *plane, struct json_object *curve, size_t number,
                        FILE *output)
{
    size_t count = list_length(curve), colour = number % COLOURS;

    if (count == 0)
        return;
    fprintf(output, "<path class=\"band\" style=\"fill:var(--c%zu)\" d=\"M", colour);
    for (size_t i = 0; i < count; i++)
        fprintf(output, "%.1f %.1f ", place_x(plane, list_get(curve, "steps", i)),
                place_y(plane, list_get(curve, "maxima", i)));
    for (size_t i = count; i-- > 0;)
        fprintf(output, "%.1f %.1f ", place_x(plane, list_get(curve, "steps", i)),
                place_y(plane, list_get(curve, "minima", i)));
    fprintf(output, "Z\"/>\n<path class=\"line\" style=\"stroke:var(--c%zu)\"%s d=\"M", colour,
            dash_of(number));
    for (size_t i = 0; i < count; i++)
        fprintf(output, "%.1f %.1f ", place_x(plane, list_get(curve, "steps", i)),
                place_y(plane, list_get(curve, "means", i)));
    if (count == 1) /* one value is seen as a short line */
        fprintf(output, "h4");
    fputs("\"/>\n", output);
}

static void legend_write(struct json_object *curves, FILE *output)
{
    for (size_t c = 0; c < json_object_array_length(curves); c++) {
        double y = HEIGHT + 4 + LEGEND_LINE * (double)c;

        fprintf(output,
                "<path class=\"line\" style=\"stroke:var(--c%zu)\"%s d=\"M%d %.0fh22\"/>"
                "<text x=\"%d\" y=\"%.0f\">",
                c % COLOURS, dash_of(c), LEFT, y, LEFT + 30, y + 4);
        markup_write_html(json_get_string(json_object_array_get_idx(curves, c), "name", ""),
                          output);
        fputs("</text>\n", output);
    }
}

void figure_svg_write(struct json_object *figure, bool alone, FILE *output)
{
    struct json_object *curves = json_get(figure, "curves");
    struct plane plane = plane_find(curves);
    size_t count = json_object_array_length(curves);
    size_t height = HEIGHT + (count ? LEGEND_LINE * count : 0);

    fprintf(output, "<svg class=\"figure\" viewBox=\"0 0 %d %zu\" role=\"img\"", WIDTH, height);
    if (alone)
        fprintf(output, " xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\"", WIDTH,
                height);
    fputs("><title>", output);
    markup_write_html(json_get_string(figure, "title", ""), output);
    fputs("</title>\n", output);
    if (alone)
        fprintf(output, "<style>\n%s</style>\n", figure_style);
    fprintf(output, "<text class=\"title\" x=\"%d\" y=\"16\">", LEFT);
    markup_write_html(json_get_string(figure, "title", ""), output);
    fputs("</text>\n", output);
    axes_write(&plane, json_get_string(figure, "x", ""), output);
    for (size_t c = 0; c < count; c++)
        curve_write(&plane, json_object_array_get_idx(curves, c), c, output);
    legend_write(curves, output);
    fputs("</svg>\n", output);
}
