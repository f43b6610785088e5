/* optimizer.cu: the update of all parameters in one launch for each 32 of them. */
#include "engine/backends/cuda/kernels/coefficients.h"
#include "engine/backends/cuda/kernels/update.cuh"

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

/* A thread for each group: its coefficients for this update, if it is one. */
__device__ static void count_updates(struct cuda_control *control, const struct cuda_scalars *s)
{
    const int g = threadIdx.x;

    if (g >= s->group_count)
        return;
    for (int i = 0; i < CUDA_COEFFICIENTS; i++)
        control->group[g][i] = s->group[g][i];
    coefficients_count(s->kind[g], s->step - s->loss_scale->skipped, control->group[g]);
}

__global__ void factor_kernel(struct cuda_control *control, const struct cuda_scalars *s,
                              int launches)
{
    const double unscale = s->loss_scale ? (float)(1.0 / s->loss_scale->scale) : s->unscale;
    double sum = 0, factor = unscale;

    for (int i = threadIdx.x; i < launches * CUDA_SQUARES_BLOCKS; i += BLOCK)
        sum += control->squares[i];
    if (s->loss_scale)
        count_updates(control, s);
    sum = block_sum(sum); /* after which all have read the loss scale */
    if (threadIdx.x > 0)
        return;
    if (s->clip_norm > 0) {
        double clip = s->clip_norm / (sqrt(sum) * unscale + 1e-6);

        factor = clip < 1 ? clip * unscale : unscale;
    }
    control->gradient_factor = (float)factor;
    control->skipped = s->finite_alone && !isfinite(sum);
    if (s->loss_scale)
        loss_scale_follow(s->loss_scale, control->skipped);
}

cudaError_t cuda_gradient_factor(struct cuda_control *control, const struct cuda_scalars *scalars,
                                 int launches, cudaStream_t stream)
{
    factor_kernel<<<1, BLOCK, 0, stream>>>(control, scalars, launches);
    return cudaGetLastError();
}

/* ---- the update ---- */

__global__ void update_kernel(const struct cuda_control *control,
                              const struct cuda_scalars *scalars, struct cuda_items items,
                              bool summed)
{
    const float factor = gradient_factor(control, scalars, summed);
    const struct cuda_item *item;
    const float *c;
    int64_t i;
    int k = 0;

    if (summed && control->skipped)
        return;
    while ((int)blockIdx.x >= items.first_block[k + 1])
        k++;
    item = &items.item[k];
    c = group_coefficients(control, scalars, summed, item->group);
    i = (int64_t)((int)blockIdx.x - items.first_block[k]) * ELEMENTS + threadIdx.x;
    if (i >= item->count || item->kind == OPTIMIZER_MUON) /* which does its own */
        return;
    update_element(item, c, clipped(factor * item->gradient[i], scalars->clip_value), i);
}

cudaError_t cuda_optimizer_update(const struct cuda_control *control,
                                  const struct cuda_scalars *scalars,
                                  const struct cuda_items *items, bool summed, cudaStream_t stream)
{
    update_kernel<<<(unsigned)items->first_block[items->count], BLOCK, 0, stream>>>(
        control, scalars, *items, summed);
    return cudaGetLastError();
}
