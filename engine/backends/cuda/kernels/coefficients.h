/* coefficients.h: the part of an update's coefficients that depends on the number of updates before
 * it. C and CUDA C++: the host computes it, or the device if a loss scale decides which updates
 * count. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/graph/graph.h"

#include <math.h>
#include <string.h>

/* The terms of a group, stored behind its coefficients. */
struct cuda_count_terms {
    double first, second; /* Adam: the betas. Adagrad: second is the decay of its learning rate */
};
#ifndef __cplusplus
_Static_assert(COEFFICIENT_DOUBLES * sizeof(float) + sizeof(struct cuda_count_terms) ==
                   sizeof(float[CUDA_COEFFICIENTS]),
               "the doubles fill what is left");
#endif

/* `count`: the number of updates, including this one. On entry the coefficients have no correction.
 * NAdam's coefficients are the host's. */
LOSS_SCALE_FUNCTION void coefficients_count(int64_t count, float *c)
{
    struct cuda_count_terms terms;

    memcpy(&terms, &c[COEFFICIENT_DOUBLES], sizeof terms);
    switch ((int)c[COEFFICIENT_KIND]) {
    case OPTIMIZER_SGD: /* the first step takes the gradient as it is */
        c[COEFFICIENT_KEEP] = count == 1 ? 0.0f : c[COEFFICIENT_KEEP];
        c[COEFFICIENT_TAKE] = count == 1 ? 1.0f : c[COEFFICIENT_TAKE];
        break;
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
        c[COEFFICIENT_RATE] =
            (float)((double)c[COEFFICIENT_RATE] / (1.0 - pow(terms.first, (double)count)));
        c[COEFFICIENT_ROOT] = (float)sqrt(1.0 - pow(terms.second, (double)count));
        break;
    case OPTIMIZER_ADAGRAD:
        c[COEFFICIENT_RATE] =
            (float)((double)c[COEFFICIENT_RATE] / (1.0 + (double)(count - 1) * terms.second));
        break;
    default:
        break;
    }
}
