/* cast.c: rounds numbers to another type. */
#include "engine/graph/operators/operators.h"

/* Only graph_lower_precision() appends it, after the graph has been differentiated. */
const struct graph_operator operator_cast = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .is_view = true,
};
