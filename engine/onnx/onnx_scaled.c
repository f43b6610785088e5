/* onnx_scaled.c: weights that are a parameter times, or divided by, computed factors: weight norm,
 * spectral norm. See onnx_computed.h. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_computed.h"
#include "engine/onnx/onnx_fold.h"

#include <errno.h>
#include <string.h>

/* Multiplies x along its axis by the factors. The result replaces x and the present node's
 * output. */
static int scale_by(struct onnx_import *import, struct onnx_value *x,
                    const struct onnx_scaled *scaled, int axis)
{
    struct onnx_value scale = scaled->scale;
    int64_t extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH};
    int batch = onnx_batch_axis(x);
    double number;

    if (onnx_is_uniform(&scale, &number) && number != 0) {
        x->factor = (x->factor != 0 ? x->factor : 1) * number;
        *onnx_output(import, 0) = *x;
        return onnx_resolve(import, x);
    }
    for (int r = 0; r < x->rank; r++)
        extent[r + 1] = r == axis && scaled->axis >= 0 ? x->extent[axis] : 1;
    if (scale.kind == ONNX_TENSOR &&
        (!onnx_reshape_value(import, &scale, x->rank + 1, extent) ||
         !onnx_align(import, &scale, x->rank, batch, batch < 0 ? 0 : x->extent[batch])))
        return -ENOTSUP;
    if (onnx_combine(import, x, &scale, BROADCAST_MULTIPLY) ||
        onnx_output(import, 0)->kind != ONNX_TENSOR)
        return -ENOTSUP;
    *x = *onnx_output(import, 0);
    return 0;
}

bool onnx_multiply_out(struct onnx_import *import, struct onnx_value *value)
{
    const struct onnx_scaled *scaled = value->scaled;

    if (!scaled)
        return true;
    *value = onnx_alone_tensor(import, &scaled->weight);
    if (value->kind != ONNX_TENSOR || value->tensor < 0 ||
        scale_by(import, value, scaled, scaled->axis + 1))
        return false;
    value->alone = true;
    return true;
}

/* The axis of the weight along which the factors differ; -1: there is one factor, -2: there are
 * others. `extent`: of the factors, as the model has them. */
static int scale_axis(const struct onnx_value *weight, int rank, const int64_t *extent)
{
    int axis = -1;

    for (int r = 0; r < rank; r++) {
        int own = r + weight->rank - rank;

        if (extent[r] == 1)
            continue;
        if (own < 0 || axis >= 0 || extent[r] != weight->extent[own])
            return -2;
        axis = own;
    }
    return rank > weight->rank ? -2 : axis;
}

/* A parameter that may be a layer's weight. */
static bool is_weight(const struct onnx_value *value)
{
    return onnx_value_trains(value) && value->rank >= 2 && !value->part_count &&
           !onnx_is_picked(value) && onnx_batch_axis(value) < 0;
}

/* Whether a layer may multiply by it: a parameter, or one that has factors already. */
static bool may_scale(const struct onnx_value *value)
{
    return is_weight(value) || (value->alone && value->scaled);
}

static int64_t weight_elements(const struct onnx_value *value)
{
    return onnx_value_elements(value->scaled ? &value->scaled->weight : value);
}

/* The factors of a weight that the present node multiplies, or divides, by `value`. */
static bool scale_of(struct onnx_import *import, const struct onnx_value *weight,
                     const struct onnx_value *value, bool divides, struct onnx_scaled *scaled)
{
    int64_t extent[2] = {ONNX_BATCH, 1};
    double number;

    scaled->weight = *weight;
    scaled->axis = scale_axis(weight, value->rank - value->alone, value->extent + value->alone);
    if (scaled->axis == -2)
        return false;
    if (onnx_is_uniform(value, &number)) {
        void *numbers;

        scaled->scale = onnx_constant_new(import, ONNX_FLOAT, 0, NULL, &numbers);
        if (!numbers)
            return false;
        *(double *)numbers = divides ? 1 / number : number;
        return true;
    }
    scaled->scale = value->alone ? *value : onnx_alone_tensor(import, value);
    extent[1] = scaled->axis >= 0 ? weight->extent[scaled->axis] : 1;
    if (scaled->scale.tensor < 0 || onnx_resolve(import, &scaled->scale) ||
        !onnx_reshape_value(import, &scaled->scale, 2, extent))
        return false;
    if (divides)
        scaled->scale.tensor =
            graph_function(import->graph, scaled->scale.tensor,
                           &(struct function_attributes){.kind = FUNCTION_RECIPROCAL},
                           onnx_layer_name(import, ".factor").text);
    return scaled->scale.tensor >= 0;
}

/* Multiplies the factors by those that the weight has already, which lie along the same axis, or
 * are one. */
static bool scales_join(struct onnx_import *import, struct onnx_scaled *scaled,
                        const struct onnx_scaled *before)
{
    bool swaps = before->axis >= 0 || scaled->scale.kind != ONNX_TENSOR;
    const struct onnx_value *a = swaps ? &before->scale : &scaled->scale;
    const struct onnx_value *b = swaps ? &scaled->scale : &before->scale;
    double first, second;

    if (scaled->axis >= 0 && before->axis >= 0 && scaled->axis != before->axis)
        return false;
    scaled->axis = before->axis >= 0 ? before->axis : scaled->axis;
    if (onnx_is_uniform(a, &first) && onnx_is_uniform(b, &second)) {
        void *numbers;

        scaled->scale = onnx_constant_new(import, ONNX_FLOAT, 0, NULL, &numbers);
        if (numbers)
            *(double *)numbers = first * second;
        return numbers != NULL;
    }
    if (onnx_combine(import, a, b, BROADCAST_MULTIPLY) ||
        onnx_output(import, 0)->kind != ONNX_TENSOR)
        return false;
    scaled->scale = *onnx_output(import, 0);
    return onnx_resolve(import, &scaled->scale) == 0;
}

bool onnx_scale_weight(struct onnx_import *import)
{
    bool divides = strcmp(import->node->proto->op_type, "Div") == 0;
    struct onnx_value a = *onnx_input(import, 0), b = *onnx_input(import, 1), result;
    struct onnx_scaled *scaled;

    if (!divides &&
        (!may_scale(&a) || (may_scale(&b) && weight_elements(&b) > weight_elements(&a)))) {
        result = a;
        a = b;
        b = result;
    }
    if (!may_scale(&a) || (!a.scaled && a.rank == ONNX_RANK_MAX) ||
        !onnx_multiply_out(import, &b) || (b.kind != ONNX_TENSOR && b.kind != ONNX_CONSTANT))
        return false;
    scaled = onnx_allocate(import, 1, sizeof *scaled);
    if (!scaled || !scale_of(import, a.scaled ? &a.scaled->weight : &a, &b, divides, scaled) ||
        (a.scaled && !scales_join(import, scaled, a.scaled)))
        return false;
    a = scaled->weight;
    result = (struct onnx_value){.kind = ONNX_TENSOR,
                                 .type = ONNX_FLOAT,
                                 .rank = a.rank + 1,
                                 .extent = {ONNX_BATCH},
                                 .tensor = -1,
                                 .alone = true,
                                 .scaled = scaled};
    memcpy(result.extent + 1, a.extent, (size_t)a.rank * sizeof *a.extent);
    *onnx_output(import, 0) = result;
    return !import->graph->error.code;
}

int onnx_transpose_scaled(struct onnx_import *import, const struct onnx_value *value)
{
    struct onnx_scaled *scaled = onnx_allocate(import, 1, sizeof *scaled);
    int axes[ONNX_RANK_MAX];
    struct onnx_value result = *value;

    if (!scaled || onnx_new_order(import, value, axes))
        return import->error.code;
    *scaled = *value->scaled;
    for (int r = 1; r < value->rank; r++) {
        result.extent[r] = value->extent[axes[r]];
        if (axes[r] - 1 == value->scaled->axis)
            scaled->axis = r - 1;
        axes[r]--;
    }
    result.scaled = scaled;
    *onnx_output(import, 0) = result;
    return onnx_constant_permute(import, &scaled->weight, axes + 1);
}

/* ---- layers ---- */

/* The axis of the weight along which the layer's results lie; -1: it is none that can have factors.
 * A transposed convolution has its operand's channels there, which are scaled instead. */
static int result_axis(const struct onnx_import *import)
{
    const char *name = import->node->proto->op_type;

    if (strcmp(name, "Conv") == 0 || strcmp(name, "ConvTranspose") == 0)
        return 0;
    if (strcmp(name, "Gemm") == 0)
        return !onnx_attribute_int(import, "transB", 0);
    return strcmp(name, "MatMul") == 0 ? 1 : -1;
}

/* The layer without its bias, whose results are multiplied by the factors. */
static int results_scale(struct onnx_import *import, const struct onnx_scaled *scaled, int axis)
{
    struct onnx_value bias = *onnx_input(import, 2), y;
    const int64_t channels[3] = {onnx_value_elements(&bias), 1, 1};
    void *numbers;

    if (bias.kind == ONNX_CONSTANT) /* 0 is none */
        import->replaced[2] = onnx_constant_new(import, ONNX_FLOAT, 0, NULL, &numbers);
    if (import->error.code || import->entry->append(import) ||
        onnx_output(import, 0)->kind != ONNX_TENSOR)
        return import->error.code;
    y = *onnx_output(import, 0);
    if (scale_by(import, &y, scaled, axis < 0 ? y.rank - 1 : axis))
        return import->error.code;
    if (bias.kind != ONNX_CONSTANT)
        return onnx_done(import, y);
    if (axis >= 0 && onnx_constant_reshape(import, &bias, y.rank - 1, channels))
        return import->error.code;
    return onnx_combine(import, &y, &bias, BROADCAST_ADD);
}

bool onnx_scaled_layer(struct onnx_import *import, int *code)
{
    const struct onnx_scaled *scaled = onnx_input(import, 1)->scaled;
    const char *name = import->node->proto->op_type;
    bool image = strncmp(name, "Conv", 4) == 0, transposed = strcmp(name, "ConvTranspose") == 0;
    struct onnx_value x = *onnx_input(import, 0);
    int axis = result_axis(import);

    *code = 0;
    if (axis < 0 || (image && scaled->axis > 0) || (!image && scaled->weight.rank != 2) ||
        onnx_input(import, 2)->kind == ONNX_TENSOR ||
        onnx_attribute_float(import, "beta", 1) != 1 ||
        /* x w: the layer would read w transposed, and the node that has its norm as it stands */
        (!image && axis == 1 && scaled->weight.stride[1] == 1))
        return false;
    if (onnx_resolve(import, &x))
        return true;
    import->replaced[1] = scaled->weight;
    if (!transposed && (scaled->axis == axis || scaled->axis < 0)) {
        import->replaced[0] = x;
        *code = results_scale(import, scaled, image ? 1 : -1);
        return true;
    }
    if (scale_by(import, &x, scaled, image ? 1 : x.rank - 1))
        return true;
    import->replaced[0] = x;
    *code = import->entry->append(import) ? import->error.code : 0;
    return true;
}
