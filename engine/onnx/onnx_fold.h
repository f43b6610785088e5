/* onnx_fold.h: shared by the files that compute nodes from constants. Internal to the folder. */
#pragma once

#include "engine/onnx/onnx_value.h"

enum { ONNX_SPLIT_MAX = 64 };

struct onnx_fold_entry {
    const char *name;
    onnx_operator *fold;
};
/* Each is ended by a NULL name. */
extern const struct onnx_fold_entry onnx_fold_views[], onnx_fold_whole[];

/* The number as a value of that type holds it. */
static inline double onnx_rounded(enum onnx_type type, double number)
{
    return type == ONNX_DOUBLE ? number : (double)(float)number;
}

/* What int64 cannot hold is 0. */
static inline int64_t onnx_to_whole(double number)
{
    return number >= 0x1p63 || !(number > -0x1p63) ? 0 : (int64_t)number;
}

/* ---- onnx_shapes.c: what nodes say of shapes, for constants and tensors alike ---- */

/* The shape that Reshape gives the value: its rank, or -1 with the error kept. */
int onnx_new_shape(struct onnx_import *import, const struct onnx_value *value, int64_t *extent);
/* The order of axes that Transpose wants. */
int onnx_new_order(struct onnx_import *import, const struct onnx_value *value, int *axes);
/* The shape behind Squeeze, or with `inserts` Unsqueeze: its rank, or -1 with the error kept. */
int onnx_changed_axes(struct onnx_import *import, const struct onnx_value *value, bool inserts,
                      int64_t *extent);
/* The axes that a node reduces, as a set of 1 << axis, and the shape behind it: its rank, or -1
 * with the error kept. */
int onnx_reduced_axes(struct onnx_import *import, const struct onnx_value *x, unsigned *reduced,
                      int64_t *extent);
/* What Slice keeps of axes: how many it cuts, or -1 with the error kept. */
struct onnx_range {
    int axis;
    int64_t first, count, step;
};
int onnx_slice_ranges(struct onnx_import *import, const struct onnx_value *value,
                      struct onnx_range *ranges);
/* The parts that Split makes of an axis: how many, or -1 with the error kept. */
int onnx_split_widths(struct onnx_import *import, const struct onnx_value *value, int *axis,
                      int64_t *widths);

/* The same of SplitToSequence; 0 with the error kept, or if the node is missing. */
int onnx_sequence_widths(struct onnx_import *import, const struct onnx_value *value, int *axis,
                         int64_t *widths);
/* How many of the first axes a list of indices names (GatherND, ScatterND), one number for each
 * along its own last axis; 0 if the node is missing. */
int onnx_listed_axes(struct onnx_import *import, const struct onnx_value *value,
                     const struct onnx_value *index);
/* The row, of those that these axes make, that entry `row` of the list names; negative with the
 * error kept. */
int64_t onnx_listed_row(struct onnx_import *import, const struct onnx_value *value,
                        const struct onnx_value *index, int64_t row, int axes);

/* ---- others ---- */

/* Reads the tensor of an attribute; its memory is the import's or the model's. */
int onnx_read_constant(struct onnx_import *import, const Onnx__Tensor *tensor,
                       struct onnx_initializer *result);
