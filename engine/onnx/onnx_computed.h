/* onnx_computed.h: shared by the files that give nodes what is computed from parameters alone. See
 * `alone` of struct onnx_value. Internal to the folder. A function that returns false has kept an
 * error, or noted that the node is missing. */
#pragma once

#include "engine/onnx/onnx_tensors.h"

/* Gives the value a shape, for which the present node's output is overwritten. */
bool onnx_reshape_value(struct onnx_import *import, struct onnx_value *value, int rank,
                        const int64_t *extent);
/* Gives a value that is alone the axes of samples: `rank` of them, of which `axis` has the batch
 * and is `batch` wide. */
bool onnx_align(struct onnx_import *import, struct onnx_value *value, int rank, int axis,
                int64_t batch);
/* A constant as a value that is alone; ONNX_UNKNOWN: it has too many axes. */
struct onnx_value onnx_alone_tensor(struct onnx_import *import, const struct onnx_value *value);

/* Makes input `index` a tensor if it is a constant, and computes it if it is a weight with
 * factors. */
bool onnx_input_replace(struct onnx_import *import, int index);
/* Whether the present node combines its operands number by number. */
bool onnx_takes_two(const struct onnx_import *import);

/* ---- onnx_mixed.c ---- */

/* Appends the present node, of samples and of values that are alone, or gives it what it reads in
 * the form that its operator takes. `*done`: it is appended, or missing. 0, or the error that the
 * import or its graph keeps. */
int onnx_mixed_prepare(struct onnx_import *import, bool *done);

/* ---- onnx_scaled.c ---- */

/* Appends the present node, a layer of samples with such a weight. False: it is no layer that can
 * have one. `code`: 0, or an error that is kept. */
bool onnx_scaled_layer(struct onnx_import *import, int *code);
/* Makes a weight with factors (struct onnx_scaled) the product; others stay. */
bool onnx_multiply_out(struct onnx_import *import, struct onnx_value *value);
/* Makes a weight times, or divided by, factors the present node's output. False: it is no such, or
 * the import or its graph keep an error. */
bool onnx_scale_weight(struct onnx_import *import);
/* The transposed of a weight with factors is the present node's output. */
int onnx_transpose_scaled(struct onnx_import *import, const struct onnx_value *value);
