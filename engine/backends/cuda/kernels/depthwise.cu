/* depthwise.cu: convolutions with a filter of its own for each channel: 3x3 and 5x5, strides 1 and
 * 2, padding of half the filter, a multiple of eight channels. Images are channels-last, filters
 * [C,k,k].
 *
 * cuDNN 9.19's engines that need no compilation were measured on an H200 with 192 channels of
 * 16x16, 3x3, batch 512 in bfloat16. They take 1,392 us forward, 1,137 us by the data and 430 us by
 * the weights, for 50 MB that are read and written. The fast engines take 0.5 to 1.5 s each to be
 * compiled.
 *
 * A thread has the same eight channels (by the weights: fewer) of STRIP neighbouring results of a
 * line, so that it reads their common operands once. */
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int STRIP = 4;
/* threads side by side, with eight channels each: 128 bytes of 16-bit numbers */
constexpr int LANES_MAX = 8;

/* How threads are distributed: `lanes` of them over the channels of a pixel, the rest over
 * strips. */
struct dealing {
    int lanes, rows; /* of a block */
    dim3 grid;
};

/* The number of lanes with the fewest idle threads. */
static int choose_lanes(int groups, int most)
{
    int best = 1, idle = 0;

    for (int lanes = groups < most ? groups : most; lanes > 0; lanes--) {
        int wasted = (groups + lanes - 1) / lanes * lanes - groups;

        if (best == 1 || wasted < idle) {
            best = lanes;
            idle = wasted;
        }
        if (lanes <= most / 2)
            break;
    }
    return best;
}

static struct dealing deal(int groups, int most, int64_t strips, int64_t strips_of_thread)
{
    struct dealing dealing;
    int64_t blocks;

    dealing.lanes = choose_lanes(groups, most);
    dealing.rows = BLOCK / dealing.lanes;
    blocks = (strips + dealing.rows * strips_of_thread - 1) / (dealing.rows * strips_of_thread);
    dealing.grid = dim3((unsigned)(blocks < 1       ? 1
                                   : blocks > 65535 ? 65535
                                                    : blocks),
                        (unsigned)((groups + dealing.lanes - 1) / dealing.lanes));
    return dealing;
}

/* Loads the filters of the block's channels as [k k][channel]. */
template <typename T, int K>
__device__ static inline void load_filters(const T *weight, int first, int count, int channels,
                                           float *filters)
{
    for (int i = threadIdx.x; i < K * K * count; i += blockDim.x) {
        int c = first + i % count, k = i / count;

        filters[i] = c < channels ? to_float(weight[(int64_t)c * K * K + k]) : 0.0f;
    }
    __syncthreads();
}

/* Loads eight values, or zeros. All values of a line are loaded before the first is used. */
template <typename T>
__device__ static inline void load_inside(union packed<T> *raw, const T *p, bool inside)
{
#pragma unroll
    for (int k = 0; k < packed<T>::WORDS; k++)
        raw->word[k] = inside ? __ldg((const uint4 *)p + k) : make_uint4(0, 0, 0, 0);
}

template <typename T> __device__ static inline struct group unpack(const union packed<T> &raw)
{
    struct group g;

#pragma unroll
    for (int v = 0; v < GROUP; v++)
        g.value[v] = to_float(raw.value[v]);
    return g;
}

template <int K>
__device__ static inline void load_filter_row(const float *filters, int count, int r,
                                              float (&row)[K][GROUP])
{
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int v = 0; v < GROUP; v += 4)
            *(float4 *)&row[k][v] = *(const float4 *)&filters[(r * K + k) * count + v];
}

__device__ static inline void multiply_add(struct group &sum, const struct group &x,
                                           const float (&w)[GROUP])
{
#pragma unroll
    for (int v = 0; v < GROUP; v++)
        sum.value[v] += x.value[v] * w[v];
}

template <typename T>
__device__ static inline void store_strip(T *line, int first, int width, int64_t channels,
                                          const struct group (&sum)[STRIP])
{
#pragma unroll
    for (int t = 0; t < STRIP; t++)
        if (first + t < width)
            group_store(line + (first + t) * channels, sum[t]);
}

/* ---- forward and by the data ---- */

template <typename T, int K, int S>
__global__ void __launch_bounds__(BLOCK, 2)
    depthwise_forward_kernel(struct cuda_depthwise d, const T *x, const T *weight,
                             const float *bias, T *y, int lanes)
{
    extern __shared__ __align__(16) float filters[];
    const int count = lanes * GROUP, slab = blockIdx.y * count;
    const int rows = blockDim.x / lanes, channel = slab + threadIdx.x % lanes * GROUP;
    const int strips_of_line = (d.out_width + STRIP - 1) / STRIP;
    const int strips = d.batch * d.out_height * strips_of_line;

    load_filters<T, K>(weight, slab, count, d.channels, filters);
    if (channel >= d.channels)
        return;
    for (int strip = (int)blockIdx.x * rows + threadIdx.x / lanes; strip < strips;
         strip += (int)gridDim.x * rows) {
        const int first = strip % strips_of_line * STRIP;
        const int line = strip / strips_of_line, n = line / d.out_height;
        const int top = line % d.out_height * S - K / 2, left = first * S - K / 2;
        struct group sum[STRIP];

#pragma unroll
        for (int t = 0; t < STRIP; t++)
#pragma unroll
            for (int v = 0; v < GROUP; v++)
                sum[t].value[v] = bias ? bias[channel + v] : 0.0f;
#pragma unroll
        for (int r = 0; r < K; r++) {
            constexpr int COLUMNS = (STRIP - 1) * S + K;
            const bool inside = top + r >= 0 && top + r < d.height;
            const T *from =
                x + ((int64_t)(n * d.height + top + r) * d.width + left) * d.channels + channel;
            alignas(16) float row[K][GROUP];
            union packed<T> column[COLUMNS];

#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                load_inside(&column[j], from + j * d.channels,
                            inside && left + j >= 0 && left + j < d.width);
            load_filter_row<K>(filters + (channel - slab), count, r, row);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const struct group value = unpack(column[j]);

#pragma unroll
                for (int t = 0; t < STRIP; t++)
                    if (j - t * S >= 0 && j - t * S < K)
                        multiply_add(sum[t], value, row[j - t * S]);
            }
        }
        store_strip(y + (int64_t)line * d.out_width * d.channels + channel, first, d.out_width,
                    d.channels, sum);
    }
}

/* Pixel i of a line of dx was read by those results o for which k = i + K / 2 - S o is a column of
 * the filter. With q = (first + K / 2) / S, o = q - j and i = first + t, that column is P + t + S
 * j. */
template <typename T, int K, int S>
__global__ void __launch_bounds__(BLOCK, 2)
    depthwise_data_kernel(struct cuda_depthwise d, const T *dy, const T *weight, T *dx, int lanes)
{
    /* the remainder of first + K / 2: strips begin at multiples of S */
    constexpr int P = (K / 2) % S;
    constexpr int LEAST = -((P + STRIP - 1) / S), MOST = (K - 1 - P) / S;
    extern __shared__ __align__(16) float filters[];
    const int count = lanes * GROUP, slab = blockIdx.y * count;
    const int rows = blockDim.x / lanes, channel = slab + threadIdx.x % lanes * GROUP;
    const int strips_of_line = (d.width + STRIP - 1) / STRIP;
    const int strips = d.batch * d.height * strips_of_line;

    static_assert(STRIP % S == 0, "strips begin at multiples of the stride");
    load_filters<T, K>(weight, slab, count, d.channels, filters);
    if (channel >= d.channels)
        return;
    for (int strip = (int)blockIdx.x * rows + threadIdx.x / lanes; strip < strips;
         strip += (int)gridDim.x * rows) {
        const int first = strip % strips_of_line * STRIP;
        const int line = strip / strips_of_line, n = line / d.height;
        const int bottom = line % d.height + K / 2, q = (first + K / 2) / S;
        struct group sum[STRIP];

#pragma unroll
        for (int t = 0; t < STRIP; t++)
#pragma unroll
            for (int v = 0; v < GROUP; v++)
                sum[t].value[v] = 0.0f;
#pragma unroll
        for (int r = 0; r < K; r++) {
            const int above = bottom - r; /* S times the line of dy */
            const bool inside = above >= 0 && above % S == 0 && above / S < d.out_height;
            const T *from =
                dy + ((int64_t)(n * d.out_height + above / S) * d.out_width + q) * d.channels +
                channel;
            alignas(16) float row[K][GROUP];
            union packed<T> column[MOST - LEAST + 1];

#pragma unroll
            for (int j = LEAST; j <= MOST; j++)
                load_inside(&column[j - LEAST], from - j * d.channels,
                            inside && q - j >= 0 && q - j < d.out_width);
            load_filter_row<K>(filters + (channel - slab), count, r, row);
#pragma unroll
            for (int j = LEAST; j <= MOST; j++) {
                const struct group value = unpack(column[j - LEAST]);

#pragma unroll
                for (int t = 0; t < STRIP; t++)
                    if (P + t + S * j >= 0 && P + t + S * j < K)
                        multiply_add(sum[t], value, row[P + t + S * j]);
            }
        }
        store_strip(dx + (int64_t)line * d.width * d.channels + channel, first, d.width, d.channels,
                    sum);
    }
}

/* ---- by the weights ---- */

template <typename T, int V> struct alignas(V * sizeof(T)) some {
    T value[V];
};

/* Loads V values, or zeros. */
template <typename T, int V>
__device__ static inline struct some<T, V> load_some(const T *p, bool inside) {
    struct some<T, V> raw;

    memset(&raw, 0, sizeof raw);
    if (inside)
        raw = *(const struct some<T, V> *)p;
    return raw;
}

/* How the work of the gradient by the weights is divided: images into segments of lines, and these
 * into strips. */
struct division {
    int segments, lines, strips; /* per image, per segment, per line */
};

/* Loads a line of COUNT pixels with V channels, with zeros beyond the image. */
template <typename T, int V, int COUNT>
__device__ static inline void load_line(float (&value)[COUNT][V], const T *from, int channels,
                                        int first, int width)
{
    struct some<T, V> raw[COUNT];

#pragma unroll
    for (int j = 0; j < COUNT; j++)
        raw[j] = load_some<T, V>(from + j * channels, first + j >= 0 && first + j < width);
#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int v = 0; v < V; v++)
            value[j][v] = to_float(raw[j].value[v]);
}

/* Adds up the block's sums in the order of its rows, one row of the filter at a time. */
template <int K, int V>
__device__ static inline void add_up_filters(const float (&sum)[K][K][V], float *shared,
                                             float *part, int slab, int channels, int lanes)
{
    const int rows = blockDim.x / lanes, lane = threadIdx.x % lanes, row = threadIdx.x / lanes;
    const int width = lanes * V;

#pragma unroll
    for (int r = 0; r < K; r++) {
        __syncthreads();
#pragma unroll
        for (int s = 0; s < K; s++)
#pragma unroll
            for (int v = 0; v < V; v++)
                shared[(row * K + s) * width + lane * V + v] = sum[r][s][v];
        __syncthreads();
        for (int i = threadIdx.x; i < K * width; i += blockDim.x) {
            const int s = i / width, channel = slab + i % width;
            float total = 0;

#pragma unroll 8
            for (int other = 0; other < rows; other++)
                total += shared[other * K * width + i];
            if (channel < channels)
                part[(int64_t)(r * K + s) * channels + channel] = total;
        }
    }
}

/* Block (p, s) sums up the products of part p of the strips for slab s of the channels: parts[p][k
 * k][C]. A thread walks down the lines of a strip. With i + K / 2 = S t + j, line i of x is
 * multiplied for the filter's rows r = j, j + S, … by lines t - (r - j) / S of dy. The thread keeps
 * the last R of these, so that it reads and converts each number once. */
template <typename T, int K, int S, int STRIP, int V>
__global__ void __launch_bounds__(BLOCK, 2)
    depthwise_weights_kernel(struct cuda_depthwise d, const T *x, const T *dy, float *parts,
                             int lanes, struct division division)
{
    constexpr int R = (K + S - 1) / S, COLUMNS = (STRIP - 1) * S + K;
    extern __shared__ float shared[];
    const int rows = blockDim.x / lanes, slab = (int)blockIdx.y * lanes * V;
    const int channel = slab + (int)threadIdx.x % lanes * V;
    const int units = d.batch * division.segments * division.strips;
    float sum[K][K][V] = {};

    for (int unit = (int)blockIdx.x * rows + (int)threadIdx.x / lanes;
         unit < units && channel < d.channels; unit += (int)gridDim.x * rows) {
        const int first = unit % division.strips * STRIP, left = first * S - K / 2;
        const int part = unit / division.strips, n = part / division.segments;
        const int top = part % division.segments * division.lines;
        const int bottom = min(top + division.lines, d.out_height), end = bottom + R - 1;
        float gradient[R][STRIP][V] = {};

        for (int t0 = top; t0 < end; t0 += R) {
#pragma unroll
            for (int u = 0; u < R; u++) {
                const int t = t0 + u;

                if (t >= end)
                    break;
                load_line<T, V, STRIP>(
                    gradient[u],
                    dy + ((int64_t)(n * d.out_height + t) * d.out_width + first) * d.channels +
                        channel,
                    d.channels, first, t < bottom ? d.out_width : 0);
#pragma unroll
                for (int j = 0; j < S; j++) {
                    const int i = S * t + j - K / 2;
                    float line[COLUMNS][V];

                    if (i < 0 || i >= d.height)
                        continue;
                    load_line<T, V, COLUMNS>(
                        line,
                        x + ((int64_t)(n * d.height + i) * d.width + left) * d.channels + channel,
                        d.channels, left, d.width);
#pragma unroll
                    for (int r = j; r < K; r += S)
#pragma unroll
                        for (int s = 0; s < K; s++)
#pragma unroll
                            for (int b = 0; b < STRIP; b++)
#pragma unroll
                                for (int v = 0; v < V; v++)
                                    sum[r][s][v] += line[b * S + s][v] *
                                                    gradient[(u - (r - j) / S + R) % R][b][v];
                }
            }
        }
    }
    add_up_filters<K, V>(sum, shared, parts + (int64_t)blockIdx.x * K * K * d.channels, slab,
                         d.channels, lanes);
}

/* ---- launches ---- */

/* Chooses segments short enough that all threads have work, but not so short that most of it is for
 * the lines around them. */
template <int K, int S>
static struct division divide(const struct cuda_depthwise *d, int strip, int groups)
{
    constexpr int AROUND = (K + S - 1) / S - 1, THREADS_WANTED = CUDA_DEPTHWISE_BLOCKS * BLOCK;
    const int strips = (d->out_width + strip - 1) / strip;
    const int64_t threads = (int64_t)d->batch * strips * groups;
    int segments = (int)((THREADS_WANTED + threads - 1) / threads),
        most = d->out_height / (2 * AROUND);
    int lines;

    segments = segments < most ? segments : most;
    segments = segments < 1 ? 1 : segments;
    lines = (d->out_height + segments - 1) / segments;
    return {(d->out_height + lines - 1) / lines, lines, strips};
}

template <typename T, int K, int S, int STRIP_OF_WEIGHTS>
static void launch_weights(const struct cuda_depthwise *d, const struct cuda_depthwise_operands *o,
                           cudaStream_t stream)
{
    constexpr int V = K == 3 ? 4 : 2; /* the channels of a thread, which has K K V sums */
    const int taps = K * K;
    const struct division division = divide<K, S>(d, STRIP_OF_WEIGHTS, d->channels / V);
    struct dealing dealing =
        deal(d->channels / V, 32, (int64_t)d->batch * division.segments * division.strips, 1);
    int most = (int)(o->part_bytes / (sizeof(float) * taps * (size_t)d->channels));
    int parts = CUDA_DEPTHWISE_BLOCKS / (int)dealing.grid.y;

    parts = parts < most ? parts : most;
    parts = (int64_t)parts < dealing.grid.x ? parts : (int)dealing.grid.x;
    parts = parts < 1 ? 1 : parts;
    dealing.grid.x = (unsigned)parts;
    depthwise_weights_kernel<T, K, S, STRIP_OF_WEIGHTS, V>
        <<<dealing.grid, dealing.lanes * dealing.rows,
           sizeof(float) * K * V *(size_t)(dealing.lanes * dealing.rows), stream>>>(
            *d, (const T *)o->x, (const T *)o->y, o->parts, dealing.lanes, division);
    cuda_filter_total(o->parts, parts, d->channels, taps, o->accumulate, o->gradient, stream);
}

template <typename T, int K, int S>
static void launch(const struct cuda_depthwise *d, enum cuda_depthwise_pass pass,
                   const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    const int width = pass == CUDA_DEPTHWISE_DATA ? d->width : d->out_width;
    const int height = pass == CUDA_DEPTHWISE_DATA ? d->height : d->out_height;
    const int64_t strips = (int64_t)d->batch * height * ((width + STRIP - 1) / STRIP);
    struct dealing dealing;

    if (pass == CUDA_DEPTHWISE_WEIGHTS && d->out_width <= 2)
        return launch_weights<T, K, S, 2>(d, o, stream);
    if (pass == CUDA_DEPTHWISE_WEIGHTS)
        return launch_weights<T, K, S, STRIP>(d, o, stream);
    dealing = deal(d->channels / GROUP, LANES_MAX, strips, 4);
    const size_t shared = sizeof(float) * K * K * GROUP * (size_t)dealing.lanes;
    const unsigned threads = (unsigned)(dealing.lanes * dealing.rows);

    if (pass == CUDA_DEPTHWISE_FORWARD)
        depthwise_forward_kernel<T, K, S><<<dealing.grid, threads, shared, stream>>>(
            *d, (const T *)o->x, (const T *)o->weight, o->bias, (T *)o->y, dealing.lanes);
    else
        depthwise_data_kernel<T, K, S><<<dealing.grid, threads, shared, stream>>>(
            *d, (const T *)o->y, (const T *)o->weight, (T *)o->x, dealing.lanes);
}

template <typename T>
static void launch_kind(const struct cuda_depthwise *d, enum cuda_depthwise_pass pass,
                        const struct cuda_depthwise_operands *operands, cudaStream_t stream)
{
    if (d->kernel == 3 && d->stride == 1)
        launch<T, 3, 1>(d, pass, operands, stream);
    else if (d->kernel == 3)
        launch<T, 3, 2>(d, pass, operands, stream);
    else if (d->stride == 1)
        launch<T, 5, 1>(d, pass, operands, stream);
    else
        launch<T, 5, 2>(d, pass, operands, stream);
}

cudaError_t cuda_depthwise(const struct cuda_depthwise *d, enum cuda_depthwise_pass pass,
                           const struct cuda_depthwise_operands *operands, cudaStream_t stream)
{
    if (d->type == TENSOR_BFLOAT16)
        launch_kind<__nv_bfloat16>(d, pass, operands, stream);
    else if (d->type == TENSOR_FLOAT16)
        launch_kind<__half>(d, pass, operands, stream);
    else
        launch_kind<float>(d, pass, operands, stream);
    return cudaGetLastError();
}
