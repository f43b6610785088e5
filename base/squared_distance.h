/* squared_distance.h: the squared Euclidean distance of two rows of numbers. */
#pragma once

#include <stdint.h>

/* Of `count` numbers each. The sum is made in 16 lanes, which compilers turn into vectors; its
 * order does not depend on the processor. */
static inline float squared_distance(const float *a, const float *b, int64_t count)
{
    enum { LANES = 16 };
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        for (int64_t k = 0; k < LANES; k++)
            lane[k] += (a[i + k] - b[i + k]) * (a[i + k] - b[i + k]);
    for (; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    for (int64_t k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}
