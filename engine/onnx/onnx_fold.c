/* onnx_fold.c: nodes that compute with constants, number by number; see onnx_fold.h. Exporters make
 * chains of them that work out shapes and masks. */
#include "engine/onnx/onnx_fold.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS_MAX = 8 };

int onnx_read_constant(struct onnx_import *import, const Onnx__Tensor *tensor,
                       struct onnx_initializer *result)
{
    void *made, *kept;
    int code = onnx_tensor_read(import->model, tensor, result, &made, &import->error);

    if (code || !made)
        return code;
    kept =
        onnx_allocate(import, (size_t)result->store.count + 1, onnx_type_bytes(result->store.type));
    if (kept)
        memcpy(kept, made, (size_t)result->store.count * onnx_type_bytes(result->store.type));
    result->store.data = kept;
    free(made);
    return import->error.code;
}

/* ---- functions of numbers ---- */

static double sign_of(double x)
{
    return (double)((x > 0) - (x < 0));
}
static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}
static double reciprocal_of(double x)
{
    return 1 / x;
}
static double negative_of(double x)
{
    return -x;
}
static double not_of(double x)
{
    return x == 0;
}
static double identity_of(double x)
{
    return x;
}
static double relu_of(double x)
{
    return x > 0 ? x : 0;
}
static double subtract(double x, double y)
{
    return x - y;
}
static double add(double x, double y)
{
    return x + y;
}
static double multiply(double x, double y)
{
    return x * y;
}
static double divide(double x, double y)
{
    return x / y;
}
static double and_of(double x, double y)
{
    return x != 0 && y != 0;
}
static double or_of(double x, double y)
{
    return x != 0 || y != 0;
}
static double xor_of(double x, double y)
{
    return (x != 0) != (y != 0);
}
static double equal(double x, double y)
{
    return x == y;
}
static double greater(double x, double y)
{
    return x > y;
}
static double less(double x, double y)
{
    return x < y;
}
static double greater_equal(double x, double y)
{
    return x >= y;
}
static double less_equal(double x, double y)
{
    return x <= y;
}

static const struct {
    const char *name;
    double (*of)(double);
    bool to_boolean;
} unary[] = {
    {"Abs", fabs, false},
    {"Ceil", ceil, false},
    {"Cos", cos, false},
    {"Erf", erf, false},
    {"Exp", exp, false},
    {"Floor", floor, false},
    {"Log", log, false},
    {"Neg", negative_of, false},
    {"Not", not_of, true},
    {"Reciprocal", reciprocal_of, false},
    {"Relu", relu_of, false},
    {"Round", nearbyint, false},
    {"Sigmoid", sigmoid_of, false},
    {"Sign", sign_of, false},
    {"Sin", sin, false},
    {"Sqrt", sqrt, false},
    {"Tanh", tanh, false},
    {"Cast", identity_of, false},
    {"CastLike", identity_of, false},
};

static const struct {
    const char *name;
    double (*of)(double, double);
    bool to_boolean;
} binary[] = {
    {"Add", add, false},
    {"Sub", subtract, false},
    {"Mul", multiply, false},
    {"Div", divide, false},
    {"Pow", pow, false},
    {"Min", fmin, false},
    {"Max", fmax, false},
    {"Sum", add, false},
    {"Mod", fmod, false},
    {"And", and_of, true},
    {"Or", or_of, true},
    {"Xor", xor_of, true},
    {"Equal", equal, true},
    {"Greater", greater, true},
    {"Less", less, true},
    {"GreaterOrEqual", greater_equal, true},
    {"LessOrEqual", less_equal, true},
};

/* ---- walking over operands ---- */

/* Operands of one shape, with axes repeated by strides of 0. Axes in which all of them repeat are
 * computed once. */
struct walk {
    int count, rank;
    const struct onnx_store *store[OPERANDS_MAX];
    int64_t offset[OPERANDS_MAX], stride[OPERANDS_MAX][ONNX_RANK_MAX];
    int64_t extent[ONNX_RANK_MAX], compact[ONNX_RANK_MAX];
    bool counts_samples; /* an operand does */
};

/* False: the error is kept, or the node is missing. */
static bool walk_begin(struct onnx_import *import, const int *inputs, int count, struct walk *walk)
{
    struct onnx_value value[OPERANDS_MAX];

    *walk = (struct walk){.count = count};
    for (int i = 0; i < count; i++) {
        value[i] = *onnx_input(import, inputs[i]);
        if (onnx_value_trains(&value[i]))
            return onnx_missing(import, "it computes with parameters alone"), false;
        if (onnx_constant_join(import, &value[i]))
            return false;
        walk->counts_samples |= value[i].counts_samples;
        walk->rank = value[i].rank > walk->rank ? value[i].rank : walk->rank;
    }
    for (int r = 0; r < walk->rank; r++) {
        walk->extent[r] = walk->compact[r] = 1;
        for (int i = 0; i < count; i++) {
            int from = r - (walk->rank - value[i].rank);
            int64_t extent = from >= 0 ? value[i].extent[from] : 1;

            if (extent != 1 && walk->extent[r] != 1 && extent != walk->extent[r])
                return onnx_fail(import, "extents %s and %s do not fit each other",
                                 onnx_extent_text(walk->extent[r]).text,
                                 onnx_extent_text(extent).text),
                       false;
            walk->extent[r] = extent != 1 ? extent : walk->extent[r];
            walk->stride[i][r] = extent != 1 ? value[i].stride[from] : 0;
            if (walk->stride[i][r] || extent == 0)
                walk->compact[r] = extent;
        }
    }
    if (!onnx_shape_fits(walk->rank, walk->extent))
        return onnx_fail(import, "a constant of such a shape is impossible"), false;
    for (int i = 0; i < count; i++) {
        walk->store[i] = value[i].store;
        walk->offset[i] = value[i].offset;
    }
    return true;
}

/* Number `index` (of the compact shape) of an operand: its store and place. */
static int64_t walk_place(const struct walk *walk, int operand, int64_t index)
{
    int64_t place = walk->offset[operand];

    for (int r = walk->rank - 1; r >= 0; r--) {
        int64_t extent = walk->compact[r] > 1 ? walk->compact[r] : 1;

        place += index % extent * walk->stride[operand][r];
        index /= extent;
    }
    return place;
}

static double walk_number(const struct walk *walk, int operand, int64_t index)
{
    return onnx_store_number(walk->store[operand], walk_place(walk, operand, index));
}

static int64_t walk_integer(const struct walk *walk, int operand, int64_t index)
{
    const struct onnx_value scalar = {.kind = ONNX_CONSTANT,
                                      .store = walk->store[operand],
                                      .offset = walk_place(walk, operand, index)};

    return onnx_integer(&scalar, 0);
}

/* The result of a walk, whose repeated axes repeat. */
static struct onnx_value walk_result(struct onnx_import *import, const struct walk *walk,
                                     enum onnx_type type, void **numbers, int64_t *count)
{
    struct onnx_value result = onnx_constant_new(import, type, walk->rank, walk->compact, numbers);

    *count = *numbers ? onnx_value_elements(&result) : 0;
    result.counts_samples = walk->counts_samples;
    for (int r = 0; r < walk->rank && *numbers; r++) {
        if (walk->compact[r] == 1)
            result.stride[r] = 0;
        result.extent[r] = walk->extent[r];
    }
    return result;
}

/* Whether a whole number is ONNX_BATCH, which stands for the number of samples, or a part or a
 * multiple of it. Such a one says how a shape is made, but is not known as a number. */
static bool counts_samples(int64_t number)
{
    static const int64_t least = ONNX_BATCH >> 8, most = (int64_t)1 << 62;

    return (number >= least && number < most) || (number <= -least && number > -most);
}

/* Whether one of the numbers is such. */
static bool walk_counts_samples(const struct walk *walk, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (counts_samples(walk_integer(walk, 0, i)))
            return true;
    return false;
}

/* What a type of fewer bits keeps of a whole number; all of one that stands for the number of
 * samples. */
static int64_t whole_wrap(enum onnx_type type, int64_t number)
{
    if (type != ONNX_BOOL && counts_samples(number))
        return number;
    switch (type) {
    case ONNX_BOOL:
        return number != 0;
    case ONNX_UINT8:
        return (uint8_t)number;
    case ONNX_INT8:
        return (int8_t)number;
    case ONNX_INT16:
        return (int16_t)number;
    case ONNX_INT32:
        return (int32_t)number;
    default:
        return number;
    }
}

static int64_t whole_cast(const struct walk *walk, enum onnx_type type, int64_t index)
{
    int64_t number = walk_integer(walk, 0, index);

    if (type == ONNX_BOOL)
        return walk_number(walk, 0, index) != 0; /* 0.5 is true */
    return whole_wrap(type, number);
}

/* ---- operators ---- */

static int fold_unary(struct onnx_import *import, int index)
{
    const char *name = import->node->proto->op_type;
    enum onnx_type type = onnx_input(import, 0)->type;
    bool casts = strcmp(name, "Cast") == 0, like = strcmp(name, "CastLike") == 0;
    struct walk walk;
    struct onnx_value result;
    int64_t count;
    void *numbers;

    if (casts)
        type = (enum onnx_type)onnx_attribute_int(import, "to", 0);
    if (like)
        type = onnx_input(import, 1)->type;
    if (unary[index].to_boolean)
        type = ONNX_BOOL;
    if (onnx_type_bytes(type) == 0)
        return onnx_missing(import, "type %d", (int)type);
    /* a parameter stays one where its type does */
    if ((casts || like) && onnx_type_is_float(type) && onnx_value_trains(onnx_input(import, 0))) {
        *onnx_output(import, 0) = *onnx_input(import, 0);
        return 0;
    }
    if (!walk_begin(import, (int[]){0}, 1, &walk))
        return import->error.code;
    result = walk_result(import, &walk, type, &numbers, &count);
    if (onnx_type_is_float(type) && !onnx_type_is_float(onnx_input(import, 0)->type))
        result.counts_samples |= walk_counts_samples(&walk, count);
    for (int64_t i = 0; i < count; i++)
        if (onnx_type_is_float(type))
            ((double *)numbers)[i] = onnx_rounded(type, unary[index].of(walk_number(&walk, 0, i)));
        else if (casts || like)
            ((int64_t *)numbers)[i] = whole_cast(&walk, type, i);
        else
            ((int64_t *)numbers)[i] =
                whole_wrap(type, onnx_to_whole(unary[index].of(walk_number(&walk, 0, i))));
    *onnx_output(import, 0) = result;
    return import->error.code;
}

/* Whole numbers exactly, as shapes need them; what overflows wraps. `truncates`: the remainder has
 * the sign of x, else of y. */
static int64_t whole_binary(int index, int64_t x, int64_t y, bool truncates)
{
    const char *name = binary[index].name;

    if (strcmp(name, "Add") == 0)
        return (int64_t)((uint64_t)x + (uint64_t)y);
    if (strcmp(name, "Sub") == 0)
        return (int64_t)((uint64_t)x - (uint64_t)y);
    if (strcmp(name, "Mul") == 0)
        return (int64_t)((uint64_t)x * (uint64_t)y);
    if (strcmp(name, "Div") == 0)
        return y == 0 || (y == -1 && x == INT64_MIN) ? 0 : x / y;
    if (strcmp(name, "Mod") == 0)
        return y == 0 || y == -1 ? 0 : x % y + (!truncates && x % y && (x < 0) != (y < 0) ? y : 0);
    if (strcmp(name, "Min") == 0)
        return x < y ? x : y;
    if (strcmp(name, "Max") == 0)
        return x > y ? x : y;
    if (strcmp(name, "Equal") == 0)
        return x == y;
    return onnx_to_whole(binary[index].of((double)x, (double)y));
}

/* 0 and a parameter: that parameter, repeated by strides of 0. Returns whether the node is such. */
static bool add_zero(struct onnx_import *import)
{
    const struct onnx_value *a = onnx_input(import, 0), *b = onnx_input(import, 1);
    struct onnx_value result;

    if (strcmp(import->node->proto->op_type, "Add") != 0 || import->node->input_count != 2)
        return false;
    if (onnx_value_trains(a)) {
        const struct onnx_value *swapped = a;

        a = b;
        b = swapped;
    }
    if (!onnx_value_trains(b) || b->part_count || !onnx_is_zero(a) || a->rank < b->rank)
        return false;
    result = *b;
    result.rank = a->rank;
    for (int r = 0; r < a->rank; r++) {
        int own = r - (a->rank - b->rank);
        int64_t have = own >= 0 ? b->extent[own] : 1;

        if (have != a->extent[r] && have != 1 && a->extent[r] != 1)
            return false;
        result.extent[r] = have == 1 ? a->extent[r] : have;
        result.stride[r] = own >= 0 && have != 1 ? b->stride[own] : 0;
    }
    *onnx_output(import, 0) = result;
    return true;
}

/* Whether it takes any number of operands. */
static bool is_variadic(const char *name)
{
    return strcmp(name, "Min") == 0 || strcmp(name, "Max") == 0 || strcmp(name, "Sum") == 0;
}

static int fold_binary(struct onnx_import *import, int index)
{
    enum onnx_type from = onnx_input(import, 0)->type;
    enum onnx_type type = binary[index].to_boolean ? ONNX_BOOL : from;
    int inputs[OPERANDS_MAX], operands = import->node->input_count;
    bool truncates = onnx_attribute_int(import, "fmod", 0);
    struct walk walk;
    struct onnx_value result;
    int64_t count;
    void *numbers;

    if (operands < 1 || operands > OPERANDS_MAX)
        return onnx_missing(import, "%d operands", operands);
    if (operands != 2 && !is_variadic(binary[index].name))
        return onnx_fail(import, "it has not two operands");
    if (add_zero(import))
        return 0;
    for (int i = 0; i < operands; i++)
        inputs[i] = i;
    if (!walk_begin(import, inputs, operands, &walk))
        return import->error.code;
    result = walk_result(import, &walk, type, &numbers, &count);
    for (int64_t i = 0; i < count; i++) {
        double number = walk_number(&walk, 0, i);
        int64_t whole = onnx_type_is_float(from) ? 0 : walk_integer(&walk, 0, i);

        for (int k = 1; k < operands; k++)
            if (onnx_type_is_float(from))
                number = binary[index].of(number, walk_number(&walk, k, i));
            else if (onnx_type_is_float(onnx_input(import, k)->type)) /* a power of whole numbers */
                whole = onnx_to_whole(binary[index].of((double)whole, walk_number(&walk, k, i)));
            else
                whole = whole_binary(index, whole, walk_integer(&walk, k, i), truncates);
        if (onnx_type_is_float(type))
            ((double *)numbers)[i] = onnx_rounded(type, number);
        else
            ((int64_t *)numbers)[i] =
                onnx_type_is_float(from) ? (int64_t)number : whole_wrap(type, whole);
    }
    *onnx_output(import, 0) = result;
    return import->error.code;
}

static int fold_where(struct onnx_import *import)
{
    enum onnx_type type = onnx_input(import, 1)->type;
    struct walk walk;
    struct onnx_value result;
    int64_t count;
    void *numbers;

    if (!walk_begin(import, (int[]){0, 1, 2}, 3, &walk))
        return import->error.code;
    result = walk_result(import, &walk, type, &numbers, &count);
    for (int64_t i = 0; i < count; i++) {
        int from = walk_number(&walk, 0, i) != 0 ? 1 : 2;

        if (onnx_type_is_float(type))
            ((double *)numbers)[i] = walk_number(&walk, from, i);
        else
            ((int64_t *)numbers)[i] = walk_integer(&walk, from, i);
    }
    *onnx_output(import, 0) = result;
    return import->error.code;
}

/* Between two numbers, either of which may be left out. */
static int fold_clip(struct onnx_import *import)
{
    const bool lower = onnx_has_input(import, 1), upper = onnx_has_input(import, 2);
    const int inputs[] = {0, lower ? 1 : 2, 2}, high = lower ? 2 : 1;
    enum onnx_type type = onnx_input(import, 0)->type;
    struct walk walk;
    struct onnx_value result;
    int64_t count;
    void *numbers;

    if (!walk_begin(import, inputs, 1 + lower + upper, &walk))
        return import->error.code;
    result = walk_result(import, &walk, type, &numbers, &count);
    for (int64_t i = 0; i < count; i++)
        if (onnx_type_is_float(type)) {
            double number = walk_number(&walk, 0, i);

            number = lower ? fmax(number, walk_number(&walk, 1, i)) : number;
            ((double *)numbers)[i] = upper ? fmin(number, walk_number(&walk, high, i)) : number;
        } else {
            int64_t whole = walk_integer(&walk, 0, i);
            int64_t least = lower ? walk_integer(&walk, 1, i) : whole;
            int64_t most = upper ? walk_integer(&walk, high, i) : INT64_MAX;

            whole = whole < least ? least : whole;
            ((int64_t *)numbers)[i] = whole > most ? most : whole;
        }
    *onnx_output(import, 0) = result;
    return import->error.code;
}

/* ---- which ---- */

/* Whether what the node reads is known: all of it is constant, or it asks for shapes and types
 * alone. */
static bool is_known(const struct onnx_import *import)
{
    const char *name = import->node->proto->op_type;

    if (strcmp(name, "Shape") == 0 || strcmp(name, "Size") == 0)
        return import->node->input_count == 1 && onnx_input(import, 0)->kind != ONNX_SEQUENCE;
    if (strcmp(name, "CastLike") == 0)
        return onnx_input(import, 0)->kind == ONNX_CONSTANT && onnx_has_input(import, 1);
    for (int i = 0; i < import->node->input_count; i++)
        if (onnx_has_input(import, i) && onnx_input(import, i)->kind != ONNX_CONSTANT)
            return false;
    return true;
}

/* Operands that the standard demands. */
static bool has_operands(const struct onnx_import *import, int count)
{
    for (int i = 0; i < count; i++)
        if (!onnx_has_input(import, i))
            return false;
    return true;
}

/* The function of an operator that is none of the tables above; NULL: there is none. */
static const struct onnx_fold_entry *entry_find(const char *name)
{
    static const struct onnx_fold_entry others[] = {
        {"Where", fold_where}, {"Clip", fold_clip}, {NULL, NULL}};
    const struct onnx_fold_entry *const lists[] = {others, onnx_fold_views, onnx_fold_whole};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct onnx_fold_entry *entry = lists[i]; entry->name; entry++)
            if (strcmp(name, entry->name) == 0)
                return entry;
    return NULL;
}

int onnx_fold(struct onnx_import *import)
{
    static const char *const three[] = {"Where", "Range", "Slice", "ScatterND"},
                             *const two[] = {"Reshape", "Expand",          "Gather", "GatherND",
                                             "MatMul",  "SplitToSequence", "Tile"};
    const char *name = import->node->proto->op_type;
    const struct onnx_fold_entry *entry = entry_find(name);
    int wanted = strcmp(name, "Constant") != 0;

    if (!is_known(import))
        return -ENOTSUP;
    for (size_t i = 0; i < sizeof three / sizeof *three; i++)
        wanted = strcmp(name, three[i]) == 0 ? 3 : wanted;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        wanted = strcmp(name, two[i]) == 0 ? 2 : wanted;
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (strcmp(name, binary[i].name) == 0)
            return has_operands(import, import->node->input_count)
                       ? fold_binary(import, (int)i)
                       : onnx_fail(import, "an operand is missing");
    if (!has_operands(import, wanted))
        return onnx_fail(import, "an operand is missing");
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (strcmp(name, unary[i].name) == 0)
            return fold_unary(import, (int)i);
    return entry ? entry->fold(import) : -ENOTSUP;
}

bool onnx_fold_knows(const char *name)
{
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (strcmp(name, unary[i].name) == 0)
            return true;
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (strcmp(name, binary[i].name) == 0)
            return true;
    return entry_find(name);
}
