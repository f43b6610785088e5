/* metrics.cuh: the metrics that losses accumulate on the device until the host reads them. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

/* The factor of the gradient of the mean loss. */
__device__ static inline float loss_factor(const struct cuda_scalars *scalars)
{
    return scalars->loss_scale ? scalars->loss_factor * (float)scalars->loss_scale->scale
                               : scalars->loss_factor;
}

/* Adds `sum`, the losses of `labels` labels. One thread of a step calls it. */
__device__ static inline void metrics_add(struct cuda_control *control,
                                          const struct cuda_scalars *scalars, double sum,
                                          int64_t samples, int64_t labels, int64_t correct)
{
    struct cuda_metrics *metrics = &control->metrics;

    metrics->loss_sum += sum;
    metrics->samples += samples;
    metrics->labels += labels;
    metrics->correct += correct;
    metrics->last_loss = sum / (double)(labels ? labels : 1);
    if (!isfinite(sum) && !metrics->nonfinite_step)
        metrics->nonfinite_step = scalars->step;
}
