/* tokens.cu: what stands around the blocks of a transformer: positions, a token before the others,
 * one vector for all steps. Sums over steps have a fixed order. */
#include "engine/backends/cuda/kernels/transformer.h"
#include "engine/backends/cuda/kernels/values.cuh"

/* ---- positions ---- */

__global__ void add_positions_kernel(struct cuda_array x, const float *positions,
                                     struct cuda_array y, int64_t all, int64_t count)
{
    FOR_EACH_ELEMENT(i, all)
    array_store(y, i, array_load(x, i) + positions[i % count]);
}

/* The same eight numbers at a time; `count` is a multiple of eight. */
__global__ void add_positions_groups_kernel(struct cuda_array x, const float *positions,
                                            struct cuda_array y, int64_t all, int64_t count)
{
    FOR_EACH_ELEMENT(g, all / GROUP)
    {
        struct group value = array_load_group(x, g * GROUP);
        const struct group more = group_load(positions + g * GROUP % count);

#pragma unroll
        for (int k = 0; k < GROUP; k++)
            value.value[k] += more.value[k];
        array_store_group(y, g * GROUP, value);
    }
}

cudaError_t cuda_add_positions(struct cuda_array x, const float *positions, struct cuda_array y,
                               int64_t batch, int64_t count, cudaStream_t stream)
{
    if (count % GROUP == 0) {
        add_positions_groups_kernel<<<blocks_for(batch * count / GROUP), BLOCK, 0, stream>>>(
            x, positions, y, batch * count, count);
        return cudaGetLastError();
    }
    add_positions_kernel<<<blocks_for(batch * count), BLOCK, 0, stream>>>(x, positions, y,
                                                                          batch * count, count);
    return cudaGetLastError();
}

/* A block has one step of some samples: it makes the cosines and sines of the step's angles in
 * double, as the CPU backend does, and turns the pairs of all heads. */
constexpr int SAMPLES = 16; /* of a block */
constexpr int PAIRS_MAX = 1024;

__global__ void rotary_kernel(const struct cuda_rotary rotary, struct cuda_array x,
                              struct cuda_array y)
{
    __shared__ float cosine[PAIRS_MAX], sine[PAIRS_MAX];
    const int half = rotary.width / 2, pairs = 3 * rotary.heads * half;
    const int64_t step = blockIdx.x, first = (int64_t)blockIdx.y * SAMPLES;
    const int64_t samples = min((int64_t)SAMPLES, rotary.batch - first);

    for (int i = threadIdx.x; i < half; i += BLOCK) {
        const double angle =
            (double)step / pow((double)rotary.base, (double)(2 * i) / (double)rotary.width);

        cosine[i] = (float)cos(angle);
        sine[i] = (float)(rotary.inverse ? -sin(angle) : sin(angle));
    }
    __syncthreads();
    for (int64_t k = threadIdx.x; k < samples * pairs; k += BLOCK) {
        const int pair = (int)(k % pairs), head = pair / half, i = pair % half;
        const int64_t at = ((first + k / pairs) * rotary.steps + step) * 2 * pairs +
                           (int64_t)head * rotary.width + i;
        const float a = array_load(x, at), b = array_load(x, at + half);
        const bool turned = head < 2 * rotary.heads; /* a query or a key, no value */

        array_store(y, at, turned ? a * cosine[i] - b * sine[i] : a);
        array_store(y, at + half, turned ? b * cosine[i] + a * sine[i] : b);
    }
}

cudaError_t cuda_rotary(const struct cuda_rotary *rotary, struct cuda_array x, struct cuda_array y,
                        cudaStream_t stream)
{
    const dim3 grid((unsigned)rotary->steps, (unsigned)((rotary->batch + SAMPLES - 1) / SAMPLES));

    if (rotary->width > 2 * PAIRS_MAX)
        return cudaErrorInvalidValue;
    rotary_kernel<<<grid, BLOCK, 0, stream>>>(*rotary, x, y);
    return cudaGetLastError();
}

/* ---- a token before the others ---- */

__global__ void prepend_token_kernel(struct cuda_array x, const float *token, struct cuda_array y,
                                     int64_t steps, int64_t features, int64_t count)
{
    const int64_t sample = (1 + steps) * features;

    FOR_EACH_ELEMENT(i, count)
    {
        const int64_t at = i % sample;

        array_store(y, i,
                    at < features ? token[at] : array_load(x, i - (i / sample + 1) * features));
    }
}

cudaError_t cuda_prepend_token(struct cuda_array x, const float *token, struct cuda_array y,
                               int64_t batch, int64_t steps, int64_t features, cudaStream_t stream)
{
    const int64_t count = batch * (1 + steps) * features;

    prepend_token_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(x, token, y, steps, features,
                                                                  count);
    return cudaGetLastError();
}

__global__ void prepend_token_backward_kernel(struct cuda_array dy, struct cuda_array dx,
                                              int64_t steps, int64_t features, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(dx, i, array_load(dy, i + (i / (steps * features) + 1) * features));
}

cudaError_t cuda_prepend_token_backward(struct cuda_array dy, struct cuda_array dx, int64_t batch,
                                        int64_t steps, int64_t features, cudaStream_t stream)
{
    const int64_t count = batch * steps * features;

    prepend_token_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(dy, dx, steps, features,
                                                                           count);
    return cudaGetLastError();
}

/* ---- one vector for all steps ---- */

/* The steps of a sequence that count are [first, end). */
struct steps {
    int64_t first, end;
};

__device__ static inline struct steps pooled_steps(const struct cuda_step_pool &pool,
                                                   int64_t sample)
{
    int64_t length = pool.lengths ? pool.lengths[sample] : pool.steps;

    length = max((int64_t)1, min(length, pool.steps));
    if (pool.pooled == CUDA_FIRST_STEP)
        length = 1;
    return {pool.pooled == CUDA_LAST_STEP ? length - 1 : 0, length};
}

constexpr int COLUMNS = 32, ROWS = BLOCK / COLUMNS;

/* A block has a sample and COLUMNS features; ROWS threads share the steps of each. */
__global__ void step_pool_kernel(const struct cuda_step_pool pool, struct cuda_array x,
                                 struct cuda_array y)
{
    __shared__ float shared[ROWS][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    const int64_t sample = blockIdx.x, feature = (int64_t)blockIdx.y * COLUMNS + column;
    const struct steps steps = pooled_steps(pool, sample);
    float sum = 0;

    for (int64_t t = steps.first + lane; t < steps.end && feature < pool.features; t += ROWS)
        sum += array_load(x, (sample * pool.steps + t) * pool.features + feature);
    shared[lane][column] = sum;
    __syncthreads();
    if (lane > 0 || feature >= pool.features)
        return;
    for (int k = 1; k < ROWS; k++)
        sum += shared[k][column];
    array_store(y, sample * pool.features + feature, sum / (float)(steps.end - steps.first));
}

cudaError_t cuda_step_pool(const struct cuda_step_pool *pool, struct cuda_array x,
                           struct cuda_array y, cudaStream_t stream)
{
    const dim3 grid((unsigned)pool->batch, (unsigned)((pool->features + COLUMNS - 1) / COLUMNS));

    step_pool_kernel<<<grid, BLOCK, 0, stream>>>(*pool, x, y);
    return cudaGetLastError();
}

__global__ void step_pool_backward_kernel(const struct cuda_step_pool pool, struct cuda_array dy,
                                          struct cuda_array dx, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        const int64_t row = i / pool.features, sample = row / pool.steps, t = row % pool.steps;
        const struct steps steps = pooled_steps(pool, sample);
        const bool counts = t >= steps.first && t < steps.end;

        array_store(dx, i,
                    counts ? array_load(dy, sample * pool.features + i % pool.features) /
                                 (float)(steps.end - steps.first)
                           : 0);
    }
}

cudaError_t cuda_step_pool_backward(const struct cuda_step_pool *pool, struct cuda_array dy,
                                    struct cuda_array dx, cudaStream_t stream)
{
    const int64_t count = pool->batch * pool->steps * pool->features;

    step_pool_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*pool, dy, dx, count);
    return cudaGetLastError();
}
