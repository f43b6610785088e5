#version 460
#extension GL_GOOGLE_include_directive : require
/* embedding_backward.comp: the gradient of a table, which is the sum of the gradients of the
 * positions that have read a row, in their order. Workgroup (x, y, z) has the rows x, x + (the
 * number of workgroups), …, WORKGROUP columns, and one part of the positions. It marks which
 * positions are of its rows by bits, WORKGROUP of them at a time. If there are several parts,
 * `sums` has a table for each. */
#include "common.glsl"

layout(constant_id = 1) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Integers index;
    Floats dy, sums;
    uint count, width, vocabulary;
    uint positions; /* of a part */
};

const uint WORDS = (WORKGROUP + 31) / 32;
shared uint marks[2 * WORDS]; /* one half is filled while the other may still be read */

/* Adds up the gradients of the marked positions. */
void add_marked(uint half_first, uint first, uint column, uint table)
{
    for (uint w = 0; w < WORDS; w++)
        for (uint word = marks[half_first + w]; word != 0; word &= word - 1) {
            const uint at = first + w * 32 + uint(findLSB(word));

            if (column < width)
                sums.at[table + uint(index.at[at]) * width + column] += dy.at[at * width + column];
        }
}

void main()
{
    const uint own = gl_LocalInvocationID.x, rows = gl_NumWorkGroups.x;
    const uint column = gl_WorkGroupID.y * WORKGROUP + own;
    const uint table = gl_WorkGroupID.z * vocabulary * width;
    const uint begin = gl_WorkGroupID.z * positions, end = min(begin + positions, count);
    uint now = 0;

    if (ACCUMULATE == 0 && column < width)
        for (uint row = gl_WorkGroupID.x; row < vocabulary; row += rows)
            sums.at[table + row * width + column] = 0.0;
    for (uint first = begin; first < end; first += WORKGROUP) {
        if (own < WORDS)
            marks[now + own] = 0;
        barrier();
        if (first + own < end) {
            const uint row = uint(index.at[first + own]);

            if (row < vocabulary && row % rows == gl_WorkGroupID.x)
                atomicOr(marks[now + own / 32], 1u << own % 32);
        }
        barrier();
        add_marked(now, first, column, table);
        now = WORDS - now;
    }
}
