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

template <int KIND>
static cudaError_t bias_activation(struct cuda_array x, const float *bias, struct cuda_array sum,
                                   struct cuda_array y, int64_t rows, int64_t channels,
                                   cudaStream_t stream)
{
    const int64_t count = rows * channels;

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

constexpr int COLUMNS =
    32; /* the most strips of channels of a block; its other threads take rows in turn */

/* Block (c, p) sums up the strips from `columns` c on over the rows of part p. */
template <int WIDTH, int KIND>
__global__ void channel_parts_kernel(struct cuda_channel_sum s, int columns, int64_t rows_of_part)
{
    __shared__ float shared[WIDTH][BLOCK];
    const int column = threadIdx.x % columns, lane = threadIdx.x / columns;
    const int lanes = blockDim.x / columns;
    const int64_t channel = ((int64_t)blockIdx.x * columns + column) * WIDTH;
    const int64_t first = (int64_t)blockIdx.y * rows_of_part;
    const int64_t end = first + rows_of_part < s.rows ? first + rows_of_part : s.rows;
    float total[WIDTH] = {};

#pragma unroll 4
    for (int64_t r = first + lane; r < end && channel < s.channels; r += lanes) {
        const int64_t at = r * s.channels + channel;
        float value[WIDTH], saved[WIDTH];

        load(s.x, at, value);
        if (KIND != NO_ACTIVATION) {
            load(s.saved, at, saved);
            for (int k = 0; k < WIDTH; k++)
                value[k] = taken_back<KIND>(value[k], saved[k]);
            store(s.result, at, value);
        }
        if (s.position)
            for (int k = 0; k < WIDTH; k++)
                value[k] = s.position[at + k] == CUDA_POOL_NOWHERE ? 0.0f : value[k];
        for (int k = 0; k < WIDTH; k++)
            total[k] += value[k];
    }
    for (int k = 0; k < WIDTH; k++)
        shared[k][threadIdx.x] = total[k];
    for (int left = lanes; left > 1;) {
        const int half = (left + 1) / 2, other = threadIdx.x + half * columns;

        __syncthreads();
        for (int k = 0; k < WIDTH && lane + half < left; k++)
            shared[k][threadIdx.x] += shared[k][other];
        left = half;
    }
    if (lane > 0 || channel >= s.channels)
        return;
    for (int k = 0; k < WIDTH; k++)
        s.parts[(int64_t)blockIdx.y * s.channels + channel + k] = shared[k][threadIdx.x];
}

/* `most`: the most parts. */
template <int WIDTH, int KIND>
static void channel_parts(const struct cuda_channel_sum *s, int most, int *count,
                          cudaStream_t stream)
{
    const int64_t strips = s->channels / WIDTH;
    const int columns = (int)(strips < COLUMNS ? strips : COLUMNS), lanes = BLOCK / columns;
    int64_t rows_of_part = (s->rows + most - 1) / most;

    if (rows_of_part < lanes)
        rows_of_part = lanes;
    *count = (int)((s->rows + rows_of_part - 1) / rows_of_part);
    channel_parts_kernel<WIDTH, KIND>
        <<<dim3((unsigned)((strips + columns - 1) / columns), (unsigned)*count), lanes * columns, 0,
           stream>>>(*s, columns, rows_of_part);
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
    const int together = rows_together(sum), most = CUDA_CHANNEL_PARTS / together;
    struct cuda_channel_sum folded = *sum, *s = &folded;
    int count = 0;

    folded.rows /= together;
    folded.channels *= together;
    switch (s->kind) {
#define PARTS(kind)                                          \
    if (s->channels % GROUP == 0)                            \
        channel_parts<GROUP, kind>(s, most, &count, stream); \
    else                                                     \
        channel_parts<1, kind>(s, most, &count, stream);
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
    return cuda_filter_total(sum->parts, count * together, (int)sum->channels, 1, sum->accumulate,
                             sum->sum, stream);
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
