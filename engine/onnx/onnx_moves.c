/* onnx_moves.c: nodes that move the numbers of samples: most of them change only how the axes are
 * read. */
#include "engine/onnx/onnx_fold.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <string.h>

static int append_identity(struct onnx_import *import)
{
    *onnx_output(import, 0) = *onnx_input(import, 0);
    return 0;
}

static int append_cast(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    enum onnx_type to = (enum onnx_type)onnx_attribute_int(import, "to", 0);

    if (strcmp(import->node->proto->op_type, "CastLike") == 0)
        to = onnx_input(import, 1)->type;
    if (onnx_type_is_float(to) != onnx_type_is_float(x.type))
        return onnx_missing(import, "of whole numbers to others, or back");
    *onnx_output(import, 0) = x;
    return 0;
}

static int append_dropout(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    const struct onnx_value *ratio = onnx_input(import, 1);
    double probability = ratio->kind == ONNX_CONSTANT && onnx_value_elements(ratio) == 1
                             ? onnx_number(ratio, 0)
                             : 0.5;

    if (x.kind != ONNX_TENSOR || import->node->output_count > 1)
        return onnx_missing(import, "with its mask");
    x.tensor = graph_dropout(import->graph, x.tensor, import->node->name, (float)probability);
    *onnx_output(import, 0) = x;
    return x.tensor < 0 ? x.tensor : 0;
}

/* Gives the value another shape; copies it first if its axes lie apart. */
static int reshape_to(struct onnx_import *import, struct onnx_value *x, int rank,
                      const int64_t *extent)
{
    if (!onnx_atoms_reshape(&x->atoms, rank, extent)) {
        if (onnx_settle(import, x))
            return -ENOTSUP;
        /* what lies together is one axis now, and can be cut anew */
        onnx_atoms_join(&x->atoms);
        if (!onnx_atoms_reshape(&x->atoms, rank, extent))
            return onnx_missing(import, "the batch would be mixed with other axes");
    }
    x->rank = rank;
    memcpy(x->extent, extent, (size_t)rank * sizeof *extent);
    *onnx_output(import, 0) = *x;
    return 0;
}

static int append_reshape(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    int rank = onnx_new_shape(import, &x, extent);

    return rank < 0 ? import->error.code : reshape_to(import, &x, rank, extent);
}

static int append_flatten(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t axis = onnx_attribute_int(import, "axis", 1), extent[2] = {1, 1};

    axis = axis < 0 ? axis + x.rank : axis;
    for (int r = 0; r < x.rank; r++)
        extent[r >= axis] *= x.extent[r];
    return reshape_to(import, &x, 2, extent);
}

static int append_axes(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    bool inserts = strcmp(import->node->proto->op_type, "Unsqueeze") == 0;
    int rank = onnx_changed_axes(import, &x, inserts, extent);

    return rank < 0 ? import->error.code : reshape_to(import, &x, rank, extent);
}

static int append_transpose(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), result = x;
    int axes[ONNX_RANK_MAX];
    int code = onnx_new_order(import, &x, axes);

    if (code)
        return code;
    for (int r = 0; r < x.rank; r++)
        result.extent[r] = x.extent[axes[r]];
    onnx_atoms_permute(&result.atoms, x.rank, axes);
    *onnx_output(import, 0) = result;
    return 0;
}

const struct onnx_operator_entry onnx_shape_operators[] = {
    {"Identity", append_identity},   {"Cast", append_cast},
    {"CastLike", append_cast},       {"Dropout", append_dropout},
    {"Reshape", append_reshape},     {"Flatten", append_flatten},
    {"Squeeze", append_axes},        {"Unsqueeze", append_axes},
    {"Transpose", append_transpose}, {NULL, NULL},
};
