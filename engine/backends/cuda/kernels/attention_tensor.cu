/* attention_tensor.cu: attention as in attention.cu, by tensor cores, for numbers of 16 bits. A
 * warp has 16 rows of one side, as operands in its registers, and goes through tiles of the other
 * side in shared memory. A block of products goes from one product to the next in registers: what a
 * thread has of a result is what it needs of an operand (Dao 2023, arXiv:2307.08691). Sums are
 * float32; probabilities and slopes are rounded to 16 bits, as operands. */
#include "engine/backends/cuda/kernels/attention_fragments.cuh"

#include <math.h>

constexpr int WARPS = 4, THREADS = 32 * WARPS;
constexpr int ROWS = WARPS * STRIP; /* rows of a block */
constexpr int TILE = 64;            /* rows of a tile */

/* ---- tiles ---- */

/* A tile in shared memory. The pitch puts eight rows into different banks. */
template <typename T, int WIDTH> struct tile {
    static constexpr int PITCH = WIDTH + 8;
    alignas(16) uint16_t value[TILE * PITCH];
};

/* Loads rows from `row0` on; beyond `rows`, and beyond the head's width, there are zeros. */
template <typename T, int WIDTH>
__device__ static inline void load_tile(struct tile<T, WIDTH> &to, const struct cuda_array &from,
                                        int64_t start, int64_t row, int row0, int rows, int width)
{
    constexpr int CHUNKS = WIDTH / GROUP;

    for (int k = threadIdx.x; k < TILE * CHUNKS; k += THREADS) {
        const int r = k / CHUNKS, i = k % CHUNKS * GROUP;
        uint4 chunk = make_uint4(0, 0, 0, 0);

        if (row0 + r < rows && i < width)
            chunk = *(const uint4 *)((const uint16_t *)from.at + start + (row0 + r) * row + i);
        *(uint4 *)&to.value[r * tile<T, WIDTH>::PITCH + i] = chunk;
    }
}

/* Loads a warp's rows, as operand a; beyond `rows` and the width there are zeros. */
template <int WIDTH>
__device__ static inline void load_rows(uint32_t (&to)[WIDTH / 16][4],
                                        const struct cuda_array &from, int64_t start, int64_t row,
                                        int row0, int rows, int width)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;

#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const int r = row0 + g + 8 * (n % 2), i = 16 * k + 8 * (n / 2) + 2 * t;

            to[k][n] = 0;
            if (r < rows && i < width)
                to[k][n] = *(const uint32_t *)((const uint16_t *)from.at + start + r * row + i);
        }
}

/* Stores a warp's rows, of which the thread has rows g (times scale[0]) and g + 8 (scale[1]). */
template <typename T, int WIDTH>
__device__ static inline void store_rows(const float (&sum)[WIDTH / 8][4], const float *scale,
                                         const struct cuda_array &to, int64_t start, int64_t row,
                                         int row0, int rows, int width)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;

#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = row0 + g + 8 * h, i = 8 * n + 2 * t;

            if (r < rows && i < width)
                *(uint32_t *)((uint16_t *)to.at + start + r * row + i) =
                    fragment_pack<T>(sum[n][2 * h] * scale[h], sum[n][2 * h + 1] * scale[h]);
        }
}

/* ---- forward ---- */

template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
    attention_tensor_kernel(const struct cuda_attention attention)
{
    __shared__ struct tile<T, WIDTH> keys, values;
    const struct head head = head_of(attention, blockIdx.x);
    const int steps = (int)attention.steps, width = attention.width;
    const int block0 = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    const int query0 = block0 + threadIdx.x / 32 * STRIP;
    const int end = keys_before(attention, head, block0 + ROWS);
    uint32_t query[WIDTH / 16][4];
    struct running<WIDTH> running;

    begin_running(running);
    load_rows<WIDTH>(query, attention.qkv, head.query, head.row, query0, steps, width);
    for (int key0 = 0; key0 < end; key0 += TILE) {
        __syncthreads(); /* other warps may still read the tile before */
        load_tile(keys, attention.qkv, head.key, head.row, key0, steps, width);
        load_tile(values, attention.qkv, head.value, head.row, key0, steps, width);
        __syncthreads();
        take_tile<T, WIDTH, tile<T, WIDTH>::PITCH, TILE>(attention, head, query0, key0, query,
                                                         keys.value, values.value, running);
    }
    end_running(attention, head, query0, running);
    store_rows<T, WIDTH>(running.sum, running.total, attention.y, head.result, head.result_row,
                         query0, steps, width);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The gradient by the queries: a warp has 16 of them, and their rows of dy. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
    attention_tensor_queries_kernel(const struct cuda_attention attention)
{
    constexpr int PITCH = tile<T, WIDTH>::PITCH;
    __shared__ struct tile<T, WIDTH> keys, values;
    const struct head head = head_of(attention, blockIdx.x);
    const int steps = (int)attention.steps, width = attention.width;
    const int block0 = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    const int query0 = block0 + threadIdx.x / 32 * STRIP;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int end = keys_before(attention, head, block0 + ROWS);
    uint32_t query[WIDTH / 16][4], dy[WIDTH / 16][4];
    float dquery[WIDTH / 8][4] = {}, sums[2] = {}, delta[2] = {};
    const float one[2] = {1, 1};

    load_rows<WIDTH>(query, attention.qkv, head.query, head.row, query0, steps, width);
    load_rows<WIDTH>(dy, attention.dy, head.result, head.result_row, query0, steps, width);
    for (int h = 0; h < 2; h++)
        if (query0 + g + 8 * h < steps) {
            sums[h] = attention.log_sum_exp[head.sums + query0 + g + 8 * h] * LOG2_E;
            delta[h] = -attention.delta[head.sums + query0 + g + 8 * h] * head.scale;
        }
    for (int key0 = 0; key0 < end; key0 += TILE) {
        __syncthreads(); /* other warps may still read the tile before */
        load_tile(keys, attention.qkv, head.key, head.row, key0, steps, width);
        load_tile(values, attention.qkv, head.value, head.row, key0, steps, width);
        __syncthreads();
        const int rows = keys_before(attention, head, query0 + STRIP) - key0;
#pragma unroll
        for (int s = 0; s < TILE; s += STRIP) {
            const bool masked = has_unseen(attention, head, query0, key0 + s, STRIP);
            float product[2][4], gradient[2][4];
            uint32_t slope[4];

            if (s >= rows)
                continue;
            multiply_rows<T, WIDTH, PITCH>(product, query, &keys.value[s * PITCH]);
            multiply_rows<T, WIDTH, PITCH>(gradient, dy, &values.value[s * PITCH]);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int h = i % 4 / 2, key = key0 + s + 8 * (i / 4) + 2 * t + i % 2;

                make_slope(product[i / 4][i % 4], gradient[i / 4][i % 4], head.scale, sums[h],
                           delta[h], !masked || is_seen(attention, head, query0 + g + 8 * h, key));
            }
            pack_factors<T>(slope, gradient);
            add_weighted<T, WIDTH, PITCH>(dquery, slope, &keys.value[s * PITCH]);
        }
    }
    store_rows<T, WIDTH>(dquery, one, attention.dqkv, head.query, head.row, query0, steps, width);
}

/* The gradients by keys and values: a warp has 16 of both. Rows of the products are keys. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
    attention_tensor_keys_kernel(const struct cuda_attention attention)
{
    constexpr int PITCH = tile<T, WIDTH>::PITCH;
    __shared__ struct tile<T, WIDTH> queries, gradients;
    __shared__ float sums[TILE], delta[TILE];
    const struct head head = head_of(attention, blockIdx.x);
    const int steps = (int)attention.steps, width = attention.width;
    const int block0 = (int)blockIdx.y * ROWS, key0 = block0 + threadIdx.x / 32 * STRIP;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    uint32_t key[WIDTH / 16][4], value[WIDTH / 16][4];
    float dkey[WIDTH / 8][4] = {}, dvalue[WIDTH / 8][4] = {};
    const float one[2] = {1, 1};

    load_rows<WIDTH>(key, attention.qkv, head.key, head.row, key0, steps, width);
    load_rows<WIDTH>(value, attention.qkv, head.value, head.row, key0, steps, width);
    for (int query0 = attention.causal ? block0 : 0; query0 < steps && block0 < head.keys;
         query0 += TILE) {
        __syncthreads(); /* other warps may still read the tile before */
        load_tile(queries, attention.qkv, head.query, head.row, query0, steps, width);
        load_tile(gradients, attention.dy, head.result, head.result_row, query0, steps, width);
        for (int k = threadIdx.x; k < TILE; k += THREADS) {
            const bool known = query0 + k < steps;

            sums[k] = known ? attention.log_sum_exp[head.sums + query0 + k] * LOG2_E : 0;
            delta[k] = known ? -attention.delta[head.sums + query0 + k] * head.scale : 0;
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < TILE; s += STRIP) {
            const bool masked = has_unseen(attention, head, query0 + s, key0, STRIP);
            float product[2][4], gradient[2][4];
            uint32_t probability[4], slope[4];

            if (query0 + s >= steps || (attention.causal && query0 + s + STRIP <= key0))
                continue;
            multiply_rows<T, WIDTH, PITCH>(product, key, &queries.value[s * PITCH]);
            multiply_rows<T, WIDTH, PITCH>(gradient, value, &gradients.value[s * PITCH]);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int at = s + 8 * (i / 4) + 2 * t + i % 2;

                make_slope(
                    product[i / 4][i % 4], gradient[i / 4][i % 4], head.scale, sums[at], delta[at],
                    !masked || is_seen(attention, head, query0 + at, key0 + g + 8 * (i % 4 / 2)));
            }
            pack_factors<T>(probability, product);
            pack_factors<T>(slope, gradient);
            add_weighted<T, WIDTH, PITCH>(dvalue, probability, &gradients.value[s * PITCH]);
            add_weighted<T, WIDTH, PITCH>(dkey, slope, &queries.value[s * PITCH]);
        }
    }
    store_rows<T, WIDTH>(dkey, one, attention.dqkv, head.key, head.row, key0, steps, width);
    store_rows<T, WIDTH>(dvalue, one, attention.dqkv, head.value, head.row, key0, steps, width);
}

/* ---- launches -------------------------------------------------------------------------------- */

bool cuda_attention_tensor_is_possible(const struct cuda_attention *attention, bool backward)
{
    return (attention->qkv.type == TENSOR_BFLOAT16 || attention->qkv.type == TENSOR_FLOAT16) &&
           attention->y.type == attention->qkv.type && attention->width % GROUP == 0 &&
           attention->width <= CUDA_ATTENTION_WIDTH_MAX &&
           (!backward || (attention->dy.type == attention->qkv.type &&
                          attention->dqkv.type == attention->qkv.type));
}

static dim3 grid_of(const struct cuda_attention *attention)
{
    return dim3((unsigned)(attention->batch * attention->heads),
                (unsigned)((attention->steps + ROWS - 1) / ROWS));
}

template <typename T, int WIDTH>
static void launch(const struct cuda_attention *attention, bool backward, cudaStream_t stream)
{
    const dim3 grid = grid_of(attention);

    if (backward) {
        attention_tensor_keys_kernel<T, WIDTH><<<grid, THREADS, 0, stream>>>(*attention);
        attention_tensor_queries_kernel<T, WIDTH><<<grid, THREADS, 0, stream>>>(*attention);
    } else {
        attention_tensor_kernel<T, WIDTH><<<grid, THREADS, 0, stream>>>(*attention);
    }
}

template <typename T>
static cudaError_t launch_width(const struct cuda_attention *attention, bool backward,
                                cudaStream_t stream)
{
    if (attention->width <= 16)
        launch<T, 16>(attention, backward, stream);
    else if (attention->width <= 32)
        launch<T, 32>(attention, backward, stream);
    else if (attention->width <= 64)
        launch<T, 64>(attention, backward, stream);
    else
        launch<T, 128>(attention, backward, stream);
    return cudaGetLastError();
}

static cudaError_t launch_type(const struct cuda_attention *attention, bool backward,
                               cudaStream_t stream)
{
    return attention->qkv.type == TENSOR_BFLOAT16
               ? launch_width<__nv_bfloat16>(attention, backward, stream)
               : launch_width<__half>(attention, backward, stream);
}

cudaError_t cuda_attention_tensor(const struct cuda_attention *attention, cudaStream_t stream)
{
    return launch_type(attention, false, stream);
}

cudaError_t cuda_attention_tensor_backward(const struct cuda_attention *attention,
                                           cudaStream_t stream)
{
    cudaError_t status = cuda_attention_delta(attention, stream);

    return status == cudaSuccess ? launch_type(attention, true, stream) : status;
}
