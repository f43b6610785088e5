/* line.h: prints labelled lines. */
#pragma once

#include "client/view/display.h"

/* Prints "       label  text" with control characters escaped; prints nothing if `text` is NULL or
 * "".
 */
void line_print(const struct display *display, const char *label, const char *text,
                enum style style);
/* The same with a formatted text. */
void line_printf(const struct display *display, const char *label, enum style style,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
