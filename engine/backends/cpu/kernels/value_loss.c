/* value_loss.c: losses of values (OP_VALUE_LOSS), the focal loss of classes, and that of classes in
 * order. */
#include "engine/backends/cpu/kernels/elements.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector_math.h"

#include <math.h>

static inline double huber(double difference, double delta)
{
    double size = fabs(difference);

    return size <= delta ? 0.5 * size * size : delta * (size - 0.5 * delta);
}

/* max(q e, (q - 1) e) of the error e. */
static inline double pinball(double error, double quantile)
{
    return (error > 0 ? quantile : quantile - 1) * error;
}

/* Its derivative by the prediction; in the middle where the error is 0, and NaN stays. */
static inline float pinball_slope(float error, float quantile)
{
    return error > 0.0f ? -quantile : error < 0.0f ? 1.0f - quantile : 0.5f - quantile + error;
}

/* As torch.nn.BCEWithLogitsLoss with pos_weight: the part of the label 1 counts `weight` times. */
static double weighted_binary_forward(const struct value_loss_config *loss, const float *logits,
                                      const float *target, int64_t rows, int64_t features)
{
    double sum = 0;

    for (int64_t i = 0; i < rows * features; i++) {
        double weight = (double)loss->numbers[loss->count > 1 ? i % features : 0];
        double positive = 1 + (weight - 1) * (double)target[i];

        sum += (1 - (double)target[i]) * (double)logits[i] +
               positive * (double)vector_softplus(-logits[i]);
    }
    return sum / (double)features;
}

/* (1 - t) sigmoid(x) - weight t sigmoid(-x), times `each`. */
static void weighted_binary_backward(const struct value_loss_config *loss, const float *logits,
                                     const float *target, float *d, int64_t rows, int64_t features,
                                     float each)
{
    for (int64_t i = 0; i < rows * features; i++) {
        float weight = loss->numbers[loss->count > 1 ? i % features : 0];

        d[i] = each * ((1.0f - target[i]) * vector_sigmoid(logits[i]) -
                       weight * target[i] * vector_sigmoid(-logits[i]));
    }
}

/* The cosine of two rows, whose lengths count at least as torch's eps. */
static double row_cosine(const float *a, const float *b, int64_t features, double lengths[2])
{
    double product = 0, squares[2] = {0};

    for (int64_t i = 0; i < features; i++) {
        product += (double)a[i] * b[i];
        squares[0] += (double)a[i] * a[i];
        squares[1] += (double)b[i] * b[i];
    }
    for (int k = 0; k < 2; k++)
        lengths[k] = fmax(sqrt(squares[k]), 1e-8);
    return product / (lengths[0] * lengths[1]);
}

static double cosine_forward(const float *prediction, const float *target, int64_t rows,
                             int64_t features)
{
    double sum = 0, lengths[2];

    for (int64_t r = 0; r < rows; r++)
        sum += 1 - row_cosine(prediction + r * features, target + r * features, features, lengths);
    return sum;
}

static void cosine_backward(const float *prediction, const float *target, float *d, int64_t rows,
                            int64_t features, double scale)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *p = prediction + r * features, *t = target + r * features;
        double lengths[2], cosine = row_cosine(p, t, features, lengths);

        for (int64_t i = 0; i < features; i++)
            d[r * features + i] =
                (float)(scale * (cosine * (double)p[i] / lengths[0] - (double)t[i] / lengths[1]) /
                        lengths[0]);
    }
}

double KERNEL_NAME(value_loss_forward)(const struct value_loss_config *loss,
                                       const float *prediction, const float *target, int64_t rows,
                                       int64_t features)
{
    const int64_t count = rows * features;
    const float parameter = loss->parameter;
    double sum = 0;

    switch (loss->kind) {
    case VALUE_LOSS_MAE:
        FOR_EACH(sum += fabs((double)prediction[i] - target[i]))
        break;
    case VALUE_LOSS_HUBER:
        FOR_EACH(sum += huber((double)prediction[i] - target[i], (double)parameter))
        break;
    case VALUE_LOSS_QUANTILE:
        FOR_EACH(sum += pinball((double)target[i] - prediction[i], (double)parameter))
        break;
    case VALUE_LOSS_BINARY:
        if (loss->count)
            return weighted_binary_forward(loss, prediction, target, rows, features);
        FOR_EACH(sum += (double)vector_softplus(prediction[i]) - (double)prediction[i] * target[i])
        break;
    case VALUE_LOSS_COSINE:
        return cosine_forward(prediction, target, rows, features);
    case VALUE_LOSS_SMOOTH_L1:
        FOR_EACH(sum +=
                 huber((double)prediction[i] - target[i], (double)parameter) / (double)parameter)
        break;
    case VALUE_LOSS_QUANTILES:
        for (int64_t i = 0; i < count; i++)
            sum += pinball((double)target[i / loss->count] - prediction[i],
                           (double)loss->numbers[i % loss->count]);
        break;
    }
    return sum / (double)features;
}

void KERNEL_NAME(value_loss_backward)(const struct value_loss_config *loss, const float *prediction,
                                      const float *target, float *d, int64_t rows, int64_t features,
                                      float scale)
{
    const int64_t count = rows * features;
    const float each = scale / (float)features, parameter = loss->parameter;

    switch (loss->kind) {
    case VALUE_LOSS_MAE:
        FOR_EACH(float e = prediction[i] - target[i]; d[i] = e > 0.0f   ? each
                                                             : e < 0.0f ? -each
                                                                        : e * each)
        break;
    case VALUE_LOSS_HUBER:
        FOR_EACH(float e = prediction[i] - target[i]; e = e > parameter ? parameter : e;
                 d[i] = each * (e < -parameter ? -parameter : e))
        break;
    case VALUE_LOSS_QUANTILE:
        FOR_EACH(d[i] = each * pinball_slope(target[i] - prediction[i], parameter))
        break;
    case VALUE_LOSS_BINARY:
        if (loss->count) {
            weighted_binary_backward(loss, prediction, target, d, rows, features, each);
            break;
        }
        FOR_EACH(d[i] = each * (vector_sigmoid(prediction[i]) - target[i]))
        break;
    case VALUE_LOSS_COSINE:
        cosine_backward(prediction, target, d, rows, features, (double)scale);
        break;
    case VALUE_LOSS_SMOOTH_L1:
        FOR_EACH(float e = (prediction[i] - target[i]) / parameter; e = e > 1.0f ? 1.0f : e;
                 d[i] = each * (e < -1.0f ? -1.0f : e))
        break;
    case VALUE_LOSS_QUANTILES:
        for (int64_t i = 0; i < count; i++)
            d[i] = each * pinball_slope(target[i / loss->count] - prediction[i],
                                        loss->numbers[i % loss->count]);
        break;
    }
}

/* ---- focal loss ---- */

double KERNEL_NAME(focal_loss_forward)(const float *logits, const int32_t *label, float gamma,
                                       float *log_sum_exp, int64_t rows, int64_t classes,
                                       int64_t *correct)
{
    double loss = 0;

    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        bool known = label[r] >= 0 && label[r] < classes;
        double sum = 0, log_probability;
        int64_t best = 0;

        for (int64_t c = 1; c < classes; c++)
            best = row[c] > row[best] ? c : best;
        for (int64_t c = 0; c < classes; c++)
            sum += exp((double)row[c] - row[best]);
        log_sum_exp[r] = (float)((double)row[best] + log(sum));
        log_probability = known ? (double)row[label[r]] - row[best] - log(sum) : (double)NAN;
        loss -= pow(-expm1(log_probability), (double)gamma) * log_probability;
        *correct += best == label[r];
    }
    return loss;
}

/* With g = gamma p (1 - p)^(gamma - 1) log p - (1 - p)^gamma: dlogits = scale g (one-hot -
 * softmax). */
void KERNEL_NAME(focal_loss_backward)(const float *logits, const int32_t *label, float gamma,
                                      const float *log_sum_exp, float *dlogits, int64_t rows,
                                      int64_t classes, float scale)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        bool known = label[r] >= 0 && label[r] < classes;
        double log_p = known ? (double)row[label[r]] - log_sum_exp[r] : (double)NAN;
        double p, rest, g;

        log_p = log_p > 0 ? 0 : log_p;
        p = exp(log_p);
        rest = -expm1(log_p);
        g = -pow(rest, (double)gamma);
        if (gamma > 0.0f && rest > 0)
            g += (double)gamma * p * pow(rest, (double)gamma - 1) * log_p;
        for (int64_t c = 0; c < classes; c++)
            dlogits[r * classes + c] =
                (float)(-(double)scale * g) * vector_exp(row[c] - log_sum_exp[r]);
        if (known)
            dlogits[r * classes + label[r]] += (float)((double)scale * g);
    }
}

/* ---- ordinal loss ---- */

/* log(exp(a) + exp(b)) */
static inline double log_add(double a, double b)
{
    double larger = fmax(a, b);

    return larger == -INFINITY ? larger : larger + log1p(exp(fmin(a, b) - larger));
}

double KERNEL_NAME(ordinal_loss_forward)(const float *logits, const int32_t *label,
                                         float *log_sum_exp, int64_t rows, int64_t classes,
                                         int64_t *correct)
{
    double loss = 0;

    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        bool known = label[r] >= 0 && label[r] < classes;
        double total, below = -INFINITY, above = -INFINITY, sum = 0;
        int64_t best = 0;

        for (int64_t c = 1; c < classes; c++)
            best = row[c] > row[best] ? c : best;
        total = (double)row[0];
        for (int64_t c = 1; c < classes; c++)
            total = log_add(total, (double)row[c]);
        /* a place below the label's class wants the sum above it, another one that below it */
        for (int64_t c = 0; known && c + 1 < classes; c++) {
            below = log_add(below, (double)row[c]);
            sum += c >= label[r] ? total - below : 0;
        }
        for (int64_t c = classes - 1; known && c > 0; c--) {
            above = log_add(above, (double)row[c]);
            sum += c <= label[r] ? total - above : 0;
        }
        log_sum_exp[r] = (float)total;
        loss += known ? sum / (double)(classes - 1) : (double)NAN;
        *correct += best == label[r];
    }
    return loss;
}

/* With P the probability of a side of a place: each place's loss is -log P, whose derivative by the
 * logit of a class with the probability p is p - p / P on that side, and p on the other. */
void KERNEL_NAME(ordinal_loss_backward)(const float *logits, const int32_t *label,
                                        const float *log_sum_exp, float *dlogits, int64_t rows,
                                        int64_t classes, float scale)
{
    const float each = scale / (float)(classes - 1);

    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * classes;
        float *d = dlogits + r * classes;
        bool known = label[r] >= 0 && label[r] < classes;
        double below = -INFINITY, above = -INFINITY;

        for (int64_t c = 0; c < classes; c++)
            d[c] =
                known ? (float)((double)(classes - 1) * exp((double)row[c] - log_sum_exp[r])) : NAN;
        for (int64_t c = 0; known && c + 1 < classes; c++) {
            below = log_add(below, (double)row[c]);
            for (int64_t j = 0; c >= label[r] && j <= c; j++)
                d[j] -= (float)exp((double)row[j] - below);
        }
        for (int64_t c = classes - 1; known && c > 0; c--) {
            above = log_add(above, (double)row[c]);
            for (int64_t j = c; c <= label[r] && j < classes; j++)
                d[j] -= (float)exp((double)row[j] - above);
        }
        for (int64_t c = 0; c < classes; c++)
            d[c] *= each;
    }
}
