/* onnx_functions.c: nodes that compute a function of each number, or that reduce axes. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_fold.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <string.h>

/* What the sigmoid reads whose result is the present node's input; NULL: none gives it. */
static const struct onnx_value *before_sigmoid(const struct onnx_import *import)
{
    for (int i = import->node_index; !import->alone && i-- > 0;) {
        const struct onnx_node *node = &import->model->nodes[i];

        if (onnx_node_output(node, 0) == import->node->input[0] &&
            strcmp(node->proto->op_type, "Sigmoid") == 0 && onnx_node_input(node, 0) >= 0 &&
            import->values[node->input[0]].kind == ONNX_TENSOR)
            return &import->values[node->input[0]];
    }
    return NULL;
}

/* The logarithm of a sigmoid, which would be infinite where that is 0: -softplus(-x). */
static int append_log_sigmoid(struct onnx_import *import, struct onnx_value x)
{
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    x.tensor =
        graph_affine(import->graph, x.tensor, -1, 0, onnx_layer_name(import, ".negative").text);
    if (x.tensor < 0)
        return x.tensor;
    x.tensor = graph_activation(import->graph, x.tensor, import->node->name, ACTIVATION_SOFTPLUS);
    x.factor = -1;
    return onnx_done(import, x);
}

static int append_function(struct onnx_import *import)
{
    static const struct {
        const char *name;
        enum number_function kind;
    } functions[] = {{"Exp", FUNCTION_EXP},   {"Log", FUNCTION_LOG},
                     {"Sqrt", FUNCTION_SQRT}, {"Reciprocal", FUNCTION_RECIPROCAL},
                     {"Sin", FUNCTION_SIN},   {"Cos", FUNCTION_COS}};
    const struct onnx_value *inner =
        strcmp(import->node->proto->op_type, "Log") == 0 ? before_sigmoid(import) : NULL;
    struct onnx_value x = *onnx_input(import, 0);
    struct function_attributes function = {0};

    if (inner)
        return append_log_sigmoid(import, *inner);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, import->node->proto->op_type) == 0)
            function.kind = functions[i].kind;
    x.tensor = graph_function(import->graph, x.tensor, &function, import->node->name);
    return onnx_done(import, x);
}

/* ---- axes that are reduced ---- */

/* Puts the axes that are reduced behind the others, or before them, and the numbers in that order.
 * Gives how many results a sample has, and of how many numbers each. */
static int reduced_together(struct onnx_import *import, struct onnx_value *x, unsigned reduced,
                            bool before, int64_t *results, int64_t *numbers)
{
    int order[ONNX_RANK_MAX] = {0}, count = 0;
    struct onnx_value old = *x;

    *results = *numbers = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < x->rank; r++) {
            bool within = reduced >> r & 1;

            if ((before ? pass == 0 : pass == 1) != within)
                continue;
            order[count++] = r;
            *(within ? numbers : results) *=
                old.extent[r] >= ONNX_BATCH ? old.extent[r] / ONNX_BATCH : old.extent[r];
            if (within && old.extent[r] >= ONNX_BATCH)
                return onnx_missing(import, "over the batch"), -ENOTSUP;
        }
    onnx_atoms_permute(&x->atoms, x->rank, order);
    for (int r = 0; r < x->rank; r++)
        x->extent[r] = old.extent[order[r]];
    return onnx_shaped(import, x, 2,
                       before ? (int64_t[]){*numbers, *results} : (int64_t[]){*results, *numbers}) <
                   0
               ? -ENOTSUP
               : 0;
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
        if (reduced_together(import, x, reduced, false, &sum.outer, &sum.middle))
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
    bool absolute = strcmp(name, "ReduceL1") == 0;
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
    if (absolute)
        x.tensor = onnx_absolute(import, x.tensor);
    if (x.tensor < 0)
        return x.tensor;
    code = append_sum(import, &x, reduced, rank, extent, mean);
    if (code)
        return import->error.code;
    if (root)
        x.tensor = graph_function(import->graph, x.tensor,
                                  &(struct function_attributes){.kind = FUNCTION_SQRT},
                                  import->node->name);
    return onnx_done(import, x);
}

/* Makes the value the largest numbers along these axes; the steps of a sequence are reduced so. */
static int largest_of(struct onnx_import *import, struct onnx_value *x, unsigned reduced, int rank,
                      const int64_t *extent)
{
    int64_t results, numbers;
    int32_t tensor;

    if (x->rank == 4 && reduced == 0xc && x->extent[0] == ONNX_BATCH) {
        tensor = onnx_image(import, x);
        if (tensor >= 0)
            tensor = graph_adaptive_max_pool2d(import->graph, tensor, import->node->name, 1, 1);
        if (tensor >= 0)
            *x = onnx_tensor_value(tensor, rank, extent);
        return tensor < 0 ? tensor : 0;
    }
    if (reduced_together(import, x, reduced, true, &results, &numbers))
        return -ENOTSUP;
    tensor = graph_max_over_time(import->graph, x->tensor, -1, import->node->name);
    return onnx_resettled(import, x, tensor, rank, extent);
}

/* The smallest number is the largest one with another sign. */
static int append_extreme(struct onnx_import *import)
{
    bool smallest = strcmp(import->node->proto->op_type, "ReduceMin") == 0;
    struct onnx_value x = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    unsigned reduced;
    int rank = onnx_reduced_axes(import, &x, &reduced, extent);

    if (rank < 0)
        return import->error.code;
    if (x.kind != ONNX_TENSOR || !onnx_type_is_float(x.type))
        return onnx_missing(import, "of other than numbers of samples");
    x.factor = smallest ? -1 : 0;
    if (onnx_resolve(import, &x) || (reduced && largest_of(import, &x, reduced, rank, extent)))
        return import->error.code;
    x.factor = smallest ? -1 : 0;
    return onnx_done(import, x);
}

/* The largest number, and the logarithm of the sum of exp(x - largest). */
static int append_log_sum_exp(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), largest = x;
    int64_t extent[ONNX_RANK_MAX], kept[ONNX_RANK_MAX];
    unsigned reduced;
    int rank = onnx_reduced_axes(import, &x, &reduced, extent), code;

    if (rank < 0)
        return import->error.code;
    if (x.kind != ONNX_TENSOR || !reduced)
        return onnx_missing(import, "of other than samples, or over no axes");
    for (int r = 0; r < x.rank; r++)
        kept[r] = reduced >> r & 1 ? 1 : x.extent[r];
    if (largest_of(import, &largest, reduced, x.rank, kept))
        return import->error.code;
    code = onnx_combine(import, &x, &largest, BROADCAST_SUBTRACT);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    x = *onnx_output(import, 0);
    x.tensor =
        graph_function(import->graph, x.tensor, &(struct function_attributes){.kind = FUNCTION_EXP},
                       onnx_layer_name(import, ".exp").text);
    if (x.tensor < 0 || append_sum(import, &x, reduced, rank, extent, false))
        return import->error.code;
    x.tensor =
        graph_function(import->graph, x.tensor, &(struct function_attributes){.kind = FUNCTION_LOG},
                       onnx_layer_name(import, ".log").text);
    if (x.tensor < 0 || onnx_reshape_to(import, &largest, rank, extent))
        return import->error.code;
    return onnx_combine(import, &x, &largest, BROADCAST_ADD);
}

/* x less its largest number, and less the logarithm of the sum of exp() of that: the logarithm of a
 * share that float32 cannot hold, below exp(-103), is a number all the same. */
static int append_log_softmax(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), other = x;
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", -1), x.rank), code;
    int64_t kept[ONNX_RANK_MAX];

    if (axis < 0)
        return import->error.code;
    memcpy(kept, x.extent, sizeof kept);
    kept[axis] = 1;
    if (largest_of(import, &other, 1u << axis, x.rank, kept))
        return import->error.code;
    code = onnx_combine(import, &x, &other, BROADCAST_SUBTRACT);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return code;
    x = other = *onnx_output(import, 0);
    other.tensor =
        graph_function(import->graph, x.tensor, &(struct function_attributes){.kind = FUNCTION_EXP},
                       onnx_layer_name(import, ".exp").text);
    if (other.tensor < 0 || append_sum(import, &other, 1u << axis, x.rank, kept, false))
        return import->error.code;
    other.tensor = graph_function(import->graph, other.tensor,
                                  &(struct function_attributes){.kind = FUNCTION_LOG},
                                  onnx_layer_name(import, ".log").text);
    return other.tensor < 0 ? import->error.code
                            : onnx_combine(import, &x, &other, BROADCAST_SUBTRACT);
}

const struct onnx_operator_entry onnx_function_operators[] = {
    {"Exp", append_function, 1, 0},
    {"Log", append_function, 1, 0},
    {"Sqrt", append_function, 1, 0},
    {"Reciprocal", append_function, 1, 0},
    {"Sin", append_function, 1, 0},
    {"Cos", append_function, 1, 0},
    {"ReduceMean", append_reduction, 2, 0},
    {"ReduceSum", append_reduction, 2, 0},
    {"ReduceL2", append_reduction, 2, 0},
    {"ReduceSumSquare", append_reduction, 2, 0},
    {"ReduceL1", append_reduction, 2, 0},
    {"ReduceMax", append_extreme, 2, 0},
    {"ReduceMin", append_extreme, 2, 0},
    {"LogSoftmax", append_log_softmax, 1, 0},
    {"ReduceLogSumExp", append_log_sum_exp, 2, 0},
    {NULL, NULL, 0, 0},
};
