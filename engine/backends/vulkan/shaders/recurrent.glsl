/* recurrent.glsl: what a step of LSTM and GRU has forward and backward. A workgroup of 16 x 16
 * invocations has 16 units of 16 ROWS_EACH samples: an invocation has one unit of ROWS_EACH
 * samples, 16 apart. It multiplies the state of its samples, or a gradient, with the weights of
 * its units by pieces of the depth, of which the next one is on its way meanwhile, and then
 * calculates its units. */
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint CELL = 0; /* enum recurrent_cell (engine/graph/graph.h) */
layout(constant_id = 2) const uint REVERSE = 0;
layout(constant_id = 3) const uint ROWS_EACH = 1;
layout(constant_id = 4) const uint HAS_LENGTHS = 0;
layout(constant_id = 7) const uint DEPTH = 16; /* of a piece: a multiple of 16 */

const uint LSTM = 0, GRU = 1;
const uint SIDE = 16, LINE = DEPTH + 1; /* a line of the shared memory */
const uint GATES = CELL == LSTM ? 4 : 3;
const uint SAVED = 4; /* numbers that are saved of each unit and step: a GRU's fourth is s */

/* For each first sample of a tile of this workgroup. */
#define FOR_EACH_TILE(first_row)                                            \
    for (uint first_row = gl_WorkGroupID.y * SIDE * ROWS_EACH; first_row < batch; \
         first_row += gl_NumWorkGroups.y * SIDE * ROWS_EACH)

float sigmoid(float x)
{
    return 1.0 / (1.0 + exp(-x));
}
