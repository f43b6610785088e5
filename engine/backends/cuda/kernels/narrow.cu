/* narrow.cu: the gradient by the data of convolutions with few channels and any number of filters.
 * A block has a band of lines of an image. First it multiplies each result's gradient by all taps
 * of the filters: a warp's threads divide the filters, and add their sums. Then every pixel adds up
 * the products of its taps. So each gradient is read once, and a product of many filters is not
 * left to one thread, as in direct.cu. The filters, and the products of the results that one line
 * of the image takes part in, must fit into a block's memory: small filters, or narrow images.
 * Images are channels-last, filters [O,kh,kw,C]. */
#include "engine/backends/cuda/kernels/taps.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

namespace
{

constexpr int SHARED_MOST = 48 << 10; /* bytes of a block, which every device has */
constexpr int BANDS_AIM = 264;        /* so many blocks keep a large GPU busy */
constexpr int WARPS = BLOCK / WARP_THREADS;
constexpr int COLUMNS = 4; /* products that a thread adds up at once */
constexpr int RESULTS = 2; /* results for which it does */
constexpr int SUMS = RESULTS * COLUMNS;

/* A block's band of an image. */
struct band {
    int height;  /* lines of the image */
    int results; /* the most lines of results whose filters reach them */
    int count;   /* bands of an image */
};

/* Products of a result: for each tap and channel one. */
__host__ __device__ inline int columns_of(const struct cuda_convolution &c)
{
    return c.kernel[0] * c.kernel[1] * c.channels;
}

/* The first line of results whose filter reaches line h or one below it. */
__host__ __device__ inline int first_result(const struct cuda_convolution &c, int h)
{
    const int scaled = h + c.padding[0] - (c.kernel[0] - 1) * c.dilation[0];

    return scaled <= 0 ? 0 : (scaled + c.stride[0] - 1) / c.stride[0];
}

struct band band_of(const struct cuda_convolution &c, int height)
{
    const int lines = (height - 1 + (c.kernel[0] - 1) * c.dilation[0]) / c.stride[0] + 1;

    return {height, lines < c.out_height ? lines : c.out_height, (c.height + height - 1) / height};
}

int64_t shared_bytes(const struct cuda_convolution &c, const struct band &band)
{
    return (int64_t)sizeof(float) * columns_of(c) *
           (c.outputs + (int64_t)band.results * c.out_width);
}

/* Halves the bands until a block's products fit, and then until there are enough blocks, unless
 * most of the results would be multiplied twice. */
struct band choose_band(const struct cuda_convolution &c)
{
    struct band band = band_of(c, c.height);

    while (band.height > 1 && shared_bytes(c, band) > SHARED_MOST)
        band = band_of(c, (band.height + 1) / 2);
    while ((int64_t)band.count * c.batch < BANDS_AIM &&
           band.height > 2 * c.kernel[0] * c.dilation[0])
        band = band_of(c, (band.height + 1) / 2);
    return band;
}

/* Adds the products of some results' gradients and some columns of the filters. A thread takes
 * every WARP_THREADS-th filter. */
template <typename T>
__device__ inline void multiply(const T *const (&from)[RESULTS], const float *filters, int outputs,
                                int columns, float (&sum)[SUMS])
{
    for (int o = (int)threadIdx.x % WARP_THREADS; o < outputs; o += WARP_THREADS) {
        float gradient[RESULTS];

#pragma unroll
        for (int r = 0; r < RESULTS; r++)
            gradient[r] = to_float(from[r][o]);
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) {
            const float filter = k < columns ? filters[k * outputs + o] : 0.0f;

#pragma unroll
            for (int r = 0; r < RESULTS; r++)
                sum[r * COLUMNS + k] += gradient[r] * filter;
        }
    }
}

/* Adds up SUMS numbers over a warp; thread k * WARP_THREADS / SUMS gets sum k. At each step a
 * thread keeps half of the sums, and gives the other half away: that takes about one exchange for
 * each sum, and not five. */
__device__ inline float spread_sums(float (&sum)[SUMS])
{
    const int lane = (int)threadIdx.x % WARP_THREADS;

#pragma unroll
    for (int half = SUMS / 2; half > 0; half /= 2) {
        const int distance = half * (WARP_THREADS / SUMS);
        const bool upper = lane & distance;

#pragma unroll
        for (int i = 0; i < half; i++) {
            const float given = upper ? sum[i] : sum[i + half];

            sum[i] = (upper ? sum[i + half] : sum[i]) + __shfl_xor_sync(~0u, given, distance);
        }
    }
#pragma unroll
    for (int distance = WARP_THREADS / SUMS / 2; distance > 0; distance /= 2)
        sum[0] += __shfl_xor_sync(~0u, sum[0], distance);
    return sum[0];
}

/* Stores the products of `lines` lines of results as products[result][column]. */
template <typename T>
__device__ inline void multiply_results(const struct cuda_convolution &c, const T *dy, int lines,
                                        const float *filters, float *products)
{
    const int columns = columns_of(c), results = lines * c.out_width;
    const int lane = (int)threadIdx.x % WARP_THREADS, warp = (int)threadIdx.x / WARP_THREADS;
    const int stored = lane / (WARP_THREADS / SUMS);

    for (int first = warp * RESULTS; first < results; first += WARPS * RESULTS) {
        const int result = first + stored / COLUMNS;
        const T *from[RESULTS];

#pragma unroll
        for (int r = 0; r < RESULTS; r++)
            from[r] = dy + (int64_t)min(first + r, results - 1) * c.outputs;
        for (int column = 0; column < columns; column += COLUMNS) {
            float sum[SUMS] = {};

            multiply(from, filters + column * c.outputs, c.outputs, columns - column, sum);
            const float total = spread_sums(sum);

            if (lane % (WARP_THREADS / SUMS) == 0 && result < results &&
                column + stored % COLUMNS < columns)
                products[result * columns + column + stored % COLUMNS] = total;
        }
    }
}

/* The gradient of a channel of pixel (h, w): the sum of its taps' products. `top`: the first line
 * of results that has products. */
__device__ inline float add_taps(const struct cuda_convolution &c, const float *products, int top,
                                 int h, int w, int channel)
{
    const int columns = columns_of(c);
    float sum = 0;

    for (int i = 0; i < c.kernel[0]; i++) {
        const int above = result_of(h, i, c.padding[0], c.dilation[0], c.stride[0], c.out_height);

        for (int j = 0; above >= 0 && j < c.kernel[1]; j++) {
            const int beside =
                result_of(w, j, c.padding[1], c.dilation[1], c.stride[1], c.out_width);

            if (beside >= 0)
                sum += products[((above - top) * c.out_width + beside) * columns +
                                (i * c.kernel[1] + j) * c.channels + channel];
        }
    }
    return sum;
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    narrow_data_kernel(struct cuda_convolution c, struct band band, const T *dy, const T *weight,
                       T *dx)
{
    extern __shared__ float filters[];
    const int columns = columns_of(c);
    float *const products = filters + columns * c.outputs;

    for (int at = threadIdx.x; at < columns * c.outputs; at += BLOCK)
        filters[at % columns * c.outputs + at / columns] = to_float(weight[at]);
    for (int task = blockIdx.x; task < c.batch * band.count; task += gridDim.x) {
        const int n = task / band.count, low = task % band.count * band.height;
        const int lines = min(band.height, c.height - low), top = first_result(c, low);
        const int bottom = min((low + lines - 1 + c.padding[0]) / c.stride[0] + 1, c.out_height);

        __syncthreads(); /* others may still write the filters, or read the products before */
        multiply_results(c, dy + (int64_t)(n * c.out_height + top) * c.out_width * c.outputs,
                         bottom - top, filters, products);
        __syncthreads();
        for (int at = threadIdx.x; at < lines * c.width * c.channels; at += BLOCK) {
            const int pixel = at / c.channels, h = low + pixel / c.width, w = pixel % c.width;

            dx[(int64_t)(n * c.height + low) * c.width * c.channels + at] =
                from_float<T>(add_taps(c, products, top, h, w, at % c.channels));
        }
    }
}

template <typename T>
void launch(const struct cuda_convolution &c, const struct cuda_depthwise_operands *o,
            cudaStream_t stream)
{
    const struct band band = choose_band(c);
    const int64_t tasks = (int64_t)c.batch * band.count, most = CUDA_DIRECT_BLOCKS;

    narrow_data_kernel<<<(unsigned)(tasks < most ? tasks : most), BLOCK,
                         (size_t)shared_bytes(c, band), stream>>>(c, band, (const T *)o->y,
                                                                  (const T *)o->weight, (T *)o->x);
}

} // namespace

bool cuda_narrow_is_possible(const struct cuda_convolution *c)
{
    return c->groups == 1 && c->channels <= CUDA_NARROW_CHANNELS &&
           shared_bytes(*c, choose_band(*c)) <= SHARED_MOST;
}

cudaError_t cuda_narrow_data(const struct cuda_convolution *c,
                             const struct cuda_depthwise_operands *operands, cudaStream_t stream)
{
    if (c->type == TENSOR_BFLOAT16)
        launch<__nv_bfloat16>(*c, operands, stream);
    else if (c->type == TENSOR_FLOAT16)
        launch<__half>(*c, operands, stream);
    else
        launch<float>(*c, operands, stream);
    return cudaGetLastError();
}
