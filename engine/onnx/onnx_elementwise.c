/* onnx_elementwise.c: nodes that compute number by number. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int activate(struct onnx_import *import, enum activation_kind kind)
{
    struct onnx_value x = *onnx_input(import, 0);

    return onnx_done_as(import, x,
                        graph_activation(import->graph, x.tensor, import->node->name, kind));
}

/* Exporters of old opsets write x sigmoid(x) as two nodes. */
static bool absorb_product(struct onnx_import *import)
{
    int32_t output = onnx_node_output(import->node, 0);
    const struct onnx_model *model = import->model;
    const struct onnx_node *reader;

    if (output < 0 || model->readers[output] != 1)
        return false;
    reader = &model->nodes[model->reader[output]];
    if (!onnx_node_is_standard(reader) || strcmp(reader->proto->op_type, "Mul") != 0 ||
        reader->input_count != 2 || reader->output_count != 1 ||
        reader->input[reader->input[0] == output] != import->node->input[0])
        return false;
    import->absorbed[reader - model->nodes] = true;
    return true;
}

/* alpha x + beta between 0 and 1: a HardSigmoid other than PyTorch's. */
static int clipped_line(struct onnx_import *import, float alpha, float beta)
{
    struct onnx_value x = *onnx_input(import, 0);

    x.tensor =
        graph_affine(import->graph, x.tensor, alpha, beta, onnx_layer_name(import, ".line").text);
    return x.tensor < 0 ? x.tensor : onnx_clip(import, x, 0, 1);
}

static int append_sigmoid(struct onnx_import *import)
{
    bool hard = strcmp(import->node->proto->op_type, "HardSigmoid") == 0;
    int32_t reader;
    float alpha = onnx_attribute_float(import, "alpha", 0.2f);
    float beta = onnx_attribute_float(import, "beta", 0.5f);

    if (hard && (fabsf(alpha - 1.0f / 6) > 1e-6f || beta != 0.5f))
        return clipped_line(import, alpha, beta);
    if (!absorb_product(import))
        return activate(import, hard ? ACTIVATION_HARDSIGMOID : ACTIVATION_SIGMOID);
    reader = import->model->reader[import->node->output[0]];
    if (activate(import, hard ? ACTIVATION_HARDSWISH : ACTIVATION_SILU))
        return import->graph->error.code;
    if (import->model->nodes[reader].output[0] >= 0)
        import->values[import->model->nodes[reader].output[0]] = *onnx_output(import, 0);
    return 0;
}

static int append_activation(struct onnx_import *import)
{
    static const struct {
        const char *name;
        enum activation_kind kind;
    } activations[] = {{"Relu", ACTIVATION_RELU},           {"Tanh", ACTIVATION_TANH},
                       {"HardSwish", ACTIVATION_HARDSWISH}, {"Mish", ACTIVATION_MISH},
                       {"Softplus", ACTIVATION_SOFTPLUS},   {"Swish", ACTIVATION_SILU}};
    const char *name = import->node->proto->op_type;

    if (strcmp(name, "Swish") == 0 && onnx_attribute_float(import, "alpha", 1) != 1)
        return onnx_missing(import, "with an alpha");
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(name, activations[i].name) == 0)
            return activate(import, activations[i].kind);
    return onnx_missing(import, "%s", "");
}

static int append_leaky_relu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    return onnx_done_as(import, x,
                        graph_leaky_relu(import->graph, x.tensor, import->node->name,
                                         onnx_attribute_float(import, "alpha", 0.01f)));
}

static int append_elu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    return onnx_done_as(import, x,
                        graph_elu(import->graph, x.tensor, import->node->name,
                                  onnx_attribute_float(import, "alpha", 1.0f)));
}

/* alpha elu(x / alpha) */
static int append_celu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    float alpha = onnx_attribute_float(import, "alpha", 1.0f);
    int code;

    if (!(alpha > 0))
        return onnx_missing(import, "with an alpha of %g", (double)alpha);
    x.factor = 1 / (double)alpha;
    if (onnx_resolve(import, &x))
        return import->graph->error.code;
    code = onnx_done_as(import, x, graph_elu(import->graph, x.tensor, import->node->name, 1));
    onnx_output(import, 0)->factor = (double)alpha;
    return code;
}

/* scale elu(x), with the numbers of Klambauer et al. 2017, arXiv:1706.02515. */
static int append_selu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    float alpha = onnx_attribute_float(import, "alpha", 1.67326319217681884765625f);
    float scale = onnx_attribute_float(import, "gamma", 1.05070102214813232421875f);
    int code;

    if (scale == 0)
        return onnx_missing(import, "with a gamma of 0");
    code = onnx_done_as(import, x, graph_elu(import->graph, x.tensor, import->node->name, alpha));
    onnx_output(import, 0)->factor = scale;
    return code;
}

/* relu(scale x + offset) */
static int32_t relu_of(struct onnx_import *import, int32_t x, double scale, double offset,
                       const char *suffix)
{
    const char *name = onnx_layer_name(import, suffix).text;

    if (scale != 1 || offset != 0)
        x = graph_affine(import->graph, x, (float)scale, (float)offset, name);
    return graph_activation(import->graph, x, name, ACTIVATION_RELU);
}

int32_t onnx_absolute(struct onnx_import *import, int32_t x)
{
    int32_t above = relu_of(import, x, 1, 0, ".above");
    int32_t below = relu_of(import, x, -1, 0, ".below");

    return graph_add(import->graph, above, below, import->node->name);
}

static int append_abs(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    return onnx_done_as(import, x, onnx_absolute(import, x.tensor));
}

/* The larger one of x and `least`; with `mirrors` the smaller one of x and -least. The sum
 * relu(x - least) + least would round small numbers to the units of a large bound. So beyond
 * `large` numbers above `near` and below it pass apart, each without such a sum. `near` is no
 * number that many have, as both parts have the gradient 0 there. */
static int32_t at_least(struct onnx_import *import, int32_t x, double least, bool mirrors,
                        const char *suffix)
{
    static const double large = 4, near = 0x1p-20;
    const double sign = mirrors ? -1 : 1, room = near - least;
    const char *name = onnx_layer_name(import, suffix).text;
    struct graph *graph = import->graph;
    int32_t above, below;

    if (least >= -large)
        return graph_affine(graph, relu_of(import, x, sign, -least, suffix), (float)sign,
                            (float)(sign * least), name);
    above = graph_affine(graph, relu_of(import, x, sign, -near, suffix), (float)sign,
                         (float)(sign * near), name);
    below = graph_affine(graph, x, (float)(-sign * 6 / room), (float)(near * 6 / room), name);
    below = graph_activation(graph, below, name, ACTIVATION_RELU6);
    below = graph_affine(graph, below, (float)(-sign * room / 6), 0, name);
    return graph_add(graph, above, below, name);
}

int onnx_clip(struct onnx_import *import, struct onnx_value x, double least, double most)
{
    int32_t tensor = x.tensor;

    if (least > -3e38)
        tensor = at_least(import, tensor, least, false, ".least");
    if (most < 3e38)
        tensor = at_least(import, tensor, -most, true, ".most");
    return onnx_done_as(import, x, tensor);
}

static int append_clip(struct onnx_import *import)
{
    double least = -INFINITY, most = INFINITY;
    const struct onnx_value *low = onnx_input(import, 1), *high = onnx_input(import, 2);

    if ((low->kind != ONNX_ABSENT && !onnx_is_uniform(low, &least)) ||
        (high->kind != ONNX_ABSENT && !onnx_is_uniform(high, &most)))
        return onnx_missing(import, "between other than two constants");
    if (least == 0 && most == 6)
        return activate(import, ACTIVATION_RELU6);
    if (least == 0 && most > 3e38)
        return activate(import, ACTIVATION_RELU);
    if (!(least < most))
        return onnx_missing(import, "between %g and %g", least, most);
    return onnx_clip(import, *onnx_input(import, 0), least, most);
}

/* relu(x) - slope relu(-x), the slope being a parameter. */
static int append_prelu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), below = x, sum;
    const struct onnx_value *slope = onnx_input(import, 1);
    int32_t above;

    if (x.kind != ONNX_TENSOR || slope->kind != ONNX_CONSTANT)
        return onnx_missing(import, "whose slope is no constant");
    above = relu_of(import, x.tensor, 1, 0, ".above");
    below.tensor = relu_of(import, x.tensor, -1, 0, ".below");
    if (above < 0 || below.tensor < 0 || onnx_combine(import, &below, slope, BROADCAST_MULTIPLY))
        return import->graph->error.code;
    sum = *onnx_output(import, 0);
    if (sum.kind != ONNX_TENSOR)
        return 0; /* the constant could not be combined */
    below = x;
    below.tensor = above;
    return onnx_combine(import, &below, &sum, BROADCAST_SUBTRACT);
}

int onnx_softmax(struct onnx_import *import, struct onnx_value x, int axis)
{
    int32_t tensor;

    if (axis != x.rank - 1)
        onnx_axis_move(&x, axis, x.rank - 1);
    tensor = onnx_rows(import, &x);
    if (tensor < 0)
        return tensor;
    tensor = graph_softmax(import->graph, tensor, import->node->name);
    if (axis != x.rank - 1)
        onnx_axis_move(&x, x.rank - 1, axis);
    return onnx_done_as(import, x, tensor);
}

static int append_softmax(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int axis = onnx_axis(import, onnx_attribute_int(import, "axis", -1), x.rank);

    return axis < 0 ? import->error.code : onnx_softmax(import, x, axis);
}

const struct onnx_operator_entry onnx_elementwise_operators[] = {
    {"Relu", append_activation, 1, 0},
    {"Tanh", append_activation, 1, 0},
    {"HardSwish", append_activation, 1, 0},
    {"Mish", append_activation, 1, 0},
    {"Softplus", append_activation, 1, 0},
    {"Swish", append_activation, 1, 0},
    {"Sigmoid", append_sigmoid, 1, 0},
    {"HardSigmoid", append_sigmoid, 1, 0},
    {"LeakyRelu", append_leaky_relu, 1, 0},
    {"Elu", append_elu, 1, 0},
    {"Selu", append_selu, 1, 0},
    {"Celu", append_celu, 1, 0},
    {"Abs", append_abs, 1, 0},
    {"PRelu", append_prelu, 2, 0},
    {"Clip", append_clip, 3, 0},
    {"Softmax", append_softmax, 1, 0},
    {NULL, NULL, 0, 0},
};
