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

/* ---- moments ---- */

/* They are found of pieces first, so that few large groups keep a GPU busy, too. A piece is a part
 * of a channel's pixels if channels lie side by side, else a part of a group's numbers. */
struct pieces {
    int64_t row;                 /* of a sample's part: its channels, or its groups */
    int64_t length, part, parts; /* the numbers of a channel or group, of a part; the parts */
    float *mean, *square;        /* [batch, parts, row]; the squares around that mean */
};

constexpr int64_t BLOCKS_AT_ONCE = 1024, PARTS_MAX = 64;
constexpr int64_t PART_PIXELS_MIN = 64, PART_VALUES_MIN = 2048;

static struct pieces pieces_of(const struct cuda_group_norm *norm)
{
    const int64_t channel_blocks = (norm->channels + COLUMNS - 1) / COLUMNS;
    int64_t parts = BLOCKS_AT_ONCE / norm->batch, most;
    struct pieces pieces;

    if (norm->channels_last) {
        pieces.row = norm->channels;
        pieces.length = norm->pixels;
        parts /= channel_blocks;
        most = pieces.length / PART_PIXELS_MIN;
    } else {
        pieces.row = norm->groups;
        pieces.length = norm->channels / norm->groups * norm->pixels;
        parts /= norm->groups;
        most = pieces.length / PART_VALUES_MIN;
    }
    parts = parts > most ? most : parts;
    parts = parts < 1 ? 1 : parts > PARTS_MAX ? PARTS_MAX : parts;
    pieces.part = (pieces.length + parts - 1) / parts;
    pieces.parts = (pieces.length + pieces.part - 1) / pieces.part; /* none is empty */
    pieces.mean = norm->scratch;
    pieces.square = pieces.mean + norm->batch * pieces.parts * pieces.row;
    return pieces;
}

size_t cuda_group_norm_pieces(const struct cuda_group_norm *norm)
{
    const struct pieces pieces = pieces_of(norm);

    return (size_t)(2 * norm->batch * pieces.parts * pieces.row) * sizeof(float);
}

/* The sum of a column's ROWS threads; each of them gets it. */
__device__ static inline float column_sum(float value)
{
    __shared__ float shared[ROWS][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    float sum = 0;

    __syncthreads(); /* other threads may still read the previous sum */
    shared[lane][column] = value;
    __syncthreads();
    for (int k = 0; k < ROWS; k++)
        sum += shared[k][column];
    return sum;
}

/* A block has a part of the pixels of COLUMNS channels; ROWS threads share those of each. */
__global__ void channel_pieces_kernel(struct cuda_group_norm norm, struct pieces pieces,
                                      int64_t column_blocks)
{
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    const int64_t n = blockIdx.x / column_blocks, part = blockIdx.y;
    const int64_t c = blockIdx.x % column_blocks * COLUMNS + column;
    const int64_t first = part * pieces.part, end = min(first + pieces.part, pieces.length);
    const int64_t own = c < norm.channels ? end : first;
    float mean = 0, square = 0;

    for (int64_t p = first + lane; p < own; p += ROWS)
        mean += array_load(norm.x, place_of(norm, n, c, p));
    mean = column_sum(mean) / (float)(end - first);
    for (int64_t p = first + lane; p < own; p += ROWS) {
        const float x = array_load(norm.x, place_of(norm, n, c, p)) - mean;

        square += x * x;
    }
    square = column_sum(square);
    if (lane > 0 || c >= norm.channels)
        return;
    pieces.mean[(n * pieces.parts + part) * pieces.row + c] = mean;
    pieces.square[(n * pieces.parts + part) * pieces.row + c] = square;
}

/* A block has a part of a group, whose numbers lie side by side. */
__global__ void group_pieces_kernel(struct cuda_group_norm norm, struct pieces pieces)
{
    const int64_t n = blockIdx.x / norm.groups, group = blockIdx.x % norm.groups;
    const int64_t first = blockIdx.y * pieces.part, end = min(first + pieces.part, pieces.length);
    const int64_t begin = blockIdx.x * pieces.length;
    const int64_t at = (n * pieces.parts + blockIdx.y) * pieces.row + group;
    float mean = 0, square = 0;

    for (int64_t i = first + threadIdx.x; i < end; i += BLOCK)
        mean += array_load(norm.x, begin + i);
    mean = block_sum(mean) / (float)(end - first);
    for (int64_t i = first + threadIdx.x; i < end; i += BLOCK) {
        const float x = array_load(norm.x, begin + i) - mean;

        square += x * x;
    }
    square = block_sum(square);
    if (threadIdx.x == 0) {
        pieces.mean[at] = mean;
        pieces.square[at] = square;
    }
}

/* A warp joins the pieces of a group: the squares around the common mean are those around a piece's
 * own and those of the distance of the two means (Chan, Golub and LeVeque 1979). */
__global__ void moments_kernel(struct cuda_group_norm norm, struct pieces pieces, int64_t count)
{
    const int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / WARP_THREADS;
    const int64_t n = i / norm.groups, width = pieces.row / norm.groups;
    const int64_t first = n * pieces.parts * pieces.row + i % norm.groups * width;
    const double total = (double)(pieces.length * width);
    const int lane = threadIdx.x % WARP_THREADS;
    double mean = 0, square = 0;

    if (i >= count)
        return; /* with all of its threads */
    for (int64_t k = lane; k < pieces.parts * width; k += WARP_THREADS) {
        const int64_t part = k / width;
        const int64_t numbers = min(pieces.part, pieces.length - part * pieces.part);

        mean += (double)numbers * (double)pieces.mean[first + part * pieces.row + k % width];
    }
    mean = warp_sum(mean) / total;
    for (int64_t k = lane; k < pieces.parts * width; k += WARP_THREADS) {
        const int64_t part = k / width, at = first + part * pieces.row + k % width;
        const int64_t numbers = min(pieces.part, pieces.length - part * pieces.part);
        const double distance = (double)pieces.mean[at] - mean;

        square += (double)pieces.square[at] + (double)numbers * distance * distance;
    }
    square = warp_sum(square) / total;
    if (lane == 0) {
        norm.mean[i] = (float)mean;
        norm.inverse_std[i] = 1.0f / sqrtf((float)square + norm.epsilon);
    }
}

/* ---- forward ---- */

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
    const int64_t blocks = (norm->channels + COLUMNS - 1) / COLUMNS;
    const int64_t groups = norm->batch * norm->groups;
    const struct pieces pieces = pieces_of(norm);

    if (norm->channels_last)
        channel_pieces_kernel<<<dim3((unsigned)(norm->batch * blocks), (unsigned)pieces.parts),
                                BLOCK, 0, stream>>>(*norm, pieces, blocks);
    else
        group_pieces_kernel<<<dim3((unsigned)groups, (unsigned)pieces.parts), BLOCK, 0, stream>>>(
            *norm, pieces);
    moments_kernel<<<blocks_for_warps(groups), BLOCK, 0, stream>>>(*norm, pieces, groups);
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

/* A warp has a group of a sample. */
__global__ void groups_kernel(struct cuda_group_norm norm, struct kept kept, int64_t count)
{
    const int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / WARP_THREADS;
    const int64_t of_group = norm.channels / norm.groups;
    const int64_t first = i % norm.groups * of_group, row = i / norm.groups * norm.channels;
    const float share = 1.0f / (float)(of_group * norm.pixels);
    const int lane = threadIdx.x % WARP_THREADS;
    double sum = 0, product = 0;

    if (i >= count)
        return; /* with all of its threads */
    for (int64_t c = first + lane; c < first + of_group; c += WARP_THREADS) {
        sum += (double)(kept.sum[row + c] * norm.weight[c]);
        product += (double)(kept.product[row + c] * norm.weight[c]);
    }
    sum = warp_sum(sum);
    product = warp_sum(product);
    if (lane == 0) {
        const float inverse = norm.inverse_std[i];

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
    groups_kernel<<<blocks_for_warps(groups), BLOCK, 0, stream>>>(*norm, kept, groups);
    gradient_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*norm, kept, count);
    parameters_kernel<<<(unsigned)blocks, BLOCK, 0, stream>>>(*norm, kept);
    return cudaGetLastError();
}
