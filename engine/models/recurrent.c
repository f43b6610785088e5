/* recurrent.c: classifiers and predictors of sequences, and language models, by recurrent layers:
 * [embedding], LSTM or GRU layers with dropout between them, and a linear layer on what they give
 * at the last step, in the mean or, of a text, at each step. As modules of PyTorch: nn.Embedding
 * `embedding`, nn.LSTM `lstm` or nn.GRU `gru`, nn.Linear `head`. */
#include "engine/graph/forward.h"
#include "engine/models/builders.h"

#include <errno.h>

static const char *const model_readout_names[] = {
    [READOUT_LAST] = "last",
    [READOUT_MEAN] = "mean",
};
DEFINE_STRING_TABLE(model_readout, enum model_readout, model_readout_names)

enum { DIRECTIONS_MAX = 2 };
/* The layers as they are built. */
struct recurrent_network {
    const struct model_config *config;
    const char *name; /* of the module */
    enum recurrent_cell cell;
    int directions;
    int32_t lengths;                 /* tensor, -1: all sequences are as long as the batch */
    int32_t outputs[DIRECTIONS_MAX]; /* of the last layer built */
};

/* Both directions' features side by side. */
static int32_t join(struct graph *graph, const struct recurrent_network *network,
                    const int32_t *parts)
{
    return network->directions == 1
               ? parts[0]
               : graph_concatenate(graph, parts, DIRECTIONS_MAX, network->name);
}

static void append_layer(struct graph *graph, struct recurrent_network *network, int number,
                         int32_t x)
{
    for (int direction = 0; direction < network->directions; direction++) {
        const struct recurrent_layer layer = {.cell = network->cell,
                                              .hidden = network->config->hidden_size,
                                              .number = number,
                                              .reverse = direction == 1,
                                              .carries_state = network->config->carry_state};

        network->outputs[direction] =
            graph_recurrent(graph, x, network->lengths, network->name, &layer);
    }
}

/* The symbols of a text are predicted one after the other; sequences with a label are padded. */
static bool predicts_each(const struct model_data *data)
{
    return data->type == TENSOR_INT32 && !data->padded;
}

/* What the head reads. Each direction's last step is the last one that it has read. */
static int32_t append_readout(struct graph *graph, const struct recurrent_network *network,
                              const struct model_data *data)
{
    int32_t parts[DIRECTIONS_MAX];

    if (predicts_each(data))
        return network->outputs[0];
    if (network->config->readout == READOUT_MEAN)
        return graph_mean_over_time(graph, join(graph, network, network->outputs), network->lengths,
                                    network->name);
    for (int direction = 0; direction < network->directions; direction++)
        parts[direction] = graph_last_step(graph, network->outputs[direction], network->lengths,
                                           network->name, direction == 1);
    return join(graph, network, parts);
}

static int check(const struct model_config *config, const struct model_data *data,
                 const struct graph *graph, int32_t x, struct error *error)
{
    const char *name = model_kind_to_string(config->kind);
    char text[128];

    if (data->type == TENSOR_FLOAT32 && x >= 0 && graph->tensors[x].shape.rank != 3)
        return error_set(error, -EINVAL,
                         "the model %s reads sequences of steps and features, but a batch of "
                         "samples is %s; give their shape as [steps, features], [%lld, 1] for "
                         "numbers that follow each other",
                         name, graph_shape_format(&graph->tensors[x].shape, text, sizeof text),
                         (long long)data->sample_shape[0]);
    if (config->dropout > 0 && config->num_layers < 2)
        return error_set(error, -EINVAL,
                         "model.dropout of %s is between its layers, but num_layers is 1; leave "
                         "dropout out, or add a layer",
                         name);
    if (config->carry_state && !predicts_each(data))
        return error_set(error, -EINVAL,
                         "model.carry_state is true, but the samples are no windows of a text, of "
                         "which each goes on where one of the batch before ended; leave it out");
    if (predicts_each(data) && config->bidirectional)
        return error_set(error, -EINVAL,
                         "model.bidirectional is true, but a model of a text must not read the "
                         "symbols that it predicts");
    return 0;
}

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    struct recurrent_network network = {.config = config,
                                        .name = model_kind_to_string(config->kind),
                                        .cell = config->kind == MODEL_LSTM ? RECURRENT_LSTM
                                                                           : RECURRENT_GRU,
                                        .directions = config->bidirectional ? 2 : 1,
                                        .lengths = -1};
    int code = check(config, data, graph, x, error);

    if (code)
        return code;
    if (data->has_lengths)
        network.lengths = graph_lengths(graph);
    if (data->type == TENSOR_INT32) {
        if (data->padded)
            network.lengths =
                graph_sequence_lengths(graph, x, "lengths", (int32_t)data->vocabulary - 1);
        x = graph_embedding(graph, x, "embedding", data->vocabulary, config->embedding);
    }
    for (int i = 0; i < config->num_layers && !graph->error.code; i++) {
        if (i)
            x = graph_dropout(graph, join(graph, &network, network.outputs), network.name,
                              config->dropout);
        append_layer(graph, &network, i, x);
    }
    *result =
        graph_linear(graph, append_readout(graph, &network, data), "head", data->outputs, true);
    return 0;
}

/* `$padding` is -1 where no symbol fills up short sequences; `lengths` are those of sequences of
 * numbers. The state is that of the last steps that the directions of the last layer have read;
 * STATE is what the module returns beside its results. */
#define PYTHON(NAME, CLASS, STATE)                                                                                 \
    "    class Recurrent(nn.Module):\n"                                                                            \
    "        def __init__(self):\n"                                                                                \
    "            super().__init__()\n"                                                                             \
    "?vocabulary|            self.embedding = nn.Embedding($vocabulary, $embedding)\n"                             \
    "            self." NAME " = nn." CLASS                                                                        \
    "($features, $hidden_size, $num_layers, batch_first=True,\n"                                                   \
    "?!bidirectional|                dropout=$dropout)\n"                                                          \
    "?bidirectional|                dropout=$dropout, bidirectional=True)\n"                                       \
    "?!bidirectional|            self.head = nn.Linear($hidden_size, $outputs)\n"                                  \
    "?bidirectional|            self.head = nn.Linear(2 * $hidden_size, $outputs)\n"                               \
    "\n"                                                                                                           \
    "        def forward(self, x, lengths=None):\n"                                                                \
    "?!vocabulary|            x = x.reshape(len(x), -1, $features)\n"                                              \
    "?padding=-1|            lengths = torch.full((len(x),), x.shape[1]) if lengths is None else lengths.cpu()\n"  \
    "?!padding=-1|            place = torch.arange(1, x.shape[1] + 1, device=x.device)\n"                          \
    "?!padding=-1|            lengths = ((x != $padding) * place).amax(1).clamp(min=1).cpu()\n"                    \
    "?vocabulary|            x = self.embedding(x)\n"                                                              \
    "            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)\n" \
    "?each|            y, _ = self." NAME "(packed)\n"                                                             \
    "?each|            return self.head(nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0])\n"               \
    "?!each?mean|            y, _ = self." NAME "(packed)\n"                                                       \
    "?!each?mean|            y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)\n"                       \
    "?!each?mean|            return self.head(y.sum(1) / lengths.to(y)[:, None])\n"                                \
    "?!each?!mean|            _, " STATE " = self." NAME "(packed)\n"                                              \
    "?!each?!mean?!bidirectional|            return self.head(state[-1])\n"                                        \
    "?!each?!mean?bidirectional|            return self.head(torch.cat([state[-2], state[-1]], 1))\n"              \
    "\n"                                                                                                           \
    "    return Recurrent()\n"

const struct model models_lstm = {
    .build = build,
    .reads_steps = true,
    .python = {.imports = "", .body = PYTHON("lstm", "LSTM", "(state, _)")}};
const struct model models_gru = {.build = build,
                                 .reads_steps = true,
                                 .python = {.imports = "", .body = PYTHON("gru", "GRU", "state")}};
