/* onnx_layers.c: products and means, and what nodes with weights share. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct onnx_layer_name onnx_weight_layer(const struct onnx_import *import,
                                         const struct onnx_value *weight)
{
    struct onnx_layer_name name = onnx_layer_name(import, "");
    const char *own = weight->part_count || !weight->store ? NULL : weight->store->name;
    size_t length = own ? strlen(own) : 0;

    if (length > 7 && length < sizeof name.text && strcmp(own + length - 7, ".weight") == 0) {
        memcpy(name.text, own, length - 7);
        name.text[length - 7] = '\0';
    }
    return name;
}

int onnx_done(struct onnx_import *import, struct onnx_value value)
{
    if (value.tensor >= 0)
        *onnx_output(import, 0) = value;
    return value.tensor >= 0 ? 0 : value.tensor;
}

int onnx_done_as(struct onnx_import *import, struct onnx_value value, int32_t tensor)
{
    value.tensor = tensor;
    return onnx_done(import, value);
}

bool onnx_bind_bias(struct onnx_import *import, const struct onnx_value *bias, int64_t width)
{
    if (bias->kind != ONNX_CONSTANT || onnx_is_zero(bias))
        return false;
    graph_bind_parameter(
        import->graph, "bias",
        onnx_weight(import, bias, &(struct graph_shape){.rank = 1, .extent = {width}}, false));
    return true;
}

/* ---- products ---- */

/* The bias that the next node adds to a product of that many axes, whose work is then done here;
 * NULL: none. */
static const struct onnx_value *absorb_bias(struct onnx_import *import, int rank, int64_t width,
                                            const struct onnx_node **adder)
{
    *adder = import->alone || import->replaced[1].kind != ONNX_ABSENT
                 ? NULL
                 : onnx_only_reader(import, import->node, "Add");
    for (int i = 0; *adder && (*adder)->input_count == 2 && i < 2; i++) {
        int32_t input = (*adder)->input[i];
        const struct onnx_value *bias = input >= 0 ? &import->values[input] : NULL;

        if (bias && input != import->node->output[0] && bias->kind == ONNX_CONSTANT &&
            bias->rank >= 1 && bias->rank <= rank && bias->extent[bias->rank - 1] == width &&
            onnx_value_elements(bias) == width && (*adder)->output_count == 1) {
            import->absorbed[*adder - import->model->nodes] = true;
            return bias;
        }
    }
    *adder = NULL;
    return NULL;
}

/* x W^T + bias for rows of x, W [outputs, inputs]. */
static int append_product(struct onnx_import *import, struct onnx_value *x,
                          const struct onnx_value *weight, const struct onnx_value *bias)
{
    const struct graph_shape shape = {.rank = 2, .extent = {weight->extent[0], weight->extent[1]}};
    int32_t tensor = onnx_rows(import, x);
    bool biased;

    if (tensor < 0)
        return tensor;
    if (x->extent[x->rank - 1] != shape.extent[1])
        return onnx_fail(import, "rows of %s numbers meet a matrix of %s",
                         onnx_extent_text(x->extent[x->rank - 1]).text,
                         onnx_extent_text(shape.extent[1]).text);
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, weight, &shape, false));
    biased = bias && onnx_bind_bias(import, bias, shape.extent[0]);
    tensor = graph_linear(import->graph, tensor, onnx_weight_layer(import, weight).text,
                          shape.extent[0], biased);
    if (tensor < 0)
        return tensor;
    onnx_rows_widen(x, tensor, shape.extent[0]);
    return 0;
}

/* alpha x W + beta b, which is beta (alpha / beta x W + b). */
static int append_gemm(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), weight = *onnx_input(import, 1);
    const struct onnx_value *bias = onnx_input(import, 2);
    double alpha = onnx_attribute_float(import, "alpha", 1);
    double beta = bias->kind == ONNX_ABSENT ? 1 : onnx_attribute_float(import, "beta", 1);
    bool single = bias->kind == ONNX_CONSTANT && onnx_value_elements(bias) == 1; /* for all */
    int code;

    /* [N] or [1, N]: another shape repeats along the rows, or is of the samples */
    if (bias->kind != ONNX_ABSENT && bias->rank &&
        bias->extent[bias->rank - 1] != onnx_value_elements(bias))
        return onnx_missing(import, "with a bias for each row");
    if (x.kind != ONNX_TENSOR || weight.kind != ONNX_CONSTANT || x.rank - import->alone != 2 ||
        weight.rank != 2 || onnx_attribute_int(import, "transA", 0) || bias->kind == ONNX_TENSOR ||
        !isnormal(alpha / beta) || !isnormal(beta))
        return onnx_missing(import, "other than rows times a constant matrix and a bias");
    x.factor = alpha / beta;
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    if (!onnx_attribute_int(import, "transB", 0) &&
        onnx_constant_permute(import, &weight, (int[]){1, 0}))
        return import->error.code;
    code = append_product(import, &x, &weight, single ? NULL : bias);
    if (code == 0 && single && !onnx_is_zero(bias)) {
        code = onnx_combine(import, &x, bias, BROADCAST_ADD);
        if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
            return code;
        x = *onnx_output(import, 0);
    }
    x.factor = beta == 1 ? 0 : beta;
    return code ? code : onnx_done(import, x);
}

/* Repeats the matrices of one operand that the other has more of. */
static int matrices_match(struct onnx_import *import, struct onnx_value *a, struct onnx_value *b)
{
    int64_t extent[2][ONNX_RANK_MAX];

    memcpy(extent[0], a->extent, sizeof extent[0]);
    memcpy(extent[1], b->extent, sizeof extent[1]);
    for (int r = 0; r < a->rank - 2; r++)
        extent[0][r] = extent[1][r] = a->extent[r] == 1 ? b->extent[r] : a->extent[r];
    if (onnx_expand(import, a, extent[0]) || onnx_expand(import, b, extent[1]))
        return -ENOTSUP;
    return 0;
}

int onnx_batch_product(struct onnx_import *import, struct onnx_value *a, struct onnx_value *b)
{
    struct batch_product_attributes product = {.groups = 1};
    struct onnx_value result;
    int32_t x, y;
    int rank = a->rank;

    if (a->rank != b->rank || rank < 3 || a->extent[0] % ONNX_BATCH || b->extent[0] % ONNX_BATCH)
        return onnx_missing(import, "of different dimensions");
    if (onnx_resolve(import, a) || onnx_resolve(import, b) || matrices_match(import, a, b))
        return import->error.code;
    product.groups = a->extent[0] / ONNX_BATCH;
    for (int r = 0; r < rank - 2; r++) {
        product.groups *= r ? a->extent[r] : 1;
    }
    product.rows = a->extent[rank - 2];
    product.depth = a->extent[rank - 1];
    product.columns = b->extent[rank - 1];
    if (b->extent[rank - 2] != product.depth)
        return onnx_fail(import, "rows of %s numbers meet columns of %s",
                         onnx_extent_text(product.depth).text,
                         onnx_extent_text(b->extent[rank - 2]).text);
    x = onnx_shaped(import, a, 2, (int64_t[]){product.groups * product.rows, product.depth});
    y = x < 0 ? x
              : onnx_shaped(import, b, 2,
                            (int64_t[]){product.groups * product.depth, product.columns});
    if (y < 0)
        return y;
    if (a->atoms.order[0] != 0 || b->atoms.order[0] != 0)
        return onnx_missing(import, "whose batch is not first");
    x = graph_batch_product(import->graph, x, y, &product, import->node->name);
    if (x < 0)
        return x;
    result = *a;
    result.tensor = x;
    result.extent[rank - 1] = product.columns;
    result.atoms =
        (struct onnx_atoms){.count = 2,
                            .extent = {ONNX_BATCH, product.groups * product.rows * product.columns},
                            .order = {0, 1}};
    if (!onnx_atoms_reshape(&result.atoms, rank, result.extent))
        return onnx_missing(import, "whose batch is not first");
    return onnx_done(import, result);
}

/* A constant matrix times samples: their columns are rows of the transposed ones. */
static int append_left_product(struct onnx_import *import, const struct onnx_value *weight,
                               struct onnx_value *x)
{
    int code;

    if (onnx_resolve(import, x))
        return import->graph->error.code;
    onnx_axis_move(x, x->rank - 1, x->rank - 2);
    code = append_product(import, x, weight, NULL);
    if (code)
        return code;
    onnx_axis_move(x, x->rank - 1, x->rank - 2);
    return onnx_done(import, *x);
}

/* A constant matrix with axes of extent 1 before it, without them. */
static bool is_matrix(struct onnx_import *import, struct onnx_value *weight)
{
    int last = weight->rank - 1;

    if (weight->kind != ONNX_CONSTANT || weight->rank < 2 ||
        !onnx_shape_fits(2, weight->extent + last - 1) ||
        onnx_value_elements(weight) != weight->extent[last] * weight->extent[last - 1])
        return false;
    return weight->rank == 2 ||
           onnx_constant_reshape(import, weight, 2,
                                 (int64_t[]){weight->extent[last - 1], weight->extent[last]}) == 0;
}

static int append_mat_mul(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), weight = *onnx_input(import, 1);
    const struct onnx_node *adder;
    const struct onnx_value *bias;
    int code;

    if (x.kind == ONNX_TENSOR && weight.kind == ONNX_TENSOR) {
        bool given =
            import->replaced[0].kind == ONNX_ABSENT && import->replaced[1].kind == ONNX_ABSENT;

        return given && onnx_attention_absorb(import) ? import->graph->error.code
                                                      : onnx_batch_product(import, &x, &weight);
    }
    if (weight.kind == ONNX_TENSOR && weight.rank >= 2 && x.rank <= weight.rank &&
        is_matrix(import, &x))
        return append_left_product(import, &x, &weight);
    if (x.kind != ONNX_TENSOR || x.rank < 2 || weight.rank > x.rank || !is_matrix(import, &weight))
        return onnx_missing(import, "other than samples times a constant matrix");
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    if (onnx_constant_permute(import, &weight, (int[]){1, 0}))
        return import->error.code;
    bias = absorb_bias(import, x.rank, weight.extent[0], &adder);
    code = append_product(import, &x, &weight, bias);
    if (code)
        return code;
    if (adder && adder->output[0] >= 0)
        import->values[adder->output[0]] = x;
    return onnx_done(import, x);
}

/* ---- embeddings ---- */

/* The symbols of a sample in a row, of which the indices are those from `first` on. False: the
 * indices are in another order. */
static bool symbols_of(const struct onnx_import *import, const struct onnx_value *index,
                       int32_t *symbols, int64_t *length, int64_t *first)
{
    const struct onnx_cut *cut = index->cut;
    const struct graph_shape *shape;

    *symbols = cut ? cut->whole : index->tensor;
    *first = cut ? cut->first : 0;
    if (*symbols < 0 || index->rank < 1 || index->extent[0] != ONNX_BATCH ||
        !onnx_atoms_are_plain(&index->atoms))
        return false;
    shape = &import->graph->tensors[*symbols].shape;
    *length = shape->rank == 2 ? shape->extent[1] : 0;
    return cut ? cut->outer == 1 && cut->width == *length
               : *length * ONNX_BATCH == onnx_value_elements(index);
}

/* All symbols are looked up, also where a part of them is wanted, such as one column: they cannot
 * be cut out themselves. */
int onnx_embed(struct onnx_import *import, const struct onnx_value *weight,
               const struct onnx_value *index)
{
    const struct graph_shape shape = {.rank = 2, .extent = {weight->extent[0], weight->extent[1]}};
    int64_t extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH, 1, shape.extent[1]}, first;
    struct onnx_value result;
    int32_t tensor;

    if (index->rank >= ONNX_RANK_MAX || !symbols_of(import, index, &tensor, &extent[1], &first))
        return onnx_missing(import, "by other than the samples' indices, whose batch is first");
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, weight, &shape, false));
    tensor = graph_embedding(import->graph, tensor, onnx_weight_layer(import, weight).text,
                             shape.extent[0], shape.extent[1]);
    if (tensor < 0)
        return tensor;
    result = onnx_tensor_value(tensor, 3, extent);
    if (index->cut && onnx_cut_out(import, &result, 1, first, index->cut->count))
        return import->error.code;
    memcpy(extent, index->extent, (size_t)index->rank * sizeof *extent);
    extent[index->rank] = shape.extent[1];
    if (onnx_reshape_to(import, &result, index->rank + 1, extent))
        return import->error.code;
    return onnx_done(import, result);
}

const struct onnx_operator_entry onnx_layer_operators[] = {
    {"Gemm", append_gemm, 3, ONNX_TAKES_CONSTANT},
    {"MatMul", append_mat_mul, 2, ONNX_TAKES_PENDING | ONNX_TAKES_CONSTANT},
    {NULL, NULL, 0, 0},
};
