/* attention_head.cu: attention of short sequences by tensor cores. A block has a whole head of a
 * sample in shared memory, and asks for all of it at once. Forward, a warp has strips of queries.
 * Backward, it has a strip of keys, whose gradients stay in its registers. The slopes of a tile of
 * queries go through shared memory, and the block multiplies them with all keys. So every product
 * is made once, and nothing is added up in memory. For what the kernels multiply, and how, see
 * attention_tensor.cu. */
#include "engine/backends/cuda/kernels/attention_fragments.cuh"

#include <math.h>

constexpr int WARPS = 8, THREADS = 32 * WARPS; /* forward */
constexpr int TILE = 64;                       /* queries whose slopes are in shared memory */
constexpr int SLOPES_PITCH = TILE + 8;         /* puts eight rows into different banks */

template <int WIDTH> constexpr int pitch = WIDTH + 8;

__host__ __device__ constexpr int min_of(int a, int b)
{
    return a < b ? a : b;
}

/* The rows of shared memory: those of the sequence, in whole tiles. */
__host__ __device__ static inline int rows_of(const struct cuda_attention &attention)
{
    return (int)((attention.steps + TILE - 1) / TILE) * TILE;
}

/* A warp's strip number n. With causal attention the first strips take the least time, so every
 * other turn goes the other way. */
__device__ static inline int strip_of(int n)
{
    const int warp = threadIdx.x / 32;

    return n * WARPS + (n % 2 == 0 ? warp : WARPS - 1 - warp);
}

/* ---- from and to memory ---- */

/* Begins to copy 16 bytes to shared memory; zeros if they are not `known`. */
__device__ static inline void begin_copy(void *to, const void *from, bool known)
{
#if __CUDA_ARCH__ >= 800
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(known ? 16 : 0)
                 : "memory");
#else
    (void)to;
    (void)from;
    (void)known;
#endif
}

__device__ static inline void end_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most `later` of the thread's groups of copies are under way. */
__device__ static inline void wait_for_group(int later)
{
#if __CUDA_ARCH__ >= 800
    if (later >= 3)
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    else if (later == 2)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (later == 1)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#else
    (void)later;
#endif
}

/* Begins to copy rows [row0, row0 + count) of a head; beyond the steps and the width there are
 * zeros. */
template <int WIDTH>
__device__ static inline void begin_rows(uint16_t *to, const struct cuda_attention &attention,
                                         const struct cuda_array &from, int64_t start, int64_t row,
                                         int row0, int count)
{
    constexpr int CHUNKS = WIDTH / GROUP;

    for (int k = threadIdx.x; k < count * CHUNKS; k += blockDim.x) {
        const int r = row0 + k / CHUNKS, i = k % CHUNKS * GROUP;
        const bool known = r < attention.steps && i < attention.width;

        begin_copy(&to[r * pitch<WIDTH> + i],
                   (const uint16_t *)from.at + (known ? start + r * row + i : 0), known);
    }
}

/* A strip as operand a, from shared memory. */
template <int WIDTH>
__device__ static inline void load_strip(uint32_t (&to)[WIDTH / 16][4], const uint16_t *rows)
{
    const int lane = threadIdx.x % 32;

#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++)
        load_blocks(to[k], &rows[lane % 16 * pitch<WIDTH> + 16 * k + 8 * (lane / 16)]);
}

/* Stores a warp's strip of sums, of which the thread has rows g (times scale[0]) and g + 8
 * (scale[1]), by way of `stage`, so that 16 bytes are stored at a time. Of a row the strip has
 * COLUMNS columns from `column0` on. */
template <typename T, int WIDTH, int COLUMNS>
__device__ static inline void store_strip(const struct cuda_attention &attention,
                                          const float (&sum)[COLUMNS / 8][4], const float *scale,
                                          uint16_t *stage, const struct cuda_array &to,
                                          int64_t start, int64_t row, int row0, int column0)
{
    constexpr int CHUNKS = COLUMNS / GROUP;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;

    stage += row0 * pitch<WIDTH> + column0;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(uint32_t *)&stage[(g + 8 * h) * pitch<WIDTH> + 8 * n + 2 * t] =
                fragment_pack<T>(sum[n][2 * h] * scale[h], sum[n][2 * h + 1] * scale[h]);
    __syncwarp();
    for (int k = lane; k < STRIP * CHUNKS; k += 32) {
        const int r = k / CHUNKS, i = k % CHUNKS * GROUP;

        if (row0 + r < attention.steps && column0 + i < attention.width)
            *(uint4 *)((uint16_t *)to.at + start + (row0 + r) * row + column0 + i) =
                *(const uint4 *)&stage[r * pitch<WIDTH> + i];
    }
}

/* ---- forward ---- */

template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, WIDTH <= 64 ? 2 : 1)
    attention_head_kernel(const struct cuda_attention attention)
{
    extern __shared__ __align__(16) float shared[];
    const struct head head = head_of(attention, blockIdx.x);
    const int rows = rows_of(attention), strips = (int)(attention.steps + STRIP - 1) / STRIP;
    uint16_t *query = (uint16_t *)shared, *key = query + rows * pitch<WIDTH>;
    uint16_t *value = key + rows * pitch<WIDTH>;

    for (int row0 = 0; row0 < rows; row0 += TILE) {
        begin_rows<WIDTH>(query, attention, attention.qkv, head.query, head.row, row0, TILE);
        begin_rows<WIDTH>(key, attention, attention.qkv, head.key, head.row, row0, TILE);
        begin_rows<WIDTH>(value, attention, attention.qkv, head.value, head.row, row0, TILE);
        end_group();
    }
    for (int n = 0; n * WARPS < strips; n++) {
        const int query0 = strip_of(n) * STRIP;
        const int end = keys_before(attention, head, query0 + STRIP);
        const int needed = attention.causal ? min(rows, (n + 1) * WARPS * STRIP) : rows;
        uint32_t own[WIDTH / 16][4];
        struct running<WIDTH> running;

        wait_for_group((rows - needed) / TILE);
        __syncthreads();
        if (query0 >= attention.steps)
            continue;
        begin_running(running);
        load_strip<WIDTH>(own, &query[query0 * pitch<WIDTH>]);
        for (int key0 = 0; key0 < end; key0 += TILE)
            take_tile<T, WIDTH, pitch<WIDTH>, TILE>(attention, head, query0, key0, own,
                                                    &key[key0 * pitch<WIDTH>],
                                                    &value[key0 * pitch<WIDTH>], running);
        end_running(attention, head, query0, running);
        store_strip<T, WIDTH, WIDTH>(attention, running.sum, running.total, query, attention.y,
                                     head.result, head.result_row, query0, 0);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* What a block has in shared memory. */
struct places {
    uint16_t *query, *key, *value, *dy, *y; /* [rows, pitch] */
    uint16_t *slopes;                       /* [rows, SLOPES_PITCH]: of each key with a tile */
    float *sums, *deltas;                   /* [rows], as make_slope() takes them */
};

template <int WIDTH> __device__ static inline struct places places_of(float *shared, int rows)
{
    struct places of;

    of.query = (uint16_t *)shared;
    of.key = of.query + rows * pitch<WIDTH>;
    of.value = of.key + rows * pitch<WIDTH>;
    of.dy = of.value + rows * pitch<WIDTH>;
    of.y = of.dy + rows * pitch<WIDTH>;
    of.slopes = of.y + rows * pitch<WIDTH>;
    of.sums = (float *)(of.slopes + rows * SLOPES_PITCH);
    of.deltas = of.sums + rows;
    return of;
}

/* Begins to copy all rows, a group for each tile. The first tile of queries needs all keys if
 * attention is not causal. */
template <int WIDTH>
__device__ static inline void begin_tiles(const struct cuda_attention &attention,
                                          const struct head &head, const struct places &of,
                                          int rows)
{
    for (int row0 = 0; row0 < rows; row0 += TILE) {
        if (attention.causal || row0 == 0) {
            const int count = attention.causal ? TILE : rows;

            begin_rows<WIDTH>(of.key, attention, attention.qkv, head.key, head.row, row0, count);
            begin_rows<WIDTH>(of.value, attention, attention.qkv, head.value, head.row, row0,
                              count);
        }
        begin_rows<WIDTH>(of.query, attention, attention.qkv, head.query, head.row, row0, TILE);
        begin_rows<WIDTH>(of.dy, attention, attention.dy, head.result, head.result_row, row0, TILE);
        begin_rows<WIDTH>(of.y, attention, attention.y, head.result, head.result_row, row0, TILE);
        end_group();
    }
}

/* The deltas of a tile's queries; zero beyond the steps. A thread reads the chunks that it has
 * copied itself (begin_rows()), so it waits for nobody else. */
template <typename T, int WIDTH>
__device__ static inline void make_deltas(const struct head &head, const struct places &of,
                                          int tile0)
{
    constexpr int CHUNKS = WIDTH / GROUP;

    for (int k = threadIdx.x; k < TILE * CHUNKS; k += blockDim.x) {
        const int r = tile0 + k / CHUNKS, i = k % CHUNKS * GROUP;
        union packed<T> dy, y;
        float sum = 0;

        packed_load(&dy, (const T *)&of.dy[r * pitch<WIDTH> + i]);
        packed_load(&y, (const T *)&of.y[r * pitch<WIDTH> + i]);
#pragma unroll
        for (int c = 0; c < GROUP; c++)
            sum += to_float(dy.value[c]) * to_float(y.value[c]);
        for (int distance = CHUNKS / 2; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(~0u, sum, distance);
        if (i == 0)
            of.deltas[r] = -sum * head.scale;
    }
}

/* Takes STRIP queries to a warp's strip of keys: adds to its gradients, and stores the slopes. */
template <typename T, int WIDTH>
__device__ static inline void
take_queries(const struct cuda_attention &attention, const struct head &head,
             const struct places &of, int query0, int key0, const uint32_t (&key)[WIDTH / 16][4],
             const uint32_t (&value)[WIDTH / 16][4], float (&dkey)[WIDTH / 8][4],
             float (&dvalue)[WIDTH / 8][4])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const bool masked = has_unseen(attention, head, query0, key0, STRIP);
    const uint16_t *queries = &of.query[query0 * pitch<WIDTH>], *dy = &of.dy[query0 * pitch<WIDTH>];
    uint16_t *slopes = &of.slopes[(key0 + g) * SLOPES_PITCH + query0 % TILE + 2 * t];
    float product[2][4], gradient[2][4];
    uint32_t probability[4], slope[4];

    multiply_rows<T, WIDTH, pitch<WIDTH>>(product, key, queries);
    multiply_rows<T, WIDTH, pitch<WIDTH>>(gradient, value, dy);
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const float2 sums = *(const float2 *)&of.sums[query0 + 8 * n + 2 * t];
        const float2 deltas = *(const float2 *)&of.deltas[query0 + 8 * n + 2 * t];

#pragma unroll
        for (int i = 0; i < 4; i++)
            make_slope(product[n][i], gradient[n][i], head.scale, i % 2 == 0 ? sums.x : sums.y,
                       i % 2 == 0 ? deltas.x : deltas.y,
                       !masked || is_seen(attention, head, query0 + 8 * n + 2 * t + i % 2,
                                          key0 + g + 8 * (i / 2)));
    }
    pack_factors<T>(probability, product);
    pack_factors<T>(slope, gradient);
#pragma unroll
    for (int i = 0; i < 4; i++)
        *(uint32_t *)&slopes[8 * (i % 2) * SLOPES_PITCH + 8 * (i / 2)] = slope[i];
    add_weighted<T, WIDTH, pitch<WIDTH>>(dvalue, probability, dy);
    add_weighted<T, WIDTH, pitch<WIDTH>>(dkey, slope, queries);
}

/* The gradient by the queries of a tile: a warp has a strip of them, and as many of the columns as
 * the others leave to it. */
template <typename T, int WIDTH, int KEY_WARPS>
__device__ static inline void make_dquery(const struct cuda_attention &attention,
                                          const struct head &head, const struct places &of,
                                          int tile0)
{
    constexpr int STRIPS = TILE / STRIP, PARTS = min_of(KEY_WARPS / STRIPS, WIDTH / STRIP);
    constexpr int COLUMNS = WIDTH / PARTS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int query0 = tile0 + warp % STRIPS * STRIP, column0 = warp / STRIPS * COLUMNS;
    const int end = keys_before(attention, head, query0 + STRIP);
    /* blocks: queries 0 to 7, then 8 to 15, of keys 0 to 7; then of the next eight */
    const uint16_t *slopes = &of.slopes[(lane % 8 + 8 * (lane / 16)) * SLOPES_PITCH + query0 -
                                        tile0 + 8 * (lane / 8 % 2)];
    float sum[COLUMNS / 8][4] = {};
    const float one[2] = {1, 1};

    if (query0 >= attention.steps || column0 >= WIDTH)
        return;
    for (int key0 = 0; key0 < end; key0 += STRIP) {
        uint32_t slope[4];

        load_transposed(slope, slopes + key0 * SLOPES_PITCH);
        add_weighted<T, COLUMNS, pitch<WIDTH>>(sum, slope, &of.key[key0 * pitch<WIDTH> + column0]);
    }
    /* nobody reads these queries any more */
    store_strip<T, WIDTH, COLUMNS>(attention, sum, one, of.query, attention.dqkv, head.query,
                                   head.row, query0, column0);
}

/* KEY_WARPS warps, each of which has a strip of keys. */
template <typename T, int WIDTH, int KEY_WARPS>
__global__ void __launch_bounds__(32 * KEY_WARPS, KEY_WARPS == 8 && WIDTH <= 64 ? 2 : 1)
    attention_head_backward_kernel(const struct cuda_attention attention)
{
    extern __shared__ __align__(16) float shared[];
    const struct head head = head_of(attention, blockIdx.x);
    const int steps = (int)attention.steps, rows = rows_of(attention);
    const int key0 = threadIdx.x / 32 * STRIP;
    const struct places of = places_of<WIDTH>(shared, rows);
    float dkey[WIDTH / 8][4] = {}, dvalue[WIDTH / 8][4] = {};
    const float one[2] = {1, 1};

    for (int r = threadIdx.x; r < rows; r += blockDim.x)
        of.sums[r] = r < steps ? attention.log_sum_exp[head.sums + r] * LOG2_E : 0.0f;
    begin_tiles<WIDTH>(attention, head, of, rows);
    for (int tile0 = 0; tile0 < rows; tile0 += TILE) {
        const int end = min(tile0 + TILE, steps);

        wait_for_group((rows - tile0) / TILE - 1);
        make_deltas<T, WIDTH>(head, of, tile0);
        __syncthreads(); /* and no warp reads the slopes of the tile before */
        if (key0 < head.keys && (!attention.causal || key0 < end)) {
            uint32_t key[WIDTH / 16][4], value[WIDTH / 16][4];

            load_strip<WIDTH>(key, &of.key[key0 * pitch<WIDTH>]);
            load_strip<WIDTH>(value, &of.value[key0 * pitch<WIDTH>]);
            for (int query0 = attention.causal ? max(tile0, key0) : tile0; query0 < end;
                 query0 += STRIP)
                take_queries<T, WIDTH>(attention, head, of, query0, key0, key, value, dkey, dvalue);
        }
        __syncthreads(); /* the slopes are stored */
        make_dquery<T, WIDTH, KEY_WARPS>(attention, head, of, tile0);
    }
    __syncthreads(); /* nobody reads keys any more */
    if (key0 >= steps)
        return;
    store_strip<T, WIDTH, WIDTH>(attention, dkey, one, of.key, attention.dqkv, head.key, head.row,
                                 key0, 0);
    store_strip<T, WIDTH, WIDTH>(attention, dvalue, one, of.value, attention.dqkv, head.value,
                                 head.row, key0, 0);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* The widths for which there are kernels; narrower heads are filled up. */
static int width_of(const struct cuda_attention *attention)
{
    return attention->width <= 32 ? 32 : attention->width <= 64 ? 64 : 128;
}

static size_t bytes_of(const struct cuda_attention *attention, bool backward)
{
    const size_t row = sizeof(uint16_t) * (size_t)(width_of(attention) + 8);
    const size_t of_query = sizeof(uint16_t) * SLOPES_PITCH + 2 * sizeof(float);

    return (size_t)rows_of(*attention) * (backward ? 5 * row + of_query : 3 * row);
}

bool cuda_attention_head_is_possible(const struct cuda_attention *attention, bool backward)
{
    const int warps = width_of(attention) <= 64 ? 16 : 8;
    int device = 0, bytes = 0;

    return cuda_attention_tensor_is_possible(attention, backward) &&
           (!backward || attention->steps <= warps * STRIP) &&
           cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
               cudaSuccess &&
           bytes_of(attention, backward) <= (size_t)bytes;
}

template <typename T, int WIDTH>
static cudaError_t launch(const struct cuda_attention *attention, bool backward,
                          cudaStream_t stream)
{
    /* the registers of more than eight warps hold no gradients of wider heads */
    constexpr int MOST = WIDTH <= 64 ? 16 : 8;
    const int warps = !backward ? WARPS : attention->steps <= 8 * STRIP ? 8 : MOST;
    void (*const kernel)(struct cuda_attention) =
        !backward    ? attention_head_kernel<T, WIDTH>
        : warps == 8 ? attention_head_backward_kernel<T, WIDTH, 8>
                     : attention_head_backward_kernel<T, WIDTH, MOST>;
    const size_t bytes = bytes_of(attention, backward);
    cudaError_t status = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);

    if (status != cudaSuccess)
        return status;
    kernel<<<(unsigned)(attention->batch * attention->heads), 32 * warps, bytes, stream>>>(
        *attention);
    return cudaGetLastError();
}

template <typename T>
static cudaError_t launch_width(const struct cuda_attention *attention, bool backward,
                                cudaStream_t stream)
{
    switch (width_of(attention)) {
    case 32:
        return launch<T, 32>(attention, backward, stream);
    case 64:
        return launch<T, 64>(attention, backward, stream);
    default:
        return launch<T, 128>(attention, backward, stream);
    }
}

cudaError_t cuda_attention_head(const struct cuda_attention *attention, bool backward,
                                cudaStream_t stream)
{
    return attention->qkv.type == TENSOR_BFLOAT16
               ? launch_width<__nv_bfloat16>(attention, backward, stream)
               : launch_width<__half>(attention, backward, stream);
}
