/* layers.c: the layers of a list: the function that appends each to a graph, and its module in
 * PyTorch. proto/model_layers.h has their names and keys. */
#include "engine/graph/forward.h"
#include "engine/models/convnet.h"

#include <errno.h>
#include <math.h>
#include <string.h>

typedef int32_t layer_builder(struct graph *graph, const struct model_layer *layer,
                              const char *name, int32_t x);

/* The shape of a tensor; NULL if an error came before. */
static const struct graph_shape *shape_of(const struct graph *graph, int32_t tensor)
{
    return graph->error.code || tensor < 0 ? NULL : &graph->tensors[tensor].shape;
}

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

/* Of the channels of each pixel. */
static int32_t build_layer_norm2d(struct graph *graph, const struct model_layer *layer,
                                  const char *name, int32_t x)
{
    const struct graph_shape *shape = shape_of(graph, x);
    int64_t height, width;

    if (!shape)
        return graph->error.code;
    height = shape->extent[2];
    width = shape->extent[3];
    x = graph_image_tokens(graph, x, name);
    x = graph_layer_norm(graph, x, name, layer->epsilon, true);
    return graph_tokens_to_image(graph, x, name, height, width);
}

/* A learnt factor for each channel (Touvron et al. 2021, arXiv:2103.17239): a depthwise convolution
 * of one pixel. */
static int32_t build_layer_scale(struct graph *graph, const struct model_layer *layer,
                                 const char *name, int32_t x)
{
    const struct graph_shape *shape = shape_of(graph, x);
    struct conv_attributes window = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    int32_t weight;

    if (!shape)
        return graph->error.code;
    window.groups = (int)shape->extent[1];
    x = graph_conv2d(graph, x, name, shape->extent[1], &window, false);
    if (x < 0)
        return x;
    weight = graph->nodes[graph->node_count - 1].input[1];
    graph_set_initializer(
        graph, weight, (struct initializer){.kind = INITIALIZER_CONSTANT, .bound = layer->initial});
    return x;
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

static int32_t build_group_norm(struct graph *graph, const struct model_layer *layer,
                                const char *name, int32_t x)
{
    return graph_group_norm(graph, x, name, layer->window.groups, layer->epsilon);
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

/* A layer of sequences takes one number where one of images takes a pair. */
static bool is_one_number(struct graph *graph, const struct model_layer *layer, const char *name)
{
    const struct conv_attributes *a = &layer->window;
    const int *pairs[] = {a->kernel,  a->stride, a->padding, a->dilation, layer->output_padding,
                          layer->size};

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i][0] != pairs[i][1] && !graph->error.code)
            graph->error.code =
                error_set(&graph->error, -EINVAL,
                          "layer %s (%s): a sequence has one length, but %d and %d "
                          "are given",
                          name, model_layer_kind_to_string(layer->kind), pairs[i][0], pairs[i][1]);
    return !graph->error.code;
}

static int32_t build_conv1d(struct graph *graph, const struct model_layer *layer, const char *name,
                            int32_t x)
{
    if (!is_one_number(graph, layer, name))
        return graph->error.code;
    return graph_conv1d(graph, x, name, layer->channels, &layer->window, layer->bias);
}

static int32_t build_conv_transpose1d(struct graph *graph, const struct model_layer *layer,
                                      const char *name, int32_t x)
{
    if (!is_one_number(graph, layer, name))
        return graph->error.code;
    return graph_conv_transpose1d(graph, x, name, layer->channels, &layer->window,
                                  layer->output_padding[1], layer->bias);
}

static int32_t build_conv_transpose2d(struct graph *graph, const struct model_layer *layer,
                                      const char *name, int32_t x)
{
    return graph_conv_transpose2d(graph, x, name, layer->channels, &layer->window,
                                  layer->output_padding, layer->bias);
}

static int32_t build_pool1d(struct graph *graph, const struct model_layer *layer, const char *name,
                            int32_t x)
{
    struct conv_attributes window = pool_window(layer);

    if (!is_one_number(graph, layer, name))
        return graph->error.code;
    return layer->kind == LAYER_MAX_POOL1D ? graph_max_pool1d(graph, x, name, &window)
                                           : graph_average_pool1d(graph, x, name, &window);
}

static int32_t build_adaptive_pool(struct graph *graph, const struct model_layer *layer,
                                   const char *name, int32_t x)
{
    const int *size = layer->size;

    switch (layer->kind) {
    case LAYER_ADAPTIVE_MAX_POOL2D:
        return graph_adaptive_max_pool2d(graph, x, name, size[0], size[1]);
    case LAYER_ADAPTIVE_AVERAGE_POOL2D:
        return graph_adaptive_average_pool2d(graph, x, name, size[0], size[1]);
    case LAYER_ADAPTIVE_MAX_POOL1D:
        return is_one_number(graph, layer, name)
                   ? graph_adaptive_max_pool1d(graph, x, name, size[1])
                   : graph->error.code;
    default:
        return is_one_number(graph, layer, name)
                   ? graph_adaptive_average_pool1d(graph, x, name, size[1])
                   : graph->error.code;
    }
}

static int32_t build_upsample(struct graph *graph, const struct model_layer *layer,
                              const char *name, int32_t x)
{
    const struct graph_shape *shape = shape_of(graph, x);
    const double scale = (double)layer->scale;
    bool linear = strcmp(layer->mode, "linear") == 0, nearest = strcmp(layer->mode, "nearest") == 0;
    struct resize resize = {.scale = {scale, scale},
                            .mode = nearest ? RESIZE_NEAREST : RESIZE_BILINEAR};

    if (!shape)
        return graph->error.code;
    if (!nearest && linear != (shape->rank == 3))
        return error_set(
            &graph->error, -EINVAL,
            "layer %s (upsample): linear is for sequences [channels, length], bilinear "
            "for images",
            name);
    if (shape->rank == 3)
        return graph_resize1d(graph, x, name, (int64_t)((double)shape->extent[2] * scale), scale,
                              resize.mode);
    if (shape->rank == 4) {
        resize.height = (int64_t)((double)shape->extent[2] * scale);
        resize.width = (int64_t)((double)shape->extent[3] * scale);
    }
    return graph_resize2d(graph, x, name, &resize);
}

/* [B,T,F] -> [B,F,T]. */
static int32_t build_transpose(struct graph *graph, const struct model_layer *layer,
                               const char *name, int32_t x)
{
    const struct graph_shape *shape = shape_of(graph, x);
    int64_t steps, features;

    (void)layer;
    if (!shape)
        return graph->error.code;
    steps = shape->extent[1];
    features = shape->extent[2];
    x = graph_token_image(graph, x, name);
    return graph_reshape(graph, x, name, (int64_t[]){features, steps}, 2);
}

static int32_t build_channel_dropout(struct graph *graph, const struct model_layer *layer,
                                     const char *name, int32_t x)
{
    return graph_channel_dropout(graph, x, name, layer->probability);
}

static int32_t build_stochastic_depth(struct graph *graph, const struct model_layer *layer,
                                      const char *name, int32_t x)
{
    return graph_stochastic_depth(graph, x, name, layer->probability);
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

/* Python's classes of layers that PyTorch lacks. */
#define PYTHON_TRANSPOSE            \
    "class Transpose(nn.Module):\n" \
    "    def forward(self, x):\n"   \
    "        return x.transpose(1, 2)\n"
#define PYTHON_LAYER_NORM2D              \
    "class LayerNorm2d(nn.LayerNorm):\n" \
    "    def forward(self, x):\n"        \
    "        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)\n"
#define PYTHON_ADD                      \
    "class Add(nn.Module):\n"           \
    "    def forward(self, *inputs):\n" \
    "        return sum(inputs[1:], inputs[0])\n"
#define PYTHON_CONCAT                   \
    "class Concat(nn.Module):\n"        \
    "    def __init__(self, axis):\n"   \
    "        super().__init__()\n"      \
    "        self.axis = axis\n\n"      \
    "    def forward(self, *inputs):\n" \
    "        return torch.cat(inputs, self.axis)\n"
#define PYTHON_RESIDUAL                                             \
    "class Residual(nn.Module):\n"                                  \
    "    def __init__(self, layers, projection=None):\n"            \
    "        super().__init__()\n"                                  \
    "        self.layers, self.projection = layers, projection\n\n" \
    "    def forward(self, x):\n"                                   \
    "        return self.layers(x) + (self.projection(x) if self.projection else x)\n"
#define PYTHON_BRANCHES                                                    \
    "class Branches(nn.Module):\n"                                         \
    "    \"\"\"Side by side along the axis; axis 0: their sum.\"\"\"\n\n"  \
    "    def __init__(self, axis, *branches):\n"                           \
    "        super().__init__()\n"                                         \
    "        self.axis, self.branches = axis, nn.ModuleList(branches)\n\n" \
    "    def forward(self, x):\n"                                          \
    "        results = [branch(x) for branch in self.branches]\n"          \
    "        return torch.cat(results, self.axis) if self.axis else sum(results[1:], results[0])\n"

const char model_graph_python[] =
    "class Graph(nn.Module):\n"
    "    def __init__(self, nodes, outputs):\n"
    "        super().__init__()\n"
    "        self.reads, self.gives = {name: inputs for name, _, inputs in nodes}, outputs\n"
    "        for name, module, _ in nodes:\n"
    "            self.add_module(name, module)\n\n"
    "    def forward(self, x):\n"
    "        values = {\"input\": x}\n\n"
    "        def value(name):\n"
    "            if name not in values:\n"
    "                values[name] = self.get_submodule(name)(*map(value, self.reads[name]))\n"
    "            return values[name]\n\n"
    "        results = [value(name) for name in self.gives]\n"
    "        return results[0] if len(results) == 1 else torch.cat(results, 1)\n";

/* clang-format off */
static const struct {
    layer_builder *build;
    struct model_layer_python python;
} layers[] = {
    [LAYER_LINEAR] = {build_linear, {.module = "nn.Linear({inputs}, {outputs}{bias})"}},
    [LAYER_CONV2D] = {build_conv2d,
                      {.module = "nn.Conv2d({inputs}, {outputs}, {kernel}{stride=1}{padding=0}"
                                 "{dilation=1}{groups=1}{bias})"}},
    [LAYER_CONV1D] = {build_conv1d,
                      {.module = "nn.Conv1d({inputs}, {outputs}, {kernel}{stride=1}{padding=0}"
                                 "{dilation=1}{groups=1}{bias})"}},
    [LAYER_CONV_TRANSPOSE1D] = {build_conv_transpose1d,
                      {.module = "nn.ConvTranspose1d({outputs}, {inputs}, {kernel}{stride=1}"
                                 "{padding=0}{output_padding=0}{groups=1}{bias}{dilation=1})"}},
    [LAYER_CONV_TRANSPOSE2D] = {build_conv_transpose2d,
                      {.module = "nn.ConvTranspose2d({outputs}, {inputs}, {kernel}{stride=1}"
                                 "{padding=0}{output_padding=0}{groups=1}{bias}{dilation=1})"}},
    [LAYER_GROUP_NORM] = {build_group_norm,
                          {.module = "nn.GroupNorm({groups}, {outputs}, eps={epsilon})"}},
    [LAYER_BATCH_NORM] = {build_batch_norm,
                          {.module = "nn.BatchNorm{dimensions}({outputs}, eps={epsilon}, "
                                     "momentum={momentum})"}},
    [LAYER_LAYER_NORM] = {build_layer_norm,
                          {.module = "nn.LayerNorm({outputs}, eps={epsilon}{bias})"}},
    [LAYER_LAYER_NORM2D] = {build_layer_norm2d,
                            {.imports = PYTHON_LAYER_NORM2D,
                             .module = "LayerNorm2d({outputs}, eps={epsilon})"}},
    [LAYER_LAYER_SCALE] = {build_layer_scale,
                           {.module = "nn.Conv2d({outputs}, {outputs}, 1, groups={outputs}, "
                                      "bias=False)"}},
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
    [LAYER_MAX_POOL1D] = {build_pool1d,
                          {.module = "nn.MaxPool1d({kernel}, stride={stride}{padding=0})"}},
    [LAYER_AVERAGE_POOL1D] = {build_pool1d,
                              {.module = "nn.AvgPool1d({kernel}, stride={stride}{padding=0})"}},
    [LAYER_ADAPTIVE_MAX_POOL1D] = {build_adaptive_pool,
                                   {.module = "nn.AdaptiveMaxPool1d({size})"}},
    [LAYER_ADAPTIVE_MAX_POOL2D] = {build_adaptive_pool,
                                   {.module = "nn.AdaptiveMaxPool2d({size})"}},
    [LAYER_ADAPTIVE_AVERAGE_POOL1D] = {build_adaptive_pool,
                                       {.module = "nn.AdaptiveAvgPool1d({size})"}},
    [LAYER_ADAPTIVE_AVERAGE_POOL2D] = {build_adaptive_pool,
                                       {.module = "nn.AdaptiveAvgPool2d({size})"}},
    [LAYER_UPSAMPLE] = {build_upsample,
                        {.module = "nn.Upsample(scale_factor={scale}, mode=\"{mode}\")"}},
    [LAYER_TRANSPOSE] = {build_transpose, {.imports = PYTHON_TRANSPOSE, .module = "Transpose()"}},
    [LAYER_DROPOUT1D] = {build_channel_dropout, {.module = "nn.Dropout1d({probability})"}},
    [LAYER_DROPOUT2D] = {build_channel_dropout, {.module = "nn.Dropout2d({probability})"}},
    [LAYER_STOCHASTIC_DEPTH] = {build_stochastic_depth,
                                {.imports = "from torchvision.ops import StochasticDepth\n",
                                 .module = "StochasticDepth({probability}, \"row\")"}},
    [LAYER_ADD] = {NULL, {.imports = PYTHON_ADD, .module = "Add()"}},
    [LAYER_CONCAT] = {NULL, {.imports = PYTHON_CONCAT, .module = "Concat({axis})"}},
    [LAYER_RESIDUAL] = {NULL, {.imports = PYTHON_RESIDUAL, .module = "Residual({lists})"}},
    [LAYER_BRANCHES] = {NULL, {.imports = PYTHON_BRANCHES,
                               .module = "Branches({join}, {lists})"}},
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

int32_t model_layer_build(struct graph *graph, const struct model_layer *layer, const char *name,
                          int32_t x)
{
    return layers[layer->kind].build(graph, layer, name, x);
}

bool model_layer_joins(enum model_layer_kind kind)
{
    return kind == LAYER_ADD || kind == LAYER_CONCAT;
}

static int32_t fail_join(struct graph *graph, const char *name, const char *join,
                         const struct graph_shape *a, const struct graph_shape *b)
{
    char first[128], second[128];

    return error_set(&graph->error, -EINVAL, "layer %s (%s): the shapes %s and %s do not fit", name,
                     join, graph_shape_format(a, first, sizeof first),
                     graph_shape_format(b, second, sizeof second));
}

/* The shapes must agree but for the axis; axis 0: in all. Returns the sum of its extents; 0 after
 * an error. */
static int64_t check_shapes(struct graph *graph, const int32_t *inputs, int count, int64_t axis,
                            const char *join, const char *name)
{
    int64_t sum = 0;

    for (int i = 0; i < count; i++) {
        const struct graph_shape *first = shape_of(graph, inputs[0]);
        const struct graph_shape *own = shape_of(graph, inputs[i]);
        struct graph_shape alike;

        if (!first || !own)
            return 0;
        alike = *own;
        if (axis >= alike.rank) {
            error_set(&graph->error, -EINVAL, "layer %s (%s): the input has no axis %lld", name,
                      join, (long long)axis);
            return 0;
        }
        if (axis)
            alike.extent[axis] = first->extent[axis];
        if (!graph_shape_equal(&alike, first)) {
            fail_join(graph, name, join, first, own);
            return 0;
        }
        sum += own->extent[axis];
    }
    return sum;
}

/* The inputs as rows, whose numbers lie side by side where axis 1 is the outermost. */
static int32_t concat(struct graph *graph, const int32_t *inputs, int count, int64_t axis,
                      const char *name)
{
    int64_t sum = check_shapes(graph, inputs, count, axis, "concat", name);
    int32_t parts[GRAPH_OUTPUTS_MAX], joined;
    struct graph_shape shape;

    if (!sum)
        return graph->error.code;
    shape = graph->tensors[inputs[0]].shape;
    if (axis == shape.rank - 1 && shape.rank < 4)
        return graph_concatenate(graph, inputs, count, name);
    if (axis != 1)
        return error_set(&graph->error, -EINVAL,
                         "layer %s (concat): images are joined along axis 1, their channels", name);
    shape.extent[1] = sum;
    for (int i = 0; i < count; i++)
        parts[i] = shape.rank == 4 ? graph_image_tokens(graph, inputs[i], name)
                                   : graph_flatten(graph, inputs[i], name);
    joined = graph_concatenate(graph, parts, count, name);
    return shape.rank == 4
               ? graph_tokens_to_image(graph, joined, name, shape.extent[2], shape.extent[3])
               : graph_reshape(graph, joined, name, &shape.extent[1], 2);
}

int32_t model_layers_join(struct graph *graph, const int32_t *inputs, int count, const char *join,
                          int64_t axis, const char *name)
{
    int32_t sum = inputs[0];

    if (strcmp(join, "concat") == 0)
        return concat(graph, inputs, count, axis, name);
    if (!check_shapes(graph, inputs, count, 0, join, name))
        return graph->error.code;
    for (int i = 1; i < count; i++)
        sum = graph_add(graph, sum, inputs[i], name);
    return sum;
}

const struct model_layer_python *model_layer_python(enum model_layer_kind kind)
{
    return &layers[kind].python;
}

struct model_layer model_layer_default(enum model_layer_kind kind)
{
    bool pool = kind == LAYER_MAX_POOL2D || kind == LAYER_AVERAGE_POOL2D ||
                kind == LAYER_MAX_POOL1D || kind == LAYER_AVERAGE_POOL1D;
    int kernel = pool ? 2 : 1, stride = pool ? 0 : 1;

    return (struct model_layer){.kind = kind,
                                .window = {.kernel = {kernel, kernel},
                                           .stride = {stride, stride},
                                           .dilation = {1, 1},
                                           .groups = 1},
#define MEMBER(name, usual, ...) .name = usual,
#define NONE(...)
                                MODEL_LAYER_KEYS(MEMBER, MEMBER, MEMBER, MEMBER, NONE)};
#undef MEMBER
}

double model_layer_number(const struct model_layer *layer, const char *key)
{
#define NUMBER(name, ...)        \
    if (strcmp(key, #name) == 0) \
        return (double)layer->name;
    MODEL_LAYER_KEYS(NUMBER, NUMBER, NONE, NONE, NONE)
#undef NUMBER
    return NAN;
}

const char *model_layer_word(const struct model_layer *layer, const char *key)
{
#define WORD(name, ...)          \
    if (strcmp(key, #name) == 0) \
        return layer->name;
    MODEL_LAYER_KEYS(NONE, NONE, NONE, WORD, NONE)
#undef WORD
#undef NONE
    return NULL;
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
                {"output_padding", layer->output_padding, 2},
                {"size", layer->size, 2},
                {"groups", &window.groups, 1}};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i].key) == 0) {
            memcpy(values, keys[i].values, (size_t)keys[i].count * sizeof values[0]);
            return keys[i].count;
        }
    return 0;
}
