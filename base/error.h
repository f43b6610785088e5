/* error.h: the one error type. A function that can fail returns 0 or a negative code and, through
 * its last parameter, a sentence for the person who reads the message: what is wrong, where, and
 * what to do about it. The code is a negative errno if the system or a wrong argument is the cause,
 * else a negative `enum error_kind`. */
#pragma once

#include <stdarg.h>

enum { ERROR_TEXT_MAX = 1024 };

/* Causes that callers tell apart and that no errno names. The numbers begin above Linux's largest
 * errno, 4095, so one `int` holds either. They are neither stored nor sent. */
enum error_kind {
    ERROR_KIND_FIRST = 4096,
    ERROR_NONFINITE_LOSS = ERROR_KIND_FIRST, /* the loss, or a gradient, is NaN or infinite */
    ERROR_DISAGREEMENT,      /* a device's result differs from the previous device's */
    ERROR_DEVICE_MEMORY,     /* the device, or a limit, has too little memory for the run */
    ERROR_DEVICE_LOST,       /* there is no such device, or it no longer answers */
    ERROR_DEVICE_CORRUPTION, /* the device's memory has an error that it cannot correct */
    ERROR_DEVICE_ACCESS,     /* a kernel read or wrote at an illegal address */
    ERROR_DEVICE_FAILURE,    /* another failure of a kernel or of a library's call on the device */
    ERROR_UNSUPPORTED,       /* this device, library or job cannot do what was asked for */
    ERROR_SLOWER,            /* every way takes longer than the given limit */
    ERROR_DAMAGED,           /* stored content is damaged */
    ERROR_OTHER_VERSION,     /* made by, or for, another version of traind */
    ERROR_STALE_FILE,        /* a file is not, or no longer, the one that is expected */
    ERROR_SERVICE_REPLY,     /* a service answered, and its answer is an error */
    ERROR_NO_SUCH_JOB,       /* no job exists to which the request applies */
    ERROR_KIND_END
};

struct error {
    int code; /* negative errno or error_kind; 0 while nothing went wrong */
    char text[ERROR_TEXT_MAX];
};

/* Stores `code` (negative) and the formatted sentence, and returns `code`, so that a caller writes
 * `return error_set(error, -EINVAL, "…")`. `error` may be NULL. A sentence longer than
 * ERROR_TEXT_MAX - 1 bytes is cut. Bytes that are not valid UTF-8 become '?'. */
int error_set(struct error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* error_set() with ": " and the text of error_code_text() appended. */
int error_set_errno(struct error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* error_set() with -ENOMEM and "no memory for <formatted>". For allocations whose size comes from a
 * message, a file or a user. */
int error_no_memory(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "<formatted>: " before the stored sentence; keeps the code and returns it. */
int error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A few words for a negative code: strerror() of an errno, or traind's text of an error_kind. */
const char *error_code_text(int code);
