/* elements.h: the loop of kernels that work element by element. */
#pragma once

/* Each formula has a loop of its own, so that the compiler vectorises each by itself. There is no
 * `restrict`, because operands and result may be the same array. Element i depends on element i
 * only. */
#define FOR_EACH(expression)                                 \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < count; i++) \
    {                                                        \
        expression;                                          \
    }
