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

/* Makes a constant the present node's output, with the axes of extent 1 repeated to `extent`. */
static int give_repeated(struct onnx_import *import, struct onnx_value value, const int64_t *extent,
                         bool counts_samples)
{
    for (int r = 0; r < value.rank; r++) {
        if (value.extent[r] == 1)
            value.stride[r] = 0;
        value.extent[r] = extent[r];
    }
    if (!onnx_shape_fits(value.rank, value.extent))
        return onnx_fail(import, "a constant of such a shape is impossible");
    value.counts_samples = counts_samples;
    *onnx_output(import, 0) = value;
    return 0;
}

/* ---- products ---- */

enum { STEPS_MAX = 1 << 24 }; /* numbers that are multiplied, or reduced: within a second */

/* A product of stacks of matrices. Axes along which an operand repeats are computed once. */
struct product {
    int rank;
    int64_t extent[ONNX_RANK_MAX];                          /* of the result */
    int64_t compact[ONNX_RANK_MAX];                         /* the same without repeats */
    int64_t depth, stride[2][ONNX_RANK_MAX], depth_step[2]; /* of both operands */
};

/* The axis of an operand that axis r of the result has, if it is one of matrices; -1: none. */
static int stack_axis(const struct product *product, const struct onnx_value *value, int r)
{
    int own = r - (product->rank - value->rank);

    return r < product->rank - 2 && own >= 0 ? own : -1;
}

/* False: the error is kept. */
static bool product_read(struct onnx_import *import, const struct onnx_value value[2],
                         struct product *product)
{
    const int64_t *last[2] = {value[0].extent + value[0].rank - 2,
                              value[1].extent + value[1].rank - 2};
    const int64_t *step[2] = {value[0].stride + value[0].rank - 2,
                              value[1].stride + value[1].rank - 2};
    int rank = value[0].rank > value[1].rank ? value[0].rank : value[1].rank;

    *product =
        (struct product){.rank = rank, .depth = last[0][1], .depth_step = {step[0][1], step[1][0]}};
    if (last[0][1] != last[1][0])
        return onnx_fail(import, "rows of %s numbers meet a matrix of %s",
                         onnx_extent_text(last[0][1]).text, onnx_extent_text(last[1][0]).text),
               false;
    for (int i = 0; i < 2; i++) {
        product->extent[rank - 2 + i] = product->compact[rank - 2 + i] = last[i][i];
        product->stride[i][rank - 2 + i] = step[i][i];
    }
    for (int r = 0; r < rank - 2; r++) {
        product->extent[r] = product->compact[r] = 1;
        for (int i = 0; i < 2; i++) {
            int own = stack_axis(product, &value[i], r);
            int64_t extent = own < 0 ? 1 : value[i].extent[own];

            if (extent == 1)
                continue;
            if (product->extent[r] != 1 && product->extent[r] != extent)
                return onnx_fail(import, "stacks of %s and %s matrices",
                                 onnx_extent_text(product->extent[r]).text,
                                 onnx_extent_text(extent).text),
                       false;
            product->extent[r] = extent;
            product->stride[i][r] = value[i].stride[own];
            if (product->stride[i][r])
                product->compact[r] = extent;
        }
    }
    return true;
}

static double product_number(const struct product *product, const struct onnx_value value[2],
                             int64_t index)
{
    int64_t place[2] = {value[0].offset, value[1].offset};
    double sum = 0;

    for (int r = product->rank - 1; r >= 0; r--) {
        for (int i = 0; i < 2; i++)
            place[i] += index % product->compact[r] * product->stride[i][r];
        index /= product->compact[r];
    }
    for (int64_t k = 0; k < product->depth; k++)
        sum += onnx_store_number(value[0].store, place[0] + k * product->depth_step[0]) *
               onnx_store_number(value[1].store, place[1] + k * product->depth_step[1]);
    return sum;
}

/* Constants that are none that train; and a first state of 0 times a parameter, which is 0. */
static int fold_mat_mul(struct onnx_import *import)
{
    struct onnx_value value[2] = {*onnx_input(import, 0), *onnx_input(import, 1)}, result;
    bool zero = onnx_is_zero(&value[0]) || onnx_is_zero(&value[1]);
    struct product product;
    int64_t steps;
    void *numbers;

    if (value[0].rank < 2 || value[1].rank < 2 || !onnx_type_is_float(value[0].type))
        return onnx_missing(import, "of constants of other dimensions, or of whole numbers");
    for (int i = 0; i < 2; i++)
        if (zero && value[i].part_count)
            value[i].part_count = 0; /* its numbers do not matter */
        else if (!zero && onnx_value_trains(&value[i]))
            return onnx_missing(import, "it computes with constants alone");
        else if (onnx_constant_join(import, &value[i]))
            return import->error.code;
    if (!product_read(import, value, &product))
        return import->error.code;
    for (int r = 0; r < product.rank && zero; r++)
        product.compact[r] = 1;
    result = onnx_constant_new(import, value[0].type, product.rank, product.compact, &numbers);
    if (!numbers)
        return import->error.code;
    if (!zero && (__builtin_mul_overflow(onnx_value_elements(&result), product.depth, &steps) ||
                  steps > STEPS_MAX))
        return onnx_missing(import, "it computes with constants that are too large");
    for (int64_t i = 0; !zero && i < onnx_value_elements(&result); i++)
        ((double *)numbers)[i] = onnx_rounded(value[0].type, product_number(&product, value, i));
    return give_repeated(import, result, product.extent,
                         value[0].counts_samples || value[1].counts_samples);
}

/* ---- reductions ---- */

enum reduction { REDUCE_SUM, REDUCE_MEAN, REDUCE_PRODUCT, REDUCE_MAX, REDUCE_MIN };

static enum reduction reduction_of(const char *name)
{
    return strcmp(name, "ReduceMean") == 0   ? REDUCE_MEAN
           : strcmp(name, "ReduceProd") == 0 ? REDUCE_PRODUCT
           : strcmp(name, "ReduceMax") == 0  ? REDUCE_MAX
           : strcmp(name, "ReduceMin") == 0  ? REDUCE_MIN
                                             : REDUCE_SUM;
}

static double reduce_numbers(enum reduction kind, double a, double b)
{
    return kind == REDUCE_PRODUCT ? a * b
           : kind == REDUCE_MAX   ? fmax(a, b)
           : kind == REDUCE_MIN   ? fmin(a, b)
                                  : a + b;
}

static int64_t reduce_whole(enum reduction kind, int64_t a, int64_t b)
{
    return kind == REDUCE_PRODUCT ? (int64_t)((uint64_t)a * (uint64_t)b)
           : kind == REDUCE_MAX   ? (a > b ? a : b)
           : kind == REDUCE_MIN   ? (a < b ? a : b)
                                  : (int64_t)((uint64_t)a + (uint64_t)b);
}

/* The number of the result that number `index` of x is a part of, and whether it is the first. */
static int64_t reduced_place(const struct onnx_value *x, unsigned reduced, int64_t index,
                             bool *first)
{
    int64_t place = 0, stride = 1;

    *first = true;
    for (int r = x->rank - 1; r >= 0; r--) {
        int64_t at = index % x->extent[r];

        index /= x->extent[r];
        if (reduced >> r & 1) {
            *first &= at == 0;
            continue;
        }
        place += at * stride;
        stride *= x->extent[r];
    }
    return place;
}

/* The shape of the result, in which axes along which x repeats have one number, as in x then. */
static void repeats_drop(struct onnx_value *x, unsigned reduced, bool keeps, int64_t *compact)
{
    for (int r = 0, at = 0; r < x->rank; r++) {
        bool within = reduced >> r & 1;

        if (within && !keeps)
            continue;
        if (!within && !x->part_count && x->stride[r] == 0)
            x->extent[r] = 1;
        compact[at++] = within ? 1 : x->extent[r];
    }
}

/* Reduces all numbers of x to those of the result. */
static void reduce_all(const struct onnx_value *x, enum reduction kind, unsigned reduced,
                       int64_t results, void *numbers)
{
    int64_t elements = onnx_value_elements(x);
    bool floats = onnx_type_is_float(x->type), first;

    for (int64_t i = 0; i < elements; i++) {
        int64_t place = reduced_place(x, reduced, i, &first);

        if (floats) {
            double *to = (double *)numbers + place;

            *to = first ? onnx_number(x, i) : reduce_numbers(kind, *to, onnx_number(x, i));
        } else {
            int64_t *to = (int64_t *)numbers + place;

            *to = first ? onnx_integer(x, i) : reduce_whole(kind, *to, onnx_integer(x, i));
        }
    }
    for (int64_t i = 0; i < results && floats; i++) {
        double *to = (double *)numbers + i;

        *to = onnx_rounded(x->type, kind == REDUCE_MEAN ? *to / (double)(elements / results) : *to);
    }
}

/* Sums, means, products and extremes along axes of a constant: such as extents that are
 * multiplied. */
static int fold_reduce(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), result;
    enum reduction kind = reduction_of(import->node->proto->op_type);
    int64_t extent[ONNX_RANK_MAX], compact[ONNX_RANK_MAX];
    unsigned reduced;
    int rank = onnx_reduced_axes(import, &x, &reduced, extent);
    void *numbers;

    if (rank < 0)
        return import->error.code;
    repeats_drop(&x, reduced, rank == x.rank, compact);
    if (onnx_value_elements(&x) < 1 || onnx_value_elements(&x) > STEPS_MAX ||
        onnx_value_trains(&x) || (kind == REDUCE_MEAN && !onnx_type_is_float(x.type)))
        return onnx_missing(import, "of a constant that is empty or too large");
    result = onnx_constant_new(import, x.type, rank, compact, &numbers);
    if (!numbers)
        return import->error.code;
    reduce_all(&x, kind, reduced, onnx_value_elements(&result), numbers);
    return give_repeated(import, result, extent, x.counts_samples);
}

const struct onnx_fold_entry onnx_fold_whole[] = {
    {"Range", fold_range},       {"MatMul", fold_mat_mul},    {"Trilu", fold_trilu},
    {"ReduceProd", fold_reduce}, {"ReduceSum", fold_reduce},  {"ReduceMax", fold_reduce},
    {"ReduceMin", fold_reduce},  {"ReduceMean", fold_reduce}, {NULL, NULL},
};
