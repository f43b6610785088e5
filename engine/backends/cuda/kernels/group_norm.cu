/* group_norm.cu: normalisation of groups of channels of one sample, and its gradient, by the
 * formulas of engine/backends/cpu/kernels/group_norm.c. Sums have a fixed order. */
#include "engine/backends/cuda/kernels/general.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int COLUMNS = 32, ROWS = BLOCK / COLUMNS;

/* Where pixel p of channel c of sample n is. */
__device__ static inline int64_t place_of(const struct cuda_group_norm &norm, int64_t n, int64_t c,
                                          int64_t p)
{
    return norm.channels_last ? (n * norm.pixels + p) * norm.channels + c
                              : (n * norm.channels + c) * norm.pixels + p;
}

/* Element i of a group, neighbours in memory side by side. */
__device__ static inline int64_t member_of(const struct cuda_group_norm &norm, int64_t n,
                                           int64_t group, int64_t of_group, int64_t i)
{
    const int64_t c = norm.channels_last ? i % of_group : i / norm.pixels;
    const int64_t p = norm.channels_last ? i / of_group : i % norm.pixels;

    return place_of(norm, n, group * of_group + c, p);
}

/* A block has a group of a sample: first its mean, then its variance around it. */
__global__ void moments_kernel(struct cuda_group_norm norm)
{
    const int64_t n = blockIdx.x / norm.groups, group = blockIdx.x % norm.groups;
    const int64_t of_group = norm.channels / norm.groups, count = of_group * norm.pixels;
    float mean = 0, square = 0;

    for (int64_t i = threadIdx.x; i < count; i += BLOCK)
        mean += array_load(norm.x, member_of(norm, n, group, of_group, i));
    mean = block_sum(mean) / (float)count;
    for (int64_t i = threadIdx.x; i < count; i += BLOCK) {
        const float x = array_load(norm.x, member_of(norm, n, group, of_group, i)) - mean;

        square += x * x;
    }
    square = block_sum(square) / (float)count;
    if (threadIdx.x == 0) {
        norm.mean[blockIdx.x] = mean;
        norm.inverse_std[blockIdx.x] = 1.0f / sqrtf(square + norm.epsilon);
    }
}

struct member {
    int64_t n, c, group; /* the number of the group among those of all samples */
};

__device__ static inline struct member owner_of(const struct cuda_group_norm &norm, int64_t i)
{
    const int64_t n = i / (norm.channels * norm.pixels);
    const int64_t c = norm.channels_last ? i % norm.channels : i / norm.pixels % norm.channels;

    return {n, c, n * norm.groups + c / (norm.channels / norm.groups)};
}

__global__ void normalise_kernel(struct cuda_group_norm norm, struct cuda_array y, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        const struct member at = owner_of(norm, i);

        array_store(y, i,
                    (array_load(norm.x, i) - norm.mean[at.group]) *
                            (norm.inverse_std[at.group] * norm.weight[at.c]) +
                        norm.bias[at.c]);
    }
}

cudaError_t cuda_group_norm(const struct cuda_group_norm *norm, struct cuda_array y,
                            cudaStream_t stream)
{
    const int64_t count = norm->batch * norm->channels * norm->pixels;

    moments_kernel<<<(unsigned)(norm->batch * norm->groups), BLOCK, 0, stream>>>(*norm);
    normalise_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*norm, y, count);
    return cudaGetLastError();
}

/* ---- the gradient ---- */

/* What is kept in the scratch: of each sample and channel the sums of dy and of dy times the
 * normalised x; of each sample and group what is added to dx: an offset, and a factor of x less its
 * mean. */
struct kept {
    float *sum, *product;   /* [batch, channels] */
    float *offset, *factor; /* [batch, groups] */
};

static struct kept kept_in(const struct cuda_group_norm *norm)
{
    const int64_t rows = norm->batch * norm->channels, groups = norm->batch * norm->groups;
    float *at = norm->scratch;

    return {at, at + rows, at + 2 * rows, at + 2 * rows + groups};
}

size_t cuda_group_norm_scratch(const struct cuda_group_norm *norm)
{
    return (size_t)(2 * norm->batch * (norm->channels + norm->groups)) * sizeof(float);
}

/* A block has COLUMNS channels of a sample; ROWS threads share the pixels of each. */
__global__ void columns_kernel(struct cuda_group_norm norm, struct kept kept, int64_t column_blocks)
{
    __shared__ float sums[ROWS][COLUMNS], products[ROWS][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    const int64_t n = blockIdx.x / column_blocks;
    const int64_t c = blockIdx.x % column_blocks * COLUMNS + column;
    const bool inside = c < norm.channels;
    const int64_t group = n * norm.groups + c / (norm.channels / norm.groups);
    const float mean = inside ? norm.mean[group] : 0;
    float sum = 0, product = 0;

    for (int64_t p = lane; p < norm.pixels && inside; p += ROWS) {
        const int64_t at = place_of(norm, n, c, p);
        const float dy = array_load(norm.dy, at);

        sum += dy;
        product += dy * (array_load(norm.x, at) - mean);
    }
    sums[lane][column] = sum;
    products[lane][column] = product;
    __syncthreads();
    if (lane > 0 || !inside)
        return;
    for (int k = 1; k < ROWS; k++) {
        sum += sums[k][column];
        product += products[k][column];
    }
    kept.sum[n * norm.channels + c] = sum;
    kept.product[n * norm.channels + c] = product * norm.inverse_std[group];
}

/* The same with a block for each channel, whose pixels lie side by side. */
__global__ void planes_kernel(struct cuda_group_norm norm, struct kept kept)
{
    const int64_t n = blockIdx.x / norm.channels, c = blockIdx.x % norm.channels;
    const int64_t group = n * norm.groups + c / (norm.channels / norm.groups);
    const float mean = norm.mean[group];
    float sum = 0, product = 0;

    for (int64_t p = threadIdx.x; p < norm.pixels; p += BLOCK) {
        const int64_t at = place_of(norm, n, c, p);
        const float dy = array_load(norm.dy, at);

        sum += dy;
        product += dy * (array_load(norm.x, at) - mean);
    }
    sum = block_sum(sum);
    product = block_sum(product);
    if (threadIdx.x == 0) {
        kept.sum[blockIdx.x] = sum;
        kept.product[blockIdx.x] = product * norm.inverse_std[group];
    }
}

__global__ void groups_kernel(struct cuda_group_norm norm, struct kept kept, int64_t count)
{
    const int64_t of_group = norm.channels / norm.groups;
    const float share = 1.0f / (float)(of_group * norm.pixels);

    FOR_EACH_ELEMENT(i, count)
    {
        const int64_t first = i % norm.groups * of_group;
        const int64_t row = i / norm.groups * norm.channels;
        const float inverse = norm.inverse_std[i];
        double sum = 0, product = 0;

        for (int64_t c = first; c < first + of_group; c++) {
            sum += (double)(kept.sum[row + c] * norm.weight[c]);
            product += (double)(kept.product[row + c] * norm.weight[c]);
        }
        kept.offset[i] = (float)sum * -share * inverse;
        kept.factor[i] = (float)product * -share * inverse * inverse;
    }
}

__global__ void gradient_kernel(struct cuda_group_norm norm, struct kept kept, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        const struct member at = owner_of(norm, i);

        array_store(norm.dx, i,
                    array_load(norm.dy, i) * (norm.weight[at.c] * norm.inverse_std[at.group]) +
                        kept.offset[at.group] +
                        (array_load(norm.x, i) - norm.mean[at.group]) * kept.factor[at.group]);
    }
}

/* A block has COLUMNS channels; ROWS threads share the samples of each. */
__global__ void parameters_kernel(struct cuda_group_norm norm, struct kept kept)
{
    __shared__ float sums[ROWS][COLUMNS], products[ROWS][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    const int64_t c = (int64_t)blockIdx.x * COLUMNS + column;
    float sum = 0, product = 0;

    for (int64_t n = lane; n < norm.batch && c < norm.channels; n += ROWS) {
        sum += kept.sum[n * norm.channels + c];
        product += kept.product[n * norm.channels + c];
    }
    sums[lane][column] = sum;
    products[lane][column] = product;
    __syncthreads();
    if (lane > 0 || c >= norm.channels)
        return;
    for (int k = 1; k < ROWS; k++) {
        sum += sums[k][column];
        product += products[k][column];
    }
    norm.dbias[c] = sum + (norm.accumulate_bias ? norm.dbias[c] : 0.0f);
    norm.dweight[c] = product + (norm.accumulate_weight ? norm.dweight[c] : 0.0f);
}

cudaError_t cuda_group_norm_backward(const struct cuda_group_norm *norm, cudaStream_t stream)
{
    const struct kept kept = kept_in(norm);
    const int64_t blocks = (norm->channels + COLUMNS - 1) / COLUMNS;
    const int64_t groups = norm->batch * norm->groups;
    const int64_t count = norm->batch * norm->channels * norm->pixels;

    if (norm->channels_last)
        columns_kernel<<<(unsigned)(norm->batch * blocks), BLOCK, 0, stream>>>(*norm, kept, blocks);
    else
        planes_kernel<<<(unsigned)(norm->batch * norm->channels), BLOCK, 0, stream>>>(*norm, kept);
    groups_kernel<<<blocks_for(groups), BLOCK, 0, stream>>>(*norm, kept, groups);
    gradient_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*norm, kept, count);
    parameters_kernel<<<(unsigned)blocks, BLOCK, 0, stream>>>(*norm, kept);
    return cudaGetLastError();
}
