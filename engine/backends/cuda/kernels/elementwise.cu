/* elementwise.cu: activations, sums, dropout: element i of the result depends on element i alone, so
 * results may take the place of operands. */
#include "engine/backends/cuda/kernels/launch.cuh"

#include "base/philox.h"
#include "engine/graph/graph.h"

#include <math.h>

__device__ static inline float normal_distribution(float x)
{
    return 0.5f * (1.0f + erff(x * 0.70710678118654752440f));
}

__device__ static inline float normal_density(float x)
{
    return 0.39894228040143267794f * expf(-0.5f * x * x);
}

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__device__ static inline float hard_sigmoid(float x)
{
    return fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
}

template <int kind> __device__ static inline float activate(float x)
{
    switch (kind) {
    case ACTIVATION_RELU: /* in this form NaN passes, as PyTorch's does */
        return x < 0.0f ? 0.0f : x;
    case ACTIVATION_SILU:
        return x * sigmoid(x);
    case ACTIVATION_GELU:
        return x * normal_distribution(x);
    case ACTIVATION_TANH:
        return tanhf(x);
    case ACTIVATION_SIGMOID:
        return sigmoid(x);
    case ACTIVATION_HARDSWISH:
        return x * hard_sigmoid(x);
    default:
        return hard_sigmoid(x);
    }
}

/* The derivative, by what the operator saves: the result, or (SiLU, GELU, hardswish) the operand. */
template <int kind> __device__ static inline float activate_backward(float dy, float s)
{
    switch (kind) {
    case ACTIVATION_RELU:
        return s > 0.0f ? dy : 0.0f;
    case ACTIVATION_SILU: {
        float g = sigmoid(s);
        return dy * g * (1.0f + s * (1.0f - g));
    }
    case ACTIVATION_GELU:
        return dy * (normal_distribution(s) + s * normal_density(s));
    case ACTIVATION_TANH:
        return dy * (1.0f - s * s);
    case ACTIVATION_SIGMOID:
        return dy * s * (1.0f - s);
    case ACTIVATION_HARDSWISH:
        return s <= -3.0f ? 0.0f : s >= 3.0f ? dy : dy * (s * (1.0f / 3.0f) + 0.5f);
    default:
        return s > 0.0f && s < 1.0f ? dy * (1.0f / 6.0f) : 0.0f;
    }
}

template <int kind> __global__ void activation_kernel(const float *x, float *y, int64_t count)
{
    FOR_EACH_ELEMENT (i, count)
        y[i] = activate<kind>(x[i]);
}

template <int kind>
__global__ void activation_backward_kernel(const float *dy, const float *saved, float *dx,
                                           int64_t count)
{
    FOR_EACH_ELEMENT (i, count)
        dx[i] = activate_backward<kind>(dy[i], saved[i]);
}

#define EVERY_ACTIVATION(DO)    \
    DO(ACTIVATION_RELU)         \
    DO(ACTIVATION_SILU)         \
    DO(ACTIVATION_GELU)         \
    DO(ACTIVATION_TANH)         \
    DO(ACTIVATION_SIGMOID)      \
    DO(ACTIVATION_HARDSWISH)    \
    DO(ACTIVATION_HARDSIGMOID)

cudaError_t cuda_activation(int kind, const float *x, float *y, int64_t count, cudaStream_t stream)
{
    switch (kind) {
#define DO(name)                                                                        \
    case name:                                                                          \
        activation_kernel<name><<<blocks_for(count), BLOCK, 0, stream>>>(x, y, count); \
        break;
        EVERY_ACTIVATION(DO)
#undef DO
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

cudaError_t cuda_activation_backward(int kind, const float *dy, const float *saved, float *dx,
                                     int64_t count, cudaStream_t stream)
{
    switch (kind) {
#define DO(name)                                                                             \
    case name:                                                                               \
        activation_backward_kernel<name>                                                     \
            <<<blocks_for(count), BLOCK, 0, stream>>>(dy, saved, dx, count);                 \
        break;
        EVERY_ACTIVATION(DO)
#undef DO
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

__global__ void add_kernel(const float *a, const float *b, float *y, int64_t count)
{
    FOR_EACH_ELEMENT (i, count)
        y[i] = a[i] + b[i];
}

cudaError_t cuda_add(const float *a, const float *b, float *y, int64_t count, cudaStream_t stream)
{
    add_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(a, b, y, count);
    return cudaGetLastError();
}

/* ---- dropout: the CPU's masks (engine/backends/cpu/kernels/rows.c) ---- */

__device__ static struct philox draw(uint64_t seed, uint64_t stream, uint64_t index)
{
    struct philox c = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c.word[0]), low0 = 0xD2511F53u * c.word[0];
        uint32_t high1 = __umulhi(0xCD9E8D57u, c.word[2]), low1 = 0xCD9E8D57u * c.word[2];

        c = {{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

/* A thread has one draw: four elements, or four rows. */
__global__ void dropout_kernel(const struct cuda_scalars *scalars, uint64_t stream,
                               uint32_t threshold, float scale, int64_t row, const float *x,
                               float *y, int64_t count)
{
    const uint64_t base = (uint64_t)scalars->batch << 32, seed = scalars->seed;

    if (row == 0) {
        FOR_EACH_ELEMENT (quad, (count + 3) / 4) {
            struct philox bits = draw(seed, stream, base + (uint64_t)quad);

            for (int k = 0; k < 4 && 4 * quad + k < count; k++)
                y[4 * quad + k] =
                    x[4 * quad + k] * (bits.word[k] >> 8 >= threshold ? scale : 0.0f);
        }
        return;
    }
    FOR_EACH_ELEMENT (i, count) {
        int64_t r = i / row;
        struct philox bits = draw(seed, stream, base + (uint64_t)r / 4);

        y[i] = x[i] * (bits.word[r % 4] >> 8 >= threshold ? scale : 0.0f);
    }
}

cudaError_t cuda_dropout(const struct cuda_scalars *scalars, uint32_t dropout_stream,
                         float probability, int64_t row, const float *x, float *y, int64_t count,
                         cudaStream_t stream)
{
    uint32_t threshold = (uint32_t)ceil((double)probability * 0x1p24);

    dropout_kernel<<<blocks_for(row ? count : (count + 3) / 4), BLOCK, 0, stream>>>(
        scalars, philox_stream(PHILOX_DROPOUT, dropout_stream), threshold,
        1.0f / (1.0f - probability), row, x, y, count);
    return cudaGetLastError();
}

/* torch's lerp from the nearer end. */
__global__ void moving_average_kernel(const struct cuda_control *control,
                                      const struct cuda_scalars *scalars, bool summed,
                                      float *average, const float *value, int64_t count)
{
    const float decay = scalars->average_decay, rest = 1.0f - decay;

    if (summed && control->skipped)
        return;
    FOR_EACH_ELEMENT (i, count)
        average[i] = rest < 0.5f ? average[i] + rest * (value[i] - average[i])
                                 : value[i] - decay * (value[i] - average[i]);
}

cudaError_t cuda_moving_average(const struct cuda_control *control,
                                const struct cuda_scalars *scalars, bool summed, float *average,
                                const float *value, int64_t count, cudaStream_t stream)
{
    moving_average_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(control, scalars, summed,
                                                                   average, value, count);
    return cudaGetLastError();
}
