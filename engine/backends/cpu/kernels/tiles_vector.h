/* tiles_vector.h: within this folder: vectors of 16 numbers, which are bfloat16 in memory and
 * float32 in registers. The compiler translates them for each level of processors. */
#pragma once

#include "engine/backends/cpu/kernels/tiles.h"

#include <string.h>

/* All functions here are inlined, so it does not matter how vectors are passed. */
#pragma GCC diagnostic ignored "-Wpsabi"

enum { LANES = 16 };

typedef float floats __attribute__((vector_size(LANES * 4), may_alias));
typedef uint32_t words __attribute__((vector_size(LANES * 4), may_alias));
typedef uint16_t halves __attribute__((vector_size(LANES * 2), may_alias));

static inline __attribute__((always_inline)) floats load_halves(const uint16_t *x)
{
    halves narrow;

    memcpy(&narrow, x, sizeof narrow);
    return (floats)(__builtin_convertvector(narrow, words) << 16);
}

static inline __attribute__((always_inline)) floats load_floats(const float *x)
{
    floats value;

    memcpy(&value, x, sizeof value);
    return value;
}

static inline __attribute__((always_inline)) void store_floats(float *x, floats value)
{
    memcpy(x, &value, sizeof value);
}

/* Rounds to the nearest, ties to even; a NaN stays one. */
static inline __attribute__((always_inline)) void store_halves(uint16_t *x, floats value)
{
    words bits = (words)value, nan = (words)(value != value);
    words rounded = bits + 0x7fff + (bits >> 16 & 1);
    halves narrow =
        __builtin_convertvector(((rounded & ~nan) | ((bits | 0x400000) & nan)) >> 16, halves);

    memcpy(x, &narrow, sizeof narrow);
}

/* `value` where `sign` is above 0, else 0. */
static inline __attribute__((always_inline)) floats where_positive(floats sign, floats value)
{
    return (floats)((words)value & (words)(sign > 0));
}

/* max(0, value); a NaN stays one. */
static inline __attribute__((always_inline)) floats rectified(floats value)
{
    return (floats)((words)value & ~(words)(value < 0));
}
