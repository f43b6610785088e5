/* onnx_tensors.h: what the operators of a model share beside onnx_value.h. Internal to the
 * folder. */
#pragma once

#include "engine/onnx/onnx_parameters.h"

/* The name of the present node's layer, with a suffix. */
struct onnx_layer_name {
    char text[GRAPH_NAME_MAX];
};
struct onnx_layer_name onnx_layer_name(const struct onnx_import *import, const char *suffix);

/* Gives `value` the order and the shape of the graph's tensor that `like` is; they have the same
 * extents. */
int onnx_follow(struct onnx_import *import, struct onnx_value *value, struct onnx_value *like);

/* The lists of operators, each ended by a NULL name. */
extern const struct onnx_operator_entry onnx_layer_operators[], onnx_shape_operators[],
    onnx_elementwise_operators[];
