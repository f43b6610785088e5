/* loss.cu: softmax cross entropy, mean squared error and the losses of several heads. Losses are
 * summed up in double, row by row in a fixed order. */
#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/backends/cuda/kernels/metrics.cuh"

#include <math.h>

/* The largest value of the row, and the place of its first occurrence. The whole block calls it. */
__device__ static float row_maximum(const float *row, int64_t classes, int64_t *place)
{
    __shared__ float value[BLOCK];
    __shared__ int64_t index[BLOCK];
    float best = -INFINITY;
    int64_t at = classes;

    for (int64_t c = threadIdx.x; c < classes; c += BLOCK)
        if (row[c] > best || (row[c] == best && c < at)) {
            best = row[c];
            at = c;
        }
    __syncthreads();
    value[threadIdx.x] = best;
    index[threadIdx.x] = at;
    __syncthreads();
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
        if (threadIdx.x < distance) {
            float other = value[threadIdx.x + distance];
            int64_t place_of = index[threadIdx.x + distance];

            if (other > value[threadIdx.x] ||
                (other == value[threadIdx.x] && place_of < index[threadIdx.x])) {
                value[threadIdx.x] = other;
                index[threadIdx.x] = place_of;
            }
        }
        __syncthreads();
    }
    *place = index[0];
    return value[0];
}

/* Steps of sequences have labels that do not count. */
constexpr int32_t NO_LABEL = -1;

/* What the threads of a row have found: the logarithm of the sum of exp(logits), the loss by
 * probabilities, the class of the largest logit and that of the largest probability. */
struct row_sums {
    float log_sum_exp;
    double soft;
    int64_t best, likeliest;
};

/* Stores a row's results. One thread calls it. */
__device__ static void store_row(const struct cuda_cross_entropy &of, int64_t r,
                                 const struct row_sums &sums, double *loss, int32_t *correct)
{
    of.log_sum_exp[r] = sums.log_sum_exp;
    if (of.label && of.tokens && of.label[r] == NO_LABEL) {
        loss[r] = 0;
        correct[r] = 0;
    } else if (of.label) {
        const int64_t label = of.label[r];
        const bool known = label >= 0 && label < of.classes;

        loss[r] = (double)sums.log_sum_exp - (known ? of.logits[r * of.classes + label] : NAN);
        correct[r] = known && sums.best == label;
    } else {
        loss[r] = sums.soft;
        correct[r] = sums.best == sums.likeliest;
    }
}

/* One block for each row. */
__global__ void cross_entropy_kernel(const struct cuda_cross_entropy of, double *loss,
                                     int32_t *correct)
{
    const int64_t r = blockIdx.x, classes = of.classes;
    const int32_t *label = of.label;
    const float *row = of.logits + r * classes, *target = of.probability + r * classes;
    int64_t best, likeliest = 0;
    float maximum = row_maximum(row, classes, &best), sum = 0, total;
    double soft = 0;

    for (int64_t c = threadIdx.x; c < classes; c += BLOCK)
        sum += expf(row[c] - maximum);
    total = maximum + logf(block_sum(sum));
    if (!label) {
        row_maximum(target, classes, &likeliest);
        for (int64_t c = threadIdx.x; c < classes; c += BLOCK)
            soft += (double)target[c] * (total - row[c]);
        soft = block_sum(soft);
    }
    if (threadIdx.x > 0)
        return;
    store_row(of, r, {total, soft, best, likeliest}, loss, correct);
}

/* A warp has a row of few classes, so that it waits for nobody. */
constexpr int LANES = 32, CLASSES_OF_WARP = 8 * LANES;

/* As row_maximum(), of a warp's own row. */
__device__ static float warp_maximum(const float *row, int classes, int *place)
{
    float best = -INFINITY;
    int at = classes;

    for (int c = threadIdx.x % LANES; c < classes; c += LANES)
        if (row[c] > best || (row[c] == best && c < at)) {
            best = row[c];
            at = c;
        }
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(~0u, best, distance);
        const int place_of = __shfl_xor_sync(~0u, at, distance);

        if (other > best || (other == best && place_of < at)) {
            best = other;
            at = place_of;
        }
    }
    *place = at;
    return best;
}

/* As cross_entropy_kernel(). */
__global__ void cross_entropy_few_kernel(const struct cuda_cross_entropy of, double *loss,
                                         int32_t *correct)
{
    const int64_t r = (int64_t)blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
    const int classes = (int)of.classes, lane = threadIdx.x % LANES;
    const int32_t *label = of.label;
    const float *row = of.logits + r * classes, *target = of.probability + r * classes;
    int best, likeliest = 0;
    float maximum, sum = 0, total;
    double soft = 0;

    if (r >= of.rows)
        return;
    maximum = warp_maximum(row, classes, &best);
    for (int c = lane; c < classes; c += LANES)
        sum += expf(row[c] - maximum);
    total = maximum + logf(warp_sum(sum));
    if (!label) {
        warp_maximum(target, classes, &likeliest);
        for (int c = lane; c < classes; c += LANES)
            soft += (double)target[c] * (total - row[c]);
        soft = warp_sum(soft);
    }
    if (lane > 0)
        return;
    store_row(of, r, {total, soft, best, likeliest}, loss, correct);
}

/* One block adds the rows' losses to the metrics. */
__global__ void cross_entropy_metrics_kernel(const struct cuda_cross_entropy of, const double *loss,
                                             const int32_t *correct)
{
    int64_t right = 0, labels = 0;
    double sum = 0;

#pragma unroll 8
    for (int64_t r = threadIdx.x; r < of.rows; r += BLOCK) {
        sum += loss[r];
        right += correct[r];
        labels += !of.tokens || of.label[r] != NO_LABEL;
    }
    sum = block_sum(sum);
    right = block_sum(right);
    labels = block_sum(labels);
    if (threadIdx.x > 0)
        return;
    of.control->labels = labels;
    metrics_add(of.control, of.scalars, sum, of.samples, labels, right);
}

cudaError_t cuda_cross_entropy(const struct cuda_cross_entropy *loss, void *partial,
                               cudaStream_t stream)
{
    double *losses = (double *)partial;
    int32_t *correct = (int32_t *)(losses + loss->rows);

    if (loss->classes <= CLASSES_OF_WARP)
        cross_entropy_few_kernel<<<(unsigned)((loss->rows + BLOCK / LANES - 1) / (BLOCK / LANES)),
                                   BLOCK, 0, stream>>>(*loss, losses, correct);
    else
        cross_entropy_kernel<<<(unsigned)loss->rows, BLOCK, 0, stream>>>(*loss, losses, correct);
    cross_entropy_metrics_kernel<<<1, BLOCK, 0, stream>>>(*loss, losses, correct);
    return cudaGetLastError();
}

__global__ void cross_entropy_backward_kernel(const struct cuda_cross_entropy of, float *dlogits)
{
    const int64_t r = blockIdx.x, classes = of.classes;
    const int64_t labels = of.tokens ? max(of.control->labels, (int64_t)1) : of.rows;
    const int32_t *label = of.label;
    const float *row = of.logits + r * classes, *target = of.probability + r * classes;
    const float *log_sum_exp = of.log_sum_exp;
    const float scale = loss_factor(of.scalars) / (float)labels;
    float sum = 1.0f;

    if (label && of.tokens && label[r] == NO_LABEL) {
        for (int64_t c = threadIdx.x; c < classes; c += BLOCK)
            dlogits[r * classes + c] = 0;
        return;
    }
    if (!label) {
        sum = 0;
        for (int64_t c = threadIdx.x; c < classes; c += BLOCK)
            sum += target[c];
        sum = block_sum(sum);
    }
    for (int64_t c = threadIdx.x; c < classes; c += BLOCK) {
        float wanted = label ? (c == label[r] ? 1.0f : 0.0f) : target[c];

        dlogits[r * classes + c] = scale * (sum * expf(row[c] - log_sum_exp[r]) - wanted);
    }
}

cudaError_t cuda_cross_entropy_backward(const struct cuda_cross_entropy *loss, float *dlogits,
                                        cudaStream_t stream)
{
    cross_entropy_backward_kernel<<<(unsigned)loss->rows, BLOCK, 0, stream>>>(*loss, dlogits);
    return cudaGetLastError();
}

__global__ void mse_kernel(const float *prediction, const float *target, int64_t features,
                           double *loss)
{
    const int64_t first = (int64_t)blockIdx.x * features;
    double sum = 0;

    for (int64_t f = threadIdx.x; f < features; f += BLOCK) {
        double difference = (double)prediction[first + f] - target[first + f];

        sum += difference * difference;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = sum;
}

/* One block adds the rows' losses, sums over their features, to the metrics. */
__global__ void mse_metrics_kernel(struct cuda_control *control, const struct cuda_scalars *scalars,
                                   const double *loss, int64_t rows, double features)
{
    double sum = 0;

    for (int64_t r = threadIdx.x; r < rows; r += BLOCK)
        sum += loss[r];
    sum = block_sum(sum) / features;
    if (threadIdx.x == 0)
        metrics_add(control, scalars, sum, rows, rows, 0);
}

cudaError_t cuda_mse(struct cuda_control *control, const struct cuda_scalars *scalars,
                     const float *prediction, const float *target, int64_t rows, int64_t features,
                     void *partial, cudaStream_t stream)
{
    mse_kernel<<<(unsigned)rows, BLOCK, 0, stream>>>(prediction, target, features,
                                                     (double *)partial);
    mse_metrics_kernel<<<1, BLOCK, 0, stream>>>(control, scalars, (double *)partial, rows,
                                                (double)features);
    return cudaGetLastError();
}

__global__ void mse_backward_kernel(const struct cuda_scalars *scalars, const float *prediction,
                                    const float *target, float *d, int64_t count)
{
    const float scale = 2.0f * loss_factor(scalars) / (float)count;

    FOR_EACH_ELEMENT(i, count)
    d[i] = scale * (prediction[i] - target[i]);
}

cudaError_t cuda_mse_backward(const struct cuda_scalars *scalars, const float *prediction,
                              const float *target, float *dprediction, int64_t rows,
                              int64_t features, cudaStream_t stream)
{
    mse_backward_kernel<<<blocks_for(rows * features), BLOCK, 0, stream>>>(
        scalars, prediction, target, dprediction, rows * features);
    return cudaGetLastError();
}

/* ---- several heads --------------------------------------------------------------------------- */

/* log of the sum of exp(logits), or of a binary head the sum of log(1 + exp(logit)). The whole
 * block calls it. */
__device__ static double head_total(const struct loss_head &head, const float *logits)
{
    float largest = -INFINITY;
    double sum = 0;
    int64_t place;

    if (!head.binary)
        largest = row_maximum(logits, head.classes, &place);
    for (int c = threadIdx.x; c < head.classes; c += BLOCK) {
        const double z = (double)logits[c];

        sum += head.binary ? fmax(z, 0.0) + log1p(exp(-fabs(z))) : exp(z - (double)largest);
    }
    sum = block_sum(sum);
    return head.binary ? sum : (double)largest + log(sum);
}

/* A block has a row. */
__global__ void head_losses_kernel(const struct cuda_head_losses of, double *loss)
{
    const float *logits = of.logits + blockIdx.x * of.classes;
    const int32_t *label = of.label + blockIdx.x * of.labels;
    double sum = 0;

    for (int h = 0; h < of.head_count; h++) {
        const struct loss_head &head = of.heads[h];
        double total = head_total(head, logits);

        total *= head.binary ? 1 : head.labels;
        for (int k = 0; k < head.labels; k++) {
            const bool known = label[k] >= 0 && label[k] < head.classes;

            total -= known ? (double)logits[label[k]] : (double)NAN;
        }
        sum += (double)head.weight * (total / (head.binary ? head.classes : head.labels));
        logits += head.classes;
        label += head.labels;
    }
    if (threadIdx.x == 0)
        loss[blockIdx.x] = sum;
}

cudaError_t cuda_head_losses(const struct cuda_head_losses *losses, void *partial,
                             cudaStream_t stream)
{
    head_losses_kernel<<<(unsigned)losses->rows, BLOCK, 0, stream>>>(*losses, (double *)partial);
    mse_metrics_kernel<<<1, BLOCK, 0, stream>>>(losses->control, losses->scalars,
                                                (const double *)partial, losses->rows, 1);
    return cudaGetLastError();
}

/* A block has a row. A label that occurs twice counts twice. */
__global__ void head_losses_backward_kernel(const struct cuda_head_losses of, float *dlogits)
{
    const float *logits = of.logits + blockIdx.x * of.classes;
    const int32_t *label = of.label + blockIdx.x * of.labels;
    const float scale = loss_factor(of.scalars) / (float)of.rows;

    dlogits += blockIdx.x * of.classes;
    for (int h = 0; h < of.head_count; h++) {
        const struct loss_head &head = of.heads[h];
        const float factor = scale * head.weight;
        const float share = factor / (float)(head.binary ? head.classes : head.labels);
        const float total = head.binary ? 0 : (float)head_total(head, logits);

        for (int c = threadIdx.x; c < head.classes; c += BLOCK) {
            float d =
                head.binary ? share / (1 + expf(-logits[c])) : factor * expf(logits[c] - total);

            for (int k = 0; k < head.labels; k++)
                d -= label[k] == c ? share : 0;
            dlogits[c] = d;
        }
        logits += head.classes;
        dlogits += head.classes;
        label += head.labels;
    }
}

cudaError_t cuda_head_losses_backward(const struct cuda_head_losses *losses, float *dlogits,
                                      cudaStream_t stream)
{
    head_losses_backward_kernel<<<(unsigned)losses->rows, BLOCK, 0, stream>>>(*losses, dlogits);
    return cudaGetLastError();
}
