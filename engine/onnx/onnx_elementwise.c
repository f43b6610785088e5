/* onnx_elementwise.c: nodes that compute number by number. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int done(struct onnx_import *import, struct onnx_value x, int32_t tensor)
{
    x.tensor = tensor;
    if (tensor >= 0)
        *onnx_output(import, 0) = x;
    return tensor < 0 ? tensor : 0;
}

static int activate(struct onnx_import *import, enum activation_kind kind)
{
    struct onnx_value x = *onnx_input(import, 0);

    return done(import, x, graph_activation(import->graph, x.tensor, import->node->name, kind));
}

/* Exporters of old opsets write x sigmoid(x) as two nodes. */
static bool absorb_product(struct onnx_import *import)
{
    int32_t output = onnx_node_output(import->node, 0);
    const struct onnx_model *model = import->model;
    const struct onnx_node *reader;

    if (output < 0 || model->readers[output] != 1)
        return false;
    reader = &model->nodes[model->reader[output]];
    if (strcmp(reader->proto->op_type, "Mul") != 0 || reader->input_count != 2 ||
        reader->output_count != 1 ||
        reader->input[reader->input[0] == output] != import->node->input[0])
        return false;
    import->absorbed[reader - model->nodes] = true;
    return true;
}

static int append_sigmoid(struct onnx_import *import)
{
    bool hard = strcmp(import->node->proto->op_type, "HardSigmoid") == 0;
    int32_t reader;

    if (hard && (fabsf(onnx_attribute_float(import, "alpha", 0.2f) - 1.0f / 6) > 1e-6f ||
                 onnx_attribute_float(import, "beta", 0.5f) != 0.5f))
        return onnx_missing(import, "with other than PyTorch's alpha and beta (1/6 and 1/2)");
    if (!absorb_product(import))
        return activate(import, hard ? ACTIVATION_HARDSIGMOID : ACTIVATION_SIGMOID);
    reader = import->model->reader[import->node->output[0]];
    if (activate(import, hard ? ACTIVATION_HARDSWISH : ACTIVATION_SILU))
        return import->graph->error.code;
    if (import->model->nodes[reader].output[0] >= 0)
        import->values[import->model->nodes[reader].output[0]] = *onnx_output(import, 0);
    return 0;
}

static int append_activation(struct onnx_import *import)
{
    static const struct {
        const char *name;
        enum activation_kind kind;
    } activations[] = {{"Relu", ACTIVATION_RELU},           {"Tanh", ACTIVATION_TANH},
                       {"HardSwish", ACTIVATION_HARDSWISH}, {"Mish", ACTIVATION_MISH},
                       {"Softplus", ACTIVATION_SOFTPLUS},   {"Swish", ACTIVATION_SILU}};
    const char *name = import->node->proto->op_type;

    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(name, activations[i].name) == 0)
            return activate(import, activations[i].kind);
    return onnx_missing(import, "%s", "");
}

static int append_leaky_relu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    return done(import, x,
                graph_leaky_relu(import->graph, x.tensor, import->node->name,
                                 onnx_attribute_float(import, "alpha", 0.01f)));
}

static int append_elu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    return done(import, x,
                graph_elu(import->graph, x.tensor, import->node->name,
                          onnx_attribute_float(import, "alpha", 1.0f)));
}

/* scale elu(x), with the numbers of Klambauer et al. 2017, arXiv:1706.02515. */
static int append_selu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    float alpha = onnx_attribute_float(import, "alpha", 1.67326319217681884765625f);
    float scale = onnx_attribute_float(import, "gamma", 1.05070102214813232421875f);
    int code = done(import, x, graph_elu(import->graph, x.tensor, import->node->name, alpha));

    onnx_output(import, 0)->factor = scale;
    return code;
}

/* relu(scale x + offset) */
static int32_t relu_of(struct onnx_import *import, int32_t x, double scale, double offset,
                       const char *suffix)
{
    const char *name = onnx_layer_name(import, suffix).text;

    if (scale != 1 || offset != 0)
        x = graph_affine(import->graph, x, (float)scale, (float)offset, name);
    return graph_activation(import->graph, x, name, ACTIVATION_RELU);
}

static int append_abs(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int32_t above = relu_of(import, x.tensor, 1, 0, ".above");
    int32_t below = relu_of(import, x.tensor, -1, 0, ".below");

    return done(import, x, graph_add(import->graph, above, below, import->node->name));
}

/* The larger one of x and `least`; with `mirrors` the smaller one of x and -least. The sum
 * relu(x - least) + least would round small numbers to the units of a large bound. So beyond
 * `large` numbers above `near` and below it pass apart, each without such a sum. `near` is no
 * number that many have, as both parts have the gradient 0 there. */
static int32_t at_least(struct onnx_import *import, int32_t x, double least, bool mirrors,
                        const char *suffix)
{
    static const double large = 4, near = 0x1p-20;
    const double sign = mirrors ? -1 : 1, room = near - least;
    const char *name = onnx_layer_name(import, suffix).text;
    struct graph *graph = import->graph;
    int32_t above, below;

    if (least >= -large)
        return graph_affine(graph, relu_of(import, x, sign, -least, suffix), (float)sign,
                            (float)(sign * least), name);
    above = graph_affine(graph, relu_of(import, x, sign, -near, suffix), (float)sign,
                         (float)(sign * near), name);
    below = graph_affine(graph, x, (float)(-sign * 6 / room), (float)(near * 6 / room), name);
    below = graph_activation(graph, below, name, ACTIVATION_RELU6);
    below = graph_affine(graph, below, (float)(-sign * room / 6), 0, name);
    return graph_add(graph, above, below, name);
}

/* Between other numbers than 0 and 6; one of them may be infinite. */
static int clip_between(struct onnx_import *import, double least, double most)
{
    struct onnx_value x = *onnx_input(import, 0);
    int32_t tensor = x.tensor;

    if (least > -3e38)
        tensor = at_least(import, tensor, least, false, ".least");
    if (most < 3e38)
        tensor = at_least(import, tensor, -most, true, ".most");
    return done(import, x, tensor);
}

static int append_clip(struct onnx_import *import)
{
    double least = -INFINITY, most = INFINITY;
    const struct onnx_value *low = onnx_input(import, 1), *high = onnx_input(import, 2);

    if ((low->kind != ONNX_ABSENT && !onnx_is_uniform(low, &least)) ||
        (high->kind != ONNX_ABSENT && !onnx_is_uniform(high, &most)))
        return onnx_missing(import, "between other than two constants");
    if (least == 0 && most == 6)
        return activate(import, ACTIVATION_RELU6);
    if (least == 0 && most > 3e38)
        return activate(import, ACTIVATION_RELU);
    if (!(least < most))
        return onnx_missing(import, "between %g and %g", least, most);
    return clip_between(import, least, most);
}

/* ---- two operands ---- */

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

    if (!adds && factor != 0) {
        x.factor = factor;
        *onnx_output(import, 0) = x;
        return 0;
    }
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    if (!adds)
        number = 0;
    return done(import, x,
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
        return done(import, a,
                    graph_add_positions(import->graph, a.tensor, import->node->name, parameter));
    return done(import, a,
                graph_broadcast(import->graph, a.tensor, parameter, &how, import->node->name));
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
    return done(import, a,
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
        b.extent[2] == 1 && b.extent[3] == 1 && a.extent[1] == b.extent[1]) {
        int32_t image = onnx_image(import, &a), scale = onnx_image(import, &b);

        if (image < 0 || scale < 0)
            return image < 0 ? image : scale;
        image = graph_channel_scale(import->graph, image, scale, import->node->name);
        return image < 0 ? image : done(import, onnx_tensor_value(image, 4, a.extent), image);
    }
    if (same)
        return with_equal(import, a, b, kind);
    if (b.rank != a.rank || b.extent[0] != a.extent[0] || b.extent[0] % ONNX_BATCH ||
        !extents_together(&a, &b, extent))
        return onnx_missing(import, "the smaller operand has no batch");
    if (b.extent[0] == ONNX_BATCH && plain(import, &a, shared, &b, &how))
        return onnx_shaped(import, &b, 1, &how.middle) < 0
                   ? import->graph->error.code
                   : done(import, a,
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

/* relu(x) - slope relu(-x), the slope being a parameter. */
static int append_prelu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), below = x, sum;
    const struct onnx_value *slope = onnx_input(import, 1);
    int32_t above;

    if (x.kind != ONNX_TENSOR || slope->kind != ONNX_CONSTANT)
        return onnx_missing(import, "whose slope is no constant");
    above = relu_of(import, x.tensor, 1, 0, ".above");
    below.tensor = relu_of(import, x.tensor, -1, 0, ".below");
    if (above < 0 || below.tensor < 0 || with_constant(import, below, slope, BROADCAST_MULTIPLY))
        return import->graph->error.code;
    sum = *onnx_output(import, 0);
    if (sum.kind != ONNX_TENSOR)
        return 0; /* the constant could not be combined */
    below = x;
    below.tensor = above;
    return with_tensor(import, below, sum, BROADCAST_SUBTRACT);
}

static int append_binary(struct onnx_import *import)
{
    const struct onnx_value *a = onnx_input(import, 0), *b = onnx_input(import, 1);
    enum broadcast_kind kind = BROADCAST_ADD, reverse = BROADCAST_ADD;
    bool first = a->kind == ONNX_TENSOR, swaps;
    double number;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, import->node->proto->op_type) == 0) {
            kind = kinds[i].kind;
            reverse = kinds[i].reverse;
        }
    if (import->node->input_count != 2)
        return onnx_fail(import, "it has not two operands");
    if (first && b->kind == ONNX_TENSOR) {
        swaps = a->rank < b->rank || onnx_value_elements(a) < onnx_value_elements(b);
        return swaps ? with_tensor(import, *b, *a, reverse) : with_tensor(import, *a, *b, kind);
    }
    if (onnx_is_uniform(first ? b : a, &number) && (first ? b : a)->rank <= (first ? a : b)->rank &&
        (first || kind != BROADCAST_DIVIDE) && onnx_value_elements(first ? b : a) == 1)
        return with_number(import, first ? *a : *b, number, first ? kind : reverse);
    return first ? with_constant(import, *a, b, kind) : with_constant(import, *b, a, reverse);
}

static int append_pow(struct onnx_import *import)
{
    struct function_attributes power = {.kind = FUNCTION_POWER};
    struct onnx_value x = *onnx_input(import, 0);
    double number = 0;

    if (x.kind != ONNX_TENSOR || !onnx_is_uniform(onnx_input(import, 1), &number))
        return onnx_missing(import, "to other than a constant power");
    if (number == 2)
        return with_tensor(import, x, x, BROADCAST_MULTIPLY);
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    power.exponent = (float)number;
    return done(import, x, graph_function(import->graph, x.tensor, &power, import->node->name));
}

static int append_neg(struct onnx_import *import)
{
    return with_number(import, *onnx_input(import, 0), -1, BROADCAST_MULTIPLY);
}

/* Makes another axis the last one, or the last one that again. */
static void axis_to_end(struct onnx_value *x, int axis, bool back)
{
    int order[ONNX_RANK_MAX] = {0};
    struct onnx_value old = *x;

    for (int r = 0; r < x->rank; r++)
        order[r] = back ? (r < axis    ? r
                           : r == axis ? x->rank - 1
                                       : r - 1)
                        : (r < axis          ? r
                           : r < x->rank - 1 ? r + 1
                                             : axis);
    onnx_atoms_permute(&x->atoms, x->rank, order);
    for (int r = 0; r < x->rank; r++)
        x->extent[r] = old.extent[order[r]];
}

int onnx_softmax(struct onnx_import *import, struct onnx_value x, int axis, bool logarithm)
{
    int32_t tensor;

    if (axis != x.rank - 1)
        axis_to_end(&x, axis, false);
    tensor = onnx_rows(import, &x);
    if (tensor < 0)
        return tensor;
    tensor = graph_softmax(import->graph, tensor, import->node->name);
    if (logarithm)
        tensor = graph_function(import->graph, tensor,
                                &(struct function_attributes){.kind = FUNCTION_LOG},
                                onnx_layer_name(import, ".log").text);
    if (axis != x.rank - 1)
        axis_to_end(&x, axis, true);
    return done(import, x, tensor);
}

static int append_softmax(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", -1), x.rank);

    return axis < 0 ? import->error.code
                    : onnx_softmax(import, x, axis,
                                   strcmp(import->node->proto->op_type, "LogSoftmax") == 0);
}

const struct onnx_operator_entry onnx_elementwise_operators[] = {
    {"Relu", append_activation, false},
    {"Tanh", append_activation, false},
    {"HardSwish", append_activation, false},
    {"Mish", append_activation, false},
    {"Softplus", append_activation, false},
    {"Swish", append_activation, false},
    {"Sigmoid", append_sigmoid, false},
    {"HardSigmoid", append_sigmoid, false},
    {"LeakyRelu", append_leaky_relu, false},
    {"Elu", append_elu, false},
    {"Selu", append_selu, false},
    {"Abs", append_abs, false},
    {"PRelu", append_prelu, false},
    {"Clip", append_clip, false},
    {"Softmax", append_softmax, false},
    {"LogSoftmax", append_softmax, false},
    {"Add", append_binary, true},
    {"Sub", append_binary, true},
    {"Mul", append_binary, true},
    {"Div", append_binary, true},
    {"Pow", append_pow, true},
    {"Neg", append_neg, true},
    {NULL, NULL, false},
};
