/* general.c: operators over plain tensors, as models of other programs need them: two tensors
 * combined number by number, axes in another order, rows by constant numbers, sums over an axis,
 * softmax, products of matrices. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector_math.h"

#include <string.h>

/* Loops over a sample (o, k, i): element k of b meets `inner` neighbours, or each its own. */
#define EACH_ELEMENT(expression)                                              \
    for (int64_t o = 0; o < how->outer; o++)                                  \
        if (how->inner == 1) {                                                \
            const int64_t at = o * how->middle;                               \
            _Pragma("GCC ivdep") for (int64_t k = 0; k < how->middle; k++)    \
            {                                                                 \
                const int64_t e = at + k;                                     \
                expression;                                                   \
            }                                                                 \
        } else {                                                              \
            for (int64_t k = 0; k < how->middle; k++) {                       \
                const int64_t at = (o * how->middle + k) * how->inner;        \
                _Pragma("GCC ivdep") for (int64_t i = 0; i < how->inner; i++) \
                {                                                             \
                    const int64_t e = at + i;                                 \
                    expression;                                               \
                }                                                             \
            }                                                                 \
        }

void KERNEL_NAME(broadcast_forward)(const struct broadcast_attributes *how, const float *a,
                                    const float *b, float *y)
{
    switch (how->kind) {
    case BROADCAST_ADD:
        EACH_ELEMENT(y[e] = a[e] + b[k])
        break;
    case BROADCAST_SUBTRACT:
        EACH_ELEMENT(y[e] = a[e] - b[k])
        break;
    case BROADCAST_SUBTRACT_REVERSE:
        EACH_ELEMENT(y[e] = b[k] - a[e])
        break;
    case BROADCAST_MULTIPLY:
        EACH_ELEMENT(y[e] = a[e] * b[k])
        break;
    case BROADCAST_DIVIDE:
        EACH_ELEMENT(y[e] = a[e] / b[k])
        break;
    case BROADCAST_DIVIDE_REVERSE:
        EACH_ELEMENT(y[e] = b[k] / a[e])
        break;
    }
}

void KERNEL_NAME(broadcast_backward_first)(const struct broadcast_attributes *how, const float *dy,
                                           const float *a, const float *b, float *da)
{
    switch (how->kind) {
    case BROADCAST_ADD:
    case BROADCAST_SUBTRACT:
        EACH_ELEMENT((void)k; da[e] = dy[e])
        break;
    case BROADCAST_SUBTRACT_REVERSE:
        EACH_ELEMENT((void)k; da[e] = -dy[e])
        break;
    case BROADCAST_MULTIPLY:
        EACH_ELEMENT(da[e] = dy[e] * b[k])
        break;
    case BROADCAST_DIVIDE:
        EACH_ELEMENT(da[e] = dy[e] / b[k])
        break;
    case BROADCAST_DIVIDE_REVERSE:
        EACH_ELEMENT(da[e] = -dy[e] * b[k] / (a[e] * a[e]))
        break;
    }
}

/* Adds to db[k] what each element of a sample gives. */
#define EACH_SUM(expression)                                                                    \
    for (int64_t o = 0; o < how->outer; o++)                                                    \
        if (how->inner == 1) {                                                                  \
            const int64_t at = o * how->middle;                                                 \
            _Pragma("GCC ivdep") for (int64_t k = first; k < end; k++)                          \
            {                                                                                   \
                const int64_t e = at + k;                                                       \
                db[k] += (expression);                                                          \
            }                                                                                   \
        } else {                                                                                \
            for (int64_t k = first; k < end; k++) {                                             \
                const int64_t at = (o * how->middle + k) * how->inner;                          \
                float sum = 0.0f;                                                               \
                _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < how->inner; i++) \
                {                                                                               \
                    const int64_t e = at + i;                                                   \
                    sum += (expression);                                                        \
                }                                                                               \
                db[k] += sum;                                                                   \
            }                                                                                   \
        }

void KERNEL_NAME(broadcast_backward_second)(const struct broadcast_attributes *how,
                                            const float *restrict dy, const float *restrict a,
                                            const float *restrict b, int64_t first, int64_t end,
                                            float *restrict db)
{
    switch (how->kind) {
    case BROADCAST_ADD:
    case BROADCAST_SUBTRACT_REVERSE:
        EACH_SUM(dy[e])
        break;
    case BROADCAST_SUBTRACT:
        EACH_SUM(-dy[e])
        break;
    case BROADCAST_MULTIPLY:
        EACH_SUM(dy[e] * a[e])
        break;
    case BROADCAST_DIVIDE:
        EACH_SUM(-dy[e] * a[e] / (b[k] * b[k]))
        break;
    case BROADCAST_DIVIDE_REVERSE:
        EACH_SUM(dy[e] / a[e])
        break;
    }
}

/* ---- softmax ---- */

void KERNEL_NAME(softmax_forward)(const float *x, int64_t rows, int64_t columns, float *y)
{
    for (int64_t r = 0; r < rows; r++, x += columns, y += columns) {
        float largest = x[0], sum = 0.0f;

        for (int64_t c = 1; c < columns; c++)
            largest = x[c] > largest ? x[c] : largest;
#pragma GCC ivdep
        for (int64_t c = 0; c < columns; c++)
            y[c] = vector_exp(x[c] - largest);
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < columns; c++)
            sum += y[c];
        for (int64_t c = 0; c < columns; c++)
            y[c] /= sum;
    }
}

void KERNEL_NAME(softmax_backward)(const float *dy, const float *y, int64_t rows, int64_t columns,
                                   float *dx)
{
    for (int64_t r = 0; r < rows; r++, dy += columns, y += columns, dx += columns) {
        float sum = 0.0f;

#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < columns; c++)
            sum += dy[c] * y[c];
#pragma GCC ivdep
        for (int64_t c = 0; c < columns; c++)
            dx[c] = y[c] * (dy[c] - sum);
    }
}

/* ---- axes in another order ---- */

void KERNEL_NAME(permute)(const struct permute_attributes *how, const float *restrict x,
                          float *restrict y)
{
    int64_t stride[PERMUTE_RANK_MAX] = {0}, own[PERMUTE_RANK_MAX], at[PERMUTE_RANK_MAX] = {0};
    int64_t extent[PERMUTE_RANK_MAX] = {0}, elements = 1, place = 0, inner, step;
    const int last = how->rank - 1;

    for (int i = last; i >= 0; i--) {
        own[i] = elements;
        elements *= how->extent[i];
    }
    for (int i = 0; i <= last; i++) {
        stride[i] = own[how->order[i]];
        extent[i] = how->extent[how->order[i]];
    }
    inner = extent[last];
    step = stride[last];
    for (int64_t done = 0; done < elements; done += inner, y += inner) {
        if (step == 1)
            memcpy(y, x + place, (size_t)inner * sizeof *y);
        else
            for (int64_t i = 0; i < inner; i++)
                y[i] = x[place + i * step];
        for (int i = last - 1; i >= 0; i--) {
            place += stride[i];
            if (++at[i] < extent[i])
                break;
            place -= extent[i] * stride[i];
            at[i] = 0;
        }
    }
}

/* ---- rows by constant numbers ---- */

void KERNEL_NAME(take_forward)(const struct take_attributes *how, const float *restrict x,
                               const float *restrict map, float *restrict y)
{
    const size_t bytes = (size_t)how->inner * sizeof *y;

    for (int64_t o = 0; o < how->outer; o++, x += how->from * how->inner)
        for (int64_t i = 0; i < how->to; i++, y += how->inner) {
            const int64_t row = (int64_t)map[i];

            if (row < 0)
                memset(y, 0, bytes);
            else if (how->inner == 1)
                *y = x[row];
            else
                memcpy(y, x + row * how->inner, bytes);
        }
}

void KERNEL_NAME(take_backward)(const struct take_attributes *how, const float *restrict dy,
                                const float *restrict map, int64_t first, int64_t end,
                                float *restrict dx)
{
    const float *begins = map + how->to, *list = begins + how->from + 1;

    for (int64_t row = first; row < end; row++) {
        const float *rows = dy + row / how->from * how->to * how->inner;
        const int64_t j = row % how->from, last = (int64_t)begins[j + 1];
        float *restrict to = dx + row * how->inner;

        for (int64_t p = (int64_t)begins[j]; p < last; p++) {
            const float *restrict from = rows + (int64_t)list[p] * how->inner;

            for (int64_t k = 0; k < how->inner; k++)
                to[k] += from[k];
        }
    }
}

/* ---- sums over an axis ---- */

/* In float64, so that long sums stay accurate. */
void KERNEL_NAME(axis_sum_forward)(const struct axis_sum_attributes *how, const float *restrict x,
                                   float *restrict y)
{
    enum { LANES = 32 };

    for (int64_t o = 0; o < how->outer; o++, x += how->middle * how->inner)
        for (int64_t k = 0; k < how->inner; k += LANES) {
            const int64_t left = how->inner - k, width = left < LANES ? left : LANES;
            double sum[LANES] = {0};

            if (how->inner == 1) {
                double total = 0;

#pragma omp simd reduction(+ : total)
                for (int64_t m = 0; m < how->middle; m++)
                    total += (double)x[m];
                sum[0] = total;
            } else {
                for (int64_t m = 0; m < how->middle; m++)
                    for (int64_t i = 0; i < width; i++)
                        sum[i] += (double)x[m * how->inner + k + i];
            }
            for (int64_t i = 0; i < width; i++)
                *y++ = (float)sum[i] * how->factor;
        }
}

void KERNEL_NAME(axis_sum_backward)(const struct axis_sum_attributes *how, const float *restrict dy,
                                    float *restrict dx)
{
    for (int64_t o = 0; o < how->outer; o++, dy += how->inner)
        for (int64_t m = 0; m < how->middle; m++)
            for (int64_t k = 0; k < how->inner; k++)
                *dx++ = dy[k] * how->factor;
}

/* ---- products ---- */

/* y[rows, columns] += a[rows, depth] b[depth, columns], of which a may be stored the other way. */
static void product_by_rows(const struct batch_product_attributes *how, const float *restrict a,
                            const float *restrict b, float *restrict y)
{
    for (int64_t r = 0; r < how->rows; r++)
        for (int64_t d = 0; d < how->depth; d++) {
            const float factor = a[how->transpose_a ? d * how->rows + r : r * how->depth + d];
            const float *restrict row = b + d * how->columns;
            float *restrict to = y + r * how->columns;

            for (int64_t c = 0; c < how->columns; c++)
                to[c] += factor * row[c];
        }
}

/* The same with b stored as [columns, depth]: each element is a product of two rows. */
static void product_by_elements(const struct batch_product_attributes *how, const float *restrict a,
                                const float *restrict b, float *restrict y)
{
    for (int64_t r = 0; r < how->rows; r++)
        for (int64_t c = 0; c < how->columns; c++) {
            const float *restrict row = b + c * how->depth;
            float sum = 0.0f;

            if (how->transpose_a)
                for (int64_t d = 0; d < how->depth; d++)
                    sum += a[d * how->rows + r] * row[d];
            else
#pragma omp simd reduction(+ : sum)
                for (int64_t d = 0; d < how->depth; d++)
                    sum += a[r * how->depth + d] * row[d];
            y[r * how->columns + c] = sum;
        }
}

void KERNEL_NAME(batch_product)(const struct batch_product_attributes *how, const float *a,
                                const float *b, float *y)
{
    for (int64_t g = 0; g < how->groups; g++) {
        if (how->transpose_b) {
            product_by_elements(how, a, b, y);
        } else {
            memset(y, 0, (size_t)(how->rows * how->columns) * sizeof *y);
            product_by_rows(how, a, b, y);
        }
        a += how->rows * how->depth;
        b += how->depth * how->columns;
        y += how->rows * how->columns;
    }
}
