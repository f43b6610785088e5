/* sequence.c: sequences [time][features]: the largest number of each feature. */
#include "engine/backends/cpu/kernels/kernels.h"

void KERNEL_NAME(max_over_time)(const float *restrict x, int64_t length, int64_t features,
                                float *restrict y, int32_t *restrict position)
{
    for (int64_t f = 0; f < features; f++)
        y[f] = x[f];
    for (int64_t f = 0; position && f < features; f++)
        position[f] = 0;
    for (int64_t t = 1; t < length; t++) {
        const float *row = x + t * features;

        /* a comparison with NaN is false: it is taken once and stays */
        if (position)
            for (int64_t f = 0; f < features; f++) {
                bool larger = !(row[f] <= y[f]) && y[f] == y[f];

                y[f] = larger ? row[f] : y[f];
                position[f] = larger ? (int32_t)t : position[f];
            }
        else
            for (int64_t f = 0; f < features; f++)
                y[f] = !(row[f] <= y[f]) && y[f] == y[f] ? row[f] : y[f];
    }
}
