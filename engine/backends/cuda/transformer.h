/* transformer.h: the operators of transformers, for the table of operators.c. */
#pragma once

#include "engine/backends/cuda/cuda.h"

cuda_operator row_norm_run, row_norm_backward_run, attention_run, attention_backward_run,
    rotary_run, add_positions_run, add_positions_backward_run, image_tokens_run, prepend_token_run,
    prepend_token_backward_run, step_pool_run, step_pool_backward_run;

/* Whether an attention has kernels; if not, writes why to reason[256]. */
bool attention_supports(const struct graph *graph, const struct graph_node *node, char *reason);
/* The bytes of workspace of one of these nodes, 0 of any other. */
size_t transformer_workspace(const struct graph *graph, const struct graph_node *node);
