/* onnx_fold_whole.c: nodes that compute a constant as a whole: ranges, triangles, products and
 * reductions. See onnx_fold.h. */
#include "engine/onnx/onnx_fold.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int fold_range(struct onnx_import *import)
{
    const struct onnx_value *start = onnx_input(import, 0), *limit = onnx_input(import, 1),
                            *delta = onnx_input(import, 2);
    double from, step, numbers_wanted;
    int64_t count;
    void *numbers;

    if (onnx_value_elements(start) != 1 || onnx_value_elements(limit) != 1 ||
        onnx_value_elements(delta) != 1)
        return onnx_fail(import, "its operands must be one number each");
    if (onnx_integer(limit, 0) >= ONNX_BATCH)
        return onnx_missing(import, "up to the number of samples in a batch, which changes");
    from = onnx_number(start, 0);
    step = onnx_number(delta, 0);
    numbers_wanted = ceil((onnx_number(limit, 0) - from) / step);
    if (!(numbers_wanted < 1e9))
        return onnx_fail(import, "it has too many numbers");
    count = numbers_wanted > 0 ? (int64_t)numbers_wanted : 0;
    *onnx_output(import, 0) = onnx_constant_new(import, start->type, 1, &count, &numbers);
    for (int64_t i = 0; numbers && i < count; i++)
        if (onnx_type_is_float(start->type))
            ((double *)numbers)[i] = onnx_rounded(start->type, from + (double)i * step);
        else
            ((int64_t *)numbers)[i] = onnx_to_whole(from + (double)i * step);
    return import->error.code;
}

static int fold_trilu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), result;
    int64_t diagonal = onnx_has_input(import, 1) ? onnx_integer(onnx_input(import, 1), 0) : 0;
    bool upper = onnx_attribute_int(import, "upper", 1);
    int64_t elements, rows, columns;
    void *numbers;

    if (x.rank < 2)
        return onnx_missing(import, "of no matrix");
    result = onnx_constant_new(import, x.type, x.rank, x.extent, &numbers);
    rows = x.extent[x.rank - 2];
    columns = x.extent[x.rank - 1];
    elements = numbers ? onnx_value_elements(&x) : 0;
    for (int64_t i = 0; i < elements; i++) {
        int64_t row = i / columns % rows, column = i % columns;
        bool keeps = upper ? column - row >= diagonal : column - row <= diagonal;

        if (onnx_type_is_float(x.type))
            ((double *)numbers)[i] = keeps ? onnx_number(&x, i) : 0;
        else
            ((int64_t *)numbers)[i] = keeps ? onnx_integer(&x, i) : 0;
    }
    *onnx_output(import, 0) = result;
    return import->error.code;
}

/* The product of a first state of 0 and a parameter, which is 0. */
static int fold_mat_mul(struct onnx_import *import)
{
    const struct onnx_value *a = onnx_input(import, 0), *b = onnx_input(import, 1);
    int64_t extent[ONNX_RANK_MAX];
    struct onnx_value zero;
    void *numbers;

    if (!onnx_is_zero(a) && !onnx_is_zero(b))
        return onnx_missing(import, "it computes with constants alone");
    if (a->rank < 2 || b->rank != 2)
        return onnx_missing(import, "of constants of other dimensions");
    if (a->extent[a->rank - 1] != b->extent[0])
        return onnx_fail(import, "rows of %lld numbers meet a matrix of %lld",
                         (long long)a->extent[a->rank - 1], (long long)b->extent[0]);
    memcpy(extent, a->extent, sizeof extent);
    extent[a->rank - 1] = b->extent[1];
    zero = onnx_constant_new(import, a->type, 0, NULL, &numbers);
    zero.rank = a->rank;
    memcpy(zero.extent, extent, sizeof extent);
    memset(zero.stride, 0, sizeof zero.stride);
    *onnx_output(import, 0) = zero;
    return import->error.code;
}

/* Sums, products and extremes of all numbers of a constant: extents that are multiplied. */
static int fold_reduce(struct onnx_import *import)
{
    const struct onnx_value *x = onnx_input(import, 0);
    const char *name = import->node->proto->op_type;
    int64_t axes[ONNX_RANK_MAX], elements = onnx_value_elements(x), extent[ONNX_RANK_MAX];
    int count = onnx_integers(import, "axes", 1, axes, ONNX_RANK_MAX);
    int rank = onnx_attribute_int(import, "keepdims", 1) ? x->rank : 0;
    double number;
    int64_t whole;
    void *numbers;

    if (import->error.code)
        return import->error.code;
    if ((count > 0 && count != x->rank) ||
        (count <= 0 && onnx_attribute_int(import, "noop_with_empty_axes", 0)) || elements < 1 ||
        elements > 1 << 20 || onnx_value_trains(x))
        return onnx_missing(import, "of some axes of a constant");
    number = onnx_number(x, 0);
    whole = onnx_type_is_float(x->type) ? 0 : onnx_integer(x, 0);
    for (int64_t i = 1; i < elements; i++) {
        double next = onnx_number(x, i);
        int64_t next_whole = onnx_type_is_float(x->type) ? 0 : onnx_integer(x, i);

        if (strcmp(name, "ReduceProd") == 0) {
            number *= next;
            whole = (int64_t)((uint64_t)whole * (uint64_t)next_whole);
        } else if (strcmp(name, "ReduceMax") == 0) {
            number = fmax(number, next);
            whole = next_whole > whole ? next_whole : whole;
        } else if (strcmp(name, "ReduceMin") == 0) {
            number = fmin(number, next);
            whole = next_whole < whole ? next_whole : whole;
        } else {
            number += next;
            whole = (int64_t)((uint64_t)whole + (uint64_t)next_whole);
        }
    }
    for (int r = 0; r < rank; r++)
        extent[r] = 1;
    *onnx_output(import, 0) = onnx_constant_new(import, x->type, rank, extent, &numbers);
    if (numbers && onnx_type_is_float(x->type))
        *(double *)numbers = onnx_rounded(x->type, number);
    else if (numbers)
        *(int64_t *)numbers = whole;
    return import->error.code;
}

const struct onnx_fold_entry onnx_fold_whole[] = {
    {"Range", fold_range},      {"MatMul", fold_mat_mul},
    {"Trilu", fold_trilu},      {"ReduceProd", fold_reduce},
    {"ReduceSum", fold_reduce}, {"ReduceMax", fold_reduce},
    {"ReduceMin", fold_reduce}, {NULL, NULL},
};
