#version 460
#extension GL_GOOGLE_include_directive : require
/* time_pool.comp: one vector for the steps of a sequence that count. A workgroup has COLUMNS
 * features of a sequence, whose steps ROWS invocations share. */
#include "common.glsl"
#include "lengths.glsl"

layout(constant_id = 1) const uint KIND = TIME_POOL_MEAN;
layout(constant_id = 2) const uint HAS_LENGTHS = 0;
layout(constant_id = 3) const uint KEEPS_POSITION = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x; /* [batch, steps, features] */
    Integers lengths;
    Floats y;
    Integers position;
    uint batch, steps, features, count;
};
TYPED(x, 0) TYPED(y, 2)

const uint COLUMNS = 32, ROWS = WORKGROUP / COLUMNS;
shared uint workgroup_places[WORKGROUP];

bool is_nan(float value)
{
    return (floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u;
}

/* Whether a number replaces the largest so far. The first of equal ones stays; NaN counts as the
 * largest, and stays. */
bool replaces(float value, uint place, float most, uint most_place)
{
    if (is_nan(value) || is_nan(most))
        return is_nan(value) && (!is_nan(most) || place < most_place);
    return value > most || (value == most && place < most_place);
}

void find_maximum(uint first, uint length, uint feature, uint result)
{
    const uint own = gl_LocalInvocationID.x;
    float most = 0.0;
    uint place = steps; /* none yet */

    if (feature < features)
        for (uint t = own / COLUMNS; t < length; t += ROWS) {
            const float value = GET(x, first + t * features);

            if (place == steps || replaces(value, t, most, place)) {
                most = value;
                place = t;
            }
        }
    workgroup_values[own] = most;
    workgroup_places[own] = place;
    barrier();
    if (own < COLUMNS && feature < features) {
        for (uint i = own + COLUMNS; i < WORKGROUP; i += COLUMNS)
            if (workgroup_places[i] != steps &&
                replaces(workgroup_values[i], workgroup_places[i], most, place)) {
                most = workgroup_values[i];
                place = workgroup_places[i];
            }
        PUT(y, result, most);
        if (KEEPS_POSITION != 0)
            position.at[result] = int(place);
    }
    barrier();
}

void find_mean(uint first, uint length, uint feature, uint result)
{
    const uint own = gl_LocalInvocationID.x;
    float sum = 0.0;

    if (feature < features)
        for (uint t = own / COLUMNS; t < length; t += ROWS)
            sum += GET(x, first + t * features);
    workgroup_values[own] = sum;
    barrier();
    if (own < COLUMNS && feature < features) {
        for (uint i = own + COLUMNS; i < WORKGROUP; i += COLUMNS)
            sum += workgroup_values[i];
        PUT(y, result, sum / float(length));
    }
    barrier();
}

void main()
{
    const uint blocks = (features + COLUMNS - 1) / COLUMNS;

    FOR_EACH_ROW(group, batch * blocks)
    {
        const uint sequence = group / blocks;
        const uint feature = group % blocks * COLUMNS + gl_LocalInvocationID.x % COLUMNS;
        const uint first = sequence * steps * features + feature;
        const uint result = sequence * features + feature;
        const uint length =
            HAS_LENGTHS != 0 ? length_within(lengths.at[sequence], steps) : steps;

        if (KIND == TIME_POOL_MEAN)
            find_mean(first, length, feature, result);
        else if (KIND == TIME_POOL_MAXIMUM)
            find_maximum(first, length, feature, result);
        else if (gl_LocalInvocationID.x < COLUMNS && feature < features)
            PUT(y, result, GET(x, first + (KIND == TIME_POOL_LAST ? (length - 1) * features : 0)));
    }
}
