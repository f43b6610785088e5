/* initial_values.h: the values with which the parameters and states of a model begin. */
#pragma once

#include "engine/graph/graph.h"

#include <stdint.h>

/* Draws the initial values of a tensor as graph_initial_part() does, by several threads if there
 * are many. `values` has room for all elements of the tensor, in PyTorch's order. */
void initial_values_draw(const struct graph *graph, int32_t tensor, uint64_t seed, float *values);
