/* onnx_scaled.c: weights that are a parameter times, or divided by, computed factors: weight norm,
 * spectral norm. See onnx_computed.h. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_computed.h"
#include "engine/onnx/onnx_fold.h"

#include <errno.h>
#include <string.h>

int onnx_scale_by(struct onnx_import *import, struct onnx_value *x,
                  const struct onnx_scaled *scaled, int axis)
{
    struct onnx_value scale = scaled->scale;
    int64_t extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH};
    int batch = onnx_batch_axis(x);
    double number;

    if (onnx_is_uniform(&scale, &number)) {
        x->factor = (x->factor != 0 ? x->factor : 1) * number;
        *onnx_output(import, 0) = *x;
        return onnx_resolve(import, x);
    }
    for (int r = 0; r < x->rank; r++)
        extent[r + 1] = r == axis && scaled->axis >= 0 ? x->extent[axis] : 1;
    if (!onnx_reshape_value(import, &scale, x->rank + 1, extent) ||
        !onnx_align(import, &scale, x->rank, batch, batch < 0 ? 0 : x->extent[batch]))
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
        onnx_scale_by(import, value, scaled, scaled->axis + 1))
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

bool onnx_scale_weight(struct onnx_import *import)
{
    bool divides = strcmp(import->node->proto->op_type, "Div") == 0;
    struct onnx_value a = *onnx_input(import, 0), b = *onnx_input(import, 1), result;
    struct onnx_scaled *scaled;
    double number;
    int64_t extent[ONNX_RANK_MAX + 1] = {ONNX_BATCH, 1};

    if (!divides && (!is_weight(&a) || (is_weight(&b) && b.rank == a.rank &&
                                        onnx_value_elements(&b) > onnx_value_elements(&a)))) {
        result = a;
        a = b;
        b = result;
    }
    if (!is_weight(&a) || !onnx_multiply_out(import, &b) ||
        (b.kind != ONNX_TENSOR && b.kind != ONNX_CONSTANT))
        return false;
    scaled = onnx_allocate(import, 1, sizeof *scaled);
    if (!scaled)
        return false;
    scaled->weight = a;
    scaled->axis = scale_axis(&a, b.rank - b.alone, b.extent + b.alone);
    if (scaled->axis == -2)
        return false;
    if (onnx_is_uniform(&b, &number)) {
        void *numbers;

        scaled->scale = onnx_constant_new(import, ONNX_FLOAT, 0, NULL, &numbers);
        if (!numbers)
            return false;
        *(double *)numbers = divides ? 1 / number : number;
    } else {
        scaled->scale = b.alone ? b : onnx_alone_tensor(import, &b);
        extent[1] = scaled->axis >= 0 ? a.extent[scaled->axis] : 1;
        if (scaled->scale.tensor < 0 || onnx_resolve(import, &scaled->scale) ||
            !onnx_reshape_value(import, &scaled->scale, 2, extent))
            return false;
        if (divides)
            scaled->scale.tensor =
                graph_function(import->graph, scaled->scale.tensor,
                               &(struct function_attributes){.kind = FUNCTION_RECIPROCAL},
                               onnx_layer_name(import, ".factor").text);
    }
    result = (struct onnx_value){.kind = ONNX_TENSOR,
                                 .type = ONNX_FLOAT,
                                 .rank = a.rank + 1,
                                 .extent = {ONNX_BATCH},
                                 .tensor = -1,
                                 .alone = true,
                                 .scaled = scaled};
    memcpy(result.extent + 1, a.extent, (size_t)a.rank * sizeof *a.extent);
    *onnx_output(import, 0) = result;
    return !import->graph->error.code && a.rank < ONNX_RANK_MAX;
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
