#version 460
#extension GL_GOOGLE_include_directive : require
/* triplet_loss.comp: the triplet loss, a workgroup for each anchor, with the formulas of
 * engine/backends/cpu/kernels/triplet_loss.c. It leaves the anchor's row of what the gradient needs
 * (triplet_row(), engine/graph/graph.h), its sum of losses, and how many losses that has.
 * Derivatives are whole numbers until they are divided by distances, so their sums are the same in
 * any order. */
#include "common.glsl"

layout(constant_id = 1) const uint MINING = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x;
    Integers label;
    Floats saved, loss;
    Integers triplets;
    uint rows, features;
    float margin;
};

/* Those of enum triplet_mining, which losses.c asserts. */
const uint HARD = 0, ALL = 1, SEMI_HARD = 2;
const uint NONE = 0xffffffffu;

uint anchor; /* of the workgroup */

uint row_of(uint i)
{
    return i * (2 * rows + 1);
}

float distance_to(uint i)
{
    return saved.at[row_of(anchor) + rows + i];
}

bool is_positive(uint i)
{
    return i != anchor && label.at[i] == label.at[anchor];
}

bool is_negative(uint i)
{
    return label.at[i] != label.at[anchor];
}

/* A distance that is not a number stays. */
float loss_of(uint positive, uint negative)
{
    const float value = distance_to(positive) + margin - distance_to(negative);

    return value <= 0.0 ? 0.0 : value;
}

/* The derivatives are counted as integers in the place of the numbers that they become. */
void count_derivative(uint i, int by)
{
    atomicAdd(Integers(saved).at[row_of(anchor) + i], by);
}

/* Of two samples the farther or nearer one; of equal distances the first. */
uint choose(uint a, uint b, bool farthest)
{
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    if (distance_to(a) == distance_to(b))
        return min(a, b);
    return (farthest ? distance_to(b) > distance_to(a) : distance_to(b) < distance_to(a)) ? b : a;
}

shared uint workgroup_chosen[WORKGROUP];

/* The farthest positive, or the nearest negative. */
uint find_hardest(bool positive)
{
    const uint own = gl_LocalInvocationID.x;
    uint best = NONE;

    for (uint i = own; i < rows; i += WORKGROUP)
        if (positive ? is_positive(i) : is_negative(i))
            best = choose(best, i, positive);
    workgroup_chosen[own] = best;
    barrier();
    for (uint distance = WORKGROUP / 2; distance > 0; distance /= 2) {
        if (own < distance)
            workgroup_chosen[own] =
                choose(workgroup_chosen[own], workgroup_chosen[own + distance], positive);
        barrier();
    }
    best = workgroup_chosen[0];
    barrier();
    return best;
}

/* The nearest negative farther than the positive, or else the farthest. */
uint find_semi_hard(uint positive)
{
    uint beyond = NONE, farthest = NONE;

    for (uint i = 0; i < rows; i++) {
        if (!is_negative(i))
            continue;
        if (distance_to(i) > distance_to(positive))
            beyond = choose(beyond, i, false);
        farthest = choose(farthest, i, true);
    }
    return beyond != NONE ? beyond : farthest;
}

/* What an invocation has mined: the sum of losses, and the number of triplets. */
vec2 mine_hard()
{
    const uint positive = find_hardest(true), negative = find_hardest(false);
    float value;

    if (gl_LocalInvocationID.x > 0 || positive == NONE || negative == NONE)
        return vec2(0.0);
    value = loss_of(positive, negative);
    if (value != 0.0) {
        count_derivative(positive, 1);
        count_derivative(negative, -1);
    }
    return vec2(value, 1.0);
}

/* An invocation has a positive. */
vec2 mine_semi_hard()
{
    vec2 mined = vec2(0.0);

    for (uint i = gl_LocalInvocationID.x; i < rows; i += WORKGROUP) {
        const uint negative = is_positive(i) ? find_semi_hard(i) : NONE;
        float value;

        if (negative == NONE)
            continue;
        value = loss_of(i, negative);
        mined += vec2(value, 1.0);
        if (value != 0.0) {
            count_derivative(i, 1);
            count_derivative(negative, -1);
        }
    }
    return mined;
}

/* An invocation has a sample, and finds its derivative; a positive counts the triplets, too. */
vec2 mine_all()
{
    vec2 mined = vec2(0.0);

    for (uint i = gl_LocalInvocationID.x; i < rows; i += WORKGROUP) {
        const bool positive = is_positive(i);
        int found = 0;

        if (i == anchor)
            continue;
        for (uint k = 0; k < rows; k++) {
            float value;

            if (positive ? !is_negative(k) : !is_positive(k))
                continue;
            value = positive ? loss_of(i, k) : loss_of(k, i);
            found += value != 0.0 ? 1 : 0;
            mined.x += positive ? value : 0.0;
        }
        count_derivative(i, positive ? found : -found);
        mined.y += positive ? float(found) : 0.0;
    }
    return mined;
}

void measure(uint i)
{
    float sum = 0.0;

    for (uint f = 0; f < features; f++) {
        const float d = x.at[anchor * features + f] - x.at[i * features + f];

        sum += d * d;
    }
    saved.at[row_of(anchor) + rows + i] = sqrt(sum);
    Integers(saved).at[row_of(anchor) + i] = 0;
}

void main()
{
    for (anchor = gl_WorkGroupID.x; anchor < rows; anchor += gl_NumWorkGroups.x) {
        vec2 mined;

        for (uint i = gl_LocalInvocationID.x; i < rows; i += WORKGROUP)
            measure(i);
        memoryBarrierBuffer();
        barrier();
        mined = MINING == HARD ? mine_hard() : MINING == ALL ? mine_all() : mine_semi_hard();
        memoryBarrierBuffer();
        barrier();
        for (uint i = gl_LocalInvocationID.x; i < rows; i += WORKGROUP) {
            const int count = Integers(saved).at[row_of(anchor) + i];

            saved.at[row_of(anchor) + i] =
                distance_to(i) == 0.0 ? 0.0 : float(count) / distance_to(i);
        }
        mined.x = workgroup_sum(mined.x);
        mined.y = workgroup_sum(mined.y);
        if (gl_LocalInvocationID.x == 0) {
            saved.at[row_of(anchor) + 2 * rows] = mined.y;
            loss.at[anchor] = mined.x;
            triplets.at[anchor] = int(mined.y);
        }
    }
}
