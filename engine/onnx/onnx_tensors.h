/* onnx_tensors.h: what the operators of a model share beside onnx_value.h. Internal to the
 * folder. */
#pragma once

#include "engine/onnx/onnx_parameters.h"

/* The name of the present node's layer, with a suffix. */
struct onnx_layer_name {
    char text[GRAPH_NAME_MAX];
};
struct onnx_layer_name onnx_layer_name(const struct onnx_import *import, const char *suffix);

/* The tensor with another shape of its samples. */
int32_t onnx_reshaped(struct onnx_import *import, int32_t tensor, int rank, const int64_t *sample);
/* Gives `value` the order and the shape of the graph's tensor that `like` is; they have the same
 * extents. */
int onnx_follow(struct onnx_import *import, struct onnx_value *value, struct onnx_value *like);

/* Gives the value another shape and makes it the present node's output; copies it first if its axes
 * lie apart. */
int onnx_reshape_to(struct onnx_import *import, struct onnx_value *x, int rank,
                    const int64_t *extent);
/* The lists of operators, each ended by a NULL name. */
extern const struct onnx_operator_entry onnx_layer_operators[], onnx_image_operators[],
    onnx_norm_operators[], onnx_shape_operators[], onnx_elementwise_operators[],
    onnx_sequence_operators[], onnx_take_operators[], onnx_function_operators[],
    onnx_einsum_operators[], onnx_attention_operators[], onnx_gelu_operators[],
    onnx_operand_operators[], onnx_mask_operators[];

/* Makes the value the present node's output; returns 0, or the error that its tensor is. */
int onnx_done(struct onnx_import *import, struct onnx_value value);
/* The same of a value that becomes that tensor. */
int onnx_done_as(struct onnx_import *import, struct onnx_value value, int32_t tensor);
/* The layer is named as in PyTorch where its weights are: "layer1.0.conv1" of
 * "layer1.0.conv1.weight". */
struct onnx_layer_name onnx_weight_layer(const struct onnx_import *import,
                                         const struct onnx_value *weight);
/* Gives the next layer a bias of `width` numbers; returns whether it has one. A bias that is 0 and
 * no parameter is none: exporters add such. */
bool onnx_bind_bias(struct onnx_import *import, const struct onnx_value *bias, int64_t width);
/* The samples as images; signals [B,C,T], which have one axis, become images of one row. */
int32_t onnx_images_of(struct onnx_import *import, struct onnx_value *x, int *axes);
/* What the graph's image is to the model: [B,C,H,W], or [B,C,T] if it has one axis. */
struct onnx_value onnx_image_value(const struct onnx_import *import, int32_t tensor, int axes);
/* Makes an image the present node's output, with as many axes. */
int onnx_image_done(struct onnx_import *import, int32_t tensor, int axes);

/* Adds so many numbers before and behind each axis, in a mode of ONNX's Pad; with the mode
 * "constant" they are 0. */
int onnx_pad(struct onnx_import *import, struct onnx_value *value, const char *mode,
             const int64_t *before, const int64_t *behind);
/* Combines two operands, each a tensor or a constant, number by number. The result is the present
 * node's output. */
int onnx_combine(struct onnx_import *import, const struct onnx_value *a, const struct onnx_value *b,
                 enum broadcast_kind kind);

/* a - b, of which one may be constant, and either the smaller one; the present node's output. */
int onnx_subtract(struct onnx_import *import, const struct onnx_value *a,
                  const struct onnx_value *b);
/* The absolute numbers. */
int32_t onnx_absolute(struct onnx_import *import, int32_t x);
/* The value between two numbers, other than 0 and 6; one of them may be infinite. The result is the
 * present node's output. */
int onnx_clip(struct onnx_import *import, struct onnx_value x, double least, double most);
/* Products of the matrices that the last two axes of both are; the other axes are equal, or repeat.
 * The result is the present node's output. */
int onnx_batch_product(struct onnx_import *import, struct onnx_value *a, struct onnx_value *b);

/* The softmax along an axis as the present node's output. */
int onnx_softmax(struct onnx_import *import, struct onnx_value x, int axis);
/* A constant mask as numbers: `shows` where it is true, `hides` elsewhere. */
struct onnx_value onnx_mask_numbers(struct onnx_import *import, const struct onnx_value *mask,
                                    double shows, double hides);

/* Rows of a matrix of weights by the indices: an embedding. */
int onnx_embed(struct onnx_import *import, const struct onnx_value *weight,
               const struct onnx_value *index);
/* The part of the value along an axis; it is cut out when an operator needs it. */
int onnx_cut_out(struct onnx_import *import, struct onnx_value *value, int axis, int64_t first,
                 int64_t count);
/* Does the work of attention from the product of queries and keys on (onnx_attention.c). Returns
 * whether the present node is its first product; then it is done, or the graph keeps an error. */
bool onnx_attention_absorb(struct onnx_import *import);
/* The node that alone reads the output of `node`, if it is of that operator (NULL: of any); else
 * NULL. */
const struct onnx_node *onnx_only_reader(const struct onnx_import *import,
                                         const struct onnx_node *node, const char *operator);
/* Marks a node as done, and gives its output a value. */
void onnx_absorb(struct onnx_import *import, const struct onnx_node *node,
                 const struct onnx_value *value);
