/* activation.c: activations, their derivatives, and the elementwise operations around linear
 * layers. */
#include "engine/backends/cpu/kernels/elements.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector_math.h"

void KERNEL_NAME(activation_forward)(enum activation_kind kind, const float *x, float *y,
                                     int64_t count)
{
    switch (kind) {
    case ACTIVATION_RELU: /* this form keeps a NaN, as PyTorch does */
        FOR_EACH(y[i] = x[i] < 0.0f ? 0.0f : x[i])
        break;
    case ACTIVATION_SILU:
        FOR_EACH(y[i] = vector_silu(x[i]))
        break;
    case ACTIVATION_GELU:
        FOR_EACH(y[i] = x[i] * vector_normal_distribution(x[i]))
        break;
    case ACTIVATION_TANH:
        FOR_EACH(y[i] = vector_tanh(x[i]))
        break;
    case ACTIVATION_SIGMOID:
        FOR_EACH(y[i] = vector_sigmoid(x[i]))
        break;
    case ACTIVATION_HARDSWISH:
        FOR_EACH(y[i] = vector_hardswish(x[i]))
        break;
    case ACTIVATION_HARDSIGMOID:
        FOR_EACH(y[i] = vector_hard_sigmoid(x[i]))
        break;
    case ACTIVATION_RELU6:
        FOR_EACH(float value = x[i] < 0.0f ? 0.0f : x[i]; y[i] = value > 6.0f ? 6.0f : value)
        break;
    case ACTIVATION_GELU_TANH:
        FOR_EACH(y[i] = x[i] * vector_sigmoid(vector_gelu_tanh_argument(x[i])))
        break;
    case ACTIVATION_MISH:
        FOR_EACH(y[i] = vector_mish(x[i]))
        break;
    case ACTIVATION_SOFTPLUS:
        FOR_EACH(y[i] = vector_softplus(x[i]))
        break;
    }
}

void KERNEL_NAME(activation_backward)(enum activation_kind kind, const float *dy,
                                      const float *saved, float *dx, int64_t count)
{
    switch (kind) {
    case ACTIVATION_RELU:
        FOR_EACH(dx[i] = saved[i] > 0.0f ? dy[i] : 0.0f)
        break;
    case ACTIVATION_SILU:
        FOR_EACH(dx[i] = dy[i] * vector_silu_slope(saved[i]))
        break;
    case ACTIVATION_GELU:
        FOR_EACH(float x = saved[i];
                 dx[i] = dy[i] * (vector_normal_distribution(x) + x * vector_normal_density(x)))
        break;
    case ACTIVATION_TANH:
        FOR_EACH(dx[i] = dy[i] * (1.0f - saved[i] * saved[i]))
        break;
    case ACTIVATION_SIGMOID:
        FOR_EACH(dx[i] = dy[i] * saved[i] * (1.0f - saved[i]))
        break;
    case ACTIVATION_HARDSWISH:
        FOR_EACH(dx[i] = dy[i] * vector_hardswish_slope(saved[i]))
        break;
    case ACTIVATION_HARDSIGMOID:
        FOR_EACH(dx[i] = saved[i] > 0.0f && saved[i] < 1.0f ? dy[i] * (1.0f / 6.0f) : 0.0f)
        break;
    case ACTIVATION_RELU6:
        FOR_EACH(dx[i] = saved[i] > 0.0f && saved[i] < 6.0f ? dy[i] : 0.0f)
        break;
    case ACTIVATION_GELU_TANH:
        FOR_EACH(dx[i] = dy[i] * vector_gelu_tanh_slope(saved[i]))
        break;
    case ACTIVATION_MISH:
        FOR_EACH(dx[i] = dy[i] * vector_mish_slope(saved[i]))
        break;
    case ACTIVATION_SOFTPLUS:
        FOR_EACH(dx[i] = dy[i] * vector_sigmoid(saved[i]))
        break;
    }
}

void KERNEL_NAME(bias_add)(float *restrict y, const float *restrict bias, int64_t rows,
                           int64_t columns, int64_t stride)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            y[r * stride + c] += bias[c];
}

void KERNEL_NAME(bias_add_relu)(float *restrict y, const float *restrict bias, int64_t rows,
                                int64_t columns, int64_t stride)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            float value = y[r * stride + c] + bias[c];
            y[r * stride + c] = value < 0.0f ? 0.0f : value;
        }
}

void KERNEL_NAME(column_sum)(const float *restrict x, int64_t rows, int64_t columns, int64_t stride,
                             float *restrict sum, bool accumulate)
{
    /* The columns of a strip stay in registers over all rows. */
    enum { STRIP = 32 };
    int64_t c = 0;

    for (; c + STRIP <= columns; c += STRIP) {
        float total[STRIP];
        for (int k = 0; k < STRIP; k++)
            total[k] = accumulate ? sum[c + k] : 0.0f;
        for (int64_t r = 0; r < rows; r++)
            for (int k = 0; k < STRIP; k++)
                total[k] += x[r * stride + c + k];
        for (int k = 0; k < STRIP; k++)
            sum[c + k] = total[k];
    }
    if (c == columns)
        return;
    if (!accumulate)
        for (int64_t k = c; k < columns; k++)
            sum[k] = 0.0f;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = c; k < columns; k++)
            sum[k] += x[r * stride + k];
}

void KERNEL_NAME(add)(const float *a, const float *b, float *y, int64_t count)
{
    FOR_EACH(y[i] = a[i] + b[i])
}

void KERNEL_NAME(partials_sum)(const float *restrict part, int64_t parts, int64_t stride,
                               float *restrict y, int64_t count, bool accumulate)
{
    enum { STRIP = 64, PARTS_MAX = 64 };

    for (int64_t first = 0; first < count; first += STRIP) {
        int64_t length = count - first < STRIP ? count - first : STRIP;
        float tree[PARTS_MAX][STRIP];

        for (int64_t p = 0; p < parts; p++)
            for (int64_t i = 0; i < length; i++)
                tree[p][i] = part[p * stride + first + i];
        for (int64_t distance = 1; distance < parts; distance *= 2)
            for (int64_t p = 0; p + distance < parts; p += 2 * distance)
                for (int64_t i = 0; i < length; i++)
                    tree[p][i] += tree[p + distance][i];
        if (accumulate)
            for (int64_t i = 0; i < length; i++)
                y[first + i] += tree[0][i];
        else
            for (int64_t i = 0; i < length; i++)
                y[first + i] = tree[0][i];
    }
}

double KERNEL_NAME(squares_sum)(const float *x, int64_t count)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * x[i];
    return sum;
}
