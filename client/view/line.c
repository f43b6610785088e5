/* line.c: see line.h. */
#include "client/view/line.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

enum { LABEL_WIDTH = 12 };

void line_print(const struct display *display, const char *label, const char *text,
                enum style style)
{
    char escaped[8192], label_escaped[256];

    if (!text || !*text)
        return;
    printf("%s%*s%s  %s%s%s\n", display_style(display, STYLE_DIM), LABEL_WIDTH,
           text_escape_controls(label, label_escaped, sizeof label_escaped),
           display_style_end(display, STYLE_DIM), display_style(display, style),
           text_escape_controls(text, escaped, sizeof escaped), display_style_end(display, style));
}

void line_printf(const struct display *display, const char *label, enum style style,
                 const char *format, ...)
{
    char text[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    line_print(display, label, text, style);
}
