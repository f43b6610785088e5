/* error.c: see error.h. */
#include "base/error.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_texts[ERROR_KIND_END - ERROR_KIND_FIRST] = {
    [ERROR_NONFINITE_LOSS - ERROR_KIND_FIRST] = "the loss is not finite",
    [ERROR_DISAGREEMENT - ERROR_KIND_FIRST] = "two devices disagree",
    [ERROR_DEVICE_MEMORY - ERROR_KIND_FIRST] = "too little memory on the device",
    [ERROR_DEVICE_LOST - ERROR_KIND_FIRST] = "the device is lost",
    [ERROR_DEVICE_CORRUPTION - ERROR_KIND_FIRST] = "the device's memory is faulty",
    [ERROR_DEVICE_ACCESS - ERROR_KIND_FIRST] = "illegal access to the device's memory",
    [ERROR_DEVICE_FAILURE - ERROR_KIND_FIRST] = "the device failed",
    [ERROR_UNSUPPORTED - ERROR_KIND_FIRST] = "not supported",
    [ERROR_SLOWER - ERROR_KIND_FIRST] = "slower than the limit",
    [ERROR_DAMAGED - ERROR_KIND_FIRST] = "damaged content",
    [ERROR_OTHER_VERSION - ERROR_KIND_FIRST] = "made by another version of traind",
    [ERROR_STALE_FILE - ERROR_KIND_FIRST] = "not the expected file",
    [ERROR_SERVICE_REPLY - ERROR_KIND_FIRST] = "the service answered with an error",
    [ERROR_NO_SUCH_JOB - ERROR_KIND_FIRST] = "no such job",
};

const char *error_code_text(int code)
{
    int kind = -code - ERROR_KIND_FIRST;

    return kind >= 0 && kind < ERROR_KIND_END - ERROR_KIND_FIRST ? kind_texts[kind]
                                                                 : strerror(-code);
}

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
    snprintf(error->text + length, sizeof error->text - length, ": %s", error_code_text(code));
    text_make_utf8(error->text);
    return code;
}

int error_no_memory(struct error *error, const char *format, ...)
{
    static const char cause[] = "no memory for ";
    va_list arguments;

    if (!error)
        return -ENOMEM;
    error->code = -ENOMEM;
    memcpy(error->text, cause, sizeof cause);
    va_start(arguments, format);
    vsnprintf(error->text + sizeof cause - 1, sizeof error->text - sizeof cause + 1, format,
              arguments);
    va_end(arguments);
    text_make_utf8(error->text);
    return -ENOMEM;
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
