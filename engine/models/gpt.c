/* gpt.c: a decoder that predicts the next symbol of a text, with the names and the initial weights
 * of nanoGPT (models.h). Dropout stands behind the embedding and at the end of both parts of a
 * block, not within attention, which stores no probabilities. */
#include "engine/graph/forward.h"
#include "engine/models/transformer.h"

#include <math.h>
#include <string.h>

static const float norm_epsilon = 1e-5f, rotary_base = 10000, weight_deviation = 0.02f;

static int32_t embed(const struct model_config *config, const struct model_data *data,
                     struct graph *graph, int32_t x, int32_t *table)
{
    const struct graph_shape positions = {.rank = 2,
                                          .extent = {data->sample_shape[0], config->embedding}};
    int32_t learned;

    x = graph_embedding(graph, x, "transformer.wte", data->vocabulary, config->embedding);
    *table = graph_find_tensor(graph, "transformer.wte.weight");
    if (config->positions == POSITIONS_LEARNED) {
        learned = graph_parameter(graph, "transformer.wpe.weight", &positions,
                                  (struct initializer){.kind = INITIALIZER_ZEROS});
        x = graph_add_positions(graph, x, "transformer.wpe", learned);
    }
    return graph_dropout(graph, x, "transformer.drop", config->dropout);
}

static int32_t append_block(const struct model_config *config, struct graph *graph, int32_t x,
                            int32_t *residual, const char *name)
{
    x = transformer_norm(graph, x, residual, layer_name("%s.ln_1", name).text, norm_epsilon);
    x = graph_linear(graph, x, layer_name("%s.attn.c_attn", name).text, 3 * config->embedding,
                     true);
    if (config->positions == POSITIONS_ROTARY)
        x = graph_rotary(graph, x, layer_name("%s.attn.rotary", name).text, config->heads,
                         rotary_base);
    x = graph_attention(graph, x, layer_name("%s.attn", name).text, config->heads, true, -1);
    x = graph_linear(graph, x, layer_name("%s.attn.c_proj", name).text, config->embedding, true);
    x = graph_dropout(graph, x, layer_name("%s.attn.dropout", name).text, config->dropout);
    x = transformer_norm(graph, x, residual, layer_name("%s.ln_2", name).text, norm_epsilon);
    return transformer_network(graph, x, config, layer_name("%s.mlp.c_fc", name).text,
                               layer_name("%s.mlp.c_proj", name).text, false);
}

/* Matrices are normal; those that end a part of a block are smaller, since 2 x depth of them add up
 * in the residual. */
static void initialize(struct graph *graph, int depth)
{
    static const char last[] = "c_proj.weight";

    for (int32_t i = 0; i < graph->tensor_count && !graph->error.code; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        size_t length = strlen(tensor->name);
        struct initializer normal = {.kind = INITIALIZER_NORMAL, .bound = weight_deviation};

        if (tensor->role != TENSOR_PARAMETER)
            continue;
        if (length >= sizeof last - 1 &&
            strcmp(tensor->name + length - (sizeof last - 1), last) == 0)
            normal.bound /= sqrtf(2.0f * (float)depth);
        if (tensor->shape.rank == 2)
            graph_set_initializer(graph, i, normal);
        else if (length >= 5 && strcmp(tensor->name + length - 5, ".bias") == 0)
            graph_set_initializer(graph, i, (struct initializer){.kind = INITIALIZER_ZEROS});
    }
}

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    int32_t table, residual = -1;
    int code = transformer_check(config, error);

    if (code)
        return code;
    x = embed(config, data, graph, x, &table);
    for (int block = 0; block < config->depth; block++)
        x = append_block(config, graph, x, &residual, layer_name("transformer.h.%d", block).text);
    x = transformer_norm(graph, x, &residual, "transformer.ln_f", norm_epsilon);
    *result = graph_linear_shared(graph, x, "lm_head", table, -1);
    initialize(graph, config->depth);
    return 0;
}

const struct model models_gpt = {
    .build = build,
    .python =
        {
            .imports = "from torch.nn import functional\n",
            .body =
                "?rotary{\n"
                "    def turn(x):\n"
                "        half = x.shape[-1] // 2\n"
                "        angles = torch.arange(x.shape[-2])[:, None] / 10000.0 ** "
                "(torch.arange(half) / half)\n"
                "        cosine, sine = angles.cos().to(x), angles.sin().to(x)\n"
                "        first, second = x.chunk(2, -1)\n"
                "        return torch.cat([first * cosine - second * sine, second * cosine + first "
                "* sine], -1)\n\n"
                "?}\n"
                "    class Attention(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            self.c_attn = nn.Linear($embedding, 3 * $embedding)\n"
                "            self.c_proj = nn.Linear($embedding, $embedding)\n\n"
                "        def forward(self, x):\n"
                "            query, key, value = self.c_attn(x).unflatten(2, (3, $heads, "
                "-1)).permute(2, 0, 3, 1, 4)\n"
                "?rotary|            query, key = turn(query), turn(key)\n"
                "            if hasattr(functional, \"scaled_dot_product_attention\"):\n"
                "                y = functional.scaled_dot_product_attention(query, key, value, "
                "is_causal=True)\n"
                "            else:  # PyTorch before 2.0\n"
                "                y = query @ key.transpose(2, 3) / key.shape[-1] ** 0.5\n"
                "                future = torch.ones(y.shape[-2:], dtype=torch.bool, "
                "device=y.device).triu(1)\n"
                "                y = y.masked_fill(future, -torch.inf).softmax(3) @ value\n"
                "            return self.c_proj(y.transpose(1, 2).flatten(2))\n\n"
                "    class Block(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            self.ln_1, self.attn = nn.LayerNorm($embedding), Attention()\n"
                "            self.ln_2, self.dropout = nn.LayerNorm($embedding), "
                "nn.Dropout($dropout)\n"
                "            self.mlp = nn.ModuleDict({\"c_fc\": nn.Linear($embedding, $features), "
                "\"c_proj\": "
                "nn.Linear($features, $embedding)})\n\n"
                "        def forward(self, x):\n"
                "            x = x + self.dropout(self.attn(self.ln_1(x)))\n"
                "            hidden = functional.gelu(self.mlp[\"c_fc\"](self.ln_2(x)))\n"
                "            return x + self.dropout(self.mlp[\"c_proj\"](hidden))\n\n"
                "    class GPT(nn.Module):\n"
                "        def __init__(self):\n"
                "            super().__init__()\n"
                "            parts = {\"wte\": nn.Embedding($vocabulary, $embedding), \"drop\": "
                "nn.Dropout($dropout)}\n"
                "?!rotary|            parts[\"wpe\"] = nn.Embedding($length, $embedding)\n"
                "            parts[\"h\"] = nn.ModuleList(Block() for _ in range($depth))\n"
                "            parts[\"ln_f\"] = nn.LayerNorm($embedding)\n"
                "            self.transformer = nn.ModuleDict(parts)\n\n"
                "        def forward(self, symbols):\n"
                "            part = self.transformer\n"
                "            x = part[\"wte\"](symbols)\n"
                "?!rotary|            x = x + part[\"wpe\"].weight[:symbols.shape[1]]\n"
                "            x = part[\"drop\"](x)\n"
                "            for block in part[\"h\"]:\n"
                "                x = block(x)\n"
                "            return functional.linear(part[\"ln_f\"](x), part[\"wte\"].weight)  # "
                "tied\n\n"
                "    return GPT()\n",
        },
};
