/* resnet.c: residual networks with torchvision's names and initial weights
 * (torchvision/models/resnet.py), with the stem for small images (models.h). */
#include "engine/graph/forward.h"
#include "engine/models/convnet.h"

enum { STAGES = 4, BLOCKS_PER_STAGE = 2, BASE_CHANNELS = 64 };

/* With torch.nn.BatchNorm2d's defaults. */
static struct convnet_unit unit(int64_t channels, int kernel, int stride)
{
    return (struct convnet_unit){.channels = channels,
                                 .kernel = kernel,
                                 .stride = stride,
                                 .groups = 1,
                                 .epsilon = 1e-5f,
                                 .momentum = 0.1f};
}

/* relu(bn2(conv2(relu(bn1(conv1(x))))) + x). If x has another shape than the sum, it passes through
 * a convolution of 1x1 and batch norm first. */
static int32_t append_block(struct graph *graph, int32_t x, const char *name, int64_t channels,
                            int stride, bool downsample)
{
    const struct convnet_unit first = unit(channels, 3, stride), second = unit(channels, 3, 1);
    const struct convnet_unit shortcut = unit(channels, 1, stride);
    int32_t y = convnet_unit(graph, x, layer_name("%s.conv1", name).text,
                             layer_name("%s.bn1", name).text, &first);

    y = graph_activation(graph, y, layer_name("%s.relu", name).text, ACTIVATION_RELU);
    y = convnet_unit(graph, y, layer_name("%s.conv2", name).text, layer_name("%s.bn2", name).text,
                     &second);
    if (downsample)
        x = convnet_unit(graph, x, layer_name("%s.downsample.0", name).text,
                         layer_name("%s.downsample.1", name).text, &shortcut);
    y = graph_add(graph, y, x, layer_name("%s.add", name).text);
    return graph_activation(graph, y, layer_name("%s.relu2", name).text, ACTIVATION_RELU);
}

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    const struct convnet_unit stem = unit(convnet_channels(BASE_CHANNELS, config->width), 3, 1);

    (void)error;
    x = convnet_unit(graph, x, "conv1", "bn1", &stem);
    x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
    for (int stage = 0; stage < STAGES; stage++)
        for (int block = 0; block < BLOCKS_PER_STAGE; block++) {
            bool first = stage > 0 && block == 0; /* halves the image, doubles the channels */

            x = append_block(graph, x, layer_name("layer%d.%d", stage + 1, block).text,
                             convnet_channels(BASE_CHANNELS << stage, config->width), first ? 2 : 1,
                             first);
        }
    x = graph_global_average_pool2d(graph, x, "avgpool");
    x = graph_flatten(graph, x, "flatten");
    *result = graph_linear(graph, x, "fc", data->outputs, true);
    convnet_initialize(graph);
    return 0;
}

const struct model models_resnet18 = {
    .build = build,
    .python =
        {
            .imports = "from torchvision.models import resnet\n"
                       "from torchvision.models._utils import _make_divisible\n",
            .body =
                "    # torchvision's resnet18 with the stem that is usual for small images\n"
                "    wide = [_make_divisible(64 * 2 ** stage * $width, 8) for stage in range(4)]\n"
                "    model = resnet.resnet18(num_classes=$outputs)\n"
                "    model.inplanes = wide[0]\n"
                "    model.conv1 = nn.Conv2d($channels, wide[0], 3, padding=1, bias=False)\n"
                "    model.bn1 = nn.BatchNorm2d(wide[0])\n"
                "    model.maxpool = nn.Identity()\n"
                "    for stage in range(4):\n"
                "        layer = model._make_layer(resnet.BasicBlock, wide[stage], 2, stride=2 if "
                "stage else "
                "1)\n"
                "        setattr(model, f\"layer{stage + 1}\", layer)\n"
                "    model.fc = nn.Linear(wide[3], $outputs)\n"
                "    return model\n",
        },
};
