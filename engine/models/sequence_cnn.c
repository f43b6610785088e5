/* sequence_cnn.c: convolutional networks over sequences of symbols. A sequence of vectors is an
 * image of one row, so that its convolutions are those of images.
 *
 * text_cnn: Kim 2014, "Convolutional neural networks for sentence classification",
 * arXiv:1408.5882. dna_cnn: convolutions one after another, as in Kelley, Snoek and Rinn 2016,
 * "Basset", doi:10.1101/gr.200535.115. */
#include "engine/models/convnet.h"

#include <errno.h>

static const struct conv_attributes *window(int64_t kernel, int stride, int64_t padding,
                                            struct conv_attributes *attributes)
{
    *attributes = (struct conv_attributes){.kernel = {1, (int)kernel},
                                           .stride = {1, stride},
                                           .padding = {0, (int)padding},
                                           .dilation = {1, 1},
                                           .groups = 1};
    return attributes;
}

/* Hidden linear layers, each behind a dropout, and the output layer. */
static int32_t append_head(struct graph *graph, int32_t x, const struct model_config *config,
                           const struct model_data *data)
{
    for (int i = 0; i < config->hidden_count; i++) {
        x = graph_dropout(graph, x, layer_name("hidden_dropout.%d", i).text, config->dropout);
        x = graph_linear(graph, x, layer_name("hidden.%d", i).text, config->hidden[i], true);
        x = graph_activation(graph, x, layer_name("hidden_relu.%d", i).text, ACTIVATION_RELU);
    }
    x = graph_dropout(graph, x, "dropout", config->dropout);
    return graph_linear(graph, x, "output", data->outputs, true);
}

static int check(const struct model_config *config, const struct model_data *data, bool branches,
                 struct error *error)
{
    if (!data->vocabulary)
        return error_set(error, -EINVAL,
                         "%s reads sequences of symbols, but the samples are numbers",
                         model_kind_to_string(config->kind));
    if (config->kernel_count < 1 || (branches && config->kernel_count > GRAPH_OUTPUTS_MAX))
        return error_set(error, -EINVAL, "model.kernels: %d kernels; %s takes 1 to %d",
                         config->kernel_count, model_kind_to_string(config->kind),
                         branches ? GRAPH_OUTPUTS_MAX : 32);
    return 0;
}

/* Convolutions of several widths beside each other; of each channel the maximum. */
static int build_text_cnn(const struct model_config *config, const struct model_data *data,
                          struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    int32_t branches[GRAPH_OUTPUTS_MAX];
    struct conv_attributes attributes;
    int code = check(config, data, true, error);

    if (code)
        return code;
    x = graph_embedding(graph, x, "embedding", data->vocabulary, config->embedding);
    x = graph_token_image(graph, x, "image");
    for (int i = 0; i < config->kernel_count; i++) {
        int32_t y = graph_conv2d(graph, x, layer_name("convs.%d", i).text, config->filters,
                                 window(config->kernels[i], 1, 0, &attributes), true);

        y = graph_activation(graph, y, layer_name("relu.%d", i).text, ACTIVATION_RELU);
        y = graph_image_tokens(graph, y, layer_name("sequence.%d", i).text);
        branches[i] = graph_max_over_time(graph, y, -1, layer_name("max.%d", i).text);
    }
    x = graph_concatenate(graph, branches, config->kernel_count, "concatenate");
    *result = append_head(graph, x, config, data);
    return 0;
}

/* (conv [batch_norm] relu max_pool(2) dropout)*, then all positions or the maximum over them. */
static int build_dna_cnn(const struct model_config *config, const struct model_data *data,
                         struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    struct conv_attributes attributes;
    int code = check(config, data, false, error);

    if (code)
        return code;
    x = graph_embedding(graph, x, "embedding", data->vocabulary, config->embedding);
    x = graph_token_image(graph, x, "image");
    for (int i = 0; i < config->channel_count; i++) {
        int last = config->kernel_count - 1;
        int64_t kernel = config->kernels[i < last ? i : last];

        x = graph_conv2d(graph, x, layer_name("convs.%d", i).text, config->channels[i],
                         window(kernel, 1, kernel / 2, &attributes), true);
        if (config->batch_norm)
            x = graph_batch_norm(graph, x, layer_name("norms.%d", i).text, 1e-5f, 0.1f);
        x = graph_activation(graph, x, layer_name("relu.%d", i).text, ACTIVATION_RELU);
        x = graph_max_pool2d(graph, x, layer_name("pool.%d", i).text, window(2, 2, 0, &attributes));
        if (i + 1 < config->channel_count)
            x = graph_dropout(graph, x, layer_name("dropout.%d", i).text, config->dropout);
    }
    if (config->keeps_positions)
        x = graph_flatten(graph, x, "flatten");
    else
        x = graph_max_over_time(graph, graph_image_tokens(graph, x, "sequence"), -1, "max");
    *result = append_head(graph, x, config, data);
    return 0;
}

/* Parts that both modules have. */
#define PYTHON_HEAD                                                    \
    "            self.hidden = nn.ModuleList()\n"                      \
    "            for features in $hidden:\n"                           \
    "                self.hidden.append(nn.Linear(width, features))\n" \
    "                width = features\n"                               \
    "            self.output = nn.Linear(width, $outputs)\n"           \
    "            self.dropout = nn.Dropout($dropout)\n\n"
#define PYTHON_TAIL                                        \
    "            for layer in self.hidden:\n"              \
    "                x = F.relu(layer(self.dropout(x)))\n" \
    "            return self.output(self.dropout(x))\n\n"

const struct model models_text_cnn = {
    .build = build_text_cnn,
    .python =
        {
            .imports = "from torch.nn import functional as F\n",
            .body =
                "    class TextCnn(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            self.embedding = nn.Embedding($vocabulary, $embedding)\n"
                "            self.convs = nn.ModuleList(nn.Conv2d($embedding, $filters, (1, kernel))"
                " for kernel in $kernels)\n"
                "            width = $filters * len($kernels)\n" PYTHON_HEAD
                "        def forward(self, symbols):\n"
                "            x = self.embedding(symbols).transpose(1, 2).unsqueeze(2)\n"
                "            x = torch.cat([F.relu(conv(x)).amax((2, 3)) for conv in self.convs], 1)\n" PYTHON_TAIL
                "    return TextCnn()\n",
        },
};

const struct model models_dna_cnn = {
    .build = build_dna_cnn,
    .python =
        {
            .imports = "from torch.nn import functional as F\n",
            .body =
                "    class DnaCnn(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            channels, kernels, length = $channels, $kernels, INPUT[0]\n"
                "            kernels = kernels + kernels[-1:] * (len(channels) - len(kernels))\n"
                "            self.embedding = nn.Embedding($vocabulary, $embedding)\n"
                "            self.convs, self.norms = nn.ModuleList(), nn.ModuleList()\n"
                "            width = $embedding\n"
                "            for features, kernel in zip(channels, kernels):\n"
                "                self.convs.append(nn.Conv2d(width, features, (1, kernel), "
                "padding=(0, kernel // 2)))\n"
                "                self.norms.append(nn.BatchNorm2d(features) if $batch_norm else "
                "nn.Identity())\n"
                "                width, length = features, (length + 1 - kernel % 2) // 2\n"
                "            if \"$pooling\" == \"flatten\":\n"
                "                width *= length\n" PYTHON_HEAD
                "        def forward(self, symbols):\n"
                "            x = self.embedding(symbols).transpose(1, 2).unsqueeze(2)\n"
                "            for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):\n"
                "                x = self.dropout(x) if i else x\n"
                "                x = F.max_pool2d(F.relu(norm(conv(x))), (1, 2))\n"
                "            x = x.flatten(1) if \"$pooling\" == \"flatten\" else x.amax((2, 3))\n" PYTHON_TAIL
                "    return DnaCnn()\n",
        },
};
