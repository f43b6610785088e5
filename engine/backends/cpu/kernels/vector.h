/* vector.h: one register of floats. Kernels that keep sums in registers over long loops use it,
 * because the compiler would not divide their loops in this way by itself. */
#pragma once

#if defined(__AVX512F__)
enum { VECTOR = 16, REGISTERS = 32 };
#else
enum { VECTOR = 8, REGISTERS = 16 };
#endif

typedef float vector __attribute__((vector_size(VECTOR * 4), may_alias));
/* a vector at the address of any float */
typedef float loose_vector __attribute__((vector_size(VECTOR * 4), may_alias, aligned(4)));

#define ALWAYS_INLINE inline __attribute__((always_inline))
