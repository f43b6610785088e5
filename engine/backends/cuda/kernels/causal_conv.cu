/* causal_conv.cu: a convolution of each channel over the steps before it, forward and backward. A
 * thread has one channel of some steps, and keeps the last ones in registers. The sums over all
 * steps are added up from those of the threads, in a fixed order. */
#include "engine/backends/cuda/kernels/sequence.h"
#include "engine/backends/cuda/kernels/values.cuh"
#include "engine/graph/forward.h"

constexpr int STEPS = 64;    /* of a thread */
constexpr int CHANNELS = 64; /* of a block, a thread each */
constexpr int FEW_TAPS = 4;  /* taps are filled up with zeros to so many, or to all there can be */

static int64_t spans_of(const struct cuda_causal_conv &conv)
{
    return (conv.length + STEPS - 1) / STEPS;
}

static int64_t slabs_of(const struct cuda_causal_conv &conv)
{
    return (conv.channels + CHANNELS - 1) / CHANNELS;
}

/* The part of a thread: steps are counted in the order of the walk. */
struct conv_place {
    int64_t span, channel, first, row; /* row: of the sequence's first step */
    int64_t end;
};

__device__ static inline struct conv_place place_of(const struct cuda_causal_conv &c, int64_t spans,
                                                    int64_t slabs)
{
    const int64_t span = blockIdx.x / slabs;
    struct conv_place p;

    p.span = span;
    p.channel = blockIdx.x % slabs * CHANNELS + threadIdx.x;
    p.first = span % spans * STEPS;
    p.row = span / spans * c.length;
    p.end = p.first + STEPS < c.length ? p.first + STEPS : c.length;
    return p;
}

/* The element of step t. */
__device__ static inline int64_t element(const struct cuda_causal_conv &c,
                                         const struct conv_place &p, int64_t t)
{
    return (p.row + (c.reverse ? c.length - 1 - t : t)) * c.channels + p.channel;
}

template <int TAPS> struct conv_filter {
    float weight[TAPS], bias, x[TAPS]; /* x: those of the last steps */
};

/* Fills in the weights, and the steps before the first one. */
template <int TAPS>
__device__ static inline void begin(const struct cuda_causal_conv &c, const struct conv_place &p,
                                    struct conv_filter<TAPS> *f)
{
    const int missing = TAPS - c.kernel;

    f->bias = c.bias[p.channel];
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
        const int64_t t = p.first - TAPS + k;

        f->weight[k] = k < missing ? 0.0f : c.weight[p.channel * c.kernel + k - missing];
        f->x[k] = t >= 0 && k >= missing ? array_load(c.x, element(c, p, t)) : 0.0f;
    }
}

/* Takes in step t; returns the result without its activation. */
template <int TAPS>
__device__ static inline float advance(const struct cuda_causal_conv &c, const struct conv_place &p,
                                       int64_t t, struct conv_filter<TAPS> *f)
{
    float sum = f->bias;

#pragma unroll
    for (int k = 0; k < TAPS - 1; k++)
        f->x[k] = f->x[k + 1];
    f->x[TAPS - 1] = array_load(c.x, element(c, p, t));
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        sum += f->weight[k] * f->x[k];
    return sum;
}

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

template <int TAPS>
__global__ void causal_conv_kernel(struct cuda_causal_conv c, int64_t spans, int64_t slabs)
{
    const struct conv_place p = place_of(c, spans, slabs);
    struct conv_filter<TAPS> f;

    if (p.channel >= c.channels)
        return;
    begin<TAPS>(c, p, &f);
    for (int64_t t = p.first; t < p.end; t++) {
        const float sum = advance<TAPS>(c, p, t, &f);

        array_store(c.y, element(c, p, t), c.silu ? sum * sigmoid(sum) : sum);
    }
}

/* dweight: [span][tap][channel], dbias: [span][channel]. dx of a step needs the gradients of the
 * steps behind it, so the thread goes on into the next one's. */
template <int TAPS>
__global__ void causal_conv_backward_kernel(struct cuda_causal_conv c, int64_t spans, int64_t slabs,
                                            float *dweights, float *dbiases)
{
    const struct conv_place p = place_of(c, spans, slabs);
    float g[TAPS] = {}, dweight[TAPS] = {}, dbias = 0;
    struct conv_filter<TAPS> f;

    if (p.channel >= c.channels)
        return;
    begin<TAPS>(c, p, &f);
    for (int64_t t = p.first; t < p.end + TAPS - 1; t++) {
        float gradient = 0;

        if (t < c.length) {
            const float sum = advance<TAPS>(c, p, t, &f), s = sigmoid(sum);

            gradient = array_load(c.dy, element(c, p, t));
            if (c.silu)
                gradient *= s * (1.0f + sum * (1.0f - s));
        }
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++)
            g[k] = g[k + 1];
        g[TAPS - 1] = gradient;
        if (t < p.end) {
            dbias += gradient;
#pragma unroll
            for (int k = 0; k < TAPS; k++)
                dweight[k] += gradient * f.x[k];
        }
        if (t - (TAPS - 1) >= p.first) {
            float dx = 0;

#pragma unroll
            for (int k = 0; k < TAPS; k++)
                dx += f.weight[k] * g[TAPS - 1 - k];
            array_store(c.dx, element(c, p, t - (TAPS - 1)), dx);
        }
    }
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        if (k >= TAPS - c.kernel)
            dweights[(p.span * c.kernel + k - (TAPS - c.kernel)) * c.channels + p.channel] =
                dweight[k];
    dbiases[p.span * c.channels + p.channel] = dbias;
}

cudaError_t cuda_causal_conv(const struct cuda_causal_conv *conv, cudaStream_t stream)
{
    const int64_t spans = spans_of(*conv), slabs = slabs_of(*conv);
    const unsigned blocks = (unsigned)(conv->sequences * spans * slabs);

    if (conv->kernel <= FEW_TAPS)
        causal_conv_kernel<FEW_TAPS><<<blocks, CHANNELS, 0, stream>>>(*conv, spans, slabs);
    else
        causal_conv_kernel<CAUSAL_KERNEL_MAX><<<blocks, CHANNELS, 0, stream>>>(*conv, spans, slabs);
    return cudaGetLastError();
}

size_t cuda_causal_conv_scratch(const struct cuda_causal_conv *conv)
{
    return (size_t)(conv->sequences * spans_of(*conv) * conv->channels * (conv->kernel + 1)) *
           sizeof(float);
}

cudaError_t cuda_causal_conv_backward(const struct cuda_causal_conv *conv, cudaStream_t stream)
{
    const int64_t spans = spans_of(*conv), slabs = slabs_of(*conv), parts = conv->sequences * spans;
    const unsigned blocks = (unsigned)(parts * slabs);
    float *dweights = conv->parts, *dbiases = dweights + parts * conv->kernel * conv->channels;
    cudaError_t status;

    if (conv->kernel <= FEW_TAPS)
        causal_conv_backward_kernel<FEW_TAPS>
            <<<blocks, CHANNELS, 0, stream>>>(*conv, spans, slabs, dweights, dbiases);
    else
        causal_conv_backward_kernel<CAUSAL_KERNEL_MAX>
            <<<blocks, CHANNELS, 0, stream>>>(*conv, spans, slabs, dweights, dbiases);
    status = cuda_filter_total(dweights, (int)parts, (int)conv->channels, conv->kernel,
                               conv->accumulate_weight, conv->dweight, stream);
    if (status != cudaSuccess)
        return status;
    return cuda_column_sum((struct cuda_array){.at = dbiases, .type = TENSOR_FLOAT32}, parts,
                           conv->channels, conv->accumulate_bias, conv->dbias, stream);
}
