/* mobilenet.c: MobileNetV3-Small with torchvision's names and initial weights
 * (torchvision/models/mobilenetv3.py). */
#include "engine/graph/forward.h"
#include "engine/models/inverted_residual.h"

static const float epsilon = 1e-3f, momentum = 0.01f;

enum { STEM_CHANNELS = 16, SQUEEZE_RATIO = 4, HEAD_RATIO = 6, CLASSIFIER_FEATURES = 1024 };

/* Table 2 of Howard et al. 2019; the channels before `width` multiplies them. */
static const struct {
    int kernel, expanded, channels;
    bool squeeze_excite;
    enum activation_kind activation;
    int stride;
} blocks[] = {
    {3, 16, 16, true, ACTIVATION_RELU, 2},       {3, 72, 24, false, ACTIVATION_RELU, 2},
    {3, 88, 24, false, ACTIVATION_RELU, 1},      {5, 96, 40, true, ACTIVATION_HARDSWISH, 2},
    {5, 240, 40, true, ACTIVATION_HARDSWISH, 1}, {5, 240, 40, true, ACTIVATION_HARDSWISH, 1},
    {5, 120, 48, true, ACTIVATION_HARDSWISH, 1}, {5, 144, 48, true, ACTIVATION_HARDSWISH, 1},
    {5, 288, 96, true, ACTIVATION_HARDSWISH, 2}, {5, 576, 96, true, ACTIVATION_HARDSWISH, 1},
    {5, 576, 96, true, ACTIVATION_HARDSWISH, 1},
};
enum { BLOCKS = sizeof blocks / sizeof blocks[0] };

/* From the images to the channels of the last block. */
static int32_t append_blocks(const struct model_config *config, struct graph *graph, int32_t x)
{
    for (int i = 0; i < BLOCKS; i++) {
        int64_t expanded = convnet_channels(blocks[i].expanded, config->width);
        struct inverted_residual block = {.expanded = expanded,
                                          .channels =
                                              convnet_channels(blocks[i].channels, config->width),
                                          .kernel = blocks[i].kernel,
                                          .stride = blocks[i].stride,
                                          .activation = blocks[i].activation,
                                          .epsilon = epsilon,
                                          .momentum = momentum};

        if (blocks[i].squeeze_excite)
            block.squeeze_excite = (struct squeeze_excite){
                .channels = convnet_channels((double)(expanded / SQUEEZE_RATIO), 1),
                .activation = ACTIVATION_RELU,
                .scale = ACTIVATION_HARDSIGMOID};
        x = inverted_residual_append(graph, x, layer_name("features.%d", i + 1).text, &block);
    }
    return x;
}

static void initialize_linear(struct graph *graph, const char *name)
{
    const struct initializer normal = {.kind = INITIALIZER_NORMAL, .bound = 0.01f};
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS};

    graph_set_initializer(graph, graph_find_tensor(graph, layer_name("%s.weight", name).text),
                          normal);
    graph_set_initializer(graph, graph_find_tensor(graph, layer_name("%s.bias", name).text), zeros);
}

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    struct convnet_unit unit = {.channels = convnet_channels(STEM_CHANNELS, config->width),
                                .kernel = 3,
                                .stride = config->stem_stride,
                                .groups = 1,
                                .epsilon = epsilon,
                                .momentum = momentum};

    (void)error;
    x = convnet_activated_unit(graph, x, "features.0", &unit, ACTIVATION_HARDSWISH);
    x = append_blocks(config, graph, x);
    unit.channels = HEAD_RATIO * convnet_channels(blocks[BLOCKS - 1].channels, config->width);
    unit.kernel = unit.stride = 1;
    x = convnet_activated_unit(graph, x, layer_name("features.%d", BLOCKS + 1).text, &unit,
                               ACTIVATION_HARDSWISH);
    x = graph_flatten(graph, graph_global_average_pool2d(graph, x, "avgpool"), "flatten");
    x = graph_linear(graph, x, "classifier.0", convnet_channels(CLASSIFIER_FEATURES, config->width),
                     true);
    x = graph_activation(graph, x, "classifier.1", ACTIVATION_HARDSWISH);
    x = graph_dropout(graph, x, "classifier.2", config->dropout);
    *result = graph_linear(graph, x, "classifier.3", data->outputs, true);
    convnet_initialize(graph);
    initialize_linear(graph, "classifier.0");
    initialize_linear(graph, "classifier.3");
    return 0;
}

const struct model models_mobilenet_v3_small = {
    .build = build,
    .python =
        {
            .imports = "from torchvision.models import mobilenetv3\n",
            .body = "    settings, last = mobilenetv3._mobilenet_v3_conf(\"mobilenet_v3_small\", "
                    "width_mult=$width)\n"
                    "    model = mobilenetv3.MobileNetV3(settings, last, num_classes=$outputs, "
                    "dropout=$dropout)\n" CONVNET_PYTHON_STEM,
        },
};
