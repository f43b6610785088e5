/* onnx_constants.c: constants of a model, which are views of the file's numbers where they can be;
 * see onnx_value.h. */
#include "base/half.h"
#include "engine/onnx/onnx_value.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct onnx_value onnx_constant_of(const struct onnx_initializer *initializer)
{
    struct onnx_value value = {.kind = ONNX_CONSTANT,
                               .type = initializer->store.type,
                               .rank = initializer->rank,
                               .store = &initializer->store};
    int64_t stride = 1;

    for (int r = value.rank - 1; r >= 0; r--) {
        value.extent[r] = initializer->extent[r];
        value.stride[r] = stride;
        stride *= initializer->extent[r];
    }
    return value;
}

struct onnx_value onnx_constant_new(struct onnx_import *import, enum onnx_type type, int rank,
                                    const int64_t *extent, void **numbers)
{
    struct onnx_initializer made = {.rank = rank, .store = {.count = 1}};
    struct onnx_store *store = onnx_allocate(import, 1, sizeof *store);
    struct onnx_value value = {.kind = ONNX_UNKNOWN};

    *numbers = NULL;
    for (int r = 0; r < rank; r++) {
        made.extent[r] = extent[r];
        if (!onnx_shape_fits(rank, extent) || extent[r] > ONNX_COMPUTED_MAX ||
            (made.store.count *= extent[r]) > ONNX_COMPUTED_MAX) {
            onnx_fail(import, "a constant of more than %d numbers would have to be computed",
                      ONNX_COMPUTED_MAX);
            return value;
        }
    }
    import->computed += made.store.count;
    if (import->computed > ONNX_ALL_COMPUTED_MAX) {
        onnx_fail(import, "constants of more than %lld numbers would have to be computed together",
                  (long long)ONNX_ALL_COMPUTED_MAX);
        return value;
    }
    *numbers = onnx_allocate(import, (size_t)made.store.count + 1, sizeof(int64_t));
    if (!store || !*numbers)
        return value;
    *store = made.store;
    store->type = onnx_type_is_float(type) ? ONNX_DOUBLE : ONNX_INT64;
    store->data = *numbers;
    value = onnx_constant_of(&made);
    value.store = store;
    value.type = type;
    return value;
}

struct onnx_value onnx_without_batch(const struct onnx_value *value)
{
    struct onnx_value result = *value;

    result.rank--;
    memmove(result.extent, value->extent + 1, (size_t)result.rank * sizeof *result.extent);
    return result;
}

int64_t onnx_value_elements(const struct onnx_value *value)
{
    int64_t elements = 1;

    for (int r = 0; r < value->rank; r++)
        if (__builtin_mul_overflow(elements, value->extent[r], &elements))
            return INT64_MAX;
    return elements;
}

static float from_bfloat16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float number;

    memcpy(&number, &wide, sizeof number);
    return number;
}

/* The file's numbers need not be aligned. */
#define STORED(type_name)                                                             \
    ({                                                                                \
        type_name stored_;                                                            \
        memcpy(&stored_, (const char *)store->data + place * (int64_t)sizeof stored_, \
               sizeof stored_);                                                       \
        stored_;                                                                      \
    })

static int64_t store_integer(const struct onnx_store *store, int64_t place)
{
    switch (store->type) {
    case ONNX_UINT8:
    case ONNX_BOOL:
        return STORED(uint8_t);
    case ONNX_INT8:
        return STORED(int8_t);
    case ONNX_INT16:
        return STORED(int16_t);
    case ONNX_INT32:
        return STORED(int32_t);
    case ONNX_INT64:
        return STORED(int64_t);
    default:
        break;
    }
    return 0;
}

double onnx_store_number(const struct onnx_store *store, int64_t place)
{
    switch (store->type) {
    case ONNX_FLOAT:
        return (double)STORED(float);
    case ONNX_DOUBLE:
        return STORED(double);
    case ONNX_FLOAT16:
        return (double)half_to_float(STORED(uint16_t));
    case ONNX_BFLOAT16:
        return (double)from_bfloat16(STORED(uint16_t));
    default:
        return (double)store_integer(store, place);
    }
}

/* The part, and the place in its store, of number `index`. */
static const struct onnx_value *place_of(const struct onnx_value *value, int64_t index,
                                         int64_t *place)
{
    int64_t at[ONNX_RANK_MAX] = {0};

    for (int r = value->rank - 1; r >= 0; r--) {
        at[r] = index % value->extent[r];
        index /= value->extent[r];
    }
    while (value->part_count) {
        const struct onnx_value *part = value->parts;
        int axis = value->part_axis;

        for (; at[axis] >= part->extent[axis]; part++)
            at[axis] -= part->extent[axis];
        value = part;
    }
    *place = value->offset;
    for (int r = 0; r < value->rank; r++)
        *place += at[r] * value->stride[r];
    return value;
}

/* A damaged file gives nothing, or a tensor of samples, where one number is wanted. */
static bool has_numbers(const struct onnx_value *value)
{
    return value->kind == ONNX_CONSTANT && onnx_value_elements(value) > 0;
}

double onnx_number(const struct onnx_value *value, int64_t index)
{
    int64_t place;
    const struct onnx_value *part;

    if (!has_numbers(value))
        return 0;
    part = place_of(value, index, &place);
    return onnx_store_number(part->store, place);
}

int64_t onnx_integer(const struct onnx_value *value, int64_t index)
{
    int64_t place;
    const struct onnx_value *part;

    if (!has_numbers(value))
        return 0;
    part = place_of(value, index, &place);
    if (!onnx_type_is_float(part->store->type))
        return store_integer(part->store, place);
    double number = onnx_store_number(part->store, place);

    return number >= 0x1p63    ? INT64_MAX
           : number <= -0x1p63 ? INT64_MIN
           : isnan(number)     ? 0
                               : (int64_t)number;
}

bool onnx_is_picked(const struct onnx_value *value)
{
    return value->kind == ONNX_CONSTANT && !value->part_count && value->store &&
           value->store->source;
}

bool onnx_value_trains(const struct onnx_value *value)
{
    if (value->kind != ONNX_CONSTANT)
        return false;
    for (int i = 0; i < value->part_count; i++)
        if (onnx_value_trains(&value->parts[i]))
            return true;
    return !value->part_count && value->store->trains;
}

bool onnx_is_uniform(const struct onnx_value *value, double *number)
{
    int64_t elements = 1;

    if (value->kind != ONNX_CONSTANT || !onnx_type_is_float(value->type) || value->counts_samples ||
        onnx_value_trains(value))
        return false;
    for (int r = 0; r < value->rank; r++)
        if (value->part_count || value->stride[r])
            elements *= value->extent[r];
        else if (!value->extent[r])
            return false;
    if (elements < 1 || elements > ONNX_COMPUTED_MAX)
        return false;
    *number = onnx_number(value, 0);
    if (value->part_count || elements > 1)
        for (int64_t i = 1, all = onnx_value_elements(value); i < all && i < ONNX_COMPUTED_MAX; i++)
            if (onnx_number(value, i) != *number)
                return false;
    return true;
}

bool onnx_is_zero(const struct onnx_value *value)
{
    double number;

    return onnx_is_uniform(value, &number) && number == 0;
}

bool onnx_is_number_beside(const struct onnx_value *value, const struct onnx_value *like,
                           double *number)
{
    if (!onnx_is_uniform(value, number) || value->rank > like->rank - like->alone)
        return false;
    for (int r = 0; r < value->rank; r++)
        if (value->extent[r] != 1 && value->extent[r] != like->extent[r + like->rank - value->rank])
            return false;
    return true;
}

/* Applies the same change to every part. */
static struct onnx_value *parts_copy(struct onnx_import *import, struct onnx_value *value)
{
    size_t bytes = sizeof *value->parts;
    struct onnx_value *copy = onnx_allocate(import, (size_t)value->part_count, bytes);

    if (copy)
        memcpy(copy, value->parts, (size_t)value->part_count * bytes);
    value->parts = copy;
    return copy;
}

/* Of parts along the same axis: keeps those that the range meets. */
static int parts_slice(struct onnx_import *import, struct onnx_value *value, int64_t first,
                       int64_t count)
{
    struct onnx_value *parts = parts_copy(import, value);
    int axis = value->part_axis, kept = 0;
    int64_t begin = 0;

    if (!parts)
        return import->error.code;
    for (int i = 0; i < value->part_count; i++) {
        struct onnx_value part = parts[i];
        int64_t end = begin + part.extent[axis], from = first > begin ? first : begin,
                to = first + count < end ? first + count : end;

        if (from < to && onnx_constant_slice(import, &part, axis, from - begin, to - from, 1))
            return import->error.code;
        if (from < to)
            parts[kept++] = part;
        begin = end;
    }
    if (kept == 1) {
        *value = parts[0];
        return 0;
    }
    value->part_count = kept;
    value->extent[axis] = count;
    return 0;
}

/* Copies the numbers of the parts to a store of their own. */
int onnx_constant_join(struct onnx_import *import, struct onnx_value *value)
{
    int64_t elements = onnx_value_elements(value);
    struct onnx_value joined;
    void *numbers;

    if (!value->part_count)
        return 0;
    if (onnx_value_trains(value))
        return onnx_fail(import, "it computes with parameters that were cut or joined before");
    joined = onnx_constant_new(import, value->type, value->rank, value->extent, &numbers);
    if (!numbers)
        return import->error.code;
    for (int64_t i = 0; i < elements; i++)
        if (onnx_type_is_float(value->type))
            ((double *)numbers)[i] = onnx_number(value, i);
        else
            ((int64_t *)numbers)[i] = onnx_integer(value, i);
    *value = joined;
    return 0;
}

int onnx_constant_slice(struct onnx_import *import, struct onnx_value *value, int axis,
                        int64_t first, int64_t count, int64_t step)
{
    int64_t extent = value->extent[axis], last;

    /* what is read later is within the constant because each view of it is */
    if (count < 0 || __builtin_mul_overflow(count - (count > 0), step, &last) ||
        __builtin_add_overflow(first, last, &last) ||
        (count > 0 && (first < 0 || first >= extent || last < 0 || last >= extent)))
        return onnx_fail(import, "a part of axis %d ends beyond its %lld numbers", axis,
                         (long long)extent);
    if (value->part_count && axis == value->part_axis && step == 1 && count > 0)
        return parts_slice(import, value, first, count);
    if (value->part_count && axis != value->part_axis && count > 0) {
        struct onnx_value *parts = parts_copy(import, value);

        for (int i = 0; parts && i < value->part_count; i++)
            onnx_constant_slice(import, &parts[i], axis, first, count, step);
        value->extent[axis] = count;
        return import->error.code;
    }
    if (value->part_count && onnx_constant_join(import, value))
        return import->error.code;
    if (count > 0)
        value->offset += first * value->stride[axis];
    if (count > 1) /* else the stride does not matter, and might grow without end */
        value->stride[axis] *= step;
    value->extent[axis] = count;
    return 0;
}

/* Where numbers of a value that is itself picked stand in what it was picked from. */
static const int64_t *places_compose(struct onnx_import *import, const struct onnx_value *value,
                                     const int64_t *places, int64_t count)
{
    int64_t *composed = onnx_allocate(import, (size_t)count + 1, sizeof *composed), place;

    for (int64_t i = 0; composed && i < count; i++) {
        place_of(value, places[i], &place);
        composed[i] = value->store->places[place];
    }
    return composed;
}

struct onnx_value onnx_constant_picked(struct onnx_import *import, const struct onnx_value *value,
                                       int rank, const int64_t *extent, const int64_t *places)
{
    void *numbers;
    struct onnx_value picked = onnx_constant_new(import, value->type, rank, extent, &numbers);
    int64_t elements = numbers ? onnx_value_elements(&picked) : 0;
    struct onnx_value *source = numbers ? onnx_allocate(import, 1, sizeof *source) : NULL;
    struct onnx_store *store;

    for (int64_t i = 0; i < elements; i++)
        if (onnx_type_is_float(value->type))
            ((double *)numbers)[i] = onnx_number(value, places[i]);
        else
            ((int64_t *)numbers)[i] = onnx_integer(value, places[i]);
    if (!source || !onnx_value_trains(value))
        return picked;
    *source = *value;
    if (onnx_is_picked(value)) {
        *source = *value->store->source;
        places = places_compose(import, value, places, elements);
    }
    store = onnx_allocate(import, 1, sizeof *store);
    if (!store || !places)
        return picked;
    *store = *picked.store;
    store->trains = true;
    store->source = source;
    store->places = places;
    picked.store = store;
    return picked;
}

/* Reshapes a view in place where the axes allow it: groups of old and new axes with as many numbers
 * correspond, and within a group the old ones must lie one behind another. */
static bool view_reshape(struct onnx_value *value, int rank, const int64_t *extent)
{
    struct onnx_value result = *value;
    int old_rank = 0, begin = 0, end, new_begin = 0, new_end;
    int64_t old[ONNX_RANK_MAX], stride[ONNX_RANK_MAX];

    for (int r = 0; r < value->rank; r++)
        if (value->extent[r] != 1) {
            old[old_rank] = value->extent[r];
            stride[old_rank++] = value->stride[r];
        }
    result.rank = rank;
    for (int r = 0; r < rank; r++) {
        result.extent[r] = extent[r];
        result.stride[r] = 0;
    }
    for (; begin < old_rank && new_begin < rank; begin = end, new_begin = new_end) {
        int64_t numbers = old[begin], wanted = extent[new_begin];

        end = begin + 1;
        new_end = new_begin + 1;
        while (numbers != wanted)
            if (wanted < numbers && new_end < rank)
                wanted *= extent[new_end++];
            else if (numbers < wanted && end < old_rank)
                numbers *= old[end++];
            else
                return false;
        for (int k = begin; k + 1 < end; k++)
            if (stride[k] != stride[k + 1] * old[k + 1])
                return false;
        for (int64_t r = new_end - 1, step = stride[end - 1]; r >= new_begin; r--) {
            result.stride[r] = step;
            step *= extent[r];
        }
    }
    *value = result;
    return true;
}

/* Adds or drops axes of extent 1 in all parts. */
static bool parts_reshape(struct onnx_import *import, struct onnx_value *value, int rank,
                          const int64_t *extent)
{
    int64_t shape[ONNX_RANK_MAX];
    struct onnx_value *parts;
    int axis = -1, seen = 0, others = 0;

    /* the axis along which the parts lie must be there still, as the same among those above 1 */
    for (int r = 0; r < value->part_axis; r++)
        others += value->extent[r] > 1;
    for (int r = 0; r < rank && axis < 0; r++)
        if (extent[r] > 1 && seen++ == others && extent[r] == value->extent[value->part_axis])
            axis = r;
    if (axis < 0)
        return false;
    parts = parts_copy(import, value);
    for (int i = 0; parts && i < value->part_count; i++) {
        int64_t part_extent = parts[i].extent[value->part_axis];

        memcpy(shape, extent, (size_t)rank * sizeof *shape);
        shape[axis] = part_extent;
        if (parts[i].part_count || !view_reshape(&parts[i], rank, shape))
            return false;
    }
    value->rank = rank;
    value->part_axis = axis;
    memcpy(value->extent, extent, (size_t)rank * sizeof *extent);
    return parts != NULL;
}

int onnx_constant_reshape(struct onnx_import *import, struct onnx_value *value, int rank,
                          const int64_t *extent)
{
    struct onnx_value result = *value;
    int64_t elements = onnx_value_elements(value), *places;

    if (value->part_count ? parts_reshape(import, &result, rank, extent)
                          : view_reshape(&result, rank, extent)) {
        *value = result;
        return 0;
    }
    places = elements < ONNX_COMPUTED_MAX
                 ? onnx_allocate(import, (size_t)elements + 1, sizeof *places)
                 : NULL;
    if (!places)
        return import->error.code ? import->error.code : onnx_fail(import, "it is too large");
    for (int64_t i = 0; i < elements; i++)
        places[i] = i;
    *value = onnx_constant_picked(import, value, rank, extent, places);
    return import->error.code;
}

int onnx_constant_permute(struct onnx_import *import, struct onnx_value *value, const int *axes)
{
    struct onnx_value old = *value, *parts = value->part_count ? parts_copy(import, value) : NULL;

    for (int r = 0; r < old.rank; r++) {
        value->extent[r] = old.extent[axes[r]];
        value->stride[r] = old.stride[axes[r]];
        if (axes[r] == old.part_axis)
            value->part_axis = r;
    }
    for (int i = 0; parts && i < value->part_count; i++)
        onnx_constant_permute(import, &parts[i], axes);
    return import->error.code;
}
