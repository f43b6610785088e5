/* direct.cu: convolutions with few channels in a group (one: depthwise), for any filter, stride,
 * padding, dilation and number of channels. A thread computes one channel of some results of a
 * line, and sums up in float32. Where possible it takes results at such a distance (`gap`) that
 * their taps fall on the same pixels, and reads each pixel once. Images are channels-last, filters
 * [O,kh,kw,C/groups].
 *
 * depthwise.cu is for filters whose size is known when it is compiled; its threads take eight
 * channels. This file is for all others. */
#include "engine/backends/cuda/kernels/taps.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

namespace
{

constexpr int STRIP = 4; /* results of a thread */
/* for the gradient by weights: columns of the filter for which a thread has sums */
constexpr int TAPS = 8;
constexpr int FILTER_MOST = 8192; /* the most numbers of filters that a block keeps */
constexpr int CHANNELS_MOST = 64; /* the most channels of a block */

struct shape {
    struct cuda_convolution c;
    int inputs, outputs; /* of a group */
    int taps;            /* of a filter */
    int slab;            /* channels of a block */
    int gap;             /* columns from one result of a strip to the next */
    bool shares;         /* tap k of result t reads the pixel that tap k + 1 of result t - 1 does */
};

/* Strips of a line of so many columns: `gap` strips interleave. */
__host__ __device__ inline int strips_of(int width, int gap)
{
    return (width + STRIP * gap - 1) / (STRIP * gap) * gap;
}

/* The first column of a strip; the others follow at a distance of gap. */
__device__ inline int column_of(const struct shape &s, int strip)
{
    return s.gap == 1 ? strip * STRIP : strip / s.gap * STRIP * s.gap + strip % s.gap;
}

template <typename T> __device__ inline float read(const T *from, int64_t at, bool inside)
{
    return inside ? to_float(from[at]) : 0.0f;
}

/* Loads filters. Forward: filters[(tap inputs + i) slab + o]. By the data: [(tap outputs + o) slab
 * + i]. */
template <typename T, bool FORWARD>
__device__ inline void load_filters(const struct shape &s, const T *weight, int first, int count,
                                    float *filters)
{
    const int inner = FORWARD ? s.inputs : s.outputs;

    for (int at = threadIdx.x; at < s.taps * inner * count; at += BLOCK) {
        const int channel = first + at % count, k = at / count, other = k % inner, tap = k / inner;
        const int o = FORWARD ? channel : channel / s.inputs * s.outputs + other;
        const int i = FORWARD ? other : channel % s.inputs;

        filters[k * s.slab + at % count] =
            to_float(weight[((int64_t)o * s.taps + tap) * s.inputs + i]);
    }
    __syncthreads();
}

/* Adds the products of one line of the filter with a line of x, for one channel of the group. */
template <typename T, int K>
__device__ inline void add_line(const struct shape &s, const T *line, const float *filter,
                                int filter_pitch, int left, float (&sum)[STRIP])
{
    const int width = s.c.width, pitch = s.c.channels;
    const int step = s.gap * s.c.stride[1], dilation = s.c.dilation[1];

    if (K > 0 && s.shares) {
        constexpr int COLUMNS = STRIP + (K > 0 ? K : 1) - 1;
        float value[COLUMNS];

#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const int column = left + j * dilation;

            value[j] = read(line, (int64_t)column * pitch, (unsigned)column < (unsigned)width);
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            const float w = filter[k * filter_pitch];

#pragma unroll
            for (int t = 0; t < STRIP; t++)
                sum[t] += value[t + k] * w;
        }
        return;
    }
    if (left >= 0 && left + (STRIP - 1) * step + (s.c.kernel[1] - 1) * dilation < width) {
        line += (int64_t)left * pitch;
#pragma unroll(K > 0 ? K : 1)
        for (int k = 0; k < (K > 0 ? K : s.c.kernel[1]); k++) {
            const float w = filter[k * filter_pitch];

#pragma unroll
            for (int t = 0; t < STRIP; t++)
                sum[t] += to_float(line[(t * step + k * dilation) * pitch]) * w;
        }
        return;
    }
    for (int k = 0; k < s.c.kernel[1]; k++) {
        const float w = filter[k * filter_pitch];

#pragma unroll
        for (int t = 0; t < STRIP; t++) {
            const int column = left + t * step + k * dilation;

            sum[t] += read(line, (int64_t)column * pitch, (unsigned)column < (unsigned)width) * w;
        }
    }
}

/* A thread has a channel of the slab, and every n-th strip. */
template <typename T, int K>
__global__ void __launch_bounds__(BLOCK)
    direct_forward_kernel(struct shape s, const T *x, const T *weight, const float *bias, T *y)
{
    extern __shared__ float filters[];
    const int first = (int)blockIdx.y * s.slab, count = min(s.slab, s.c.outputs - first);
    const int channel = (int)threadIdx.x % s.slab, rows = BLOCK / s.slab;
    const int strips_of_line = strips_of(s.c.out_width, s.gap), o = first + channel;
    const int strips = s.c.batch * s.c.out_height * strips_of_line;
    const int input = o / s.outputs * s.inputs;

    load_filters<T, true>(s, weight, first, count, filters);
    if (channel >= count || (int)threadIdx.x >= rows * s.slab)
        return;
    for (int strip = (int)blockIdx.x * rows + (int)threadIdx.x / s.slab; strip < strips;
         strip += (int)gridDim.x * rows) {
        const int line = strip / strips_of_line, n = line / s.c.out_height;
        const int column = column_of(s, strip % strips_of_line);
        const int top = line % s.c.out_height * s.c.stride[0] - s.c.padding[0];
        const int left = column * s.c.stride[1] - s.c.padding[1];
        float sum[STRIP];

#pragma unroll
        for (int t = 0; t < STRIP; t++)
            sum[t] = bias ? bias[o] : 0.0f;
        for (int r = 0; r < s.c.kernel[0]; r++) {
            const int h = top + r * s.c.dilation[0];

            if (h < 0 || h >= s.c.height)
                continue;
            for (int i = 0; i < s.inputs; i++)
                add_line<T, K>(
                    s, x + (int64_t)(n * s.c.height + h) * s.c.width * s.c.channels + input + i,
                    filters + (r * s.c.kernel[1] * s.inputs + i) * s.slab + channel,
                    s.inputs * s.slab, left, sum);
        }
#pragma unroll
        for (int t = 0; t < STRIP; t++)
            if (column + t * s.gap < s.c.out_width)
                y[(int64_t)(line * s.c.out_width + column + t * s.gap) * s.c.outputs + o] =
                    from_float<T>(sum[t]);
    }
}

/* Adds the products of one line of the filter with a line of dy, for one output of the group. */
template <typename T, int K>
__device__ inline void add_line_back(const struct shape &s, const T *line, const float *filter,
                                     int filter_pitch, int column, float (&sum)[STRIP])
{
    const int pitch = s.c.outputs;

    if (K > 0 && s.shares) {
        constexpr int COLUMNS = STRIP + (K > 0 ? K : 1) - 1;
        const int left = column + s.c.padding[1] - (K - 1) * s.c.dilation[1];
        float value[COLUMNS];

#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const int at = left + j * s.c.dilation[1];

            value[j] = read(line, (int64_t)at * pitch, (unsigned)at < (unsigned)s.c.out_width);
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            const float w = filter[k * filter_pitch];

#pragma unroll
            for (int t = 0; t < STRIP; t++)
                sum[t] += value[t + K - 1 - k] * w;
        }
        return;
    }
    for (int k = 0; k < s.c.kernel[1]; k++) {
        const float w = filter[k * filter_pitch];

#pragma unroll
        for (int t = 0; t < STRIP; t++) {
            const int beside = result_of(column + t * s.gap, k, s.c.padding[1], s.c.dilation[1],
                                         s.c.stride[1], s.c.out_width);

            sum[t] += read(line, (int64_t)beside * pitch, beside >= 0) * w;
        }
    }
}

template <typename T, int K>
__global__ void __launch_bounds__(BLOCK)
    direct_data_kernel(struct shape s, const T *dy, const T *weight, T *dx)
{
    extern __shared__ float filters[];
    const int first = (int)blockIdx.y * s.slab, count = min(s.slab, s.c.channels - first);
    const int channel = (int)threadIdx.x % s.slab, rows = BLOCK / s.slab;
    const int strips_of_line = strips_of(s.c.width, s.gap), i = first + channel;
    const int strips = s.c.batch * s.c.height * strips_of_line;
    const int output = i / s.inputs * s.outputs, pitch = s.c.outputs;

    load_filters<T, false>(s, weight, first, count, filters);
    if (channel >= count || (int)threadIdx.x >= rows * s.slab)
        return;
    for (int strip = (int)blockIdx.x * rows + (int)threadIdx.x / s.slab; strip < strips;
         strip += (int)gridDim.x * rows) {
        const int line = strip / strips_of_line, n = line / s.c.height;
        const int column = column_of(s, strip % strips_of_line), h = line % s.c.height;
        float sum[STRIP] = {};

        for (int r = 0; r < s.c.kernel[0]; r++) {
            const int above =
                result_of(h, r, s.c.padding[0], s.c.dilation[0], s.c.stride[0], s.c.out_height);

            if (above < 0)
                continue;
            for (int o = 0; o < s.outputs; o++)
                add_line_back<T, K>(
                    s,
                    dy + (int64_t)(n * s.c.out_height + above) * s.c.out_width * pitch + output + o,
                    filters + (r * s.c.kernel[1] * s.outputs + o) * s.slab + channel,
                    s.outputs * s.slab, column, sum);
        }
#pragma unroll
        for (int t = 0; t < STRIP; t++)
            if (column + t * s.gap < s.c.width)
                dx[(int64_t)(line * s.c.width + column + t * s.gap) * s.c.channels + i] =
                    from_float<T>(sum[t]);
    }
}

/* ---- by the weights ---- */

/* Adds the products of a line of dy with that line of x, for columns k0 to k0 + TAPS of the
 * filter. */
template <typename T, int K>
__device__ inline void add_products(const struct shape &s, const T *x, const T *dy, int k0,
                                    float (&sum)[TAPS])
{
    const int width = s.c.width, out_width = s.c.out_width;

    if (K > 0 && s.shares) {
        constexpr int COLUMNS = STRIP + (K > 0 ? K : 1) - 1;

        for (int strip = 0; strip < strips_of(out_width, s.gap); strip++) {
            const int column = column_of(s, strip);
            const int left = column * s.c.stride[1] - s.c.padding[1];
            float value[COLUMNS], gradient[STRIP];

#pragma unroll
            for (int t = 0; t < STRIP; t++)
                gradient[t] = read(dy, (int64_t)(column + t * s.gap) * s.c.outputs,
                                   column + t * s.gap < out_width);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const int at = left + j * s.c.dilation[1];

                value[j] = read(x, (int64_t)at * s.c.channels, (unsigned)at < (unsigned)width);
            }
#pragma unroll
            for (int k = 0; k < K; k++)
#pragma unroll
                for (int t = 0; t < STRIP; t++)
                    sum[k] += value[t + k] * gradient[t];
        }
        return;
    }
    for (int column = 0; column < out_width; column++) {
        const float gradient = read(dy, (int64_t)column * s.c.outputs, true);
        const int left = column * s.c.stride[1] - s.c.padding[1] + k0 * s.c.dilation[1];

#pragma unroll
        for (int k = 0; k < TAPS; k++) {
            const int at = left + k * s.c.dilation[1];

            sum[k] += read(x, (int64_t)at * s.c.channels,
                           k0 + k < s.c.kernel[1] && (unsigned)at < (unsigned)width) *
                      gradient;
        }
    }
}

/* Block (p, pairs, line of the filter and its columns) computes the sums over part p of the lines
 * of all images, for `lanes` pairs of an output and an input of its group:
 * parts[p][O][kh][kw][inputs]. */
template <typename T, int K>
__global__ void __launch_bounds__(BLOCK)
    direct_weights_kernel(struct shape s, const T *x, const T *dy, float *parts, int lanes)
{
    __shared__ float shared[BLOCK][TAPS];
    const int rows = BLOCK / lanes, lane = (int)threadIdx.x % lanes, row = (int)threadIdx.x / lanes;
    const int pairs = s.c.outputs * s.inputs, pair = (int)blockIdx.y * lanes + lane;
    const int columns = (s.c.kernel[1] + TAPS - 1) / TAPS;
    const int r = (int)blockIdx.z / columns, k0 = (int)blockIdx.z % columns * TAPS;
    const int o = pair / s.inputs, input = o / s.outputs * s.inputs + pair % s.inputs;
    const int lines = s.c.batch * s.c.out_height;
    float sum[TAPS] = {};

    for (int line = (int)blockIdx.x * rows + row; row < rows && pair < pairs && line < lines;
         line += (int)gridDim.x * rows) {
        const int h = line % s.c.out_height * s.c.stride[0] - s.c.padding[0] + r * s.c.dilation[0];
        const int n = line / s.c.out_height;

        if (h >= 0 && h < s.c.height)
            add_products<T, K>(s,
                               x + (int64_t)(n * s.c.height + h) * s.c.width * s.c.channels + input,
                               dy + (int64_t)line * s.c.out_width * s.c.outputs + o, k0, sum);
    }
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        shared[threadIdx.x][k] = sum[k];
    __syncthreads();
    for (int at = threadIdx.x; at < lanes * TAPS; at += BLOCK) {
        const int k = at / lanes, of = at % lanes, its = (int)blockIdx.y * lanes + of;
        float total = 0;

        for (int other = 0; other < rows; other++)
            total += shared[other * lanes + of][k];
        if (its < pairs && k0 + k < s.c.kernel[1])
            parts[(((int64_t)blockIdx.x * s.c.outputs + its / s.inputs) * s.taps +
                   r * s.c.kernel[1] + k0 + k) *
                      s.inputs +
                  its % s.inputs] = total;
    }
}

template <typename T, int K>
void launch_weights(const struct shape &s, const struct cuda_depthwise_operands *o,
                    cudaStream_t stream)
{
    const int pairs = s.c.outputs * s.inputs, lanes = pairs < 32 ? pairs : 32;
    const int rows = BLOCK / lanes, slabs = (pairs + lanes - 1) / lanes;
    const int lines_of_filter = s.c.kernel[0] * ((s.c.kernel[1] + TAPS - 1) / TAPS);
    const int64_t lines = (int64_t)s.c.batch * s.c.out_height;
    const int64_t elements = (int64_t)pairs * s.taps;
    int64_t parts = (int64_t)(o->part_bytes / (sizeof(float) * (size_t)elements));
    const int64_t filling = CUDA_DIRECT_BLOCKS / ((int64_t)slabs * lines_of_filter) + 1;

    parts = parts < filling ? parts : filling;
    parts = parts < (lines + rows - 1) / rows ? parts : (lines + rows - 1) / rows;
    direct_weights_kernel<T, K>
        <<<dim3((unsigned)parts, (unsigned)slabs, (unsigned)lines_of_filter), BLOCK, 0, stream>>>(
            s, (const T *)o->x, (const T *)o->y, o->parts, lanes);
    cuda_column_sum({.at = o->parts, .type = TENSOR_FLOAT32}, parts, elements, o->accumulate,
                    o->gradient, stream);
}

template <typename T, int K>
void launch(struct shape s, enum cuda_depthwise_pass pass, const struct cuda_depthwise_operands *o,
            cudaStream_t stream)
{
    const bool forward = pass == CUDA_DEPTHWISE_FORWARD;
    const int channels = forward ? s.c.outputs : s.c.channels;
    const int inner = s.taps * (forward ? s.inputs : s.outputs);
    const int64_t lines = (int64_t)s.c.batch * (forward ? s.c.out_height : s.c.height);
    const int64_t strips = lines * strips_of(forward ? s.c.out_width : s.c.width, s.gap);

    if (pass == CUDA_DEPTHWISE_WEIGHTS)
        return launch_weights<T, K>(s, o, stream);
    s.slab = channels < CHANNELS_MOST ? channels : CHANNELS_MOST;
    s.slab = s.slab * inner <= FILTER_MOST ? s.slab : FILTER_MOST / inner;
    const int slabs = (channels + s.slab - 1) / s.slab, rows = BLOCK / s.slab;
    const int64_t useful = (strips + rows - 1) / rows, filling = 4 * CUDA_DIRECT_BLOCKS / slabs + 1;
    const dim3 grid((unsigned)(useful < filling ? useful : filling), (unsigned)slabs);
    const size_t shared = sizeof(float) * (size_t)(inner * s.slab);

    if (forward)
        direct_forward_kernel<T, K><<<grid, BLOCK, shared, stream>>>(
            s, (const T *)o->x, (const T *)o->weight, o->bias, (T *)o->y);
    else
        direct_data_kernel<T, K>
            <<<grid, BLOCK, shared, stream>>>(s, (const T *)o->y, (const T *)o->weight, (T *)o->x);
}

template <typename T>
void launch_kind(const struct shape &s, enum cuda_depthwise_pass pass,
                 const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    switch (s.c.kernel[1]) {
    case 1:
        return launch<T, 1>(s, pass, o, stream);
    case 3:
        return launch<T, 3>(s, pass, o, stream);
    case 5:
        return launch<T, 5>(s, pass, o, stream);
    case 7:
        return launch<T, 7>(s, pass, o, stream);
    default:
        return launch<T, 0>(s, pass, o, stream);
    }
}

} // namespace

bool cuda_direct_is_possible(const struct cuda_convolution *c, size_t part_bytes)
{
    const int64_t inputs = c->channels / c->groups, outputs = c->outputs / c->groups;
    const int64_t taps = (int64_t)c->kernel[0] * c->kernel[1];

    return taps * (inputs > outputs ? inputs : outputs) <= FILTER_MOST &&
           taps * inputs * c->outputs * (int64_t)sizeof(float) <= (int64_t)part_bytes &&
           (int64_t)c->outputs * inputs / 32 < 65535 && c->kernel[0] * c->kernel[1] < 65535;
}

/* With results at a distance of `gap`, a strip reads STRIP + K - 1 pixels of each line of its
 * filter; without, STRIP K. Where a line is shorter than a strip, there are more strips. */
static bool sharing_pays(int kernel, int width, int gap)
{
    const bool is_compiled = kernel == 1 || kernel == 3 || kernel == 5 || kernel == 7;

    return is_compiled &&
           strips_of(width, gap) * (STRIP + kernel - 1) <= strips_of(width, 1) * STRIP * kernel;
}

cudaError_t cuda_direct(const struct cuda_convolution *c, enum cuda_depthwise_pass pass,
                        const struct cuda_depthwise_operands *operands, cudaStream_t stream)
{
    const int stride = c->stride[1], gap = c->dilation[1] / stride;
    const bool by_data = pass == CUDA_DEPTHWISE_DATA;
    const bool shares = (by_data ? stride == 1 : gap * stride == c->dilation[1]) &&
                        sharing_pays(c->kernel[1], by_data ? c->width : c->out_width, gap);
    const struct shape s = {*c,
                            c->channels / c->groups,
                            c->outputs / c->groups,
                            c->kernel[0] * c->kernel[1],
                            0,
                            shares ? gap : 1,
                            shares};

    if (c->type == TENSOR_BFLOAT16)
        launch_kind<__nv_bfloat16>(s, pass, operands, stream);
    else if (c->type == TENSOR_FLOAT16)
        launch_kind<__half>(s, pass, operands, stream);
    else
        launch_kind<float>(s, pass, operands, stream);
    return cudaGetLastError();
}
