/* onnx_norms.c: nodes that normalise. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <string.h>

/* Of [B,C], [B,C,T] or [B,C,H,W], which the result replaces. */
static int batch_norm(struct onnx_import *import, struct onnx_value *x)
{
    static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
    float momentum = 1 - onnx_attribute_float(import, "momentum", 0.9f);
    struct graph_shape channels = {.rank = 1, .extent = {x->extent[1]}};
    int axes = 0;
    int32_t tensor = x->rank == 2 ? onnx_rows(import, x) : onnx_images_of(import, x, &axes);

    if (tensor < 0)
        return tensor;
    for (int i = 0; i < 4; i++)
        graph_bind_parameter(import->graph, suffix[i],
                             onnx_weight(import, onnx_input(import, i + 1), &channels, i >= 2));
    tensor = graph_batch_norm(import->graph, tensor,
                              onnx_weight_layer(import, onnx_input(import, 1)).text,
                              onnx_attribute_float(import, "epsilon", 1e-5f), momentum);
    if (tensor < 0)
        return tensor;
    if (axes)
        *x = onnx_image_value(import, tensor, axes);
    x->tensor = tensor;
    return 0;
}

/* The same where each sample has several rows, as behind x.reshape(-1, channels): they become
 * places of the channels, [B·N,C,…] -> [B,C,N·…]. The moments are those of all rows either way. */
static int batch_norm_of_rows(struct onnx_import *import, struct onnx_value x)
{
    const struct onnx_value given = x;
    int64_t count = x.extent[0] / ONNX_BATCH, apart[ONNX_RANK_MAX] = {ONNX_BATCH, count}, places;
    int batch = 0, code;

    if (x.rank == ONNX_RANK_MAX)
        return onnx_missing(import, "of %d dimensions", x.rank);
    places = count;
    for (int r = 1; r < x.rank; r++) {
        apart[r + 1] = x.extent[r];
        places *= r > 1 ? x.extent[r] : 1;
    }
    if (!onnx_atoms_reshape(&x.atoms, x.rank + 1, apart)) { /* the rows come first, then samples */
        apart[0] = count;
        apart[1] = ONNX_BATCH;
        batch = 1;
        if (!onnx_atoms_reshape(&x.atoms, x.rank + 1, apart))
            return onnx_missing(import, "of rows that lie among the samples");
    }
    x.rank++;
    memcpy(x.extent, apart, sizeof apart);
    onnx_axis_move(&x, batch, 0); /* [B,N,C,…] */
    onnx_axis_move(&x, 2, 1);
    memcpy(apart, x.extent, sizeof apart);
    if (onnx_reshape_to(import, &x, 3, (int64_t[]){ONNX_BATCH, apart[1], places}))
        return import->error.code;
    code = batch_norm(import, &x);
    if (code || onnx_reshape_to(import, &x, given.rank + 1, apart))
        return code ? code : import->error.code;
    onnx_axis_move(&x, 1, 2);
    onnx_axis_move(&x, 0, batch);
    return onnx_reshape_to(import, &x, given.rank, given.extent);
}

static int append_batch_norm(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int code;

    for (int i = 1; i < 5; i++)
        if (onnx_input(import, i)->kind != ONNX_CONSTANT)
            return onnx_missing(import, "its weights must be constant");
    if (x.kind != ONNX_TENSOR || x.rank < 2)
        return onnx_missing(import, "of other than samples");
    if (x.extent[0] > ONNX_BATCH)
        return batch_norm_of_rows(import, x);
    code = batch_norm(import, &x);
    return code ? code : onnx_done(import, x);
}

/* Makes the axes from `axis` on one, as the weights' are. False: it is missing. */
static bool axes_join(struct onnx_import *import, struct onnx_value *x, int axis,
                      struct onnx_value *scale, struct onnx_value *bias)
{
    int64_t extent[ONNX_RANK_MAX], width = 1;
    struct onnx_value *const weights[2] = {scale, bias};

    memcpy(extent, x->extent, sizeof extent);
    for (int r = axis; r < x->rank; r++)
        width *= x->extent[r] >= ONNX_BATCH ? 0 : x->extent[r];
    extent[axis] = width;
    for (int i = 0; i < 2; i++) {
        if (weights[i]->kind == ONNX_ABSENT)
            continue;
        if (weights[i]->kind != ONNX_CONSTANT || onnx_value_elements(weights[i]) != width ||
            onnx_constant_reshape(import, weights[i], 1, &width)) {
            onnx_missing(import, "whose weights are computed, or fewer than the axes' numbers");
            return false;
        }
    }
    if (axis == x->rank - 1)
        return true;
    if (width < 1) {
        onnx_missing(import, "over the batch");
        return false;
    }
    return onnx_reshape_to(import, x, axis + 1, extent) == 0;
}

/* Over the axes from one to the last. */
static int append_layer_norm(struct onnx_import *import)
{
    const struct onnx_value given = *onnx_input(import, 0);
    struct onnx_value x = given, scale = *onnx_input(import, 1), bias = *onnx_input(import, 2);
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", -1), x.rank);
    bool rms = strcmp(import->node->proto->op_type, "RMSNormalization") == 0, biased;
    float epsilon = onnx_attribute_float(import, "epsilon", 1e-5f);
    struct graph_shape width;
    struct onnx_layer_name name;
    int32_t tensor;

    if (axis < 0)
        return import->error.code;
    if (onnx_more_is_read(import) || (rms && bias.kind != ONNX_ABSENT))
        return onnx_missing(import, "with more than one result");
    name = onnx_weight_layer(import, &scale);
    if (!axes_join(import, &x, axis, &scale, &bias))
        return import->error.code;
    width = (struct graph_shape){.rank = 1, .extent = {x.extent[x.rank - 1]}};
    tensor = onnx_rows(import, &x);
    if (tensor < 0)
        return tensor;
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, &scale, &width, false));
    biased = !rms && onnx_bind_bias(import, &bias, width.extent[0]);
    x.tensor = rms ? graph_rms_norm(import->graph, tensor, name.text, epsilon)
                   : graph_layer_norm(import->graph, tensor, name.text, epsilon, biased);
    if (x.tensor >= 0 && x.rank != given.rank &&
        onnx_reshape_to(import, &x, given.rank, given.extent))
        return import->error.code;
    return onnx_done(import, x);
}

/* ---- groups of channels ---- */

/* Normalises groups of channels of the value, which the result replaces. */
static int group_norm(struct onnx_import *import, struct onnx_value *x, int64_t groups,
                      const struct onnx_value *weight, const struct onnx_value *bias)
{
    struct graph_shape channels = {.rank = 1, .extent = {x->extent[1]}};
    int32_t tensor;
    int axes = 0;

    if (x->kind != ONNX_TENSOR || x->rank < 2 || weight->kind != ONNX_CONSTANT ||
        bias->kind != ONNX_CONSTANT)
        return onnx_missing(import, "its weights must be constant"), -ENOTSUP;
    if (groups < 1 || groups > x->extent[1] || x->extent[1] % groups)
        return onnx_fail(import, "%lld groups of %lld channels", (long long)groups,
                         (long long)x->extent[1]);
    if (x->rank == 2 && x->extent[0] != ONNX_BATCH)
        return onnx_missing(import, "of rows of which each sample has several"), -ENOTSUP;
    tensor = x->rank == 2 ? onnx_rows(import, x) : onnx_images_of(import, x, &axes);
    if (tensor < 0)
        return tensor;
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, weight, &channels, false));
    graph_bind_parameter(import->graph, "bias", onnx_weight(import, bias, &channels, false));
    tensor = graph_group_norm(import->graph, tensor, onnx_weight_layer(import, weight).text,
                              (int)groups, onnx_attribute_float(import, "epsilon", 1e-5f));
    if (tensor < 0)
        return tensor;
    if (axes)
        *x = onnx_image_value(import, tensor, axes);
    x->tensor = tensor;
    return 0;
}

static bool is_operator(const struct onnx_node *node, const char *name)
{
    return node && onnx_node_is_standard(node) && strcmp(node->proto->op_type, name) == 0;
}

/* Whether an Unsqueeze puts one number of a vector on each channel of x: all axes behind the
 * channels are new. */
static bool spreads_channels(const struct onnx_import *import, const struct onnx_node *unsqueeze,
                             const struct onnx_value *x)
{
    int32_t input = onnx_node_input(unsqueeze, 1);
    const struct onnx_value *axes = input < 0 ? NULL : &import->values[input];
    unsigned seen = 0;

    if (!axes || axes->kind != ONNX_CONSTANT || onnx_value_elements(axes) != x->rank - 2)
        return false;
    for (int i = 0; i < x->rank - 2; i++) {
        int64_t axis = onnx_integer(axes, i);

        axis += axis < 0 ? x->rank - 1 : 0;
        if (axis < 1 || axis > x->rank - 2)
            return false;
        seen |= 1u << axis;
    }
    return seen == (1u << (x->rank - 1)) - 2;
}

/* The constant of a number for each channel that `node` combines with the result of `before`, be it
 * behind nodes that shape it; NULL: it is no such. */
static const struct onnx_value *channels_of(const struct onnx_import *import,
                                            const struct onnx_node *node,
                                            const struct onnx_node *before,
                                            const struct onnx_value *x)
{
    int32_t at = node->input[node->input[0] == before->output[0]];
    const struct onnx_value *value = at < 0 ? NULL : &import->values[at];
    bool shaped = false;

    while (value && value->kind != ONNX_CONSTANT) {
        const struct onnx_node *shaper = onnx_producer(import->model, at);

        if (is_operator(shaper, "Unsqueeze") ? shaped || !spreads_channels(import, shaper, x)
                                             : !is_operator(shaper, "CastLike"))
            return NULL;
        shaped |= is_operator(shaper, "Unsqueeze");
        at = onnx_node_input(shaper, 0);
        value = at < 0 ? NULL : &import->values[at];
    }
    if (!value || onnx_value_elements(value) != x->extent[1] || value->part_count ||
        (shaped && value->rank != 1))
        return NULL;
    for (int r = 1; !shaped && r <= x->rank - 2; r++)
        if (value->rank < x->rank - 1 || value->extent[value->rank - r] != 1)
            return NULL;
    return value;
}

/* Whether the Reshape `back` gives its input the shape of `x`, which `before` has changed. */
static bool restores(const struct onnx_import *import, const struct onnx_node *back,
                     const struct onnx_node *before, const struct onnx_value *x)
{
    const struct onnx_node *shape = onnx_producer(import->model, back->input[1]);
    const struct onnx_value *extents = back->input[1] < 0 ? NULL : &import->values[back->input[1]];

    if (is_operator(shape, "Shape") && shape->input_count == 1)
        return shape->input[0] == before->input[0] && !onnx_attribute(shape, "end");
    if (!extents || extents->kind != ONNX_CONSTANT || onnx_value_elements(extents) != x->rank)
        return false;
    for (int r = 1; r < x->rank; r++)
        if (onnx_integer(extents, r) != x->extent[r])
            return false;
    return true;
}

/* PyTorch's group norm: groups of channels become channels, are normalised and become what they
 * were; then come weight and bias. Does the work of these nodes; returns whether they are such. */
static bool absorb_group_norm(struct onnx_import *import)
{
    const struct onnx_node *before = onnx_producer(import->model, import->node->input[0]);
    const struct onnx_node *back = onnx_only_reader(import, import->node, "Reshape");
    const struct onnx_node *scale = back ? onnx_only_reader(import, back, "Mul") : NULL;
    const struct onnx_node *shift = scale ? onnx_only_reader(import, scale, "Add") : NULL;
    const struct onnx_value *weight, *bias;
    struct onnx_value x;
    double one, zero;

    if (!shift || !is_operator(before, "Reshape") || before->input_count < 2 ||
        before->input[0] < 0 || back->input_count < 2 || scale->input_count != 2 ||
        shift->input_count != 2 || !onnx_is_uniform(onnx_input(import, 1), &one) || one != 1 ||
        !onnx_is_uniform(onnx_input(import, 2), &zero) || zero != 0)
        return false;
    x = import->values[before->input[0]];
    if (x.kind != ONNX_TENSOR || x.rank < 3 || x.extent[0] != ONNX_BATCH ||
        !restores(import, back, before, &x))
        return false;
    weight = channels_of(import, scale, back, &x);
    bias = channels_of(import, shift, scale, &x);
    if (!weight || !bias || onnx_resolve(import, &x) ||
        group_norm(import, &x, onnx_input(import, 0)->extent[1], weight, bias))
        return weight && bias;
    onnx_absorb(import, back, &x);
    onnx_absorb(import, scale, &x);
    onnx_absorb(import, shift, &x);
    *onnx_output(import, 0) = *onnx_input(import, 0); /* its shape may be asked for */
    return true;
}

/* A group for each channel. */
static int append_instance_norm(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int code;

    if (x.kind != ONNX_TENSOR || x.rank < 3)
        return onnx_missing(import, "of other than images or signals");
    if (absorb_group_norm(import))
        return import->error.code;
    code = group_norm(import, &x, x.extent[1], onnx_input(import, 1), onnx_input(import, 2));
    return code ? code : onnx_done(import, x);
}

static int append_group_norm(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int code;

    if (onnx_input(import, 1)->kind == ONNX_CONSTANT &&
        onnx_value_elements(onnx_input(import, 1)) != x.extent[1])
        return onnx_missing(import, "with weights of groups; those of channels are known, as "
                                    "since opset 21");
    code = group_norm(import, &x, onnx_attribute_int(import, "num_groups", 0),
                      onnx_input(import, 1), onnx_input(import, 2));
    return code ? code : onnx_done(import, x);
}

const struct onnx_operator_entry onnx_norm_operators[] = {
    {"InstanceNormalization", append_instance_norm, 3, 0},
    {"GroupNormalization", append_group_norm, 3, 0},
    {"BatchNormalization", append_batch_norm, 5, 0},
    {"LayerNormalization", append_layer_norm, 3, 0},
    {"RMSNormalization", append_layer_norm, 2, 0},
    {NULL, NULL, 0, 0},
};
