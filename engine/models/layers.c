/* layers.c: the layers of a chain: the function that appends each to a graph, and its module in
 * PyTorch. proto/model_layers.h has their names and keys. */
#include "engine/models/convnet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef int32_t layer_builder(struct graph *graph, const struct model_layer *layer,
                              const char *name, int32_t x);

static int32_t build_linear(struct graph *graph, const struct model_layer *layer, const char *name,
                            int32_t x)
{
    return graph_linear(graph, x, name, layer->features, layer->bias);
}

static int32_t build_conv2d(struct graph *graph, const struct model_layer *layer, const char *name,
                            int32_t x)
{
    return graph_conv2d(graph, x, name, layer->channels, &layer->window, layer->bias);
}

static int32_t build_batch_norm(struct graph *graph, const struct model_layer *layer,
                                const char *name, int32_t x)
{
    return graph_batch_norm(graph, x, name, layer->epsilon, layer->momentum);
}

static int32_t build_layer_norm(struct graph *graph, const struct model_layer *layer,
                                const char *name, int32_t x)
{
    return graph_layer_norm(graph, x, name, layer->epsilon, layer->bias);
}

static int32_t build_rms_norm(struct graph *graph, const struct model_layer *layer,
                              const char *name, int32_t x)
{
    return graph_rms_norm(graph, x, name, layer->epsilon);
}

static int32_t build_activation(struct graph *graph, const struct model_layer *layer,
                                const char *name, int32_t x)
{
    return graph_activation(graph, x, name, (enum activation_kind)(layer->kind - LAYER_RELU));
}

static int32_t build_leaky_relu(struct graph *graph, const struct model_layer *layer,
                                const char *name, int32_t x)
{
    return graph_leaky_relu(graph, x, name, layer->negative_slope);
}

static int32_t build_elu(struct graph *graph, const struct model_layer *layer, const char *name,
                         int32_t x)
{
    return graph_elu(graph, x, name, layer->alpha);
}

/* The window of a convolution or pool. A pool without a stride has that of its kernel. */
static struct conv_attributes pool_window(const struct model_layer *layer)
{
    struct conv_attributes window = layer->window;

    for (int axis = 0; axis < 2; axis++)
        if (window.stride[axis] == 0)
            window.stride[axis] = window.kernel[axis];
    return window;
}

static int32_t build_max_pool2d(struct graph *graph, const struct model_layer *layer,
                                const char *name, int32_t x)
{
    struct conv_attributes window = pool_window(layer);

    return graph_max_pool2d(graph, x, name, &window);
}

static int32_t build_average_pool2d(struct graph *graph, const struct model_layer *layer,
                                    const char *name, int32_t x)
{
    struct conv_attributes window = pool_window(layer);

    return graph_average_pool2d(graph, x, name, &window);
}

static int32_t build_global_average_pool2d(struct graph *graph, const struct model_layer *layer,
                                           const char *name, int32_t x)
{
    (void)layer;
    return graph_global_average_pool2d(graph, x, name);
}

static int32_t build_flatten(struct graph *graph, const struct model_layer *layer, const char *name,
                             int32_t x)
{
    (void)layer;
    return graph_flatten(graph, x, name);
}

static int32_t build_embedding(struct graph *graph, const struct model_layer *layer,
                               const char *name, int32_t x)
{
    return graph_embedding(graph, x, name, layer->vocabulary, layer->width);
}

static int32_t build_dropout(struct graph *graph, const struct model_layer *layer, const char *name,
                             int32_t x)
{
    return graph_dropout(graph, x, name, layer->probability);
}

static int32_t build_squeeze_excite(struct graph *graph, const struct model_layer *layer,
                                    const char *name, int32_t x)
{
    const struct squeeze_excite config = {layer->squeeze, ACTIVATION_RELU, ACTIVATION_SIGMOID};

    return convnet_squeeze_excite(graph, x, name, &config);
}

/* clang-format off */
static const struct {
    layer_builder *build;
    struct model_layer_python python;
} layers[] = {
    [LAYER_LINEAR] = {build_linear, {.module = "nn.Linear({inputs}, {outputs}{bias})"}},
    [LAYER_CONV2D] = {build_conv2d,
                      {.module = "nn.Conv2d({inputs}, {outputs}, {kernel}{stride=1}{padding=0}"
                                 "{dilation=1}{groups=1}{bias})"}},
    [LAYER_BATCH_NORM] = {build_batch_norm,
                          {.module = "nn.BatchNorm{dimensions}({outputs}, eps={epsilon}, "
                                     "momentum={momentum})"}},
    [LAYER_LAYER_NORM] = {build_layer_norm,
                          {.module = "nn.LayerNorm({outputs}, eps={epsilon}{bias})"}},
    [LAYER_RMS_NORM] = {build_rms_norm,
                        {.imports = PYTHON_RMS_NORM,
                         .module = "RMSNorm({outputs}, eps={epsilon})"}},
    [LAYER_RELU] = {build_activation, {.module = "nn.ReLU()"}},
    [LAYER_SILU] = {build_activation, {.module = "nn.SiLU()"}},
    [LAYER_GELU] = {build_activation, {.module = "nn.GELU()"}},
    [LAYER_TANH] = {build_activation, {.module = "nn.Tanh()"}},
    [LAYER_SIGMOID] = {build_activation, {.module = "nn.Sigmoid()"}},
    [LAYER_HARDSWISH] = {build_activation, {.module = "nn.Hardswish()"}},
    [LAYER_HARDSIGMOID] = {build_activation, {.module = "nn.Hardsigmoid()"}},
    [LAYER_RELU6] = {build_activation, {.module = "nn.ReLU6()"}},
    [LAYER_GELU_TANH] = {build_activation, {.module = "nn.GELU(approximate=\"tanh\")"}},
    [LAYER_MISH] = {build_activation, {.module = "nn.Mish()"}},
    [LAYER_SOFTPLUS] = {build_activation, {.module = "nn.Softplus()"}},
    [LAYER_ELU] = {build_elu, {.module = "nn.ELU({alpha})"}},
    [LAYER_LEAKY_RELU] = {build_leaky_relu, {.module = "nn.LeakyReLU({negative_slope})"}},
    [LAYER_MAX_POOL2D] = {build_max_pool2d,
                          {.module = "nn.MaxPool2d({kernel}, stride={stride}{padding=0})"}},
    [LAYER_AVERAGE_POOL2D] = {build_average_pool2d,
                              {.module = "nn.AvgPool2d({kernel}, stride={stride}{padding=0})"}},
    [LAYER_GLOBAL_AVERAGE_POOL2D] = {build_global_average_pool2d,
                                     {.module = "nn.AdaptiveAvgPool2d(1)"}},
    [LAYER_FLATTEN] = {build_flatten, {.module = "nn.Flatten()", .flattens = true}},
    [LAYER_EMBEDDING] = {build_embedding, {.module = "nn.Embedding({outputs}, {inputs})"}},
    [LAYER_DROPOUT] = {build_dropout, {.module = "nn.Dropout({probability})"}},
    [LAYER_SQUEEZE_EXCITE] = {build_squeeze_excite,
                              {.imports = "from torchvision.ops import SqueezeExcitation\n",
                               .module = "SqueezeExcitation({fc1.inputs}, {fc1.outputs})"}},
};
/* clang-format on */
_Static_assert(LAYER_SOFTPLUS - LAYER_RELU == ACTIVATION_SOFTPLUS, "activations in the same order");

#define NAME(upper, lower) [LAYER_##upper] = #lower,
static const char *const model_layer_kind_names[] = {MODEL_LAYERS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(model_layer_kind, enum model_layer_kind, model_layer_kind_names)

int32_t model_layer_build(struct graph *graph, const struct model_layer *layer, int number,
                          int32_t x)
{
    char name[16];

    snprintf(name, sizeof name, "%d", number);
    return layers[layer->kind].build(graph, layer, name, x);
}

const struct model_layer_python *model_layer_python(enum model_layer_kind kind)
{
    return &layers[kind].python;
}

struct model_layer model_layer_default(enum model_layer_kind kind)
{
    bool pool = kind == LAYER_MAX_POOL2D || kind == LAYER_AVERAGE_POOL2D;
    int kernel = pool ? 2 : 1, stride = pool ? 0 : 1;

    return (struct model_layer){.kind = kind,
                                .window = {.kernel = {kernel, kernel},
                                           .stride = {stride, stride},
                                           .dilation = {1, 1},
                                           .groups = 1},
#define MEMBER(name, usual, ...) .name = usual,
#define NONE(...)
                                MODEL_LAYER_KEYS(MEMBER, MEMBER, MEMBER, NONE)};
#undef MEMBER
}

double model_layer_number(const struct model_layer *layer, const char *key)
{
#define NUMBER(name, ...)        \
    if (strcmp(key, #name) == 0) \
        return (double)layer->name;
    MODEL_LAYER_KEYS(NONE, NUMBER, NONE, NONE)
#undef NUMBER
#undef NONE
    return NAN;
}

int model_layer_window(const struct model_layer *layer, const char *key, int values[2])
{
    const struct conv_attributes window = pool_window(layer);
    const struct {
        const char *key;
        const int *values;
        int count;
    } keys[] = {{"kernel", window.kernel, 2},
                {"stride", window.stride, 2},
                {"padding", window.padding, 2},
                {"dilation", window.dilation, 2},
                {"groups", &window.groups, 1}};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i].key) == 0) {
            memcpy(values, keys[i].values, (size_t)keys[i].count * sizeof values[0]);
            return keys[i].count;
        }
    return 0;
}
