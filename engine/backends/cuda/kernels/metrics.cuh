/* metrics.cuh: the metrics that losses accumulate on the device until the host reads them. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

/* The factor of the gradient of the mean loss. */
__device__ static inline float loss_factor(const struct cuda_scalars *scalars)
{
    return scalars->loss_scale ? scalars->loss_factor * (float)scalars->loss_scale->scale
                               : scalars->loss_factor;
}

/* Adds `sum`, the losses of `rows` samples. One thread of a step calls it. */
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
