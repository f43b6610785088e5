/* onnx_moves.c: nodes that move the numbers of samples: most of them change only how the axes are
 * read. */
#include "engine/graph/forward.h"
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
    if (x.type == ONNX_BOOL && (onnx_type_is_float(to) || to == ONNX_BOOL))
        x.type = to; /* a mask has numbers */
    if (onnx_type_is_float(to) != onnx_type_is_float(x.type) ||
        (x.type == ONNX_BOOL) != (to == ONNX_BOOL))
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

    if (x.kind != ONNX_TENSOR || onnx_more_is_read(import))
        return onnx_missing(import, "with its mask");
    x.tensor = graph_dropout(import->graph, x.tensor, import->node->name, (float)probability);
    *onnx_output(import, 0) = x;
    return x.tensor < 0 ? x.tensor : 0;
}

int onnx_reshape_to(struct onnx_import *import, struct onnx_value *x, int rank,
                    const int64_t *extent)
{
    if (!onnx_atoms_reshape(&x->atoms, rank, extent)) {
        if (onnx_resolve(import, x) || onnx_settle(import, x))
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

    return rank < 0 ? import->error.code : onnx_reshape_to(import, &x, rank, extent);
}

static int append_flatten(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t axis = onnx_attribute_int(import, "axis", 1), extent[2] = {1, 1};

    axis = axis < 0 ? axis + x.rank : axis;
    if (axis < 0 || axis > x.rank)
        return onnx_fail(import, "there is no axis %lld", (long long)axis);
    for (int r = 0; r < x.rank; r++)
        if (__builtin_mul_overflow(extent[r >= axis], x.extent[r], &extent[r >= axis]))
            return onnx_fail(import, "a sample has too many numbers");
    return onnx_reshape_to(import, &x, 2, extent);
}

static int append_axes(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    bool inserts = strcmp(import->node->proto->op_type, "Unsqueeze") == 0;
    int rank = onnx_changed_axes(import, &x, inserts, extent);

    return rank < 0 ? import->error.code : onnx_reshape_to(import, &x, rank, extent);
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

/* Squares of pixels become channels, or the other way (torch's PixelUnshuffle, PixelShuffle). */
static int append_depth_and_space(struct onnx_import *import)
{
    static const int orders[2][2][6] = {{{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}},
                                        {{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}}};
    bool packs = strcmp(import->node->proto->op_type, "SpaceToDepth") == 0;
    int64_t side = onnx_attribute_int(import, "blocksize", 0), square = 0;
    struct onnx_value x = *onnx_input(import, 0);
    const int64_t *have = onnx_input(import, 0)->extent;
    char text[8];
    bool rows_first = strcmp(onnx_attribute_text(import, "mode", "DCR", text, sizeof text), "CRD");
    const int *order = orders[packs][!rows_first];
    int code;

    if (x.rank != 4)
        return onnx_missing(import, "of other than images");
    if (side < 1 || __builtin_mul_overflow(side, side, &square) ||
        (packs ? have[2] % side || have[3] % side : have[1] % square))
        return onnx_fail(import, "blocks of %lld do not divide the image", (long long)side);
    if (packs)
        code = onnx_reshape_to(
            import, &x, 6,
            (int64_t[]){have[0], have[1], have[2] / side, side, have[3] / side, side});
    else
        code = onnx_reshape_to(
            import, &x, 6,
            rows_first ? (int64_t[]){have[0], side, side, have[1] / square, have[2], have[3]}
                       : (int64_t[]){have[0], have[1] / square, side, side, have[2], have[3]});
    if (code)
        return code;
    onnx_atoms_permute(&x.atoms, 6, order);
    return onnx_reshape_to(
        import, &x, 4,
        packs ? (int64_t[]){have[0], have[1] * square, have[2] / side, have[3] / side}
              : (int64_t[]){have[0], have[1] / square, have[2] * side, have[3] * side});
}

/* Whether every output of the node is read. */
static bool all_are_read(const struct onnx_import *import)
{
    for (int i = 0; i < import->node->output_count; i++)
        if (import->node->output[i] < 0 || import->model->readers[import->node->output[i]] == 0)
            return false;
    return true;
}

/* Cuts x into parts. `together`: all of them are read, so they are cut out at once. */
static int split_into(struct onnx_import *import, const struct onnx_value *x, int axis,
                      const int64_t *widths, int count, bool together, struct onnx_value *results)
{
    struct onnx_cut *parts = NULL;
    int64_t first = 0;

    if (together && count > 1 && count <= GRAPH_OUTPUTS_MAX)
        parts = onnx_allocate(import, (size_t)count, sizeof *parts);
    for (int i = 0; i < count; i++) {
        int code;

        results[i] = *x;
        code = onnx_cut_out(import, &results[i], axis, first, widths[i]);
        if (code)
            return code;
        first += widths[i];
        if (!parts || !results[i].cut)
            continue;
        parts[i] = *results[i].cut;
        parts[i].whole = parts[0].whole; /* a copy for each would be as good */
        parts[i].parts = parts;
        parts[i].part_count = count;
        results[i].cut = &parts[i];
    }
    return import->error.code;
}

static int append_split(struct onnx_import *import)
{
    const struct onnx_value *x = onnx_input(import, 0);
    struct onnx_value results[ONNX_SPLIT_MAX];
    int64_t widths[ONNX_SPLIT_MAX];
    int axis, count = onnx_split_widths(import, x, &axis, widths), code;

    if (count < 0)
        return import->error.code;
    code = split_into(import, x, axis, widths, count,
                      count == import->node->output_count && all_are_read(import), results);
    for (int i = 0; i < import->node->output_count && !code; i++)
        *onnx_output(import, i) = results[i];
    return code;
}

/* The same as a list, from which SequenceAt takes. */
static int append_split_to_sequence(struct onnx_import *import)
{
    const struct onnx_value *x = onnx_input(import, 0);
    struct onnx_value *parts = onnx_allocate(import, ONNX_SPLIT_MAX, sizeof *parts);
    int64_t widths[ONNX_SPLIT_MAX];
    int axis, count = parts ? onnx_sequence_widths(import, x, &axis, widths) : 0, code;
    int32_t output = onnx_node_output(import->node, 0);

    if (count < 1)
        return import->error.code;
    code = split_into(import, x, axis, widths, count,
                      output >= 0 && import->model->readers[output] == count, parts);
    *onnx_output(import, 0) =
        (struct onnx_value){.kind = ONNX_SEQUENCE, .parts = parts, .part_count = count};
    return code;
}

static int append_sequence_at(struct onnx_import *import)
{
    const struct onnx_value *sequence = onnx_input(import, 0), *index = onnx_input(import, 1);
    int64_t at = index->kind == ONNX_CONSTANT ? onnx_integer(index, 0) : INT64_MAX;

    at = at < 0 ? at + sequence->part_count : at;
    if (sequence->kind != ONNX_SEQUENCE || at < 0 || at >= sequence->part_count)
        return onnx_missing(import, "of other than the parts of a split");
    *onnx_output(import, 0) = sequence->parts[at];
    return 0;
}

/* ---- side by side ---- */

/* A learnt row before those of each sequence, as a class token: [B,1,D] of a parameter. */
static int prepend(struct onnx_import *import, const struct onnx_value *token, struct onnx_value *x)
{
    const int64_t extent[3] = {ONNX_BATCH, x->extent[1] + 1, x->extent[2]};
    struct onnx_value row = *token;
    int32_t tensor, parameter;

    row.extent[0] = 1;
    parameter = onnx_weight(import, &row, NULL, false);
    tensor = onnx_shaped(import, x, 2, x->extent + 1);
    if (tensor < 0 || parameter < 0)
        return tensor < 0 ? tensor : parameter;
    tensor = graph_prepend_token(import->graph, tensor, import->node->name, parameter);
    if (tensor >= 0)
        *onnx_output(import, 0) = onnx_tensor_value(tensor, 3, extent);
    return tensor < 0 ? tensor : 0;
}

/* What stands before and behind an axis, of values with the batch first. */
static int64_t extents_of(const struct onnx_value *x, int first, int end)
{
    int64_t product = 1;

    for (int r = first; r < end; r++)
        product *= x->extent[r];
    return product;
}

/* The axis that is the batch; 0 if none is. */
static int batch_axis(const struct onnx_value *x)
{
    for (int r = 0; r < x->rank; r++)
        if (x->extent[r] == ONNX_BATCH)
            return r;
    return 0;
}

static int append_concat(struct onnx_import *import)
{
    int count = import->node->input_count;
    struct onnx_value first = *onnx_input(import, 0), result = first;
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", 0), first.rank);
    int32_t tensor, tensors[GRAPH_OUTPUTS_MAX];
    int64_t joined = 0;
    int batch = first.kind == ONNX_TENSOR ? batch_axis(&first) : 0;
    bool images;

    if (axis < 0)
        return import->error.code;
    if (batch && axis != batch) {
        onnx_axis_move(&first, batch, 0);
        axis += axis < batch;
        result = first;
    }
    images = first.rank == 4 && axis == 1;
    if (count == 2 && axis == 1 && first.kind == ONNX_CONSTANT && onnx_value_trains(&first) &&
        first.rank == 3 && first.extent[0] == ONNX_BATCH && first.extent[1] == 1 &&
        first.stride[0] == 0) {
        struct onnx_value x = *onnx_input(import, 1);

        return x.rank == 3 ? prepend(import, &first, &x) : onnx_fail(import, "dimensions differ");
    }
    for (int i = 0; i < count; i++) {
        struct onnx_value x = *onnx_input(import, i);
        int64_t outer, row;

        if (batch && x.kind == ONNX_TENSOR && x.rank == first.rank)
            onnx_axis_move(&x, batch, 0);
        if (x.kind != ONNX_TENSOR || x.rank != first.rank || axis == 0 || x.extent[0] != ONNX_BATCH)
            return onnx_missing(import, "of other than samples, or along the batch");
        for (int r = 0; r < x.rank; r++)
            if (r != axis && x.extent[r] != first.extent[r])
                return onnx_fail(import, "its inputs differ in axis %d", r);
        joined += x.extent[axis];
        outer = extents_of(&x, 1, axis);
        row = extents_of(&x, axis, x.rank);
        tensor = images       ? onnx_image(import, &x)
                 : outer == 1 ? onnx_shaped(import, &x, 1, &row)
                              : onnx_shaped(import, &x, 2, (int64_t[]){outer, row});
        if (tensor < 0)
            return tensor;
        if (i > 1 && (i - 1) % (GRAPH_OUTPUTS_MAX - 1) == 0) { /* in several steps */
            tensors[0] = graph_concatenate(import->graph, tensors, GRAPH_OUTPUTS_MAX,
                                           onnx_layer_name(import, ".part").text);
        }
        tensors[i == 0 ? 0 : (i - 1) % (GRAPH_OUTPUTS_MAX - 1) + 1] = tensor;
    }
    tensor = graph_concatenate(import->graph, tensors,
                               count == 1 ? 1 : (count - 2) % (GRAPH_OUTPUTS_MAX - 1) + 2,
                               import->node->name);
    if (tensor < 0)
        return tensor;
    result.extent[axis] = joined;
    result = onnx_tensor_value(tensor, result.rank, result.extent);
    result.type = first.type;
    if (batch)
        onnx_axis_move(&result, 0, batch);
    *onnx_output(import, 0) = result;
    return 0;
}

const struct onnx_operator_entry onnx_shape_operators[] = {
    {"Identity", append_identity, 1, ONNX_TAKES_PENDING | ONNX_TAKES_LIST},
    {"Cast", append_cast, 1, ONNX_TAKES_PENDING},
    {"CastLike", append_cast, 2, ONNX_TAKES_PENDING},
    {"Dropout", append_dropout, 3, 0},
    {"Reshape", append_reshape, 2, ONNX_TAKES_PENDING},
    {"Flatten", append_flatten, 1, ONNX_TAKES_PENDING},
    {"Squeeze", append_axes, 2, ONNX_TAKES_PENDING},
    {"Unsqueeze", append_axes, 2, ONNX_TAKES_PENDING},
    {"Transpose", append_transpose, 1, ONNX_TAKES_PENDING},
    {"Split", append_split, 2, ONNX_TAKES_PENDING},
    {"SplitToSequence", append_split_to_sequence, 2, ONNX_TAKES_PENDING},
    {"SequenceAt", append_sequence_at, 2, ONNX_TAKES_LIST},
    {"DepthToSpace", append_depth_and_space, 1, ONNX_TAKES_PENDING},
    {"SpaceToDepth", append_depth_and_space, 1, ONNX_TAKES_PENDING},
    {"Concat", append_concat, ONNX_ANY_NUMBER, ONNX_TAKES_CONSTANT},
    {NULL, NULL, 0, 0},
};
