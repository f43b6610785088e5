/* value_loss.c: losses of values (OP_VALUE_LOSS) and the focal loss of classes. */
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

double KERNEL_NAME(value_loss_forward)(enum value_loss kind, float parameter,
                                       const float *prediction, const float *target, int64_t rows,
                                       int64_t features)
{
    const int64_t count = rows * features;
    double sum = 0;

    switch (kind) {
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
        FOR_EACH(sum += (double)vector_softplus(prediction[i]) - (double)prediction[i] * target[i])
        break;
    case VALUE_LOSS_COSINE:
        return cosine_forward(prediction, target, rows, features);
    }
    return sum / (double)features;
}

void KERNEL_NAME(value_loss_backward)(enum value_loss kind, float parameter,
                                      const float *prediction, const float *target, float *d,
                                      int64_t rows, int64_t features, float scale)
{
    const int64_t count = rows * features;
    const float each = scale / (float)features;

    switch (kind) {
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
        FOR_EACH(float e = target[i] - prediction[i];
                 d[i] = each * (e > 0.0f   ? -parameter
                                : e < 0.0f ? 1.0f - parameter
                                           : 0.5f - parameter + e))
        break;
    case VALUE_LOSS_BINARY:
        FOR_EACH(d[i] = each * (vector_sigmoid(prediction[i]) - target[i]))
        break;
    case VALUE_LOSS_COSINE:
        cosine_backward(prediction, target, d, rows, features, (double)scale);
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
