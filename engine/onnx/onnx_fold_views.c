/* onnx_fold_views.c: nodes that only move constants: shapes, slices, transposed axes. Parameters
 * keep their names through them. See onnx_fold.h. */
#include "engine/onnx/onnx_fold.h"

#include <errno.h>
#include <string.h>

static int fold_constant(struct onnx_import *import)
{
    const Onnx__Attribute *tensor = onnx_attribute(import->node, "value");
    const Onnx__Attribute *one_int = onnx_attribute(import->node, "value_int");
    const Onnx__Attribute *one_float = onnx_attribute(import->node, "value_float");
    const Onnx__Attribute *ints = onnx_attribute(import->node, "value_ints");
    const Onnx__Attribute *floats = onnx_attribute(import->node, "value_floats");
    struct onnx_value *result = onnx_output(import, 0);
    bool whole = ints || one_int;
    int64_t count = ints ? (int64_t)ints->n_ints : floats ? (int64_t)floats->n_floats : 1;
    void *numbers;

    if (tensor && tensor->t) {
        struct onnx_initializer *made = onnx_allocate(import, 1, sizeof *made);

        if (!made || onnx_read_constant(import, tensor->t, made))
            return import->error.code;
        *result = onnx_constant_of(made);
        return 0;
    }
    if (!ints && !floats && !one_int && !one_float)
        return onnx_missing(import, "it has no number that traind reads");
    *result = onnx_constant_new(import, whole ? ONNX_INT64 : ONNX_FLOAT, ints || floats, &count,
                                &numbers);
    for (int64_t i = 0; numbers && i < count; i++)
        if (whole)
            ((int64_t *)numbers)[i] = ints ? ints->ints[i] : one_int->i;
        else
            ((double *)numbers)[i] = (double)(floats ? floats->floats[i] : one_float->f);
    return import->error.code;
}

static int fold_shape(struct onnx_import *import)
{
    const struct onnx_value whole = *onnx_input(import, 0),
                            without = whole.alone ? onnx_without_batch(&whole) : whole,
                            *x = &without;
    int64_t begin = onnx_attribute_int(import, "start", 0);
    int64_t end = onnx_attribute_int(import, "end", x->rank), count;
    void *numbers;

    begin = begin < 0 ? begin + x->rank : begin;
    end = end < 0 ? end + x->rank : end;
    begin = begin < 0 ? 0 : begin > x->rank ? x->rank : begin;
    end = end < begin ? begin : end > x->rank ? x->rank : end;
    count = end - begin;
    *onnx_output(import, 0) = onnx_constant_new(import, ONNX_INT64, 1, &count, &numbers);
    if (numbers)
        memcpy(numbers, x->extent + begin, (size_t)count * sizeof(int64_t));
    return import->error.code;
}

static int fold_size(struct onnx_import *import)
{
    const struct onnx_value *x = onnx_input(import, 0);
    const struct onnx_value without = x->alone ? onnx_without_batch(x) : *x;
    int64_t elements = onnx_value_elements(&without);
    void *numbers;

    *onnx_output(import, 0) = onnx_constant_new(import, ONNX_INT64, 0, NULL, &numbers);
    if (numbers)
        *(int64_t *)numbers = elements;
    return import->error.code;
}

static int fold_identity(struct onnx_import *import)
{
    *onnx_output(import, 0) = *onnx_input(import, 0);
    return 0;
}

static int fold_reshape(struct onnx_import *import)
{
    struct onnx_value value = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    int rank = onnx_new_shape(import, &value, extent);

    if (rank >= 0 && onnx_constant_reshape(import, &value, rank, extent) == 0)
        *onnx_output(import, 0) = value;
    return import->error.code;
}

static int fold_transpose(struct onnx_import *import)
{
    struct onnx_value value = *onnx_input(import, 0);
    int axes[ONNX_RANK_MAX];

    if (onnx_new_order(import, &value, axes) == 0 &&
        onnx_constant_permute(import, &value, axes) == 0)
        *onnx_output(import, 0) = value;
    return import->error.code;
}

static int fold_slice(struct onnx_import *import)
{
    struct onnx_value value = *onnx_input(import, 0);
    struct onnx_range range[ONNX_RANK_MAX];
    int count = onnx_slice_ranges(import, &value, range);

    for (int i = 0; i < count && !import->error.code; i++)
        onnx_constant_slice(import, &value, range[i].axis, range[i].first, range[i].count,
                            range[i].step);
    *onnx_output(import, 0) = value;
    return import->error.code;
}

static int fold_split(struct onnx_import *import)
{
    const struct onnx_value *x = onnx_input(import, 0);
    int64_t widths[ONNX_SPLIT_MAX], first = 0;
    int axis, count = onnx_split_widths(import, x, &axis, widths);

    for (int i = 0; i < count && !import->error.code; i++) {
        struct onnx_value part = *x;

        onnx_constant_slice(import, &part, axis, first, widths[i], 1);
        *onnx_output(import, i) = part;
        first += widths[i];
    }
    return import->error.code;
}

static int fold_split_to_sequence(struct onnx_import *import)
{
    const struct onnx_value *x = onnx_input(import, 0);
    struct onnx_value *parts = onnx_allocate(import, ONNX_SPLIT_MAX, sizeof *parts);
    int64_t widths[ONNX_SPLIT_MAX], first = 0;
    int axis, count = parts ? onnx_sequence_widths(import, x, &axis, widths) : 0;

    if (count < 1)
        return import->error.code;
    for (int i = 0; i < count && !import->error.code; i++) {
        parts[i] = *x;
        onnx_constant_slice(import, &parts[i], axis, first, widths[i], 1);
        first += widths[i];
    }
    *onnx_output(import, 0) =
        (struct onnx_value){.kind = ONNX_SEQUENCE, .parts = parts, .part_count = count};
    return import->error.code;
}

/* Whether the indices count up from one that is not negative. */
static bool is_run(const struct onnx_value *index, int64_t count)
{
    int64_t first = count > 0 ? onnx_integer(index, 0) : -1;

    for (int64_t i = 1; i < count && first >= 0; i++)
        if (onnx_integer(index, i) != first + i)
            return false;
    return first >= 0;
}

/* Makes the numbers at `places` (NULL: none, and the error is kept) the node's output. */
static int pick(struct onnx_import *import, const struct onnx_value *value, int rank,
                const int64_t *extent, const int64_t *places)
{
    if (!places)
        return import->error.code ? import->error.code : onnx_fail(import, "it is too large");
    *onnx_output(import, 0) = onnx_constant_picked(import, value, rank, extent, places);
    return import->error.code;
}

/* The places of what indices along an axis pick. */
static const int64_t *gather_places(struct onnx_import *import, const struct onnx_value *value,
                                    int axis, const struct onnx_value *index)
{
    int64_t inner = 1, outer = 1, count = onnx_value_elements(index), *places;

    for (int r = 0; r < value->rank; r++)
        if (r != axis)
            *(r < axis ? &outer : &inner) *= value->extent[r];
    if (outer * inner > INT32_MAX || count > INT32_MAX / (outer * inner + 1)) /* a shape fits */
        return NULL;
    places = onnx_allocate(import, (size_t)(outer * count * inner) + 1, sizeof *places);
    for (int64_t i = 0; places && i < outer * count * inner; i++) {
        int64_t at = onnx_integer(index, i / inner % count);

        at += at < 0 ? value->extent[axis] : 0;
        places[i] = (i / inner / count * value->extent[axis] + at) * inner + i % inner;
    }
    return places;
}

static int gather(struct onnx_import *import, struct onnx_value value, struct onnx_value index);

/* Indices that repeat for each sample, such as the kind of each symbol where all are of one, pick
 * the same rows: these repeat then. */
static int fold_gather(struct onnx_import *import)
{
    struct onnx_value value = *onnx_input(import, 0), index = *onnx_input(import, 1), *result;
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", 0), value.rank), code;
    int64_t batch =
        index.rank > 0 && !index.part_count && index.stride[0] == 0 && index.extent[0] >= ONNX_BATCH
            ? index.extent[0]
            : 0;

    if (axis < 0)
        return import->error.code;
    if (batch)
        index.extent[0] = 1;
    code = gather(import, value, index);
    result = onnx_output(import, 0);
    if (code || !batch || result->kind != ONNX_CONSTANT)
        return code;
    if (result->part_count)
        return onnx_missing(import, "of joined parameters, once for each sample");
    result->extent[axis] = batch;
    result->stride[axis] = 0;
    return onnx_shape_fits(result->rank, result->extent)
               ? 0
               : onnx_fail(import, "a constant of such a shape is impossible");
}

/* A single index is a slice, and so are indices that count up; others copy. */
static int gather(struct onnx_import *import, struct onnx_value value, struct onnx_value index)
{
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", 0), value.rank);
    int64_t extent[2 * ONNX_RANK_MAX], count = onnx_value_elements(&index);
    int rank = 0;

    if (axis < 0)
        return import->error.code;
    if (value.rank + index.rank - 1 > ONNX_RANK_MAX)
        return onnx_fail(import, "the result would have too many dimensions");
    if (count > ONNX_COMPUTED_MAX)
        return onnx_fail(import, "it has too many indices");
    for (int64_t i = 0; i < count; i++) {
        int64_t at = onnx_integer(&index, i);

        if (at < -value.extent[axis] || at >= value.extent[axis])
            return onnx_fail(import, "the index %lld is outside of 0 to %lld", (long long)at,
                             (long long)value.extent[axis] - 1);
    }
    for (int r = 0; r < axis; r++)
        extent[rank++] = value.extent[r];
    for (int r = 0; r < index.rank; r++)
        extent[rank++] = index.extent[r];
    for (int r = axis + 1; r < value.rank; r++)
        extent[rank++] = value.extent[r];
    if (count == 1) {
        int64_t at = onnx_integer(&index, 0);

        at = at < 0 ? at + value.extent[axis] : at;
        if (onnx_constant_slice(import, &value, axis, at, 1, 1) ||
            onnx_constant_reshape(import, &value, rank, extent))
            return import->error.code;
        *onnx_output(import, 0) = value;
        return 0;
    }
    if (is_run(&index, count)) { /* such as the positions 0, 1, 2, … */
        if (onnx_constant_slice(import, &value, axis, onnx_integer(&index, 0), count, 1) ||
            onnx_constant_reshape(import, &value, rank, extent))
            return import->error.code;
        *onnx_output(import, 0) = value;
        return 0;
    }
    return pick(import, &value, rank, extent, gather_places(import, &value, axis, &index));
}

/* Numbers of the axes from `first` on. */
static int64_t numbers_from(const struct onnx_value *value, int first)
{
    int64_t product = 1;

    for (int r = first; r < value->rank; r++)
        if (__builtin_mul_overflow(product, value->extent[r], &product))
            return 0;
    return product;
}

/* Rows of a constant by the numbers of its first axes. */
static int fold_gather_nd(struct onnx_import *import)
{
    const struct onnx_value *value = onnx_input(import, 0), *index = onnx_input(import, 1);
    int64_t extent[ONNX_RANK_MAX], row, count, *places;
    int axes = onnx_listed_axes(import, value, index), rank = 0;

    if (axes < 1)
        return import->error.code;
    count = onnx_value_elements(index) / axes;
    row = numbers_from(value, axes);
    for (int r = 0; r < index->rank - 1; r++)
        extent[rank++] = index->extent[r];
    for (int r = axes; r < value->rank; r++)
        extent[rank++] = value->extent[r];
    places = row > 0 && count <= INT32_MAX / row
                 ? onnx_allocate(import, (size_t)(count * row) + 1, sizeof *places)
                 : NULL;
    for (int64_t i = 0; places && i < count; i++) {
        int64_t first = onnx_listed_row(import, value, index, i, axes) * row;

        if (import->error.code)
            return import->error.code;
        for (int64_t k = 0; k < row; k++)
            places[i * row + k] = first + k;
    }
    return pick(import, value, rank, extent, places);
}

/* A constant of which rows are replaced, as masks are made. */
static int fold_scatter_nd(struct onnx_import *import)
{
    const struct onnx_value *value = onnx_input(import, 0), *index = onnx_input(import, 1);
    const struct onnx_value *updates = onnx_input(import, 2);
    int64_t row, count, wanted, elements = onnx_value_elements(value);
    int axes = onnx_listed_axes(import, value, index);
    struct onnx_value made;
    void *numbers;
    char text[8];

    if (axes < 1)
        return import->error.code;
    count = onnx_value_elements(index) / axes;
    row = numbers_from(value, axes);
    if (onnx_value_trains(value) || onnx_value_trains(updates) ||
        strcmp(onnx_attribute_text(import, "reduction", "none", text, sizeof text), "none") != 0)
        return onnx_missing(import, "of parameters, or with a reduction");
    if (__builtin_mul_overflow(count, row, &wanted) || onnx_value_elements(updates) != wanted)
        return onnx_fail(import, "its updates are not as many as its indices want");
    made = onnx_constant_new(import, value->type, value->rank, value->extent, &numbers);
    for (int64_t i = 0; numbers && i < elements; i++)
        if (onnx_type_is_float(value->type))
            ((double *)numbers)[i] = onnx_number(value, i);
        else
            ((int64_t *)numbers)[i] = onnx_integer(value, i);
    for (int64_t i = 0; numbers && i < count; i++) {
        int64_t first = onnx_listed_row(import, value, index, i, axes) * row;

        if (import->error.code)
            return import->error.code;
        for (int64_t k = 0; k < row; k++)
            if (onnx_type_is_float(value->type))
                ((double *)numbers)[first + k] = onnx_number(updates, i * row + k);
            else
                ((int64_t *)numbers)[first + k] = onnx_integer(updates, i * row + k);
    }
    *onnx_output(import, 0) = made;
    return import->error.code;
}

/* Puts the parts of a joined part in its place. */
static int parts_add(struct onnx_value *parts, int count, const struct onnx_value *value, int axis)
{
    if (!value->part_count || value->part_axis != axis) {
        if (count < ONNX_PARTS_MAX)
            parts[count] = *value;
        return count + 1;
    }
    for (int i = 0; i < value->part_count; i++)
        count = parts_add(parts, count, &value->parts[i], axis);
    return count;
}

/* Copies the node's inputs one behind another along the axis. */
static int concat_copy(struct onnx_import *import, const struct onnx_value *shape, int axis)
{
    int64_t inner = 1, outer = 1, before = 0, wide = shape->extent[axis];
    void *numbers;
    struct onnx_value made =
        onnx_constant_new(import, shape->type, shape->rank, shape->extent, &numbers);

    if (!numbers)
        return import->error.code;
    for (int r = 0; r < shape->rank; r++)
        *(r < axis ? &outer : &inner) *= r == axis ? 1 : shape->extent[r];
    for (int i = 0; i < import->node->input_count; i++) {
        const struct onnx_value *x = onnx_input(import, i);
        int64_t row = x->extent[axis] * inner;

        for (int64_t k = 0; k < outer * row; k++) {
            int64_t to = (k / row * wide + before) * inner + k % row;

            if (onnx_type_is_float(shape->type))
                ((double *)numbers)[to] = onnx_number(x, k);
            else
                ((int64_t *)numbers)[to] = onnx_integer(x, k);
        }
        before += x->extent[axis];
    }
    *onnx_output(import, 0) = made;
    return 0;
}

static int fold_concat(struct onnx_import *import)
{
    const struct onnx_value *first = onnx_input(import, 0);
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", 0), first->rank), count = 0;
    struct onnx_value *parts = onnx_allocate(import, ONNX_PARTS_MAX, sizeof *parts),
                      result = *first;
    bool trains = false;

    if (axis < 0 || !parts)
        return import->error.code;
    result.extent[axis] = 0;
    for (int i = 0; i < import->node->input_count; i++) {
        const struct onnx_value *x = onnx_input(import, i);

        if (x->rank != first->rank)
            return onnx_fail(import, "its inputs have %d and %d dimensions", first->rank, x->rank);
        for (int r = 0; r < x->rank; r++)
            if (r != axis && x->extent[r] != first->extent[r])
                return onnx_fail(import, "its inputs differ before or behind axis %d", axis);
        if (__builtin_add_overflow(result.extent[axis], x->extent[axis], &result.extent[axis]))
            return onnx_fail(import, "a constant of such a shape is impossible");
        trains |= onnx_value_trains(x);
        if (x->extent[axis] > 0)
            count = parts_add(parts, count, x, axis);
    }
    if (!onnx_shape_fits(result.rank, result.extent))
        return onnx_fail(import, "a constant of such a shape is impossible");
    if (count == 1) {
        *onnx_output(import, 0) = parts[0];
        return 0;
    }
    if (trains && count > ONNX_PARTS_MAX)
        return onnx_missing(import, "it joins more than %d parameters", ONNX_PARTS_MAX);
    if (!trains)
        return concat_copy(import, &result, axis);
    result.parts = parts;
    result.part_axis = axis;
    result.part_count = count;
    *onnx_output(import, 0) = result;
    return 0;
}

/* Repeats by strides of 0, so that a batch of constants costs nothing. */
static int fold_expand(struct onnx_import *import)
{
    struct onnx_value value = *onnx_input(import, 0), result;
    int64_t wanted[ONNX_RANK_MAX];
    int rank = onnx_integers(import, "shape", 1, wanted, ONNX_RANK_MAX);

    if (rank < 0 || onnx_constant_join(import, &value))
        return import->error.code;
    result = value;
    result.rank = rank > value.rank ? rank : value.rank;
    for (int r = 0; r < result.rank; r++) {
        int from = r - (result.rank - value.rank), to = r - (result.rank - rank);
        int64_t have = from >= 0 ? value.extent[from] : 1, want = to >= 0 ? wanted[to] : 1;

        if (have != 1 && want != 1 && have != want)
            return onnx_fail(import, "an extent of %s cannot be expanded to %s",
                             onnx_extent_text(have).text, onnx_extent_text(want).text);
        result.extent[r] = have == 1 ? want : have;
        result.stride[r] = from >= 0 && have != 1 ? value.stride[from] : 0;
    }
    if (!onnx_shape_fits(result.rank, result.extent))
        return onnx_fail(import, "a constant of such a shape is impossible");
    *onnx_output(import, 0) = result;
    return 0;
}

/* An axis of extent 1 is repeated by a stride of 0, others as two axes that are joined. */
static int fold_tile(struct onnx_import *import)
{
    struct onnx_value value = *onnx_input(import, 0);
    int64_t repeats[ONNX_RANK_MAX], extent[ONNX_RANK_MAX + 1];
    int count = onnx_integers(import, "repeats", 1, repeats, ONNX_RANK_MAX);

    if (count < 0 || onnx_constant_join(import, &value))
        return import->error.code;
    if (count != value.rank)
        return onnx_fail(import, "it has %d repeats for %d dimensions", count, value.rank);
    for (int r = 0; r < value.rank && !import->error.code; r++) {
        struct onnx_value apart = value;

        if (repeats[r] == 1)
            continue;
        if (value.extent[r] > 1 && repeats[r] >= ONNX_BATCH)
            return onnx_missing(import, "that repeats %lld numbers along the batch",
                                (long long)value.extent[r]);
        if (repeats[r] < 1 || value.rank == ONNX_RANK_MAX ||
            (value.extent[r] > 1 &&
             (repeats[r] > INT32_MAX || value.extent[r] > INT32_MAX / repeats[r])))
            return onnx_missing(import, "that repeats %lld numbers %lld times",
                                (long long)value.extent[r], (long long)repeats[r]);
        if (value.extent[r] == 1) {
            value.extent[r] = repeats[r];
            value.stride[r] = 0;
            continue;
        }
        for (int k = value.rank++; k > r; k--) {
            value.extent[k] = apart.extent[k - 1];
            value.stride[k] = apart.stride[k - 1];
        }
        value.extent[r] = repeats[r];
        value.stride[r] = 0;
        memcpy(extent, apart.extent, (size_t)apart.rank * sizeof *extent);
        extent[r] *= repeats[r];
        onnx_constant_reshape(import, &value, apart.rank, extent);
    }
    if (onnx_value_elements(&value) == INT64_MAX)
        return onnx_fail(import, "a constant of such a shape is impossible");
    *onnx_output(import, 0) = value;
    return import->error.code;
}

static int fold_constant_of_shape(struct onnx_import *import)
{
    const Onnx__Attribute *given = onnx_attribute(import->node, "value");
    struct onnx_initializer *made = onnx_allocate(import, 1, sizeof *made);
    struct onnx_value value;
    int64_t extent[ONNX_RANK_MAX];
    int rank = onnx_integers(import, "shape", 0, extent, ONNX_RANK_MAX);
    void *numbers;

    if (rank < 0 || !made)
        return import->error.code;
    if (given && given->t) {
        if (onnx_read_constant(import, given->t, made))
            return import->error.code;
        if (made->store.count != 1)
            return onnx_fail(import, "its value must be one number");
        value = onnx_constant_of(made);
    } else {
        value = onnx_constant_new(import, ONNX_FLOAT, 0, NULL, &numbers);
    }
    if (!onnx_shape_fits(rank, extent))
        return onnx_fail(import, "a constant of such a shape is impossible");
    value.rank = rank;
    for (int r = 0; r < rank; r++) {
        value.extent[r] = extent[r];
        value.stride[r] = 0;
    }
    *onnx_output(import, 0) = value;
    return import->error.code;
}

static int fold_axes(struct onnx_import *import, bool inserts)
{
    struct onnx_value value = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    int rank = onnx_changed_axes(import, &value, inserts, extent);

    if (rank >= 0 && onnx_constant_reshape(import, &value, rank, extent) == 0)
        *onnx_output(import, 0) = value;
    return import->error.code;
}

static int fold_squeeze(struct onnx_import *import)
{
    return fold_axes(import, false);
}

static int fold_unsqueeze(struct onnx_import *import)
{
    return fold_axes(import, true);
}

static int fold_flatten(struct onnx_import *import)
{
    struct onnx_value value = *onnx_input(import, 0);
    int64_t axis = onnx_attribute_int(import, "axis", 1), extent[2] = {1, 1};

    axis = axis < 0 ? axis + value.rank : axis;
    if (axis < 0 || axis > value.rank)
        return onnx_fail(import, "there is no axis %lld", (long long)axis);
    for (int r = 0; r < value.rank; r++)
        extent[r >= axis] *= value.extent[r];
    if (onnx_constant_reshape(import, &value, 2, extent) == 0)
        *onnx_output(import, 0) = value;
    return import->error.code;
}

const struct onnx_fold_entry onnx_fold_views[] = {
    {"Constant", fold_constant},
    {"Shape", fold_shape},
    {"Size", fold_size},
    {"Identity", fold_identity},
    {"Dropout", fold_identity},
    {"Reshape", fold_reshape},
    {"Transpose", fold_transpose},
    {"Slice", fold_slice},
    {"Split", fold_split},
    {"SplitToSequence", fold_split_to_sequence},
    {"Gather", fold_gather},
    {"GatherND", fold_gather_nd},
    {"ScatterND", fold_scatter_nd},
    {"Concat", fold_concat},
    {"Expand", fold_expand},
    {"Tile", fold_tile},
    {"ConstantOfShape", fold_constant_of_shape},
    {"Squeeze", fold_squeeze},
    {"Unsqueeze", fold_unsqueeze},
    {"Flatten", fold_flatten},
    {NULL, NULL},
};
