/* onnx_operands.c: nodes of two operands, number by number; the smaller one repeats. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    enum broadcast_kind kind, reverse; /* reverse: the first operand is the smaller one */
} kinds[] = {
    {"Add", BROADCAST_ADD, BROADCAST_ADD},
    {"Sub", BROADCAST_SUBTRACT, BROADCAST_SUBTRACT_REVERSE},
    {"Mul", BROADCAST_MULTIPLY, BROADCAST_MULTIPLY},
    {"Div", BROADCAST_DIVIDE, BROADCAST_DIVIDE_REVERSE},
};

/* A tensor and one number. A factor waits until an operator needs the product, unless it is 0,
 * which stands for none. */
static int with_number(struct onnx_import *import, struct onnx_value x, double number,
                       enum broadcast_kind kind)
{
    bool adds =
        kind == BROADCAST_ADD || kind == BROADCAST_SUBTRACT || kind == BROADCAST_SUBTRACT_REVERSE;
    double factor =
        (x.factor != 0 ? x.factor : 1) * (kind == BROADCAST_MULTIPLY ? number : 1 / number);
    float scale = adds ? (kind == BROADCAST_SUBTRACT_REVERSE ? -1.0f : 1.0f) : 0;

    if (!onnx_type_is_float(x.type))
        return onnx_missing(import, "of whole numbers, or of a mask");
    if (!adds && factor != 0) {
        x.factor = factor;
        *onnx_output(import, 0) = x;
        return 0;
    }
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    if (!adds)
        number = 0;
    return onnx_done_as(import, x,
                        graph_affine(import->graph, x.tensor, scale,
                                     (float)(kind == BROADCAST_SUBTRACT ? -number : number),
                                     import->node->name));
}

/* Marks the atoms of a that b has too; false: b is no smaller one. */
static bool atoms_shared(const struct onnx_value *a, const struct onnx_value *b, bool *shared)
{
    for (int r = 0; r < a->rank; r++) {
        int own = r - (a->rank - b->rank);
        int64_t extent = own >= 0 ? b->extent[own] : 1;

        if (extent != 1 && extent != a->extent[r])
            return false;
        for (int i = a->atoms.first[r]; i < a->atoms.first[r + 1]; i++)
            shared[a->atoms.order[i]] = extent != 1;
    }
    return a->rank >= b->rank;
}

/* Where b's elements lie among a's in the order of the tensor; false: not together, or in another
 * order than b's. */
static bool pattern_of(const struct onnx_value *a, const bool *shared,
                       struct broadcast_attributes *how)
{
    int last = 0;

    how->outer = how->middle = how->inner = 1;
    for (int i = 1; i < a->atoms.count; i++) {
        if (shared[i] && how->inner > 1)
            return false;
        *(shared[i]         ? &how->middle
          : how->middle > 1 ? &how->inner
                            : &how->outer) *= a->atoms.extent[i];
    }
    for (int i = 0; i < a->atoms.count; i++) {
        int base = a->atoms.order[i];

        if (base && shared[base] && base < last)
            return false;
        last = base && shared[base] ? base : last;
    }
    return true;
}

/* The samples as rows of numbers, if they are images: a constant has the order of a row, images may
 * lie in another one in memory. */
static int32_t without_image(struct onnx_import *import, int32_t tensor)
{
    const struct graph_shape *shape = &import->graph->tensors[tensor].shape;
    int64_t elements = graph_shape_elements(shape) / import->graph->batch;

    return shape->rank == 4 ? graph_reshape(import->graph, tensor,
                                            onnx_layer_name(import, ".rows").text, &elements, 1)
                            : tensor;
}

/* Finds where b's elements lie among a's, whose axes it may put in order for that; makes a rows.
 * False: a repeats as well, or b's elements lie apart. */
static bool plain(struct onnx_import *import, struct onnx_value *a, bool *shared,
                  const struct onnx_value *b, struct broadcast_attributes *how)
{
    if (!atoms_shared(a, b, shared))
        return false;
    if (!pattern_of(a, shared, how)) {
        if (onnx_settle(import, a))
            return false;
        atoms_shared(a, b, shared);
        if (!pattern_of(a, shared, how))
            return false;
    }
    a->tensor = without_image(import, a->tensor);
    return a->tensor >= 0;
}

/* The extents of both operands together; false: they do not fit each other. */
static bool extents_together(const struct onnx_value *a, const struct onnx_value *b,
                             int64_t *extent)
{
    for (int r = 0; r < a->rank; r++) {
        int own = r - (a->rank - b->rank);
        int64_t other = own >= 0 ? b->extent[own] : 1;

        if (other != a->extent[r] && other != 1 && a->extent[r] != 1)
            return false;
        extent[r] = other == 1 ? a->extent[r] : other;
    }
    return a->rank >= b->rank;
}

/* Puts axes of extent 1 before the others, up to that rank. */
static bool lead(struct onnx_value *x, int rank)
{
    int64_t extent[ONNX_RANK_MAX] = {0};
    int more = rank - x->rank;

    if (more <= 0)
        return true;
    for (int r = 0; r < rank; r++)
        extent[r] = r < more ? 1 : x->extent[r - more];
    if (!onnx_atoms_reshape(&x->atoms, rank, extent))
        return false;
    x->rank = rank;
    memcpy(x->extent, extent, (size_t)rank * sizeof *extent);
    return true;
}

/* The constant with a number for each of the value's, in their order. */
static struct onnx_value repeated(struct onnx_import *import, const struct onnx_value *constant,
                                  const struct onnx_value *like)
{
    int64_t extent[ONNX_RANK_MAX] = {0}, *places, elements = 1;

    for (int r = 0; r < like->rank; r++) {
        extent[r] = like->extent[r] >= ONNX_BATCH ? like->extent[r] / ONNX_BATCH : like->extent[r];
        if (extent[r] < 1 || __builtin_mul_overflow(elements, extent[r], &elements)) {
            onnx_fail(import, "an extent is %lld", (long long)extent[r]);
            return (struct onnx_value){.kind = ONNX_UNKNOWN};
        }
    }
    places = onnx_allocate(import, (size_t)elements + 1, sizeof *places);
    for (int64_t i = 0; places && i < elements; i++) {
        int64_t rest = i, place = 0, stride = 1;

        for (int r = like->rank - 1; r >= 0; r--) {
            int own = r - (like->rank - constant->rank);
            int64_t have = own >= 0 ? constant->extent[own] : 1;
            int64_t wide = extent[r] > 1 ? extent[r] : 1;

            place += have == 1 ? 0 : rest % wide * stride;
            stride *= have;
            rest /= wide;
        }
        places[i] = place;
    }
    return places ? onnx_constant_picked(import, constant, like->rank, extent, places)
                  : (struct onnx_value){.kind = ONNX_UNKNOWN};
}

/* Axes along which a constant repeats (Expand) have one number each: the operator repeats them, and
 * of a parameter all of the repeats are one number that trains. */
static void unrepeat(struct onnx_value *constant)
{
    for (int r = 0; r < constant->rank && !constant->part_count; r++)
        if (constant->stride[r] == 0)
            constant->extent[r] = 1;
}

/* A tensor and a constant of some of its axes: a parameter, or one that does not train. */
static int with_constant(struct onnx_import *import, struct onnx_value a,
                         const struct onnx_value *b, enum broadcast_kind kind)
{
    struct broadcast_attributes how = {.kind = kind};
    bool shared[ONNX_ATOMS_MAX] = {false};
    struct onnx_value row = *b;
    int64_t extent[ONNX_RANK_MAX] = {0};
    int32_t parameter;

    for (int r = 0; r < row.rank && !row.part_count; r++)
        if (row.extent[r] >= ONNX_BATCH && row.stride[r] == 0)
            row.extent[r] = 1;
    if (onnx_resolve(import, &a))
        return import->graph->error.code;
    if (!lead(&a, row.rank) || !extents_together(&a, &row, extent))
        return onnx_missing(import, "whose shapes do not fit each other");
    if (onnx_expand(import, &a, extent))
        return import->error.code;
    unrepeat(&row);
    if (!plain(import, &a, shared, &row, &how)) {
        if (import->error.code || import->graph->error.code || onnx_settle(import, &a))
            return import->error.code;
        row = repeated(import, &row, &a);
        if (row.kind == ONNX_UNKNOWN)
            return import->error.code;
        a.tensor = without_image(import, a.tensor);
        if (a.tensor < 0)
            return a.tensor;
        how.outer = how.inner = 1;
        how.middle = onnx_value_elements(&row);
    }
    parameter = onnx_is_picked(&row) ? onnx_picked_tensor(import, &row)
                                     : onnx_weight(import, &row, NULL, false);
    if (parameter < 0)
        return parameter;
    if (import->graph->tensors[parameter].batched && how.outer * how.inner == 1) {
        const struct graph_shape *shape = &import->graph->tensors[a.tensor].shape;

        parameter = onnx_reshaped(import, parameter, shape->rank - 1, shape->extent + 1);
    }
    if (kind == BROADCAST_ADD && how.outer * how.inner == 1 &&
        import->graph->tensors[parameter].role == TENSOR_PARAMETER &&
        import->graph->tensors[a.tensor].shape.rank == 3)
        return onnx_done_as(
            import, a, graph_add_positions(import->graph, a.tensor, import->node->name, parameter));
    return onnx_done_as(
        import, a, graph_broadcast(import->graph, a.tensor, parameter, &how, import->node->name));
}

/* Two tensors of the same extents. */
static int with_equal(struct onnx_import *import, struct onnx_value a, struct onnx_value b,
                      enum broadcast_kind kind)
{
    struct broadcast_attributes how = {.kind = kind, .outer = 1, .inner = 1};
    const struct graph_shape *shape;

    if (onnx_follow(import, &b, &a))
        return import->graph->error.code;
    shape = &import->graph->tensors[a.tensor].shape;
    how.middle = graph_shape_elements(shape) / import->graph->batch;
    return onnx_done_as(
        import, a,
        kind == BROADCAST_ADD
            ? graph_add(import->graph, a.tensor, b.tensor, import->node->name)
            : graph_broadcast(import->graph, a.tensor, b.tensor, &how, import->node->name));
}

/* Two tensors, of which the second has some of the first one's axes; else both are repeated. */
static int with_tensor(struct onnx_import *import, struct onnx_value a, struct onnx_value b,
                       enum broadcast_kind kind)
{
    struct broadcast_attributes how = {.kind = kind};
    bool shared[ONNX_ATOMS_MAX] = {false}, same;
    int64_t extent[ONNX_RANK_MAX] = {0};

    if (onnx_resolve(import, &a) || onnx_resolve(import, &b))
        return import->graph->error.code;
    same = lead(&a, b.rank) && lead(&b, a.rank);
    for (int r = 0; same && r < a.rank; r++)
        same = a.extent[r] == b.extent[r];
    if (a.rank == 4 && b.rank == 4 && kind == BROADCAST_MULTIPLY && a.tensor != b.tensor &&
        a.extent[0] == ONNX_BATCH && b.extent[0] == ONNX_BATCH && b.extent[2] == 1 &&
        b.extent[3] == 1 && a.extent[1] == b.extent[1]) {
        int32_t image = onnx_image(import, &a), scale = onnx_image(import, &b);

        if (image < 0 || scale < 0)
            return image < 0 ? image : scale;
        image = graph_channel_scale(import->graph, image, scale, import->node->name);
        return image < 0 ? image
                         : onnx_done_as(import, onnx_tensor_value(image, 4, a.extent), image);
    }
    if (same)
        return with_equal(import, a, b, kind);
    if (a.rank == b.rank && onnx_batch_axis(&a) > 0 && onnx_batch_axis(&a) == onnx_batch_axis(&b)) {
        int batch = onnx_batch_axis(&a), code;

        onnx_axis_move(&a, batch, 0);
        onnx_axis_move(&b, batch, 0);
        code = with_tensor(import, a, b, kind);
        if (onnx_output(import, 0)->kind == ONNX_TENSOR)
            onnx_axis_move(onnx_output(import, 0), 0, batch);
        return code;
    }
    if (b.rank != a.rank || b.extent[0] != a.extent[0] || b.extent[0] % ONNX_BATCH ||
        !extents_together(&a, &b, extent))
        return onnx_missing(import, "the smaller operand has no batch");
    if (b.extent[0] == ONNX_BATCH && plain(import, &a, shared, &b, &how))
        return onnx_shaped(import, &b, 1, &how.middle) < 0
                   ? import->graph->error.code
                   : onnx_done_as(import, a,
                                  graph_broadcast(import->graph, a.tensor, b.tensor, &how,
                                                  import->node->name));
    if (onnx_expand(import, &a, extent) || onnx_expand(import, &b, extent))
        return import->error.code;
    return with_equal(import, a, b, kind);
}

int onnx_combine(struct onnx_import *import, const struct onnx_value *a, const struct onnx_value *b,
                 enum broadcast_kind kind)
{
    return b->kind == ONNX_TENSOR ? with_tensor(import, *a, *b, kind)
                                  : with_constant(import, *a, b, kind);
}

/* Either operand may be the smaller one, or a constant; not both constants. */
static int combine_any(struct onnx_import *import, const struct onnx_value *a,
                       const struct onnx_value *b, enum broadcast_kind kind,
                       enum broadcast_kind reverse)
{
    if (a->kind == ONNX_TENSOR && b->kind == ONNX_TENSOR) {
        bool swaps = a->rank < b->rank || onnx_value_elements(a) < onnx_value_elements(b);

        return swaps ? with_tensor(import, *b, *a, reverse) : with_tensor(import, *a, *b, kind);
    }
    return a->kind == ONNX_TENSOR ? with_constant(import, *a, b, kind)
                                  : with_constant(import, *b, a, reverse);
}

int onnx_subtract(struct onnx_import *import, const struct onnx_value *a,
                  const struct onnx_value *b)
{
    return combine_any(import, a, b, BROADCAST_SUBTRACT, BROADCAST_SUBTRACT_REVERSE);
}

static bool is_symbols(const struct onnx_value *value)
{
    return value->kind == ONNX_TENSOR && (value->type == ONNX_INT64 || value->type == ONNX_INT32);
}

static int append_binary(struct onnx_import *import)
{
    const struct onnx_value *a = onnx_input(import, 0), *b = onnx_input(import, 1);
    enum broadcast_kind kind = BROADCAST_ADD, reverse = BROADCAST_ADD;
    bool first = a->kind == ONNX_TENSOR;
    double number;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, import->node->proto->op_type) == 0) {
            kind = kinds[i].kind;
            reverse = kinds[i].reverse;
        }
    if (import->node->input_count != 2)
        return onnx_fail(import, "it has not two operands");
    if (is_symbols(a) || is_symbols(b))
        return onnx_missing(import, "of the samples' symbols, which only embeddings read: data can "
                                    "have them as the table counts its rows");
    if (first && b->kind == ONNX_TENSOR)
        return combine_any(import, a, b, kind, reverse);
    if (onnx_is_uniform(first ? b : a, &number) && (first ? b : a)->rank <= (first ? a : b)->rank &&
        (first || kind != BROADCAST_DIVIDE) && onnx_value_elements(first ? b : a) == 1)
        return with_number(import, first ? *a : *b, number, first ? kind : reverse);
    return combine_any(import, a, b, kind, reverse);
}

/* Whether a constant has small numbers alone, as parameters mostly do: sums with them round no
 * other number by much. */
static bool is_small(const struct onnx_value *value)
{
    static const double large = 4; /* as that of bounds: onnx_elementwise.c */
    int64_t elements = onnx_value_elements(value);

    if (value->kind != ONNX_CONSTANT || elements > ONNX_COMPUTED_MAX)
        return false;
    if (onnx_value_trains(value))
        return true;
    for (int64_t i = 0; i < elements; i++)
        if (!(fabs(onnx_number(value, i)) <= large))
            return false;
    return true;
}

/* The larger of each two numbers, a + relu(b - a), or the smaller, a - relu(a - b). The sum rounds
 * b where a is far from it, as a mask of -1e9 is: so a small constant is a. Of two that are equal
 * one has the gradient. The result is the present node's output. */
static int extreme_of(struct onnx_import *import, struct onnx_value a, struct onnx_value b,
                      bool smaller)
{
    struct onnx_value difference, swapped = a;
    double bound;
    int code;

    if (a.kind != ONNX_TENSOR) {
        a = b;
        b = swapped;
    }
    if (onnx_resolve(import, &a) || (b.kind == ONNX_TENSOR && onnx_resolve(import, &b)))
        return import->graph->error.code;
    if (b.rank <= a.rank && onnx_is_uniform(&b, &bound) && onnx_value_elements(&b) == 1)
        return onnx_clip(import, a, smaller ? -INFINITY : bound, smaller ? bound : INFINITY);
    if (is_small(&b)) {
        swapped = a;
        a = b;
        b = swapped;
    }
    code = combine_any(import, &a, &b, smaller ? BROADCAST_SUBTRACT : BROADCAST_SUBTRACT_REVERSE,
                       smaller ? BROADCAST_SUBTRACT_REVERSE : BROADCAST_SUBTRACT);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    difference = *onnx_output(import, 0);
    difference.tensor = graph_activation(import->graph, difference.tensor,
                                         onnx_layer_name(import, ".more").text, ACTIVATION_RELU);
    if (difference.tensor < 0)
        return difference.tensor;
    return combine_any(import, &a, &difference, smaller ? BROADCAST_SUBTRACT : BROADCAST_ADD,
                       smaller ? BROADCAST_SUBTRACT_REVERSE : BROADCAST_ADD);
}

/* Sums, means and extremes of all inputs, number by number. An input of samples comes first, so
 * that constants meet samples alone. */
static int append_all(struct onnx_import *import)
{
    const char *name = import->node->proto->op_type;
    bool mean = strcmp(name, "Mean") == 0, sum = mean || strcmp(name, "Sum") == 0;
    struct onnx_value result;
    int first = 0;

    while (first < import->node->input_count - 1 && onnx_input(import, first)->kind != ONNX_TENSOR)
        first++;
    result = *onnx_input(import, first);
    for (int i = 0; i < import->node->input_count; i++) {
        const struct onnx_value *next = onnx_input(import, i);
        int code;

        if (i == first)
            continue;
        if (!onnx_type_is_float(next->type) || !onnx_type_is_float(result.type) ||
            result.kind != ONNX_TENSOR)
            return onnx_missing(import, "of whole numbers, or of constants alone");
        code = sum ? combine_any(import, &result, next, BROADCAST_ADD, BROADCAST_ADD)
                   : extreme_of(import, result, *next, strcmp(name, "Min") == 0);
        if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
            return code;
        result = *onnx_output(import, 0);
    }
    if (mean)
        result.factor = (result.factor != 0 ? result.factor : 1) / import->node->input_count;
    *onnx_output(import, 0) = result;
    return 0;
}

static int append_pow(struct onnx_import *import)
{
    struct function_attributes power = {.kind = FUNCTION_POWER};
    struct onnx_value x = *onnx_input(import, 0);
    double number = 0;

    if (x.kind != ONNX_TENSOR || !onnx_is_number_beside(onnx_input(import, 1), &x, &number))
        return onnx_missing(import, "to other than a constant power, the same for all numbers");
    if (number == 2)
        return with_tensor(import, x, x, BROADCAST_MULTIPLY);
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    power.exponent = (float)number;
    return onnx_done_as(import, x,
                        graph_function(import->graph, x.tensor, &power, import->node->name));
}

static int append_neg(struct onnx_import *import)
{
    return with_number(import, *onnx_input(import, 0), -1, BROADCAST_MULTIPLY);
}

const struct onnx_operator_entry onnx_operand_operators[] = {
    {"Add", append_binary, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Sub", append_binary, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Mul", append_binary, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Div", append_binary, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Pow", append_pow, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Neg", append_neg, 1, ONNX_TAKES_PENDING},
    {"Max", append_all, ONNX_ANY_NUMBER, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Min", append_all, ONNX_ANY_NUMBER, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Sum", append_all, ONNX_ANY_NUMBER, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {"Mean", append_all, ONNX_ANY_NUMBER, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {NULL, NULL, 0, 0},
};
