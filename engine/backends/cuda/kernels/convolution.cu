/* convolution.cu: the operations of a convolution beside cuDNN, one pass each: biases with the
 * activation behind them, the gradients of both, and gradients of weights that cuDNN wrote in 16
 * bits. */
#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

/* ---- biases and activations ---- */

constexpr int NO_ACTIVATION = -1;

template <int KIND> __device__ static inline float activated(float x)
{
    return KIND == NO_ACTIVATION ? x : activate<KIND>(x);
}

template <int KIND> __device__ static inline float taken_back(float dy, float saved)
{
    return KIND == NO_ACTIVATION ? dy : activate_backward<KIND>(dy, saved);
}

/* A thread has eight adjacent numbers, of any channels. */
template <int KIND>
__global__ void bias_activation_kernel(struct cuda_array x, const float *bias,
                                       struct cuda_array sum, struct cuda_array y,
                                       unsigned channels, int64_t count)
{
    const bool writes = KIND != NO_ACTIVATION || !sum.at;

    FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
    {
        const int64_t first = g * GROUP;
        unsigned c =
            count <= UINT32_MAX ? (unsigned)first % channels : (unsigned)(first % channels);

        if (first + GROUP <= count) {
            struct group value = array_load_group(x, first);

#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                value.value[k] += bias ? bias[c] : 0.0f;
                c = c + 1 == channels ? 0 : c + 1;
            }
            if (sum.at)
                array_store_group(sum, first, value);
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                value.value[k] = activated<KIND>(value.value[k]);
            if (writes)
                array_store_group(y, first, value);
            continue;
        }
        for (int64_t i = first; i < count; i++) {
            const float value = array_load(x, i) + (bias ? bias[c] : 0.0f);

            c = c + 1 == channels ? 0 : c + 1;
            if (sum.at)
                array_store(sum, i, value);
            if (writes)
                array_store(y, i, activated<KIND>(value));
        }
    }
}

/* The same where eight divides the channels, and all arrays are of one type: the biases are two
 * reads, and no access chooses a type. */
template <int KIND, typename T>
__global__ void bias_activation_typed_kernel(const T *x, const float *bias, T *sum, T *y,
                                             unsigned channels, int64_t count)
{
    const bool writes = KIND != NO_ACTIVATION || !sum;

    FOR_EACH_ELEMENT(g, count / GROUP)
    {
        const int64_t first = g * GROUP;
        const unsigned c =
            count <= UINT32_MAX ? (unsigned)first % channels : (unsigned)(first % channels);
        const struct group offset = bias ? group_load(bias + c) : group{};
        struct group value = group_load(x + first);

#pragma unroll
        for (int k = 0; k < GROUP; k++)
            value.value[k] += offset.value[k];
        if (sum)
            group_store(sum + first, value);
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            value.value[k] = activated<KIND>(value.value[k]);
        if (writes)
            group_store(y + first, value);
    }
}

template <int KIND, typename T>
static void bias_activation_typed(const T *x, const float *bias, T *sum, T *y, int64_t count,
                                  int64_t channels, cudaStream_t stream)
{
    bias_activation_typed_kernel<KIND><<<blocks_for(count / GROUP), BLOCK, 0, stream>>>(
        x, bias, sum, y, (unsigned)channels, count);
}

template <int KIND>
static cudaError_t bias_activation(struct cuda_array x, const float *bias, struct cuda_array sum,
                                   struct cuda_array y, int64_t rows, int64_t channels,
                                   cudaStream_t stream)
{
    const int64_t count = rows * channels;

#define TYPED(T)                                                                                \
    bias_activation_typed<KIND>((const T *)x.at, bias, (T *)sum.at, (T *)y.at, count, channels, \
                                stream)
    if (channels % GROUP == 0 && are_all(x.type, sum, y)) {
        if (x.type == TENSOR_BFLOAT16)
            TYPED(__nv_bfloat16);
        else if (x.type == TENSOR_FLOAT16)
            TYPED(__half);
        else
            TYPED(float);
        return cudaGetLastError();
    }
#undef TYPED
    bias_activation_kernel<KIND><<<blocks_for((count + GROUP - 1) / GROUP), BLOCK, 0, stream>>>(
        x, bias, sum, y, (unsigned)channels, count);
    return cudaGetLastError();
}

cudaError_t cuda_bias_activation(struct cuda_array x, const float *bias, int kind,
                                 struct cuda_array sum, struct cuda_array y, int64_t rows,
                                 int64_t channels, cudaStream_t stream)
{
    switch (kind) {
#define DO(name) \
    case name:   \
        return bias_activation<name>(x, bias, sum, y, rows, channels, stream);
        EVERY_ACTIVATION(DO)
#undef DO
    default:
        return bias_activation<NO_ACTIVATION>(x, bias, sum, y, rows, channels, stream);
    }
}

/* ---- sums of channels ---- */

/* The most strips of channels of a block, whose other threads take rows in turn. Few of eight
 * channels each, so that the last block has several threads for the sums of each channel. */
constexpr int FEW_COLUMNS = 8, MANY_COLUMNS = 32;
constexpr int BLOCKS_AIM = 264; /* so many blocks keep a large GPU busy */

/* How the blocks divide the rows and channels. */
struct channel_tiles {
    int columns;  /* strips of channels of a block */
    int together; /* rows that count as one row with as many times the channels */
    int64_t rows_of_part;
    bool whole; /* the last block of its columns to arrive adds the parts up */
};

/* Adds up rows of `columns` sums each, which the block's threads have left side by side. */
template <int WIDTH>
__device__ static inline void add_rows(float (&shared)[WIDTH][BLOCK], int rows, int columns)
{
    const int row = threadIdx.x / columns;

    for (int left = rows; left > 1;) {
        const int half = (left + 1) / 2, other = threadIdx.x + half * columns;

        __syncthreads();
        for (int k = 0; k < WIDTH && row + half < left; k++)
            shared[k][threadIdx.x] += shared[k][other];
        left = half;
    }
}

/* The sums over all parts of the block's columns, and over rows that count as one. */
template <int WIDTH>
__device__ static inline void finish_channels(float (&shared)[WIDTH][BLOCK],
                                              const struct cuda_channel_sum &s,
                                              const struct channel_tiles &t)
{
    const int values = t.columns * WIDTH, channels = values / t.together;
    const int share = threadIdx.x / values, value = threadIdx.x % values;
    const int shares = gridDim.y == 1 ? 1 : blockDim.x / values;
    const int64_t from = (int64_t)blockIdx.x * values + value;
    const int64_t to = (int64_t)blockIdx.x * channels + threadIdx.x;
    const bool finishes = threadIdx.x < channels && to < s.channels / t.together;
    const float before = finishes && s.accumulate ? s.sum[to] : 0.0f;
    float total = 0;

    __syncthreads();
    if (gridDim.y == 1) {
        if (share == 0)
            total = shared[value % WIDTH][value / WIDTH];
    } else if (share < shares && from < s.channels) {
#pragma unroll 16
        for (int p = share; p < gridDim.y; p += shares)
            total += __ldcg(&s.parts[p * s.channels + from]);
    }
    __syncthreads();
    float(&sums)[1][BLOCK] = *(float(*)[1][BLOCK]) & shared[0];

    sums[0][threadIdx.x] = total;
    add_rows<1>(sums, shares * t.together, channels);
    if (finishes)
        s.sum[to] = before + sums[0][threadIdx.x];
}

/* Block (c, p) sums up the strips from `columns` c on over the rows of part p. The arrays are those
 * of `s`. */
template <int WIDTH, int KIND, typename Array>
__global__ void channel_parts_kernel(Array x, Array operand, Array result,
                                     struct cuda_channel_sum s, struct channel_tiles t)
{
    constexpr int AHEAD = 4;
    __shared__ float shared[WIDTH][BLOCK];
    const int column = threadIdx.x % t.columns, lane = threadIdx.x / t.columns;
    const int lanes = blockDim.x / t.columns;
    const int64_t channel = ((int64_t)blockIdx.x * t.columns + column) * WIDTH;
    const int64_t first = (int64_t)blockIdx.y * t.rows_of_part;
    const int64_t end = first + t.rows_of_part < s.rows ? first + t.rows_of_part : s.rows;
    float total[WIDTH] = {};

    for (int64_t r = first + lane; r < end && channel < s.channels; r += AHEAD * lanes) {
        float value[AHEAD][WIDTH], saved[AHEAD][WIDTH];

        /* beyond the end, the last row once more: without branches all reads are under way
         * at once */
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t at = min(r + i * lanes, end - 1) * s.channels + channel;

            load(x, at, value[i]);
            if (KIND != NO_ACTIVATION)
                load(operand, at, saved[i]);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t at = (r + i * lanes) * s.channels + channel;

            if (r + i * lanes >= end)
                continue;
            if (KIND != NO_ACTIVATION) {
                for (int k = 0; k < WIDTH; k++)
                    value[i][k] = taken_back<KIND>(value[i][k], saved[i][k]);
                store(result, at, value[i]);
            }
            if (s.position)
                for (int k = 0; k < WIDTH; k++)
                    value[i][k] = s.position[at + k] == CUDA_POOL_NOWHERE ? 0.0f : value[i][k];
            for (int k = 0; k < WIDTH; k++)
                total[k] += value[i][k];
        }
    }
    for (int k = 0; k < WIDTH; k++)
        shared[k][threadIdx.x] = total[k];
    add_rows<WIDTH>(shared, lanes, t.columns);
    if (lane == 0 && channel < s.channels && (!t.whole || gridDim.y > 1))
        for (int k = 0; k < WIDTH; k++)
            s.parts[(int64_t)blockIdx.y * s.channels + channel + k] = shared[k][threadIdx.x];
    if (t.whole && (gridDim.y == 1 || arrives_last(&s.arrivals[blockIdx.x], gridDim.y)))
        finish_channels<WIDTH>(shared, s, t);
}

template <int WIDTH, int KIND, typename Array>
static void launch_parts(const struct cuda_channel_sum &s, Array x, Array operand, Array result,
                         const struct channel_tiles &t, dim3 grid, cudaStream_t stream)
{
    channel_parts_kernel<WIDTH, KIND>
        <<<grid, BLOCK / t.columns * t.columns, 0, stream>>>(x, operand, result, s, t);
}

/* The strips of eight channels of a block. Memory is read in sectors, which hold two strips of 16
 * bits: blocks with an odd number of strips read half a sector in vain. Of the numbers that read
 * the least in total, it is the one nearest to FEW_COLUMNS. */
static int choose_columns(int64_t strips)
{
    const int most = strips < 2 * FEW_COLUMNS ? (int)strips : 2 * FEW_COLUMNS;
    int64_t least = INT64_MAX;
    int chosen = most;

    for (int columns = most < FEW_COLUMNS / 2 ? most : FEW_COLUMNS / 2; columns <= most;
         columns++) {
        const int64_t read = (strips + columns - 1) / columns * (columns + columns % 2);

        if (read > least ||
            (read == least && abs(columns - FEW_COLUMNS) > abs(chosen - FEW_COLUMNS)))
            continue;
        least = read;
        chosen = columns;
    }
    return chosen;
}

/* The same for single channels, or for rows that count as one: blocks side by side have as many
 * strips each, not the last one few. */
static int choose_many_columns(int64_t strips)
{
    const int64_t across = (strips + MANY_COLUMNS - 1) / MANY_COLUMNS;

    return (int)((strips + across - 1) / across);
}

/* How many parts the rows are divided into: so many that blocks keep a large GPU busy, but no more,
 * since the last block has to add them up. */
static int most_parts(int64_t across, int together)
{
    const int64_t most = CUDA_CHANNEL_PARTS / together, enough = (BLOCKS_AIM + across - 1) / across;

    return (int)(enough < most ? enough : most);
}

/* Returns how many parts are left to add up. */
template <int WIDTH, int KIND>
static int channel_parts(const struct cuda_channel_sum &s, int together, cudaStream_t stream)
{
    const int64_t strips = s.channels / WIDTH;
    const int columns =
        WIDTH == 1 || together > 1 ? choose_many_columns(strips) : choose_columns(strips);
    const int most = most_parts((strips + columns - 1) / columns, together);
    struct channel_tiles t = {columns, together, (s.rows + most - 1) / most, false};
    const int lanes = BLOCK / t.columns;

    if (t.rows_of_part < lanes)
        t.rows_of_part = lanes;
    const dim3 grid((unsigned)((strips + t.columns - 1) / t.columns),
                    (unsigned)((s.rows + t.rows_of_part - 1) / t.rows_of_part));

    t.whole = together == 1 ? grid.x <= CUDA_ARRIVALS : grid.x == 1;
#define PARTS(Array, of) \
    launch_parts<WIDTH, KIND, Array>(s, of(s.x), of(s.saved), of(s.result), t, grid, stream)
    if constexpr (WIDTH == 1)
        PARTS(struct cuda_array, );
    else if (!are_all(s.x.type, s.saved, s.result))
        PARTS(struct cuda_array, );
    else if (s.x.type == TENSOR_BFLOAT16)
        PARTS(struct typed_array<__nv_bfloat16>, typed<__nv_bfloat16>);
    else if (s.x.type == TENSOR_FLOAT16)
        PARTS(struct typed_array<__half>, typed<__half>);
    else
        PARTS(struct typed_array<float>, typed<float>);
#undef PARTS
    return t.whole ? 0 : (int)grid.y * together;
}

/* How many adjacent rows count as one row with as many times the channels, which eight then
 * divides; 1: the rows cannot be divided so. */
static int rows_together(const struct cuda_channel_sum *s)
{
    int together = 1;

    while (s->channels * together % GROUP)
        together *= 2;
    return s->rows % together ? 1 : together;
}

cudaError_t cuda_channel_sum(const struct cuda_channel_sum *sum, cudaStream_t stream)
{
    const int together = rows_together(sum);
    struct cuda_channel_sum s = *sum;
    int left = 0;

    s.rows /= together;
    s.channels *= together;
    switch (s.kind) {
#define PARTS(kind)                                                                  \
    left = s.channels % GROUP == 0 ? channel_parts<GROUP, kind>(s, together, stream) \
                                   : channel_parts<1, kind>(s, together, stream)
#define DO(name)     \
    case name:       \
        PARTS(name); \
        break;
        EVERY_ACTIVATION(DO)
    default:
        PARTS(NO_ACTIVATION);
#undef DO
#undef PARTS
    }
    if (left == 0)
        return cudaGetLastError();
    return cuda_filter_total(sum->parts, left, (int)sum->channels, 1, sum->accumulate, sum->sum,
                             stream);
}

/* ---- gradients of weights ---- */

__global__ void add_gradient_kernel(struct cuda_array from, float *gradient, int64_t count,
                                    bool accumulate)
{
    const struct cuda_array to = {gradient, TENSOR_FLOAT32};

    FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
    {
        const int64_t first = g * GROUP;

        if (first + GROUP <= count) {
            struct group value = array_load_group(from, first);

            if (accumulate) {
                struct group before = array_load_group(to, first);

                for (int k = 0; k < GROUP; k++)
                    value.value[k] += before.value[k];
            }
            array_store_group(to, first, value);
        } else {
            for (int64_t i = first; i < count; i++)
                gradient[i] = array_load(from, i) + (accumulate ? gradient[i] : 0.0f);
        }
    }
}

cudaError_t cuda_add_gradient(struct cuda_array from, float *gradient, int64_t count,
                              bool accumulate, cudaStream_t stream)
{
    add_gradient_kernel<<<blocks_for((count + GROUP - 1) / GROUP), BLOCK, 0, stream>>>(
        from, gradient, count, accumulate);
    return cudaGetLastError();
}

/* ---- other numbers of channels ---- */

/* Index: 32 bits where they are enough, as those divide several times faster. */
template <typename Index>
__global__ void fill_channels_kernel(struct cuda_fill f, struct cuda_array from,
                                     struct cuda_array to, int64_t count, bool accumulate)
{
    const Index rows = (Index)f.to_rows, taps = (Index)f.taps, channels = (Index)f.to_channels;

    FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
    {
        const int64_t first = g * GROUP;
        Index channel = (Index)first % channels, line = (Index)first / channels;
        struct group value;

#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            const Index tap = line % taps, row = line / taps % rows, block = line / taps / rows;
            const bool inside = row < f.from_rows && channel < f.from_channels && first + k < count;
            const int64_t at =
                (((int64_t)block * f.from_rows + row) * taps + tap) * f.from_channels + channel;

            value.value[k] = inside ? array_load(from, at) : 0.0f;
            if (++channel == channels) {
                channel = 0;
                line++;
            }
        }
        if (accumulate)
            for (int k = 0; k < GROUP && first + k < count; k++)
                value.value[k] += array_load(to, first + k);
        if (first + GROUP <= count)
            array_store_group(to, first, value);
        else
            for (int k = 0; first + k < count; k++)
                array_store(to, first + k, value.value[k]);
    }
}

cudaError_t cuda_fill_channels(const struct cuda_fill *fill, struct cuda_array from,
                               struct cuda_array to, bool accumulate, cudaStream_t stream)
{
    const int64_t count = fill->blocks * fill->to_rows * fill->taps * fill->to_channels;
    const int blocks = blocks_for((count + GROUP - 1) / GROUP);

    if (count + GROUP <= UINT32_MAX)
        fill_channels_kernel<uint32_t>
            <<<blocks, BLOCK, 0, stream>>>(*fill, from, to, count, accumulate);
    else
        fill_channels_kernel<uint64_t>
            <<<blocks, BLOCK, 0, stream>>>(*fill, from, to, count, accumulate);
    return cudaGetLastError();
}
