/* sequences.c: cases of sequences: what is made of all steps, the causal convolution, the selective
 * scan, LSTM and GRU, and the losses of several heads. */
#include "engine/graph/forward.h"
#include "tests/cuda/cases.h"

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define SEQUENCES(rows, steps, features) .batch = rows, .sample = {steps, features}, .rank = 2

enum { CLASSES = 7 };

/* ---- over time ------------------------------------------------------------------------------- */

static int32_t lengths_of(struct graph *graph, bool ragged)
{
    return ragged ? graph_lengths(graph) : -1;
}

static int32_t pooled(struct graph *graph, int32_t x, enum graph_op op, bool ragged, bool reverse)
{
    int32_t lengths = lengths_of(graph, ragged);

    x = graph_linear(graph, x, "0", 20, true);
    x = op == OP_LAST_STEP        ? graph_last_step(graph, x, lengths, "1", reverse)
        : op == OP_MEAN_OVER_TIME ? graph_mean_over_time(graph, x, lengths, "1")
                                  : graph_max_over_time(graph, x, lengths, "1");
    return graph_linear(graph, x, "2", CLASSES, true);
}

#define POOLED(name, op, ragged, reverse)                  \
    static int32_t name(struct graph *graph, int32_t x)    \
    {                                                      \
        return pooled(graph, x, OP_##op, ragged, reverse); \
    }
POOLED(build_last_step, LAST_STEP, false, false)
POOLED(build_last_step_ragged, LAST_STEP, true, false)
POOLED(build_last_step_reverse, LAST_STEP, true, true)
POOLED(build_mean, MEAN_OVER_TIME, false, false)
POOLED(build_mean_ragged, MEAN_OVER_TIME, true, false)
POOLED(build_maximum, MAX_OVER_TIME, false, false)
POOLED(build_maximum_ragged, MAX_OVER_TIME, true, false)

static int32_t build_columns(struct graph *graph, int32_t x)
{
    static const int64_t widths[] = {5, 8, 11};
    int32_t part[3];

    x = graph_linear(graph, x, "0", 24, true);
    graph_split(graph, x, widths, 3, part, "1");
    part[1] = graph_activation(graph, part[1], "2", ACTIVATION_TANH);
    x = graph_concatenate(graph, (int32_t[]){part[2], part[0], part[1]}, 3, "3");
    x = graph_activation(graph, x, "4", ACTIVATION_SIGMOID);
    x = graph_mean_over_time(graph, x, -1, "5");
    return graph_linear(graph, x, "6", CLASSES, true);
}

static int32_t build_strands(struct graph *graph, int32_t x)
{
    static const uint8_t complement[] = {3, 2, 1, 0, 4, 5, 6};

    x = graph_both_strands(graph, x, complement, sizeof complement, "0");
    x = graph_embedding(graph, x, "1", CASE_VOCABULARY, 24);
    x = graph_last_step(graph, x, -1, "2", false);
    return graph_linear(graph, x, "3", CLASSES, true);
}

/* The symbol 3 stands for padding. */
static int32_t build_padded(struct graph *graph, int32_t x)
{
    int32_t lengths = graph_sequence_lengths(graph, x, "0", 3);

    x = graph_embedding(graph, x, "1", CASE_VOCABULARY, 24);
    x = graph_last_step(graph, x, lengths, "2", false);
    return graph_linear(graph, x, "3", CLASSES, true);
}

/* As behind a convolution with padding and a stride of 2: what is made of x behind the end of a
 * sequence, where the bias alone is left, is 0, and then half of the steps count. */
static int32_t build_masked(struct graph *graph, int32_t x)
{
    const struct window_lengths windows = {.more = -1, .stride = 2};
    int32_t lengths = graph_lengths(graph);

    x = graph_mask_steps(graph, graph_linear(graph, x, "0", 21, true), lengths, "1");
    x = graph_activation(graph, graph_linear(graph, x, "2", 13, true), "3", ACTIVATION_TANH);
    lengths = graph_window_lengths(graph, lengths, "4", &windows);
    x = graph_mean_over_time(graph, graph_mask_steps(graph, x, lengths, "5"), -1, "6");
    return graph_linear(graph, x, "7", CLASSES, true);
}

static int32_t build_window_maximum(struct graph *graph, int32_t x)
{
    const struct window_lengths windows = {.more = 1, .stride = 3};
    int32_t lengths = graph_window_lengths(graph, graph_lengths(graph), "0", &windows);

    x = graph_max_over_time(graph, graph_linear(graph, x, "1", 33, true), lengths, "2");
    return graph_linear(graph, x, "3", CLASSES, true);
}

/* ---- causal convolution ---------------------------------------------------------------------- */

static int32_t convolved(struct graph *graph, int32_t x, int width, const struct causal_conv *conv)
{
    x = graph_linear(graph, x, "0", width, true);
    x = graph_causal_conv1d(graph, x, "1", conv);
    x = graph_mean_over_time(graph, graph_activation(graph, x, "2", ACTIVATION_TANH), -1, "3");
    return graph_linear(graph, x, "4", CLASSES, true);
}

#define CONVOLVED(name, width, ...)                                                  \
    static int32_t name(struct graph *graph, int32_t x)                              \
    {                                                                                \
        return convolved(graph, x, width, &(const struct causal_conv){__VA_ARGS__}); \
    }
CONVOLVED(build_conv_4, 70, .kernel = 4, .sequences = 1, .silu = true)
CONVOLVED(build_conv_4_reverse, 12, .kernel = 4, .sequences = 2, .silu = true, .reverse = true)
CONVOLVED(build_conv_3, 5, .kernel = 3, .sequences = 1)
CONVOLVED(build_conv_1, 5, .kernel = 1, .sequences = 3)
CONVOLVED(build_conv_16, 9, .kernel = 16, .sequences = 2, .reverse = true)

/* ---- selective scan -------------------------------------------------------------------------- */

static int32_t scanned(struct graph *graph, int32_t x, int channels, int states, bool gate,
                       int sequences, bool reverse)
{
    struct scan_inputs scan = {.z = -1, .sequences = sequences, .reverse = reverse};

    scan.u = graph_linear(graph, x, "u", channels, true);
    scan.delta = graph_linear(graph, x, "delta", channels, true);
    scan.b = graph_linear(graph, x, "b", states, true);
    scan.c = graph_linear(graph, x, "c", states, true);
    if (gate)
        scan.z = graph_linear(graph, x, "z", channels, true);
    x = graph_mean_over_time(graph, graph_selective_scan(graph, &scan, "scan"), -1, "mean");
    return graph_linear(graph, x, "last", CLASSES, true);
}

#define SCANNED(name, channels, states, gate, sequences, reverse)             \
    static int32_t name(struct graph *graph, int32_t x)                       \
    {                                                                         \
        return scanned(graph, x, channels, states, gate, sequences, reverse); \
    }
SCANNED(build_scan, 40, 16, true, 1, false)
SCANNED(build_scan_plain, 5, 3, false, 1, false)
SCANNED(build_scan_reverse, 33, 20, true, 2, true)
SCANNED(build_scan_wide, 128, 16, true, 2, false)

/* ---- recurrent layers ------------------------------------------------------------------------ */

static int32_t recurrent(struct graph *graph, int32_t x, enum recurrent_cell cell, int hidden,
                         bool ragged, bool reverse)
{
    const struct recurrent_layer layer = {.cell = cell, .hidden = hidden, .reverse = reverse};
    int32_t lengths = lengths_of(graph, ragged);

    x = graph_recurrent(graph, x, lengths, "0", &layer);
    x = graph_last_step(graph, x, lengths, "1", reverse);
    return graph_linear(graph, x, "2", CLASSES, true);
}

#define RECURRENT(name, cell, hidden, ragged, reverse)                         \
    static int32_t name(struct graph *graph, int32_t x)                        \
    {                                                                          \
        return recurrent(graph, x, RECURRENT_##cell, hidden, ragged, reverse); \
    }
RECURRENT(build_lstm_12, LSTM, 12, false, false)
RECURRENT(build_lstm_64, LSTM, 64, true, false)
RECURRENT(build_lstm_reverse, LSTM, 21, true, true)
RECURRENT(build_lstm_256, LSTM, 256, false, false)
RECURRENT(build_lstm_1900, LSTM, 1900, true, true)
RECURRENT(build_gru_12, GRU, 12, false, false)
RECURRENT(build_gru_64, GRU, 64, true, false)
RECURRENT(build_gru_reverse, GRU, 21, true, true)
RECURRENT(build_gru_256, GRU, 256, false, true)
RECURRENT(build_gru_1900, GRU, 1900, true, false)

/* Two layers in both directions, the mean over time. */
static int32_t build_both_directions(struct graph *graph, int32_t x)
{
    struct recurrent_layer layer = {.cell = RECURRENT_LSTM, .hidden = 10};
    int32_t lengths = graph_lengths(graph), y[2];

    for (; layer.number < 2; layer.number++) {
        for (int i = 0; i < 2; i++) {
            layer.reverse = i == 1;
            y[i] = graph_recurrent(graph, x, lengths, "0", &layer);
        }
        x = graph_concatenate(graph, y, 2, layer.number ? "2" : "1");
    }
    return graph_linear(graph, graph_mean_over_time(graph, x, lengths, "3"), "4", CLASSES, true);
}

/* Two layers that begin with the state that the batch before left, which is drawn at the start.
 * The states have rows for a larger batch. */
static int32_t carried(struct graph *graph, int32_t x, enum recurrent_cell cell, int hidden,
                       bool reverse)
{
    struct recurrent_layer layer = {
        .cell = cell, .hidden = hidden, .reverse = reverse, .carries_state = true};

    graph->streams += 3;
    x = graph_recurrent(graph, x, -1, "0", &layer);
    layer.number = 1;
    layer.reverse = false;
    x = graph_recurrent(graph, x, -1, "0", &layer);
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_STATE)
            graph->tensors[i].initializer =
                (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = 1};
    return graph_linear(graph, graph_mean_over_time(graph, x, -1, "1"), "2", CLASSES, true);
}

#define CARRIED(name, cell, hidden, reverse)                         \
    static int32_t name(struct graph *graph, int32_t x)              \
    {                                                                \
        return carried(graph, x, RECURRENT_##cell, hidden, reverse); \
    }
CARRIED(build_lstm_carried, LSTM, 33, false)
CARRIED(build_lstm_carried_reverse, LSTM, 12, true)
CARRIED(build_lstm_carried_1900, LSTM, 1900, false)
CARRIED(build_gru_carried, GRU, 33, false)
CARRIED(build_gru_carried_reverse, GRU, 12, true)
CARRIED(build_gru_carried_1900, GRU, 1900, false)
RECURRENT(build_lstm_1, LSTM, 1, true, false)
RECURRENT(build_lstm_257, LSTM, 257, true, true)
RECURRENT(build_gru_1, GRU, 1, false, true)
RECURRENT(build_gru_257, GRU, 257, true, false)

static int32_t build_heads(struct graph *graph, int32_t x)
{
    x = graph_activation(graph, graph_linear(graph, x, "0", 20, true), "1", ACTIVATION_TANH);
    return graph_linear(graph, x, "2", 9, true); /* CASE_HEADS */
}

static const struct test_case cases[] = {
    /* more samples than a device has workgroups along an axis, or many for each of its tiles */
    {.name = "maximum over time, 33,000 samples",
     SEQUENCES(33000, 3, 2),
     .build = build_maximum_ragged,
     .types = FLOAT32_ALONE,
     SGD,
     .seed = 3},
    {.name = "lengths of 33,000 sequences",
     .batch = 33000,
     .sample = {4},
     .rank = 1,
     .indices = true,
     .build = build_padded,
     .evaluation = true}, /* the gradient of the bias nearly vanishes: it would be rounding */
    {.name = "LSTM of 64 units, 2,100 sequences",
     SEQUENCES(2100, 2, 3),
     .build = build_lstm_64,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "GRU of 64 units, 4,200 sequences",
     SEQUENCES(4200, 2, 3),
     .build = build_gru_64,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "steps behind the end are 0", SEQUENCES(9, 9, 13), .build = build_masked, SGD},
    {.name = "steps behind the end, of one", SEQUENCES(1, 1, 13), .build = build_masked, SGD},
    {.name = "steps behind the end, evaluation",
     SEQUENCES(9, 9, 13),
     .build = build_masked,
     .evaluation = true},
    {.name = "maximum over windows",
     SEQUENCES(7, 20, 5),
     .build = build_window_maximum,
     SGD,
     .seed = 3},
    {.name = "losses of two heads",
     .batch = 30,
     .sample = {11},
     .rank = 1,
     .build = build_heads,
     .loss = CASE_HEADS,
     .steps = 2,
     SGD},
    {.name = "losses of two heads, accumulated",
     .batch = 1,
     .sample = {11},
     .rank = 1,
     .build = build_heads,
     .loss = CASE_HEADS,
     .accumulate = true,
     SGD},
    {.name = "losses of two heads, evaluation",
     .batch = 30,
     .sample = {11},
     .rank = 1,
     .build = build_heads,
     .loss = CASE_HEADS,
     .evaluation = true},
    {.name = "LSTM, carried state",
     SEQUENCES(40, 7, 5),
     .build = build_lstm_carried,
     .steps = 3,
     SGD},
    {.name = "LSTM, carried state, reverse",
     SEQUENCES(18, 5, 5),
     .build = build_lstm_carried_reverse,
     .steps = 2,
     SGD},
    {.name = "LSTM, carried state, one step",
     SEQUENCES(1, 1, 5),
     .build = build_lstm_carried,
     .steps = 3,
     SGD},
    {.name = "LSTM, carried state, evaluation",
     SEQUENCES(18, 4, 5),
     .build = build_lstm_carried,
     .steps = 2,
     .evaluation = true},
    {.name = "LSTM, carried state, recomputed",
     SEQUENCES(6, 5, 5),
     .build = build_lstm_carried,
     .steps = 2,
     .recompute = RECOMPUTE_SELECTIVE,
     SGD},
    {.name = "LSTM of 1900 units, carried state",
     SEQUENCES(3, 3, 5),
     .build = build_lstm_carried_1900,
     .types = FLOAT32_ALONE,
     .steps = 2,
     SGD},
    {.name = "GRU, carried state",
     SEQUENCES(40, 7, 5),
     .build = build_gru_carried,
     .steps = 2,
     SGD},
    {.name = "GRU, carried state, reverse",
     SEQUENCES(18, 5, 5),
     .build = build_gru_carried_reverse,
     .steps = 2,
     SGD},
    {.name = "GRU, carried state, evaluation",
     SEQUENCES(18, 4, 5),
     .build = build_gru_carried,
     .steps = 2,
     .evaluation = true},
    {.name = "GRU of 1900 units, carried state",
     SEQUENCES(3, 3, 5),
     .build = build_gru_carried_1900,
     .types = FLOAT32_ALONE,
     .steps = 2,
     SGD},
    {.name = "LSTM of 1 unit", SEQUENCES(5, 6, 3), .build = build_lstm_1, SGD},
    {.name = "LSTM of 257 units", SEQUENCES(17, 3, 7), .build = build_lstm_257, SGD},
    {.name = "GRU of 1 unit", SEQUENCES(40, 6, 3), .build = build_gru_1, SGD},
    {.name = "GRU of 257 units", SEQUENCES(17, 3, 7), .build = build_gru_257, SGD},
    {.name = "GRU, one sequence", SEQUENCES(1, 9, 5), .build = build_gru_12, SGD},
    {.name = "last step of one", SEQUENCES(1, 1, 1), .build = build_last_step, SGD},
    {.name = "causal conv of 4, one step", SEQUENCES(1, 2, 3), .build = build_conv_4_reverse, SGD},
    {.name = "selective scan, one step", SEQUENCES(1, 1, 3), .build = build_scan, SGD},
    {.name = "selective scan, 33 steps", SEQUENCES(5, 66, 3), .build = build_scan_reverse, SGD},
    {.name = "last step", SEQUENCES(5, 9, 13), .build = build_last_step, SGD},
    {.name = "last step, lengths", SEQUENCES(6, 9, 13), .build = build_last_step_ragged, SGD},
    {.name = "last step, reverse", SEQUENCES(6, 9, 13), .build = build_last_step_reverse, SGD},
    {.name = "mean over time", SEQUENCES(5, 40, 13), .build = build_mean, SGD},
    {.name = "mean over time, lengths", SEQUENCES(6, 9, 13), .build = build_mean_ragged, SGD},
    {.name = "maximum over time", SEQUENCES(5, 40, 13), .build = build_maximum, SGD, .seed = 3},
    {.name = "maximum over time, lengths",
     SEQUENCES(6, 9, 13),
     .build = build_maximum_ragged,
     SGD,
     .seed = 3},
    {.name = "split and concatenate", SEQUENCES(5, 9, 13), .build = build_columns, SGD},
    {.name = "both strands",
     .batch = 6,
     .sample = {11},
     .rank = 1,
     .indices = true,
     .build = build_strands,
     SGD},
    {.name = "lengths of padded sequences",
     .batch = 40,
     .sample = {4},
     .rank = 1,
     .indices = true,
     .build = build_padded,
     SGD},
    {.name = "causal conv of 4, 150 steps", SEQUENCES(4, 150, 8), .build = build_conv_4, SGD},
    {.name = "causal conv of 4, reverse", SEQUENCES(4, 26, 8), .build = build_conv_4_reverse, SGD},
    {.name = "causal conv of 3, 2 steps", SEQUENCES(4, 2, 8), .build = build_conv_3, SGD},
    {.name = "causal conv of 1", SEQUENCES(4, 9, 8), .build = build_conv_1, SGD},
    {.name = "causal conv of 16", SEQUENCES(4, 160, 8), .build = build_conv_16, SGD},
    {.name = "causal conv, accumulated",
     SEQUENCES(4, 26, 8),
     .build = build_conv_4_reverse,
     SGD,
     .accumulate = true},
    {.name = "selective scan, 100 steps", SEQUENCES(3, 100, 8), .build = build_scan, SGD},
    {.name = "selective scan, 5 steps", SEQUENCES(3, 5, 8), .build = build_scan_plain, SGD},
    {.name = "selective scan, reverse", SEQUENCES(3, 64, 8), .build = build_scan_reverse, SGD},
    {.name = "selective scan, 128 channels", SEQUENCES(4, 400, 8), .build = build_scan_wide, SGD},
    {.name = "selective scan, evaluation",
     SEQUENCES(3, 100, 8),
     .build = build_scan,
     .evaluation = true},
    {.name = "selective scan, accumulated",
     SEQUENCES(3, 40, 8),
     .build = build_scan,
     SGD,
     .accumulate = true},
    {.name = "LSTM of 12 units", SEQUENCES(6, 7, 5), .build = build_lstm_12, SGD, .steps = 2},
    {.name = "LSTM of 64 units, lengths", SEQUENCES(40, 20, 9), .build = build_lstm_64, SGD},
    {.name = "LSTM of 64 units, 900 sequences", SEQUENCES(900, 4, 3), .build = build_lstm_64, SGD},
    {.name = "LSTM of 21 units, reverse", SEQUENCES(18, 9, 5), .build = build_lstm_reverse, SGD},
    {.name = "LSTM of 256 units", SEQUENCES(33, 30, 16), .build = build_lstm_256, SGD},
    {.name = "LSTM of 1900 units",
     SEQUENCES(3, 3, 5),
     .build = build_lstm_1900,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "LSTM, one step", SEQUENCES(6, 1, 5), .build = build_lstm_12, SGD},
    {.name = "LSTM, evaluation", SEQUENCES(6, 7, 5), .build = build_lstm_12, .evaluation = true},
    {.name = "LSTM, both directions", SEQUENCES(6, 9, 5), .build = build_both_directions, SGD},
    {.name = "LSTM, accumulated",
     SEQUENCES(6, 7, 5),
     .build = build_lstm_12,
     SGD,
     .accumulate = true},
    {.name = "GRU of 12 units", SEQUENCES(50, 7, 5), .build = build_gru_12, SGD, .steps = 2},
    {.name = "GRU of 64 units, lengths", SEQUENCES(40, 20, 9), .build = build_gru_64, SGD},
    {.name = "GRU of 21 units, reverse", SEQUENCES(18, 9, 5), .build = build_gru_reverse, SGD},
    {.name = "GRU of 256 units", SEQUENCES(33, 30, 16), .build = build_gru_256, SGD},
    {.name = "GRU of 1900 units",
     SEQUENCES(3, 3, 5),
     .build = build_gru_1900,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "GRU, evaluation", SEQUENCES(6, 7, 5), .build = build_gru_12, .evaluation = true},
};

const struct case_table sequence_cases = {cases, sizeof cases / sizeof *cases};
