/* small_linear.h: linear layers that kernels/small_linear.cu computes. */
#pragma once

#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/kernels/small_linear.h"

/* Chooses the linear layers for which this is the fastest way, which may be measured
 * (linear_search.h). Casts whose results only they read are not stored. Call it before aliases are
 * chosen. */
int small_choose(struct backend_program *program, struct error *error);
void small_free(struct small_linear *small);
bool small_is_chosen(const struct backend_program *program, int32_t node);
/* Call it afterwards: removes the nodes that are computed along with them. */
void small_prepare(struct backend_program *program);
/* Call it once every node's work is known: moves the gradients by weights to the end of the
 * backward part. */
void small_gather_weights(struct backend_program *program);
/* Describes a tensor of `elements` elements as an operand with `rows` rows; side_by_side: the terms
 * of each row are contiguous. */
struct cuda_small_matrix small_matrix(struct cuda_array array, int64_t elements, int64_t rows,
                                      bool side_by_side);
/* How many warps share each tile of sums with so many terms. */
int32_t small_parts(int32_t terms);
cuda_operator small_run, small_weights_run;
/* Whether small_weights_run computes the gradient, and whether that run also updates the
 * parameter. */
bool small_makes_gradient(const struct backend_program *program, int32_t gradient);
bool small_updates(const struct backend_program *program);
