/* general.cu: columns of rows, axes in another order, rows by constant numbers, sums over an axis,
 * softmax, products of matrices. Sums have a fixed order. */
#include "engine/backends/cuda/kernels/general.h"
#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

constexpr int COLUMNS = 32, ROWS = BLOCK / COLUMNS;

/* ---- columns of rows ---- */

__global__ void slice_kernel(struct cuda_slice slice, struct cuda_array rows,
                             struct cuda_array part, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(part, i,
                array_load(rows, i / slice.width * slice.row + slice.first + i % slice.width));
}

cudaError_t cuda_slice(const struct cuda_slice *slice, struct cuda_array rows,
                       struct cuda_array part, cudaStream_t stream)
{
    const int64_t count = slice->rows * slice->width;

    slice_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*slice, rows, part, count);
    return cudaGetLastError();
}

__global__ void slice_backward_kernel(struct cuda_slice slice, struct cuda_array part,
                                      struct cuda_array rows, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        const int64_t column = i % slice.row - slice.first;
        const bool inside = column >= 0 && column < slice.width;

        array_store(rows, i,
                    inside ? array_load(part, i / slice.row * slice.width + column) : 0.0f);
    }
}

cudaError_t cuda_slice_backward(const struct cuda_slice *slice, struct cuda_array part,
                                struct cuda_array rows, cudaStream_t stream)
{
    const int64_t count = slice->rows * slice->row;

    slice_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*slice, part, rows, count);
    return cudaGetLastError();
}

/* ---- axes in another order ---- */

/* The axes of the result, the batch among them: how many there are, how long each is, and how far
 * apart its neighbours stand in the operand. */
struct walk {
    int rank;
    int64_t extent[PERMUTE_RANK_MAX + 1], stride[PERMUTE_RANK_MAX + 1];
};

/* Axes that are neighbours in operand and result become one; those of one element vanish. */
static struct walk walk_of(const struct permute_attributes *how, int64_t batch)
{
    int64_t own[PERMUTE_RANK_MAX], elements = 1;
    struct walk walk = {};

    for (int i = how->rank - 1; i >= 0; i--) {
        own[i] = elements;
        elements *= how->extent[i];
    }
    for (int i = -1; i < how->rank; i++) {
        const int64_t extent = i < 0 ? batch : how->extent[how->order[i]];
        const int64_t stride = i < 0 ? elements : own[how->order[i]];

        if (extent == 1)
            continue;
        if (walk.rank > 0 && walk.stride[walk.rank - 1] == extent * stride) {
            walk.extent[walk.rank - 1] *= extent;
            walk.stride[walk.rank - 1] = stride;
        } else {
            walk.extent[walk.rank] = extent;
            walk.stride[walk.rank++] = stride;
        }
    }
    return walk;
}

__global__ void permute_kernel(struct walk walk, struct cuda_array x, struct cuda_array y,
                               int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        int64_t left = i, from = 0;

        for (int axis = walk.rank - 1; axis >= 0; axis--) {
            from += left % walk.extent[axis] * walk.stride[axis];
            left /= walk.extent[axis];
        }
        array_store(y, i, array_load(x, from));
    }
}

constexpr int TILE = 32;
constexpr int64_t TILED_MIN = 8, MATRICES_AT_ONCE = 65535;

/* Matrices whose rows are the last axis of the result, and whose columns are neighbours in the
 * operand. `other`: the axes apart from these two, and how far apart their neighbours stand in the
 * result. */
struct transposition {
    int64_t matrices, rows, columns;
    int64_t row_stride, column_stride; /* in the operand, in the result; the other one is 1 */
    struct walk other;
    int64_t other_stride[PERMUTE_RANK_MAX + 1];
};

/* A block transposes a tile, so that both sides are read and written in lines. */
__global__ void transpose_kernel(struct transposition t, int64_t column_tiles, struct cuda_array x,
                                 struct cuda_array y)
{
    __shared__ float tile[TILE][TILE + 1];
    const int64_t row = blockIdx.x / column_tiles * TILE;
    const int64_t column = blockIdx.x % column_tiles * TILE;
    const int lane = threadIdx.x % TILE;

    for (int64_t matrix = blockIdx.y; matrix < t.matrices; matrix += gridDim.y) {
        int64_t left = matrix, from = column + lane, to = row + lane;

        for (int axis = t.other.rank - 1; axis >= 0; axis--) {
            from += left % t.other.extent[axis] * t.other.stride[axis];
            to += left % t.other.extent[axis] * t.other_stride[axis];
            left /= t.other.extent[axis];
        }
        __syncthreads(); /* other threads may still read the previous tile */
        for (int k = threadIdx.x / TILE; k < TILE; k += BLOCK / TILE)
            if (row + k < t.rows && column + lane < t.columns)
                tile[k][lane] = array_load(x, from + (row + k) * t.row_stride);
        __syncthreads();
        for (int k = threadIdx.x / TILE; k < TILE; k += BLOCK / TILE)
            if (column + k < t.columns && row + lane < t.rows)
                array_store(y, to + (column + k) * t.column_stride, tile[lane][k]);
    }
}

/* Whether the walk transposes matrices that are worth a tile. */
static bool find_transposition(const struct walk *walk, struct transposition *found)
{
    const int last = walk->rank - 1;
    int64_t stride = 1;

    *found = {};
    found->matrices = 1;
    for (int axis = last; axis >= 0; axis--) {
        if (axis == last) {
            found->rows = walk->extent[axis];
            found->row_stride = walk->stride[axis];
        } else if (walk->stride[axis] == 1) {
            found->columns = walk->extent[axis];
            found->column_stride = stride;
        } else {
            found->matrices *= walk->extent[axis];
            found->other.extent[found->other.rank] = walk->extent[axis];
            found->other.stride[found->other.rank] = walk->stride[axis];
            found->other_stride[found->other.rank++] = stride;
        }
        stride *= walk->extent[axis];
    }
    return found->rows >= TILED_MIN && found->columns >= TILED_MIN;
}

cudaError_t cuda_permute(const struct permute_attributes *how, int64_t batch, struct cuda_array x,
                         struct cuda_array y, cudaStream_t stream)
{
    const struct walk walk = walk_of(how, batch);
    struct transposition found;
    int64_t count = batch;

    for (int i = 0; i < how->rank; i++)
        count *= how->extent[i];
    if (find_transposition(&walk, &found)) {
        const int64_t tiles = (found.columns + TILE - 1) / TILE;
        const int64_t matrices = min(found.matrices, MATRICES_AT_ONCE);
        const dim3 grid((unsigned)((found.rows + TILE - 1) / TILE * tiles), (unsigned)matrices);

        transpose_kernel<<<grid, BLOCK, 0, stream>>>(found, tiles, x, y);
        return cudaGetLastError();
    }
    permute_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(walk, x, y, count);
    return cudaGetLastError();
}

/* ---- rows by constant numbers ---- */

__global__ void take_kernel(struct take_attributes how, int64_t sample, struct cuda_array x,
                            const float *map, struct cuda_array y, int64_t count)
{
    const int64_t taken = how.outer * how.to * how.inner;

    FOR_EACH_ELEMENT(i, count)
    {
        const int64_t k = i % how.inner, outer = i % taken / (how.to * how.inner);
        const int64_t row = (int64_t)map[i / how.inner % how.to];

        array_store(
            y, i,
            row < 0 ? 0.0f
                    : array_load(x, i / taken * sample + (outer * how.from + row) * how.inner + k));
    }
}

cudaError_t cuda_take(const struct take_attributes *how, int64_t batch, bool shared,
                      struct cuda_array x, const float *map, struct cuda_array y,
                      cudaStream_t stream)
{
    const int64_t count = batch * how->outer * how->to * how->inner;

    take_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(
        *how, shared ? 0 : how->outer * how->from * how->inner, x, map, y, count);
    return cudaGetLastError();
}

/* What the rows that took one of a sample give to element `i` of it. */
__device__ static inline float taken_sum(const struct take_attributes &how,
                                         const struct cuda_array &dy, const float *map,
                                         int64_t sample, int64_t i)
{
    const float *begins = map + how.to, *list = begins + how.from + 1;
    const int64_t k = i % how.inner, row = i / how.inner % how.from;
    const int64_t outer = i / how.inner / how.from;
    const int64_t end = (int64_t)begins[row + 1];
    float sum = 0;

    for (int64_t p = (int64_t)begins[row]; p < end; p++)
        sum += array_load(
            dy, ((sample * how.outer + outer) * how.to + (int64_t)list[p]) * how.inner + k);
    return sum;
}

__global__ void take_backward_kernel(struct take_attributes how, struct cuda_array dy,
                                     const float *map, struct cuda_array dx, int64_t count)
{
    const int64_t sample = how.outer * how.from * how.inner;

    FOR_EACH_ELEMENT(i, count)
    array_store(dx, i, taken_sum(how, dy, map, i / sample, i % sample));
}

/* A block has COLUMNS elements of the parameter; ROWS threads share the samples of each. */
__global__ void take_backward_shared_kernel(struct take_attributes how, int64_t batch,
                                            bool accumulate, struct cuda_array dy, const float *map,
                                            struct cuda_array dx)
{
    __shared__ float shared[ROWS][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    const int64_t i = (int64_t)blockIdx.x * COLUMNS + column;
    const bool inside = i < how.outer * how.from * how.inner;
    float sum = 0;

    for (int64_t n = lane; n < batch && inside; n += ROWS)
        sum += taken_sum(how, dy, map, n, i);
    shared[lane][column] = sum;
    __syncthreads();
    if (lane > 0 || !inside)
        return;
    for (int k = 1; k < ROWS; k++)
        sum += shared[k][column];
    array_store(dx, i, sum + (accumulate ? array_load(dx, i) : 0.0f));
}

/* Few numbers that do not lie side by side have a block each, whose threads share the samples. */
constexpr int64_t FEW_ELEMENTS = 2048;

__global__ void take_backward_few_kernel(struct take_attributes how, int64_t batch, bool accumulate,
                                         struct cuda_array dy, const float *map,
                                         struct cuda_array dx)
{
    const int64_t i = blockIdx.x;
    float sum = 0;

    for (int64_t n = threadIdx.x; n < batch; n += BLOCK)
        sum += taken_sum(how, dy, map, n, i);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        array_store(dx, i, sum + (accumulate ? array_load(dx, i) : 0.0f));
}

cudaError_t cuda_take_backward(const struct take_attributes *how, int64_t batch, bool shared,
                               bool accumulate, struct cuda_array dy, const float *map,
                               struct cuda_array dx, cudaStream_t stream)
{
    const int64_t sample = how->outer * how->from * how->inner;

    if (shared && how->inner < COLUMNS && sample <= FEW_ELEMENTS)
        take_backward_few_kernel<<<(unsigned)sample, BLOCK, 0, stream>>>(*how, batch, accumulate,
                                                                         dy, map, dx);
    else if (shared)
        take_backward_shared_kernel<<<(unsigned)((sample + COLUMNS - 1) / COLUMNS), BLOCK, 0,
                                      stream>>>(*how, batch, accumulate, dy, map, dx);
    else
        take_backward_kernel<<<blocks_for(batch * sample), BLOCK, 0, stream>>>(*how, dy, map, dx,
                                                                               batch * sample);
    return cudaGetLastError();
}

/* ---- sums over an axis: in double, so that long ones stay accurate ---- */

/* A warp has one sum of few neighbours, a block that of many. */
template <int THREADS>
__global__ void row_sum_kernel(int64_t rows, int64_t middle, float factor, struct cuda_array x,
                               struct cuda_array y)
{
    const int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / THREADS;
    const int lane = threadIdx.x % THREADS;
    double sum = 0;

    if (row >= rows)
        return; /* with all of its threads */
    for (int64_t m = lane; m < middle; m += THREADS)
        sum += (double)array_load(x, row * middle + m);
    sum = row_sum<THREADS>(sum);
    if (lane == 0)
        array_store(y, row, (float)sum * factor);
}

/* A block has COLUMNS sums side by side; ROWS threads share the numbers of each. */
__global__ void column_sum_kernel(struct axis_sum_attributes how, int64_t column_blocks,
                                  struct cuda_array x, struct cuda_array y)
{
    __shared__ double shared[ROWS][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    const int64_t outer = blockIdx.x / column_blocks;
    const int64_t k = blockIdx.x % column_blocks * COLUMNS + column;
    double sum = 0;

    for (int64_t m = lane; m < how.middle && k < how.inner; m += ROWS)
        sum += (double)array_load(x, (outer * how.middle + m) * how.inner + k);
    shared[lane][column] = sum;
    __syncthreads();
    if (lane > 0 || k >= how.inner)
        return;
    for (int i = 1; i < ROWS; i++)
        sum += shared[i][column];
    array_store(y, outer * how.inner + k, (float)sum * how.factor);
}

cudaError_t cuda_axis_sum(const struct axis_sum_attributes *how, int64_t batch, struct cuda_array x,
                          struct cuda_array y, cudaStream_t stream)
{
    const int64_t outer = batch * how->outer, blocks = (how->inner + COLUMNS - 1) / COLUMNS;

    if (how->inner == 1 && how->middle <= WARP_COLUMNS_MAX)
        row_sum_kernel<WARP_THREADS>
            <<<blocks_for_warps(outer), BLOCK, 0, stream>>>(outer, how->middle, how->factor, x, y);
    else if (how->inner == 1)
        row_sum_kernel<BLOCK>
            <<<(unsigned)outer, BLOCK, 0, stream>>>(outer, how->middle, how->factor, x, y);
    else
        column_sum_kernel<<<(unsigned)(outer * blocks), BLOCK, 0, stream>>>(*how, blocks, x, y);
    return cudaGetLastError();
}

__global__ void axis_sum_backward_kernel(struct axis_sum_attributes how, struct cuda_array dy,
                                         struct cuda_array dx, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(dx, i,
                array_load(dy, i / (how.middle * how.inner) * how.inner + i % how.inner) *
                    how.factor);
}

cudaError_t cuda_axis_sum_backward(const struct axis_sum_attributes *how, int64_t batch,
                                   struct cuda_array dy, struct cuda_array dx, cudaStream_t stream)
{
    const int64_t count = batch * how->outer * how->middle * how->inner;

    axis_sum_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*how, dy, dx, count);
    return cudaGetLastError();
}

/* ---- softmax: a warp has a short row, a block a long one ---- */

template <typename Op> __device__ static inline float warp_reduce(float value, Op op)
{
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        value = op(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
    return value;
}

/* The same for all threads of the row, of which there are WARP_THREADS or BLOCK. */
template <int THREADS, typename Op>
__device__ static inline float row_reduce(float value, float nothing, Op op)
{
    value = warp_reduce(value, op);
    if constexpr (THREADS > WARP_THREADS) {
        __shared__ float shared[BLOCK / WARP_THREADS];

        __syncthreads(); /* other threads may still read the previous one */
        if (threadIdx.x % WARP_THREADS == 0)
            shared[threadIdx.x / WARP_THREADS] = value;
        __syncthreads();
        value = threadIdx.x % WARP_THREADS < BLOCK / WARP_THREADS
                    ? shared[threadIdx.x % WARP_THREADS]
                    : nothing;
        value = warp_reduce(value, op);
    }
    return value;
}

struct larger {
    __device__ float operator()(float a, float b) const
    {
        return fmaxf(a, b);
    }
};
struct added {
    __device__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

template <int THREADS>
__global__ void softmax_kernel(int64_t rows, int64_t columns, struct cuda_array x,
                               struct cuda_array y)
{
    const int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / THREADS, at = row * columns;
    const int lane = threadIdx.x % THREADS;
    float largest = -INFINITY, sum = 0;

    if (row >= rows)
        return; /* with all of its threads */
    for (int64_t c = lane; c < columns; c += THREADS)
        largest = fmaxf(largest, array_load(x, at + c));
    largest = row_reduce<THREADS>(largest, -INFINITY, larger());
    for (int64_t c = lane; c < columns; c += THREADS)
        sum += expf(array_load(x, at + c) - largest);
    sum = row_reduce<THREADS>(sum, 0, added());
    for (int64_t c = lane; c < columns; c += THREADS)
        array_store(y, at + c, expf(array_load(x, at + c) - largest) / sum);
}

template <int THREADS>
__global__ void softmax_backward_kernel(int64_t rows, int64_t columns, struct cuda_array dy,
                                        struct cuda_array y, struct cuda_array dx)
{
    const int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / THREADS, at = row * columns;
    const int lane = threadIdx.x % THREADS;
    float sum = 0;

    if (row >= rows)
        return;
    for (int64_t c = lane; c < columns; c += THREADS)
        sum += array_load(dy, at + c) * array_load(y, at + c);
    sum = row_reduce<THREADS>(sum, 0, added());
    for (int64_t c = lane; c < columns; c += THREADS)
        array_store(dx, at + c, array_load(y, at + c) * (array_load(dy, at + c) - sum));
}

cudaError_t cuda_softmax(int64_t rows, int64_t columns, struct cuda_array x, struct cuda_array y,
                         cudaStream_t stream)
{
    if (columns <= WARP_COLUMNS_MAX)
        softmax_kernel<WARP_THREADS>
            <<<blocks_for_warps(rows), BLOCK, 0, stream>>>(rows, columns, x, y);
    else
        softmax_kernel<BLOCK><<<(unsigned)rows, BLOCK, 0, stream>>>(rows, columns, x, y);
    return cudaGetLastError();
}

cudaError_t cuda_softmax_backward(int64_t rows, int64_t columns, struct cuda_array dy,
                                  struct cuda_array y, struct cuda_array dx, cudaStream_t stream)
{
    if (columns <= WARP_COLUMNS_MAX)
        softmax_backward_kernel<WARP_THREADS>
            <<<blocks_for_warps(rows), BLOCK, 0, stream>>>(rows, columns, dy, y, dx);
    else
        softmax_backward_kernel<BLOCK>
            <<<(unsigned)rows, BLOCK, 0, stream>>>(rows, columns, dy, y, dx);
    return cudaGetLastError();
}

/* ---- products ---- */

constexpr int SIDE = 16; /* of the tile that a block has */

__global__ void batch_product_kernel(struct batch_product_attributes how, struct cuda_array a,
                                     struct cuda_array b, struct cuda_array y)
{
    __shared__ float left[SIDE][SIDE + 1], right[SIDE][SIDE + 1];
    const int64_t tiles = (how.columns + SIDE - 1) / SIDE, matrix = blockIdx.y;
    const int r = threadIdx.x / SIDE, c = threadIdx.x % SIDE;
    const int64_t row = blockIdx.x / tiles * SIDE + r, column = blockIdx.x % tiles * SIDE + c;
    const int64_t a_at = matrix * how.rows * how.depth, b_at = matrix * how.depth * how.columns;
    float sum = 0;

    for (int64_t first = 0; first < how.depth; first += SIDE) {
        const int64_t da = first + c, db = first + r;

        left[r][c] = row < how.rows && da < how.depth
                         ? array_load(a, a_at + (how.transpose_a ? da * how.rows + row
                                                                 : row * how.depth + da))
                         : 0.0f;
        right[r][c] = column < how.columns && db < how.depth
                          ? array_load(b, b_at + (how.transpose_b ? column * how.depth + db
                                                                  : db * how.columns + column))
                          : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SIDE; k++)
            sum += left[r][k] * right[k][c];
        __syncthreads();
    }
    if (row < how.rows && column < how.columns)
        array_store(y, (matrix * how.rows + row) * how.columns + column, sum);
}

cudaError_t cuda_batch_product(const struct batch_product_attributes *how, int64_t batch,
                               struct cuda_array a, struct cuda_array b, struct cuda_array y,
                               cudaStream_t stream)
{
    const int64_t tiles = ((how->rows + SIDE - 1) / SIDE) * ((how->columns + SIDE - 1) / SIDE);
    const int64_t matrices = batch * how->groups, most = 65535;
    const size_t bytes[3] = {a.type == TENSOR_FLOAT32 ? sizeof(float) : sizeof(uint16_t),
                             b.type == TENSOR_FLOAT32 ? sizeof(float) : sizeof(uint16_t),
                             y.type == TENSOR_FLOAT32 ? sizeof(float) : sizeof(uint16_t)};

    for (int64_t first = 0; first < matrices; first += most) {
        const int64_t count = matrices - first < most ? matrices - first : most;
        const struct cuda_array left = {(char *)a.at + first * how->rows * how->depth * bytes[0],
                                        a.type};
        const struct cuda_array right = {
            (char *)b.at + first * how->depth * how->columns * bytes[1], b.type};
        const struct cuda_array to = {(char *)y.at + first * how->rows * how->columns * bytes[2],
                                      y.type};

        batch_product_kernel<<<dim3((unsigned)tiles, (unsigned)count), SIDE * SIDE, 0, stream>>>(
            *how, left, right, to);
    }
    return cudaGetLastError();
}
