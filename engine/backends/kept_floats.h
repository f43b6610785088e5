/* kept_floats.h: which outputs of operators stay float32 where a plugin stores tensors in 16
 * bits. */
#pragma once

#include "engine/graph/forward.h"

#include <stdbool.h>

/* Whether the output is a sum, a moment or a state, though it has a number for each sample. */
static inline bool node_keeps_floats(const struct graph_node *node, int output)
{
    switch (node->op) {
    case OP_LAYER_NORM:
    case OP_RMS_NORM:
    case OP_ATTENTION:
    case OP_GROUP_NORM:
    case OP_SELECTIVE_SCAN: /* the states from which those between them are made again */
        return output > 0;
    case OP_ADD_LAYER_NORM:
    case OP_ADD_RMS_NORM:
        return output > 1; /* the second one is x + residual */
    case OP_RECURRENT:     /* what is carried to the next batch */
        return output > 0 && (node->output[output] == graph_recurrent_results(node).last_h ||
                              node->output[output] == graph_recurrent_results(node).last_c);
    default:
        return false;
    }
}
