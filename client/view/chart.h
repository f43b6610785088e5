/* chart.h: draws curves as text: dots of braille where the screen has them, letters elsewhere. */
#pragma once

#include "client/view/display.h"

#include <stdio.h>

struct chart_curve {
    const char *name;
    double *x, *y; /* `count` of each, in the order in which they are joined */
    size_t count;
};

/* The chart owns nothing. */
struct chart {
    const char *x_title;
    struct chart_curve *curves;
    size_t count;
    bool logarithmic; /* the y axis: values of 0 and less have no place */
    bool from_zero;   /* the y axis has 0, also where no value is near it; not with `logarithmic` */
    size_t rows;      /* of the area in which curves are drawn, at least CHART_ROWS_MIN */
    /* pixels of a character of a terminal that shows sixels; 0: curves are drawn as text */
    size_t cell_width, cell_height;
};

enum { CHART_ROWS_MIN = 3, CHART_ROWS_MAX = 500 };

/* Replaces values by their exponential moving average: each has the weight 1 - `weight`, the
 * average before it `weight` (from 0 to below 1). The average has no bias towards 0, as in
 * TensorBoard (Kingma and Ba 2015, arXiv:1412.6980, section 3). Values that are not finite stay. */
void chart_smooth(double *values, size_t count, double weight);

/* Prints the curves in one frame as wide as the screen (80 columns where it has no width), and a
 * line for each with its last, least and greatest value. Where colours cannot tell several curves
 * apart, letters do. Returns the number of values that had no place, because they or their x are
 * not finite or, with `logarithmic`, not above 0; -1: not enough memory. */
long chart_print(const struct chart *chart, const struct display *display, FILE *output);
