/* onnx_take.c: nodes that take numbers along axes by constant places: padding, steps, repetition,
 * lists of indices. They become the engine's operator OP_TAKE. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_fold.h"
#include "engine/onnx/onnx_parameters.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <string.h>

/* ---- the operator ---- */

/* The map of a take (engine/graph/graph.h): a constant, which becomes a statistic of the graph. */
static int32_t map_append(struct onnx_import *import, const struct take_attributes *take,
                          const int64_t *rows)
{
    const int64_t count = take_map_elements(take);
    void *numbers;
    struct onnx_value map = onnx_constant_new(import, ONNX_FLOAT, 1, &count, &numbers);

    if (!numbers)
        return import->error.code;
    for (int64_t i = 0; i < take->to; i++)
        ((double *)numbers)[i] = (double)rows[i];
    take_map_invert(take, numbers);
    return onnx_weight(import, &map, NULL, false);
}

int onnx_resettled(struct onnx_import *import, struct onnx_value *value, int32_t tensor, int rank,
                   const int64_t *extent)
{
    struct onnx_atoms atoms = {.count = 1, .extent = {ONNX_BATCH}};
    int64_t part[2] = {1, 1};
    int at = 0, behind = 0;

    if (tensor < 0)
        return tensor;
    for (int r = 0; r < rank; r++) {
        if (extent[r] >= ONNX_BATCH)
            behind = 1;
        part[behind] *= extent[r] >= ONNX_BATCH ? extent[r] / ONNX_BATCH : extent[r];
    }
    if (part[0] > 1) {
        atoms.order[at++] = atoms.count;
        atoms.extent[atoms.count++] = part[0];
    }
    atoms.order[at++] = 0;
    if (part[1] > 1) {
        atoms.order[at++] = atoms.count;
        atoms.extent[atoms.count++] = part[1];
    }
    if (!behind || !onnx_atoms_reshape(&atoms, rank, extent))
        return onnx_missing(import, "whose batch is not first in its axis"), -ENOTSUP;
    value->rank = rank;
    memcpy(value->extent, extent, (size_t)rank * sizeof *extent);
    value->atoms = atoms;
    value->tensor = tensor;
    return import->graph->error.code;
}

/* Whether the batch leads the axis that has it, so that the other numbers of a settled tensor are
 * in the order of the axes. */
static bool batch_leads(const struct onnx_value *value)
{
    for (int r = 0; r < value->rank; r++)
        if (value->extent[r] >= ONNX_BATCH)
            return value->atoms.order[value->atoms.first[r]] == 0;
    return false;
}

/* Numbers of the axes from `first` to before `end`, without the batch. */
static int64_t numbers_of(const struct onnx_value *value, int first, int end)
{
    int64_t product = 1;

    for (int r = first; r < end; r++)
        product *=
            value->extent[r] >= ONNX_BATCH ? value->extent[r] / ONNX_BATCH : value->extent[r];
    return product;
}

int onnx_take(struct onnx_import *import, struct onnx_value *value, int first, int end,
              const int64_t *rows, int rank, const int64_t *extent)
{
    struct take_attributes take = {.outer = numbers_of(value, 0, first),
                                   .from = numbers_of(value, first, end),
                                   .to = 1,
                                   .inner = numbers_of(value, end, value->rank)};
    int64_t shape[2 * ONNX_RANK_MAX], elements;
    int32_t map, tensor;

    for (int r = first; r < end; r++)
        if (value->extent[r] >= ONNX_BATCH)
            return onnx_missing(import, "along the batch"), -ENOTSUP;
    if (value->tensor >= 0 && import->graph->tensors[value->tensor].type == TENSOR_INT32)
        return onnx_missing(import, "of symbols; take rows of what their embedding gives"),
               -ENOTSUP;
    if (!batch_leads(value))
        return onnx_missing(import, "whose batch is not first in its axis"), -ENOTSUP;
    for (int i = 0; i < rank; i++)
        take.to *= extent[i];
    if (value->rank - (end - first) + rank > ONNX_RANK_MAX)
        return onnx_fail(import, "the result would have too many dimensions");
    if (take.to < 1 || take.to > TAKE_ROWS_MAX || take.from < 1 || take.from > TAKE_ROWS_MAX)
        return onnx_missing(import, "of %lld numbers", (long long)take.to), -ENOTSUP;
    elements = take.outer * take.from * take.inner;
    if (onnx_resolve(import, value) || onnx_shaped(import, value, 1, &elements) < 0)
        return import->graph->error.code ? import->graph->error.code : -ENOTSUP;
    map = map_append(import, &take, rows);
    if (map < 0)
        return map;
    tensor =
        graph_take(import->graph, value->tensor, map, &take, onnx_layer_name(import, ".take").text);
    memcpy(shape, value->extent, (size_t)first * sizeof *shape);
    memcpy(shape + first, extent, (size_t)rank * sizeof *shape);
    memcpy(shape + first + rank, value->extent + end, (size_t)(value->rank - end) * sizeof *shape);
    return onnx_resettled(import, value, tensor, value->rank - (end - first) + rank, shape);
}

/* The same along several axes at once, rows[r][i] being number i of axis r (NULL: the axis stays):
 * one take from the first to the last of them. */
static int take_axes(struct onnx_import *import, struct onnx_value *value, int64_t *const *rows,
                     const int64_t *extent)
{
    int first = 0, end = value->rank;
    int64_t *all, count = 1;

    while (first < end && !rows[first])
        first++;
    while (end > first && !rows[end - 1])
        end--;
    for (int r = first; r < end; r++)
        if (extent[r] < 1 || __builtin_mul_overflow(count, extent[r], &count) ||
            count > TAKE_ROWS_MAX)
            return onnx_missing(import, "of nothing, or of too many numbers"), -ENOTSUP;
    if (first == end)
        return 0;
    all = onnx_allocate(import, (size_t)count, sizeof *all);
    if (!all)
        return import->error.code;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, place = 0, stride = 1;

        for (int r = end - 1; r >= first; r--) {
            int64_t wide = extent[r] > 1 ? extent[r] : 1, at = rest % wide;

            at = rows[r] ? rows[r][at] : at;
            place = at < 0 || place < 0 ? -1 : place + at * stride;
            stride *= value->extent[r];
            rest /= wide;
        }
        all[i] = place;
    }
    return onnx_take(import, value, first, end, all, end - first, extent + first);
}

int onnx_expand(struct onnx_import *import, struct onnx_value *value, const int64_t *extent)
{
    int64_t *rows[ONNX_RANK_MAX] = {0};

    for (int r = 0; r < value->rank; r++) {
        if (value->extent[r] == extent[r])
            continue;
        if (value->extent[r] != 1 || extent[r] >= ONNX_BATCH || extent[r] < 1)
            return onnx_missing(import, "that repeats the batch, or more than one number"),
                   -ENOTSUP;
        rows[r] = onnx_allocate(import, (size_t)extent[r], sizeof **rows);
        if (!rows[r])
            return import->error.code;
    }
    return take_axes(import, value, rows, extent);
}

/* ---- numbers of a parameter ---- */

/* Where number `index` of a view stands in its store. */
static int64_t view_place(const struct onnx_value *value, int64_t index)
{
    int64_t place = value->offset;

    for (int r = value->rank - 1; r >= 0; r--) {
        place += index % value->extent[r] * value->stride[r];
        index /= value->extent[r];
    }
    return place;
}

/* The tensor that has the numbers of `source`, of which rows[i] are wanted. If a layer has the
 * parameter in another order, it is that layer's, and the rows are changed to where they are
 * there. */
static int32_t source_tensor(struct onnx_import *import, const struct onnx_value *source,
                             int64_t *rows, int64_t count, int64_t *from)
{
    int64_t *places;
    int32_t tensor;

    *from = onnx_value_elements(source);
    if (source->part_count || !onnx_weight_is_turned(import, source))
        return onnx_weight(import, source, NULL, false);
    places = onnx_allocate(import, (size_t)source->store->count + 1, sizeof *places);
    tensor = places ? onnx_weight_elsewhere(import, source->store, places) : -1;
    if (tensor < 0) /* which says so */
        return onnx_weight(import, source, NULL, false);
    for (int64_t i = 0; i < count; i++)
        rows[i] = places[view_place(source, rows[i])];
    *from = source->store->count;
    return tensor;
}

int32_t onnx_picked_tensor(struct onnx_import *import, const struct onnx_value *value)
{
    struct take_attributes take = {.outer = 1, .inner = 1, .to = onnx_value_elements(value)};
    int32_t parameter, map;
    int64_t *rows;

    if (take.to > TAKE_ROWS_MAX || onnx_value_elements(value->store->source) > TAKE_ROWS_MAX)
        return onnx_fail(import, "too many numbers of a parameter");
    rows = onnx_allocate(import, (size_t)take.to + 1, sizeof *rows);
    if (!rows)
        return import->error.code;
    for (int64_t i = 0; i < take.to; i++)
        rows[i] = value->store->places[view_place(value, i)];
    parameter = source_tensor(import, value->store->source, rows, take.to, &take.from);
    map = parameter < 0 ? parameter : map_append(import, &take, rows);
    return map < 0 ? map
                   : graph_take(import->graph, parameter, map, &take,
                                onnx_layer_name(import, ".take").text);
}

int32_t onnx_repeated_tensor(struct onnx_import *import, const struct onnx_value *value)
{
    struct take_attributes take = {.outer = 1, .inner = 1, .to = onnx_value_elements(value)};
    bool whole = onnx_value_trains(value) && !value->part_count;
    struct onnx_value source = *value;
    int32_t parameter, map;
    int64_t *rows;

    if (onnx_is_picked(value))
        return onnx_picked_tensor(import, value);
    if (whole) { /* the parameter as it stands in the file: others may read it so */
        source.rank = 1;
        source.offset = 0;
        source.stride[0] = 1;
        source.extent[0] = value->store->count;
    }
    if (take.to < 1 || take.to > TAKE_ROWS_MAX || onnx_value_elements(&source) > TAKE_ROWS_MAX)
        return onnx_fail(import, "it repeats %lld numbers for each sample; %d are possible",
                         (long long)onnx_value_elements(&source), (int)TAKE_ROWS_MAX);
    rows = onnx_allocate(import, (size_t)take.to + 1, sizeof *rows);
    if (!rows)
        return import->error.code;
    for (int64_t i = 0; i < take.to; i++)
        rows[i] = whole ? view_place(value, i) : i;
    parameter = source_tensor(import, &source, rows, take.to, &take.from);
    map = parameter < 0 ? parameter : map_append(import, &take, rows);
    return map < 0 ? map
                   : graph_take(import->graph, parameter, map, &take,
                                onnx_layer_name(import, ".repeat").text);
}

/* ---- nodes ---- */

/* The numbers first, first + step, … of an axis. */
static int64_t *range_rows(struct onnx_import *import, const struct onnx_range *range)
{
    int64_t *rows = onnx_allocate(import, (size_t)range->count + 1, sizeof *rows);

    for (int64_t i = 0; rows && i < range->count; i++)
        rows[i] = range->first + i * range->step;
    return rows;
}

static int append_slice(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    struct onnx_range range[ONNX_RANK_MAX];
    int64_t *rows[ONNX_RANK_MAX] = {0}, extent[ONNX_RANK_MAX] = {0};
    int count = onnx_slice_ranges(import, &x, range);
    bool steps = false;

    memcpy(extent, x.extent, sizeof extent);
    for (int i = 0; i < count; i++) {
        int code;

        if (range[i].step != 1 && range[i].count > 1) {
            if (x.extent[range[i].axis] >= ONNX_BATCH)
                return onnx_missing(import, "of the batch by steps");
            steps = true;
            rows[range[i].axis] = range_rows(import, &range[i]);
            extent[range[i].axis] = range[i].count;
            continue;
        }
        code = onnx_cut_out(import, &x, range[i].axis, range[i].first, range[i].count);
        if (code)
            return code;
        extent[range[i].axis] = range[i].count;
    }
    if (steps && !import->error.code && take_axes(import, &x, rows, extent))
        return import->error.code ? import->error.code : import->graph->error.code;
    *onnx_output(import, 0) = x;
    return import->error.code;
}

/* Where number i of a padded axis is taken; -1: it is 0. */
static int64_t padded_place(const char *mode, int64_t at, int64_t extent)
{
    if (at >= 0 && at < extent)
        return at;
    if (strcmp(mode, "edge") == 0)
        return at < 0 ? 0 : extent - 1;
    if (strcmp(mode, "wrap") == 0)
        return (at % extent + extent) % extent;
    if (strcmp(mode, "reflect") == 0 && extent > 1) {
        int64_t period = 2 * (extent - 1);

        at = (at % period + period) % period;
        return at < extent ? at : period - at;
    }
    return -1;
}

/* The rows of a padded axis. What is cut off at an end (a negative number) is gone before the other
 * one is padded, as in PyTorch and onnxruntime. */
static void padded_rows(const char *mode, int64_t before, int64_t behind, int64_t extent,
                        int64_t *rows)
{
    int64_t cut = before < 0 ? -before : 0, kept = extent - cut + (behind < 0 ? behind : 0);

    for (int64_t i = 0; i < extent + before + behind; i++) {
        int64_t place = kept > 0 ? padded_place(mode, i - before - cut, kept) : -1;

        rows[i] = place < 0 ? -1 : place + cut;
    }
}

int onnx_pad(struct onnx_import *import, struct onnx_value *value, const char *mode,
             const int64_t *before, const int64_t *behind)
{
    enum { PADDED_MAX = 1 << 24 };
    int64_t *rows[ONNX_RANK_MAX] = {0}, extent[ONNX_RANK_MAX] = {0};

    memcpy(extent, value->extent, sizeof extent);
    for (int r = 0; r < value->rank; r++) {
        if (!before[r] && !behind[r])
            continue;
        if (value->extent[r] >= ONNX_BATCH)
            return onnx_missing(import, "of the batch"), -ENOTSUP;
        if (before[r] < -PADDED_MAX || before[r] > PADDED_MAX || behind[r] < -PADDED_MAX ||
            behind[r] > PADDED_MAX || value->extent[r] + before[r] + behind[r] < 1)
            return onnx_fail(import, "axis %d cannot be padded so", r);
        extent[r] += before[r] + behind[r];
        rows[r] = onnx_allocate(import, (size_t)extent[r], sizeof **rows);
        if (!rows[r])
            return import->error.code;
        padded_rows(mode, before[r], behind[r], value->extent[r], rows[r]);
    }
    return take_axes(import, value, rows, extent);
}

static int append_pad(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t pads[2 * ONNX_RANK_MAX], axes[ONNX_RANK_MAX], before[ONNX_RANK_MAX] = {0};
    int64_t behind[ONNX_RANK_MAX] = {0};
    int count = onnx_integers(import, "pads", 1, pads, 2 * ONNX_RANK_MAX);
    int axis_count = onnx_integers(import, "axes", 3, axes, ONNX_RANK_MAX);
    const struct onnx_value *number = onnx_input(import, 2);
    char text[16];
    const char *mode = onnx_attribute_text(import, "mode", "constant", text, sizeof text);

    if (import->error.code)
        return import->error.code;
    if (axis_count < 0)
        for (axis_count = 0; axis_count < x.rank; axis_count++)
            axes[axis_count] = axis_count;
    if (count != 2 * axis_count)
        return onnx_fail(import, "pads has %d numbers, not %d", count, 2 * axis_count);
    if (number->kind == ONNX_TENSOR ||
        (number->kind == ONNX_CONSTANT && strcmp(mode, "constant") == 0 &&
         (onnx_value_trains(number) || onnx_number(number, 0) != 0)))
        return onnx_missing(import, "with other numbers than 0");
    for (int i = 0; i < axis_count; i++) {
        int axis = onnx_axis(import, axes[i], x.rank);

        if (axis < 0)
            return import->error.code;
        before[axis] = pads[i];
        behind[axis] = pads[axis_count + i];
    }
    if (onnx_pad(import, &x, mode, before, behind))
        return import->error.code;
    *onnx_output(import, 0) = x;
    return 0;
}

/* Makes `count` axes of the one axis whose only number was taken. */
static int gathered(struct onnx_import *import, struct onnx_value *x, int axis, int count)
{
    int64_t extent[2 * ONNX_RANK_MAX];
    int rank = 0;

    if (x->rank + count - 1 > ONNX_RANK_MAX)
        return onnx_fail(import, "the result would have too many dimensions");
    for (int r = 0; r < x->rank; r++)
        for (int k = 0; r == axis ? k < count : k < 1; k++)
            extent[rank++] = r == axis ? 1 : x->extent[r];
    return onnx_reshape_to(import, x, rank, extent);
}

/* Rows of a matrix of weights by indices: an embedding. Else constant indices along an axis. */
static int append_gather(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), index = *onnx_input(import, 1);
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", 0), x.rank);
    int64_t count, *rows;

    if (axis < 0)
        return import->error.code;
    if (x.kind == ONNX_CONSTANT && x.rank == 2 && axis == 0 && index.kind == ONNX_TENSOR)
        return onnx_embed(import, &x, &index);
    if (x.kind != ONNX_TENSOR || index.kind != ONNX_CONSTANT)
        return onnx_missing(import, "by other than constant indices, or those of an embedding");
    count = onnx_value_elements(&index);
    if (count < 1 || count > TAKE_ROWS_MAX)
        return onnx_missing(import, "by %lld indices", (long long)count);
    rows = onnx_allocate(import, (size_t)count, sizeof *rows);
    for (int64_t i = 0; rows && i < count; i++) {
        rows[i] = onnx_integer(&index, i);
        rows[i] += rows[i] < 0 ? x.extent[axis] : 0;
        if (rows[i] < 0 || rows[i] >= x.extent[axis])
            return onnx_fail(import, "the index %lld is outside of 0 to %lld", (long long)rows[i],
                             (long long)x.extent[axis] - 1);
    }
    if (!rows)
        return import->error.code;
    if (count > 1) {
        if (onnx_take(import, &x, axis, axis + 1, rows, index.rank, index.extent) == 0)
            *onnx_output(import, 0) = x;
        return import->error.code;
    }
    if (onnx_cut_out(import, &x, axis, rows[0], 1))
        return import->error.code;
    return gathered(import, &x, axis, index.rank);
}

/* Axes of extent 1 are repeated, and new ones put before the others. */
static int append_expand(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t wanted[ONNX_RANK_MAX] = {0}, extent[ONNX_RANK_MAX] = {0};
    int rank = onnx_integers(import, "shape", 1, wanted, ONNX_RANK_MAX), more;

    if (import->error.code)
        return import->error.code;
    more = rank > x.rank ? rank - x.rank : 0;
    for (int r = 0; r < x.rank + more; r++)
        extent[r] = r < more ? 1 : x.extent[r - more];
    if (more && onnx_reshape_to(import, &x, rank, extent))
        return import->error.code;
    for (int r = 0; r < x.rank; r++) {
        int from = r - (x.rank - rank);

        if (from >= 0 && wanted[from] != 1)
            extent[r] = wanted[from];
    }
    if (onnx_expand(import, &x, extent) == 0)
        *onnx_output(import, 0) = x;
    return import->error.code;
}

/* Axes of more than one number become two: the repeats, and the axis. */
static int append_tile(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t repeats[ONNX_RANK_MAX] = {0}, apart[2 * ONNX_RANK_MAX] = {0};
    int64_t wide[2 * ONNX_RANK_MAX] = {0}, extent[ONNX_RANK_MAX] = {0};
    int count = onnx_integers(import, "repeats", 1, repeats, ONNX_RANK_MAX), rank = 0;

    if (import->error.code)
        return import->error.code;
    if (x.kind != ONNX_TENSOR || count != x.rank)
        return onnx_missing(import, "of other than samples, or with other than a repeat per axis");
    for (int r = 0; r < x.rank; r++) {
        bool batch = x.extent[r] >= ONNX_BATCH;

        if (repeats[r] < 1 || repeats[r] > TAKE_ROWS_MAX || (batch && repeats[r] != 1))
            return onnx_missing(import, "that repeats the batch, or too often");
        extent[r] = x.extent[r] * repeats[r];
        if (repeats[r] != 1 && x.extent[r] != 1) {
            apart[rank] = 1;
            wide[rank++] = repeats[r];
        }
        apart[rank] = x.extent[r];
        wide[rank++] = x.extent[r] == 1 ? repeats[r] : x.extent[r];
    }
    if (rank > ONNX_RANK_MAX)
        return onnx_missing(import, "along too many axes");
    if (onnx_reshape_to(import, &x, rank, apart) || onnx_expand(import, &x, wide) ||
        onnx_reshape_to(import, &x, count, extent))
        return import->error.code;
    *onnx_output(import, 0) = x;
    return 0;
}

/* Rows by the numbers of the first axes. */
static int append_gather_nd(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    const struct onnx_value *index = onnx_input(import, 1);
    const int first = import->alone; /* the axes begin behind the batch */
    struct onnx_value shape;
    int64_t *rows, count;
    int axes;

    if (x.kind != ONNX_TENSOR || index->kind != ONNX_CONSTANT)
        return onnx_missing(import, "by indices of the samples");
    shape = first ? onnx_without_batch(&x) : x;
    axes = onnx_listed_axes(import, &shape, index);
    if (axes < 1)
        return import->error.code;
    /* torch.onnx writes adaptive pools so whose windows differ */
    for (int r = 0; r < axes; r++)
        if (shape.extent[r] >= ONNX_BATCH)
            return onnx_missing(import, "along the batch; python -m traind.export writes adaptive "
                                        "pools without it");
    count = onnx_value_elements(index) / axes;
    rows = onnx_allocate(import, (size_t)count + 1, sizeof *rows);
    for (int64_t i = 0; rows && i < count && !import->error.code; i++)
        rows[i] = onnx_listed_row(import, &shape, index, i, axes);
    if (rows && !import->error.code &&
        onnx_take(import, &x, first, first + axes, rows, index->rank - 1, index->extent) == 0)
        *onnx_output(import, 0) = x;
    return import->error.code;
}

const struct onnx_operator_entry onnx_take_operators[] = {
    {"Slice", append_slice, 5, ONNX_TAKES_PENDING},
    {"Pad", append_pad, 4, 0},
    {"Gather", append_gather, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Expand", append_expand, 2, ONNX_TAKES_PENDING},
    {"GatherND", append_gather_nd, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Tile", append_tile, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {NULL, NULL, 0, 0},
};
