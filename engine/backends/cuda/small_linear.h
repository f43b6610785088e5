/* small_linear.h: linear layers that are done by kernels/small_linear.cu. */
#pragma once

#include "engine/backends/cuda/cuda.h"

/* Which linear layers are small; what casts give to them alone is not stored. Before aliases are
 * chosen. */
int small_choose(struct backend_program *program, struct error *error);
void small_free(struct small_linear *small);
bool small_is_chosen(const struct backend_program *program, int32_t node);
/* Afterwards: what they do along vanishes. */
void small_prepare(struct backend_program *program);
/* Once it is known what every node does: the gradients by weights move to the end of the backward
 * part. */
void small_gather_weights(struct backend_program *program);
cuda_operator small_run, small_weights_run;
/* Whether the gradient is made by small_weights_run, and whether in this run that updates what it
 * belongs to. */
bool small_makes_gradient(const struct backend_program *program, int32_t gradient);
bool small_updates(const struct backend_program *program);
