/* line.h: what commands print beside tables: labelled lines. */
#pragma once

#include "client/view/display.h"

/* "       label  text", control characters of both escaped; nothing for a text that is NULL or "".
 */
void line_print(const struct display *display, const char *label, const char *text,
                enum style style);
/* The same with a formatted text. */
void line_printf(const struct display *display, const char *label, enum style style,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
