/* lamb.c: LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2) in two passes over a parameter:
 * the moments and the norms, then the step. operator_lamb.c divides them among tasks. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

/* What a step is made of: r = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon). */
struct lamb_terms {
    float correction, root, epsilon, decay;
};

static struct lamb_terms lamb_terms(const struct optimizer_config *config,
                                    const struct optimizer_scalars *scalars)
{
    return (struct lamb_terms){
        .correction = (float)(1.0 / (1.0 - pow(scalars->momentum, (double)scalars->step))),
        .root = (float)sqrt(1.0 - pow(config->beta2, (double)scalars->step)),
        .epsilon = (float)config->epsilon,
        .decay = (float)config->weight_decay};
}

/* r + decay w */
static inline float direction(const struct lamb_terms *terms, float w, float m, float v)
{
    return terms->correction * m / (sqrtf(v) / terms->root + terms->epsilon) + terms->decay * w;
}

void KERNEL_NAME(lamb_moments)(const struct optimizer_config *config,
                               const struct optimizer_scalars *scalars, const float *restrict w,
                               const float *restrict gradient, float *restrict m, float *restrict v,
                               double squares[2], int64_t count)
{
    const struct lamb_terms terms = lamb_terms(config, scalars);
    const float b1 = (float)scalars->momentum, rest1 = (float)(1.0 - scalars->momentum);
    const float b2 = (float)config->beta2, rest2 = (float)(1.0 - config->beta2);
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;

    for (int64_t i = 0; i < count; i++) {
        float g = factor * gradient[i];

        g = limit < g ? limit : g;
        g = -limit > g ? -limit : g;
        m[i] = b1 * m[i] + rest1 * g;
        v[i] = b2 * v[i] + rest2 * g * g;
    }
    for (int64_t i = 0; i < count; i++) {
        double step = (double)direction(&terms, w[i], m[i], v[i]);

        squares[0] += (double)w[i] * (double)w[i];
        squares[1] += step * step;
    }
}

void KERNEL_NAME(lamb_step)(const struct optimizer_config *config,
                            const struct optimizer_scalars *scalars, float rate, float *restrict w,
                            const float *restrict m, const float *restrict v, int64_t count)
{
    const struct lamb_terms terms = lamb_terms(config, scalars);

    for (int64_t i = 0; i < count; i++)
        w[i] -= rate * direction(&terms, w[i], m[i], v[i]);
}
