#version 460
#extension GL_GOOGLE_include_directive : require
/* optimizer.comp: updates a parameter and its states by the formulas of
 * engine/backends/cpu/kernels/optimizer.c. */
#include "common.glsl"
#include "coefficients.glsl"

layout(constant_id = 1) const uint FORMULA = 1;
layout(constant_id = 2) const uint SUMMED = 0; /* the gradients' squares are summed up */

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

float update_sgd(uint i, float g, float w)
{
    float step = g + coefficient_decay * w;

    if (coefficient_momentum) {
        const float coupled = step;
        const float average = coefficient_keep * state0.at[i] + coefficient_take * coupled;

        state0.at[i] = average;
        step = coefficient_nesterov ? coupled + coefficient_own * average : average;
    }
    return w - coefficient_rate * step;
}

float update_adam(uint i, float g, float w)
{
    const float old = coefficient_shrink * w, coupled = g + coefficient_decay * old;
    const float m = coefficient_keep * state0.at[i] + coefficient_take * coupled;
    const float v = coefficient_keep2 * state1.at[i] + coefficient_take2 * coupled * coupled;

    state0.at[i] = m;
    state1.at[i] = v;
    if (FORMULA == AMSGRAD) {
        const float before = state2.at[i], largest = before > v ? before : v; /* NaN stays */

        state2.at[i] = largest;
        return old -
               coefficient_rate * (m / (sqrt(largest) / coefficient_root + coefficient_epsilon));
    }
    return old - (coefficient_own * coupled + coefficient_rate * m) /
                     (sqrt(v) / coefficient_root + coefficient_epsilon);
}

float update_rmsprop(uint i, float g, float w)
{
    const float coupled = g + coefficient_decay * w;
    const float v = coefficient_keep2 * state0.at[i] + coefficient_take2 * coupled * coupled;
    float step = coupled / (sqrt(v) + coefficient_epsilon);

    state0.at[i] = v;
    if (coefficient_momentum)
        state1.at[i] = step = coefficient_keep * state1.at[i] + step;
    return w - coefficient_rate * step;
}

float update_lion(uint i, float g, float w)
{
    const float m = state0.at[i], direction = coefficient_keep * m + coefficient_take * g;

    state0.at[i] = coefficient_keep2 * m + coefficient_take2 * g;
    return coefficient_shrink * w -
           coefficient_rate * (direction > 0.0 ? 1.0 : direction < 0.0 ? -1.0 : 0.0);
}

float update_adagrad(uint i, float g, float w)
{
    const float coupled = g + coefficient_decay * w, sum = state0.at[i] + coupled * coupled;

    state0.at[i] = sum;
    return w - coefficient_rate * (coupled / (sqrt(sum) + coefficient_epsilon));
}

float update_adadelta(uint i, float g, float w)
{
    const float coupled = g + coefficient_decay * w, u = state1.at[i];
    const float v = coefficient_keep2 * state0.at[i] + coefficient_take2 * coupled * coupled;
    const float step = sqrt(u + coefficient_epsilon) / sqrt(v + coefficient_epsilon) * coupled;

    state0.at[i] = v;
    state1.at[i] = coefficient_keep2 * u + coefficient_take2 * step * step;
    return w - coefficient_rate * step;
}

float update_adamax(uint i, float g, float w)
{
    const float coupled = g + coefficient_decay * w, before = coefficient_keep2 * state1.at[i];
    const float size = abs(coupled) + coefficient_epsilon;
    const float u = before > size ? before : size; /* NaN stays */
    const float m = coefficient_keep * state0.at[i] + coefficient_take * coupled;

    state0.at[i] = m;
    state1.at[i] = u;
    return w - coefficient_rate * (m / u);
}

float update_schedule_free(uint i, float g, float w)
{
    const float base = coefficient_nesterov ? w : state0.at[i];
    const float v = coefficient_keep2 * state1.at[i] + coefficient_take2 * g * g;
    const float step =
        g / (sqrt(v) / coefficient_root + coefficient_epsilon) + coefficient_decay * w;

    state0.at[i] = base - coefficient_rate * step;
    state1.at[i] = v;
    return w + coefficient_take * (base - w) + coefficient_own * step;
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

void main()
{
    const float factor = SUMMED != 0 ? control.gradient_factor : scalars.unscale;

    if (SUMMED != 0 && control.skipped != 0)
        return;
    load_coefficients(scalars, group);
    FOR_EACH_ELEMENT(i, count)
    parameter.at[i] = rounded_parameter(
        update(i, clipped(factor * gradient.at[i], scalars.clip_value), parameter.at[i]));
}
