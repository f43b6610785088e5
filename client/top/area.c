/* area.c: see area.h. */
#include "client/top/area.h"

#include <math.h>
#include <stdint.h>

enum { DOT_ROWS = 4 /* of a character of braille, which has two columns of them */ };

/* How many of `levels` levels a value fills: at least one, so that a measured 0 is told from
 * nothing. */
static size_t level_of(double part, size_t levels)
{
    if (isnan(part))
        return 0;
    part = fmin(fmax(part, 0), 1);
    return part * (double)levels < 1 ? 1 : (size_t)lround(part * (double)levels);
}

/* How much of the level lies in the row: from 0 to `in_row`. */
static size_t level_in_row(size_t level, size_t in_row, size_t rows, size_t row)
{
    size_t below = (rows - 1 - row) * in_row;

    return level <= below ? 0 : level - below < in_row ? level - below : in_row;
}

static unsigned braille_of(const double *parts, size_t rows, size_t row)
{
    /* the bits of Unicode's braille patterns, U+2800 on, filled from below */
    static const uint8_t left[DOT_ROWS + 1] = {0, 0x40, 0x44, 0x46, 0x47};
    static const uint8_t right[DOT_ROWS + 1] = {0, 0x80, 0xa0, 0xb0, 0xb8};
    size_t levels = rows * DOT_ROWS;

    return left[level_in_row(level_of(parts[0], levels), DOT_ROWS, rows, row)] |
           right[level_in_row(level_of(parts[1], levels), DOT_ROWS, rows, row)];
}

static char letter_of(const double *parts, size_t rows, size_t row)
{
    static const char letters[] = " ._-=+*#";
    size_t in_row = sizeof letters - 2, levels = rows * in_row;
    double part = isnan(parts[0])   ? parts[1]
                  : isnan(parts[1]) ? parts[0]
                                    : fmax(parts[0], parts[1]);

    return letters[level_in_row(level_of(part, levels), in_row, rows, row)];
}

char *area_row(const double *parts, size_t columns, size_t rows, size_t row, bool unicode,
               char *output, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < columns && used + 4 <= size; i++, parts += AREA_VALUES_PER_COLUMN) {
        unsigned dots = unicode ? braille_of(parts, rows, row) : 0;

        if (!unicode) {
            output[used++] = letter_of(parts, rows, row);
        } else if (dots == 0) {
            output[used++] = ' ';
        } else { /* U+2800 and the dots in UTF-8 */
            output[used++] = (char)0xe2;
            output[used++] = (char)(0xa0 | dots >> 6);
            output[used++] = (char)(0x80 | (dots & 0x3f));
        }
    }
    output[used] = '\0';
    return output;
}
