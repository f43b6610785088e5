/* figure_svg.h: draws a figure of a document as SVG. */
#pragma once

#include "proto/json.h"

#include <stdio.h>

enum { FIGURE_POINTS = 360 /* buckets of a curve that the figure has room for */ };

/* The rules that colour figures, for a light and a dark page and for paper. */
extern const char figure_style[];

/* Writes the figure. `alone`: as a file of its own, with its colours; else as an element of a page
 * that has them. */
void figure_svg_write(struct json_object *figure, bool alone, FILE *output);
