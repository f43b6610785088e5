/* metrics.cuh: what losses leave on the device until it is asked for. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

/* What the gradient of the mean loss is multiplied by. */
__device__ static inline float loss_factor(const struct cuda_scalars *scalars)
{
    return scalars->loss_scale ? scalars->loss_factor * (float)scalars->loss_scale->scale
                               : scalars->loss_factor;
}

/* By one thread of a step: `sum` over the losses of its `rows` samples. */
__device__ static inline void metrics_add(struct cuda_control *control,
                                          const struct cuda_scalars *scalars, double sum,
                                          int64_t rows, int64_t correct)
{
    struct cuda_metrics *metrics = &control->metrics;

    metrics->loss_sum += sum;
    metrics->samples += rows;
    metrics->correct += correct;
    metrics->last_loss = sum / (double)rows;
    if (!isfinite(sum) && !metrics->nonfinite_step)
        metrics->nonfinite_step = scalars->step;
}
