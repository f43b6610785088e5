#version 460
#extension GL_GOOGLE_include_directive : require
/* muon.comp: the elementwise parts of Muon; whole_updates.c has its products of matrices.
 * DIRECTION moves the momentum, writes the direction to x and leaves partial sums of its squares;
 * NORMALISE divides x by its norm; STEP moves the parameter against x. */
#include "common.glsl"
#include "coefficients.glsl"

layout(constant_id = 1) const uint PART = MUON_DIRECTION;
layout(constant_id = 2) const uint SUMMED = 0;

layout(push_constant, scalar) uniform Push
{
    Floats parameter, gradient, momentum, x, squares;
    Scalars scalars;
    Control control;
    uint count, group;
    uint parts; /* of the squares */
    float setting; /* NORMALISE: the least norm; STEP: multiplies the rate */
};

void find_direction(float factor)
{
    float sum = 0.0;

    FOR_EACH_ELEMENT(i, count)
    {
        const float g = clipped(factor * gradient.at[i], scalars.clip_value);
        const float m = coefficient_keep * momentum.at[i] + coefficient_take * g;
        const float direction = coefficient_nesterov ? g + coefficient_keep * (m - g) : m;

        momentum.at[i] = m;
        x.at[i] = direction;
        sum += direction * direction;
    }
    sum = workgroup_sum(sum);
    if (gl_LocalInvocationID.x == 0)
        squares.at[gl_WorkGroupID.x] = sum;
}

void normalise()
{
    float sum = 0.0, norm;

    for (uint i = gl_LocalInvocationID.x; i < parts; i += WORKGROUP)
        sum += squares.at[i];
    norm = sqrt(workgroup_sum(sum));
    FOR_EACH_ELEMENT(i, count)
    x.at[i] *= 1.0 / (norm > setting ? norm : setting);
}

void main()
{
    if (SUMMED != 0 && control.skipped != 0)
        return;
    load_coefficients(scalars, group);
    if (PART == MUON_DIRECTION) {
        find_direction(SUMMED != 0 ? control.gradient_factor : scalars.unscale);
    } else if (PART == MUON_NORMALISE) {
        normalise();
    } else {
        FOR_EACH_ELEMENT(i, count)
        parameter.at[i] = rounded_parameter(coefficient_shrink * parameter.at[i] -
                                            coefficient_rate * setting * x.at[i]);
    }
}
