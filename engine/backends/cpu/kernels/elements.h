/* elements.h: the loop of kernels that work element by element. */
#pragma once

/* One loop for each formula, so that each is vectorised by itself. No `restrict`: operands and
 * result may be the same array, and element i depends on element i only. */
#define FOR_EACH(expression)                                 \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < count; i++) \
    {                                                        \
        expression;                                          \
    }
