/* efficientnet.c: EfficientNet-B0 with torchvision's names and initial weights
 * (torchvision/models/efficientnet.py). */
#include "engine/graph/forward.h"
#include "engine/models/inverted_residual.h"

#include <math.h>

static const float epsilon = 1e-5f, momentum = 0.1f; /* torch.nn.BatchNorm2d's defaults */

enum { STEM_CHANNELS = 32, SQUEEZE_RATIO = 4, HEAD_RATIO = 4 };

/* Table 1 of Tan and Le 2019; the channels before `width` multiplies them. */
static const struct {
    int expansion, kernel, stride, channels, blocks;
} stages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
              {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
enum { STAGES = sizeof stages / sizeof stages[0] };

static int count_blocks(int stage_count)
{
    int count = 0;

    for (int i = 0; i < stage_count; i++)
        count += stages[i].blocks;
    return count;
}

/* The deeper a block, the more often it is dropped. */
static int32_t append_stage(const struct model_config *config, struct graph *graph, int32_t x,
                            int stage, int64_t input_channels)
{
    int64_t channels = convnet_channels(stages[stage].channels, config->width);

    for (int i = 0; i < stages[stage].blocks; i++) {
        int depth = count_blocks(stage) + i;
        int64_t narrow = i ? channels : input_channels;
        const struct inverted_residual block = {
            .expanded = convnet_channels((double)narrow, stages[stage].expansion),
            .channels = channels,
            .kernel = stages[stage].kernel,
            .stride = i ? 1 : stages[stage].stride,
            .activation = ACTIVATION_SILU,
            .squeeze_excite = {.channels = narrow / SQUEEZE_RATIO,
                               .activation = ACTIVATION_SILU,
                               .scale = ACTIVATION_SIGMOID},
            .epsilon = epsilon,
            .momentum = momentum,
            .drop_probability =
                config->stochastic_depth * (float)depth / (float)count_blocks(STAGES)};

        x = inverted_residual_append(graph, x, layer_name("features.%d.%d", stage + 1, i).text,
                                     &block);
    }
    return x;
}

static void initialize_linear(struct graph *graph, int64_t outputs)
{
    const struct initializer uniform = {.kind = INITIALIZER_UNIFORM,
                                        .bound = 1.0f / sqrtf((float)outputs)};
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS};

    graph_set_initializer(graph, graph_find_tensor(graph, "classifier.1.weight"), uniform);
    graph_set_initializer(graph, graph_find_tensor(graph, "classifier.1.bias"), zeros);
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
    int64_t channels = unit.channels;

    (void)error;
    x = convnet_activated_unit(graph, x, "features.0", &unit, ACTIVATION_SILU);
    for (int stage = 0; stage < STAGES; stage++) {
        x = append_stage(config, graph, x, stage, channels);
        channels = convnet_channels(stages[stage].channels, config->width);
    }
    unit.channels = HEAD_RATIO * channels;
    unit.kernel = unit.stride = 1;
    x = convnet_activated_unit(graph, x, layer_name("features.%d", STAGES + 1).text, &unit,
                               ACTIVATION_SILU);
    x = graph_flatten(graph, graph_global_average_pool2d(graph, x, "avgpool"), "flatten");
    x = graph_dropout(graph, x, "classifier.0", config->dropout);
    *result = graph_linear(graph, x, "classifier.1", data->outputs, true);
    convnet_initialize(graph);
    initialize_linear(graph, data->outputs);
    return 0;
}

const struct model models_efficientnet_b0 = {
    .build = build,
    .python =
        {
            .imports = "from torchvision.models import efficientnet\n",
            .body =
                "    settings, last = efficientnet._efficientnet_conf(\"efficientnet_b0\", "
                "width_mult=$width, "
                "depth_mult=1.0)\n"
                "    model = efficientnet.EfficientNet(settings, $dropout, "
                "stochastic_depth_prob=$stochastic_depth, "
                "num_classes=$outputs,\n"
                "                                      last_channel=last)\n" CONVNET_PYTHON_STEM,
        },
};
