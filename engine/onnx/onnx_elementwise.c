/* onnx_elementwise.c: nodes that compute number by number. */
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int done(struct onnx_import *import, struct onnx_value x, int32_t tensor)
{
    x.tensor = tensor;
    if (tensor >= 0)
        *onnx_output(import, 0) = x;
    return tensor < 0 ? tensor : 0;
}

static int activate(struct onnx_import *import, enum activation_kind kind)
{
    struct onnx_value x = *onnx_input(import, 0);

    return done(import, x, graph_activation(import->graph, x.tensor, import->node->name, kind));
}

/* Exporters of old opsets write x sigmoid(x) as two nodes. */
static bool absorb_product(struct onnx_import *import)
{
    int32_t output = import->node->output[0];
    const struct onnx_model *model = import->model;
    const struct onnx_node *reader;

    if (output < 0 || model->readers[output] != 1)
        return false;
    reader = &model->nodes[model->reader[output]];
    if (strcmp(reader->proto->op_type, "Mul") != 0 || reader->input_count != 2 ||
        reader->output_count != 1 ||
        reader->input[reader->input[0] == output] != import->node->input[0])
        return false;
    import->absorbed[reader - model->nodes] = true;
    return true;
}

static int append_sigmoid(struct onnx_import *import)
{
    bool hard = strcmp(import->node->proto->op_type, "HardSigmoid") == 0;
    int32_t reader;

    if (hard && (fabsf(onnx_attribute_float(import, "alpha", 0.2f) - 1.0f / 6) > 1e-6f ||
                 onnx_attribute_float(import, "beta", 0.5f) != 0.5f))
        return onnx_missing(import, "with other than PyTorch's alpha and beta (1/6 and 1/2)");
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
    } kinds[] = {{"Relu", ACTIVATION_RELU},           {"Tanh", ACTIVATION_TANH},
                 {"HardSwish", ACTIVATION_HARDSWISH}, {"Mish", ACTIVATION_MISH},
                 {"Softplus", ACTIVATION_SOFTPLUS},   {"Swish", ACTIVATION_SILU}};
    const char *name = import->node->proto->op_type;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return activate(import, kinds[i].kind);
    return onnx_missing(import, "%s", "");
}

static int append_gelu(struct onnx_import *import)
{
    char text[16];
    const char *how = onnx_attribute_text(import, "approximate", "none", text, sizeof text);

    return activate(import, strcmp(how, "tanh") == 0 ? ACTIVATION_GELU_TANH : ACTIVATION_GELU);
}

static int append_leaky_relu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    return done(import, x,
                graph_leaky_relu(import->graph, x.tensor, import->node->name,
                                 onnx_attribute_float(import, "alpha", 0.01f)));
}

static int append_elu(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);

    return done(import, x,
                graph_elu(import->graph, x.tensor, import->node->name,
                          onnx_attribute_float(import, "alpha", 1.0f)));
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
    return onnx_missing(import, "between %g and %g; 0 and 6 are known", least, most);
}

static int append_add(struct onnx_import *import)
{
    struct onnx_value a = *onnx_input(import, 0), b = *onnx_input(import, 1);
    bool same = a.rank == b.rank;
    int code;

    for (int r = 0; same && r < a.rank; r++)
        same = a.extent[r] == b.extent[r];
    if (a.kind != ONNX_TENSOR || b.kind != ONNX_TENSOR || !same)
        return onnx_missing(import, "of other than equal shapes");
    code = onnx_follow(import, &b, &a);
    if (code)
        return code;
    return done(import, a, graph_add(import->graph, a.tensor, b.tensor, import->node->name));
}

const struct onnx_operator_entry onnx_elementwise_operators[] = {
    {"Relu", append_activation},
    {"Tanh", append_activation},
    {"HardSwish", append_activation},
    {"Mish", append_activation},
    {"Softplus", append_activation},
    {"Swish", append_activation},
    {"Sigmoid", append_sigmoid},
    {"HardSigmoid", append_sigmoid},
    {"Gelu", append_gelu},
    {"LeakyRelu", append_leaky_relu},
    {"Elu", append_elu},
    {"Clip", append_clip},
    {"Add", append_add},
    {NULL, NULL},
};
