/* loss.c: softmax cross entropy, mean squared error and the losses of several heads. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector_math.h"
#include "engine/graph/loss_head.h"

#include <math.h>
#include <string.h>

/* The log of the sum of exp(row); sets *largest to the row's maximum. */
static inline float row_log_sum_exp(const float *row, int64_t classes, float *largest)
{
    float maximum = row[0], sum = 0;

#pragma omp simd reduction(max : maximum)
    for (int64_t c = 0; c < classes; c++)
        maximum = row[c] > maximum ? row[c] : maximum;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < classes; c++)
        sum += vector_exp(row[c] - maximum);
    *largest = maximum;
    return maximum + logf(sum);
}

/* The first of the largest values, as in argmax. */
static int64_t row_argmax(const float *row, int64_t classes)
{
    int64_t best = 0;

    for (int64_t c = 1; c < classes; c++)
        best = row[c] > row[best] ? c : best;
    return best;
}

double KERNEL_NAME(cross_entropy_forward)(const float *restrict logits,
                                          const int32_t *restrict label,
                                          float *restrict log_sum_exp, int64_t rows,
                                          int64_t classes, int64_t *restrict correct,
                                          int64_t *restrict counted)
{
    int64_t labels = 0;
    double loss = 0;

    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        bool known = label[r] >= 0 && label[r] < classes;
        float own = known ? row[label[r]] : NAN, largest;

        if (counted && label[r] == -1)
            continue;
        labels++;
        log_sum_exp[r] = row_log_sum_exp(row, classes, &largest);
        loss += (double)log_sum_exp[r] - own;
        if (own == largest)
            *correct += row_argmax(row, classes) == label[r];
    }
    if (counted)
        *counted = labels;
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

        if (label[r] == -1) { /* such a row has no log_sum_exp */
            memset(d, 0, (size_t)classes * sizeof *d);
            continue;
        }
        for (int64_t c = 0; c < classes; c++)
            d[c] = scale * vector_exp(row[c] - log_sum_exp[r]);
        if (label[r] >= 0 && label[r] < classes)
            d[label[r]] -= scale;
    }
}

double KERNEL_NAME(soft_cross_entropy_forward)(const float *restrict logits,
                                               const float *restrict probabilities,
                                               float *restrict log_sum_exp, int64_t rows,
                                               int64_t classes, int64_t *restrict correct)
{
    double loss = 0;

    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes, *target = probabilities + r * classes;
        float largest, total = row_log_sum_exp(row, classes, &largest);
        double sum = 0;

#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < classes; c++)
            sum += (double)target[c] * (total - row[c]);
        log_sum_exp[r] = total;
        loss += sum;
        *correct += largest == largest && row_argmax(row, classes) == row_argmax(target, classes);
    }
    return loss;
}

void KERNEL_NAME(soft_cross_entropy_backward)(const float *restrict logits,
                                              const float *restrict probabilities,
                                              const float *restrict log_sum_exp,
                                              float *restrict dlogits, int64_t rows,
                                              int64_t classes, float scale)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes, *target = probabilities + r * classes;
        float sum = 0;

#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < classes; c++)
            sum += target[c];
        for (int64_t c = 0; c < classes; c++)
            dlogits[r * classes + c] =
                scale * (sum * vector_exp(row[c] - log_sum_exp[r]) - target[c]);
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

/* ---- several heads ---- */

double KERNEL_NAME(head_losses_forward)(const struct loss_head *heads, int head_count,
                                        const float *logits, const int32_t *label, int64_t rows)
{
    double loss = 0;

    for (int64_t r = 0; r < rows; r++) {
        for (int h = 0; h < head_count; h++) {
            const struct loss_head *head = &heads[h];

            loss += (double)head->weight * loss_head_value(head, logits, label);
            logits += head->classes;
            label += head->labels;
        }
    }
    return loss;
}

/* One head of one row; `scale` times its weight is `factor`. */
static void head_backward(const struct loss_head *head, const float *logits, const int32_t *labels,
                          float *d, float factor)
{
    float largest, total = head->binary ? 0 : row_log_sum_exp(logits, head->classes, &largest);
    float share = factor / (float)(head->binary ? head->classes : head->labels);

    for (int c = 0; c < head->classes; c++)
        d[c] = head->binary ? share / (1 + vector_exp(-logits[c]))
                            : factor * vector_exp(logits[c] - total);
    for (int k = 0; k < head->labels; k++)
        if (labels[k] >= 0 && labels[k] < head->classes)
            d[labels[k]] -= share;
}

void KERNEL_NAME(head_losses_backward)(const struct loss_head *heads, int head_count,
                                       const float *logits, const int32_t *label, float *dlogits,
                                       int64_t rows, float scale)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int h = 0; h < head_count; h++) {
            head_backward(&heads[h], logits, label, dlogits, scale * heads[h].weight);
            logits += heads[h].classes;
            dlogits += heads[h].classes;
            label += heads[h].labels;
        }
    }
}
