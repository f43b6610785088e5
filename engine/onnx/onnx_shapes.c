/* onnx_shapes.c: what nodes that move numbers say of axes and shapes; see onnx_fold.h. */
#include "engine/onnx/onnx_fold.h"

#include <errno.h>
#include <string.h>

/* A file that was exported with a fixed batch has its size in constants, too: where the numbers of
 * the samples get a shape without the batch, its first extent is meant. */
static void batch_restore(const struct onnx_import *import, const struct onnx_value *value,
                          int64_t *extent, int rank)
{
    int64_t fixed = import->model->fixed_batch;
    bool infers = false;

    if (!fixed || !rank || value->kind != ONNX_TENSOR)
        return;
    for (int r = 0; r < rank; r++) {
        if (extent[r] >= ONNX_BATCH)
            return;
        infers |= extent[r] == -1;
    }
    if (extent[0] > 0 && extent[0] % fixed == 0 && (!infers || value->extent[0] == ONNX_BATCH))
        extent[0] = extent[0] / fixed * ONNX_BATCH;
}

static int new_shape(struct onnx_import *import, const struct onnx_value *value, int64_t *extent)
{
    bool keeps_zero = onnx_attribute_int(import, "allowzero", 0);
    int rank = onnx_integers(import, "shape", 1, extent, ONNX_RANK_MAX), inferred = -1;
    int64_t elements = onnx_value_elements(value), product = 1;

    if (rank < 0)
        return import->error.code ? -1 : onnx_fail(import, "it has no shape");
    batch_restore(import, value, extent, rank);
    for (int r = 0; r < rank; r++) {
        if (extent[r] == 0 && !keeps_zero && r < value->rank)
            extent[r] = value->extent[r];
        if (extent[r] == -1 && inferred < 0)
            inferred = r;
        else if (extent[r] < 0 || __builtin_mul_overflow(product, extent[r], &product))
            return onnx_fail(import, "the shape has an impossible extent");
    }
    if (inferred >= 0 && product > 0 && elements % product == 0)
        product *= extent[inferred] = elements / product;
    if (product != elements || elements == INT64_MAX || !onnx_shape_fits(rank, extent))
        return onnx_fail(import, "the new shape does not have as many numbers as the input");
    return rank;
}

int onnx_new_shape(struct onnx_import *import, const struct onnx_value *value, int64_t *extent)
{
    struct onnx_value without;
    int rank;

    if (!import->alone)
        return new_shape(import, value, extent);
    without = onnx_without_batch(value);
    without.kind = ONNX_CONSTANT; /* no batch is to be restored */
    rank = new_shape(import, &without, extent);
    if (rank < 0)
        return rank;
    if (rank == ONNX_RANK_MAX)
        return onnx_fail(import, "the result would have too many dimensions");
    memmove(extent + 1, extent, (size_t)rank * sizeof *extent);
    extent[0] = ONNX_BATCH;
    return rank + 1;
}

int onnx_new_order(struct onnx_import *import, const struct onnx_value *value, int *axes)
{
    int64_t given[ONNX_RANK_MAX];
    int count = onnx_integers(import, "perm", -1, given, ONNX_RANK_MAX), first = import->alone;
    unsigned seen = 0;

    if (import->error.code)
        return import->error.code;
    if (count >= 0 && count != value->rank - first)
        return onnx_fail(import, "it orders %d axes, but its input has %d", count,
                         value->rank - first);
    for (int r = 0; r < value->rank; r++) {
        axes[r] = r < first   ? 0
                  : count < 0 ? value->rank - 1 - (r - first)
                              : onnx_axis(import, given[r - first], value->rank);
        if (axes[r] < 0)
            return import->error.code;
        seen |= 1u << axes[r];
    }
    return seen == (1u << value->rank) - 1 ? 0 : onnx_fail(import, "it names an axis twice");
}

/* Squeeze without axes drops all of extent 1. */
static int squeezed(struct onnx_import *import, const struct onnx_value *value, unsigned axes,
                    bool all, int64_t *extent)
{
    int rank = 0;

    for (int r = 0; r < value->rank; r++) {
        bool drops = all ? value->extent[r] == 1 : axes >> r & 1;

        if (drops && value->extent[r] != 1)
            return onnx_fail(import, "axis %d has an extent of %s and cannot be dropped", r,
                             onnx_extent_text(value->extent[r]).text);
        if (!drops)
            extent[rank++] = value->extent[r];
    }
    return rank;
}

int onnx_changed_axes(struct onnx_import *import, const struct onnx_value *value, bool inserts,
                      int64_t *extent)
{
    int64_t given[ONNX_RANK_MAX];
    int count = onnx_integers(import, "axes", 1, given, ONNX_RANK_MAX), from = 0;
    int rank = value->rank + (inserts && count > 0 ? count : 0);
    unsigned axes = 0;

    if (import->error.code)
        return -1;
    if (rank > ONNX_RANK_MAX)
        return onnx_fail(import, "the result would have %d dimensions", rank);
    for (int i = 0; i < count; i++) {
        int axis = onnx_axis(import, given[i], rank);

        if (axis < 0)
            return -1;
        if (inserts && axes >> axis & 1)
            return onnx_fail(import, "it names an axis twice");
        axes |= 1u << axis;
    }
    if (!inserts)
        return squeezed(import, value, axes, count < 0, extent);
    for (int r = 0; r < rank; r++)
        extent[r] = axes >> r & 1 ? 1 : value->extent[from++];
    return rank;
}

int onnx_reduced_axes(struct onnx_import *import, const struct onnx_value *x, unsigned *reduced,
                      int64_t *extent)
{
    int64_t axes[ONNX_RANK_MAX];
    int count = onnx_integers(import, "axes", 1, axes, ONNX_RANK_MAX), rank = 0;
    bool keeps = onnx_attribute_int(import, "keepdims", 1);

    *reduced = count > 0 || onnx_attribute_int(import, "noop_with_empty_axes", 0)
                   ? 0
                   : ((1u << x->rank) - 1) & ~(unsigned)import->alone;
    for (int i = 0; i < count; i++) {
        int axis = onnx_axis(import, axes[i], x->rank);

        if (axis < 0)
            return -1;
        *reduced |= 1u << axis;
    }
    for (int r = 0; r < x->rank; r++)
        if (!(*reduced >> r & 1) || keeps)
            extent[rank++] = *reduced >> r & 1 ? 1 : x->extent[r];
    return import->error.code ? -1 : rank;
}

/* The range of indices that starts, ends and steps name, cut to the axis. Of a negative step the
 * start is cut to the first number, as the standard says; in Python such a range is empty. */
static struct onnx_range range_of(int axis, int64_t extent, int64_t start, int64_t end,
                                  int64_t step)
{
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? extent : extent - 1;

    step = step < -INT64_MAX ? -INT64_MAX : step; /* either takes the first index alone */
    start = start < -extent ? 0 : start < 0 ? start + extent : start;
    end = end < -extent ? least : end < 0 ? end + extent : end;
    start = start > most ? most : start;
    end = end < least ? least : end > most ? most : end;
    if ((step > 0 && start >= end) || (step < 0 && start <= end))
        return (struct onnx_range){axis, 0, 0, step};
    return (struct onnx_range){
        axis, start, step > 0 ? (end - start - 1) / step + 1 : (start - end - 1) / -step + 1, step};
}

int onnx_slice_ranges(struct onnx_import *import, const struct onnx_value *value,
                      struct onnx_range *ranges)
{
    int64_t starts[ONNX_RANK_MAX], ends[ONNX_RANK_MAX], axes[ONNX_RANK_MAX], steps[ONNX_RANK_MAX];
    int count = onnx_integers(import, "starts", 1, starts, ONNX_RANK_MAX);
    int end_count = onnx_integers(import, "ends", 2, ends, ONNX_RANK_MAX);
    int axis_count = onnx_integers(import, "axes", 3, axes, ONNX_RANK_MAX);
    int step_count = onnx_integers(import, "steps", 4, steps, ONNX_RANK_MAX);
    unsigned seen = 0;

    if (import->error.code)
        return -1;
    if (count < 1 || end_count != count || (axis_count >= 0 && axis_count != count) ||
        (step_count >= 0 && step_count != count) || (axis_count < 0 && count > value->rank))
        return onnx_fail(import, "starts, ends, axes and steps differ in number");
    for (int i = 0; i < count; i++) {
        int axis = onnx_axis(import, axis_count < 0 ? i : axes[i], value->rank);
        int64_t step = step_count < 0 ? 1 : steps[i];

        if (axis < 0)
            return -1;
        if (seen >> axis & 1)
            return onnx_fail(import, "it names an axis twice");
        seen |= 1u << axis;
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
            return onnx_fail(import, "a step of %lld is impossible", (long long)step);
        ranges[i] = range_of(axis, value->extent[axis], starts[i], ends[i], step);
    }
    return count;
}

int onnx_split_widths(struct onnx_import *import, const struct onnx_value *value, int *axis,
                      int64_t *widths)
{
    int count = onnx_integers(import, "split", 1, widths, ONNX_SPLIT_MAX);
    int64_t sum = 0, each;

    *axis = onnx_axis(import, onnx_attribute_int(import, "axis", 0), value->rank);
    if (*axis < 0 || import->error.code)
        return -1;
    if (count < 0) {
        count = (int)onnx_attribute_int(import, "num_outputs", import->node->output_count);
        if (count < 1 || count > ONNX_SPLIT_MAX)
            return onnx_fail(import, "%d parts; 1 to %d are possible", count, ONNX_SPLIT_MAX);
        each = value->extent[*axis] / count + (value->extent[*axis] % count > 0);
        for (int i = 0; i < count; i++) {
            int64_t left = value->extent[*axis] - i * each;

            widths[i] = left < each ? left : each;
        }
    }
    for (int i = 0; i < count; i++) {
        if (widths[i] < 0 || widths[i] > value->extent[*axis] - sum)
            return onnx_fail(import, "its parts do not make its input");
        sum += widths[i];
    }
    if (sum != value->extent[*axis] || import->node->output_count > count)
        return onnx_fail(import, "its parts do not make its input");
    return count;
}

int onnx_sequence_widths(struct onnx_import *import, const struct onnx_value *value, int *axis,
                         int64_t *widths)
{
    const struct onnx_value *split = onnx_input(import, 1);
    int64_t each, left;
    int count = 0;

    *axis = onnx_axis(import, onnx_attribute_int(import, "axis", 0), value->rank);
    if (*axis < 0)
        return 0;
    left = value->extent[*axis];
    if (split->kind != ONNX_CONSTANT || left >= ONNX_BATCH)
        return onnx_missing(import, "into parts that are not constant");
    if (!onnx_attribute_int(import, "keepdims", 1))
        return onnx_missing(import, "without keepdims");
    if (split->rank == 0) {
        each = onnx_integer(split, 0);
        for (; left > 0 && each > 0 && count < ONNX_SPLIT_MAX; left -= each)
            widths[count++] = left < each ? left : each;
    } else {
        count = onnx_integers(import, "split", 1, widths, ONNX_SPLIT_MAX);
        for (int i = 0; i < count; i++)
            left -= widths[i] < 0 || widths[i] > left ? left + 1 : widths[i];
    }
    if (import->error.code || left > 0 || count < 1 || (split->rank && left))
        return onnx_fail(import, "its parts do not make its input"), 0;
    return count;
}

int onnx_listed_axes(struct onnx_import *import, const struct onnx_value *value,
                     const struct onnx_value *index)
{
    int64_t axes = index->rank ? index->extent[index->rank - 1] : 0;

    if (onnx_attribute_int(import, "batch_dims", 0) || axes < 1 || axes > value->rank ||
        index->rank - 1 + value->rank - axes > ONNX_RANK_MAX ||
        onnx_value_elements(index) > INT32_MAX)
        return onnx_missing(import, "with indices of another kind");
    return (int)axes;
}

int64_t onnx_listed_row(struct onnx_import *import, const struct onnx_value *value,
                        const struct onnx_value *index, int64_t row, int axes)
{
    int64_t place = 0;

    for (int r = 0; r < axes; r++) {
        int64_t number = onnx_integer(index, row * axes + r);

        number += number < 0 ? value->extent[r] : 0;
        if (number < 0 || number >= value->extent[r])
            return onnx_fail(import, "an index is outside of axis %d", r);
        place = place * value->extent[r] + number;
    }
    return place;
}
