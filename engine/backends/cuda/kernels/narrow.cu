/* narrow.cu: the gradient by the data of convolutions with few channels and any number of filters.
 * A warp computes all channels of a pixel: its threads divide the filters, and add their sums. In
 * direct.cu a thread adds up all filters alone, which leaves most of the GPU idle where there are
 * few pixels. Images are channels-last, filters [O,kh,kw,C]. */
#include "engine/backends/cuda/kernels/taps.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

namespace
{

constexpr int FILTER_MOST = 8192; /* the most numbers of filters that a block keeps */
constexpr int WARPS = BLOCK / WARP_THREADS;

/* Loads all filters as filters[(tap CHANNELS + i) outputs + o]. */
template <typename T, int CHANNELS>
__device__ inline void load_filters(const struct cuda_convolution &c, const T *weight,
                                    float *filters)
{
    const int taps = c.kernel[0] * c.kernel[1];

    for (int at = threadIdx.x; at < taps * CHANNELS * c.outputs; at += BLOCK) {
        const int o = at % c.outputs, k = at / c.outputs;

        filters[at] = to_float(weight[(int64_t)o * taps * CHANNELS + k]);
    }
    __syncthreads();
}

template <typename T, int CHANNELS>
__global__ void __launch_bounds__(BLOCK)
    narrow_data_kernel(struct cuda_convolution c, const T *dy, const T *weight, T *dx)
{
    extern __shared__ float filters[];
    const int lane = (int)threadIdx.x % WARP_THREADS;
    const int pixels = c.batch * c.height * c.width;

    load_filters<T, CHANNELS>(c, weight, filters);
    for (int pixel = (int)blockIdx.x * WARPS + (int)threadIdx.x / WARP_THREADS; pixel < pixels;
         pixel += (int)gridDim.x * WARPS) {
        const int column = pixel % c.width, line = pixel / c.width;
        const int h = line % c.height, n = line / c.height;
        float sum[CHANNELS] = {};

        for (int tap = 0; tap < c.kernel[0] * c.kernel[1]; tap++) {
            const int above = result_of(h, tap / c.kernel[1], c.padding[0], c.dilation[0],
                                        c.stride[0], c.out_height);
            const int beside = result_of(column, tap % c.kernel[1], c.padding[1], c.dilation[1],
                                         c.stride[1], c.out_width);
            const float *filter = filters + tap * CHANNELS * c.outputs;

            if (above < 0 || beside < 0)
                continue;
            const T *from =
                dy + ((int64_t)(n * c.out_height + above) * c.out_width + beside) * c.outputs;
            for (int o = lane; o < c.outputs; o += WARP_THREADS) {
                const float gradient = to_float(from[o]);

#pragma unroll
                for (int i = 0; i < CHANNELS; i++)
                    sum[i] += gradient * filter[i * c.outputs + o];
            }
        }
#pragma unroll
        for (int i = 0; i < CHANNELS; i++) {
            const float total = warp_sum(sum[i]);

            if (lane == i)
                dx[(int64_t)pixel * CHANNELS + i] = from_float<T>(total);
        }
    }
}

template <typename T, int CHANNELS>
void launch(const struct cuda_convolution &c, const struct cuda_depthwise_operands *o,
            cudaStream_t stream)
{
    const int64_t pixels = (int64_t)c.batch * c.height * c.width;
    const int64_t useful = (pixels + WARPS - 1) / WARPS;
    const int numbers = c.kernel[0] * c.kernel[1] * CHANNELS * c.outputs;

    narrow_data_kernel<T, CHANNELS>
        <<<(unsigned)(useful < CUDA_DIRECT_BLOCKS ? useful : CUDA_DIRECT_BLOCKS), BLOCK,
           sizeof(float) * (size_t)numbers, stream>>>(c, (const T *)o->y, (const T *)o->weight,
                                                      (T *)o->x);
}

template <typename T>
void launch_channels(const struct cuda_convolution &c, const struct cuda_depthwise_operands *o,
                     cudaStream_t stream)
{
    switch (c.channels) {
    case 1:
        return launch<T, 1>(c, o, stream);
    case 2:
        return launch<T, 2>(c, o, stream);
    case 3:
        return launch<T, 3>(c, o, stream);
    default:
        return launch<T, CUDA_NARROW_CHANNELS>(c, o, stream);
    }
}

} // namespace

bool cuda_narrow_is_possible(const struct cuda_convolution *c)
{
    return c->groups == 1 && c->channels <= CUDA_NARROW_CHANNELS &&
           (int64_t)c->kernel[0] * c->kernel[1] * c->channels * c->outputs <= FILTER_MOST;
}

cudaError_t cuda_narrow_data(const struct cuda_convolution *c,
                             const struct cuda_depthwise_operands *operands, cudaStream_t stream)
{
    if (c->type == TENSOR_BFLOAT16)
        launch_channels<__nv_bfloat16>(*c, operands, stream);
    else if (c->type == TENSOR_FLOAT16)
        launch_channels<__half>(*c, operands, stream);
    else
        launch_channels<float>(*c, operands, stream);
    return cudaGetLastError();
}
