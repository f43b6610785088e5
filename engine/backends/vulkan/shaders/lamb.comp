#version 460
#extension GL_GOOGLE_include_directive : require
/* lamb.comp: LAMB, as engine/backends/cpu/operator_lamb.c. The rate with its bias correction is in
 * the coefficients: s below is the direction times the rate, and a step is s times rate |w| / |s|.
 * The first launch moves the moments and leaves partial sums of the squares of w and of s, the
 * second one (STEP) moves the parameter. */
#include "common.glsl"
#include "coefficients.glsl"

layout(constant_id = 1) const uint STEP = 0;
layout(constant_id = 2) const uint SUMMED = 0;

layout(push_constant, scalar) uniform Push
{
    Floats parameter, gradient, state0, state1, squares;
    Scalars scalars;
    Control control;
    uint count, group;
    uint parts; /* of the squares: pairs */
};

/* rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w) */
float rated_direction(float w, float m, float v)
{
    return coefficient_rate * m / (sqrt(v) / coefficient_root + coefficient_epsilon) +
           coefficient_own * coefficient_decay * w;
}

void move_moments(float factor)
{
    float of_parameter = 0.0, of_direction = 0.0;

    FOR_EACH_ELEMENT(i, count)
    {
        const float g = clipped(factor * gradient.at[i], scalars.clip_value);
        const float m = coefficient_keep * state0.at[i] + coefficient_take * g;
        const float v = coefficient_keep2 * state1.at[i] + coefficient_take2 * g * g;
        const float w = parameter.at[i], s = rated_direction(w, m, v);

        state0.at[i] = m;
        state1.at[i] = v;
        of_parameter += w * w;
        of_direction += s * s;
    }
    of_parameter = workgroup_sum(of_parameter);
    of_direction = workgroup_sum(of_direction);
    if (gl_LocalInvocationID.x == 0) {
        squares.at[2 * gl_WorkGroupID.x] = of_parameter;
        squares.at[2 * gl_WorkGroupID.x + 1] = of_direction;
    }
}

void move_parameter()
{
    float of_parameter = 0.0, of_direction = 0.0, factor = 1.0;

    for (uint i = gl_LocalInvocationID.x; i < parts; i += WORKGROUP) {
        of_parameter += squares.at[2 * i];
        of_direction += squares.at[2 * i + 1];
    }
    of_parameter = workgroup_sum(of_parameter);
    of_direction = workgroup_sum(of_direction);
    if (of_parameter > 0.0 && of_direction > 0.0)
        factor = coefficient_own * sqrt(of_parameter / of_direction);
    FOR_EACH_ELEMENT(i, count)
    {
        const float w = parameter.at[i];

        parameter.at[i] =
            rounded_parameter(w - factor * rated_direction(w, state0.at[i], state1.at[i]));
    }
}

void main()
{
    if (SUMMED != 0 && control.skipped != 0)
        return;
    load_coefficients(scalars, group);
    if (STEP != 0)
        move_parameter();
    else
        move_moments(SUMMED != 0 ? control.gradient_factor : scalars.unscale);
}
