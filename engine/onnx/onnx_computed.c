/* onnx_computed.c: what a model computes from parameters alone, such as weight norm or the softmax
 * of a few factors, and parameters that are repeated over the batch. The engine's operators compute
 * samples: so each sample has such a value, which is the same for all, and the gradient of the
 * parameter is the sum over them. A weight that is a parameter times computed factors is never
 * repeated: layers multiply by the parameter, and their operand or result by the factors. */
#include "engine/onnx/onnx_computed.h"

#include "engine/onnx/onnx_fold.h"

#include <errno.h>
#include <string.h>

/* Whether a name is one of the words. */
static bool is_among(const char *name, const char *words)
{
    size_t length = strlen(name);

    for (const char *at = words; length && (at = strstr(at, name)); at += length)
        if (at > words && at[-1] == ' ' && at[length] == ' ')
            return true;
    return false;
}

/* Nodes that move constants and compute nothing. */
static const char views[] =
    " Constant Shape Size Identity Dropout Reshape Transpose Slice Split SplitToSequence Gather "
    "GatherND Concat Expand Tile Squeeze Unsqueeze Flatten ConstantOfShape SequenceAt Cast CastLike ";
static const char two_operands[] =
    " Add Sub Mul Div Pow Max Min Sum Mean Where Less LessOrEqual Greater GreaterOrEqual And Or ";
/* Nodes that compute from a value that is alone, and perhaps constants. */
static const char one_operand[] =
    " Exp Log Sqrt Reciprocal Sin Cos Erf Neg Abs Relu Sigmoid Tanh HardSigmoid HardSwish Gelu "
    "Swish Mish Softplus LeakyRelu PRelu Elu Selu Celu Clip Softmax LogSoftmax ReduceMean "
    "ReduceSum ReduceL1 ReduceL2 ReduceMax ReduceMin ReduceLogSumExp ReduceSumSquare "
    "LayerNormalization RMSNormalization Reshape Transpose Squeeze Unsqueeze Slice Split Gather "
    "GatherND Gemm Not Sign ";
static const char same[] = " Identity Cast CastLike ";
/* Nodes whose operand is a tensor of samples, even if it is the same for all. */
static const char products[] = " Gemm MatMul Conv ConvTranspose Einsum Concat ";

bool onnx_takes_two(const struct onnx_import *import)
{
    return is_among(import->node->proto->op_type, two_operands);
}

/* ---- shapes ---- */

bool onnx_reshape_value(struct onnx_import *import, struct onnx_value *value, int rank,
                        const int64_t *extent)
{
    int missing = import->missing_count;

    if (rank > ONNX_RANK_MAX) {
        onnx_missing(import, "of more than %d dimensions", ONNX_RANK_MAX - 1);
        return false;
    }
    return onnx_reshape_to(import, value, rank, extent) == 0 && import->missing_count == missing;
}

/* Repeats the value for each of the `count` parts that a sample has along the batch's axis. */
static bool repeat_for_parts(struct onnx_import *import, struct onnx_value *value, int64_t count)
{
    int64_t extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH, 1};
    int rank = value->rank;

    memcpy(extent + 2, value->extent + 1, (size_t)(rank - 1) * sizeof *extent);
    if (!onnx_reshape_value(import, value, rank + 1, extent))
        return false;
    extent[1] = count;
    if (onnx_expand(import, value, extent))
        return false;
    extent[1] = count * ONNX_BATCH;
    return onnx_reshape_value(import, value, rank, extent + 1);
}

bool onnx_align(struct onnx_import *import, struct onnx_value *value, int rank, int axis,
                int64_t batch)
{
    int64_t extent[ONNX_RANK_MAX] = {ONNX_BATCH};
    int own = value->rank - 1, count = 1;

    for (int r = 0; r < rank; r++) {
        int from = r - (rank - own);
        int64_t have = from >= 0 ? value->extent[from + 1] : 1;

        if (own > rank || axis < 0 || (r == axis && have != 1)) {
            onnx_missing(import, "of samples and of parameters that have other axes");
            return false;
        }
        if (r != axis)
            extent[count++] = have;
    }
    if (!onnx_reshape_value(import, value, rank, extent))
        return false;
    if (batch > ONNX_BATCH && (axis || !repeat_for_parts(import, value, batch / ONNX_BATCH))) {
        onnx_missing(import, "whose batch is not first in its axis");
        return false;
    }
    onnx_axis_move(value, 0, axis);
    value->alone = false;
    return true;
}

/* Puts axes of extent 1 before those that the model gives a value that is alone. */
static bool widen(struct onnx_import *import, struct onnx_value *value, int rank)
{
    int64_t extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH};
    int own = value->rank - 1;

    for (int r = 0; r < rank && rank <= ONNX_RANK_MAX; r++)
        extent[r + 1] = r < rank - own ? 1 : value->extent[r - (rank - own) + 1];
    return own == rank || onnx_reshape_value(import, value, rank + 1, extent);
}

/* ---- constants become tensors ---- */

/* A constant that repeats along one axis, the batch. */
static bool repeats_over_batch(const struct onnx_value *value)
{
    int axis = onnx_batch_axis(value);

    return value->kind == ONNX_CONSTANT && onnx_type_is_float(value->type) && axis >= 0 &&
           !value->part_count && value->extent[axis] == ONNX_BATCH && value->stride[axis] == 0 &&
           !value->counts_samples;
}

static struct onnx_value batch_tensor(struct onnx_import *import, const struct onnx_value *value)
{
    struct onnx_value one = *value, result;
    int64_t extent[ONNX_RANK_MAX] = {ONNX_BATCH};
    int axis = onnx_batch_axis(value), count = 1;
    int32_t tensor;

    one.extent[axis] = 1;
    tensor = onnx_repeated_tensor(import, &one);
    for (int r = 0; r < value->rank; r++)
        if (r != axis)
            extent[count++] = value->extent[r];
    result = onnx_tensor_value(tensor, value->rank, extent);
    onnx_axis_move(&result, 0, axis);
    return result;
}

struct onnx_value onnx_alone_tensor(struct onnx_import *import, const struct onnx_value *value)
{
    int64_t extent[ONNX_RANK_MAX] = {ONNX_BATCH};
    struct onnx_value result = {.kind = ONNX_UNKNOWN};
    int32_t tensor;

    if (value->rank == ONNX_RANK_MAX) {
        onnx_missing(import, "of more than %d dimensions", ONNX_RANK_MAX - 1);
        return result;
    }
    tensor = onnx_repeated_tensor(import, value);
    memcpy(extent + 1, value->extent, (size_t)value->rank * sizeof *extent);
    result = onnx_tensor_value(tensor, value->rank + 1, extent);
    result.alone = true;
    return result;
}

/* ---- nodes ---- */

bool onnx_input_replace(struct onnx_import *import, int index)
{
    struct onnx_value value = *onnx_input(import, index);

    if (value.kind == ONNX_CONSTANT)
        value = onnx_alone_tensor(import, &value);
    if (value.kind != ONNX_TENSOR || !onnx_multiply_out(import, &value) ||
        onnx_resolve(import, &value))
        return false;
    import->replaced[index] = value;
    return value.tensor >= 0;
}

static int operator_run(struct onnx_import *import)
{
    return import->entry->append(import);
}

/* Repeats it along axes of extent 1; along the batch too, if the shape or the repeats (of a Tile)
 * name it. */
static int expand(struct onnx_import *import)
{
    int64_t wanted[ONNX_RANK_MAX], extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH};
    int rank = onnx_integers(import, "shape", 1, wanted, ONNX_RANK_MAX), axis = -1;
    bool tile = strcmp(import->node->proto->op_type, "Tile") == 0;
    struct onnx_value value;

    if (rank < 0 || !onnx_input_replace(import, 0))
        return import->error.code;
    value = import->replaced[0];
    for (int r = 0; r < rank && tile; r++) {
        if (rank != value.rank - 1 || (wanted[r] != 1 && value.extent[r + 1] != 1))
            return onnx_missing(import, "that repeats more than one number of what is computed "
                                        "from parameters alone");
        wanted[r] *= value.extent[r + 1];
    }
    for (int r = 0; r < rank; r++)
        axis = wanted[r] >= ONNX_BATCH ? r : axis;
    if (axis >= 0 ? !onnx_align(import, &value, rank, axis, wanted[axis])
                  : !widen(import, &value, rank > value.rank - 1 ? rank : value.rank - 1))
        return import->error.code;
    memcpy(extent, value.extent, (size_t)value.rank * sizeof *extent);
    for (int r = 0; r < rank; r++)
        if (wanted[r] != 1)
            extent[r + value.rank - rank] = wanted[r];
    if (onnx_expand(import, &value, extent))
        return import->error.code;
    *onnx_output(import, 0) = value;
    import->alone = axis < 0;
    return 0;
}

/* Replaces rows by constants: what is kept times 1, the others times 0, and the constants. */
static int scatter(struct onnx_import *import)
{
    const struct onnx_value *index = onnx_input(import, 1), *updates = onnx_input(import, 2);
    struct onnx_value shape = *onnx_input(import, 0), keeps, adds, value;
    char text[8];
    const char *reduction = onnx_attribute_text(import, "reduction", "none", text, sizeof text);
    int64_t row = 1, count, wanted;
    void *kept, *added;
    int axes;

    shape = shape.alone ? onnx_without_batch(&shape) : shape;
    if (index->kind != ONNX_CONSTANT || updates->kind != ONNX_CONSTANT ||
        onnx_value_trains(updates) || strcmp(reduction, "none") != 0)
        return onnx_missing(import, "by other than constants, or with a reduction");
    axes = onnx_listed_axes(import, &shape, index);
    if (axes < 1)
        return import->error.code;
    for (int r = axes; r < shape.rank; r++)
        row *= shape.extent[r]; /* a shape fits */
    count = onnx_value_elements(index) / axes;
    if (row < 1 || __builtin_mul_overflow(count, row, &wanted) ||
        onnx_value_elements(updates) != wanted)
        return onnx_fail(import, "its updates are not as many as its indices want");
    keeps = onnx_constant_new(import, ONNX_FLOAT, shape.rank, shape.extent, &kept);
    adds = onnx_constant_new(import, ONNX_FLOAT, shape.rank, shape.extent, &added);
    for (int64_t i = 0; kept && added && i < onnx_value_elements(&keeps); i++)
        ((double *)kept)[i] = 1;
    for (int64_t i = 0; kept && added && i < count; i++) {
        int64_t first = onnx_listed_row(import, &shape, index, i, axes) * row;

        if (import->error.code)
            return import->error.code;
        for (int64_t k = 0; k < row; k++) {
            ((double *)kept)[first + k] = 0;
            ((double *)added)[first + k] = onnx_number(updates, i * row + k);
        }
    }
    if (import->error.code || !onnx_input_replace(import, 0))
        return import->error.code;
    if (onnx_combine(import, &import->replaced[0], &keeps, BROADCAST_MULTIPLY) ||
        onnx_output(import, 0)->kind != ONNX_TENSOR)
        return import->error.code;
    value = *onnx_output(import, 0);
    return onnx_combine(import, &value, &adds, BROADCAST_ADD);
}

/* Keeps one side of a matrix's diagonal: the others are times 0. */
static int triangle(struct onnx_import *import)
{
    bool upper = onnx_attribute_int(import, "upper", 1);
    struct onnx_value value, keeps;
    int64_t diagonal = 0;
    void *kept;

    if (onnx_has_input(import, 1) && onnx_integers(import, "k", 1, &diagonal, 1) < 0)
        return import->error.code;
    if (!onnx_input_replace(import, 0))
        return import->error.code;
    value = import->replaced[0];
    if (value.rank < 3)
        return onnx_missing(import, "of no matrix");
    keeps = onnx_constant_new(import, ONNX_FLOAT, 2, value.extent + value.rank - 2, &kept);
    for (int64_t row = 0; kept && row < keeps.extent[0]; row++)
        for (int64_t column = 0; column < keeps.extent[1]; column++)
            ((double *)kept)[row * keeps.extent[1] + column] =
                upper ? column - row >= diagonal : column - row <= diagonal;
    return kept ? onnx_combine(import, &value, &keeps, BROADCAST_MULTIPLY) : import->error.code;
}

/* Makes a vector a row or a column. */
static bool matrix_of(struct onnx_import *import, int index, bool column)
{
    struct onnx_value value = *onnx_input(import, index);
    int64_t length = value.extent[value.rank - 1], one[3] = {ONNX_BATCH, 1, 1};

    one[column ? 1 : 2] = length;
    if (value.kind == ONNX_TENSOR ? !onnx_reshape_value(import, &value, 3, one)
                                  : onnx_constant_reshape(import, &value, 2, one + 1) != 0)
        return false;
    import->replaced[index] = value;
    return true;
}

/* A product of which one operand at least is alone, and the other one constant or alone, too. */
static int alone_product(struct onnx_import *import)
{
    bool vector[2];
    int rank = 2, last;
    struct onnx_value result;

    for (int i = 0; i < 2; i++) {
        const struct onnx_value *value = onnx_input(import, i);
        bool tensor = value->kind == ONNX_TENSOR ||
                      (onnx_value_trains(value) && onnx_input(import, 1)->kind != ONNX_TENSOR &&
                       (i == 0 || onnx_input(import, 0)->kind != ONNX_TENSOR)) ||
                      value->rank > 2;

        if (value->rank - value->alone < 1)
            return onnx_fail(import, "an operand is a single number");
        if (tensor && !onnx_input_replace(import, i))
            return import->error.code;
        vector[i] = onnx_input(import, i)->rank - onnx_input(import, i)->alone == 1;
        if (vector[i] && !matrix_of(import, i, i == 1))
            return import->error.code;
    }
    for (int i = 0; i < 2; i++)
        if (onnx_input(import, i)->alone && onnx_input(import, i)->rank - 1 > rank)
            rank = onnx_input(import, i)->rank - 1;
    for (int i = 0; i < 2; i++)
        if (onnx_input(import, i)->alone && !widen(import, &import->replaced[i], rank))
            return import->error.code;
    if (operator_run(import) || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return import->error.code;
    result = *onnx_output(import, 0);
    last = result.rank - 1;
    if (vector[0])
        result.extent[last - 1] = result.extent[last];
    onnx_reshape_value(import, &result, result.rank - vector[0] - vector[1], result.extent);
    return import->error.code;
}

/* Whether the input is what a Where chooses, and constant numbers that differ. */
static bool is_choice(const struct onnx_import *import, int index)
{
    const struct onnx_value *value = onnx_input(import, index);
    double number;

    return index > 0 && strcmp(import->node->proto->op_type, "Where") == 0 &&
           value->kind == ONNX_CONSTANT && onnx_type_is_float(value->type) &&
           !onnx_is_uniform(value, &number) && !repeats_over_batch(value);
}

/* Makes such inputs of a choice between samples tensors. Returns whether there is one. */
static bool choices_replace(struct onnx_import *import)
{
    bool any = false;

    for (int i = 1; i < import->node->input_count; i++)
        if (is_choice(import, i)) {
            any = true;
            import->replaced[i] = onnx_alone_tensor(import, onnx_input(import, i));
        }
    return any && !import->error.code;
}

/* A node all of whose operands are constant or alone. */
static int prepare_alone(struct onnx_import *import, bool *done)
{
    const char *name = import->node->proto->op_type;
    int count = import->node->input_count, rank = 0, chosen = 0;
    bool two = is_among(name, two_operands), concat = strcmp(name, "Concat") == 0;

    if (strcmp(name, "Shape") == 0 || strcmp(name, "Size") == 0)
        return 0;
    import->alone = true;
    if (is_among(name, same))
        return 0;
    *done = true;
    if (strcmp(name, "MatMul") == 0)
        return alone_product(import);
    if (strcmp(name, "Expand") == 0 || strcmp(name, "Tile") == 0)
        return expand(import);
    if (strcmp(name, "ScatterND") == 0)
        return scatter(import);
    if (strcmp(name, "Trilu") == 0)
        return triangle(import);
    if (strcmp(name, "Transpose") == 0 && onnx_input(import, 0)->scaled)
        return onnx_transpose_scaled(import, onnx_input(import, 0));
    if ((strcmp(name, "Mul") == 0 || strcmp(name, "Div") == 0) && count == 2 &&
        onnx_scale_weight(import))
        return import->error.code;
    if (import->error.code || import->graph->error.code)
        return import->error.code;
    if (!two && !concat && !is_among(name, one_operand))
        return onnx_missing(import, "of what is computed from parameters alone");
    *done = false;
    for (int i = 0; i < count && two; i++)
        if (onnx_input(import, i)->alone)
            chosen = -1;
    for (int i = 0; i < count && two && chosen >= 0; i++)
        if (onnx_value_trains(onnx_input(import, i))) {
            chosen = i;
            break;
        }
    for (int i = 0; i < count; i++)
        if ((onnx_input(import, i)->alone || concat || i == chosen || is_choice(import, i)) &&
            !onnx_input_replace(import, i)) {
            *done = true;
            return import->error.code;
        }
    for (int i = 0; i < count && two; i++) {
        const struct onnx_value *value = onnx_input(import, i);

        rank = value->rank - value->alone > rank ? value->rank - value->alone : rank;
    }
    for (int i = 0; i < count && two; i++)
        *done |= onnx_input(import, i)->alone && !widen(import, &import->replaced[i], rank);
    return import->error.code;
}

/* Whether the node computes nothing, or is known without its parameters. */
static bool is_view(const struct onnx_import *import)
{
    const char *name = import->node->proto->op_type;
    bool add = strcmp(name, "Add") == 0, product = strcmp(name, "MatMul") == 0;

    if (is_among(name, views))
        return true;
    for (int i = 0; i < 2 && (add || product); i++)
        if (onnx_is_zero(onnx_input(import, i)))
            return true;
    return false;
}

/* A row before each sequence, for which there is an operator. */
static bool is_token(const struct onnx_import *import)
{
    const struct onnx_value *first = onnx_input(import, 0);

    return strcmp(import->node->proto->op_type, "Concat") == 0 && import->node->input_count == 2 &&
           onnx_attribute_int(import, "axis", 0) == 1 && onnx_value_trains(first) &&
           first->rank == 3 && first->extent[1] == 1;
}

/* Makes a matrix that another layer multiplies by in the other order a tensor, as of a decoder that
 * is tied to its encoder. Returns whether it is such. */
static bool turned_replace(struct onnx_import *import)
{
    const char *name = import->node->proto->op_type;
    const struct onnx_value *weight = onnx_input(import, 1);
    bool gemm = strcmp(name, "Gemm") == 0;
    struct onnx_value wanted = *weight;

    if ((!gemm && strcmp(name, "MatMul") != 0) || onnx_input(import, 0)->kind != ONNX_TENSOR ||
        !onnx_value_trains(weight) || weight->rank != 2 || repeats_over_batch(weight))
        return false;
    if (!(gemm && onnx_attribute_int(import, "transB", 0)) &&
        onnx_constant_permute(import, &wanted, (int[]){1, 0}))
        return false;
    if (!onnx_weight_is_turned(import, &wanted))
        return false;
    import->replaced[1] = onnx_alone_tensor(import, weight);
    return !import->error.code;
}

/* Makes a stack of matrices, or one whose numbers are in another order than the parameter's, a
 * tensor, if it is an operand of a product with samples. Returns whether it is such. */
static bool stack_replace(struct onnx_import *import)
{
    bool gemm = strcmp(import->node->proto->op_type, "Gemm") == 0;
    bool product = gemm || (strcmp(import->node->proto->op_type, "MatMul") == 0 &&
                            import->node->input_count == 2);

    for (int i = gemm ? 1 : 0; i < 2 && product; i++) {
        const struct onnx_value *weight = onnx_input(import, i);
        int64_t stack = 1;

        if (!onnx_value_trains(weight) || weight->rank < 2 || repeats_over_batch(weight) ||
            onnx_input(import, !i)->kind != ONNX_TENSOR)
            continue;
        for (int r = 0; r < weight->rank - 2; r++)
            stack *= weight->extent[r];
        if (stack == 1 && !(onnx_is_picked(weight) && weight->rank == 2 && i == 1))
            continue;
        import->replaced[i] = onnx_alone_tensor(import, weight);
        return import->replaced[i].kind == ONNX_TENSOR && !import->error.code;
    }
    return false;
}

/* Whether constants are read that have to become tensors: an operator that is not computed from
 * constants, or a shape that joins the batch with another axis. */
static bool reads_constants(struct onnx_import *import, bool repeats)
{
    const char *name = import->node->proto->op_type;
    struct onnx_value first = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    int rank;

    if (first.kind != ONNX_CONSTANT || !onnx_type_is_float(first.type) || !import->entry)
        return false;
    if (!onnx_fold_knows(name))
        return true;
    if (!repeats || strcmp(name, "Reshape") != 0 || onnx_input(import, 1)->kind != ONNX_CONSTANT)
        return false;
    rank = onnx_new_shape(import, &first, extent);
    for (int r = 0; r < rank; r++)
        if (extent[r] > ONNX_BATCH)
            return true;
    return false;
}

int onnx_computed_prepare(struct onnx_import *import, bool *done)
{
    const char *name = import->node->proto->op_type;
    bool samples = false, alone = false, trains = false, repeats = false;
    int count = import->node->input_count;

    *done = false;
    if (!onnx_node_is_standard(import->node))
        return 0;
    for (int i = 0; i < count; i++) {
        const struct onnx_value *value = onnx_input(import, i);

        alone |= value->alone;
        samples |= value->kind == ONNX_SEQUENCE || (value->kind == ONNX_TENSOR && !value->alone);
        trains |= onnx_value_trains(value);
        repeats |= repeats_over_batch(value);
    }
    if (count > ONNX_REPLACED_MAX && (alone || repeats))
        return onnx_missing(import, "of more than %d inputs, some of which are computed",
                            (int)ONNX_REPLACED_MAX);
    if (samples && !alone && trains)
        alone = turned_replace(import) || stack_replace(import);
    if (samples)
        alone |= choices_replace(import);
    if (alone)
        return samples ? onnx_mixed_prepare(import, done) : prepare_alone(import, done);
    if (samples ? !repeats || !is_among(name, products) || is_token(import)
                : (!trains || is_view(import)) && !reads_constants(import, repeats))
        return 0;
    if (!repeats)
        return import->entry || is_among(name, " ScatterND Trilu ") ? prepare_alone(import, done)
                                                                    : 0;
    for (int i = 0; i < count; i++)
        if (repeats_over_batch(onnx_input(import, i)))
            import->replaced[i] = batch_tensor(import, onnx_input(import, i));
    return import->error.code;
}

int onnx_computed_finish(struct onnx_import *import)
{
    for (int i = 0; i < import->node->output_count && import->alone; i++)
        if (onnx_output(import, i)->kind == ONNX_TENSOR)
            onnx_output(import, i)->alone = true;
    import->alone = false;
    memset(import->replaced, 0, sizeof import->replaced);
    return import->error.code;
}
