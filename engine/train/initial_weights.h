/* initial_weights.h: the numbers that parameters and statistics start with. */
#pragma once

#include "engine/graph/graph.h"

#include <stdint.h>

/* Fills `count` values. Element i of parameter `number` (in the order of the model's parameters and
 * statistics) depends on the seed, the number and i alone. */
void initial_weights_draw(const struct initializer *initializer, uint64_t seed, uint32_t number,
                          float *values, int64_t count);
