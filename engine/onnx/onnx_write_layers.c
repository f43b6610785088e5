/* onnx_write_layers.c: layers with weights, normalisations, activations and pools as nodes of
 * ONNX. */
#include "engine/onnx/onnx_writer.h"

#include <math.h>
#include <string.h>

static const struct graph_shape *shape_of(const struct onnx_writer *writer, int32_t tensor)
{
    return &writer->graph->tensors[tensor].shape;
}

static const struct graph_shape *input_shape(const struct onnx_writer *writer)
{
    return shape_of(writer, writer->node->input[0]);
}

static const struct graph_shape *output_shape(const struct onnx_writer *writer)
{
    return shape_of(writer, writer->node->output[0]);
}

static bool has_input(const struct onnx_writer *writer, int place)
{
    return place < writer->node->input_count && writer->node->input[place] >= 0;
}

/* ---- products -------------------------------------------------------------------------------- */

static void write_linear(struct onnx_writer *writer)
{
    const onnx_name inputs[] = {onnx_read(writer, 0), onnx_read(writer, 1), onnx_read(writer, 2)};
    int count = has_input(writer, 2) ? 3 : 2;
    onnx_name y;

    if (input_shape(writer)->rank == 2) {
        y = onnx_append(writer, "Gemm", inputs, count, 1)->output[0];
        onnx_set_int(writer, onnx_latest(writer), "transB", 1);
    } else {
        y = onnx_transpose(writer, inputs[1], (int64_t[]){1, 0}, 2);
        y = onnx_apply(writer, "MatMul", inputs[0], y, NULL);
        if (count == 3)
            y = onnx_apply(writer, "Add", y, inputs[2], NULL);
    }
    onnx_give(writer, 0, y);
}

void onnx_set_window(struct onnx_writer *writer, Onnx__Node *node, bool dilates)
{
    const struct conv_attributes *conv = &writer->node->attributes.conv;
    const int64_t kernel[] = {conv->kernel[0], conv->kernel[1]},
                  strides[] = {conv->stride[0], conv->stride[1]},
                  pads[] = {conv->padding[0], conv->padding[1], conv->padding[0], conv->padding[1]},
                  dilations[] = {conv->dilation[0], conv->dilation[1]};

    onnx_set_ints(writer, node, "kernel_shape", kernel, 2);
    onnx_set_ints(writer, node, "strides", strides, 2);
    onnx_set_ints(writer, node, "pads", pads, 4);
    if (dilates) {
        onnx_set_ints(writer, node, "dilations", dilations, 2);
        onnx_set_int(writer, node, "group", conv->groups);
    }
}

static void write_convolution(struct onnx_writer *writer)
{
    const onnx_name inputs[] = {onnx_read(writer, 0), onnx_read(writer, 1), onnx_read(writer, 2)};
    Onnx__Node *node = onnx_append(writer, "Conv", inputs, has_input(writer, 2) ? 3 : 2, 1);

    onnx_set_window(writer, node, true);
    onnx_give(writer, 0, node->output[0]);
}

/* The gradient by the data of a convolution, in the forward part. */
static void write_transposed(struct onnx_writer *writer)
{
    const struct conv_attributes *conv = &writer->node->attributes.conv;
    const onnx_name inputs[] = {onnx_read(writer, 0), onnx_read(writer, 1)};
    Onnx__Node *node = onnx_append(writer, "ConvTranspose", inputs, 2, 1);
    int64_t more[2];

    for (int i = 0; i < 2; i++)
        more[i] = output_shape(writer)->extent[2 + i] - 1 -
                  (input_shape(writer)->extent[2 + i] - 1) * conv->stride[i] +
                  2 * (int64_t)conv->padding[i] -
                  (int64_t)conv->dilation[i] * (conv->kernel[i] - 1);
    onnx_set_window(writer, node, true);
    onnx_set_ints(writer, node, "output_padding", more, 2);
    onnx_give(writer, 0, node->output[0]);
}

/* a b for matrices of each sample. */
static void write_batch_product(struct onnx_writer *writer)
{
    const struct batch_product_attributes *p = &writer->node->attributes.batch_product;
    const int64_t a[] = {p->groups, p->transpose_a ? p->depth : p->rows,
                         p->transpose_a ? p->rows : p->depth},
                  b[] = {p->groups, p->transpose_b ? p->columns : p->depth,
                         p->transpose_b ? p->depth : p->columns};
    static const int64_t turned[] = {0, 1, 3, 2};
    onnx_name left = onnx_reshape(writer, onnx_read(writer, 0), a, 3),
              right = onnx_reshape(writer, onnx_read(writer, 1), b, 3);

    if (p->transpose_a)
        left = onnx_transpose(writer, left, turned, 4);
    if (p->transpose_b)
        right = onnx_transpose(writer, right, turned, 4);
    onnx_give(writer, 0,
              onnx_reshape_as(writer, onnx_apply(writer, "MatMul", left, right, NULL),
                              output_shape(writer)));
}

static void write_embedding(struct onnx_writer *writer)
{
    onnx_name y = onnx_apply(writer, "Gather", onnx_read(writer, 1), onnx_read(writer, 0), NULL);

    onnx_give(writer, 0, y);
}

/* ---- normalisations -------------------------------------------------------------------------- */

/* A vector of channels, which are axis 1, with extents that repeat along the other axes. */
static onnx_name channel_vector(struct onnx_writer *writer, int place)
{
    const struct graph_shape *x = input_shape(writer);
    int64_t extents[GRAPH_RANK_MAX] = {x->extent[1], 1, 1, 1};

    return onnx_apply(writer, "Reshape", onnx_read(writer, place),
                      onnx_ints(writer, extents, x->rank - 1), NULL);
}

static void write_channel_bias(struct onnx_writer *writer)
{
    onnx_name bias = channel_vector(writer, 1);

    onnx_give(writer, 0, onnx_apply(writer, "Add", onnx_read(writer, 0), bias, NULL));
}

static void write_batch_norm(struct onnx_writer *writer)
{
    onnx_name inputs[5];
    Onnx__Node *node;

    for (int i = 0; i < 5; i++)
        inputs[i] = onnx_read(writer, i);
    node = onnx_append(writer, "BatchNormalization", inputs, 5, 1);
    onnx_set_float(writer, node, "epsilon", writer->node->attributes.batch_norm.epsilon);
    onnx_give(writer, 0, node->output[0]);
}

/* Instance norm of the groups as channels: opset 17 has no group norm. */
static void write_group_norm(struct onnx_writer *writer)
{
    const struct graph_shape *x = input_shape(writer);
    const int64_t groups = writer->node->attributes.group_norm.groups;
    float *ones = onnx_writer_memory(writer, (size_t)groups * sizeof *ones),
          *zeros = onnx_writer_memory(writer, (size_t)groups * sizeof *zeros);
    onnx_name y =
        onnx_reshape(writer, onnx_read(writer, 0),
                     (int64_t[]){groups, graph_shape_elements(x) / x->extent[0] / groups}, 2);

    for (int64_t i = 0; i < groups; i++)
        ones[i] = 1;
    y = onnx_apply(writer, "InstanceNormalization", y, onnx_floats(writer, ones, &groups, 1),
                   onnx_floats(writer, zeros, &groups, 1), NULL);
    onnx_set_float(writer, onnx_latest(writer), "epsilon",
                   writer->node->attributes.group_norm.epsilon);
    y = onnx_apply(writer, "Mul", onnx_reshape_as(writer, y, x), channel_vector(writer, 1), NULL);
    onnx_give(writer, 0, onnx_apply(writer, "Add", y, channel_vector(writer, 2), NULL));
}

static onnx_name layer_norm(struct onnx_writer *writer, onnx_name x)
{
    const onnx_name inputs[] = {x, onnx_read(writer, 1), onnx_read(writer, 2)};
    Onnx__Node *node =
        onnx_append(writer, "LayerNormalization", inputs, has_input(writer, 2) ? 3 : 2, 1);

    onnx_set_int(writer, node, "axis", -1);
    onnx_set_float(writer, node, "epsilon", writer->node->attributes.row_norm_epsilon);
    return node->output[0];
}

static onnx_name rms_norm(struct onnx_writer *writer, onnx_name x)
{
    onnx_name mean = onnx_apply(writer, "Mul", x, x, NULL);

    mean = onnx_apply(writer, "ReduceMean", mean, NULL);
    onnx_set_ints(writer, onnx_latest(writer), "axes", (int64_t[]){-1}, 1);
    mean = onnx_apply(writer, "Add", mean,
                      onnx_float(writer, writer->node->attributes.row_norm_epsilon), NULL);
    mean = onnx_apply(writer, "Sqrt", mean, NULL);
    return onnx_apply(writer, "Mul", onnx_apply(writer, "Div", x, mean, NULL), onnx_read(writer, 1),
                      NULL);
}

static void write_row_norm(struct onnx_writer *writer)
{
    bool is_layer_norm = writer->node->op == OP_LAYER_NORM || writer->node->op == OP_ADD_LAYER_NORM;
    onnx_name x = onnx_read(writer, 0);

    if (writer->node->op == OP_ADD_LAYER_NORM || writer->node->op == OP_ADD_RMS_NORM) {
        x = onnx_apply(writer, "Add", x, onnx_read(writer, 3), NULL);
        onnx_give(writer, 1, x);
    }
    onnx_give(writer, 0, (is_layer_norm ? layer_norm : rms_norm)(writer, x));
}

/* ---- element by element ---------------------------------------------------------------------- */

/* x Phi(x), of which opset 17 has the parts. */
static onnx_name gelu(struct onnx_writer *writer, onnx_name x)
{
    onnx_name y = onnx_apply(writer, "Mul", x, onnx_float(writer, (float)M_SQRT1_2), NULL);

    y = onnx_apply(writer, "Erf", y, NULL);
    y = onnx_apply(writer, "Add", y, onnx_float(writer, 1), NULL);
    y = onnx_apply(writer, "Mul", x, y, NULL);
    return onnx_apply(writer, "Mul", y, onnx_float(writer, 0.5f), NULL);
}

/* The formula of ACTIVATION_GELU_TANH. */
static onnx_name gelu_tanh(struct onnx_writer *writer, onnx_name x)
{
    onnx_name y = onnx_apply(writer, "Mul", x, x, NULL);

    y = onnx_apply(writer, "Mul", onnx_apply(writer, "Mul", y, x, NULL),
                   onnx_float(writer, 0.044715f), NULL);
    y = onnx_apply(writer, "Add", x, y, NULL);
    y = onnx_apply(writer, "Mul", y, onnx_float(writer, (float)(M_SQRT1_2 * M_2_SQRTPI)), NULL);
    y = onnx_apply(writer, "Tanh", y, NULL);
    y = onnx_apply(writer, "Add", y, onnx_float(writer, 1), NULL);
    y = onnx_apply(writer, "Mul", x, y, NULL);
    return onnx_apply(writer, "Mul", y, onnx_float(writer, 0.5f), NULL);
}

static onnx_name activation(struct onnx_writer *writer, onnx_name x)
{
    onnx_name y;

    switch (writer->node->attributes.activation) {
    case ACTIVATION_RELU:
        return onnx_apply(writer, "Relu", x, NULL);
    case ACTIVATION_SILU:
        return onnx_apply(writer, "Mul", x, onnx_apply(writer, "Sigmoid", x, NULL), NULL);
    case ACTIVATION_GELU:
        return gelu(writer, x);
    case ACTIVATION_TANH:
        return onnx_apply(writer, "Tanh", x, NULL);
    case ACTIVATION_SIGMOID:
        return onnx_apply(writer, "Sigmoid", x, NULL);
    case ACTIVATION_HARDSWISH:
        return onnx_apply(writer, "HardSwish", x, NULL);
    case ACTIVATION_HARDSIGMOID:
        y = onnx_apply(writer, "HardSigmoid", x, NULL);
        onnx_set_float(writer, onnx_latest(writer), "alpha", 1.0f / 6);
        onnx_set_float(writer, onnx_latest(writer), "beta", 0.5f);
        return y;
    case ACTIVATION_RELU6:
        return onnx_apply(writer, "Clip", x, onnx_float(writer, 0), onnx_float(writer, 6), NULL);
    case ACTIVATION_GELU_TANH:
        return gelu_tanh(writer, x);
    case ACTIVATION_MISH:
        y = onnx_apply(writer, "Tanh", onnx_apply(writer, "Softplus", x, NULL), NULL);
        return onnx_apply(writer, "Mul", x, y, NULL);
    case ACTIVATION_SOFTPLUS:
        return onnx_apply(writer, "Softplus", x, NULL);
    }
    return x;
}

static void write_activation(struct onnx_writer *writer)
{
    onnx_give(writer, 0, activation(writer, onnx_read(writer, 0)));
}

static void write_leaky_relu(struct onnx_writer *writer)
{
    onnx_give(writer, 0, onnx_apply(writer, "LeakyRelu", onnx_read(writer, 0), NULL));
    onnx_set_float(writer, onnx_latest(writer), "alpha", writer->node->attributes.negative_slope);
}

static void write_elu(struct onnx_writer *writer)
{
    onnx_give(writer, 0, onnx_apply(writer, "Elu", onnx_read(writer, 0), NULL));
    onnx_set_float(writer, onnx_latest(writer), "alpha", writer->node->attributes.elu_alpha);
}

static void write_affine(struct onnx_writer *writer)
{
    onnx_name y = onnx_apply(writer, "Mul", onnx_read(writer, 0),
                             onnx_float(writer, writer->node->attributes.affine.scale), NULL);

    onnx_give(writer, 0,
              onnx_apply(writer, "Add", y,
                         onnx_float(writer, writer->node->attributes.affine.offset), NULL));
}

static void write_add(struct onnx_writer *writer)
{
    onnx_give(writer, 0,
              onnx_apply(writer, "Add", onnx_read(writer, 0), onnx_read(writer, 1), NULL));
}

static void write_channel_scale(struct onnx_writer *writer)
{
    onnx_give(writer, 0,
              onnx_apply(writer, "Mul", onnx_read(writer, 0), onnx_read(writer, 1), NULL));
}

static void write_softmax(struct onnx_writer *writer)
{
    onnx_give(writer, 0, onnx_apply(writer, "Softmax", onnx_read(writer, 0), NULL));
    onnx_set_int(writer, onnx_latest(writer), "axis", -1);
}

/* ---- pools and resampling -------------------------------------------------------------------- */

static void write_max_pool(struct onnx_writer *writer)
{
    onnx_give(writer, 0, onnx_apply(writer, "MaxPool", onnx_read(writer, 0), NULL));
    onnx_set_window(writer, onnx_latest(writer), false);
}

static void write_average_pool(struct onnx_writer *writer)
{
    onnx_give(writer, 0, onnx_apply(writer, "AveragePool", onnx_read(writer, 0), NULL));
    onnx_set_window(writer, onnx_latest(writer), false);
    onnx_set_int(writer, onnx_latest(writer), "count_include_pad", 1);
}

/* The matrix [to, from], or with `turned` [from, to], that takes the means of an axis. */
static onnx_name mean_matrix(struct onnx_writer *writer, int64_t from, int64_t to, bool turned)
{
    const int64_t extents[] = {turned ? from : to, turned ? to : from};
    float *values = onnx_writer_memory(writer, (size_t)(from * to) * sizeof *values);

    for (int64_t i = 0; i < to; i++) {
        int64_t first = i * from / to, end = ((i + 1) * from + to - 1) / to;

        for (int64_t k = first; k < end; k++)
            values[turned ? k * to + i : i * from + k] = 1.0f / (float)(end - first);
    }
    return onnx_floats(writer, values, extents, 2);
}

/* ONNX has no windows of different sizes: two products with constant matrices. */
static void write_adaptive_average(struct onnx_writer *writer)
{
    const struct graph_shape *x = input_shape(writer), *y = output_shape(writer);
    onnx_name rows = mean_matrix(writer, x->extent[2], y->extent[2], false),
              columns = mean_matrix(writer, x->extent[3], y->extent[3], true);

    rows = onnx_apply(writer, "MatMul", rows, onnx_read(writer, 0), NULL);
    onnx_give(writer, 0, onnx_apply(writer, "MatMul", rows, columns, NULL));
}

/* The factor next to `scale` by which runtimes get that extent: they round the product down. */
static float exact_scale(float scale, int64_t from, int64_t to)
{
    while ((int64_t)(scale * (float)from) < to)
        scale = nextafterf(scale, INFINITY);
    while ((int64_t)(scale * (float)from) > to)
        scale = nextafterf(scale, 0);
    return scale;
}

/* The pixel that the mode "nearest" takes for one of the result; see kernels/resize.c. */
static int64_t nearest_pixel(float step, int64_t from, int64_t at)
{
    int64_t pixel = (int64_t)floorf((float)at * step);

    return pixel < from ? pixel : from - 1;
}

/* Whether runtimes, which divide by the factor, take the same pixels as nearest_pixel(). */
static bool takes_the_same(float scale, float step, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < to; i++) {
        int64_t pixel = (int64_t)floorf((float)i / scale);

        if ((pixel < from ? pixel : from - 1) != nearest_pixel(step, from, i))
            return false;
    }
    return true;
}

/* The pixels along one axis by their numbers. */
static onnx_name gather_nearest(struct onnx_writer *writer, onnx_name x, int axis, float step,
                                int64_t from, int64_t to)
{
    int64_t *pixels = onnx_writer_memory(writer, (size_t)to * sizeof *pixels);
    onnx_name y;

    for (int64_t i = 0; i < to; i++)
        pixels[i] = nearest_pixel(step, from, i);
    y = onnx_apply(writer, "Gather", x, onnx_ints(writer, pixels, (int)to), NULL);
    onnx_set_int(writer, onnx_latest(writer), "axis", axis);
    return y;
}

static void write_resize(struct onnx_writer *writer)
{
    static const struct {
        const char *mode, *coordinates;
    } kinds[] = {[RESIZE_NEAREST] = {"nearest", "asymmetric"},
                 [RESIZE_BILINEAR] = {"linear", "half_pixel"},
                 [RESIZE_BILINEAR_CORNERS] = {"linear", "align_corners"}};
    const struct graph_shape *x = input_shape(writer), *y = output_shape(writer);
    enum resize_mode mode = writer->node->attributes.resize.mode;
    const float *step = writer->node->attributes.resize.step;
    float scales[4] = {1, 1};
    onnx_name pixels = onnx_read(writer, 0);
    bool same = true;
    Onnx__Node *node;

    for (int i = 0; i < 2; i++) {
        int64_t from = x->extent[2 + i], to = y->extent[2 + i];
        bool of_size = mode == RESIZE_BILINEAR_CORNERS || step[i] == (float)from / (float)to;

        scales[2 + i] = exact_scale(of_size ? (float)to / (float)from : 1 / step[i], from, to);
        same &= mode != RESIZE_NEAREST || takes_the_same(scales[2 + i], step[i], from, to);
    }
    for (int i = 0; i < 2 && !same; i++)
        pixels = gather_nearest(writer, pixels, 2 + i, step[i], x->extent[2 + i], y->extent[2 + i]);
    if (!same) {
        onnx_give(writer, 0, pixels);
        return;
    }
    onnx_give(writer, 0,
              onnx_apply(writer, "Resize", pixels, "",
                         onnx_floats(writer, scales, (int64_t[]){4}, 1), NULL));
    node = onnx_latest(writer);
    onnx_set_text(writer, node, "mode", kinds[mode].mode);
    onnx_set_text(writer, node, "coordinate_transformation_mode", kinds[mode].coordinates);
    onnx_set_text(writer, node, "nearest_mode", "floor");
}

onnx_write_function onnx_layer_writer(enum graph_op op)
{
    static const onnx_write_function writers[OP_COUNT] = {
        [OP_LINEAR] = write_linear,
        [OP_LINEAR_INT8] = write_linear,
        [OP_CONV2D] = write_convolution,
        [OP_CONV2D_BACKWARD_DATA] = write_transposed,
        [OP_BATCH_PRODUCT] = write_batch_product,
        [OP_EMBEDDING] = write_embedding,
        [OP_CHANNEL_BIAS] = write_channel_bias,
        [OP_BATCH_NORM] = write_batch_norm,
        [OP_GROUP_NORM] = write_group_norm,
        [OP_LAYER_NORM] = write_row_norm,
        [OP_ADD_LAYER_NORM] = write_row_norm,
        [OP_RMS_NORM] = write_row_norm,
        [OP_ADD_RMS_NORM] = write_row_norm,
        [OP_ACTIVATION] = write_activation,
        [OP_LEAKY_RELU] = write_leaky_relu,
        [OP_ELU] = write_elu,
        [OP_AFFINE] = write_affine,
        [OP_ADD] = write_add,
        [OP_CHANNEL_SCALE] = write_channel_scale,
        [OP_SOFTMAX] = write_softmax,
        [OP_MAX_POOL2D] = write_max_pool,
        [OP_AVERAGE_POOL2D] = write_average_pool,
        [OP_ADAPTIVE_AVERAGE_POOL2D] = write_adaptive_average,
        [OP_RESIZE2D] = write_resize,
    };

    return writers[op];
}
