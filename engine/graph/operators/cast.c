/* cast.c: numbers rounded to another type. */
#include "engine/graph/operators/operators.h"

/* Appended by graph_lower_precision() alone, once the graph is differentiated. */
const struct graph_operator operator_cast = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .is_view = true,
};
