/* optimizer.c: one step of each optimizer, with the semantics of torch.optim (float32, foreach or
 * not), and of Lion as its paper has it. The loops are elementwise: element i of every array. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

/* torch.optim.SGD: g += decay w; buffer = momentum buffer + (1 - dampening) g, and in the first
 * step just g; then w -= lr (nesterov ? g + momentum buffer : buffer). */
static void update_sgd(const struct optimizer_config *config,
                       const struct optimizer_scalars *scalars, float *restrict w,
                       const float *restrict gradient, float *restrict buffer, int64_t count)
{
    const float lr = scalars->learning_rate, decay = (float)config->weight_decay;
    const float factor = scalars->gradient_factor, momentum = (float)config->momentum;
    const bool first = scalars->step == 1;
    const float keep = first ? 0.0f : momentum;
    const float take = first ? 1.0f : (float)(1.0 - config->dampening);

    if (momentum == 0.0f) {
        for (int64_t i = 0; i < count; i++)
            w[i] -= lr * (factor * gradient[i] + decay * w[i]);
    } else if (config->nesterov) {
        for (int64_t i = 0; i < count; i++) {
            float g = factor * gradient[i] + decay * w[i];
            buffer[i] = keep * buffer[i] + take * g;
            w[i] -= lr * (g + momentum * buffer[i]);
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            float g = factor * gradient[i] + decay * w[i];
            buffer[i] = keep * buffer[i] + take * g;
            w[i] -= lr * buffer[i];
        }
    }
}

/* torch.optim.Adam (decay added to the gradient) and AdamW (w *= 1 - lr decay first):
 * w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon). */
static void update_adam(const struct optimizer_config *config,
                        const struct optimizer_scalars *scalars, float *restrict w,
                        const float *restrict gradient, float *restrict m, float *restrict v,
                        int64_t count)
{
    const bool decoupled = config->kind == OPTIMIZER_ADAMW;
    const double lr = scalars->learning_rate;
    const float b1 = (float)config->beta1, rest1 = (float)(1.0 - config->beta1);
    const float b2 = (float)config->beta2, rest2 = (float)(1.0 - config->beta2);
    const float epsilon = (float)config->epsilon;
    const float shrink = decoupled ? (float)(1.0 - lr * config->weight_decay) : 1.0f;
    const float decay = decoupled ? 0.0f : (float)config->weight_decay;
    const float factor = scalars->gradient_factor;
    const float rate = (float)(lr / (1.0 - pow(config->beta1, (double)scalars->step)));
    const float root = (float)sqrt(1.0 - pow(config->beta2, (double)scalars->step));

    for (int64_t i = 0; i < count; i++) {
        float old = shrink * w[i];
        float g = factor * gradient[i] + decay * old;
        m[i] = b1 * m[i] + rest1 * g;
        v[i] = b2 * v[i] + rest2 * g * g;
        w[i] = old - rate * (m[i] / (sqrtf(v[i]) / root + epsilon));
    }
}

/* torch.optim.RMSprop, not centred: v = alpha v + (1 - alpha) g^2; step = g / (sqrt(v) + epsilon);
 * with momentum: buffer = momentum buffer + step; w -= lr buffer. */
static void update_rmsprop(const struct optimizer_config *config,
                           const struct optimizer_scalars *scalars, float *restrict w,
                           const float *restrict gradient, float *restrict v,
                           float *restrict buffer, int64_t count)
{
    const float lr = scalars->learning_rate, decay = (float)config->weight_decay;
    const float factor = scalars->gradient_factor, momentum = (float)config->momentum;
    const float alpha = (float)config->alpha, rest = (float)(1.0 - config->alpha);
    const float epsilon = (float)config->epsilon;

    for (int64_t i = 0; i < count; i++) {
        float g = factor * gradient[i] + decay * w[i];
        v[i] = alpha * v[i] + rest * g * g;
        float step = g / (sqrtf(v[i]) + epsilon);
        if (momentum != 0.0f)
            step = buffer[i] = momentum * buffer[i] + step;
        w[i] -= lr * step;
    }
}

/* Chen et al. 2023, arXiv:2302.06675, algorithm 2: decay, then the sign of an interpolation, then
 * the momentum with the other beta. */
static void update_lion(const struct optimizer_config *config,
                        const struct optimizer_scalars *scalars, float *restrict w,
                        const float *restrict gradient, float *restrict m, int64_t count)
{
    const float lr = scalars->learning_rate, factor = scalars->gradient_factor;
    const float shrink = (float)(1.0 - (double)lr * config->weight_decay);
    const float b1 = (float)config->beta1, rest1 = (float)(1.0 - config->beta1);
    const float b2 = (float)config->beta2, rest2 = (float)(1.0 - config->beta2);

    for (int64_t i = 0; i < count; i++) {
        float g = factor * gradient[i];
        float direction = b1 * m[i] + rest1 * g;
        float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : 0.0f;
        w[i] = shrink * w[i] - lr * sign;
        m[i] = b2 * m[i] + rest2 * g;
    }
}

void KERNEL_NAME(optimizer_update)(const struct optimizer_config *config,
                                   const struct optimizer_scalars *scalars, float *parameter,
                                   const float *gradient, float *state0, float *state1,
                                   int64_t count)
{
    switch (config->kind) {
    case OPTIMIZER_SGD:
        update_sgd(config, scalars, parameter, gradient, state0, count);
        break;
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
        update_adam(config, scalars, parameter, gradient, state0, state1, count);
        break;
    case OPTIMIZER_RMSPROP:
        update_rmsprop(config, scalars, parameter, gradient, state0, state1, count);
        break;
    case OPTIMIZER_LION:
        update_lion(config, scalars, parameter, gradient, state0, count);
        break;
    }
}
