/* build.h: how the files of this room extend a graph; no business of anybody outside of it. */
#pragma once

#include "engine/graph/graph.h"

/* A new tensor, or a negative id after an error (kept in the graph). The name is printed from the
 * format; one that does not fit is cut for activations and an error for persistent tensors. */
int32_t graph_append_tensor(struct graph *graph, enum tensor_role role, enum tensor_type type,
                            const struct graph_shape *shape, bool batched, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* A new node without inputs and outputs; NULL after an error. Valid until the next one is made. */
struct graph_node *graph_append_node(struct graph *graph, enum graph_op op, enum graph_phase phase,
                                     const char *name);

/* Adds an input (-1 for an absent one) or output. An output gets the node as its producer unless
 * it has one already. */
void graph_node_input(struct graph_node *node, int32_t tensor);
void graph_node_output(struct graph *graph, struct graph_node *node, int32_t tensor);

/* Keeps the first error; returns its code, so that a builder writes `return graph_fail(…)`. */
int graph_fail(struct graph *graph, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
