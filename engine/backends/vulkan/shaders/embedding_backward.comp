#version 460
#extension GL_GOOGLE_include_directive : require
/* embedding_backward.comp: the gradient of a table, which is the sum of the gradients of the
 * positions that have read a row, in their order. Workgroup (x, y, z) has the rows x, x + (the
 * number of workgroups), …, WORKGROUP columns, and one part of the positions. It marks which
 * positions are of its rows by bits, WORKGROUP of them at a time. If there are several parts,
 * `sums` has a table for each. */
#include "common.glsl"

layout(constant_id = 1) const uint ACCUMULATE = 0;
layout(constant_id = 2) const uint ONE_ROW = 0; /* of each workgroup */

layout(push_constant, scalar) uniform Push
{
    Integers index;
    Floats dy, sums;
    uint count, width, vocabulary;
    uint positions; /* of a part */
};
TYPED(dy, 1)

const uint WORDS = (WORKGROUP + 31) / 32;
shared uint marks[2 * WORDS]; /* one half is filled while the other may still be read */

/* Gradients that are asked for before the first one is added: a frequent row waits for memory. */
const uint AHEAD = 4, NONE = 0xffffffffu;

float own_sum; /* of ONE_ROW */

/* Adds up the gradients of the marked positions of a word. */
void add_word(uint word, uint first, uint column, uint table)
{
    while (word != 0) {
        uint at[AHEAD];
        float gradient[AHEAD];

        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            at[i] = word != 0 && column < width ? first + uint(findLSB(word)) : NONE;
            gradient[i] = at[i] != NONE ? GET(dy, at[i] * width + column) : 0.0;
            word &= word - 1;
        }
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            if (ONE_ROW != 0)
                own_sum += gradient[i];
            else if (at[i] != NONE)
                sums.at[table + uint(index.at[at[i]]) * width + column] += gradient[i];
        }
    }
}

void main()
{
    const uint own = gl_LocalInvocationID.x, rows = gl_NumWorkGroups.x;
    const uint column = gl_WorkGroupID.y * WORKGROUP + own;
    const uint table = gl_WorkGroupID.z * vocabulary * width;
    const uint begin = gl_WorkGroupID.z * positions, end = min(begin + positions, count);
    uint now = 0;

    own_sum = 0.0;
    if (ONE_ROW == 0 && ACCUMULATE == 0 && column < width)
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
        for (uint w = 0; w < WORDS; w++)
            add_word(marks[now + w], first + w * 32, column, table);
        now = WORDS - now;
    }
    if (ONE_ROW != 0 && column < width) {
        const uint at = table + gl_WorkGroupID.x * width + column;

        sums.at[at] = own_sum + (ACCUMULATE != 0 ? sums.at[at] : 0.0);
    }
}
