/* loss.c: softmax cross entropy and mean squared error. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector_math.h"

#include <math.h>

double KERNEL_NAME(cross_entropy_forward)(const float *restrict logits,
                                          const int32_t *restrict label,
                                          float *restrict log_sum_exp, int64_t rows,
                                          int64_t classes, int64_t *restrict correct)
{
    double loss = 0;

    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        float largest = row[0], sum = 0;
        bool known = label[r] >= 0 && label[r] < classes;
        float own = known ? row[label[r]] : NAN;

#pragma omp simd reduction(max : largest)
        for (int64_t c = 0; c < classes; c++)
            largest = row[c] > largest ? row[c] : largest;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < classes; c++)
            sum += vector_exp(row[c] - largest);
        log_sum_exp[r] = largest + logf(sum);
        loss += (double)log_sum_exp[r] - own;
        if (own == largest) {
            /* Of equal logits the first counts, as in argmax. */
            int64_t c = 0;
            while (row[c] != largest)
                c++;
            *correct += c == label[r];
        }
    }
    return loss;
}

void KERNEL_NAME(cross_entropy_backward)(const float *restrict logits,
                                         const int32_t *restrict label,
                                         const float *restrict log_sum_exp, float *restrict dlogits,
                                         int64_t rows, int64_t classes, float scale)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        float *d = dlogits + r * classes;

        for (int64_t c = 0; c < classes; c++)
            d[c] = scale * vector_exp(row[c] - log_sum_exp[r]);
        if (label[r] >= 0 && label[r] < classes)
            d[label[r]] -= scale;
    }
}

double KERNEL_NAME(mse_forward)(const float *prediction, const float *target, int64_t count)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        double difference = (double)prediction[i] - target[i];
        sum += difference * difference;
    }
    return sum;
}

void KERNEL_NAME(mse_backward)(const float *prediction, const float *target, float *d,
                               int64_t count, float scale)
{
    for (int64_t i = 0; i < count; i++)
        d[i] = scale * (prediction[i] - target[i]);
}
