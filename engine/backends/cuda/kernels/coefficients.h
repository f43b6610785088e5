/* coefficients.h: the part of an update's coefficients that depends on the number of updates before
 * it. C and CUDA C++: the host computes it, or the device if a loss scale decides which updates
 * count. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/graph/graph.h"

#include <math.h>
#include <string.h>

/* How an optimizer's coefficients depend on the number of updates. */
enum cuda_count_rule {
    COUNT_NOTHING,
    COUNT_FIRST, /* the first update takes the gradient as it is */
    COUNT_ROOT, /* the bias of the second average, whose decay is the second term, is corrected, and
                    the first update is told */
    COUNT_BIAS, /* the biases of two moving averages, whose decays are the terms, are corrected */
    COUNT_DECAY /* the rate decays: rate / (1 + (count - 1) second) */
};

/* The terms of a group, stored behind its coefficients. */
struct cuda_count_terms {
    double first, second;
};
#ifndef __cplusplus
_Static_assert(COEFFICIENT_DOUBLES * sizeof(float) + sizeof(struct cuda_count_terms) ==
                   sizeof(float[CUDA_COEFFICIENTS]),
               "the doubles fill what is left");
#endif

/* Applies the group's rule. `count`: the number of updates, including this one. */
LOSS_SCALE_FUNCTION void coefficients_count(int64_t count, float *c)
{
    struct cuda_count_terms terms;

    memcpy(&terms, &c[COEFFICIENT_DOUBLES], sizeof terms);
    switch ((enum cuda_count_rule)c[COEFFICIENT_COUNT]) {
    case COUNT_FIRST:
        c[COEFFICIENT_KEEP] = count == 1 ? 0.0f : c[COEFFICIENT_KEEP];
        c[COEFFICIENT_TAKE] = count == 1 ? 1.0f : c[COEFFICIENT_TAKE];
        break;
    case COUNT_ROOT:
        c[COEFFICIENT_ROOT] = (float)sqrt(1.0 - pow(terms.second, (double)count));
        c[COEFFICIENT_NESTEROV] = count == 1;
        break;
    case COUNT_BIAS:
        c[COEFFICIENT_RATE] =
            (float)((double)c[COEFFICIENT_RATE] / (1.0 - pow(terms.first, (double)count)));
        c[COEFFICIENT_ROOT] = (float)sqrt(1.0 - pow(terms.second, (double)count));
        break;
    case COUNT_DECAY:
        c[COEFFICIENT_RATE] =
            (float)((double)c[COEFFICIENT_RATE] / (1.0 + (double)(count - 1) * terms.second));
        break;
    case COUNT_NOTHING:
        break;
    }
}
