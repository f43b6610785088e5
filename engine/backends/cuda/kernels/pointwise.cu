/* pointwise.cu: convolutions of 1x1 with few channels and filters, whose time is that of their
 * memory. For the results and the gradient by the data a thread keeps the channels of a pixel in
 * registers. For the gradient by the weights a block keeps some pixels in shared memory; a thread
 * adds up the products of four channels and four filters. Images are channels-last, filters
 * [O,C]. */
#include "engine/backends/cuda/kernels/values.cuh"

namespace
{

constexpr int SIDE = 4;     /* channels, and filters, of a thread that adds up products */
constexpr int PIXELS = 128; /* of a block at a time */

/* What a pixel has, and what is computed for it: channels and filters, or the reverse. */
struct numbers {
    int64_t pixels;
    int in, out;
    bool transposed; /* the matrix is [in][out] */
};

/* Loads the numbers of a pixel; those beyond `count` are 0. */
template <typename T, int MOST>
__device__ inline void load_pixel(const T *from, int count, float (&value)[MOST])
{
    if (count % GROUP == 0) {
#pragma unroll
        for (int first = 0; first < MOST; first += GROUP) {
            struct group g = {};

            if (first < count)
                g = group_load(from + first);
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                value[first + k] = g.value[k];
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < MOST; i++)
        value[i] = i < count ? to_float(from[i]) : 0.0f;
}

/* Stores `count` of the results. `aligned`: eight of them, at a multiple of eight. */
template <typename T>
__device__ inline void store_results(T *to, int count, bool aligned, const struct group &sum)
{
    if (aligned) {
        group_store(to, sum);
        return;
    }
#pragma unroll
    for (int k = 0; k < GROUP; k++)
        if (k < count)
            to[k] = from_float<T>(sum.value[k]);
}

/* MOST: the numbers of a pixel, rounded up. */
template <typename T, int MOST>
__global__ void __launch_bounds__(BLOCK)
    pointwise_kernel(struct numbers n, const T *x, const T *weight, const float *bias, T *y)
{
    __shared__ __align__(16) float matrix[CUDA_POINTWISE_CHANNELS][MOST];
    __shared__ float offset[CUDA_POINTWISE_CHANNELS];

    for (int at = threadIdx.x; at < CUDA_POINTWISE_CHANNELS * MOST; at += BLOCK) {
        const int j = at / MOST, i = at % MOST;

        matrix[j][i] = j < n.out && i < n.in
                           ? to_float(weight[n.transposed ? i * n.out + j : j * n.in + i])
                           : 0.0f;
    }
    for (int j = threadIdx.x; j < CUDA_POINTWISE_CHANNELS; j += BLOCK)
        offset[j] = bias && j < n.out ? bias[j] : 0.0f;
    __syncthreads();
    FOR_EACH_ELEMENT(pixel, n.pixels)
    {
        float value[MOST];

        load_pixel(x + pixel * n.in, n.in, value);
        for (int first = 0; first < n.out; first += GROUP) {
            struct group sum;

#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                sum.value[k] = offset[first + k];
#pragma unroll
                for (int i = 0; i < MOST; i += 4) {
                    const float4 w = *(const float4 *)&matrix[first + k][i];

                    sum.value[k] += value[i] * w.x + value[i + 1] * w.y + value[i + 2] * w.z +
                                    value[i + 3] * w.w;
                }
            }
            store_results(y + pixel * n.out + first, n.out - first, n.out % GROUP == 0, sum);
        }
    }
}

/* ---- by the weights ---- */

/* Loads some pixels as to[p][pitch]; numbers beyond `count`, and pixels beyond the last, are 0. */
template <typename T>
__device__ inline void load_pixels(const T *from, int64_t left, int count, int pitch, float *to)
{
    for (int at = threadIdx.x; at < PIXELS * pitch; at += BLOCK) {
        const int p = at / pitch, i = at % pitch;

        to[at] = p < left && i < count ? to_float(from[(int64_t)p * count + i]) : 0.0f;
    }
}

/* Adds the products of two times four numbers. */
__device__ inline void add_products(const float4 &a, const float4 &b, float (&sum)[SIDE * SIDE])
{
    const float left[SIDE] = {a.x, a.y, a.z, a.w}, right[SIDE] = {b.x, b.y, b.z, b.w};

#pragma unroll
    for (int o = 0; o < SIDE; o++)
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            sum[o * SIDE + i] += left[o] * right[i];
}

/* Numbers of shared memory that the kernel uses for pixels, and then for sums. */
__host__ __device__ inline int shared_numbers(int squares_x, int squares_y)
{
    const int pixels = PIXELS * SIDE * (squares_x + squares_y), sums = BLOCK * SIDE * SIDE;

    return pixels > sums ? pixels : sums;
}

/* A thread has a square of SIDE filters and SIDE channels, and every n-th pixel. The block's sums
 * are parts[block][O][C]. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    pointwise_weights_kernel(int64_t pixels, int channels, int outputs, const T *x, const T *dy,
                             float *parts)
{
    extern __shared__ __align__(16) float shared[];
    const int squares_x = (channels + SIDE - 1) / SIDE, squares_y = (outputs + SIDE - 1) / SIDE;
    const int pitch_x = squares_x * SIDE, pitch_y = squares_y * SIDE;
    const int squares = squares_x * squares_y, rows = BLOCK / squares;
    const int square = (int)threadIdx.x % squares, row = (int)threadIdx.x / squares;
    float *const x_pixels = shared, *const y_pixels = shared + PIXELS * pitch_x;
    float sum[SIDE * SIDE] = {};

    for (int64_t first = (int64_t)blockIdx.x * PIXELS; first < pixels;
         first += (int64_t)gridDim.x * PIXELS) {
        __syncthreads(); /* others may still read the pixels before */
        load_pixels(x + first * channels, pixels - first, channels, pitch_x, x_pixels);
        load_pixels(dy + first * outputs, pixels - first, outputs, pitch_y, y_pixels);
        __syncthreads();
        for (int p = row; row < rows && p < PIXELS; p += rows)
            add_products(*(const float4 *)(y_pixels + p * pitch_y + square / squares_x * SIDE),
                         *(const float4 *)(x_pixels + p * pitch_x + square % squares_x * SIDE),
                         sum);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE * SIDE; k++)
        if (row < rows)
            shared[(row * SIDE * SIDE + k) * squares + square] = sum[k];
    __syncthreads();
    for (int at = threadIdx.x; at < outputs * channels; at += BLOCK) {
        const int o = at / channels, i = at % channels;
        const int k = o % SIDE * SIDE + i % SIDE, of = o / SIDE * squares_x + i / SIDE;
        float total = 0;

        for (int r = 0; r < rows; r++)
            total += shared[(r * SIDE * SIDE + k) * squares + of];
        parts[(int64_t)blockIdx.x * outputs * channels + at] = total;
    }
}

template <typename T>
void launch_weights(const struct cuda_convolution &c, int64_t pixels,
                    const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    const int squares_x = (c.channels + SIDE - 1) / SIDE;
    const int squares_y = (c.outputs + SIDE - 1) / SIDE;
    const int64_t elements = (int64_t)c.channels * c.outputs;
    const int64_t fitting = (int64_t)(o->part_bytes / (sizeof(float) * (size_t)elements));
    int64_t parts = (pixels + PIXELS - 1) / PIXELS;

    parts = parts < fitting ? parts : fitting;
    parts = parts < CUDA_DIRECT_BLOCKS ? parts : CUDA_DIRECT_BLOCKS;
    pointwise_weights_kernel<<<(unsigned)parts, BLOCK,
                               sizeof(float) * (size_t)shared_numbers(squares_x, squares_y),
                               stream>>>(pixels, c.channels, c.outputs, (const T *)o->x,
                                         (const T *)o->y, o->parts);
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
    const unsigned blocks = blocks_for(n.pixels);

    if (pass == CUDA_DEPTHWISE_WEIGHTS)
        return launch_weights<T>(c, n.pixels, o, stream);
    if (n.in <= 8)
        pointwise_kernel<T, 8><<<blocks, BLOCK, 0, stream>>>(n, from, weight, bias, to);
    else if (n.in <= 16)
        pointwise_kernel<T, 16><<<blocks, BLOCK, 0, stream>>>(n, from, weight, bias, to);
    else
        pointwise_kernel<T, CUDA_POINTWISE_CHANNELS>
            <<<blocks, BLOCK, 0, stream>>>(n, from, weight, bias, to);
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
