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

/* What Adam and AMSGrad compute with in a step: the moments' coefficients, the weight decay, and
 * the corrections of the moments' bias. */
struct adam_numbers {
    float beta1, rest1, beta2, rest2, epsilon, shrink, decay, rate, root;
};

static struct adam_numbers adam_numbers(const struct optimizer_config *config,
                                        const struct optimizer_scalars *scalars)
{
    const bool decoupled = optimizer_decays_apart(config);
    const double rate = scalars->learning_rate, beta1 = scalars->momentum;
    const double step = (double)scalars->step;

    return (struct adam_numbers){
        .beta1 = (float)beta1,
        .rest1 = (float)(1.0 - beta1),
        .beta2 = (float)config->beta2,
        .rest2 = (float)(1.0 - config->beta2),
        .epsilon = (float)config->epsilon,
        .shrink = decoupled ? (float)(1.0 - rate * config->weight_decay) : 1.0f,
        .decay = decoupled ? 0.0f : (float)config->weight_decay,
        .rate = (float)(rate / (1.0 - pow(beta1, step))),
        .root = (float)sqrt(1.0 - pow(config->beta2, step)),
    };
}

/* torch.optim.Adam (decay added to the gradient) and AdamW (w *= 1 - lr decay first):
 * w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon). */
static void update_adam(const struct optimizer_config *config,
                        const struct optimizer_scalars *scalars, float *restrict w,
                        const float *restrict gradient, float *restrict m, float *restrict v,
                        int64_t count)
{
    const struct adam_numbers a = adam_numbers(config, scalars);
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;

    for (int64_t i = 0; i < count; i++) {
        float old = a.shrink * w[i];
        float g = taken(gradient[i], factor, limit) + a.decay * old;
        m[i] = a.beta1 * m[i] + a.rest1 * g;
        v[i] = a.beta2 * v[i] + a.rest2 * g * g;
        w[i] = old - a.rate * (m[i] / (sqrtf(v[i]) / a.root + a.epsilon));
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

/* torch.optim.Adamax (Kingma and Ba 2015, section 7.1): u = max(b2 u, |g| + epsilon);
 * w -= lr / (1 - b1^t) m / u. */
static void update_adamax(const struct optimizer_config *config,
                          const struct optimizer_scalars *scalars, float *restrict w,
                          const float *restrict gradient, float *restrict m, float *restrict u,
                          int64_t count)
{
    const double lr = scalars->learning_rate;
    const float b1 = (float)scalars->momentum, rest1 = (float)(1.0 - scalars->momentum);
    const float b2 = (float)config->beta2, epsilon = (float)config->epsilon;
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float decay = (float)config->weight_decay;
    const float rate = (float)(lr / (1.0 - pow(scalars->momentum, (double)scalars->step)));

    for (int64_t i = 0; i < count; i++) {
        float g = taken(gradient[i], factor, limit) + decay * w[i];
        float size = fabsf(g) + epsilon, before = b2 * u[i];
        m[i] = b1 * m[i] + rest1 * g;
        u[i] = before > size ? before : size;
        w[i] -= rate * (m[i] / u[i]);
    }
}

/* torch.optim.Adam with amsgrad=True: as update_adam() with the largest v so far. */
static void update_amsgrad(const struct optimizer_config *config,
                           const struct optimizer_scalars *scalars, float *restrict w,
                           const float *restrict gradient, float *restrict m, float *restrict v,
                           float *restrict largest, int64_t count)
{
    const struct adam_numbers a = adam_numbers(config, scalars);
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;

    for (int64_t i = 0; i < count; i++) {
        float old = a.shrink * w[i];
        float g = taken(gradient[i], factor, limit) + a.decay * old;
        m[i] = a.beta1 * m[i] + a.rest1 * g;
        v[i] = a.beta2 * v[i] + a.rest2 * g * g;
        largest[i] = largest[i] > v[i] ? largest[i] : v[i];
        w[i] = old - a.rate * (m[i] / (sqrtf(largest[i]) / a.root + a.epsilon));
    }
}

/* Defazio et al. 2024, arXiv:2405.15682, algorithm 1, in the form of the authors' AdamWScheduleFree
 * without their warm-up: w is y, where gradients are taken; z is the base. With c, what the step
 * counts in the mean x of all z: d = g / (sqrt(v / (1 - b2^t)) + epsilon) + decay y;
 * y += c (z - y) + lr (b1 (1 - c) - 1) d; z -= lr d. graph_add_averages() keeps x. */
static void update_schedule_free(const struct optimizer_config *config,
                                 const struct optimizer_scalars *scalars, float *restrict w,
                                 const float *restrict gradient, float *restrict z,
                                 float *restrict v, int64_t count)
{
    const float lr = scalars->learning_rate, share = scalars->average_share;
    const float b2 = (float)config->beta2, rest2 = (float)(1.0 - config->beta2);
    const float decay = (float)config->weight_decay, epsilon = (float)config->epsilon;
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    const float root = (float)sqrt(1.0 - pow(config->beta2, (double)scalars->step));
    const float back = (float)((double)lr * (scalars->momentum * (1.0 - (double)share) - 1.0));
    const bool first = scalars->step == 1;

    for (int64_t i = 0; i < count; i++) {
        float g = taken(gradient[i], factor, limit), base = first ? w[i] : z[i];
        v[i] = b2 * v[i] + rest2 * g * g;
        float step = g / (sqrtf(v[i]) / root + epsilon) + decay * w[i];
        w[i] += share * (base - w[i]) + back * step;
        z[i] = base - lr * step;
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
    [OPTIMIZER_ADAMAX] = update_adamax,     [OPTIMIZER_SCHEDULE_FREE_ADAMW] = update_schedule_free,
};

void KERNEL_NAME(optimizer_update)(const struct optimizer_config *config,
                                   const struct optimizer_scalars *scalars, float *parameter,
                                   const float *gradient, float *const *states, int64_t count)
{
    if (config->kind == OPTIMIZER_AMSGRAD) /* the only one of three states */
        update_amsgrad(config, scalars, parameter, gradient, states[0], states[1], states[2],
                       count);
    else
        updates[config->kind](config, scalars, parameter, gradient, states[0], states[1], count);
}

/* torch.lerp, which starts from the nearer end. */
void KERNEL_NAME(moving_average)(float *restrict average, const float *restrict value, float share,
                                 int64_t count)
{
    const float decay = 1.0f - share;

    if (share < 0.5f)
        for (int64_t i = 0; i < count; i++)
            average[i] += share * (value[i] - average[i]);
    else
        for (int64_t i = 0; i < count; i++)
            average[i] = value[i] - decay * (value[i] - average[i]);
}
