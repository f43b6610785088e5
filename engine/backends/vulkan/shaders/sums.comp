#version 460
#extension GL_GOOGLE_include_directive : require
/* sums.comp: strided sums: result r is `factor` times the sum over all t of a term, which is made
 * of the operands at the place of r plus that of t. An axis, or all axes but one, are summed so. A
 * workgroup has ACROSS results side by side, and invocations that add up terms for each. */
#include "common.glsl"

layout(constant_id = 1) const uint ACROSS = 1;     /* a power of two up to WORKGROUP */
layout(constant_id = 2) const uint TERM = TERM_SAME; /* TERM_SAME, or a kind of broadcast */
layout(constant_id = 3) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, a, b, sums; /* a, b: of a broadcast; b has a number for each result */
    uint results, terms;
    uint result_inner, result_outer_stride, result_inner_stride;
    uint term_inner, term_outer_stride, term_inner_stride;
    float factor;
};
TYPED(x, 0) TYPED(a, 1) TYPED(b, 2) TYPED(sums, 3)

float term_at(uint place, uint result)
{
    switch (TERM) {
    case TERM_SAME:
    case TERM_ADD:
    case TERM_SUBTRACT_REVERSE:
        return GET(x, place);
    case TERM_SUBTRACT:
        return -GET(x, place);
    case TERM_MULTIPLY:
        return GET(x, place) * GET(a, place);
    case TERM_DIVIDE:
        return -GET(x, place) * GET(a, place) / (GET(b, result) * GET(b, result));
    default:
        return GET(x, place) / GET(a, place);
    }
}

void main()
{
    const uint own = gl_LocalInvocationID.x, at_once = WORKGROUP / ACROSS;

    for (uint first = gl_WorkGroupID.x * ACROSS; first < results;
         first += gl_NumWorkGroups.x * ACROSS) {
        const uint result = first + own % ACROSS;
        const uint base = result / result_inner * result_outer_stride +
                          result % result_inner * result_inner_stride;
        float sum = 0.0;

        if (result < results)
            for (uint t = own / ACROSS; t < terms; t += at_once)
                sum += term_at(base + t / term_inner * term_outer_stride +
                                   t % term_inner * term_inner_stride,
                               result);
        workgroup_values[own] = sum;
        barrier();
        for (uint distance = at_once / 2; distance > 0; distance /= 2) {
            if (own < distance * ACROSS)
                workgroup_values[own] += workgroup_values[own + distance * ACROSS];
            barrier();
        }
        if (own < ACROSS && result < results)
            PUT(sums, result, factor * workgroup_values[own] +
                              (ACCUMULATE != 0 ? GET(sums, result) : 0.0));
        barrier();
    }
}
