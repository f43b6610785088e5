/* operators.h: functions that the files of this folder share: they append layers, differentiate
 * them and count their work. Internal to engine/graph/. */
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

/* The input tensor of a layer, or NULL with the error kept if it has not the type. The pointer is
 * valid until the next tensor is appended. */
const struct graph_tensor *layer_input(struct graph *graph, int32_t input, const char *name,
                                       enum graph_op op, enum tensor_type type);
/* The same for a batch of images [B,C,H,W]; any other shape is an error. */
const struct graph_tensor *layer_image(struct graph *graph, int32_t input, const char *name,
                                       enum graph_op op);
/* The same for a batch of sequences [B,T,F]. */
const struct graph_tensor *layer_sequence(struct graph *graph, int32_t input, const char *name,
                                          enum graph_op op);
/* The same for rows [B,F] or [B,T,F]. */
const struct graph_tensor *layer_rows(struct graph *graph, int32_t input, const char *name,
                                      enum graph_op op);
/* Checks that a loss can take the prediction `input`, which must be [B,F] (cross entropy: or
 * [B,T,F]): 0, or the error. `what` is a word for what F counts. */
int layer_prediction(struct graph *graph, int32_t input, enum graph_op op, const char *what);

/* Append a parameter or statistic "<layer>.<suffix>", and a result "<layer>.output". */
int32_t layer_append_parameter(struct graph *graph, const char *layer, const char *suffix,
                               enum tensor_role role, const struct graph_shape *shape,
                               struct initializer initializer);
int32_t layer_append_result(struct graph *graph, const char *layer,
                            const struct graph_shape *shape);
/* Appends a layer's node with `inputs` (-1 for absent ones) and `result`, which becomes the graph's
 * output for now. Returns the node, NULL after an error. */
struct graph_node *layer_append_node(struct graph *graph, enum graph_op op, const char *name,
                                     const int32_t *inputs, int count, int32_t result);

/* The name of a part of the layer. */
struct layer_part_name {
    char text[GRAPH_NAME_MAX];
};
struct layer_part_name layer_part_name(const char *layer, const char *part);

/* The extent of a convolution's or pool's result along axis 2 + `axis` of x; 0 with the error kept
 * if the window does not fit. */
int64_t layer_window_extent(struct graph *graph, const struct graph_tensor *x, const char *name,
                            enum graph_op op, const struct conv_attributes *attributes, int axis);
/* Adds the parameter `bias` [C] to the channels of [B,C,...]. */
int32_t layer_append_channel_bias(struct graph *graph, int32_t input, const char *name,
                                  int32_t bias);
/* The positions of a window that a maximum pool takes at once: its positions are bytes. */
enum { POOL_POSITIONS = 256 };

/* Appends a pool of images. `keeps_position`: it takes maxima, and in training a second output
 * holds the position that was taken within each window. */
int32_t layer_append_pool(struct graph *graph, int32_t input, const char *name, enum graph_op op,
                          const struct conv_attributes *attributes, bool keeps_position);

/* The same of a maximum pool whose window has more positions: two pools (large_pool.c). */
int32_t large_pool_append(struct graph *graph, int32_t input, const char *name,
                          const struct conv_attributes *window);

/* ---- gradients (differentiation.c) ---- */

/* The state of a walk over the nodes in reverse order; arrays are per tensor of the forward
 * part. */
struct differentiation {
    struct graph *graph;
    /* its gradient contributes to that of a parameter (or of the samples, if wanted) */
    bool *needed;
    int32_t *gradient; /* the gradient appended so far, or -1 */
};

/* Whether the gradient by the tensor of the forward part is needed. */
bool differentiation_needs(const struct differentiation *differentiation, int32_t tensor);
/* Makes `gradient` the gradient by `tensor`; if that has one already, appends their sum. */
void differentiation_give(struct differentiation *differentiation, int32_t tensor,
                          int32_t gradient);
/* Appends the backward node of `forward`, with its attributes and with `inputs`. Its outputs are
 * new gradients by the `targets`, of which absent ones (-1) are left out. To the gradient that a
 * parameter has already it adds. */
void differentiation_append(struct differentiation *differentiation,
                            const struct graph_node *forward, enum graph_op op,
                            const int32_t *inputs, int input_count, const int32_t *targets,
                            int target_count);

/* ---- work (work.c) ---- */

/* Elements and bytes of a tensor; 0 for an absent one (-1). */
double graph_tensor_elements(const struct graph *graph, int32_t tensor);
double graph_tensor_bytes(const struct graph *graph, int32_t tensor);
/* Bytes moved if every operand of the node is read once and every result written once. */
double graph_node_bytes(const struct graph *graph, const struct graph_node *node);

/* ---- products (product.c) ---- */

/* Differentiates x weight bias? -> y. Computes the gradients by the weights first, so that x is
 * dead when the gradient by the data is computed. */
void product_differentiate(struct differentiation *differentiation, const struct graph_node *node,
                           int32_t dy, enum graph_op weights, enum graph_op data);
/* Floating-point operations: a multiply-add counts 2; an addition for the bias, or for its
 * gradient, 1. */
double product_flops(const struct graph *graph, const struct graph_node *node);
double product_backward_data_flops(const struct graph *graph, const struct graph_node *node);
double product_backward_weights_flops(const struct graph *graph, const struct graph_node *node);

/* ---- layer norm and RMS norm (row_norm.c) ---- */

struct row_norm_layer {
    enum graph_op op;
    const char *name;
    int32_t input, residual; /* residual -1: none */
    float epsilon;
    bool bias, centred; /* centred: the rows' means are subtracted, and saved */
};

/* Appends the layer; `sum` (may be NULL) receives input + residual, -1 without a residual. */
int32_t row_norm_append(struct graph *graph, const struct row_norm_layer *layer, int32_t *sum);
void row_norm_differentiate(struct differentiation *differentiation, const struct graph_node *node,
                            int32_t dy, enum graph_op backward, bool centred);
double layer_norm_flops(const struct graph *graph, const struct graph_node *node);
double rms_norm_flops(const struct graph *graph, const struct graph_node *node);
double row_norm_backward_flops(const struct graph *graph, const struct graph_node *node);
