/* value_loss.cu: losses of values, the focal loss and the ordinal loss, with the formulas of
 * engine/backends/cpu/kernels/value_loss.c. A block has a row of the batch; the rows' losses are
 * added in a fixed order. */
#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/backends/cuda/kernels/metrics.cuh"

#include <math.h>

/* One block adds the losses of the rows to the metrics, and how many rows are right. */
__global__ void row_losses_kernel(struct cuda_control *control, const struct cuda_scalars *scalars,
                                  const double *loss, const int32_t *correct, int64_t rows)
{
    int64_t right = 0;
    double sum = 0;

    for (int64_t r = threadIdx.x; r < rows; r += BLOCK) {
        sum += loss[r];
        right += correct ? correct[r] : 0;
    }
    sum = block_sum(sum);
    right = block_sum(right);
    if (threadIdx.x == 0)
        metrics_add(control, scalars, sum, rows, rows, right);
}

/* ---- values ---- */

__device__ static inline double huber(double difference, double delta)
{
    const double size = fabs(difference);

    return size <= delta ? 0.5 * size * size : delta * (size - 0.5 * delta);
}

/* max(q e, (q - 1) e) of the error e. */
__device__ static inline double pinball(double error, double quantile)
{
    return (error > 0 ? quantile : quantile - 1) * error;
}

/* In the middle where the error is 0; NaN stays. */
__device__ static inline float pinball_slope(float error, float quantile)
{
    return error > 0.0f ? -quantile : error < 0.0f ? 1.0f - quantile : 0.5f - quantile + error;
}

__device__ static inline double softplus(double x)
{
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

/* The weight of a label that is 1. */
__device__ static inline float label_weight(const struct cuda_value_loss &of, int64_t feature)
{
    return of.config.count == 0 ? 1.0f : of.config.numbers[of.config.count > 1 ? feature : 0];
}

/* The loss of one number of the row, the target of which is `t`. */
__device__ static double value_of(const struct cuda_value_loss &of, int64_t feature, double x,
                                  double t)
{
    const double parameter = (double)of.config.parameter;

    switch (of.config.kind) {
    case VALUE_LOSS_MAE:
        return fabs(x - t);
    case VALUE_LOSS_HUBER:
        return huber(x - t, parameter);
    case VALUE_LOSS_SMOOTH_L1:
        return huber(x - t, parameter) / parameter;
    case VALUE_LOSS_QUANTILE:
        return pinball(t - x, parameter);
    case VALUE_LOSS_QUANTILES:
        return pinball(t - x, (double)of.config.numbers[feature % of.config.count]);
    case VALUE_LOSS_BINARY:
        return (1 - t) * x + (1 + ((double)label_weight(of, feature) - 1) * t) * softplus(-x);
    default:
        return 0; /* the cosine is one of a row */
    }
}

__device__ static float slope_of(const struct cuda_value_loss &of, int64_t feature, float x,
                                 float t)
{
    const float parameter = of.config.parameter, e = x - t;

    switch (of.config.kind) {
    case VALUE_LOSS_MAE:
        return e > 0.0f ? 1.0f : e < 0.0f ? -1.0f : e;
    case VALUE_LOSS_HUBER:
        return e > parameter ? parameter : e < -parameter ? -parameter : e;
    case VALUE_LOSS_SMOOTH_L1:
        return e > parameter ? 1.0f : e < -parameter ? -1.0f : e / parameter;
    case VALUE_LOSS_QUANTILE:
        return pinball_slope(t - x, parameter);
    case VALUE_LOSS_QUANTILES:
        return pinball_slope(t - x, of.config.numbers[feature % of.config.count]);
    case VALUE_LOSS_BINARY:
        return (1.0f - t) / (1.0f + expf(-x)) - label_weight(of, feature) * t / (1.0f + expf(x));
    default:
        return 0.0f;
    }
}

/* Of several quantiles, those of a value side by side have one target. */
__device__ static inline int64_t target_of(const struct cuda_value_loss &of, int64_t feature)
{
    return of.config.kind == VALUE_LOSS_QUANTILES ? feature / of.config.count : feature;
}

/* The cosine of the row and its target, and both lengths, which count at least as torch's eps. The
 * whole block calls it. */
__device__ static double row_cosine(const float *a, const float *b, int64_t features,
                                    double (&lengths)[2])
{
    double product = 0, left = 0, right = 0;

    for (int64_t f = threadIdx.x; f < features; f += BLOCK) {
        product += (double)a[f] * b[f];
        left += (double)a[f] * a[f];
        right += (double)b[f] * b[f];
    }
    product = block_sum(product);
    lengths[0] = fmax(sqrt(block_sum(left)), 1e-8);
    lengths[1] = fmax(sqrt(block_sum(right)), 1e-8);
    return product / (lengths[0] * lengths[1]);
}

__global__ void value_loss_kernel(const struct cuda_value_loss of, double *loss)
{
    const float *x = of.prediction + blockIdx.x * of.features;
    const float *t = of.target + blockIdx.x * of.targets;
    double sum = 0, lengths[2];

    if (of.config.kind == VALUE_LOSS_COSINE) {
        sum = 1 - row_cosine(x, t, of.features, lengths);
    } else {
        for (int64_t f = threadIdx.x; f < of.features; f += BLOCK)
            sum += value_of(of, f, (double)x[f], (double)t[target_of(of, f)]);
        sum = block_sum(sum) / (double)of.features;
    }
    if (threadIdx.x == 0)
        loss[blockIdx.x] = sum;
}

cudaError_t cuda_value_loss(const struct cuda_value_loss *loss, void *partial, cudaStream_t stream)
{
    value_loss_kernel<<<(unsigned)loss->rows, BLOCK, 0, stream>>>(*loss, (double *)partial);
    row_losses_kernel<<<1, BLOCK, 0, stream>>>(loss->control, loss->scalars,
                                               (const double *)partial, NULL, loss->rows);
    return cudaGetLastError();
}

__global__ void value_loss_backward_kernel(const struct cuda_value_loss of, float *d)
{
    const float *x = of.prediction + blockIdx.x * of.features;
    const float *t = of.target + blockIdx.x * of.targets;
    const float scale = loss_factor(of.scalars) / (float)of.rows;
    const float each = scale / (float)of.features;
    double lengths[2], cosine = 0;

    d += blockIdx.x * of.features;
    if (of.config.kind == VALUE_LOSS_COSINE)
        cosine = row_cosine(x, t, of.features, lengths);
    for (int64_t f = threadIdx.x; f < of.features; f += BLOCK) {
        if (of.config.kind == VALUE_LOSS_COSINE)
            d[f] = (float)((double)scale *
                           (cosine * (double)x[f] / lengths[0] - (double)t[f] / lengths[1]) /
                           lengths[0]);
        else
            d[f] = each * slope_of(of, f, x[f], t[target_of(of, f)]);
    }
}

cudaError_t cuda_value_loss_backward(const struct cuda_value_loss *loss, float *dprediction,
                                     cudaStream_t stream)
{
    value_loss_backward_kernel<<<(unsigned)loss->rows, BLOCK, 0, stream>>>(*loss, dprediction);
    return cudaGetLastError();
}

/* ---- classes ---- */

/* What a thread finds of a row: its first largest logit, and the logarithm of the sum of
 * exp(logits). */
struct row_scores {
    int64_t best;
    double log_sum_exp;
};

__device__ static struct row_scores row_scores(const float *row, int64_t classes)
{
    struct row_scores scores = {0, 0};

    for (int64_t c = 1; c < classes; c++)
        scores.best = row[c] > row[scores.best] ? c : scores.best;
    for (int64_t c = 0; c < classes; c++)
        scores.log_sum_exp += exp((double)row[c] - (double)row[scores.best]);
    scores.log_sum_exp = (double)row[scores.best] + log(scores.log_sum_exp);
    return scores;
}

__device__ static inline bool is_class(const struct cuda_class_loss &of, int64_t r)
{
    return of.label[r] >= 0 && of.label[r] < of.classes;
}

/* log(exp(a) + exp(b)) */
__device__ static inline double log_add(double a, double b)
{
    const double larger = fmax(a, b);

    return larger == -INFINITY ? larger : larger + log1p(exp(fmin(a, b) - larger));
}

__device__ static double focal_of(const struct cuda_class_loss &of, int64_t r, double log_sum_exp)
{
    const double log_p = fmin((double)of.logits[r * of.classes + of.label[r]] - log_sum_exp, 0.0);

    return -pow(-expm1(log_p), (double)of.gamma) * log_p;
}

/* The mean over the places between two classes. A place below the label's class wants the sum above
 * it, another one that below it. */
__device__ static double ordinal_of(const struct cuda_class_loss &of, int64_t r, double log_sum_exp)
{
    const float *row = of.logits + r * of.classes;
    double below = -INFINITY, above = -INFINITY, sum = 0;

    for (int64_t c = 0; c + 1 < of.classes; c++) {
        below = log_add(below, (double)row[c]);
        sum += c >= of.label[r] ? log_sum_exp - below : 0;
    }
    for (int64_t c = of.classes - 1; c > 0; c--) {
        above = log_add(above, (double)row[c]);
        sum += c <= of.label[r] ? log_sum_exp - above : 0;
    }
    return sum / (double)(of.classes - 1);
}

/* A thread has a row. */
__global__ void class_loss_kernel(const struct cuda_class_loss of, double *loss, int32_t *correct)
{
    FOR_EACH_ELEMENT(r, of.rows)
    {
        const struct row_scores scores = row_scores(of.logits + r * of.classes, of.classes);

        of.log_sum_exp[r] = (float)scores.log_sum_exp;
        correct[r] = scores.best == of.label[r];
        loss[r] = !is_class(of, r) ? (double)NAN
                  : of.ordinal     ? ordinal_of(of, r, scores.log_sum_exp)
                                   : focal_of(of, r, scores.log_sum_exp);
    }
}

cudaError_t cuda_class_loss(const struct cuda_class_loss *loss, void *partial, cudaStream_t stream)
{
    double *losses = (double *)partial;
    int32_t *correct = (int32_t *)(losses + loss->rows);

    class_loss_kernel<<<blocks_for(loss->rows), BLOCK, 0, stream>>>(*loss, losses, correct);
    row_losses_kernel<<<1, BLOCK, 0, stream>>>(loss->control, loss->scalars, losses, correct,
                                               loss->rows);
    return cudaGetLastError();
}

/* With g = gamma p (1 - p)^(gamma - 1) log p - (1 - p)^gamma: g (one-hot - softmax). */
__device__ static void focal_slopes(const struct cuda_class_loss &of, int64_t r, float scale,
                                    float *d)
{
    const float *row = of.logits + r * of.classes;
    const double total = (double)of.log_sum_exp[r], log_p = fmin(row[of.label[r]] - total, 0.0);
    const double p = exp(log_p), rest = -expm1(log_p);
    double g = -pow(rest, (double)of.gamma);

    if (of.gamma > 0.0f && rest > 0)
        g += (double)of.gamma * p * pow(rest, (double)of.gamma - 1) * log_p;
    for (int64_t c = 0; c < of.classes; c++)
        d[c] = (float)(-(double)scale * g) * expf(row[c] - of.log_sum_exp[r]);
    d[of.label[r]] += (float)((double)scale * g);
}

__device__ static void ordinal_slopes(const struct cuda_class_loss &of, int64_t r, float scale,
                                      float *d)
{
    const float *row = of.logits + r * of.classes;
    const float each = scale / (float)(of.classes - 1);
    double below = -INFINITY, above = -INFINITY;

    for (int64_t c = 0; c < of.classes; c++)
        d[c] = (float)((double)(of.classes - 1) * exp((double)row[c] - of.log_sum_exp[r]));
    for (int64_t c = 0; c + 1 < of.classes; c++) {
        below = log_add(below, (double)row[c]);
        for (int64_t j = 0; c >= of.label[r] && j <= c; j++)
            d[j] -= (float)exp((double)row[j] - below);
    }
    for (int64_t c = of.classes - 1; c > 0; c--) {
        above = log_add(above, (double)row[c]);
        for (int64_t j = c; c <= of.label[r] && j < of.classes; j++)
            d[j] -= (float)exp((double)row[j] - above);
    }
    for (int64_t c = 0; c < of.classes; c++)
        d[c] *= each;
}

__global__ void class_loss_backward_kernel(const struct cuda_class_loss of, float *dlogits)
{
    const float scale = loss_factor(of.scalars) / (float)of.rows;

    FOR_EACH_ELEMENT(r, of.rows)
    {
        float *d = dlogits + r * of.classes;

        if (!is_class(of, r))
            for (int64_t c = 0; c < of.classes; c++)
                d[c] = NAN;
        else if (of.ordinal)
            ordinal_slopes(of, r, scale, d);
        else
            focal_slopes(of, r, scale, d);
    }
}

cudaError_t cuda_class_loss_backward(const struct cuda_class_loss *loss, float *dlogits,
                                     cudaStream_t stream)
{
    class_loss_backward_kernel<<<blocks_for(loss->rows), BLOCK, 0, stream>>>(*loss, dlogits);
    return cudaGetLastError();
}
