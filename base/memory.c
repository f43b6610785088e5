/* memory.c: see memory.h. */
#include "base/memory.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void memory_exhausted(size_t bytes)
{
    if (bytes > 0)
        log_error("no memory left: %zu bytes were refused; the process ends", bytes);
    else
        log_error("no memory left; the process ends");
    _exit(MEMORY_EXIT_STATUS);
}

void *memory_allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);

    if (!memory)
        memory_exhausted(bytes);
    return memory;
}

void *memory_zero(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);

    if (!memory)
        memory_exhausted(bytes);
    return memory;
}

void *memory_grow(void *memory, size_t bytes)
{
    void *grown = realloc(memory, bytes ? bytes : 1);

    if (!grown)
        memory_exhausted(bytes);
    return grown;
}

char *memory_copy_text(const char *text)
{
    size_t size = text ? strlen(text) + 1 : 0;

    return text ? memcpy(memory_allocate(size), text, size) : NULL;
}

char *memory_format(const char *format, ...)
{
    va_list arguments;
    char *text;
    int length;

    va_start(arguments, format);
    length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        memory_exhausted(0);
    return text;
}
