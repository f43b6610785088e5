/* onnx_functions.c: nodes that compute a function of each number, that reduce axes, or choose by a
 * constant mask. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <string.h>

static int append_function(struct onnx_import *import)
{
    static const struct {
        const char *name;
        enum number_function kind;
    } functions[] = {{"Exp", FUNCTION_EXP},   {"Log", FUNCTION_LOG},
                     {"Sqrt", FUNCTION_SQRT}, {"Reciprocal", FUNCTION_RECIPROCAL},
                     {"Sin", FUNCTION_SIN},   {"Cos", FUNCTION_COS}};
    struct onnx_value x = *onnx_input(import, 0);
    struct function_attributes function = {0};

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, import->node->proto->op_type) == 0)
            function.kind = functions[i].kind;
    x.tensor = graph_function(import->graph, x.tensor, &function, import->node->name);
    return onnx_done(import, x);
}

/* ---- axes that are reduced ---- */

/* Puts the axes that are reduced behind the others, and the numbers in that order. Gives how many
 * sums a sample has, and of how many numbers each. */
static int reduced_last(struct onnx_import *import, struct onnx_value *x, unsigned reduced,
                        int64_t *rows, int64_t *columns)
{
    int order[ONNX_RANK_MAX] = {0}, count = 0;
    struct onnx_value old = *x;

    *rows = *columns = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < x->rank; r++)
            if ((reduced >> r & 1) == (unsigned)pass) {
                order[count++] = r;
                *(pass ? columns : rows) *=
                    old.extent[r] >= ONNX_BATCH ? old.extent[r] / ONNX_BATCH : old.extent[r];
                if (pass && old.extent[r] >= ONNX_BATCH)
                    return onnx_missing(import, "over the batch"), -ENOTSUP;
            }
    onnx_atoms_permute(&x->atoms, x->rank, order);
    for (int r = 0; r < x->rank; r++)
        x->extent[r] = old.extent[order[r]];
    return onnx_shaped(import, x, 2, (int64_t[]){*rows, *columns}) < 0 ? -ENOTSUP : 0;
}

/* The sum over an axis that lies in the middle needs no other order. */
static bool lies_together(const struct onnx_value *x, unsigned reduced,
                          struct axis_sum_attributes *sum)
{
    int64_t *part = &sum->outer;

    sum->outer = sum->middle = sum->inner = 1;
    if (!onnx_atoms_are_plain(&x->atoms) || x->extent[0] != ONNX_BATCH || reduced & 1)
        return false;
    for (int r = 1; r < x->rank; r++) {
        bool within = reduced >> r & 1;

        if (within && part == &sum->inner)
            return false;
        if (within)
            part = &sum->middle;
        else if (part == &sum->middle)
            part = &sum->inner;
        *part *= x->extent[r];
    }
    return true;
}

static int append_sum(struct onnx_import *import, struct onnx_value *x, unsigned reduced, int rank,
                      const int64_t *extent, bool mean)
{
    struct axis_sum_attributes sum = {.factor = 1};
    int64_t elements;
    int32_t tensor;

    if (!lies_together(x, reduced, &sum)) {
        sum = (struct axis_sum_attributes){.inner = 1, .factor = 1};
        if (reduced_last(import, x, reduced, &sum.outer, &sum.middle))
            return -ENOTSUP;
    }
    elements = sum.outer * sum.middle * sum.inner;
    if (mean)
        sum.factor = 1 / (float)sum.middle;
    tensor = onnx_reshaped(import, x->tensor, 1, &elements);
    return onnx_resettled(
        import, x,
        graph_axis_sum(import->graph, tensor, &sum, onnx_layer_name(import, ".sum").text), rank,
        extent);
}

/* The operator in a way that is faster: pixels of images, steps of sequences. */
static int32_t mean_of_images(struct onnx_import *import, struct onnx_value *x, unsigned reduced)
{
    int axes;

    if (x->rank == 4 && reduced == 0xc) {
        int32_t image = onnx_image(import, x);

        return image < 0 ? image
                         : graph_global_average_pool2d(import->graph, image, import->node->name);
    }
    if (x->rank == 3 && reduced == 0x4) {
        int32_t image = onnx_images_of(import, x, &axes);

        return image < 0 ? image
                         : graph_global_average_pool2d(import->graph, image, import->node->name);
    }
    x->tensor = onnx_shaped(import, x, 2, x->extent + 1);
    return x->tensor < 0 ? x->tensor
                         : graph_mean_over_time(import->graph, x->tensor, -1, import->node->name);
}

/* Sums, means and norms. */
static int append_reduction(struct onnx_import *import)
{
    const char *name = import->node->proto->op_type;
    bool mean = strcmp(name, "ReduceMean") == 0, root = strcmp(name, "ReduceL2") == 0;
    bool squares = root || strcmp(name, "ReduceSumSquare") == 0;
    struct onnx_value x = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    unsigned reduced;
    int rank = onnx_reduced_axes(import, &x, &reduced, extent), code;

    if (rank < 0)
        return import->error.code;
    if (x.kind != ONNX_TENSOR)
        return onnx_missing(import, "of other than samples");
    if (mean && x.extent[0] == ONNX_BATCH &&
        ((x.rank == 4 && reduced == 0xc) || (x.rank == 3 && (reduced == 0x4 || reduced == 0x2)))) {
        int32_t tensor = mean_of_images(import, &x, reduced);

        return tensor < 0 ? tensor : onnx_done(import, onnx_tensor_value(tensor, rank, extent));
    }
    if (squares) {
        code = onnx_combine(import, &x, &x, BROADCAST_MULTIPLY);
        if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
            return code;
        x = *onnx_output(import, 0);
    }
    code = append_sum(import, &x, reduced, rank, extent, mean);
    if (code)
        return import->error.code;
    if (root)
        x.tensor = graph_function(import->graph, x.tensor,
                                  &(struct function_attributes){.kind = FUNCTION_SQRT},
                                  import->node->name);
    return onnx_done(import, x);
}

/* ---- a constant mask ---- */

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

/* Where a mask is true the first, elsewhere the second. A number that is infinite stays large and
 * finite, so that its product with 0 is 0. */
static int append_where(struct onnx_import *import)
{
    struct onnx_value mask = *onnx_input(import, 0), other;
    const struct onnx_value *yes = onnx_input(import, 1), *no = onnx_input(import, 2);
    bool shown = yes->kind == ONNX_TENSOR;
    const struct onnx_value *x = shown ? yes : no, *rest = shown ? no : yes;
    double number;
    int code;

    if (mask.kind != ONNX_CONSTANT)
        return onnx_missing(import, "by a mask that depends on the samples");
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
    if (!onnx_is_uniform(rest, &number))
        return onnx_missing(import, "of a constant of different numbers");
    number = number < -3e38 ? -3e38 : number > 3e38 ? 3e38 : number;
    mask = onnx_mask_numbers(import, &mask, shown ? 0 : number, shown ? number : 0);
    return import->error.code ? import->error.code
                              : onnx_combine(import, &other, &mask, BROADCAST_ADD);
}

const struct onnx_operator_entry onnx_function_operators[] = {
    {"Exp", append_function, false},         {"Log", append_function, false},
    {"Sqrt", append_function, false},        {"Reciprocal", append_function, false},
    {"Sin", append_function, false},         {"Cos", append_function, false},
    {"ReduceMean", append_reduction, false}, {"ReduceSum", append_reduction, false},
    {"ReduceL2", append_reduction, false},   {"ReduceSumSquare", append_reduction, false},
    {"Where", append_where, false},          {NULL, NULL, false},
};
