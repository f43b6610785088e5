/* recurrent.glsl: what a step of LSTM and GRU has forward and backward. A workgroup of 16 x 16
 * invocations has 16 units of 16 ROWS_EACH samples: an invocation has one unit of ROWS_EACH
 * samples, 16 apart. It multiplies the state of its samples, or a gradient, with the weights of
 * its units by pieces of the depth, of which the next one is on its way meanwhile, and then
 * calculates its units. Pieces lie along the depth, by fours: an invocation reads four numbers of
 * them at once, because reads of shared memory are what limits the product. */
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint CELL = 0; /* enum recurrent_cell (engine/graph/graph.h) */
layout(constant_id = 2) const uint FLAGS = 0; /* RECURRENT_... */
layout(constant_id = 3) const uint ROWS_EACH = 1;
layout(constant_id = 4) const uint HAS_LENGTHS = 0;
layout(constant_id = 7) const uint DEPTH = 16; /* of a piece: a multiple of 16 */

const uint LSTM = 0, GRU = 1;
const bool REVERSE = (FLAGS & RECURRENT_REVERSE) != 0, ALIGNED = (FLAGS & RECURRENT_ALIGNED) != 0;
const uint SIDE = 16;
/* fours of a line of the shared memory; one more, so that lines begin at different banks */
const uint FOURS = DEPTH / 4, LINE = FOURS + 1;
const uint GATES = CELL == LSTM ? 4 : 3;
const uint SAVED = 4; /* numbers that are saved of each unit and step: a GRU's fourth is s */

/* For each first sample of a tile of this workgroup. */
#define FOR_EACH_TILE(first_row)                                            \
    for (uint first_row = gl_WorkGroupID.y * SIDE * ROWS_EACH; first_row < batch; \
         first_row += gl_NumWorkGroups.y * SIDE * ROWS_EACH)

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer FourFloats
{
    vec4 at[];
};

/* Four numbers from element i on, which is a multiple of four if lines are ALIGNED. There are so
 * many to the end of the line; 0 stands for those behind it. */
vec4 get_four(Floats from, uint i, uint left)
{
    if (ALIGNED)
        return left > 0 ? FourFloats(from).at[i / 4] : vec4(0.0);
    return vec4(left > 0 ? from.at[i] : 0.0, left > 1 ? from.at[i + 1] : 0.0,
                left > 2 ? from.at[i + 2] : 0.0, left > 3 ? from.at[i + 3] : 0.0);
}

/* How many numbers there are from `first` to before `end`. */
uint left_of(uint first, uint end)
{
    return first < end ? end - first : 0;
}

/* Adds the products of four numbers to the sum, one after the other. */
void add_products(inout float sum, vec4 a, vec4 b)
{
    sum += a.x * b.x;
    sum += a.y * b.y;
    sum += a.z * b.z;
    sum += a.w * b.w;
}

float sigmoid(float x)
{
    return 1.0 / (1.0 + exp(-x));
}
