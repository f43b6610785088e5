/* squeeze_excite.h: squeeze and excite as one launch, and its gradient by the image as another one,
 * where that is the fastest. */
#pragma once

#include "engine/backends/cuda/cuda.h"

/* Finds where one launch is faster than those of the single nodes, which is measured. Call it once
 * types are chosen, and before anything else decides how linear layers are computed. */
int squeeze_choose(struct backend_program *program, struct error *error);
/* Whether one of these launches computes the node. */
bool squeeze_computes(const struct backend_program *program, int32_t node);
/* Removes the nodes that these launches compute. Call it once tensors have their bytes. */
void squeeze_apply(struct backend_program *program);
cuda_operator squeeze_run, squeeze_backward_run;
