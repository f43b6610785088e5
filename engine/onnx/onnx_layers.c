/* onnx_layers.c: nodes with weights, pools and normalisations. */
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* The layer is named as in PyTorch where its weights are: "layer1.0.conv1" of
 * "layer1.0.conv1.weight". */
static struct onnx_layer_name name_of(const struct onnx_import *import,
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

static int done(struct onnx_import *import, struct onnx_value value)
{
    if (value.tensor >= 0)
        *onnx_output(import, 0) = value;
    return value.tensor >= 0 ? 0 : value.tensor;
}

/* Gives the next layer a bias of `width` numbers; returns whether it has one. A bias that is 0 and
 * no parameter is none: exporters add such. */
static bool bind_bias(struct onnx_import *import, const struct onnx_value *bias, int64_t width)
{
    double number;

    if (bias->kind != ONNX_CONSTANT || (onnx_is_uniform(bias, &number) && number == 0))
        return false;
    graph_bind_parameter(
        import->graph, "bias",
        onnx_weight(import, bias, &(struct graph_shape){.rank = 1, .extent = {width}}, false));
    return true;
}

/* ---- windows ---- */

/* Reads kernel, strides, dilations and padding of `axes` axes, which become the last of two. */
static int window_read(struct onnx_import *import, const struct onnx_value *x, int axes,
                       struct conv_attributes *window)
{
    static const char *const names[] = {"kernel_shape", "strides", "dilations", "pads"};
    int64_t numbers[4][4];
    int count[4], shift = 2 - axes;
    char text[16];
    const char *pads;

    *window = (struct conv_attributes){
        .stride = {1, 1}, .dilation = {1, 1}, .kernel = {1, 1}, .groups = 1};
    for (int i = 0; i < 4; i++) {
        int wanted = i == 3 ? 2 * axes : axes;

        count[i] = onnx_integers(import, names[i], -1, numbers[i], 4);
        if (import->error.code)
            return import->error.code;
        if (count[i] >= 0 && count[i] != wanted)
            return onnx_fail(import, "%s has %d numbers, not %d", names[i], count[i], wanted);
        for (int k = 0; k < count[i]; k++)
            if (numbers[i][k] < 0 || numbers[i][k] > INT_MAX / 4)
                return onnx_fail(import, "%s has an impossible number", names[i]);
    }
    for (int k = 0; k < axes; k++) {
        if (count[0] > 0)
            window->kernel[shift + k] = (int)numbers[0][k];
        if (count[1] > 0)
            window->stride[shift + k] = (int)numbers[1][k];
        if (count[2] > 0)
            window->dilation[shift + k] = (int)numbers[2][k];
        if (count[3] > 0)
            window->padding[shift + k] = (int)numbers[3][k];
        if (count[3] > 0 && numbers[3][k] != numbers[3][axes + k])
            return onnx_missing(import, "another padding at the end than at the beginning"),
                   -ENOTSUP;
    }
    pads = onnx_attribute_text(import, "auto_pad", "NOTSET", text, sizeof text);
    if (strncmp(pads, "SAME", 4) == 0)
        for (int k = 0; k < axes; k++) {
            int axis = shift + k, size = (window->kernel[axis] - 1) * window->dilation[axis] + 1;
            int64_t in = x->extent[2 + k], stride = window->stride[axis];
            int64_t room = stride > 0 ? ((in + stride - 1) / stride - 1) * stride + size - in : 0;

            if (room % 2 && room > 0)
                return onnx_missing(import, "another padding at the end than at the beginning"),
                       -ENOTSUP;
            window->padding[axis] = room > 0 ? (int)(room / 2) : 0;
        }
    return 0;
}

/* The samples as images; signals [B,C,T] become images of one row. */
static int32_t images_of(struct onnx_import *import, struct onnx_value *x, int *axes)
{
    *axes = x->rank - 2;
    if (x->rank == 3) {
        int64_t extent[4] = {x->extent[0], x->extent[1], 1, x->extent[2]};

        if (!onnx_atoms_reshape(&x->atoms, 4, extent))
            return onnx_missing(import, "%s", ""), -ENOTSUP;
        x->rank = 4;
        memcpy(x->extent, extent, sizeof extent);
    } else if (x->rank != 4) {
        return onnx_missing(import, "of %d dimensions; 3 and 4 are known", x->rank), -ENOTSUP;
    }
    return onnx_image(import, x);
}

/* What the graph's image is to the model: [B,C,H,W], or [B,C,T] if it has one axis. */
static struct onnx_value image_value(const struct onnx_import *import, int32_t tensor, int axes)
{
    const int64_t *have = import->graph->tensors[tensor].shape.extent;
    const int64_t extent[4] = {ONNX_BATCH, have[1], axes == 1 ? have[3] : have[2], have[3]};

    return onnx_tensor_value(tensor, axes + 2, extent);
}

static int image_done(struct onnx_import *import, int32_t tensor, int axes)
{
    if (tensor < 0)
        return tensor;
    return done(import, image_value(import, tensor, axes));
}

static int append_conv(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), weight = *onnx_input(import, 1);
    struct graph_shape shape = {.rank = 4};
    struct conv_attributes window;
    int axes, code;
    int32_t tensor;

    if (x.kind != ONNX_TENSOR || weight.kind != ONNX_CONSTANT || x.rank != weight.rank)
        return onnx_missing(import, "its weights must be constant, and of the input's dimensions");
    tensor = images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    code = window_read(import, &x, axes, &window);
    if (code)
        return code;
    window.groups = (int)onnx_attribute_int(import, "group", 1);
    shape =
        (struct graph_shape){.rank = 4,
                             .extent = {weight.extent[0], weight.extent[1],
                                        axes == 1 ? 1 : weight.extent[2], weight.extent[axes + 1]}};
    for (int k = 0; k < 2; k++)
        window.kernel[k] = (int)shape.extent[2 + k];
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, &weight, &shape, false));
    tensor = graph_conv2d(import->graph, tensor, name_of(import, &weight).text, shape.extent[0],
                          &window, bind_bias(import, onnx_input(import, 2), shape.extent[0]));
    return image_done(import, tensor, axes);
}

static int append_pool(struct onnx_import *import)
{
    bool maximum = strcmp(import->node->proto->op_type, "MaxPool") == 0;
    struct onnx_value x = *onnx_input(import, 0);
    struct conv_attributes window;
    int axes, code;
    int32_t tensor;

    if (x.kind != ONNX_TENSOR || import->node->output_count > 1)
        return onnx_missing(import, "with indices");
    tensor = images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    code = window_read(import, &x, axes, &window);
    if (code)
        return code;
    for (int k = 0; k < axes; k++) {
        int axis = 2 - axes + k;
        int64_t rest = x.extent[2 + axis] + 2 * window.padding[axis] - window.kernel[axis];

        if (onnx_attribute_int(import, "ceil_mode", 0) && window.stride[axis] > 0 &&
            rest % window.stride[axis])
            return onnx_missing(import, "ceil_mode where the windows do not divide the image");
    }
    if (window.dilation[0] != 1 || window.dilation[1] != 1)
        return onnx_missing(import, "dilation");
    if (!maximum && (window.padding[0] || window.padding[1]) &&
        !onnx_attribute_int(import, "count_include_pad", 0))
        return onnx_missing(import, "padding that does not count");
    tensor = (maximum ? graph_max_pool2d : graph_average_pool2d)(import->graph, tensor,
                                                                 import->node->name, &window);
    return image_done(import, tensor, axes);
}

static int append_global_average_pool(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int32_t tensor;
    int axes;

    tensor = images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    return image_done(import,
                      graph_global_average_pool2d(import->graph, tensor, import->node->name), axes);
}

/* ---- products ---- */

/* The bias that the next node adds to a product, whose work is then done here; NULL: none. */
static const struct onnx_value *absorb_bias(struct onnx_import *import, int64_t width,
                                            const struct onnx_node **adder)
{
    *adder = onnx_only_reader(import, import->node, "Add");
    for (int i = 0; *adder && (*adder)->input_count == 2 && i < 2; i++) {
        int32_t input = (*adder)->input[i];
        const struct onnx_value *bias = input >= 0 ? &import->values[input] : NULL;

        if (bias && input != import->node->output[0] && bias->kind == ONNX_CONSTANT &&
            bias->rank >= 1 && bias->extent[bias->rank - 1] == width &&
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
        return onnx_fail(import, "rows of %lld numbers meet a matrix of %lld",
                         (long long)x->extent[x->rank - 1], (long long)shape.extent[1]);
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, weight, &shape, false));
    biased = bias && bind_bias(import, bias, shape.extent[0]);
    tensor =
        graph_linear(import->graph, tensor, name_of(import, weight).text, shape.extent[0], biased);
    if (tensor < 0)
        return tensor;
    onnx_rows_widen(x, tensor, shape.extent[0]);
    return 0;
}

static int append_gemm(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), weight = *onnx_input(import, 1);
    const struct onnx_value *bias = onnx_input(import, 2);
    int code;

    if (x.kind != ONNX_TENSOR || weight.kind != ONNX_CONSTANT || x.rank != 2 || weight.rank != 2 ||
        onnx_attribute_int(import, "transA", 0) || onnx_attribute_float(import, "alpha", 1) != 1 ||
        (bias->kind != ONNX_ABSENT && onnx_attribute_float(import, "beta", 1) != 1) ||
        bias->kind == ONNX_TENSOR)
        return onnx_missing(import, "other than rows times a constant matrix and a bias");
    if (!onnx_attribute_int(import, "transB", 0) &&
        onnx_constant_permute(import, &weight, (int[]){1, 0}))
        return import->error.code;
    code = append_product(import, &x, &weight, bias);
    return code ? code : done(import, x);
}

/* Products of matrices that both belong to the samples. */
static int append_batch_product(struct onnx_import *import, struct onnx_value *a,
                                struct onnx_value *b)
{
    struct batch_product_attributes product = {.groups = 1};
    struct onnx_value result;
    int32_t x, y;
    int rank = a->rank;

    if (a->rank != b->rank || rank < 3 || a->extent[0] % ONNX_BATCH || b->extent[0] % ONNX_BATCH)
        return onnx_missing(import, "of different dimensions");
    product.groups = a->extent[0] / ONNX_BATCH;
    for (int r = 0; r < rank - 2; r++) {
        if (a->extent[r] != b->extent[r])
            return onnx_missing(import, "that repeats matrices");
        product.groups *= r ? a->extent[r] : 1;
    }
    product.rows = a->extent[rank - 2];
    product.depth = a->extent[rank - 1];
    product.columns = b->extent[rank - 1];
    if (b->extent[rank - 2] != product.depth)
        return onnx_fail(import, "rows of %lld numbers meet columns of %lld",
                         (long long)product.depth, (long long)b->extent[rank - 2]);
    if (onnx_resolve(import, a) || onnx_resolve(import, b))
        return import->graph->error.code;
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
    return done(import, result);
}

static int append_mat_mul(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), weight = *onnx_input(import, 1);
    const struct onnx_node *adder;
    const struct onnx_value *bias;
    int code;

    if (x.kind == ONNX_TENSOR && weight.kind == ONNX_TENSOR)
        return onnx_attention_absorb(import) ? import->graph->error.code
                                             : append_batch_product(import, &x, &weight);
    if (x.kind != ONNX_TENSOR || weight.kind != ONNX_CONSTANT || weight.rank != 2 || x.rank < 2)
        return onnx_missing(import, "other than rows times a constant matrix");
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    if (onnx_constant_permute(import, &weight, (int[]){1, 0}))
        return import->error.code;
    bias = absorb_bias(import, weight.extent[0], &adder);
    code = append_product(import, &x, &weight, bias);
    if (code)
        return code;
    if (adder && adder->output[0] >= 0)
        import->values[adder->output[0]] = x;
    return done(import, x);
}

/* ---- normalisation ---- */

static int append_batch_norm(struct onnx_import *import)
{
    static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
    struct onnx_value x = *onnx_input(import, 0);
    float momentum = 1 - onnx_attribute_float(import, "momentum", 0.9f);
    struct graph_shape channels = {.rank = 1};
    int32_t tensor;
    int axes = 0;

    for (int i = 1; i < 5; i++)
        if (onnx_input(import, i)->kind != ONNX_CONSTANT)
            return onnx_missing(import, "its weights must be constant");
    if (x.kind != ONNX_TENSOR || x.rank < 2)
        return onnx_missing(import, "of other than samples");
    channels.extent[0] = x.extent[1];
    tensor = x.rank == 2 ? onnx_rows(import, &x) : images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    for (int i = 0; i < 4; i++)
        graph_bind_parameter(import->graph, suffix[i],
                             onnx_weight(import, onnx_input(import, i + 1), &channels, i >= 2));
    tensor = graph_batch_norm(import->graph, tensor, name_of(import, onnx_input(import, 1)).text,
                              onnx_attribute_float(import, "epsilon", 1e-5f), momentum);
    if (tensor < 0)
        return tensor;
    if (axes)
        return image_done(import, tensor, axes);
    x.tensor = tensor;
    return done(import, x);
}

static int append_layer_norm(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    const struct onnx_value *scale = onnx_input(import, 1), *bias = onnx_input(import, 2);
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", -1), x.rank);
    struct graph_shape width;
    int32_t tensor;
    bool biased;

    if (axis < 0)
        return import->error.code;
    if (axis != x.rank - 1 || scale->kind != ONNX_CONSTANT || bias->kind == ONNX_TENSOR ||
        import->node->output_count > 1)
        return onnx_missing(import, "over more than the last axis");
    width = (struct graph_shape){.rank = 1, .extent = {x.extent[x.rank - 1]}};
    tensor = onnx_rows(import, &x);
    if (tensor < 0)
        return tensor;
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, scale, &width, false));
    biased = bind_bias(import, bias, width.extent[0]);
    x.tensor = graph_layer_norm(import->graph, tensor, name_of(import, scale).text,
                                onnx_attribute_float(import, "epsilon", 1e-5f), biased);
    return done(import, x);
}

/* ---- means ---- */

/* The mean over the pixels of each channel, as adaptive pools are exported. */
static int append_reduce_mean(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t axes[ONNX_RANK_MAX], extent[ONNX_RANK_MAX];
    int count = onnx_integers(import, "axes", 1, axes, ONNX_RANK_MAX), rank = 0;
    bool keeps = onnx_attribute_int(import, "keepdims", 1);
    unsigned reduced = 0;
    int32_t tensor;

    for (int i = 0; i < count; i++) {
        int axis = onnx_axis(import, axes[i], x.rank);

        if (axis < 0)
            return import->error.code;
        reduced |= 1u << axis;
    }
    if (import->error.code)
        return import->error.code;
    if (x.rank == 4 && reduced == 0xc) {
        tensor = onnx_image(import, &x);
        tensor = tensor < 0
                     ? tensor
                     : graph_global_average_pool2d(import->graph, tensor, import->node->name);
    } else if (x.rank == 3 && reduced == 0x2 && x.extent[0] == ONNX_BATCH) {
        tensor = onnx_shaped(import, &x, 2, x.extent + 1);
        tensor = tensor < 0 ? tensor
                            : graph_mean_over_time(import->graph, tensor, -1, import->node->name);
    } else {
        return onnx_missing(import, "over other than the pixels of images or the steps of "
                                    "sequences");
    }
    if (tensor < 0)
        return tensor;
    for (int r = 0; r < x.rank; r++)
        if (!(reduced >> r & 1) || keeps)
            extent[rank++] = reduced >> r & 1 ? 1 : x.extent[r];
    return done(import, onnx_tensor_value(tensor, rank, extent));
}

int onnx_embed(struct onnx_import *import, const struct onnx_value *weight,
               const struct onnx_value *index)
{
    const struct graph_shape shape = {.rank = 2, .extent = {weight->extent[0], weight->extent[1]}};
    const int64_t extent[3] = {ONNX_BATCH, index->extent[1], shape.extent[1]};
    int32_t tensor;

    if (index->rank != 2 || !onnx_atoms_are_plain(&index->atoms))
        return onnx_missing(import, "by other than the samples' indices [batch, length]");
    graph_bind_parameter(import->graph, "weight", onnx_weight(import, weight, &shape, false));
    tensor = graph_embedding(import->graph, index->tensor, name_of(import, weight).text,
                             shape.extent[0], shape.extent[1]);
    return tensor < 0 ? tensor : done(import, onnx_tensor_value(tensor, 3, extent));
}

const struct onnx_operator_entry onnx_layer_operators[] = {
    {"Conv", append_conv, false},
    {"MaxPool", append_pool, false},
    {"AveragePool", append_pool, false},
    {"GlobalAveragePool", append_global_average_pool, false},
    {"Gemm", append_gemm, false},
    {"MatMul", append_mat_mul, true},
    {"BatchNormalization", append_batch_norm, false},
    {"LayerNormalization", append_layer_norm, false},
    {"ReduceMean", append_reduce_mean, false},
    {NULL, NULL, false},
};
