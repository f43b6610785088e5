/* operators.c: the forward operators: what each accepts, the shape of its result, its parameters
 * and how they start (PyTorch's defaults: torch.nn.Linear, Conv2d, BatchNorm, Embedding). */
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { SHAPE_TEXT_MAX = GRAPH_RANK_MAX * 21 };

/* "layer 3 (conv2d): <sentence>" */
static int layer_fail(struct graph *graph, const char *name, enum graph_op op, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

static int layer_fail(struct graph *graph, const char *name, enum graph_op op, const char *format,
                      ...)
{
    char sentence[ERROR_TEXT_MAX - 128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return graph_fail(graph, -EINVAL, "layer %s (%s): %s", name,
                      op == OP_RESHAPE ? "flatten" : graph_op_to_string(op), sentence);
}

/* The tensor that a layer takes, when it has the right type; NULL (with the error kept) else. The
 * pointer is valid until the next tensor is made. */
static const struct graph_tensor *layer_input(struct graph *graph, int32_t input, const char *name,
                                              enum graph_op op, enum tensor_type type)
{
    char text[SHAPE_TEXT_MAX];
    const struct graph_tensor *x;

    if (graph->error.code)
        return NULL;
    if (input < 0 || input >= graph->tensor_count) {
        layer_fail(graph, name, op, "there is no input tensor %d", input);
        return NULL;
    }
    x = &graph->tensors[input];
    if (x->type != type) {
        layer_fail(graph, name, op, "expects %s, but the input %s holds %s",
                   type == TENSOR_INT32 ? "whole numbers (indices)" : "float32 values",
                   graph_shape_format(&x->shape, text, sizeof text),
                   x->type == TENSOR_INT32 ? "whole numbers (indices); put an embedding before it"
                   : x->type == TENSOR_FLOAT32 ? "float32 values"
                                               : "values of another type");
        return NULL;
    }
    return x;
}

/* An image batch [B,C,H,W], or NULL with the error kept. */
static const struct graph_tensor *layer_image(struct graph *graph, int32_t input, const char *name,
                                              enum graph_op op)
{
    const struct graph_tensor *x = layer_input(graph, input, name, op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (x && x->shape.rank != 4) {
        layer_fail(graph, name, op,
                   "expects images [batch, channels, height, width], but the input is %s",
                   graph_shape_format(&x->shape, text, sizeof text));
        return NULL;
    }
    return x;
}

static int32_t append_parameter(struct graph *graph, const char *layer, const char *suffix,
                                enum tensor_role role, const struct graph_shape *shape,
                                struct initializer initializer)
{
    int32_t id =
        graph_append_tensor(graph, role, TENSOR_FLOAT32, shape, false, "%s.%s", layer, suffix);

    if (id >= 0)
        graph->tensors[id].initializer = initializer;
    return id;
}

static int32_t append_result(struct graph *graph, const char *layer,
                             const struct graph_shape *shape)
{
    return graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, shape, true, "%s.output",
                               layer);
}

/* Closes an operator: `inputs` with -1 for absent ones, then its result, which becomes the output
 * of the graph so far. Returns the node, NULL after an error. */
static struct graph_node *append_operator(struct graph *graph, enum graph_op op, const char *name,
                                          const int32_t *inputs, int count, int32_t result)
{
    struct graph_node *node = graph_append_node(graph, op, GRAPH_FORWARD, name);

    if (!node)
        return NULL;
    for (int i = 0; i < count; i++)
        graph_node_input(node, inputs[i]);
    if (result >= 0) {
        graph_node_output(graph, node, result);
        graph->output = result;
    }
    return node;
}

int32_t graph_input(struct graph *graph, enum tensor_type type, const int64_t *sample_shape,
                    int rank)
{
    struct graph_shape shape = {.rank = rank + 1, .extent = {graph->batch}};

    if (rank < 0 || rank >= GRAPH_RANK_MAX)
        return graph_fail(graph, -EINVAL, "a sample has %d dimensions, at most %d are possible",
                          rank, GRAPH_RANK_MAX - 1);
    if (graph->input >= 0)
        return graph_fail(graph, -EINVAL, "the graph has an input already");
    for (int i = 0; i < rank; i++)
        shape.extent[i + 1] = sample_shape[i];
    graph->input = graph_append_tensor(graph, TENSOR_INPUT, type, &shape, true, "input");
    graph->output = graph->input;
    return graph->input;
}

int32_t graph_linear(struct graph *graph, int32_t input, const char *name, int64_t features,
                     bool bias)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_LINEAR, TENSOR_FLOAT32);
    struct initializer initializer = {.kind = INITIALIZER_UNIFORM};
    char text[SHAPE_TEXT_MAX];
    struct graph_shape result, weight;
    int32_t inputs[3] = {input, -1, -1};

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 2 && x->shape.rank != 3)
        return layer_fail(graph, name, OP_LINEAR,
                          "expects [batch, features], but the input is %s%s",
                          graph_shape_format(&x->shape, text, sizeof text),
                          x->shape.rank > 3 ? "; put a flatten layer before it" : "");
    if (features < 1)
        return layer_fail(graph, name, OP_LINEAR, "%lld features, at least 1 is needed",
                          (long long)features);
    result = x->shape;
    weight = (struct graph_shape){.rank = 2, .extent = {features, result.extent[result.rank - 1]}};
    result.extent[result.rank - 1] = features;
    /* kaiming_uniform with a = sqrt(5) and uniform bias: both bounds are 1 / sqrt(fan-in) */
    initializer.bound = 1.0f / sqrtf((float)weight.extent[1]);
    inputs[1] = append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, initializer);
    if (bias)
        inputs[2] =
            append_parameter(graph, name, "bias", TENSOR_PARAMETER,
                             &(struct graph_shape){.rank = 1, .extent = {features}}, initializer);
    append_operator(graph, OP_LINEAR, name, inputs, 3, append_result(graph, name, &result));
    return graph->error.code ? graph->error.code : graph->output;
}

/* The extent of a convolution's or pool's result along axis 2 + `axis` of x, 0 with the error kept
 * when the window does not fit. */
static int64_t window_extent(struct graph *graph, const struct graph_tensor *x, const char *name,
                             enum graph_op op, const struct conv_attributes *a, int axis)
{
    int64_t window = (int64_t)a->dilation[axis] * (a->kernel[axis] - 1) + 1;
    int64_t room = x->shape.extent[2 + axis] + 2 * (int64_t)a->padding[axis];
    char text[SHAPE_TEXT_MAX];

    if (a->kernel[axis] < 1 || a->stride[axis] < 1 || a->dilation[axis] < 1 ||
        a->padding[axis] < 0) {
        layer_fail(graph, name, op,
                   "kernel %d, stride %d, dilation %d must be at least 1, padding %d at least 0",
                   a->kernel[axis], a->stride[axis], a->dilation[axis], a->padding[axis]);
        return 0;
    }
    if (window > room) {
        layer_fail(graph, name, op,
                   "a window of %lldx%lld does not fit into the input %s with padding %dx%d",
                   (long long)a->dilation[0] * (a->kernel[0] - 1) + 1,
                   (long long)a->dilation[1] * (a->kernel[1] - 1) + 1,
                   graph_shape_format(&x->shape, text, sizeof text), a->padding[0], a->padding[1]);
        return 0;
    }
    return (room - window) / a->stride[axis] + 1;
}

int32_t graph_conv2d(struct graph *graph, int32_t input, const char *name, int64_t channels,
                     const struct conv_attributes *attributes, bool bias)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_CONV2D);
    struct initializer initializer = {.kind = INITIALIZER_UNIFORM};
    char text[SHAPE_TEXT_MAX];
    struct graph_shape result, weight;
    int32_t inputs[3] = {input, -1, -1};
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (channels < 1)
        return layer_fail(graph, name, OP_CONV2D, "%lld channels, at least 1 is needed",
                          (long long)channels);
    if (attributes->groups < 1 || x->shape.extent[1] % attributes->groups ||
        channels % attributes->groups)
        return layer_fail(graph, name, OP_CONV2D,
                          "%d groups do not divide the %lld channels of the input %s and the %lld "
                          "channels of the result",
                          attributes->groups, (long long)x->shape.extent[1],
                          graph_shape_format(&x->shape, text, sizeof text), (long long)channels);
    result = (struct graph_shape){
        .rank = 4,
        .extent = {graph->batch, channels, window_extent(graph, x, name, OP_CONV2D, attributes, 0),
                   window_extent(graph, x, name, OP_CONV2D, attributes, 1)}};
    weight = (struct graph_shape){.rank = 4,
                                  .extent = {channels, x->shape.extent[1] / attributes->groups,
                                             attributes->kernel[0], attributes->kernel[1]}};
    if (graph->error.code)
        return graph->error.code;
    initializer.bound =
        1.0f / sqrtf((float)weight.extent[1] * (float)weight.extent[2] * (float)weight.extent[3]);
    inputs[1] = append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, initializer);
    if (bias)
        inputs[2] =
            append_parameter(graph, name, "bias", TENSOR_PARAMETER,
                             &(struct graph_shape){.rank = 1, .extent = {channels}}, initializer);
    node = append_operator(graph, OP_CONV2D, name, inputs, 3, append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.conv = *attributes;
    return graph->output;
}

static int32_t append_pool(struct graph *graph, int32_t input, const char *name, enum graph_op op,
                           const struct conv_attributes *attributes)
{
    const struct graph_tensor *x = layer_image(graph, input, name, op);
    const struct conv_attributes *a = attributes;
    struct graph_shape result;
    struct graph_node *node;
    int32_t position = -1;

    if (!x)
        return graph->error.code;
    if (a->dilation[0] != 1 || a->dilation[1] != 1 || a->groups != 1)
        return layer_fail(graph, name, op, "a pool has neither dilation nor groups");
    result = (struct graph_shape){.rank = 4,
                                  .extent = {graph->batch, x->shape.extent[1],
                                             window_extent(graph, x, name, op, a, 0),
                                             window_extent(graph, x, name, op, a, 1)}};
    if (graph->error.code)
        return graph->error.code;
    if (a->padding[0] > a->kernel[0] / 2 || a->padding[1] > a->kernel[1] / 2)
        return layer_fail(graph, name, op, "padding %dx%d exceeds half of the kernel %dx%d",
                          a->padding[0], a->padding[1], a->kernel[0], a->kernel[1]);
    if (op == OP_MAX_POOL2D && (int64_t)a->kernel[0] * a->kernel[1] > 256)
        return layer_fail(graph, name, op, "a window of %dx%d has more than 256 positions",
                          a->kernel[0], a->kernel[1]);
    if (op == OP_MAX_POOL2D && graph->training)
        position = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_UINT8, &result, true,
                                       "%s.position", name);
    node = append_operator(graph, op, name, &input, 1, append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.conv = *attributes;
    if (position >= 0)
        graph_node_output(graph, node, position);
    return graph->output;
}

int32_t graph_max_pool2d(struct graph *graph, int32_t input, const char *name,
                         const struct conv_attributes *attributes)
{
    return append_pool(graph, input, name, OP_MAX_POOL2D, attributes);
}

int32_t graph_average_pool2d(struct graph *graph, int32_t input, const char *name,
                             const struct conv_attributes *attributes)
{
    return append_pool(graph, input, name, OP_AVERAGE_POOL2D, attributes);
}

int32_t graph_global_average_pool2d(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_AVERAGE_POOL2D);
    struct conv_attributes whole = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};

    if (!x)
        return graph->error.code;
    for (int axis = 0; axis < 2; axis++)
        whole.kernel[axis] = (int)x->shape.extent[2 + axis];
    return append_pool(graph, input, name, OP_AVERAGE_POOL2D, &whole);
}

int32_t graph_batch_norm(struct graph *graph, int32_t input, const char *name, float epsilon,
                         float momentum)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_BATCH_NORM, TENSOR_FLOAT32);
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS}, ones = {.kind = INITIALIZER_ONES};
    int32_t inputs[5] = {input}, mean = -1, inverse_std = -1;
    struct graph_shape result, channel;
    char text[SHAPE_TEXT_MAX];
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (x->shape.rank < 2)
        return layer_fail(graph, name, OP_BATCH_NORM,
                          "expects [batch, channels, …], but the input is %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    result = x->shape;
    channel = (struct graph_shape){.rank = 1, .extent = {result.extent[1]}};
    if (graph->training && graph_shape_elements(&result) == channel.extent[0])
        return layer_fail(graph, name, OP_BATCH_NORM,
                          "training needs more than one value per channel, but the input is %s; "
                          "use a larger batch",
                          graph_shape_format(&result, text, sizeof text));
    inputs[1] = append_parameter(graph, name, "weight", TENSOR_PARAMETER, &channel, ones);
    inputs[2] = append_parameter(graph, name, "bias", TENSOR_PARAMETER, &channel, zeros);
    inputs[3] = append_parameter(graph, name, "running_mean", TENSOR_STATISTIC, &channel, zeros);
    inputs[4] = append_parameter(graph, name, "running_var", TENSOR_STATISTIC, &channel, ones);
    if (graph->training) {
        mean = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &channel, false,
                                   "%s.mean", name);
        inverse_std = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &channel, false,
                                          "%s.inverse_std", name);
    }
    node =
        append_operator(graph, OP_BATCH_NORM, name, inputs, 5, append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.batch_norm.epsilon = epsilon;
    node->attributes.batch_norm.momentum = momentum;
    node->attributes.batch_norm.training = graph->training;
    if (graph->training) {
        graph_node_output(graph, node, mean);
        graph_node_output(graph, node, inverse_std);
    }
    return graph->output;
}

int32_t graph_activation(struct graph *graph, int32_t input, const char *name,
                         enum activation_kind kind)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_ACTIVATION, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    node =
        append_operator(graph, OP_ACTIVATION, name, &input, 1, append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.activation = kind;
    return graph->output;
}

int32_t graph_embedding(struct graph *graph, int32_t input, const char *name, int64_t vocabulary,
                        int64_t width)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_EMBEDDING, TENSOR_INT32);
    const struct initializer normal = {.kind = INITIALIZER_NORMAL, .bound = 1.0f};
    struct graph_shape result, weight = {.rank = 2, .extent = {vocabulary, width}};
    int32_t inputs[2] = {input, -1};
    char text[SHAPE_TEXT_MAX];

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 2)
        return layer_fail(graph, name, OP_EMBEDDING,
                          "expects [batch, context], but the input is %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    if (vocabulary < 1 || width < 1)
        return layer_fail(graph, name, OP_EMBEDDING,
                          "a vocabulary of %lld and a width of %lld, at least 1 is needed",
                          (long long)vocabulary, (long long)width);
    result = (struct graph_shape){.rank = 3, .extent = {graph->batch, x->shape.extent[1], width}};
    inputs[1] = append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, normal);
    append_operator(graph, OP_EMBEDDING, name, inputs, 2, append_result(graph, name, &result));
    return graph->error.code ? graph->error.code : graph->output;
}

static int32_t append_dropout(struct graph *graph, int32_t input, const char *name,
                              float probability, bool rows)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_DROPOUT, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (!(probability >= 0.0f && probability < 1.0f))
        return layer_fail(graph, name, OP_DROPOUT,
                          "the probability %g lies outside of 0 (included) to 1 (excluded)",
                          (double)probability);
    if (!graph->training || probability == 0.0f)
        return input;
    shape = x->shape;
    node = append_operator(graph, OP_DROPOUT, name, &input, 1, append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.dropout.probability = probability;
    node->attributes.dropout.dropout_stream = (uint32_t)(node - graph->nodes);
    node->attributes.dropout.rows = rows;
    return graph->output;
}

int32_t graph_dropout(struct graph *graph, int32_t input, const char *name, float probability)
{
    return append_dropout(graph, input, name, probability, false);
}

int32_t graph_stochastic_depth(struct graph *graph, int32_t input, const char *name,
                               float probability)
{
    return append_dropout(graph, input, name, probability, true);
}

int32_t graph_add(struct graph *graph, int32_t a, int32_t b, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, a, name, OP_ADD, TENSOR_FLOAT32);
    const struct graph_tensor *y = layer_input(graph, b, name, OP_ADD, TENSOR_FLOAT32);
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    int32_t inputs[2] = {a, b};
    struct graph_shape shape;

    if (!x || !y)
        return graph->error.code;
    if (!graph_shape_equal(&x->shape, &y->shape))
        return layer_fail(graph, name, OP_ADD, "the shapes %s and %s differ",
                          graph_shape_format(&x->shape, first, sizeof first),
                          graph_shape_format(&y->shape, second, sizeof second));
    shape = x->shape;
    append_operator(graph, OP_ADD, name, inputs, 2, append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

int32_t graph_channel_scale(struct graph *graph, int32_t input, int32_t scale, const char *name)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_CHANNEL_SCALE);
    const struct graph_tensor *s = layer_image(graph, scale, name, OP_CHANNEL_SCALE);
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    int32_t inputs[2] = {input, scale};
    struct graph_shape shape;

    if (!x || !s)
        return graph->error.code;
    shape = x->shape;
    if (s->shape.extent[1] != shape.extent[1] || s->shape.extent[2] != 1 || s->shape.extent[3] != 1)
        return layer_fail(graph, name, OP_CHANNEL_SCALE,
                          "the scale %s does not have one number for each channel of %s",
                          graph_shape_format(&s->shape, first, sizeof first),
                          graph_shape_format(&shape, second, sizeof second));
    append_operator(graph, OP_CHANNEL_SCALE, name, inputs, 2, append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

int32_t graph_flatten(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_RESHAPE, TENSOR_FLOAT32);
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    if (x->shape.rank == 2)
        return input;
    shape = (struct graph_shape){
        .rank = 2, .extent = {graph->batch, graph_shape_elements(&x->shape) / graph->batch}};
    append_operator(graph, OP_RESHAPE, name, &input, 1, append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

int graph_set_initializer(struct graph *graph, int32_t parameter, struct initializer initializer)
{
    if (graph->error.code)
        return graph->error.code;
    if (parameter < 0 || parameter >= graph->tensor_count ||
        graph->tensors[parameter].role != TENSOR_PARAMETER)
        return graph_fail(graph, -EINVAL, "the graph has no parameter %d", parameter);
    graph->tensors[parameter].initializer = initializer;
    return 0;
}

/* The prediction [B,F] that a loss takes, 0 or the error. */
static int check_prediction(struct graph *graph, int32_t input, enum graph_op op)
{
    const struct graph_tensor *x = layer_input(graph, input, "loss", op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (!x)
        return graph->error.code;
    if (graph->target >= 0)
        return graph_fail(graph, -EINVAL, "the graph has a loss already");
    if (x->shape.rank != 2)
        return graph_fail(graph, -EINVAL,
                          "the loss (%s) expects [batch, %s], but the last layer gives %s; put a "
                          "flatten layer before it",
                          graph_op_to_string(op), op == OP_MSE ? "outputs" : "classes",
                          graph_shape_format(&x->shape, text, sizeof text));
    return 0;
}

static int32_t append_cross_entropy(struct graph *graph, int32_t logits, bool soft)
{
    struct graph_shape row = {.rank = 1, .extent = {graph->batch}}, target = row;
    int32_t inputs[2] = {logits, -1}, result;

    if (check_prediction(graph, logits, OP_CROSS_ENTROPY))
        return graph->error.code;
    if (soft)
        target = graph->tensors[logits].shape;
    graph->target = graph_append_tensor(graph, TENSOR_INPUT, soft ? TENSOR_FLOAT32 : TENSOR_INT32,
                                        &target, true, "target");
    inputs[1] = graph->target;
    result = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &row, true,
                                 "loss.log_sum_exp");
    append_operator(graph, OP_CROSS_ENTROPY, "loss", inputs, 2, result);
    graph->output = logits;
    return graph->error.code ? graph->error.code : result;
}

int32_t graph_cross_entropy(struct graph *graph, int32_t logits)
{
    return append_cross_entropy(graph, logits, false);
}

int32_t graph_soft_cross_entropy(struct graph *graph, int32_t logits)
{
    return append_cross_entropy(graph, logits, true);
}

int32_t graph_mse(struct graph *graph, int32_t prediction)
{
    int32_t inputs[2] = {prediction, -1};
    struct graph_shape shape;

    if (check_prediction(graph, prediction, OP_MSE))
        return graph->error.code;
    shape = graph->tensors[prediction].shape;
    graph->target =
        graph_append_tensor(graph, TENSOR_INPUT, TENSOR_FLOAT32, &shape, true, "target");
    inputs[1] = graph->target;
    append_operator(graph, OP_MSE, "loss", inputs, 2, -1);
    graph->output = prediction;
    return graph->error.code ? graph->error.code : prediction;
}
