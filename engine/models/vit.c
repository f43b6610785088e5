/* vit.c: a transformer over the patches of an image, with the names and the initial weights of
 * torchvision (torchvision/models/vision_transformer.py). Dropout stands where torchvision's does,
 * but not within attention, which stores no probabilities. */
#include "engine/graph/forward.h"
#include "engine/models/transformer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const float norm_epsilon = 1e-6f, position_deviation = 0.02f, bias_deviation = 1e-6f;

static struct initializer normal(double deviation)
{
    return (struct initializer){.kind = INITIALIZER_NORMAL, .bound = (float)deviation};
}

/* torch.nn.init.xavier_uniform_ of a matrix (Glorot and Bengio 2010). */
static struct initializer xavier(int64_t outputs, int64_t inputs)
{
    return (struct initializer){.kind = INITIALIZER_UNIFORM,
                                .bound = sqrtf(6.0f / (float)(outputs + inputs))};
}

static void initialize_layer(struct graph *graph, const char *name, struct initializer weight,
                             struct initializer bias)
{
    graph_set_initializer(graph, graph_find_tensor(graph, layer_name("%s.weight", name).text),
                          weight);
    graph_set_initializer(graph, graph_find_tensor(graph, layer_name("%s.bias", name).text), bias);
}

/* [B,C,H,W] -> [B,T,D]: a class token where there is one, the patches row by row, and positions. */
static int32_t embed(const struct model_config *config, const struct model_data *data,
                     struct graph *graph, int32_t x)
{
    const struct conv_attributes window = {.kernel = {config->patch, config->patch},
                                           .stride = {config->patch, config->patch},
                                           .dilation = {1, 1},
                                           .groups = 1};
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS};
    int64_t steps = data->sample_shape[1] / config->patch * (data->sample_shape[2] / config->patch);
    struct graph_shape shape = {.rank = 3, .extent = {1, 1, config->embedding}};
    int32_t token = -1, positions;

    if (config->pool == POOL_TOKEN)
        token = graph_parameter(graph, "class_token", &shape, zeros);
    x = graph_conv2d(graph, x, "conv_proj", config->embedding, &window, true);
    initialize_layer(
        graph, "conv_proj",
        normal(1 / sqrt((double)(data->sample_shape[0] * config->patch * config->patch))), zeros);
    x = graph_image_tokens(graph, x, "patches");
    if (config->pool == POOL_TOKEN)
        x = graph_prepend_token(graph, x, "class_token", token);
    shape.extent[1] = steps + (config->pool == POOL_TOKEN);
    positions = graph_parameter(graph, "encoder.pos_embedding", &shape, normal(position_deviation));
    x = graph_add_positions(graph, x, "encoder.pos_embedding", positions);
    return graph_dropout(graph, x, "encoder.dropout", config->dropout);
}

/* torch.nn.MultiheadAttention: its first layer has names of its own. */
static int32_t attend(const struct model_config *config, struct graph *graph, int32_t x,
                      const char *name)
{
    const int64_t width = config->embedding;
    const struct graph_shape matrix = {.rank = 2, .extent = {3 * width, width}};
    const struct graph_shape vector = {.rank = 1, .extent = {3 * width}};
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS};
    int32_t weight = graph_parameter(graph, layer_name("%s.in_proj_weight", name).text, &matrix,
                                     xavier(3 * width, width));
    int32_t bias = graph_parameter(graph, layer_name("%s.in_proj_bias", name).text, &vector, zeros);

    x = graph_linear_shared(graph, x, layer_name("%s.in_proj", name).text, weight, bias);
    x = graph_attention(graph, x, name, config->heads, false, -1);
    x = graph_linear(graph, x, layer_name("%s.out_proj", name).text, width, true);
    graph_set_initializer(
        graph, graph_find_tensor(graph, layer_name("%s.out_proj.bias", name).text), zeros);
    return x;
}

static int32_t append_block(const struct model_config *config, struct graph *graph, int32_t x,
                            int32_t *residual, const char *name)
{
    int64_t width = config->embedding, features = transformer_features(config);
    struct layer_name first = layer_name("%s.mlp.0", name), second = layer_name("%s.mlp.3", name);

    x = transformer_norm(graph, x, residual, layer_name("%s.ln_1", name).text, norm_epsilon);
    x = attend(config, graph, x, layer_name("%s.self_attention", name).text);
    x = graph_dropout(graph, x, layer_name("%s.dropout", name).text, config->dropout);
    x = transformer_norm(graph, x, residual, layer_name("%s.ln_2", name).text, norm_epsilon);
    x = transformer_network(graph, x, config, first.text, second.text, true);
    initialize_layer(graph, first.text, xavier(features, width), normal(bias_deviation));
    initialize_layer(graph, second.text, xavier(width, features), normal(bias_deviation));
    return x;
}

static int check(const struct model_config *config, const struct model_data *data,
                 struct error *error)
{
    int code = transformer_check(config, error);

    if (code)
        return code;
    if (data->rank != 3)
        return error_set(error, -EINVAL, "vit reads images, but a sample has %d dimensions",
                         data->rank);
    if (config->patch < 1 || data->sample_shape[1] % config->patch ||
        data->sample_shape[2] % config->patch)
        return error_set(error, -EINVAL,
                         "model.patch is %d, which does not divide images of %lldx%lld; choose "
                         "another patch, or resize the images",
                         config->patch, (long long)data->sample_shape[1],
                         (long long)data->sample_shape[2]);
    return 0;
}

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS};
    bool token = config->pool == POOL_TOKEN;
    int32_t residual = -1;
    int code = check(config, data, error);

    if (code)
        return code;
    x = embed(config, data, graph, x);
    for (int block = 0; block < config->depth; block++)
        x = append_block(config, graph, x, &residual,
                         layer_name("encoder.layers.encoder_layer_%d", block).text);
    if (token) { /* the norm of the class token alone is wanted */
        x = graph_first_step(graph, graph_add(graph, x, residual, "encoder.add"), "pool");
        x = graph_layer_norm(graph, x, "encoder.ln", norm_epsilon, true);
    } else {
        x = transformer_norm(graph, x, &residual, "encoder.ln", norm_epsilon);
        x = graph_mean_over_time(graph, x, -1, "pool");
    }
    *result = graph_linear(graph, x, "heads.head", data->outputs, true);
    initialize_layer(graph, "heads.head", zeros, zeros);
    return 0;
}

const struct model models_vit = {
    .build = build,
    .python =
        {
            .imports = "",
            .body =
                "    # torchvision's VisionTransformer; with a class token the weights load there, "
                "too\n"
                "    class Block(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            self.ln_1 = nn.LayerNorm($embedding, eps=1e-6)\n"
                "            self.self_attention = nn.MultiheadAttention($embedding, $heads, "
                "batch_first=True)\n"
                "            self.dropout = nn.Dropout($dropout)\n"
                "            self.ln_2 = nn.LayerNorm($embedding, eps=1e-6)\n"
                "            self.mlp = nn.Sequential(nn.Linear($embedding, $features), nn.GELU(), "
                "nn.Dropout($dropout),\n"
                "                                     nn.Linear($features, $embedding), "
                "nn.Dropout($dropout))\n\n"
                "        def forward(self, x):\n"
                "            y = self.ln_1(x)\n"
                "            x = x + self.dropout(self.self_attention(y, y, y, "
                "need_weights=False)[0])\n"
                "            return x + self.mlp(self.ln_2(x))\n\n"
                "    class Encoder(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            self.pos_embedding = nn.Parameter(torch.zeros(1, $tokens, "
                "$embedding))\n"
                "            self.dropout = nn.Dropout($dropout)\n"
                "            self.layers = nn.Sequential()\n"
                "            for i in range($depth):\n"
                "                self.layers.add_module(f\"encoder_layer_{i}\", Block())\n"
                "            self.ln = nn.LayerNorm($embedding, eps=1e-6)\n\n"
                "        def forward(self, x):\n"
                "            return self.ln(self.layers(self.dropout(x + self.pos_embedding)))\n\n"
                "    class VisionTransformer(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "?!mean|            self.class_token = nn.Parameter(torch.zeros(1, 1, $embedding))\n"
                "            self.conv_proj = nn.Conv2d($channels, $embedding, $patch, "
                "stride=$patch)\n"
                "            self.encoder = Encoder()\n"
                "            self.heads = nn.Sequential()\n"
                "            self.heads.add_module(\"head\", nn.Linear($embedding, $outputs))\n\n"
                "        def forward(self, x):\n"
                "            x = self.conv_proj(x).flatten(2).transpose(1, 2)\n"
                "?!mean|            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)\n"
                "?!mean|            return self.heads(self.encoder(x)[:, 0])\n"
                "?mean|            return self.heads(self.encoder(x).mean(1))\n"
                "\n"
                "    return VisionTransformer()\n",
        },
};
