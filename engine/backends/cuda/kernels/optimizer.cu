/* optimizer.cu: updates the parameters, with one launch for each 32 of them. */
#include "engine/backends/cuda/kernels/update.cuh"

#include <math.h>

/* A thread has QUAD adjacent elements, so that it waits for memory once. */
constexpr int64_t ELEMENTS = BLOCK * QUAD; /* of a block */

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

    for (int k = 0; k < items.count; k++) {
        const struct cuda_array &gradient = items.item[k].gradient;
        const int64_t count = items.item[k].count;

        FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
        {
            const int64_t first = g * GROUP;

            if (first + GROUP <= count) {
                const struct group group = array_load_group(gradient, first);

                for (int i = 0; i < GROUP; i++)
                    sum += (double)group.value[i] * group.value[i];
            } else {
                for (int64_t i = first; i < count; i++)
                    sum += (double)array_load(gradient, i) * array_load(gradient, i);
            }
        }
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

/* A thread for each group computes the group's coefficients for this update, unless it is
 * skipped. */
__device__ static void count_updates(struct cuda_control *control, const struct cuda_scalars *s)
{
    for (int g = threadIdx.x; g < s->group_count; g += BLOCK) {
        for (int i = 0; i < UPDATE_COEFFICIENTS; i++)
            control->group[g][i] = s->group[g][i];
        update_coefficients_count(s->step - s->loss_scale->skipped, control->group[g]);
    }
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
    sum = block_sum(sum); /* behind it, all threads have read the loss scale */
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

__device__ static inline void quad_load(const float *from, float (&value)[QUAD])
{
    const float4 v = *(const float4 *)from;

    value[0] = v.x;
    value[1] = v.y;
    value[2] = v.z;
    value[3] = v.w;
}

__device__ static inline void quad_store(float *to, const float (&value)[QUAD])
{
    *(float4 *)to = make_float4(value[0], value[1], value[2], value[3]);
}

/* Loads four gradients from element i on, which is a multiple of four. */
__device__ static inline void quad_load_gradient(const struct cuda_array &a, int64_t i,
                                                 float (&value)[QUAD])
{
    union {
        uint2 word;
        __nv_bfloat16 brain[QUAD];
        __half half[QUAD];
    } raw = {};

    if (a.type == TENSOR_FLOAT32) {
        quad_load((const float *)a.at + i, value);
        return;
    }
    raw.word = *(const uint2 *)((const uint16_t *)a.at + i);
    for (int k = 0; k < QUAD; k++)
        value[k] = a.type == TENSOR_BFLOAT16 ? to_float(raw.brain[k]) : to_float(raw.half[k]);
}

__device__ static void update_quad(const struct cuda_item &item, const float *c, float factor,
                                   float limit, int64_t i)
{
    float w[QUAD], g[QUAD], s0[QUAD] = {}, s1[QUAD] = {}, s2[QUAD] = {};

    quad_load(item.parameter + i, w);
    quad_load_gradient(item.gradient, i, g);
    if (item.state0)
        quad_load(item.state0 + i, s0);
    if (item.state1)
        quad_load(item.state1 + i, s1);
    if (item.state2)
        quad_load(item.state2 + i, s2);
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        update_value(item.formula, c, clipped(factor * g[k], limit), &w[k], &s0[k], &s1[k], &s2[k]);
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        w[k] = rounded_to(item.rounding, w[k]);
    quad_store(item.parameter + i, w);
    if (item.state0)
        quad_store(item.state0 + i, s0);
    if (item.state1)
        quad_store(item.state1 + i, s1);
    if (item.state2)
        quad_store(item.state2 + i, s2);
}

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
    if (item->formula == FORMULA_WHOLE)
        return;
    i = (int64_t)((int)blockIdx.x - items.first_block[k]) * ELEMENTS + QUAD * threadIdx.x;
    if (i + QUAD <= item->count)
        update_quad(*item, c, factor, scalars->clip_value, i);
    else
        for (; i < item->count; i++)
            update_element(item, c,
                           clipped(factor * array_load(item->gradient, i), scalars->clip_value), i);
}

cudaError_t cuda_optimizer_update(const struct cuda_control *control,
                                  const struct cuda_scalars *scalars,
                                  const struct cuda_items *items, bool summed, cudaStream_t stream)
{
    update_kernel<<<(unsigned)items->first_block[items->count], BLOCK, 0, stream>>>(
        control, scalars, *items, summed);
    return cudaGetLastError();
}
