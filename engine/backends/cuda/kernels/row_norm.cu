/* row_norm.cu: layer norm and RMS norm. A warp has a row. It keeps one of up to 1,024 numbers in
 * registers; any other stays in the cache between its passes. The gradients of weight and bias are
 * sums over the rows: each block adds up some rows, and a further launch adds the blocks' sums in
 * their order. */
#include "engine/backends/cuda/kernels/transformer.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int LANES = 32, ROWS = BLOCK / LANES; /* rows of a block: one for each warp */
constexpr int PARTS_MAX = 256, ROWS_OF_PART = 4 * ROWS;

template <int WIDTH>
__device__ static inline void load_floats(const float *from, int64_t at, float (&value)[WIDTH])
{
    load(cuda_array{(void *)from, TENSOR_FLOAT32}, at, value);
}

/* ---- rows that stay in registers: GROUPS groups in each thread, all of one type ---- */

constexpr int GROUPS_MAX = 4;

/* The first column of a thread's group. */
__device__ static inline int64_t group_column(int group)
{
    return ((int64_t)group * LANES + threadIdx.x % LANES) * GROUP;
}

/* Asks for the thread's numbers of a row, all before the first one is used. */
template <typename T, int GROUPS>
__device__ static inline void load_row(const struct cuda_array &from, int64_t first, int64_t width,
                                       union packed<T> (&raw)[GROUPS])
{
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        if (group_column(g) < width)
            packed_load(&raw[g], (const T *)from.at + first + group_column(g));
}

template <typename T, int GROUPS>
__device__ static inline void store_row(const struct cuda_array &to, int64_t first, int64_t width,
                                        const struct group (&value)[GROUPS])
{
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        if (group_column(g) < width)
            group_store((T *)to.at + first + group_column(g), value[g]);
}

/* Whether eight numbers may be read at a time. */
static bool is_wide(const struct cuda_row_norm *norm)
{
    return norm->width % GROUP == 0;
}

/* How many groups a thread has; 0: the rows are too long, or not of groups. */
static int groups_of(const struct cuda_row_norm *norm)
{
    const int64_t groups = (norm->width + LANES * GROUP - 1) / (LANES * GROUP);

    return is_wide(norm) && groups <= GROUPS_MAX ? (int)groups : 0;
}

static bool is_of_type(const struct cuda_array &a, int type)
{
    return !a.at || (int)a.type == type;
}

/* Launches KERNEL<type, groups> on `blocks` blocks. */
#define LAUNCH_GROUPS(KERNEL, T, groups, blocks, ...)            \
    switch (groups) {                                            \
    case 1:                                                      \
        KERNEL<T, 1><<<blocks, BLOCK, 0, stream>>>(__VA_ARGS__); \
        break;                                                   \
    case 2:                                                      \
        KERNEL<T, 2><<<blocks, BLOCK, 0, stream>>>(__VA_ARGS__); \
        break;                                                   \
    case 3:                                                      \
        KERNEL<T, 3><<<blocks, BLOCK, 0, stream>>>(__VA_ARGS__); \
        break;                                                   \
    default:                                                     \
        KERNEL<T, 4><<<blocks, BLOCK, 0, stream>>>(__VA_ARGS__); \
    }
#define LAUNCH_TYPED(KERNEL, type, groups, blocks, ...)                          \
    switch (type) {                                                              \
    case TENSOR_BFLOAT16:                                                        \
        LAUNCH_GROUPS(KERNEL, __nv_bfloat16, groups, blocks, __VA_ARGS__) break; \
    case TENSOR_FLOAT16:                                                         \
        LAUNCH_GROUPS(KERNEL, __half, groups, blocks, __VA_ARGS__) break;        \
    default:                                                                     \
        LAUNCH_GROUPS(KERNEL, float, groups, blocks, __VA_ARGS__)                \
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

/* The same with the row in registers. The norm is of the sum as it is stored. */
template <typename T, int GROUPS>
__global__ void row_norm_short_kernel(const struct cuda_row_norm norm)
{
    const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / LANES, first = row * norm.width;
    union packed<T> x[GROUPS], residual[GROUPS];
    struct group value[GROUPS] = {};
    float center = 0, squares = 0, factor;

    if (row >= norm.rows)
        return;
    load_row(norm.x, first, norm.width, x);
    if (norm.residual.at)
        load_row(norm.residual, first, norm.width, residual);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (group_column(g) < norm.width) {
                float sum = to_float(x[g].value[k]);

                if (norm.residual.at)
                    sum = to_float(from_float<T>(sum + to_float(residual[g].value[k])));
                value[g].value[k] = sum;
                center += sum;
            }
    if (norm.residual.at)
        store_row<T>(norm.sum, first, norm.width, value);
    center = norm.centred ? warp_sum(center) / (float)norm.width : 0;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (group_column(g) < norm.width)
                squares += (value[g].value[k] - center) * (value[g].value[k] - center);
    factor = 1.0f / sqrtf(warp_sum(squares) / (float)norm.width + norm.epsilon);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        if (group_column(g) < norm.width) {
            float weight[GROUP], bias[GROUP] = {};

            load_floats(norm.weight, group_column(g), weight);
            if (norm.bias)
                load_floats(norm.bias, group_column(g), bias);
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                value[g].value[k] = (value[g].value[k] - center) * factor * weight[k] + bias[k];
        }
    store_row<T>(norm.y, first, norm.width, value);
    if (threadIdx.x % LANES == 0 && norm.mean)
        norm.mean[row] = center;
    if (threadIdx.x % LANES == 0 && norm.inverse)
        norm.inverse[row] = factor;
}

static unsigned row_blocks(int64_t rows)
{
    return (unsigned)((rows + ROWS - 1) / ROWS);
}

cudaError_t cuda_row_norm(const struct cuda_row_norm *norm, cudaStream_t stream)
{
    const int type = norm->x.type, groups = groups_of(norm);

    if (groups > 0 && is_of_type(norm->y, type) && is_of_type(norm->residual, type) &&
        is_of_type(norm->sum, type))
        LAUNCH_TYPED(row_norm_short_kernel, type, groups, row_blocks(norm->rows), *norm)
    else if (is_wide(norm))
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

/* What a thread has of the operands of a row. */
template <typename T, int GROUPS> struct operands {
    union packed<T> dy[GROUPS], x[GROUPS];
    float center, factor; /* the row's mean and inverse deviation */
};

template <typename T, int GROUPS>
__device__ static inline void load_operands(const struct cuda_row_norm &norm,
                                            const struct cuda_row_norm_gradient &gradient,
                                            int64_t row, struct operands<T, GROUPS> &to)
{
    if (row >= norm.rows)
        return;
    to.center = norm.mean ? norm.mean[row] : 0;
    to.factor = norm.inverse[row];
    load_row(gradient.dy, row * norm.width, norm.width, to.dy);
    load_row(norm.x, row * norm.width, norm.width, to.x);
}

/* Both at once: each warp writes dx of its rows and keeps its columns' sums of the gradients of
 * weight and bias; the block adds the warps' sums in their order. With numbers of 16 bits, for
 * which there are registers, a warp asks for its next row before it computes one. */
template <typename T, int GROUPS>
__global__ void __launch_bounds__(BLOCK, GROUPS <= 2 ? 2 : 1)
    row_norm_backward_kernel(const struct cuda_row_norm norm,
                             const struct cuda_row_norm_gradient gradient)
{
    __shared__ float shared[2][ROWS][LANES * GROUP];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int64_t stride = (int64_t)gridDim.x * ROWS;
    constexpr bool AHEAD = sizeof(T) == 2;
    float total[2][GROUPS][GROUP] = {};
    struct operands<T, GROUPS> own, next;

    if (AHEAD)
        load_operands(norm, gradient, (int64_t)blockIdx.x * ROWS + warp, next);
    for (int64_t row = (int64_t)blockIdx.x * ROWS + warp; row < norm.rows; row += stride) {
        union packed<T> dsum[GROUPS];
        struct group dx[GROUPS];
        float sum = 0, product = 0, center, factor, offset, slope;

        if (AHEAD)
            own = next;
        else
            load_operands(norm, gradient, row, own);
        center = own.center;
        factor = own.factor;
        if (gradient.dsum.at)
            load_row(gradient.dsum, row * norm.width, norm.width, dsum);
        if (AHEAD)
            load_operands(norm, gradient, row + stride, next);
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            if (group_column(g) < norm.width) {
                float weight[GROUP];

                load_floats(norm.weight, group_column(g), weight);
#pragma unroll
                for (int k = 0; k < GROUP; k++) {
                    const float d = to_float(own.dy[g].value[k]), scaled = d * weight[k];
                    const float distance = to_float(own.x[g].value[k]) - center;

                    sum += scaled;
                    product += scaled * distance;
                    total[0][g][k] += d * (distance * factor);
                    total[1][g][k] += d;
                }
            }
        offset = norm.centred ? -factor * warp_sum(sum) / (float)norm.width : 0;
        slope = -factor * factor * factor * warp_sum(product) / (float)norm.width;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            if (group_column(g) < norm.width) {
                float weight[GROUP];

                load_floats(norm.weight, group_column(g), weight);
#pragma unroll
                for (int k = 0; k < GROUP; k++)
                    dx[g].value[k] = to_float(own.dy[g].value[k]) * weight[k] * factor +
                                     (to_float(own.x[g].value[k]) - center) * slope + offset +
                                     (gradient.dsum.at ? to_float(dsum[g].value[k]) : 0.0f);
            }
        store_row<T>(gradient.dx, row * norm.width, norm.width, dx);
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const int64_t low = (int64_t)g * LANES * GROUP;

        __syncthreads(); /* other threads may still read the previous groups */
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            shared[0][warp][lane * GROUP + k] = total[0][g][k];
            shared[1][warp][lane * GROUP + k] = total[1][g][k];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 2 * LANES * GROUP; i += BLOCK) {
            const int which = i / (LANES * GROUP), at = i % (LANES * GROUP);
            float all = 0;

            for (int w = 0; w < ROWS; w++)
                all += shared[which][w][at];
            if (low + at < norm.width)
                gradient.parts[((int64_t)blockIdx.x * 2 + which) * norm.width + low + at] = all;
        }
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

#pragma unroll 8
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
    const int type = norm->x.type, groups = groups_of(norm);
    const unsigned parts = (unsigned)cuda_row_norm_parts(norm->rows);

    if (groups > 0 && is_of_type(gradient->dy, type) && is_of_type(gradient->dx, type) &&
        is_of_type(gradient->dsum, type))
        LAUNCH_TYPED(row_norm_backward_kernel, type, groups, parts, *norm, *gradient)
    else if (is_wide(norm))
        launch_backward<GROUP>(norm, gradient, stream);
    else
        launch_backward<1>(norm, gradient, stream);
    row_norm_total_kernel<<<blocks, BLOCK, 0, stream>>>(*gradient, norm->width, (int)parts);
    return cudaGetLastError();
}
