/* clang-tidy-promises.h: what functions of other files promise, which clang-tidy's analyzer does
 * not read. The Makefile includes it before every source that clang-tidy looks at; nothing else
 * does. */
#pragma once

#include "base/error.h"

#include <errno.h>

/* A failure comes back as the negative code that was handed in. */
static inline int promise_code(int result, int code)
{
    if (result != code || result >= 0)
        __builtin_unreachable();
    return result;
}

#define error_set(error, code, ...) promise_code(error_set(error, code, __VA_ARGS__), code)
#define error_set_errno(error, code, ...) \
    promise_code(error_set_errno(error, code, __VA_ARGS__), code)
#define error_no_memory(...) promise_code(error_no_memory(__VA_ARGS__), -ENOMEM)
