/* optimizer.c: one step of each optimizer, as torch.optim computes it (float32, foreach or not),
 * and of Lion as its paper defines it. The loops are elementwise: they compute element i of every
 * array. */
#include "engine/graph/optimizer.h"

#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

/* The gradient that the update uses: scaled, then limited to ±limit. NaN stays NaN. */
static inline float taken(float gradient, float factor, float limit)
{
    float g = factor * gradient;

    g = limit < g ? limit : g;
    return -limit > g ? -limit : g;
}

/* torch.optim.SGD: g += decay w; buffer = momentum buffer + (1 - dampening) g, and in the first
 * step just g; then w -= lr (nesterov ? g + momentum buffer : buffer). */
static void update_sgd(const struct optimizer_config *config,
                       const struct optimizer_scalars *scalars, float *restrict w,
                       const float *restrict gradient, float *restrict buffer,
                       float *restrict unused, int64_t count)
{
    const float lr = scalars->learning_rate, decay = (float)config->weight_decay;
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float momentum = (float)scalars->momentum;
    const bool first = scalars->step == 1;
    const float keep = first ? 0.0f : momentum;
    const float take = first ? 1.0f : (float)(1.0 - config->dampening);

    (void)unused;
    if (config->momentum == 0) {
        for (int64_t i = 0; i < count; i++)
            w[i] -= lr * (taken(gradient[i], factor, limit) + decay * w[i]);
    } else if (config->nesterov) {
        for (int64_t i = 0; i < count; i++) {
            float g = taken(gradient[i], factor, limit) + decay * w[i];
            buffer[i] = keep * buffer[i] + take * g;
            w[i] -= lr * (g + momentum * buffer[i]);
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            float g = taken(gradient[i], factor, limit) + decay * w[i];
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
    const bool decoupled = optimizer_decays_apart(config);
    const double lr = scalars->learning_rate;
    const float b1 = (float)scalars->momentum, rest1 = (float)(1.0 - scalars->momentum);
    const float b2 = (float)config->beta2, rest2 = (float)(1.0 - config->beta2);
    const float epsilon = (float)config->epsilon;
    const float shrink = decoupled ? (float)(1.0 - lr * config->weight_decay) : 1.0f;
    const float decay = decoupled ? 0.0f : (float)config->weight_decay;
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float rate = (float)(lr / (1.0 - pow(scalars->momentum, (double)scalars->step)));
    const float root = (float)sqrt(1.0 - pow(config->beta2, (double)scalars->step));

    for (int64_t i = 0; i < count; i++) {
        float old = shrink * w[i];
        float g = taken(gradient[i], factor, limit) + decay * old;
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
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float momentum = (float)scalars->momentum;
    const float alpha = (float)config->alpha, rest = (float)(1.0 - config->alpha);
    const float epsilon = (float)config->epsilon;

    for (int64_t i = 0; i < count; i++) {
        float g = taken(gradient[i], factor, limit) + decay * w[i];
        v[i] = alpha * v[i] + rest * g * g;
        float step = g / (sqrtf(v[i]) + epsilon);
        if (buffer)
            step = buffer[i] = momentum * buffer[i] + step;
        w[i] -= lr * step;
    }
}

/* Chen et al. 2023, arXiv:2302.06675, algorithm 2: decay, then the sign of an interpolation, then
 * the momentum with the other beta. */
static void update_lion(const struct optimizer_config *config,
                        const struct optimizer_scalars *scalars, float *restrict w,
                        const float *restrict gradient, float *restrict m, float *restrict unused,
                        int64_t count)
{
    const float lr = scalars->learning_rate;
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float shrink = (float)(1.0 - (double)lr * config->weight_decay);
    const float b1 = (float)scalars->momentum, rest1 = (float)(1.0 - scalars->momentum);
    const float b2 = (float)config->beta2, rest2 = (float)(1.0 - config->beta2);

    (void)unused;
    for (int64_t i = 0; i < count; i++) {
        float g = taken(gradient[i], factor, limit);
        float direction = b1 * m[i] + rest1 * g;
        float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : 0.0f;
        w[i] = shrink * w[i] - lr * sign;
        m[i] = b2 * m[i] + rest2 * g;
    }
}

/* torch.optim.Adagrad (Duchi, Hazan and Singer 2011): s += g^2;
 * w -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + epsilon). */
static void update_adagrad(const struct optimizer_config *config,
                           const struct optimizer_scalars *scalars, float *restrict w,
                           const float *restrict gradient, float *restrict sum,
                           float *restrict unused, int64_t count)
{
    const float rate = (float)((double)scalars->learning_rate /
                               (1.0 + (double)(scalars->step - 1) * config->learning_rate_decay));
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float decay = (float)config->weight_decay, epsilon = (float)config->epsilon;

    (void)unused;
    for (int64_t i = 0; i < count; i++) {
        float g = taken(gradient[i], factor, limit) + decay * w[i];
        sum[i] += g * g;
        w[i] -= rate * (g / (sqrtf(sum[i]) + epsilon));
    }
}

/* torch.optim.Adadelta (Zeiler 2012, arXiv:1212.5701): v = rho v + (1 - rho) g^2;
 * step = sqrt(u + epsilon) / sqrt(v + epsilon) g; u = rho u + (1 - rho) step^2; w -= lr step. */
static void update_adadelta(const struct optimizer_config *config,
                            const struct optimizer_scalars *scalars, float *restrict w,
                            const float *restrict gradient, float *restrict v, float *restrict u,
                            int64_t count)
{
    const float lr = scalars->learning_rate, decay = (float)config->weight_decay;
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float rho = (float)config->alpha, rest = (float)(1.0 - config->alpha);
    const float epsilon = (float)config->epsilon;

    for (int64_t i = 0; i < count; i++) {
        float g = taken(gradient[i], factor, limit) + decay * w[i];
        v[i] = rho * v[i] + rest * g * g;
        float step = sqrtf(u[i] + epsilon) / sqrtf(v[i] + epsilon) * g;
        u[i] = rho * u[i] + rest * step * step;
        w[i] -= lr * step;
    }
}

/* torch.optim.NAdam (Dozat 2016): with mu_t of the descriptor (engine/graph/optimizers/nadam.c) and
 * P_t its product, w -= (lr (1 - mu_t) / (1 - P_t) g + lr mu_t+1 / (1 - P_t mu_t+1) m) / (sqrt(v /
 * (1 - b2^t)) + epsilon). */
static void update_nadam(const struct optimizer_config *config,
                         const struct optimizer_scalars *scalars, float *restrict w,
                         const float *restrict gradient, float *restrict m, float *restrict v,
                         int64_t count)
{
    const double lr = scalars->learning_rate, product = scalars->momentum_product;
    const double mu = optimizer_of(config)->momentum(config, scalars->momentum, scalars->step);
    const double next =
        optimizer_of(config)->momentum(config, scalars->momentum, scalars->step + 1);
    const float of_gradient = (float)(lr * (1.0 - mu) / (1.0 - product));
    const float of_moment = (float)(lr * next / (1.0 - product * next));
    const float b1 = (float)scalars->momentum, rest1 = (float)(1.0 - scalars->momentum);
    const float b2 = (float)config->beta2, rest2 = (float)(1.0 - config->beta2);
    const float root = (float)sqrt(1.0 - pow(config->beta2, (double)scalars->step));
    const float epsilon = (float)config->epsilon;
    const bool decoupled = config->decoupled_weight_decay;
    const float shrink = decoupled ? (float)(1.0 - lr * config->weight_decay) : 1.0f;
    const float decay = decoupled ? 0.0f : (float)config->weight_decay;
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;

    for (int64_t i = 0; i < count; i++) {
        float old = shrink * w[i];
        float g = taken(gradient[i], factor, limit) + decay * old;
        m[i] = b1 * m[i] + rest1 * g;
        v[i] = b2 * v[i] + rest2 * g * g;
        w[i] = old - (of_gradient * g + of_moment * m[i]) / (sqrtf(v[i]) / root + epsilon);
    }
}

typedef void update_function(const struct optimizer_config *config,
                             const struct optimizer_scalars *scalars, float *restrict w,
                             const float *restrict gradient, float *restrict state0,
                             float *restrict state1, int64_t count);

/* Muon's updates are products of matrices: operator_muon.c. */
static update_function *const updates[] = {
    [OPTIMIZER_SGD] = update_sgd,           [OPTIMIZER_ADAM] = update_adam,
    [OPTIMIZER_ADAMW] = update_adam,        [OPTIMIZER_RMSPROP] = update_rmsprop,
    [OPTIMIZER_LION] = update_lion,         [OPTIMIZER_ADAGRAD] = update_adagrad,
    [OPTIMIZER_ADADELTA] = update_adadelta, [OPTIMIZER_NADAM] = update_nadam,
};

void KERNEL_NAME(optimizer_update)(const struct optimizer_config *config,
                                   const struct optimizer_scalars *scalars, float *parameter,
                                   const float *gradient, float *state0, float *state1,
                                   int64_t count)
{
    updates[config->kind](config, scalars, parameter, gradient, state0, state1, count);
}

/* torch.lerp, which starts from the nearer end. */
void KERNEL_NAME(moving_average)(float *restrict average, const float *restrict value, float decay,
                                 int64_t count)
{
    const float rest = 1.0f - decay;

    if (rest < 0.5f)
        for (int64_t i = 0; i < count; i++)
            average[i] += rest * (value[i] - average[i]);
    else
        for (int64_t i = 0; i < count; i++)
            average[i] = value[i] - decay * (value[i] - average[i]);
}
