/* complain.c: see complain.h. */
#include "client/command_line/complain.h"

#include "base/error.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void complain(const char *format, ...)
{
    char text[2 * ERROR_TEXT_MAX], escaped[4 * ERROR_TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "trainctl: %s\n", text_escape_controls(text, escaped, sizeof escaped));
}
