/* onnx_parameters.h: constants of a model become parameters and statistics of the graph. Internal
 * to the folder. */
#pragma once

#include "engine/onnx/onnx_value.h"

/* The numbers of a tensor of the graph: those of `count` constants, one behind another. */
struct onnx_weights {
    struct onnx_value part[ONNX_PARTS_MAX];
    int count;
};

/* The graph's parameter or statistic that holds these numbers; the same one each time. It has the
 * initialiser's name if it holds its numbers as they stand there; else its initializer's layout
 * says where they do. `shape`: as the layer wants it; NULL: that of the file. A negative errno that
 * the graph keeps. `statistic`: it is no parameter. */
int32_t onnx_weights_tensor(struct onnx_import *import, const struct onnx_weights *weights,
                            const struct graph_shape *shape, bool statistic);
/* The same of one value. */
int32_t onnx_weight(struct onnx_import *import, const struct onnx_value *value,
                    const struct graph_shape *shape, bool statistic);

/* Whether a layer has the parameter in another order already, or another part that overlaps. */
bool onnx_weight_is_turned(struct onnx_import *import, const struct onnx_value *value);

/* The graph's tensor that has all numbers of a parameter, in whatever order; -1: there is none.
 * `places`, one for each number of the file, receives where it stands in the tensor. */
int32_t onnx_weight_elsewhere(const struct onnx_import *import, const struct onnx_store *store,
                              int64_t *places);

/* Gives the graph the numbers of parameters of which layers read a part, such as the first rows of
 * a table of positions, as statistics: so exports have the whole parameter. Returns 0, or an error
 * that is kept. */
int onnx_rests_lend(struct onnx_import *import);

void onnx_lent_release(struct onnx_model *model);
