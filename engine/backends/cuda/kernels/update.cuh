/* update.cuh: the optimizers' rules for one number, with the formulas of
 * engine/backends/cpu/kernels/optimizer.c. Terms that depend on the step alone are in the
 * coefficients, which the host computes. */
#pragma once

#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

__device__ static inline void update_sgd(const float *c, float g, float *w, float *buffer)
{
    float step;

    g += c[COEFFICIENT_DECAY] * *w;
    if (c[COEFFICIENT_MOMENTUM] == 0) {
        step = g;
    } else {
        *buffer = c[COEFFICIENT_KEEP] * *buffer + c[COEFFICIENT_TAKE] * g;
        step = c[COEFFICIENT_NESTEROV] != 0 ? g + c[COEFFICIENT_OWN] * *buffer : *buffer;
    }
    *w -= c[COEFFICIENT_RATE] * step;
}

__device__ static inline void update_adam(const float *c, float g, float *w, float *m, float *v)
{
    float old = c[COEFFICIENT_SHRINK] * *w;

    g += c[COEFFICIENT_DECAY] * old;
    *m = c[COEFFICIENT_KEEP] * *m + c[COEFFICIENT_TAKE] * g;
    *v = c[COEFFICIENT_KEEP2] * *v + c[COEFFICIENT_TAKE2] * g * g;
    *w = old - (c[COEFFICIENT_OWN] * g + c[COEFFICIENT_RATE] * *m) /
                   (sqrtf(*v) / c[COEFFICIENT_ROOT] + c[COEFFICIENT_EPSILON]);
}

__device__ static inline void update_rmsprop(const float *c, float g, float *w, float *v,
                                             float *buffer)
{
    float step;

    g += c[COEFFICIENT_DECAY] * *w;
    *v = c[COEFFICIENT_KEEP2] * *v + c[COEFFICIENT_TAKE2] * g * g;
    step = g / (sqrtf(*v) + c[COEFFICIENT_EPSILON]);
    if (c[COEFFICIENT_MOMENTUM] != 0)
        step = *buffer = c[COEFFICIENT_KEEP] * *buffer + step;
    *w -= c[COEFFICIENT_RATE] * step;
}

__device__ static inline void update_lion(const float *c, float g, float *w, float *m)
{
    float direction = c[COEFFICIENT_KEEP] * *m + c[COEFFICIENT_TAKE] * g;
    float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : 0.0f;

    *w = c[COEFFICIENT_SHRINK] * *w - c[COEFFICIENT_RATE] * sign;
    *m = c[COEFFICIENT_KEEP2] * *m + c[COEFFICIENT_TAKE2] * g;
}

__device__ static inline void update_adagrad(const float *c, float g, float *w, float *sum)
{
    g += c[COEFFICIENT_DECAY] * *w;
    *sum += g * g;
    *w -= c[COEFFICIENT_RATE] * (g / (sqrtf(*sum) + c[COEFFICIENT_EPSILON]));
}

__device__ static inline void update_adadelta(const float *c, float g, float *w, float *v, float *u)
{
    const float epsilon = c[COEFFICIENT_EPSILON];
    float step;

    g += c[COEFFICIENT_DECAY] * *w;
    *v = c[COEFFICIENT_KEEP2] * *v + c[COEFFICIENT_TAKE2] * g * g;
    step = sqrtf(*u + epsilon) / sqrtf(*v + epsilon) * g;
    *u = c[COEFFICIENT_KEEP2] * *u + c[COEFFICIENT_TAKE2] * step * step;
    *w -= c[COEFFICIENT_RATE] * step;
}

__device__ static inline void update_adamax(const float *c, float g, float *w, float *m, float *u)
{
    float before = c[COEFFICIENT_KEEP2] * *u, size;

    g += c[COEFFICIENT_DECAY] * *w;
    size = fabsf(g) + c[COEFFICIENT_EPSILON];
    *m = c[COEFFICIENT_KEEP] * *m + c[COEFFICIENT_TAKE] * g;
    *u = before > size ? before : size; /* NaN stays, as on the CPU */
    *w -= c[COEFFICIENT_RATE] * (*m / *u);
}

__device__ static inline void update_amsgrad(const float *c, float g, float *w, float *m, float *v,
                                             float *largest)
{
    float old = c[COEFFICIENT_SHRINK] * *w;

    g += c[COEFFICIENT_DECAY] * old;
    *m = c[COEFFICIENT_KEEP] * *m + c[COEFFICIENT_TAKE] * g;
    *v = c[COEFFICIENT_KEEP2] * *v + c[COEFFICIENT_TAKE2] * g * g;
    *largest = *largest > *v ? *largest : *v; /* NaN stays, as on the CPU */
    *w = old - c[COEFFICIENT_RATE] *
                   (*m / (sqrtf(*largest) / c[COEFFICIENT_ROOT] + c[COEFFICIENT_EPSILON]));
}

__device__ static inline void update_schedule_free(const float *c, float g, float *w, float *z,
                                                   float *v)
{
    const float base = c[COEFFICIENT_NESTEROV] != 0 ? *w : *z;
    float step;

    *v = c[COEFFICIENT_KEEP2] * *v + c[COEFFICIENT_TAKE2] * g * g;
    step =
        g / (sqrtf(*v) / c[COEFFICIENT_ROOT] + c[COEFFICIENT_EPSILON]) + c[COEFFICIENT_DECAY] * *w;
    *w += c[COEFFICIENT_TAKE] * (base - *w) + c[COEFFICIENT_OWN] * step;
    *z = base - c[COEFFICIENT_RATE] * step;
}

/* Updates w with its states, as far as the formula (enum update_formula) has them. */
__device__ static inline void update_value(int formula, const float *c, float gradient, float *w,
                                           float *s0, float *s1, float *s2)
{
    switch (formula) {
    case FORMULA_SGD:
        update_sgd(c, gradient, w, s0);
        break;
    case FORMULA_ADAM:
        update_adam(c, gradient, w, s0, s1);
        break;
    case FORMULA_RMSPROP:
        update_rmsprop(c, gradient, w, s0, s1);
        break;
    case FORMULA_LION:
        update_lion(c, gradient, w, s0);
        break;
    case FORMULA_ADAGRAD:
        update_adagrad(c, gradient, w, s0);
        break;
    case FORMULA_ADAMAX:
        update_adamax(c, gradient, w, s0, s1);
        break;
    case FORMULA_AMSGRAD:
        update_amsgrad(c, gradient, w, s0, s1, s2);
        break;
    case FORMULA_SCHEDULE_FREE:
        update_schedule_free(c, gradient, w, s0, s1);
        break;
    default:
        update_adadelta(c, gradient, w, s0, s1);
        break;
    }
}

__device__ static inline void update_element(const struct cuda_item *item, const float *c,
                                             float gradient, int64_t i)
{
    update_value(item->formula, c, gradient, &item->parameter[i],
                 item->state0 ? &item->state0[i] : NULL, item->state1 ? &item->state1[i] : NULL,
                 item->state2 ? &item->state2[i] : NULL);
    item->parameter[i] = rounded_to(item->rounding, item->parameter[i]);
}

/* Limits a gradient to the step's limits; a NaN stays. */
__device__ static inline float clipped(float g, float limit)
{
    g = limit < g ? limit : g;
    return -limit > g ? -limit : g;
}

/* The factor of this update. `summed`: the squares of the gradients have been summed up. */
__device__ static inline float gradient_factor(const struct cuda_control *control,
                                               const struct cuda_scalars *scalars, bool summed)
{
    return summed ? control->gradient_factor : scalars->unscale;
}

__device__ static inline const float *group_coefficients(const struct cuda_control *control,
                                                         const struct cuda_scalars *scalars,
                                                         bool summed, int group)
{
    return summed && scalars->loss_scale ? control->group[group] : scalars->group[group];
}
