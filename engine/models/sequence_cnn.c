/* sequence_cnn.c: convolutional networks over sequences of symbols. A sequence of vectors is an
 * image of one row, so that its convolutions are those of images. Where the maximum over time
 * follows them, the padding behind a sequence changes nothing but the statistics of batch norm: it
 * counts as the zeros do that a convolution adds at its ends.
 *
 * text_cnn: Kim 2014, "Convolutional neural networks for sentence classification",
 * arXiv:1408.5882. dna_cnn: convolutions one after another, as in Kelley, Snoek and Rinn 2016,
 * "Basset", doi:10.1101/gr.200535.115. */
#include "engine/graph/forward.h"
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

/* The lengths of the sequences; -1: no symbol fills up short ones. */
static int32_t append_lengths(struct graph *graph, const struct model_data *data, int32_t x)
{
    return data->padded ? graph_sequence_lengths(graph, x, "lengths", (int32_t)data->vocabulary - 1)
                        : -1;
}

/* Their lengths behind layers; -1 if they have none. */
static int32_t append_windows(struct graph *graph, int32_t lengths, const char *name, int64_t more,
                              int64_t stride)
{
    const struct window_lengths windows = {more, stride};

    return lengths < 0 ? -1 : graph_window_lengths(graph, lengths, name, &windows);
}

/* Convolutions of several widths beside each other; of each channel the maximum. */
static int build_text_cnn(const struct model_config *config, const struct model_data *data,
                          struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    int32_t branches[GRAPH_OUTPUTS_MAX], lengths;
    struct conv_attributes attributes;
    int code = check(config, data, true, error);

    if (code)
        return code;
    lengths = append_lengths(graph, data, x);
    x = graph_embedding(graph, x, "embedding", data->vocabulary, config->embedding);
    x = graph_token_image(graph, x, "image");
    for (int i = 0; i < config->kernel_count; i++) {
        int32_t y = graph_conv2d(graph, x, layer_name("convs.%d", i).text, config->filters,
                                 window(config->kernels[i], 1, 0, &attributes), true);

        y = graph_activation(graph, y, layer_name("relu.%d", i).text, ACTIVATION_RELU);
        y = graph_image_tokens(graph, y, layer_name("sequence.%d", i).text);
        branches[i] =
            graph_max_over_time(graph, y,
                                append_windows(graph, lengths, layer_name("windows.%d", i).text,
                                               1 - config->kernels[i], 1),
                                layer_name("max.%d", i).text);
    }
    x = graph_concatenate(graph, branches, config->kernel_count, "concatenate");
    *result = append_head(graph, x, config, data);
    return 0;
}

/* What of the images belongs to the sequences. */
struct masking {
    struct graph *graph;
    int32_t lengths; /* of the symbols; -1: nothing is masked */
    int32_t last;    /* behind the latest layer; -1 likewise */
    struct window_lengths windows;
};

/* Takes into account a convolution, whose ends are filled up with kernel / 2 zeros, and a pool. */
static void pass_layer(struct masking *masking, int64_t kernel, int number)
{
    struct window_lengths *windows = &masking->windows;

    windows->more += (1 - kernel % 2) * windows->stride;
    windows->stride *= 2;
    masking->last =
        append_windows(masking->graph, masking->lengths, layer_name("lengths.%d", number).text,
                       windows->more, windows->stride);
}

static int32_t mask_image(const struct masking *masking, int32_t x, int number)
{
    struct graph *graph = masking->graph;

    if (masking->lengths < 0)
        return x;
    x = graph_image_tokens(graph, x, layer_name("tokens.%d", number).text);
    x = graph_mask_steps(graph, x, masking->last, layer_name("mask.%d", number).text);
    return graph_token_image(graph, x, layer_name("image.%d", number).text);
}

/* (conv [batch_norm] relu max_pool(2) dropout)*, then all positions or the maximum over them. */
static int build_dna_cnn(const struct model_config *config, const struct model_data *data,
                         struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    struct conv_attributes attributes;
    int code = check(config, data, false, error);
    struct masking masking = {.graph = graph, .lengths = -1, .windows = {0, 1}};

    if (code)
        return code;
    if (config->pooling != POOLING_FLATTEN)
        masking.lengths = append_lengths(graph, data, x);
    x = graph_embedding(graph, x, "embedding", data->vocabulary, config->embedding);
    x = graph_mask_steps(graph, x, masking.lengths, "mask");
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
        pass_layer(&masking, kernel, i);
        if (i + 1 < config->channel_count) {
            x = mask_image(&masking, x, i);
            x = graph_dropout(graph, x, layer_name("dropout.%d", i).text, config->dropout);
        }
    }
    x = pool_steps(
        graph, config->pooling == POOLING_FLATTEN ? x : graph_image_tokens(graph, x, "sequence"),
        masking.last, config->pooling);
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
#define PYTHON_MASKED                                              \
    "    def masked(x, lengths):\n"                                \
    "        \"\"\"Zeros behind the end of each sequence.\"\"\"\n" \
    "        place = torch.arange(x.shape[3], device=x.device)\n"  \
    "        return x * (place < lengths.clamp(min=1)[:, None])[:, None, None]\n\n"
#define PYTHON_LENGTHS                                                                   \
    "            place = torch.arange(1, symbols.shape[1] + 1, device=symbols.device)\n" \
    "            lengths = ((symbols != $padding) * place).amax(1).clamp(min=1)\n"
#define PYTHON_TAIL                                        \
    "            for layer in self.hidden:\n"              \
    "                x = F.relu(layer(self.dropout(x)))\n" \
    "            return self.output(self.dropout(x))\n\n"

const struct model models_text_cnn = {
    .build = build_text_cnn,
    .python =
        {
            .imports = "from torch.nn import functional as F\n",
            .body = PYTHON_MASKED
            "    class TextCnn(nn.Module):\n"
            "        def __init__(self):\n"
            "            super().__init__()\n"
            "            self.embedding = nn.Embedding($vocabulary, $embedding)\n"
            "            self.convs = nn.ModuleList(nn.Conv2d($embedding, $filters, (1, kernel))"
            " for kernel in $kernels)\n"
            "            width = $filters * len($kernels)\n" PYTHON_HEAD
            "        def forward(self, symbols):\n" PYTHON_LENGTHS
            "            x = self.embedding(symbols).transpose(1, 2).unsqueeze(2)\n"
            "            x = torch.cat([masked(F.relu(conv(x)), lengths + 1 - conv.kernel_size[1]).amax((2, 3))\n"
            "                           for conv in self.convs], 1)\n" PYTHON_TAIL
            "    return TextCnn()\n",
        },
};

const struct model models_dna_cnn = {
    .build = build_dna_cnn,
    .python =
        {
            .imports = "from torch.nn import functional as F\n",
            .body =
                "?!pooling=flatten{\n" PYTHON_MASKED "?}\n"
                "    class DnaCnn(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            channels, kernels, length = $channels, $kernels, INPUT[0]\n"
                "            kernels = kernels + kernels[-1:] * (len(channels) - len(kernels))\n"
                "            self.embedding = nn.Embedding($vocabulary, $embedding)\n"
                "            self.convs = nn.ModuleList()\n"
                "?batch_norm|            self.norms = nn.ModuleList()\n"
                "            width = $embedding\n"
                "            for features, kernel in zip(channels, kernels):\n"
                "                self.convs.append(nn.Conv2d(width, features, (1, kernel), "
                "padding=(0, kernel // 2)))\n"
                "?batch_norm|                self.norms.append(nn.BatchNorm2d(features))\n"
                "                width, length = features, (length + 1 - kernel % 2) // 2\n"
                "?pooling=flatten|            width *= length\n" PYTHON_HEAD
                "        def forward(self, symbols):\n"
                "?!pooling=flatten{\n" PYTHON_LENGTHS "            more, stride = 0, 1\n"
                "?}\n"
                "            x = self.embedding(symbols).transpose(1, 2).unsqueeze(2)\n"
                "?!pooling=flatten|            x = masked(x, lengths)\n"
                "            for i, conv in enumerate(self.convs):\n"
                "                x = conv(self.dropout(x) if i else x)\n"
                "?batch_norm|                x = self.norms[i](x)\n"
                "                x = F.max_pool2d(F.relu(x), (1, 2))\n"
                "?!pooling=flatten{\n"
                "                more, stride = more + (1 - conv.kernel_size[1] % 2) * stride, stride * 2\n"
                "                x = masked(x, (lengths + more) // stride)\n"
                "?}\n"
                "?pooling=flatten|            x = x.flatten(1)\n"
                "?pooling=mean|            x = x.sum((2, 3)) / ((lengths + more) // stride).clamp(min=1)[:, None]\n"
                "?pooling=max|            x = x.amax((2, 3))\n" PYTHON_TAIL "    return DnaCnn()\n",
        },
};
