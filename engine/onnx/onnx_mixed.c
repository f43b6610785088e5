/* onnx_mixed.c: nodes of samples that read what is computed from parameters alone: layers whose
 * weights or bias are computed, and combinations number by number. See onnx_computed.h. */
#include "engine/onnx/onnx_computed.h"

#include <string.h>

/* Samples times a matrix, or a vector, that is alone. */
static int samples_product(struct onnx_import *import, struct onnx_value x,
                           struct onnx_value matrix, bool transposed)
{
    int axis = onnx_batch_axis(&x), rank = x.rank;
    int64_t extent[ONNX_RANK_MAX], rows = 1;
    bool vector = matrix.rank == 2;
    struct onnx_value result;

    if (axis < 0 || axis == rank - 1 || !onnx_multiply_out(import, &matrix) ||
        onnx_resolve(import, &matrix) || onnx_resolve(import, &x))
        return import->error.code || import->graph->error.code
                   ? 0
                   : onnx_missing(import, "whose batch would be its features");
    if (vector &&
        !onnx_reshape_value(import, &matrix, 3, (int64_t[]){ONNX_BATCH, matrix.extent[1], 1}))
        return 0;
    if (transposed) {
        int64_t columns = matrix.extent[1];

        onnx_atoms_permute(&matrix.atoms, 3, (int[]){0, 2, 1});
        matrix.extent[1] = matrix.extent[2];
        matrix.extent[2] = columns;
    }
    onnx_axis_move(&x, axis, 0);
    memcpy(extent, x.extent, sizeof extent);
    for (int r = 0; r < rank - 1; r++)
        rows *= x.extent[r] >= ONNX_BATCH ? x.extent[r] / ONNX_BATCH : x.extent[r];
    if (!onnx_reshape_value(import, &x, 3, (int64_t[]){ONNX_BATCH, rows, extent[rank - 1]}))
        return 0;
    matrix.alone = false;
    if (onnx_batch_product(import, &x, &matrix) || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return 0;
    result = *onnx_output(import, 0);
    extent[rank - 1] = result.extent[2];
    if (!onnx_reshape_value(import, &result, rank - vector, extent))
        return 0;
    onnx_axis_move(&result, 0, axis);
    *onnx_output(import, 0) = result;
    return 0;
}

/* The input that is of samples; the one with most axes. */
static const struct onnx_value *samples_of(const struct onnx_import *import)
{
    const struct onnx_value *found = NULL;

    for (int i = 0; i < import->node->input_count; i++) {
        const struct onnx_value *value = onnx_input(import, i);

        if (value->kind == ONNX_TENSOR && !value->alone && (!found || value->rank > found->rank))
            found = value;
    }
    return found;
}

/* Whether the node is a layer with a bias that is computed. */
static bool has_computed_bias(const struct onnx_import *import)
{
    const char *name = import->node->proto->op_type;

    return onnx_input(import, 2)->alone && samples_of(import) == onnx_input(import, 0) &&
           (strncmp(name, "Conv", 4) == 0 ||
            (strcmp(name, "Gemm") == 0 && onnx_attribute_float(import, "beta", 1) == 1 &&
             !onnx_attribute_int(import, "transA", 0)));
}

/* Such a layer: the bias is added to its result. */
static int biased_layer(struct onnx_import *import)
{
    bool image = strcmp(import->node->proto->op_type, "Gemm") != 0, done = false;
    struct onnx_value bias = *onnx_input(import, 2), x = *onnx_input(import, 0), y;
    int64_t extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH};
    void *numbers;
    int code;

    import->replaced[2] = onnx_constant_new(import, ONNX_FLOAT, 0, NULL, &numbers); /* 0 is none */
    if (!numbers || !onnx_multiply_out(import, &bias) || onnx_resolve(import, &bias) ||
        onnx_resolve(import, &x))
        return import->error.code;
    import->replaced[0] = x;
    code = onnx_input(import, 1)->alone ? onnx_mixed_prepare(import, &done) : 0;
    if (!code && !done)
        code = import->entry->append(import);
    if (code || onnx_output(import, 0)->kind != ONNX_TENSOR)
        return import->error.code;
    y = *onnx_output(import, 0);
    for (int r = 0; r < y.rank; r++)
        extent[r + 1] = r == (image ? 1 : y.rank - 1) ? y.extent[r] : 1;
    if (!onnx_reshape_value(import, &bias, y.rank + 1, extent) ||
        !onnx_align(import, &bias, y.rank, 0, y.extent[0]))
        return import->error.code;
    return onnx_combine(import, &y, &bias, BROADCAST_ADD);
}

int onnx_mixed_prepare(struct onnx_import *import, bool *done)
{
    const char *name = import->node->proto->op_type;
    const struct onnx_value *x = samples_of(import), *weight = onnx_input(import, 1),
                            *bias = onnx_input(import, 2);
    bool product = strcmp(name, "MatMul") == 0, gemm = strcmp(name, "Gemm") == 0;
    bool weights = x == onnx_input(import, 0) && weight->alone && !bias->alone;
    struct onnx_value result;
    int code;

    *done = true;
    if (has_computed_bias(import))
        return biased_layer(import);
    if (weights && weight->scaled && onnx_scaled_layer(import, &code))
        return code;
    if (weights && ((product && weight->rank <= 3) ||
                    (gemm && weight->rank == 3 && !onnx_attribute_int(import, "transA", 0) &&
                     onnx_attribute_float(import, "alpha", 1) == 1 &&
                     onnx_attribute_float(import, "beta", 1) == 1))) {
        code =
            samples_product(import, *x, *weight, gemm && onnx_attribute_int(import, "transB", 0));
        if (code || !gemm || bias->kind == ONNX_ABSENT || onnx_is_zero(bias) ||
            onnx_output(import, 0)->kind != ONNX_TENSOR)
            return import->error.code;
        result = *onnx_output(import, 0);
        return onnx_combine(import, &result, bias, BROADCAST_ADD);
    }
    if (strcmp(name, "Einsum") == 0) {
        for (int i = 0; i < import->node->input_count; i++)
            if (onnx_input(import, i)->alone && !onnx_input_replace(import, i))
                return import->error.code;
        *done = false;
        return 0;
    }
    if (!product && !onnx_takes_two(import))
        return onnx_missing(import, "of samples and of what is computed from parameters alone");
    for (int i = 0; i < import->node->input_count; i++) {
        struct onnx_value value = *onnx_input(import, i);
        int axis = onnx_batch_axis(x);

        if (!value.alone)
            continue;
        if (!onnx_multiply_out(import, &value) || onnx_resolve(import, &value) ||
            !onnx_align(import, &value, x->rank, axis, axis < 0 ? 0 : x->extent[axis]))
            return import->error.code;
        import->replaced[i] = value;
    }
    *done = false;
    return 0;
}
