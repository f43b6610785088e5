/* chart.c: see chart.h. Curves are drawn on a grid of dots. A character of braille has two columns
 * and four rows of them; a letter has one dot. */
#include "client/view/chart.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "client/view/sixel.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS_DEFAULT = 80,
    COLUMNS_MIN = 24,
    LABEL_COLUMNS = 11, /* of a value at the left */
    BRAILLE_COLUMNS = 2,
    BRAILLE_ROWS = 4
};

struct range {
    double least, greatest;
};

struct canvas {
    size_t columns, rows;         /* of characters */
    size_t dot_columns, dot_rows; /* of a character */
    bool letters;                 /* instead of dots */
    uint8_t *dots;                /* of each character, a bit for each dot */
    uint8_t *pixels;              /* of an image, the number of a colour; NULL: there is none */
    size_t *curves;               /* which curve was drawn there last, from 1 on; 0: none */
    struct range x, y;            /* y: of logarithms, if the axis is */
};

static const enum style styles[] = {STYLE_CYAN, STYLE_YELLOW, STYLE_GREEN, STYLE_RED, STYLE_PLAIN};
enum { STYLE_COUNT = sizeof styles / sizeof *styles, LETTER_COUNT = 26 };

static enum style curve_style(size_t curve)
{
    return styles[curve % STYLE_COUNT];
}

static char curve_letter(size_t curve)
{
    return (char)('a' + curve % LETTER_COUNT);
}

void chart_smooth(double *values, size_t count, double weight)
{
    double average = 0, bias = 1;

    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            continue;
        average = weight * average + (1 - weight) * values[i];
        bias *= weight;
        values[i] = average / (1 - bias);
    }
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static bool has_place(const struct chart *chart, const struct chart_curve *curve, size_t i)
{
    return isfinite(curve->x[i]) && isfinite(curve->y[i]) &&
           (!chart->logarithmic || curve->y[i] > 0);
}

static double height_of(const struct chart *chart, double y)
{
    return chart->logarithmic ? log10(y) : y;
}

static void range_include(struct range *range, double value)
{
    range->least = fmin(range->least, value);
    range->greatest = fmax(range->greatest, value);
}

/* A range of one value gets room around it. No number is beyond half of the largest one, so that
 * differences are finite. */
static void range_finish(struct range *range)
{
    double room = range->least == 0 ? 1 : fabs(range->least) * 0.05;

    range->least = fmax(range->least, -DBL_MAX / 2);
    range->greatest = fmin(range->greatest, DBL_MAX / 2);
    if (range->least < range->greatest)
        return;
    range->least -= room;
    range->greatest += room;
}

/* Finds both ranges. Returns the number of values without a place; `*placed`: of the others. */
static long ranges_find(const struct chart *chart, struct canvas *canvas, size_t *placed)
{
    long left_out = 0;

    canvas->x = canvas->y = (struct range){INFINITY, -INFINITY};
    *placed = 0;
    for (size_t c = 0; c < chart->count; c++)
        for (size_t i = 0; i < chart->curves[c].count; i++) {
            if (!has_place(chart, &chart->curves[c], i)) {
                left_out++;
                continue;
            }
            (*placed)++;
            range_include(&canvas->x, chart->curves[c].x[i]);
            range_include(&canvas->y, height_of(chart, chart->curves[c].y[i]));
        }
    if (*placed) {
        if (chart->from_zero)
            range_include(&canvas->y, 0);
        if (chart->from_zero && canvas->y.least == canvas->y.greatest) /* nothing but 0 */
            canvas->y.greatest = 1;
        range_finish(&canvas->x);
        range_finish(&canvas->y);
    }
    return left_out;
}

/* The dot for a value, of `count` dots. */
static long dot_of(const struct range *range, double value, size_t count)
{
    double share = (value - range->least) / (range->greatest - range->least);

    return lround(fmin(fmax(share, 0), 1) * (double)(count - 1));
}

/* ---- the grid -------------------------------------------------------------------------------- */

/* Sets a pixel and the one above it, so that lines are seen on a fine screen. */
static void pixel_set(struct canvas *canvas, long x, long y, size_t curve)
{
    size_t width = canvas->columns * canvas->dot_columns, height = canvas->rows * canvas->dot_rows;

    for (size_t row = (size_t)y; row < (size_t)y + 2 && row < height; row++)
        canvas->pixels[(height - 1 - row) * width + (size_t)x] = (uint8_t)(1 + curve % STYLE_COUNT);
}

static void dot_set(struct canvas *canvas, long x, long y, size_t curve)
{
    /* the bits of Unicode's braille patterns, U+2800 on */
    static const uint8_t bits[BRAILLE_ROWS][BRAILLE_COLUMNS] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    size_t column = (size_t)x / canvas->dot_columns, dot_row = (size_t)y;
    size_t row = canvas->rows - 1 - dot_row / canvas->dot_rows;
    size_t cell = row * canvas->columns + column;

    if (canvas->pixels) {
        pixel_set(canvas, x, y, curve);
        return;
    }
    canvas->dots[cell] |=
        canvas->letters
            ? 1
            : bits[BRAILLE_ROWS - 1 - dot_row % BRAILLE_ROWS][(size_t)x % BRAILLE_COLUMNS];
    canvas->curves[cell] = curve + 1;
}

/* Joins two dots by a straight line (Bresenham 1965). */
static void line_draw(struct canvas *canvas, const long from[2], const long to[2], size_t curve)
{
    long dx = labs(to[0] - from[0]), dy = -labs(to[1] - from[1]), error = dx + dy;
    long step_x = from[0] < to[0] ? 1 : -1, step_y = from[1] < to[1] ? 1 : -1;
    long x = from[0], y = from[1];

    for (;;) {
        long twice = 2 * error;

        dot_set(canvas, x, y, curve);
        if (x == to[0] && y == to[1])
            return;
        if (twice >= dy) {
            error += dy;
            x += step_x;
        }
        if (twice <= dx) {
            error += dx;
            y += step_y;
        }
    }
}

/* A value without a place interrupts the curve. */
static void curve_draw(const struct chart *chart, struct canvas *canvas, size_t c)
{
    const struct chart_curve *curve = &chart->curves[c];
    long before[2] = {0, 0};
    bool joined = false;

    for (size_t i = 0; i < curve->count; i++) {
        long dot[2];

        if (!has_place(chart, curve, i)) {
            joined = false;
            continue;
        }
        dot[0] = dot_of(&canvas->x, curve->x[i], canvas->columns * canvas->dot_columns);
        dot[1] = dot_of(&canvas->y, height_of(chart, curve->y[i]), canvas->rows * canvas->dot_rows);
        line_draw(canvas, joined ? before : dot, dot, c);
        memcpy(before, dot, sizeof before);
        joined = true;
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

/* "" for rows without a label: the first, the middle and the last one have one. */
static void label_format(const struct chart *chart, const struct canvas *canvas, size_t row,
                         char *text, size_t size)
{
    double share = 1 - (double)row / (double)(canvas->rows - 1);
    double value = canvas->y.least + share * (canvas->y.greatest - canvas->y.least);

    *text = '\0';
    value = chart->logarithmic ? pow(10, value) : value;
    if ((row == 0 || row == canvas->rows - 1 || row == canvas->rows / 2) &&
        snprintf(text, size, "%.4g", value) >= LABEL_COLUMNS)
        snprintf(text, size, "%.3g", value); /* -3.333e+306 */
}

static void cell_print(const struct canvas *canvas, size_t cell, const struct display *display,
                       FILE *output)
{
    size_t curve = canvas->curves[cell];
    unsigned dots = canvas->dots[cell];
    enum style style = curve ? curve_style(curve - 1) : STYLE_PLAIN;

    if (!curve) {
        fputc(' ', output);
        return;
    }
    fputs(display_style(display, style), output);
    if (canvas->letters)
        fputc(curve_letter(curve - 1), output);
    else /* U+2800 and the dots in UTF-8 */
        fprintf(output, "\xe2%c%c", (int)(0xa0 | dots >> 6), (int)(0x80 | (dots & 0x3f)));
    fputs(display_style_end(display, style), output);
}

/* Puts the image over the area, whose lines were printed without curves. */
static void image_print(const struct canvas *canvas, FILE *output)
{
    /* cyan, yellow, green, red and grey, as the styles; they are seen on dark and light screens */
    static const uint8_t palette[STYLE_COUNT][3] = {
        {0, 60, 70}, {75, 60, 0}, {10, 65, 20}, {80, 20, 20}, {55, 55, 55}};

    fprintf(output, "\0337\033[%zuA\033[%dC", canvas->rows, LABEL_COLUMNS + 1);
    sixel_write(canvas->pixels, canvas->columns * canvas->dot_columns,
                canvas->rows * canvas->dot_rows, palette, STYLE_COUNT, output);
    fputs("\0338", output);
}

static void area_print(const struct chart *chart, const struct canvas *canvas,
                       const struct display *display, FILE *output)
{
    char label[32], first[32], last[32];
    size_t used, title = strlen(chart->x_title);

    for (size_t row = 0; row < canvas->rows; row++) {
        size_t end = canvas->columns;

        while (end > 0 && !canvas->curves[row * canvas->columns + end - 1])
            end--;
        label_format(chart, canvas, row, label, sizeof label);
        fprintf(output, "%*s %s", LABEL_COLUMNS - 1, label, display->unicode ? "│" : "|");
        for (size_t column = 0; column < end; column++)
            cell_print(canvas, row * canvas->columns + column, display, output);
        fputc('\n', output);
    }
    if (canvas->pixels)
        image_print(canvas, output);
    fprintf(output, "%*s %s", LABEL_COLUMNS - 1, "", display->unicode ? "└" : "+");
    for (size_t column = 0; column < canvas->columns; column++)
        fputs(display->unicode ? "─" : "-", output);
    snprintf(first, sizeof first, "%.6g", canvas->x.least);
    snprintf(last, sizeof last, "%.6g", canvas->x.greatest);
    used = strlen(first) + strlen(last) + title;
    if (used + 2 <= canvas->columns) { /* the title stands in the middle of what is left */
        size_t left = (canvas->columns - used) / 2;

        fprintf(output, "\n%*s%s%*s%s%*s%s\n", LABEL_COLUMNS + 1, "", first, (int)left, "",
                chart->x_title, (int)(canvas->columns - used - left), "", last);
    } else {
        fprintf(output, "\n%*s%s: %s to %s\n", LABEL_COLUMNS + 1, "", chart->x_title, first, last);
    }
}

static void legend_print(const struct chart *chart, const struct canvas *canvas,
                         const struct display *display, FILE *output)
{
    for (size_t c = 0; c < chart->count; c++) {
        const struct chart_curve *curve = &chart->curves[c];
        struct range range = {INFINITY, -INFINITY};
        char last[32], least[32], greatest[32], name[512], mark[2] = {curve_letter(c), '\0'};
        double latest = NAN;

        for (size_t i = 0; i < curve->count; i++)
            if (has_place(chart, curve, i)) {
                range_include(&range, curve->y[i]);
                latest = curve->y[i];
            }
        fprintf(output, "%s%s%s %s: ", display_style(display, curve_style(c)),
                canvas->letters    ? mark
                : display->unicode ? "━━"
                                   : "--",
                display_style_end(display, curve_style(c)),
                text_escape_controls(curve->name, name, sizeof name));
        if (isnan(latest))
            fputs("nothing to draw\n", output);
        else
            fprintf(output, "last %s, least %s, greatest %s\n",
                    display_format_value(latest, last, sizeof last),
                    display_format_value(range.least, least, sizeof least),
                    display_format_value(range.greatest, greatest, sizeof greatest));
    }
}

long chart_print(const struct chart *chart, const struct display *display, FILE *output)
{
    size_t columns = display->columns ? display->columns : COLUMNS_DEFAULT, placed;
    bool image = chart->cell_width > 0 && chart->cell_height > 0;
    bool letters = !image && (!display->unicode || (chart->count > 1 && !display->colour));
    struct canvas canvas = {.columns =
                                (columns < COLUMNS_MIN ? COLUMNS_MIN : columns) - LABEL_COLUMNS - 1,
                            .rows = chart->rows,
                            .letters = letters,
                            .dot_columns = image     ? chart->cell_width
                                           : letters ? 1
                                                     : BRAILLE_COLUMNS,
                            .dot_rows = image     ? chart->cell_height
                                        : letters ? 1
                                                  : BRAILLE_ROWS};
    AUTO_FREE uint8_t *dots = calloc(canvas.columns * canvas.rows, sizeof *dots);
    AUTO_FREE size_t *curves = calloc(canvas.columns * canvas.rows, sizeof *curves);
    AUTO_FREE uint8_t *pixels = NULL;
    long left_out = ranges_find(chart, &canvas, &placed);

    if (image)
        pixels = calloc(canvas.columns * canvas.dot_columns, canvas.rows * canvas.dot_rows);
    if (!dots || !curves || (image && !pixels))
        return -1;
    canvas.pixels = pixels;
    canvas.dots = dots;
    canvas.curves = curves;
    for (size_t c = 0; c < chart->count; c++)
        curve_draw(chart, &canvas, c);
    if (placed)
        area_print(chart, &canvas, display, output);
    legend_print(chart, &canvas, display, output);
    return left_out;
}
