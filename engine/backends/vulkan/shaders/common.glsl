/* common.glsl: what every shader begins with: its workgroup, arrays by their addresses, sums over a
 * workgroup, and the structs of shared.h. Arithmetic is float32, and sums have a fixed order, so
 * that one device always gives the same bits. */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require
#ifdef HALVES
#extension GL_EXT_shader_16bit_storage : require
#endif
#ifdef MATRICES
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#include "shared.h"

/* a power of two */
layout(constant_id = 0) const uint WORKGROUP = 256;
layout(local_size_x_id = 0) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats
{
    float at[];
};
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Integers
{
    int at[];
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Scalars
{
    uint seed[2], batch[2];
    float loss_factor, unscale, clip_norm, clip_value, average_share;
    int finite_alone;
    uint first, epoch;
    float share, soft_low, soft_own, soft_other;
    float group[];
};
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Results
{
    float loss;
    int labels, correct, skipped;
};
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Control
{
    int labels;
    float gradient_factor;
    int skipped, unused;
    vec2 squares[];
};

/* For each element that is this invocation's. */
#define FOR_EACH_ELEMENT(i, count)                                    \
    for (uint i = gl_GlobalInvocationID.x; i < (count);               \
         i += gl_NumWorkGroups.x * WORKGROUP)
/* For each row that is this workgroup's. */
#define FOR_EACH_ROW(r, rows) \
    for (uint r = gl_WorkGroupID.x; r < (rows); r += gl_NumWorkGroups.x)

#define INFINITY uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

/* Not isinf() and isnan(): drivers may assume that there are no such numbers. */
bool is_finite(float x)
{
    return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u;
}

bool is_not_a_number(float x)
{
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

#include "numbers.glsl"

shared float workgroup_values[WORKGROUP];

/* The sum over the workgroup, which all of its invocations get. */
float workgroup_sum(float x)
{
    const uint own = gl_LocalInvocationID.x;
    float sum;

    workgroup_values[own] = x;
    barrier();
    for (uint distance = WORKGROUP / 2; distance > 0; distance /= 2) {
        if (own < distance)
            workgroup_values[own] += workgroup_values[own + distance];
        barrier();
    }
    sum = workgroup_values[0];
    barrier();
    return sum;
}

float workgroup_maximum(float x)
{
    const uint own = gl_LocalInvocationID.x;
    float maximum;

    workgroup_values[own] = x;
    barrier();
    for (uint distance = WORKGROUP / 2; distance > 0; distance /= 2) {
        if (own < distance)
            workgroup_values[own] = max(workgroup_values[own], workgroup_values[own + distance]);
        barrier();
    }
    maximum = workgroup_values[0];
    barrier();
    return maximum;
}
