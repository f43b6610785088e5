/* attention.cu: attention with memory linear in the sequence (Dao et al. 2022, arXiv:2205.14135),
 * for any width and type of numbers. Products are in float32. A block has a tile of queries (or,
 * for the gradients by keys and values, of keys) of one head, and goes through the tiles of the
 * other side. The backward part makes the probabilities again from log_sum_exp. Nothing is added up
 * in memory, so that the same bits come out every time. */
#include "engine/backends/cuda/kernels/attention.cuh"

#include <math.h>

/* A thread has OWN x OWN pairs of a tile: rows SIDE apart, beginning with its place in the block's
 * 16 x 16 threads. */
constexpr int SIDE = 16;

/* The rows of a tile in shared memory; rows are apart by a multiple of 16 bytes that puts eight of
 * them into different banks. */
template <int WIDTH, int TILE> struct tile {
    static constexpr int PITCH = WIDTH + 4;
    float value[TILE * PITCH];
};

/* Loads rows from `row0` on; beyond `rows`, and beyond the head's width, there are zeros. */
template <int WIDTH, int TILE>
__device__ static inline void load_tile(struct tile<WIDTH, TILE> &to, const struct cuda_array &from,
                                        int64_t start, int64_t row, int row0, int rows, int width)
{
    for (int k = threadIdx.x; k < TILE * WIDTH; k += BLOCK) {
        const int r = k / WIDTH, i = k % WIDTH;
        const bool known = row0 + r < rows && i < width;

        to.value[r * tile<WIDTH, TILE>::PITCH + i] =
            known ? array_load(from, start + (row0 + r) * row + i) : 0;
    }
}

/* The products of rows of a and rows of b. */
template <int WIDTH, int TILE>
__device__ static inline void multiply_rows(const struct tile<WIDTH, TILE> &a,
                                            const struct tile<WIDTH, TILE> &b,
                                            float (&sum)[TILE / SIDE][TILE / SIDE])
{
    constexpr int OWN = TILE / SIDE, PITCH = tile<WIDTH, TILE>::PITCH;
    const int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;

    for (int r = 0; r < OWN; r++)
        for (int c = 0; c < OWN; c++)
            sum[r][c] = 0;
    for (int i = 0; i < WIDTH; i += 4) {
        float4 left[OWN], right[OWN];

#pragma unroll
        for (int k = 0; k < OWN; k++) {
            left[k] = *(const float4 *)&a.value[(y + k * SIDE) * PITCH + i];
            right[k] = *(const float4 *)&b.value[(x + k * SIDE) * PITCH + i];
        }
#pragma unroll
        for (int r = 0; r < OWN; r++)
#pragma unroll
            for (int c = 0; c < OWN; c++)
                sum[r][c] += left[r].x * right[c].x + left[r].y * right[c].y +
                             left[r].z * right[c].z + left[r].w * right[c].w;
    }
}

/* A tile of factors in shared memory: [TILE][TILE + 1]. */
template <int TILE> struct factors {
    static constexpr int PITCH = TILE + 1;
    float value[TILE * PITCH];
};

/* sum += factors b, where a thread has rows SIDE apart of the factors and columns SIDE apart of b.
 * `turned`: it has columns of the factors instead. */
template <bool turned, int WIDTH, int TILE>
__device__ static inline void add_weighted(const struct factors<TILE> &a,
                                           const struct tile<WIDTH, TILE> &b,
                                           float (&sum)[TILE / SIDE][WIDTH / SIDE])
{
    constexpr int PITCH = factors<TILE>::PITCH;
    const int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;

    for (int k = 0; k < TILE; k++) {
#pragma unroll
        for (int r = 0; r < TILE / SIDE; r++) {
            const int own = y + r * SIDE;
            const float factor = a.value[turned ? k * PITCH + own : own * PITCH + k];

#pragma unroll
            for (int c = 0; c < WIDTH / SIDE; c++)
                sum[r][c] += factor * b.value[k * tile<WIDTH, TILE>::PITCH + x + c * SIDE];
        }
    }
}

/* The maximum and the sum over the SIDE threads of a row; each of them gets it. */
__device__ static inline float side_maximum(float value)
{
    for (int distance = SIDE / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
    return value;
}
__device__ static inline float side_sum(float value)
{
    for (int distance = SIDE / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    return value;
}

/* Stores the rows that a thread has, times `scale`, if they are before `rows`. */
template <int WIDTH, int TILE>
__device__ static inline void
store_rows(const float (&sum)[TILE / SIDE][WIDTH / SIDE], const float (&scale)[TILE / SIDE],
           const struct cuda_array &to, int64_t start, int64_t row, int row0, int rows, int width)
{
    const int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;

    for (int r = 0; r < TILE / SIDE; r++)
        for (int c = 0; c < WIDTH / SIDE; c++)
            if (row0 + y + r * SIDE < rows && x + c * SIDE < width)
                array_store(to, start + (row0 + y + r * SIDE) * row + x + c * SIDE,
                            sum[r][c] * scale[r]);
}

/* ---- forward ---- */

template <int WIDTH, int TILE>
__global__ void attention_kernel(const struct cuda_attention attention)
{
    constexpr int OWN = TILE / SIDE;
    __shared__ struct tile<WIDTH, TILE> queries, others; /* keys, then values */
    __shared__ struct factors<TILE> probabilities;
    const struct head head = head_of(attention, blockIdx.x);
    const int steps = (int)attention.steps, query0 = (int)(gridDim.y - 1 - blockIdx.y) * TILE;
    const int end = keys_before(attention, head, query0 + TILE);
    const int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;
    float maximum[OWN], total[OWN], sum[OWN][WIDTH / SIDE] = {};

    for (int r = 0; r < OWN; r++) {
        maximum[r] = -INFINITY;
        total[r] = 0;
    }
    load_tile(queries, attention.qkv, head.query, head.row, query0, steps, attention.width);
    for (int key0 = 0; key0 < end; key0 += TILE) {
        float product[OWN][OWN];

        __syncthreads(); /* other threads may still read the values before */
        load_tile(others, attention.qkv, head.key, head.row, key0, steps, attention.width);
        __syncthreads();
        multiply_rows(queries, others, product);
#pragma unroll
        for (int r = 0; r < OWN; r++) {
            const int query = query0 + y + r * SIDE;
            float largest = maximum[r], more = 0, factor;

            for (int c = 0; c < OWN; c++) {
                product[r][c] = is_seen(attention, head, query, key0 + x + c * SIDE)
                                    ? product[r][c] * head.scale
                                    : -INFINITY;
                largest = fmaxf(largest, product[r][c]);
            }
            largest = side_maximum(largest);
            for (int c = 0; c < OWN; c++) {
                const float p = product[r][c] == -INFINITY ? 0 : expf(product[r][c] - largest);

                probabilities.value[(y + r * SIDE) * factors<TILE>::PITCH + x + c * SIDE] = p;
                more += p;
            }
            factor = largest > -INFINITY ? expf(maximum[r] - largest) : 1;
            total[r] = total[r] * factor + side_sum(more);
            maximum[r] = largest;
            for (int c = 0; c < WIDTH / SIDE; c++)
                sum[r][c] *= factor;
        }
        __syncthreads(); /* all have read the keys, and written the probabilities */
        load_tile(others, attention.qkv, head.value, head.row, key0, steps, attention.width);
        __syncthreads();
        add_weighted<false>(probabilities, others, sum);
    }
    for (int r = 0; r < OWN; r++) {
        const int query = query0 + y + r * SIDE;

        if (attention.log_sum_exp && x == 0 && query < steps)
            attention.log_sum_exp[head.sums + query] = maximum[r] + logf(total[r]);
        total[r] = total[r] > 0 ? 1 / total[r] : total[r];
    }
    store_rows<WIDTH, TILE>(sum, total, attention.y, head.result, head.result_row, query0, steps,
                            attention.width);
}

/* ---- backward -------------------------------------------------------------------------------- */

constexpr int LANES = 32;

/* delta = dy . y, a warp for each row. */
__global__ void attention_delta_kernel(const struct cuda_attention attention)
{
    const int64_t rows = attention.batch * attention.steps * attention.heads;
    const int64_t row = (int64_t)blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
    const int64_t of = row % attention.heads, step = row / attention.heads % attention.steps;
    const int64_t sample = row / attention.heads / attention.steps;
    float sum = 0;

    if (row >= rows)
        return;
    for (int i = threadIdx.x % LANES; i < attention.width; i += LANES)
        sum += array_load(attention.dy, row * attention.width + i) *
               array_load(attention.y, row * attention.width + i);
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
    if (threadIdx.x % LANES == 0)
        attention.delta[(sample * attention.heads + of) * attention.steps + step] = sum;
}

cudaError_t cuda_attention_delta(const struct cuda_attention *attention, cudaStream_t stream)
{
    const int64_t rows = attention->batch * attention->steps * attention->heads;
    const unsigned blocks = (unsigned)((rows + BLOCK / LANES - 1) / (BLOCK / LANES));

    attention_delta_kernel<<<blocks, BLOCK, 0, stream>>>(*attention);
    return cudaGetLastError();
}

/* The tiles of a block that computes gradients. */
template <int WIDTH, int TILE> struct gradient_tiles {
    struct tile<WIDTH, TILE> queries, keys, values, gradients; /* the last ones: rows of dy */
    struct factors<TILE> probabilities, slopes;
};

/* The probabilities of a tile and their slopes: with d = dy . y,
 * slope = probability (gradient - d) scale. */
template <int WIDTH, int TILE>
__device__ static inline void make_slopes(const struct cuda_attention &attention,
                                          const struct head &head, int query0, int key0,
                                          struct gradient_tiles<WIDTH, TILE> &tiles)
{
    constexpr int OWN = TILE / SIDE;
    const int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;
    float product[OWN][OWN], gradient[OWN][OWN];

    multiply_rows(tiles.queries, tiles.keys, product);
    multiply_rows(tiles.gradients, tiles.values, gradient);
    for (int r = 0; r < OWN; r++) {
        const int query = query0 + y + r * SIDE;
        const int64_t at = head.sums + query;

        for (int c = 0; c < OWN; c++) {
            const int place = (y + r * SIDE) * factors<TILE>::PITCH + x + c * SIDE;
            float p = 0, slope = 0;

            if (is_seen(attention, head, query, key0 + x + c * SIDE)) {
                p = expf(product[r][c] * head.scale - attention.log_sum_exp[at]);
                slope = p * (gradient[r][c] - attention.delta[at]) * head.scale;
            }
            tiles.probabilities.value[place] = p;
            tiles.slopes.value[place] = slope;
        }
    }
}

template <int WIDTH, int TILE>
__global__ void attention_keys_kernel(const struct cuda_attention attention)
{
    constexpr int OWN = TILE / SIDE;
    __shared__ struct gradient_tiles<WIDTH, TILE> tiles;
    const struct head head = head_of(attention, blockIdx.x);
    const int steps = (int)attention.steps, width = attention.width, key0 = blockIdx.y * TILE;
    const int first = attention.causal ? key0 : 0;
    float dkey[OWN][WIDTH / SIDE] = {}, dvalue[OWN][WIDTH / SIDE] = {}, one[OWN];

    for (int r = 0; r < OWN; r++)
        one[r] = 1;
    load_tile(tiles.keys, attention.qkv, head.key, head.row, key0, steps, width);
    load_tile(tiles.values, attention.qkv, head.value, head.row, key0, steps, width);
    for (int query0 = first; query0 < steps && key0 < head.keys; query0 += TILE) {
        __syncthreads(); /* other threads may still read the queries before */
        load_tile(tiles.queries, attention.qkv, head.query, head.row, query0, steps, width);
        load_tile(tiles.gradients, attention.dy, head.result, head.result_row, query0, steps,
                  width);
        __syncthreads();
        make_slopes(attention, head, query0, key0, tiles);
        __syncthreads();
        add_weighted<true>(tiles.probabilities, tiles.gradients, dvalue);
        add_weighted<true>(tiles.slopes, tiles.queries, dkey);
    }
    store_rows<WIDTH, TILE>(dkey, one, attention.dqkv, head.key, head.row, key0, steps, width);
    store_rows<WIDTH, TILE>(dvalue, one, attention.dqkv, head.value, head.row, key0, steps, width);
}

template <int WIDTH, int TILE>
__global__ void attention_queries_kernel(const struct cuda_attention attention)
{
    constexpr int OWN = TILE / SIDE;
    __shared__ struct gradient_tiles<WIDTH, TILE> tiles;
    const struct head head = head_of(attention, blockIdx.x);
    const int steps = (int)attention.steps, width = attention.width;
    const int query0 = (int)(gridDim.y - 1 - blockIdx.y) * TILE;
    const int end = keys_before(attention, head, query0 + TILE);
    float dquery[OWN][WIDTH / SIDE] = {}, one[OWN];

    for (int r = 0; r < OWN; r++)
        one[r] = 1;
    load_tile(tiles.queries, attention.qkv, head.query, head.row, query0, steps, width);
    load_tile(tiles.gradients, attention.dy, head.result, head.result_row, query0, steps, width);
    for (int key0 = 0; key0 < end; key0 += TILE) {
        __syncthreads(); /* other threads may still read the keys before */
        load_tile(tiles.keys, attention.qkv, head.key, head.row, key0, steps, width);
        load_tile(tiles.values, attention.qkv, head.value, head.row, key0, steps, width);
        __syncthreads();
        make_slopes(attention, head, query0, key0, tiles);
        __syncthreads();
        add_weighted<false>(tiles.slopes, tiles.keys, dquery);
    }
    store_rows<WIDTH, TILE>(dquery, one, attention.dqkv, head.query, head.row, query0, steps,
                            width);
}

/* ---- launches -------------------------------------------------------------------------------- */

static dim3 grid_of(const struct cuda_attention *attention, int tile)
{
    return dim3((unsigned)(attention->batch * attention->heads),
                (unsigned)((attention->steps + tile - 1) / tile));
}

template <int WIDTH, int TILE>
static void launch_forward(const struct cuda_attention *attention, cudaStream_t stream)
{
    attention_kernel<WIDTH, TILE><<<grid_of(attention, TILE), BLOCK, 0, stream>>>(*attention);
}

/* Two more tiles than in the forward part have to fit into shared memory. */
template <int WIDTH, int TILE>
static void launch_backward(const struct cuda_attention *attention, cudaStream_t stream)
{
    const dim3 grid = grid_of(attention, TILE);

    attention_keys_kernel<WIDTH, TILE><<<grid, BLOCK, 0, stream>>>(*attention);
    attention_queries_kernel<WIDTH, TILE><<<grid, BLOCK, 0, stream>>>(*attention);
}

cudaError_t cuda_attention(const struct cuda_attention *attention, cudaStream_t stream)
{
    if (attention->width <= 16)
        launch_forward<16, 32>(attention, stream);
    else if (attention->width <= 32)
        launch_forward<32, 32>(attention, stream);
    else if (attention->width <= 64)
        launch_forward<64, 32>(attention, stream);
    else if (attention->width <= CUDA_ATTENTION_WIDTH_MAX)
        launch_forward<128, 32>(attention, stream);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}

cudaError_t cuda_attention_backward(const struct cuda_attention *attention, cudaStream_t stream)
{
    cudaError_t status = cuda_attention_delta(attention, stream);

    if (status != cudaSuccess)
        return status;
    if (attention->width <= 16)
        launch_backward<16, 32>(attention, stream);
    else if (attention->width <= 32)
        launch_backward<32, 32>(attention, stream);
    else if (attention->width <= 64)
        launch_backward<64, 32>(attention, stream);
    else if (attention->width <= CUDA_ATTENTION_WIDTH_MAX)
        launch_backward<128, 16>(attention, stream);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}
