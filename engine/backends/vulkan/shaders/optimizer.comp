#version 460
#extension GL_GOOGLE_include_directive : require
/* optimizer.comp: updates a parameter and its states by the formulas of
 * engine/backends/cpu/kernels/optimizer.c, with coefficients that the host has computed
 * (engine/backends/update_rule.h, whose numbers these are; update.c asserts them). */
#include "common.glsl"

layout(constant_id = 1) const uint FORMULA = 1;
layout(constant_id = 2) const uint SUMMED = 0; /* the squares of the gradients have been summed up */

layout(push_constant, scalar) uniform Push
{
    Floats parameter, gradient, state0, state1, state2;
    Scalars scalars;
    Control control;
    uint count;
    uint group; /* where the coefficients of the parameter's group begin */
};

const uint SGD = 1, ADAM = 2, RMSPROP = 3, LION = 4, ADAGRAD = 5, ADADELTA = 6, ADAMAX = 7,
           AMSGRAD = 8, SCHEDULE_FREE = 9;

float rate, shrink, decay, keep, take, keep2, take2, epsilon, root, own;
bool nesterov, has_momentum;

void load_coefficients()
{
    rate = scalars.group[group];
    shrink = scalars.group[group + 1];
    decay = scalars.group[group + 2];
    keep = scalars.group[group + 3];
    take = scalars.group[group + 4];
    keep2 = scalars.group[group + 5];
    take2 = scalars.group[group + 6];
    epsilon = scalars.group[group + 7];
    root = scalars.group[group + 8];
    own = scalars.group[group + 9];
    nesterov = scalars.group[group + 10] != 0.0;
    has_momentum = scalars.group[group + 11] != 0.0;
}

float update_sgd(uint i, float g, float w)
{
    float step = g + decay * w;

    if (has_momentum) {
        const float coupled = step, average = keep * state0.at[i] + take * coupled;

        state0.at[i] = average;
        step = nesterov ? coupled + own * average : average;
    }
    return w - rate * step;
}

float update_adam(uint i, float g, float w)
{
    const float old = shrink * w, coupled = g + decay * old;
    const float m = keep * state0.at[i] + take * coupled;
    const float v = keep2 * state1.at[i] + take2 * coupled * coupled;

    state0.at[i] = m;
    state1.at[i] = v;
    if (FORMULA == AMSGRAD) {
        const float before = state2.at[i], largest = before > v ? before : v; /* NaN stays */

        state2.at[i] = largest;
        return old - rate * (m / (sqrt(largest) / root + epsilon));
    }
    return old - (own * coupled + rate * m) / (sqrt(v) / root + epsilon);
}

float update_rmsprop(uint i, float g, float w)
{
    const float coupled = g + decay * w;
    const float v = keep2 * state0.at[i] + take2 * coupled * coupled;
    float step = coupled / (sqrt(v) + epsilon);

    state0.at[i] = v;
    if (has_momentum)
        state1.at[i] = step = keep * state1.at[i] + step;
    return w - rate * step;
}

float update_lion(uint i, float g, float w)
{
    const float m = state0.at[i], direction = keep * m + take * g;

    state0.at[i] = keep2 * m + take2 * g;
    return shrink * w - rate * (direction > 0.0 ? 1.0 : direction < 0.0 ? -1.0 : 0.0);
}

float update_adagrad(uint i, float g, float w)
{
    const float coupled = g + decay * w, sum = state0.at[i] + coupled * coupled;

    state0.at[i] = sum;
    return w - rate * (coupled / (sqrt(sum) + epsilon));
}

float update_adadelta(uint i, float g, float w)
{
    const float coupled = g + decay * w, u = state1.at[i];
    const float v = keep2 * state0.at[i] + take2 * coupled * coupled;
    const float step = sqrt(u + epsilon) / sqrt(v + epsilon) * coupled;

    state0.at[i] = v;
    state1.at[i] = keep2 * u + take2 * step * step;
    return w - rate * step;
}

float update_adamax(uint i, float g, float w)
{
    const float coupled = g + decay * w, before = keep2 * state1.at[i];
    const float size = abs(coupled) + epsilon, u = before > size ? before : size; /* NaN stays */
    const float m = keep * state0.at[i] + take * coupled;

    state0.at[i] = m;
    state1.at[i] = u;
    return w - rate * (m / u);
}

float update_schedule_free(uint i, float g, float w)
{
    const float base = nesterov ? w : state0.at[i];
    const float v = keep2 * state1.at[i] + take2 * g * g;
    const float step = g / (sqrt(v) / root + epsilon) + decay * w;

    state0.at[i] = base - rate * step;
    state1.at[i] = v;
    return w + take * (base - w) + own * step;
}

float update(uint i, float g, float w)
{
    switch (FORMULA) {
    case SGD:
        return update_sgd(i, g, w);
    case ADAM:
    case AMSGRAD:
        return update_adam(i, g, w);
    case RMSPROP:
        return update_rmsprop(i, g, w);
    case LION:
        return update_lion(i, g, w);
    case ADAGRAD:
        return update_adagrad(i, g, w);
    case ADADELTA:
        return update_adadelta(i, g, w);
    case ADAMAX:
        return update_adamax(i, g, w);
    default:
        return update_schedule_free(i, g, w);
    }
}

/* Limits a gradient to the step's limits; a NaN stays. */
float clipped(float g)
{
    const float limit = scalars.clip_value, most = limit < g ? limit : g;

    return -limit > most ? -limit : most;
}

void main()
{
    const float factor = SUMMED != 0 ? control.gradient_factor : scalars.unscale;

    if (SUMMED != 0 && control.skipped != 0)
        return;
    load_coefficients();
    FOR_EACH_ELEMENT(i, count)
    parameter.at[i] = update(i, clipped(factor * gradient.at[i]), parameter.at[i]);
}
