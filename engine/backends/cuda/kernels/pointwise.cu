/* pointwise.cu: convolutions of 1x1 with few channels and filters, whose time is that of their
 * memory. For the results and the gradient by the data a thread computes four numbers of some
 * pixels; for the gradient by the weights, the products of four channels and four filters.
 * Neighbours read the same numbers at the same time, so these come from memory once. Images are
 * channels-last, filters [O,C]. */
#include "engine/backends/cuda/kernels/values.cuh"

namespace
{

constexpr int PIXELS = 4; /* of a thread at once, so that many reads are under way */
constexpr int QUADS_MOST = CUDA_POINTWISE_CHANNELS / QUAD;

/* What a pixel has, and what is computed for it: channels and filters, or the reverse. */
struct numbers {
    int64_t pixels;
    int in, out;
    bool transposed; /* the matrix is [in][out] */
};

__host__ __device__ inline int quads_of(int numbers)
{
    return (numbers + QUAD - 1) / QUAD;
}

/* Loads four numbers, of which `count` exist; the others are 0. ALIGNED: they are a quad, or none
 * exists. */
template <bool ALIGNED, typename T>
__device__ inline void load_quad(const T *from, int count, float (&value)[QUAD])
{
    if constexpr (ALIGNED) {
        struct quad<T> whole = {
        };

        if (count > 0)
            whole = *(const struct quad<T> *)from;
#pragma unroll
        for (int k = 0; k < QUAD; k++)
            value[k] = to_float(whole.number[k]);
    } else {
#pragma unroll
        for (int k = 0; k < QUAD; k++)
            value[k] = k < count ? to_float(from[k]) : 0.0f;
    }
}

template <typename T>
__device__ inline void store_quad(T *to, int count, bool aligned, const float (&value)[QUAD])
{
    struct quad<T> whole;

#pragma unroll
    for (int k = 0; k < QUAD; k++)
        whole.number[k] = from_float<T>(value[k]);
    if (aligned) {
        *(struct quad<T> *)to = whole;
        return;
    }
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        if (k < count)
            to[k] = whole.number[k];
}

/* Loads the matrix as matrix[in][quad of results]; what does not exist is 0. */
template <typename T>
__device__ inline void load_matrix(const struct numbers &n, const T *weight, float4 *matrix)
{
    const int results = quads_of(n.out);

    for (int at = threadIdx.x; at < quads_of(n.in) * QUAD * results; at += BLOCK) {
        const int i = at / results, first = at % results * QUAD;
        float value[QUAD];

#pragma unroll
        for (int k = 0; k < QUAD; k++)
            value[k] =
                i < n.in && first + k < n.out
                    ? to_float(
                          weight[n.transposed ? i * n.out + first + k : (first + k) * n.in + i])
                    : 0.0f;
        matrix[at] = make_float4(value[0], value[1], value[2], value[3]);
    }
}

/* Adds the products of a number and four numbers. */
__device__ inline void add_products(float a, const float4 &b, float (&sum)[QUAD])
{
    sum[0] += a * b.x;
    sum[1] += a * b.y;
    sum[2] += a * b.z;
    sum[3] += a * b.w;
}

/* ALIGNED: a pixel has a multiple of four numbers. */
template <bool ALIGNED, typename T>
__global__ void __launch_bounds__(BLOCK)
    pointwise_kernel(struct numbers n, const T *x, const T *weight, const float *bias, T *y)
{
    __shared__ float4 matrix[CUDA_POINTWISE_CHANNELS * QUADS_MOST];
    const int results = quads_of(n.out), rows = BLOCK / results;
    const int row = (int)threadIdx.x / results, first = (int)threadIdx.x % results;
    const int left = n.out - first * QUAD;
    float offset[QUAD];

    load_matrix(n, weight, matrix);
    load_quad<false>(bias ? bias + first * QUAD : NULL, bias ? left : 0, offset);
    __syncthreads();
    if (row >= rows)
        return;
    for (int64_t begin = (int64_t)blockIdx.x * rows * PIXELS + row; begin < n.pixels;
         begin += (int64_t)gridDim.x * rows * PIXELS) {
        float sum[PIXELS][QUAD];

#pragma unroll
        for (int p = 0; p < PIXELS; p++)
#pragma unroll
            for (int k = 0; k < QUAD; k++)
                sum[p][k] = offset[k];
#pragma unroll 2
        for (int q = 0; q < quads_of(n.in); q++) {
            float value[PIXELS][QUAD];

#pragma unroll
            for (int p = 0; p < PIXELS; p++) {
                const int64_t pixel = begin + p * rows;

                load_quad<ALIGNED>(x + pixel * n.in + q * QUAD,
                                   pixel < n.pixels ? n.in - q * QUAD : 0, value[p]);
            }
#pragma unroll
            for (int i = 0; i < QUAD; i++) {
                const float4 weights = matrix[(q * QUAD + i) * results + first];

#pragma unroll
                for (int p = 0; p < PIXELS; p++)
                    add_products(value[p][i], weights, sum[p]);
            }
        }
#pragma unroll
        for (int p = 0; p < PIXELS; p++) {
            const int64_t pixel = begin + p * rows;

            if (pixel < n.pixels)
                store_quad(y + pixel * n.out + first * QUAD, left, n.out % QUAD == 0, sum[p]);
        }
    }
}

/* ---- by the weights ---- */

/* A thread has a square of four filters and four channels, and every n-th pixel. The block's sums
 * are parts[block][O][C]. */
template <bool ALIGNED, typename T>
__global__ void __launch_bounds__(BLOCK)
    pointwise_weights_kernel(int64_t pixels, int channels, int outputs, const T *x, const T *dy,
                             float *parts)
{
    __shared__ float shared[BLOCK * QUAD * QUAD];
    const int across = quads_of(channels), squares = across * quads_of(outputs);
    const int rows = BLOCK / squares;
    const int square = (int)threadIdx.x % squares, row = (int)threadIdx.x / squares;
    const int o = square / across * QUAD, c = square % across * QUAD;
    float sum[QUAD][QUAD] = {};

    for (int64_t begin = (int64_t)blockIdx.x * rows * PIXELS + row; row < rows && begin < pixels;
         begin += (int64_t)gridDim.x * rows * PIXELS) {
        float left[PIXELS][QUAD], right[PIXELS][QUAD];

#pragma unroll
        for (int p = 0; p < PIXELS; p++) {
            const int64_t pixel = begin + p * rows;
            const bool exists = pixel < pixels;

            load_quad<ALIGNED>(dy + pixel * outputs + o, exists ? outputs - o : 0, left[p]);
            load_quad<ALIGNED>(x + pixel * channels + c, exists ? channels - c : 0, right[p]);
        }
#pragma unroll
        for (int p = 0; p < PIXELS; p++)
#pragma unroll
            for (int k = 0; k < QUAD; k++)
                add_products(left[p][k],
                             make_float4(right[p][0], right[p][1], right[p][2], right[p][3]),
                             sum[k]);
    }
#pragma unroll
    for (int k = 0; k < QUAD * QUAD; k++)
        if (row < rows)
            shared[(row * QUAD * QUAD + k) * squares + square] = sum[k / QUAD][k % QUAD];
    __syncthreads();
    for (int at = threadIdx.x; at < outputs * channels; at += BLOCK) {
        const int of = at / channels, by = at % channels;
        const int k = of % QUAD * QUAD + by % QUAD, in = of / QUAD * across + by / QUAD;
        float total = 0;

        for (int r = 0; r < rows; r++)
            total += shared[(r * QUAD * QUAD + k) * squares + in];
        parts[(int64_t)blockIdx.x * outputs * channels + at] = total;
    }
}

/* The blocks for `count` pixels, of which each takes rows * PIXELS at a time. */
int64_t blocks_of(int64_t count, int rows, int64_t most)
{
    const int64_t blocks = (count + rows * PIXELS - 1) / (rows * PIXELS);

    return blocks < most ? blocks : most;
}

template <bool ALIGNED, typename T>
void launch_weights(const struct cuda_convolution &c, int64_t pixels,
                    const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    const int64_t elements = (int64_t)c.channels * c.outputs;
    const int64_t fitting = (int64_t)(o->part_bytes / (sizeof(float) * (size_t)elements));
    const int64_t most = CUDA_POINTWISE_BLOCKS;
    const int rows = BLOCK / (quads_of(c.channels) * quads_of(c.outputs));
    const int64_t parts = blocks_of(pixels, rows, fitting < most ? fitting : most);

    pointwise_weights_kernel<ALIGNED><<<(unsigned)parts, BLOCK, 0, stream>>>(
        pixels, c.channels, c.outputs, (const T *)o->x, (const T *)o->y, o->parts);
    cuda_column_sum({.at = o->parts, .type = TENSOR_FLOAT32}, parts, elements, o->accumulate,
                    o->gradient, stream);
}

template <typename T>
void launch(const struct cuda_convolution &c, enum cuda_depthwise_pass pass,
            const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    const bool forward = pass == CUDA_DEPTHWISE_FORWARD;
    const struct numbers n = {.pixels = (int64_t)c.batch * c.height * c.width,
                              .in = forward ? c.channels : c.outputs,
                              .out = forward ? c.outputs : c.channels,
                              .transposed = !forward};
    const T *from = (const T *)(forward ? o->x : o->y), *weight = (const T *)o->weight;
    const float *bias = forward ? o->bias : NULL;
    T *to = (T *)(forward ? o->y : o->x);
    const unsigned blocks = (unsigned)blocks_of(n.pixels, BLOCK / quads_of(n.out), INT32_MAX);

    if (pass == CUDA_DEPTHWISE_WEIGHTS && c.channels % QUAD == 0 && c.outputs % QUAD == 0)
        return launch_weights<true, T>(c, n.pixels, o, stream);
    if (pass == CUDA_DEPTHWISE_WEIGHTS)
        return launch_weights<false, T>(c, n.pixels, o, stream);
    if (n.in % QUAD == 0)
        pointwise_kernel<true><<<blocks, BLOCK, 0, stream>>>(n, from, weight, bias, to);
    else
        pointwise_kernel<false><<<blocks, BLOCK, 0, stream>>>(n, from, weight, bias, to);
}

} // namespace

bool cuda_pointwise_convolution_is_possible(const struct cuda_convolution *c, size_t part_bytes)
{
    bool is_pointwise = c->groups == 1;

    for (int i = 0; i < 2; i++)
        is_pointwise &= c->kernel[i] == 1 && c->stride[i] == 1 && c->padding[i] == 0;
    return is_pointwise && c->channels <= CUDA_POINTWISE_CHANNELS &&
           c->outputs <= CUDA_POINTWISE_CHANNELS &&
           (size_t)(c->channels * c->outputs) * sizeof(float) <= part_bytes;
}

cudaError_t cuda_pointwise_convolution(const struct cuda_convolution *c,
                                       enum cuda_depthwise_pass pass,
                                       const struct cuda_depthwise_operands *operands,
                                       cudaStream_t stream)
{
    if (c->type == TENSOR_BFLOAT16)
        launch<__nv_bfloat16>(*c, pass, operands, stream);
    else if (c->type == TENSOR_FLOAT16)
        launch<__half>(*c, pass, operands, stream);
    else
        launch<float>(*c, pass, operands, stream);
    return cudaGetLastError();
}
