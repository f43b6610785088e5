/* small_linear.h: linear layers that are done by kernels/small_linear.cu. */
#pragma once

#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/kernels/small_linear.h"

/* Which linear layers are done so: where that is the fastest way, which may be measured
 * (linear_search.h); what casts give to them alone is not stored. Before aliases are chosen. */
int small_choose(struct backend_program *program, struct error *error);
void small_free(struct small_linear *small);
bool small_is_chosen(const struct backend_program *program, int32_t node);
/* Afterwards: what they do along vanishes. */
void small_prepare(struct backend_program *program);
/* Once it is known what every node does: the gradients by weights move to the end of the backward
 * part. */
void small_gather_weights(struct backend_program *program);
/* A tensor of so many elements as an operand with `rows` rows; side_by_side: the terms of each. */
struct cuda_small_matrix small_matrix(struct cuda_array array, int64_t elements, int64_t rows,
                                      bool side_by_side);
/* Warps for each tile of sums of so many terms. */
int32_t small_parts(int32_t terms);
cuda_operator small_run, small_weights_run;
/* Whether the gradient is made by small_weights_run, and whether in this run that updates what it
 * belongs to. */
bool small_makes_gradient(const struct backend_program *program, int32_t gradient);
bool small_updates(const struct backend_program *program);
