/* error.h: the one error type. A function that can fail returns 0 or a negative errno and, through
 * its last parameter, a sentence for the person who reads the message: what is wrong, where, and
 * what to do about it. */
#pragma once

#include <stdarg.h>

enum { ERROR_TEXT_MAX = 1024 };

struct error {
    int code; /* negative errno; 0 while nothing went wrong */
    char text[ERROR_TEXT_MAX];
};

/* Stores `code` (negative errno) and the formatted sentence, and returns `code`, so that a caller
 * writes `return error_set(error, -EINVAL, "…")`. `error` may be NULL: only the code counts then.
 * A longer sentence is cut at ERROR_TEXT_MAX - 1 bytes; the result is UTF-8 whatever went in. */
int error_set(struct error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* error_set() with ": " and the text of errno `-code` appended. */
int error_set_errno(struct error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "<formatted>: " before the sentence already stored, keeps and returns its code. */
int error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
