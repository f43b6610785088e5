/* muon.h: updates by Muon. */
#pragma once

#include "engine/backends/cuda/cuda.h"

/* Chooses the products of an OP_OPTIMIZER node that Muon updates. */
int muon_prepare(struct backend_program *program, int32_t node, struct error *error);
void muon_free(struct muon *muon);
/* Call it after the gradient's factor is known. */
int muon_run(struct backend_program *program, int32_t node, struct error *error);
