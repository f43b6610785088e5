/* vector.h: one register of floats. The kernels that keep sums in registers over long loops are
 * written with it: left to itself the compiler would not divide their loops so. */
#pragma once

#if defined(__AVX512F__)
enum { VECTOR = 16, REGISTERS = 32 };
#else
enum { VECTOR = 8, REGISTERS = 16 };
#endif

typedef float vector __attribute__((vector_size(VECTOR * 4), may_alias));

#define ALWAYS_INLINE inline __attribute__((always_inline))
