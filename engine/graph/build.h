/* build.h: functions by which the files of engine/graph/ extend a graph. Internal to that
 * folder. */
#pragma once

#include "engine/graph/graph.h"

/* Appends a tensor and returns its id, negative after an error, which the graph keeps. `format`
 * prints the name. A name that is too long is cut for activations and an error for persistent
 * tensors. */
int32_t graph_append_tensor(struct graph *graph, enum tensor_role role, enum tensor_type type,
                            const struct graph_shape *shape, bool batched, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Appends a node without inputs and outputs; NULL after an error. The pointer is valid until the
 * next node is appended. */
struct graph_node *graph_append_node(struct graph *graph, enum graph_op op, enum graph_phase phase,
                                     const char *name);

/* Adds an input (-1 for an absent one) or output. An output gets the node as its producer unless
 * it has one already. */
void graph_node_input(struct graph_node *node, int32_t tensor);
void graph_node_output(struct graph *graph, struct graph_node *node, int32_t tensor);

/* Keeps the first error; returns its code, so that a builder writes `return graph_fail(…)`. */
int graph_fail(struct graph *graph, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* quantization.c: the factors of a weight's rows, which it gets with its first reader; the weight
 * becomes int8. */
int32_t graph_append_weight_scale(struct graph *graph, int32_t weight);
/* quantization.c: whether the sums of a weight's products, as integers, fit 32 bits, and no other
 * tensor has the name of its factors. */
bool graph_weight_fits_int8(const struct graph *graph, int32_t weight);
/* quantization.c: whether only layers that can multiply by int8 read the tensor, a parameter, and
 * graph_weight_fits_int8(). */
bool graph_weight_can_be_int8(const struct graph *graph, int32_t weight);
/* static_quantization.c: appends a copy of a node, which is then the producer of its results. NULL
 * after an error. */
struct graph_node *graph_append_copy(struct graph *graph, const struct graph_node *node);
/* static_quantization.c: rounds what convolutions read and marks their weights. Returns how many
 * convolutions there are. */
int graph_fake_quantize_convolutions(struct graph *graph);
/* static_quantization.c: makes convolutions multiply integers, by lines "LEAST MOST NAME". Returns
 * how many became so. */
int graph_quantize_convolutions(struct graph *graph, const char *ranges);
