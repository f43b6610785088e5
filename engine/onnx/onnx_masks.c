/* onnx_masks.c: masks, be they constant or made of samples, and what is chosen by them. A
 * mask of samples is a tensor of 0 and 1. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <math.h>
#include <string.h>

/* ---- masks of symbols ---- */

/* The value that casts and new axes make this one of. */
static int32_t root_of(const struct onnx_import *import, int32_t value)
{
    const struct onnx_node *node;

    while ((node = onnx_producer(import->model, value))) {
        const char *name = node->proto->op_type;

        if (onnx_node_output(node, 0) != value || onnx_node_input(node, 0) < 0 ||
            (strcmp(name, "Cast") != 0 && strcmp(name, "Identity") != 0 &&
             strcmp(name, "Unsqueeze") != 0))
            break;
        value = node->input[0];
    }
    return value;
}

/* How many symbols there are: the rows of the embedding that reads them; 0: none does. */
static int64_t vocabulary_of(const struct onnx_import *import, int32_t symbols)
{
    for (int i = 0; i < import->model->node_count; i++) {
        const struct onnx_node *node = &import->model->nodes[i];
        const struct onnx_value *table =
            onnx_node_input(node, 0) >= 0 ? &import->values[node->input[0]] : NULL;

        if (table && strcmp(node->proto->op_type, "Gather") == 0 && table->kind == ONNX_CONSTANT &&
            table->rank == 2 && onnx_type_is_float(table->type) && onnx_node_input(node, 1) >= 0 &&
            root_of(import, node->input[1]) == symbols)
            return table->extent[0];
    }
    return 0;
}

static bool compares(const char *name, double x, double y)
{
    if (strcmp(name, "Equal") == 0)
        return x == y;
    if (strncmp(name, "Less", 4) == 0)
        return x < y || (name[4] && x == y);
    return x > y || (name[7] && x == y); /* Greater, GreaterOrEqual */
}

/* 1 - mask */
static int negate(struct onnx_import *import, struct onnx_value *mask)
{
    mask->tensor =
        graph_affine(import->graph, mask->tensor, -1, 1, onnx_layer_name(import, ".not").text);
    return mask->tensor < 0 ? mask->tensor : 0;
}

/* 6 where `sign` times x is above 0, 0 elsewhere. Where a number is so large that the result is 6,
 * its gradient is 0, as that of a comparison: two factors together reach all numbers that are not
 * denormal, and no product of them overflows. */
static int32_t above_zero(struct onnx_import *import, int32_t x, float sign)
{
    static const float factors[2] = {1e15f, 1e25f};
    const char *name = onnx_layer_name(import, ".above").text;

    for (int i = 0; i < 2; i++)
        x = graph_activation(
            import->graph,
            graph_affine(import->graph, x, i ? factors[i] : sign * factors[i], 0, name), name,
            ACTIVATION_RELU6);
    return x;
}

/* Numbers of samples beside others. */
static int compare_numbers(struct onnx_import *import, const char *name)
{
    bool less = strncmp(name, "Less", 4) == 0, equal = strstr(name, "OrEqual") != NULL;
    const struct onnx_value *a = onnx_input(import, 0), *b = onnx_input(import, 1);
    struct onnx_value mask;
    int code = onnx_subtract(import, a, b);

    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    mask = *onnx_output(import, 0);
    if (onnx_resolve(import, &mask))
        return import->graph->error.code;
    /* a <= b where a > b is not so */
    mask.tensor = above_zero(import, mask.tensor, less != equal ? -1 : 1);
    if (mask.tensor < 0)
        return mask.tensor;
    mask.factor = 1.0 / 6;
    if (onnx_resolve(import, &mask) || (equal && negate(import, &mask)))
        return import->graph->error.code;
    mask.type = ONNX_BOOL;
    return onnx_done(import, mask);
}

/* Symbols beside a constant one: an embedding of one number, 1 where the comparison is true. */
static int append_comparison(struct onnx_import *import)
{
    int own = onnx_input(import, 0)->kind == ONNX_TENSOR ? 0 : 1;
    struct onnx_value x = *onnx_input(import, own), table, result;
    const struct onnx_value *other = onnx_input(import, !own);
    const char *name = import->node->proto->op_type;
    int64_t symbols, shape[2] = {0, 1};
    double number;
    void *numbers;

    if (onnx_type_is_float(x.type) && onnx_type_is_float(other->type) && *name != 'E')
        return compare_numbers(import, name);
    if (x.kind != ONNX_TENSOR || onnx_type_is_float(x.type) || x.type == ONNX_BOOL ||
        other->kind != ONNX_CONSTANT || onnx_value_elements(other) != 1 || other->rank > x.rank ||
        x.extent[0] != ONNX_BATCH || !onnx_atoms_are_plain(&x.atoms))
        return onnx_missing(import, "of other than the samples' symbols and a constant one");
    symbols = vocabulary_of(import, root_of(import, import->node->input[own]));
    if (symbols < 1)
        return onnx_missing(import, "of symbols that no embedding reads");
    number = onnx_number(other, 0);
    shape[0] = symbols;
    table = onnx_constant_new(import, ONNX_FLOAT, 2, shape, &numbers);
    for (int64_t i = 0; numbers && i < symbols; i++)
        ((double *)numbers)[i] =
            own ? compares(name, number, (double)i) : compares(name, (double)i, number);
    if (!numbers)
        return import->error.code;
    graph_bind_parameter(import->graph, "weight",
                         onnx_weight(import, &table,
                                     &(struct graph_shape){.rank = 2, .extent = {symbols, 1}},
                                     false));
    result = onnx_tensor_value(
        graph_embedding(import->graph, x.tensor, onnx_layer_name(import, "").text, symbols, 1),
        x.rank, x.extent);
    result.type = ONNX_BOOL;
    return onnx_done(import, result);
}

static int append_not(struct onnx_import *import)
{
    struct onnx_value mask = *onnx_input(import, 0);

    if (mask.kind != ONNX_TENSOR || mask.type != ONNX_BOOL)
        return onnx_missing(import, "of other than masks");
    return negate(import, &mask) ? import->graph->error.code : onnx_done(import, mask);
}

/* Above 0 less below 0. */
static int append_sign(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), below = x;

    if (!onnx_type_is_float(x.type))
        return onnx_missing(import, "of other than numbers");
    below.tensor = above_zero(import, x.tensor, -1);
    x.tensor = above_zero(import, x.tensor, 1);
    if (x.tensor < 0 || below.tensor < 0)
        return import->graph->error.code;
    if (onnx_combine(import, &x, &below, BROADCAST_SUBTRACT) ||
        onnx_output(import, 0)->kind != ONNX_TENSOR)
        return import->error.code;
    onnx_output(import, 0)->factor = 1.0 / 6;
    return 0;
}

/* Both masks: their product. One of them at least: what is in none of them is not. */
static int append_logic(struct onnx_import *import)
{
    bool any = strcmp(import->node->proto->op_type, "Or") == 0;
    int first = onnx_input(import, 0)->kind == ONNX_TENSOR ? 0 : 1;
    struct onnx_value a = *onnx_input(import, first), b = *onnx_input(import, !first);
    int code;

    if (a.type != ONNX_BOOL || b.type != ONNX_BOOL || a.kind != ONNX_TENSOR)
        return onnx_missing(import, "of other than masks");
    if (any && (negate(import, &a) || (b.kind == ONNX_TENSOR && negate(import, &b))))
        return import->graph->error.code;
    if (b.kind == ONNX_CONSTANT)
        b = onnx_mask_numbers(import, &b, !any, any);
    if (b.kind == ONNX_TENSOR && b.rank > a.rank) {
        struct onnx_value swapped = a;

        a = b;
        b = swapped;
    }
    code =
        import->error.code ? import->error.code : onnx_combine(import, &a, &b, BROADCAST_MULTIPLY);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    a = *onnx_output(import, 0);
    if (any && negate(import, &a))
        return import->graph->error.code;
    a.type = ONNX_BOOL;
    return onnx_done(import, a);
}

/* ---- what is chosen ---- */

/* What is infinite stays large and finite, so that its product with 0 is 0. */
static double finite_of(double number)
{
    return number < -3e38 ? -3e38 : number > 3e38 ? 3e38 : number;
}

struct onnx_value onnx_mask_numbers(struct onnx_import *import, const struct onnx_value *mask,
                                    double shows, double hides)
{
    void *numbers;
    struct onnx_value result =
        onnx_constant_new(import, ONNX_FLOAT, mask->rank, mask->extent, &numbers);
    int64_t elements = numbers ? onnx_value_elements(mask) : 0;

    for (int64_t i = 0; i < elements; i++)
        ((double *)numbers)[i] = onnx_number(mask, i) != 0 ? shows : hides;
    return result;
}

/* x where the mask is `shown`, 0 elsewhere; the present node's output. */
static int masked(struct onnx_import *import, const struct onnx_value *mask,
                  const struct onnx_value *x, bool shown)
{
    struct onnx_value numbers = onnx_mask_numbers(import, mask, shown, !shown);

    return import->error.code ? import->error.code
                              : onnx_combine(import, x, &numbers, BROADCAST_MULTIPLY);
}

/* The shape that two operands have together. */
static struct onnx_value shape_of_both(const struct onnx_value *a, const struct onnx_value *b)
{
    const struct onnx_value *smaller = a->rank < b->rank ? a : b;
    struct onnx_value both = smaller == a ? *b : *a;

    for (int r = both.rank - smaller->rank; r < both.rank; r++)
        if (both.extent[r] == 1)
            both.extent[r] = smaller->extent[r - (both.rank - smaller->rank)];
    return both;
}

/* The same by a constant mask. A number that is infinite stays large and
 * finite, so that its product with 0 is 0. */
static int where_constant(struct onnx_import *import)
{
    struct onnx_value mask = *onnx_input(import, 0), other;
    const struct onnx_value *yes = onnx_input(import, 1), *no = onnx_input(import, 2);
    bool shown = yes->kind == ONNX_TENSOR;
    const struct onnx_value *x = shown ? yes : no, *rest = shown ? no : yes;
    const struct onnx_value both = shape_of_both(x, &mask);
    double number;
    int code;

    for (int r = 0; r < mask.rank; r++)
        if (mask.extent[r] >= ONNX_BATCH && mask.stride[r] == 0)
            mask.extent[r] = 1;
    code = masked(import, &mask, x, shown);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    other = *onnx_output(import, 0);
    if (rest->kind == ONNX_TENSOR) {
        struct onnx_value first = other;

        code = masked(import, &mask, rest, !shown);
        if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
            return code;
        other = *onnx_output(import, 0);
        return onnx_combine(import, &first, &other, BROADCAST_ADD);
    }
    if (!onnx_is_number_beside(rest, &both, &number))
        return onnx_missing(import, "of a constant of different numbers, or of more axes");
    number = finite_of(number);
    mask = onnx_mask_numbers(import, &mask, shown ? 0 : number, shown ? number : 0);
    return import->error.code ? import->error.code
                              : onnx_combine(import, &other, &mask, BROADCAST_ADD);
}

/* x times the mask, or one minus the mask, and `number` where that is 0. */
static int chosen(struct onnx_import *import, struct onnx_value mask, struct onnx_value x,
                  bool shown, double number, struct onnx_value *result)
{
    struct onnx_value shows = mask, rest;
    bool swaps;
    int code = shown ? 0 : negate(import, &shows);

    if (code)
        return code;
    swaps = x.rank < shows.rank || onnx_value_elements(&x) < onnx_value_elements(&shows);
    code = onnx_combine(import, swaps ? &shows : &x, swaps ? &x : &shows, BROADCAST_MULTIPLY);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    *result = *onnx_output(import, 0);
    result->type = x.type;
    if (number == 0)
        return 0;
    rest = mask;
    rest.tensor = graph_affine(import->graph, mask.tensor, (float)(shown ? -number : number),
                               (float)(shown ? number : 0), onnx_layer_name(import, ".rest").text);
    if (rest.tensor < 0)
        return rest.tensor;
    code = onnx_combine(import, result, &rest, BROADCAST_ADD);
    if (code == 0 && onnx_output(import, 0)->kind == ONNX_TENSOR)
        *result = *onnx_output(import, 0);
    return code;
}

/* One number where the mask is true, another one elsewhere. The larger would round the smaller one
 * away in their difference: then each is multiplied by its own mask. */
static int choose_numbers(struct onnx_import *import, struct onnx_value mask, float yes, float no)
{
    struct graph *graph = import->graph;
    const float difference = (float)finite_of((double)yes - (double)no);
    int32_t shown;

    mask.type = ONNX_FLOAT;
    if (difference + no == yes)
        return onnx_done_as(import, mask,
                            graph_affine(graph, mask.tensor, difference, no, import->node->name));
    shown = graph_affine(graph, mask.tensor, yes, 0, onnx_layer_name(import, ".shown").text);
    mask.tensor = graph_affine(graph, mask.tensor, -no, no, onnx_layer_name(import, ".rest").text);
    return onnx_done_as(import, mask, graph_add(graph, shown, mask.tensor, import->node->name));
}

/* The same by a mask of samples. */
static int where_samples(struct onnx_import *import)
{
    struct onnx_value mask = *onnx_input(import, 0), result = {0}, other = {0};
    struct onnx_value yes = *onnx_input(import, 1), no = *onnx_input(import, 2);
    double first = 0, second = 0;
    struct onnx_value both = shape_of_both(&mask, yes.kind == ONNX_TENSOR  ? &yes
                                                  : no.kind == ONNX_TENSOR ? &no
                                                                           : &mask);
    int code;

    if (mask.type != ONNX_BOOL ||
        (yes.kind != ONNX_TENSOR && !onnx_is_number_beside(&yes, &both, &first)) ||
        (no.kind != ONNX_TENSOR && !onnx_is_number_beside(&no, &both, &second)))
        return onnx_missing(import, "by a mask of samples, of a constant of different numbers, or "
                                    "of more axes");
    first = finite_of(first);
    second = finite_of(second);
    if (yes.kind != ONNX_TENSOR && no.kind != ONNX_TENSOR)
        return choose_numbers(import, mask, (float)first, (float)second);
    if (yes.kind != ONNX_TENSOR || no.kind != ONNX_TENSOR) {
        bool shown = yes.kind == ONNX_TENSOR;

        code = chosen(import, mask, shown ? yes : no, shown, shown ? second : first, &result);
        return code || onnx_output(import, 0)->kind != ONNX_TENSOR ? code
                                                                   : onnx_done(import, result);
    }
    code = chosen(import, mask, yes, true, 0, &result);
    if (code == 0 && onnx_output(import, 0)->kind == ONNX_TENSOR)
        code = chosen(import, mask, no, false, 0, &other);
    return code || onnx_output(import, 0)->kind != ONNX_TENSOR
               ? code
               : onnx_combine(import, &result, &other, BROADCAST_ADD);
}

/* Where a mask is true the first, elsewhere the second. */
static int append_where(struct onnx_import *import)
{
    for (int i = 0; i < 3; i++)
        if (onnx_input(import, i)->kind != ONNX_TENSOR &&
            onnx_input(import, i)->kind != ONNX_CONSTANT)
            return onnx_fail(import, "an operand is missing, or is a sequence of tensors");
    if (onnx_input(import, 0)->kind == ONNX_TENSOR)
        return where_samples(import);
    return where_constant(import);
}

const struct onnx_operator_entry onnx_mask_operators[] = {
    {"Equal", append_comparison, 2, ONNX_TAKES_CONSTANT},
    {"Less", append_comparison, 2, ONNX_TAKES_CONSTANT},
    {"LessOrEqual", append_comparison, 2, ONNX_TAKES_CONSTANT},
    {"Greater", append_comparison, 2, ONNX_TAKES_CONSTANT},
    {"GreaterOrEqual", append_comparison, 2, ONNX_TAKES_CONSTANT},
    {"Sign", append_sign, 1, 0},
    {"Not", append_not, 1, 0},
    {"And", append_logic, 2, ONNX_TAKES_CONSTANT},
    {"Or", append_logic, 2, ONNX_TAKES_CONSTANT},
    {"Where", append_where, 3, ONNX_TAKES_CONSTANT},
    {NULL, NULL, 0, 0},
};
