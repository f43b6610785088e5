/* operators.h: what the files of this folder share: how a layer is appended, how it is
 * differentiated, how its work is counted. No business of anybody outside of engine/graph/. */
#pragma once

#include "engine/graph/build.h"
#include "engine/graph/operator.h"

enum { SHAPE_TEXT_MAX = GRAPH_RANK_MAX * 21 };

/* One for each line of GRAPH_OPERATORS: operator_linear, … */
#define DECLARE_OPERATOR(upper, lower) extern const struct graph_operator operator_##lower;
GRAPH_OPERATORS(DECLARE_OPERATOR)
#undef DECLARE_OPERATOR

/* ---- layers (layer.c) ---- */

/* Keeps the error "layer 3 (conv2d): <sentence>"; returns -EINVAL. */
int layer_fail(struct graph *graph, const char *name, enum graph_op op, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The tensor that a layer takes, when it has the right type; NULL (with the error kept) else. The
 * pointer is valid until the next tensor is made. */
const struct graph_tensor *layer_input(struct graph *graph, int32_t input, const char *name,
                                       enum graph_op op, enum tensor_type type);
/* An image batch [B,C,H,W], or NULL with the error kept. */
const struct graph_tensor *layer_image(struct graph *graph, int32_t input, const char *name,
                                       enum graph_op op);
/* The prediction [B,F] that a loss takes: 0, or the error. `what`: what F counts. */
int layer_prediction(struct graph *graph, int32_t input, enum graph_op op, const char *what);

/* A new parameter or statistic "<layer>.<suffix>"; a new result "<layer>.output". */
int32_t layer_append_parameter(struct graph *graph, const char *layer, const char *suffix,
                               enum tensor_role role, const struct graph_shape *shape,
                               struct initializer initializer);
int32_t layer_append_result(struct graph *graph, const char *layer,
                            const struct graph_shape *shape);
/* Closes a layer: its node with `inputs` (-1 for absent ones) and its result, which becomes the
 * output of the graph so far. Returns the node, NULL after an error. */
struct graph_node *layer_append_node(struct graph *graph, enum graph_op op, const char *name,
                                     const int32_t *inputs, int count, int32_t result);

/* The extent of a convolution's or pool's result along axis 2 + `axis` of x, 0 with the error kept
 * when the window does not fit. */
int64_t layer_window_extent(struct graph *graph, const struct graph_tensor *x, const char *name,
                            enum graph_op op, const struct conv_attributes *attributes, int axis);
/* A pool of images. `keeps_position`: when training, its second output says which position of each
 * window was taken. */
int32_t layer_append_pool(struct graph *graph, int32_t input, const char *name, enum graph_op op,
                          const struct conv_attributes *attributes, bool keeps_position);

/* ---- gradients (differentiation.c) ---- */

/* What is known while the nodes are walked backwards, per tensor of the forward part. */
struct differentiation {
    struct graph *graph;
    bool *needed;      /* a gradient by it reaches a parameter (or the samples, when wanted) */
    int32_t *gradient; /* so far, -1 */
};

/* Whether a gradient by the tensor of the forward part is asked for. */
bool differentiation_needs(const struct differentiation *differentiation, int32_t tensor);
/* Hands `gradient` to `tensor`; one that has a gradient already gets the sum. */
void differentiation_give(struct differentiation *differentiation, int32_t tensor,
                          int32_t gradient);
/* Appends the backward node of `forward` with its attributes and `inputs`; its outputs are new
 * gradients of `targets`, where absent ones (-1) are left out. */
void differentiation_append(struct differentiation *differentiation,
                            const struct graph_node *forward, enum graph_op op,
                            const int32_t *inputs, int input_count, const int32_t *targets,
                            int target_count);

/* ---- work (work.c) ---- */

/* Elements and bytes of a tensor; 0 of an absent one. */
double graph_tensor_elements(const struct graph *graph, int32_t tensor);
double graph_tensor_bytes(const struct graph *graph, int32_t tensor);
/* Every operand of the node read once, every result written once. */
double graph_node_bytes(const struct graph *graph, const struct graph_node *node);

/* ---- products (product.c) ---- */

/* x weight bias? -> y: the gradients by the weights first, so that x dies before that by the data
 * is made. */
void product_differentiate(struct differentiation *differentiation, const struct graph_node *node,
                           int32_t dy, enum graph_op weights, enum graph_op data);
/* A multiply-add is 2; a sum for the bias, or for its gradient, 1. */
double product_flops(const struct graph *graph, const struct graph_node *node);
double product_backward_data_flops(const struct graph *graph, const struct graph_node *node);
double product_backward_weights_flops(const struct graph *graph, const struct graph_node *node);
