/* caduceus.c: Caduceus (Schiff et al. 2024, "Caduceus: Bi-directional equivariant long-range DNA
 * sequence modeling", arXiv:2403.03234): blocks of Mamba (Gu and Dao 2023, arXiv:2312.00752) that
 * read a sequence in both directions.
 *
 * Both directions share the projections into and out of a block. A projection treats each step
 * alone, so one does for both: in front of them and behind their sum.
 *
 * With `reverse_complement` the model gives both strands of DNA the same classes. In the paper one
 * half of the channels belongs to each strand. Every layer turns the second half around in time and
 * channels, applies the weights and turns it back (RCPS). So each strand passes through the same
 * network as it is read. Here the strands stand one behind another in time: nothing is turned. */
#include "engine/graph/forward.h"
#include "engine/models/convnet.h"

#include <errno.h>
#include <math.h>

enum { DT_WIDTHS_EACH = 16 }; /* channels of the model for each of the step's inner channels */

struct caduceus {
    const struct model_config *config;
    struct graph *graph;
    int strands;
    int64_t width, inner, rank;
};

/* One direction of a block: y[B,T,inner] of x and the gate z. */
static int32_t append_direction(const struct caduceus *c, int32_t x, int32_t z, const char *block,
                                bool reverse)
{
    const struct layer_name name =
        layer_name("%s.mixer.%s", block, reverse ? "mamba_rev" : "mamba_fwd");
    const struct causal_conv conv = {
        .kernel = c->config->kernel, .sequences = c->strands, .reverse = reverse, .silu = true};
    const int64_t states = c->config->states, widths[] = {c->rank, states, states};
    struct scan_inputs scan = {.z = z, .sequences = c->strands, .reverse = reverse};
    struct graph *graph = c->graph;
    int32_t parts[3], bias;

    scan.u = graph_causal_conv1d(graph, x, layer_name("%s.conv1d", name.text).text, &conv);
    x = graph_linear(graph, scan.u, layer_name("%s.x_proj", name.text).text, c->rank + 2 * states,
                     false);
    graph_split(graph, x, widths, 3, parts, layer_name("%s.split", name.text).text);
    scan.b = parts[1];
    scan.c = parts[2];
    scan.delta =
        graph_linear(graph, parts[0], layer_name("%s.dt_proj", name.text).text, c->inner, true);
    bias = graph_find_tensor(graph, layer_name("%s.dt_proj.bias", name.text).text);
    graph_set_initializer(graph, bias, (struct initializer){.kind = INITIALIZER_STEP_LOGITS});
    return graph_selective_scan(graph, &scan, name.text);
}

/* The block's mixer behind its norm. The weights that end it begin smaller by the root of the
 * number of blocks, as in GPT-2. */
static int32_t append_mixer(const struct caduceus *c, int32_t x, const char *block)
{
    const float bound = 1.0f / sqrtf((float)c->inner * (float)c->config->depth);
    const int64_t halves[] = {c->inner, c->inner};
    struct graph *graph = c->graph;
    int32_t parts[2], forward, reverse;

    x = graph_linear(graph, x, layer_name("%s.mixer.mamba_fwd.in_proj", block).text, 2 * c->inner,
                     false);
    graph_split(graph, x, halves, 2, parts, layer_name("%s.mixer.split", block).text);
    forward = append_direction(c, parts[0], parts[1], block, false);
    reverse = append_direction(c, parts[0], parts[1], block, true);
    x = graph_add(graph, forward, reverse, layer_name("%s.mixer.add", block).text);
    x = graph_linear(graph, x, layer_name("%s.mixer.mamba_fwd.out_proj", block).text, c->width,
                     false);
    graph_set_initializer(
        graph,
        graph_find_tensor(graph, layer_name("%s.mixer.mamba_fwd.out_proj.weight", block).text),
        (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = bound});
    return x;
}

/* Adds x to what the blocks passed on (-1: nothing yet) and normalises the sum. */
static int32_t append_add_norm(const struct caduceus *c, int32_t x, int32_t *residual,
                               const char *name)
{
    const float epsilon = c->config->epsilon;
    const bool rms = c->config->norm == MODEL_RMS_NORM;
    const bool fused = c->config->add_norm != MODEL_ADD_NORM_UNFUSED;
    struct graph *graph = c->graph;

    if (*residual >= 0 && fused)
        return rms ? graph_add_rms_norm(graph, x, *residual, name, epsilon, residual)
                   : graph_add_layer_norm(graph, x, *residual, name, epsilon, true, residual);
    if (*residual >= 0)
        x = graph_add(graph, x, *residual, layer_name("%s.add", name).text);
    *residual = x;
    return rms ? graph_rms_norm(graph, x, name, epsilon)
               : graph_layer_norm(graph, x, name, epsilon, true);
}

static int check(const struct model_config *config, const struct model_data *data,
                 struct error *error)
{
    if (!data->vocabulary)
        return error_set(error, -EINVAL,
                         "caduceus reads sequences of symbols, but the samples are numbers");
    if (config->reverse_complement && !data->nucleotides)
        return error_set(error, -EINVAL,
                         "model.reverse_complement pairs nucleotides, but the data has other "
                         "symbols: set data.train.tokens to nucleotides, or "
                         "model.reverse_complement to false");
    if (config->reverse_complement && config->pooling == POOLING_FLATTEN)
        return error_set(error, -EINVAL,
                         "model.pooling flatten tells places on a strand apart, and "
                         "model.reverse_complement reads both strands alike: set "
                         "model.reverse_complement to false, or model.pooling to mean or max");
    return 0;
}

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    /* A C G T N, and the padding */
    static const uint8_t complement[] = {3, 2, 1, 0, 4, 5};
    const struct caduceus c = {.config = config,
                               .graph = graph,
                               .strands = config->reverse_complement ? 2 : 1,
                               .width = config->embedding,
                               .inner = config->embedding * config->expand,
                               .rank = (config->embedding + DT_WIDTHS_EACH - 1) / DT_WIDTHS_EACH};
    int32_t residual = -1;
    int code = check(config, data, error);

    if (code)
        return code;
    if (config->reverse_complement)
        x = graph_both_strands(graph, x, complement, sizeof complement, "strands");
    x = graph_embedding(graph, x, "embedding", data->vocabulary, c.width);
    graph_set_initializer(graph, graph_find_tensor(graph, "embedding.weight"),
                          (struct initializer){.kind = INITIALIZER_NORMAL, .bound = 0.02f});
    for (int i = 0; i < config->depth; i++) {
        const struct layer_name block = layer_name("layers.%d", i);

        x = append_add_norm(&c, x, &residual, layer_name("%s.norm", block.text).text);
        x = append_mixer(&c, x, block.text);
        x = graph_dropout(graph, x, layer_name("%s.dropout", block.text).text, config->dropout);
    }
    x = append_add_norm(&c, x, &residual, "norm_f");
    x = pool_steps(graph, x, -1, config->pooling);
    x = graph_dropout(graph, x, "head_dropout", config->head_dropout);
    *result = graph_linear(graph, x, "score", data->outputs, false);
    return 0;
}

/* In PyTorch the strands are samples of one batch. */
const struct model models_caduceus = {
    .build = build,
    .python =
        {
            .imports = "from torch.nn import functional as F\n"
                       "?norm=rms_norm{\n"
                       "\n" PYTHON_RMS_NORM "?}\n",
            .body =
                "    class Direction(nn.Module):\n"
                "        \"\"\"What a direction of a block has for itself; the forward one has the "
                "projections, too.\"\"\"\n\n"
                "        def __init__(self, width, inner, projects):\n"
                "            super().__init__()\n"
                "            self.rank, self.states = -(-width // 16), $states\n"
                "            if projects:\n"
                "                self.in_proj = nn.Linear(width, 2 * inner, bias=False)\n"
                "                self.out_proj = nn.Linear(inner, width, bias=False)\n"
                "            self.conv1d = nn.Conv1d(inner, inner, $kernel, groups=inner, "
                "padding=$kernel - 1)\n"
                "            self.x_proj = nn.Linear(inner, self.rank + 2 * self.states, "
                "bias=False)\n"
                "            self.dt_proj = nn.Linear(self.rank, inner)\n"
                "            self.A_log = nn.Parameter(torch.zeros(inner, self.states))\n"
                "            self.D = nn.Parameter(torch.ones(inner))\n\n"
                "        def forward(self, x, z):\n"
                "            length = x.shape[1]\n"
                "            u = F.silu(self.conv1d(x.transpose(1, 2))[..., :length]).transpose(1, "
                "2)\n"
                "            dt, b, c = self.x_proj(u).split([self.rank, self.states, "
                "self.states], 2)\n"
                "            step = F.softplus(self.dt_proj(dt)).unsqueeze(3)\n"
                "            decay, h, y = -self.A_log.exp(), 0, []\n"
                "            for t in range(length):\n"
                "                inputs = step[:, t] * u[:, t].unsqueeze(2) * b[:, "
                "t].unsqueeze(1)\n"
                "                h = (step[:, t] * decay).exp() * h + inputs\n"
                "                y.append((h * c[:, t].unsqueeze(1)).sum(2))\n"
                "            return (torch.stack(y, 1) + self.D * u) * F.silu(z)\n\n"
                "    class Mixer(nn.Module):\n"
                "        def __init__(self, width, inner):\n"
                "            super().__init__()\n"
                "            self.mamba_fwd = Direction(width, inner, True)\n"
                "            self.mamba_rev = Direction(width, inner, False)\n\n"
                "        def forward(self, x):\n"
                "            x, z = self.mamba_fwd.in_proj(x).chunk(2, 2)\n"
                "            y = self.mamba_fwd(x, z) + self.mamba_rev(x.flip(1), "
                "z.flip(1)).flip(1)\n"
                "            return self.mamba_fwd.out_proj(y)\n\n"
                "    class Block(nn.Module):\n"
                "        def __init__(self, width):\n"
                "            super().__init__()\n"
                "            self.norm = norm(width)\n"
                "            self.mixer = Mixer(width, $expand * width)\n"
                "            self.dropout = nn.Dropout($dropout)\n\n"
                "        def forward(self, x):\n"
                "            return x + self.dropout(self.mixer(self.norm(x)))\n\n"
                "    class Caduceus(nn.Module):\n"
                "        def __init__(self, width):\n"
                "            super().__init__()\n"
                "            self.embedding = nn.Embedding($vocabulary, width)\n"
                "            self.layers = nn.ModuleList(Block(width) for _ in range($depth))\n"
                "            self.norm_f = norm(width)\n"
                "            self.head_dropout = nn.Dropout($head_dropout)\n"
                "?pooling=flatten|            self.score = nn.Linear(INPUT[0] * width, $outputs, "
                "bias=False)\n"
                "?!pooling=flatten|            self.score = nn.Linear(width, $outputs, bias=False)\n"
                "\n"
                "        def strand(self, symbols):\n"
                "            x = self.embedding(symbols)\n"
                "            for layer in self.layers:\n"
                "                x = layer(x)\n"
                "            return self.norm_f(x)\n\n"
                "        def forward(self, symbols):\n"
                "            x = self.strand(symbols)\n"
                "?reverse_complement{\n"
                "            pairs = torch.tensor([3, 2, 1, 0, 4, 5], device=symbols.device)\n"
                "            x = torch.cat([x, self.strand(pairs[symbols].flip(1))], 1)\n"
                "?}\n"
                "?pooling=flatten|            x = x.flatten(1)\n"
                "?pooling=mean|            x = x.mean(1)\n"
                "?pooling=max|            x = x.amax(1)\n"
                "            return self.score(self.head_dropout(x))\n\n"
                "    def norm(width):\n"
                "?norm=layer_norm|        return nn.LayerNorm(width, eps=$epsilon)\n"
                "?norm=rms_norm|        return RMSNorm(width, eps=$epsilon)\n"
                "\n"
                "    return Caduceus($embedding)\n",
        },
};
