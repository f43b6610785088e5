/* area.h: draws a series of parts from 0 to 1 as a filled curve: dots of braille where the screen
 * has them, letters elsewhere. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { AREA_VALUES_PER_COLUMN = 2 };

/* Writes one of the `rows` rows of the curve, from 0 at the top, `columns` characters wide.
 * `parts`: AREA_VALUES_PER_COLUMN * `columns` of them, the oldest first; NAN leaves a gap. Without
 * `unicode` letters stand for the height. `size` has 3 bytes for each column and one more. Returns
 * `output`. */
char *area_row(const double *parts, size_t columns, size_t rows, size_t row, bool unicode,
               char *output, size_t size);
