/* row_norm.cu: layer norm and RMS norm. A warp has a row, which stays in the cache between its
 * passes. The gradients of weight and bias are sums over the rows: each block adds up some rows of
 * some columns, and a second launch adds the blocks' sums in their order. */
#include "engine/backends/cuda/kernels/transformer.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int LANES = 32, ROWS = BLOCK / LANES; /* rows of a block: one for each warp */
constexpr int PARTS_MAX = 256, ROWS_OF_PART = 4 * ROWS;

/* The sum over the warp; every thread gets it. */
__device__ static inline float warp_sum(float value)
{
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    return value;
}

template <int WIDTH>
__device__ static inline void load_floats(const float *from, int64_t at, float (&value)[WIDTH])
{
    load(cuda_array{(void *)from, TENSOR_FLOAT32}, at, value);
}

/* ---- forward ---- */

/* Stores x + residual, whose sum the rows then are. */
template <int WIDTH>
__device__ static inline void add_residual(const struct cuda_row_norm &norm, int64_t first)
{
    for (int64_t i = threadIdx.x % LANES * WIDTH; i < norm.width; i += LANES * WIDTH) {
        float value[WIDTH], other[WIDTH];

        load(norm.x, first + i, value);
        load(norm.residual, first + i, other);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            value[k] += other[k];
        store(norm.sum, first + i, value);
    }
}

template <int WIDTH> __global__ void row_norm_kernel(const struct cuda_row_norm norm)
{
    const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / LANES, first = row * norm.width;
    const int64_t begin = threadIdx.x % LANES * WIDTH;
    const struct cuda_array x = norm.residual.at ? norm.sum : norm.x;
    float value[WIDTH], weight[WIDTH], bias[WIDTH], center = 0, squares = 0, factor;

    if (row >= norm.rows)
        return;
    if (norm.residual.at)
        add_residual<WIDTH>(norm, first);
    for (int64_t i = begin; norm.centred && i < norm.width; i += LANES * WIDTH) {
        load(x, first + i, value);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            center += value[k];
    }
    if (norm.centred)
        center = warp_sum(center) / (float)norm.width;
    for (int64_t i = begin; i < norm.width; i += LANES * WIDTH) {
        load(x, first + i, value);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            squares += (value[k] - center) * (value[k] - center);
    }
    factor = 1.0f / sqrtf(warp_sum(squares) / (float)norm.width + norm.epsilon);
    for (int64_t i = begin; i < norm.width; i += LANES * WIDTH) {
        load(x, first + i, value);
        load_floats(norm.weight, i, weight);
        if (norm.bias)
            load_floats(norm.bias, i, bias);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            value[k] = (value[k] - center) * factor * weight[k] + (norm.bias ? bias[k] : 0);
        store(norm.y, first + i, value);
    }
    if (begin == 0 && norm.mean)
        norm.mean[row] = center;
    if (begin == 0 && norm.inverse)
        norm.inverse[row] = factor;
}

static unsigned row_blocks(int64_t rows)
{
    return (unsigned)((rows + ROWS - 1) / ROWS);
}

/* Whether eight numbers may be read at a time. */
static bool is_wide(const struct cuda_row_norm *norm)
{
    return norm->width % GROUP == 0;
}

cudaError_t cuda_row_norm(const struct cuda_row_norm *norm, cudaStream_t stream)
{
    if (is_wide(norm))
        row_norm_kernel<GROUP><<<row_blocks(norm->rows), BLOCK, 0, stream>>>(*norm);
    else
        row_norm_kernel<1><<<row_blocks(norm->rows), BLOCK, 0, stream>>>(*norm);
    return cudaGetLastError();
}

/* ---- backward: see engine/backends/cpu/kernels/row_norm.c ---- */

template <int WIDTH>
__global__ void row_norm_data_kernel(const struct cuda_row_norm norm,
                                     const struct cuda_row_norm_gradient gradient)
{
    const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / LANES, first = row * norm.width;
    const int64_t begin = threadIdx.x % LANES * WIDTH;
    float dy[WIDTH], x[WIDTH], weight[WIDTH], dsum[WIDTH], sum = 0, product = 0;
    float center, factor, offset, slope;

    if (row >= norm.rows)
        return;
    center = norm.mean ? norm.mean[row] : 0;
    factor = norm.inverse[row];
    for (int64_t i = begin; i < norm.width; i += LANES * WIDTH) {
        load(gradient.dy, first + i, dy);
        load(norm.x, first + i, x);
        load_floats(norm.weight, i, weight);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            sum += dy[k] * weight[k];
            product += dy[k] * weight[k] * (x[k] - center);
        }
    }
    offset = norm.centred ? -factor * warp_sum(sum) / (float)norm.width : 0;
    slope = -factor * factor * factor * warp_sum(product) / (float)norm.width;
    for (int64_t i = begin; i < norm.width; i += LANES * WIDTH) {
        load(gradient.dy, first + i, dy);
        load(norm.x, first + i, x);
        load_floats(norm.weight, i, weight);
        if (gradient.dsum.at)
            load(gradient.dsum, first + i, dsum);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            x[k] = dy[k] * weight[k] * factor + (x[k] - center) * slope + offset +
                   (gradient.dsum.at ? dsum[k] : 0);
        store(gradient.dx, first + i, x);
    }
}

/* A block has LANES x WIDTH columns. Its warps take the rows of a part in turn, and their sums are
 * added in their order. */
template <int WIDTH>
__global__ void row_norm_weights_kernel(const struct cuda_row_norm norm,
                                        const struct cuda_row_norm_gradient gradient)
{
    __shared__ float shared[2][ROWS][LANES * WIDTH];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int64_t low = (int64_t)blockIdx.x * LANES * WIDTH, column = low + lane * WIDTH;
    const int64_t stride = (int64_t)gridDim.y * ROWS;
    float dy[WIDTH], x[WIDTH], sum[2][WIDTH] = {};

    for (int64_t row = (int64_t)blockIdx.y * ROWS + warp; row < norm.rows && column < norm.width;
         row += stride) {
        const float center = norm.mean ? norm.mean[row] : 0, factor = norm.inverse[row];

        load(gradient.dy, row * norm.width + column, dy);
        load(norm.x, row * norm.width + column, x);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            sum[0][k] += dy[k] * ((x[k] - center) * factor);
            sum[1][k] += dy[k];
        }
    }
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        shared[0][warp][lane * WIDTH + k] = sum[0][k];
        shared[1][warp][lane * WIDTH + k] = sum[1][k];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * LANES * WIDTH; i += BLOCK) {
        const int which = i / (LANES * WIDTH), at = i % (LANES * WIDTH);
        float total = 0;

        for (int w = 0; w < ROWS; w++)
            total += shared[which][w][at];
        if (low + at < norm.width)
            gradient.parts[((int64_t)blockIdx.y * 2 + which) * norm.width + low + at] = total;
    }
}

/* A block adds up LANES columns of the parts: first those of weight, then those of bias. */
__global__ void row_norm_total_kernel(const struct cuda_row_norm_gradient gradient, int64_t width,
                                      int parts)
{
    __shared__ float shared[ROWS][LANES];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int64_t column = (int64_t)blockIdx.x * LANES + lane, i = column % width;
    const bool is_bias = column >= width, known = column < 2 * width;
    float *to = is_bias ? gradient.dbias : gradient.dweight, total = 0;

    for (int p = warp; p < parts && known; p += ROWS)
        total += gradient.parts[(int64_t)p * 2 * width + column];
    shared[warp][lane] = total;
    __syncthreads();
    if (warp > 0 || !known || !to)
        return;
    for (int w = 1; w < ROWS; w++)
        total += shared[w][lane];
    to[i] = (is_bias ? gradient.adds_bias : gradient.adds_weight) ? to[i] + total : total;
}

int cuda_row_norm_parts(int64_t rows)
{
    int64_t parts = (rows + ROWS_OF_PART - 1) / ROWS_OF_PART;

    return (int)(parts < PARTS_MAX ? parts : PARTS_MAX);
}

template <int WIDTH>
static void launch_backward(const struct cuda_row_norm *norm,
                            const struct cuda_row_norm_gradient *gradient, cudaStream_t stream)
{
    const int64_t columns = (norm->width + LANES * WIDTH - 1) / (LANES * WIDTH);
    const dim3 grid((unsigned)columns, (unsigned)cuda_row_norm_parts(norm->rows));

    row_norm_data_kernel<WIDTH><<<row_blocks(norm->rows), BLOCK, 0, stream>>>(*norm, *gradient);
    row_norm_weights_kernel<WIDTH><<<grid, BLOCK, 0, stream>>>(*norm, *gradient);
}

cudaError_t cuda_row_norm_backward(const struct cuda_row_norm *norm,
                                   const struct cuda_row_norm_gradient *gradient,
                                   cudaStream_t stream)
{
    const int64_t columns = norm->width * (gradient->dbias ? 2 : 1);
    const unsigned blocks = (unsigned)((columns + LANES - 1) / LANES);

    if (is_wide(norm))
        launch_backward<GROUP>(norm, gradient, stream);
    else
        launch_backward<1>(norm, gradient, stream);
    row_norm_total_kernel<<<blocks, BLOCK, 0, stream>>>(*gradient, norm->width,
                                                        cuda_row_norm_parts(norm->rows));
    return cudaGetLastError();
}
