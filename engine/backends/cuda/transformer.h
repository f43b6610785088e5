/* transformer.h: the operators of transformers, for the table of operators.c. */
#pragma once

#include "base/string_table.h"
#include "engine/backends/cuda/cuda.h"

/* ---- attention.c: attention and its gradient ---- */

enum attention_way { ATTENTION_FLOATS, ATTENTION_TILES, ATTENTION_HEADS };
DECLARE_STRING_TABLE(attention_way, enum attention_way);

/* Whether an attention has kernels; if not, writes why to reason[256]. True of all other nodes. */
bool attention_supports(const struct graph *graph, const struct graph_node *node, char *reason);
/* Finds the fastest way of a node: program->attention_ways[node]. */
int attention_prepare(struct backend_program *program, int32_t node, struct error *error);
cuda_operator attention_run;

/* ---- transformer.c ---- */

cuda_operator row_norm_run, row_norm_backward_run, rotary_run, add_positions_run,
    add_positions_backward_run, image_tokens_run, prepend_token_run, prepend_token_backward_run,
    step_pool_run, step_pool_backward_run;

/* The bytes of workspace of one of these nodes, 0 of any other. */
size_t transformer_workspace(const struct graph *graph, const struct graph_node *node);
