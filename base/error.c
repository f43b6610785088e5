/* error.c: see error.h. */
#include "base/error.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *error, int code, const char *format, ...)
{
    va_list arguments;

    if (!error)
        return code;
    error->code = code;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    text_make_utf8(error->text);
    return code;
}

int error_set_errno(struct error *error, int code, const char *format, ...)
{
    va_list arguments;
    size_t length;

    if (!error)
        return code;
    error->code = code;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    length = strlen(error->text);
    snprintf(error->text + length, sizeof error->text - length, ": %s", strerror(-code));
    text_make_utf8(error->text);
    return code;
}

int error_prefix(struct error *error, const char *format, ...)
{
    char previous[ERROR_TEXT_MAX];
    va_list arguments;
    size_t length;

    if (!error)
        return -EINVAL;
    memcpy(previous, error->text, sizeof previous);
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    length = strlen(error->text);
    snprintf(error->text + length, sizeof error->text - length, ": %s", previous);
    text_make_utf8(error->text);
    return error->code;
}
