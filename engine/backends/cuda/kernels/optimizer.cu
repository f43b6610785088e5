/* optimizer.cu: the update of all parameters in one launch for each 32 of them, with the formulas of
 * engine/backends/cpu/kernels/optimizer.c; what depends on the step alone the host has put into
 * coefficients. */
#include "engine/backends/cuda/kernels/launch.cuh"

#include "engine/graph/graph.h"

#include <math.h>

/* Elements of a block: one for each thread, for a thread with several waits for memory several times. */
constexpr int64_t ELEMENTS = BLOCK;

int cuda_items_blocks(struct cuda_items *items)
{
    items->first_block[0] = 0;
    for (int i = 0; i < items->count; i++)
        items->first_block[i + 1] =
            items->first_block[i] + (int32_t)((items->item[i].count + ELEMENTS - 1) / ELEMENTS);
    return items->first_block[items->count];
}

/* ---- squares of the gradients ---- */

__global__ void squares_kernel(struct cuda_control *control, struct cuda_items items, int launch)
{
    double sum = 0;

    for (int k = 0; k < items.count; k++)
        for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < items.item[k].count;
             i += (int64_t)gridDim.x * BLOCK) {
            double g = items.item[k].gradient[i];

            sum += g * g;
        }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        control->squares[launch * CUDA_SQUARES_BLOCKS + blockIdx.x] = sum;
}

cudaError_t cuda_gradient_squares(struct cuda_control *control, const struct cuda_items *items,
                                  int launch, cudaStream_t stream)
{
    squares_kernel<<<CUDA_SQUARES_BLOCKS, BLOCK, 0, stream>>>(control, *items, launch);
    return cudaGetLastError();
}

__global__ void factor_kernel(struct cuda_control *control, const struct cuda_scalars *s,
                              int launches)
{
    double sum = 0, factor = s->unscale;

    for (int i = threadIdx.x; i < launches * CUDA_SQUARES_BLOCKS; i += BLOCK)
        sum += control->squares[i];
    sum = block_sum(sum);
    if (threadIdx.x > 0)
        return;
    if (s->clip_norm > 0) {
        double clip = s->clip_norm / (sqrt(sum) * s->unscale + 1e-6);

        factor = clip < 1 ? clip * s->unscale : s->unscale;
    }
    control->gradient_factor = (float)factor;
    control->skipped = s->finite_alone && !isfinite(sum);
}

cudaError_t cuda_gradient_factor(struct cuda_control *control, const struct cuda_scalars *scalars,
                                 int launches, cudaStream_t stream)
{
    factor_kernel<<<1, BLOCK, 0, stream>>>(control, scalars, launches);
    return cudaGetLastError();
}

/* ---- the update ---- */

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
    if (buffer)
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

__device__ static void update_element(const struct cuda_item *item, const float *c, float gradient,
                                      int64_t i)
{
    float *w = &item->parameter[i];
    float *s0 = item->state0 ? &item->state0[i] : NULL;
    float *s1 = item->state1 ? &item->state1[i] : NULL;

    switch (item->kind) {
    case OPTIMIZER_SGD:
        update_sgd(c, gradient, w, s0);
        break;
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_NADAM:
        update_adam(c, gradient, w, s0, s1);
        break;
    case OPTIMIZER_RMSPROP:
        update_rmsprop(c, gradient, w, s0, s1);
        break;
    case OPTIMIZER_LION:
        update_lion(c, gradient, w, s0);
        break;
    case OPTIMIZER_ADAGRAD:
        update_adagrad(c, gradient, w, s0);
        break;
    default:
        update_adadelta(c, gradient, w, s0, s1);
        break;
    }
}

__global__ void update_kernel(const struct cuda_control *control,
                              const struct cuda_scalars *scalars, struct cuda_items items,
                              bool summed)
{
    const float factor = summed ? control->gradient_factor : scalars->unscale;
    const float limit = scalars->clip_value;
    const struct cuda_item *item;
    const float *c;
    int64_t i;
    float g;
    int k = 0;

    if (summed && control->skipped)
        return;
    while ((int)blockIdx.x >= items.first_block[k + 1])
        k++;
    item = &items.item[k];
    c = scalars->group[item->group];
    i = (int64_t)((int)blockIdx.x - items.first_block[k]) * ELEMENTS + threadIdx.x;
    if (i >= item->count)
        return;
    g = factor * item->gradient[i];
    g = limit < g ? limit : g; /* NaN stays */
    g = -limit > g ? -limit : g;
    update_element(item, c, g, i);
}

cudaError_t cuda_optimizer_update(const struct cuda_control *control,
                                  const struct cuda_scalars *scalars,
                                  const struct cuda_items *items, bool summed, cudaStream_t stream)
{
    update_kernel<<<(unsigned)items->first_block[items->count], BLOCK, 0, stream>>>(
        control, scalars, *items, summed);
    return cudaGetLastError();
}
