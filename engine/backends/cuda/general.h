/* general.h: operators over plain tensors (general.c), and pools, sizes and normalisation of images
 * that need no window (spatial.c), for the table of operators.c. */
#pragma once

#include "engine/backends/cuda/cuda.h"

/* ---- general.c ---- */

cuda_operator slice_run, permute_run, take_run, take_backward_run, axis_sum_run, broadcast_run,
    broadcast_backward_first_run, broadcast_backward_second_run, softmax_run, batch_product_run,
    fake_quantize_run, fake_quantize_backward_run, fake_quantize_rows_run;

/* The parameter that the node combines with rows, or takes rows of; -1: there is none. */
int32_t general_parameter(const struct graph *graph, const struct graph_node *node);
/* Whether one of these nodes has kernels; if not, writes why to reason[256]. True of all other
 * nodes. */
bool general_supports(const struct graph *graph, const struct graph_node *node, char *reason);
/* Finds cuBLASLt's product for an OP_BATCH_PRODUCT; if it has none, a kernel of our own does it. */
void batch_product_prepare(struct backend_program *program, int32_t node);
/* The bytes of workspace of one of these nodes; 0 of any other. */
size_t general_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- spatial.c ---- */

cuda_operator adaptive_pool_run, adaptive_pool_backward_run, resize_run, channel_bias_run,
    channel_bias_backward_run, channel_dropout_run, group_norm_run, group_norm_backward_run;

size_t spatial_workspace(const struct graph *graph, const struct graph_node *node);
