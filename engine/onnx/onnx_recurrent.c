/* onnx_recurrent.c: LSTM, GRU and RNN nodes, in one direction or both, which begin with a state of
 * 0. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* The gates of ONNX in the order of PyTorch: i o f c -> i f c o, and z r h -> r z h. */
enum { LSTM_GATES = 4, GRU_GATES = 3 };
enum { HIDDEN_MAX = INT32_MAX / 16 }; /* the rows of all gates can be counted */
static const int lstm_gates[LSTM_GATES] = {0, 2, 3, 1}, gru_gates[LSTM_GATES] = {1, 0, 2};

/* Binds the parameter that has these rows of each gate: `first` and the following of `value`, whose
 * first axis are the directions. */
static int bind_gates(struct onnx_import *import, const struct onnx_value *value, int direction,
                      int64_t first, int64_t hidden, bool lstm, const char *suffix)
{
    const int *gates = lstm ? lstm_gates : gru_gates;
    struct onnx_weights weights = {.count = lstm ? LSTM_GATES : GRU_GATES};
    struct graph_shape shape = {.rank = value->rank - 1, .extent = {hidden * weights.count}};

    if (value->rank == 3)
        shape.extent[1] = value->extent[2];
    for (int i = 0; i < weights.count; i++) {
        weights.part[i] = *value;
        if (onnx_constant_slice(import, &weights.part[i], 0, direction, 1, 1) ||
            onnx_constant_slice(import, &weights.part[i], 1, first + gates[i] * hidden, hidden, 1))
            return import->error.code;
    }
    graph_bind_parameter(import->graph, suffix,
                         onnx_weights_tensor(import, &weights, &shape, false));
    return import->error.code;
}

/* Whether an initial state is left out, or 0 everywhere. */
static bool is_zero(const struct onnx_value *value)
{
    return value->kind == ONNX_ABSENT || onnx_is_zero(value);
}

/* Whether the hidden width of the weights is that of the node and of its initial states. It is not
 * in what torch.onnx makes of nn.LSTM with proj_size: the projections are missing there. */
static bool has_width(struct onnx_import *import, int64_t hidden)
{
    int64_t wanted = onnx_attribute_int(import, "hidden_size", hidden);

    for (int i = 5; i <= 6 && wanted == hidden; i++)
        if (onnx_input(import, i)->kind == ONNX_CONSTANT && onnx_input(import, i)->rank == 3)
            wanted = onnx_input(import, i)->extent[2];
    if (wanted == hidden)
        return true;
    onnx_fail(import, "its weights have a state of %lld numbers, not %lld%s", (long long)hidden,
              (long long)wanted,
              wanted > hidden ? "; if it is nn.LSTM with proj_size, that cannot be exported" : "");
    return false;
}

/* Whether the weights have as many directions as the node says. */
static bool has_directions(struct onnx_import *import)
{
    char text[16];
    const char *direction = onnx_attribute_text(import, "direction", "forward", text, sizeof text);
    int64_t wanted = strcmp(direction, "bidirectional") == 0 ? 2 : 1;

    if (onnx_input(import, 1)->extent[0] == wanted)
        return true;
    onnx_fail(import, "its weights have %lld directions, not %lld",
              (long long)onnx_input(import, 1)->extent[0], (long long)wanted);
    return false;
}

/* Whether the functions that the node names, if it does, are these in each direction. */
static bool has_activations(const struct onnx_import *import, const char *const *names,
                            size_t count)
{
    const Onnx__Attribute *given = onnx_attribute(import->node, "activations");

    for (size_t i = 0; given && i < given->n_strings; i++) {
        const ProtobufCBinaryData *name = &given->strings[i];
        const char *wanted = names[i % count];

        if (name->len != strlen(wanted) ||
            strncasecmp((const char *)name->data, wanted, name->len) != 0)
            return false;
    }
    return true;
}

/* A bias may be left out. */
static bool bias_is_known(const struct onnx_value *bias)
{
    return bias->kind == ONNX_ABSENT || (bias->kind == ONNX_CONSTANT && bias->rank == 2);
}

/* Whether it has `rows` numbers for the input and as many for the state. */
static bool bias_fits(const struct onnx_value *bias, int64_t directions, int64_t rows)
{
    return bias->kind == ONNX_ABSENT ||
           (bias->extent[0] == directions && bias->extent[1] == 2 * rows);
}

static bool is_known(struct onnx_import *import, bool lstm)
{
    const struct onnx_value *weights = onnx_input(import, 1), *state = onnx_input(import, 2),
                            *bias = onnx_input(import, 3);
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    int gates = lstm ? 4 : 3;
    int64_t hidden = state->rank == 3 ? state->extent[2] : 0;

    if (onnx_input(import, 0)->kind != ONNX_TENSOR || onnx_input(import, 0)->rank != 3 ||
        weights->kind != ONNX_CONSTANT || state->kind != ONNX_CONSTANT || weights->rank != 3 ||
        state->rank != 3 || !bias_is_known(bias) || hidden < 1 || hidden > HIDDEN_MAX)
        return onnx_missing(import, "without constant weights and biases"), false;
    if (!has_directions(import))
        return false;
    if (weights->extent[1] != gates * hidden || state->extent[1] != gates * hidden ||
        weights->extent[0] != state->extent[0] ||
        !bias_fits(bias, weights->extent[0], gates * hidden))
        return onnx_fail(import, "the shapes of its weights do not fit each other"), false;
    if (!has_width(import, hidden))
        return false;
    if (!is_zero(onnx_input(import, 5)) || (lstm && !is_zero(onnx_input(import, 6))) ||
        onnx_has_input(import, 4) || (lstm && onnx_has_input(import, 7)))
        return onnx_missing(import, "with lengths, peepholes, or a state that is not 0"), false;
    if (!has_activations(import, usual, lstm ? 3 : 2) || onnx_attribute(import->node, "clip") ||
        onnx_attribute_int(import, "input_forget", 0) ||
        (!lstm && !onnx_attribute_int(import, "linear_before_reset", 0)))
        return onnx_missing(import, "with other activations than PyTorch's, with clip, or %s",
                            lstm ? "input_forget" : "without linear_before_reset"),
               false;
    return true;
}

/* The biases of all gates; 0 if they are left out. ONNX_UNKNOWN: the error is kept. */
static struct onnx_value biases_of(struct onnx_import *import, int64_t rows)
{
    const int64_t extent[2] = {onnx_input(import, 1)->extent[0], 2 * rows};
    void *numbers;

    return onnx_has_input(import, 3) ? *onnx_input(import, 3)
                                     : onnx_constant_new(import, ONNX_FLOAT, 2, extent, &numbers);
}

/* One direction: [B,T,F] -> [B,T,H]. */
static int32_t append_direction(struct onnx_import *import, int32_t x, bool lstm, int direction,
                                bool reverse)
{
    const struct onnx_value bias = biases_of(import, onnx_input(import, 1)->extent[1]);
    int64_t hidden = onnx_input(import, 2)->extent[2];
    const struct recurrent_layer layer = {
        .cell = lstm ? RECURRENT_LSTM : RECURRENT_GRU, .hidden = hidden, .reverse = reverse};
    const char *names[2][4] = {{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"},
                               {"weight_ih_l0_reverse", "weight_hh_l0_reverse",
                                "bias_ih_l0_reverse", "bias_hh_l0_reverse"}};
    const char *const *name = names[reverse];

    if (import->error.code ||
        bind_gates(import, onnx_input(import, 1), direction, 0, hidden, lstm, name[0]) ||
        bind_gates(import, onnx_input(import, 2), direction, 0, hidden, lstm, name[1]) ||
        bind_gates(import, &bias, direction, 0, hidden, lstm, name[2]) ||
        bind_gates(import, &bias, direction, (lstm ? 4 : 3) * hidden, hidden, lstm, name[3]))
        return import->error.code;
    return graph_recurrent(import->graph, x, -1,
                           onnx_layer_name(import, reverse ? ".reverse" : "").text, &layer);
}

/* Every step [T,D,B,H], or [B,T,D,H] with layout 1; and the last [D,B,H] or [B,D,H]. */
static void give_results(struct onnx_import *import, int32_t steps_of, int32_t last, int64_t steps,
                         int64_t directions, int64_t hidden)
{
    const int64_t all[4] = {ONNX_BATCH, steps, directions, hidden};
    const int64_t ends[3] = {ONNX_BATCH, directions, hidden};
    bool batch_first = onnx_attribute_int(import, "layout", 0);
    struct onnx_value value = onnx_tensor_value(steps_of, 4, all);

    if (!batch_first) {
        onnx_atoms_permute(&value.atoms, 4, (int[]){1, 2, 0, 3});
        memcpy(value.extent, (int64_t[]){steps, directions, ONNX_BATCH, hidden}, sizeof all);
    }
    *onnx_output(import, 0) = value;
    if (last < 0)
        return;
    value = onnx_tensor_value(last, 3, ends);
    if (!batch_first) {
        onnx_atoms_permute(&value.atoms, 3, (int[]){1, 0, 2});
        memcpy(value.extent, (int64_t[]){directions, ONNX_BATCH, hidden}, sizeof ends);
    }
    *onnx_output(import, 1) = value;
}

static int append_recurrent(struct onnx_import *import)
{
    bool lstm = strcmp(import->node->proto->op_type, "LSTM") == 0;
    struct onnx_value x = *onnx_input(import, 0);
    int32_t y[2] = {-1, -1}, last[2] = {-1, -1};
    int64_t directions, hidden;
    char text[16];
    bool back;

    if (!is_known(import, lstm))
        return import->error.code;
    if (onnx_output_is_read(import, 2))
        return onnx_missing(import, "whose last cells are read");
    back = strcmp(onnx_attribute_text(import, "direction", "forward", text, sizeof text),
                  "reverse") == 0;
    directions = onnx_input(import, 1)->extent[0];
    hidden = onnx_input(import, 2)->extent[2];
    if (!onnx_attribute_int(import, "layout", 0)) {
        int64_t steps = x.extent[0];

        onnx_atoms_permute(&x.atoms, 3, (int[]){1, 0, 2});
        x.extent[0] = x.extent[1];
        x.extent[1] = steps;
    }
    if (x.extent[0] != ONNX_BATCH)
        return onnx_missing(import, "whose batch is not the samples'");
    x.tensor = onnx_shaped(import, &x, 2, x.extent + 1);
    for (int i = 0; i < directions && x.tensor >= 0 && !import->error.code; i++) {
        bool reverse = back || i == 1;

        y[i] = append_direction(import, x.tensor, lstm, i, reverse);
        if (y[i] >= 0 && onnx_output_is_read(import, 1))
            last[i] = graph_last_step(import->graph, y[i], -1,
                                      onnx_layer_name(import, reverse ? ".first" : ".last").text,
                                      reverse);
    }
    if (directions == 2) {
        y[0] = graph_concatenate(import->graph, y, 2, onnx_layer_name(import, ".both").text);
        if (last[0] >= 0)
            last[0] =
                graph_concatenate(import->graph, last, 2, onnx_layer_name(import, ".ends").text);
    }
    if (y[0] < 0 || import->graph->error.code)
        return import->error.code ? import->error.code : import->graph->error.code;
    give_results(import, y[0], last[0], x.extent[1], directions, hidden);
    return 0;
}

/* ---- a plain recurrent layer, step by step ---- */

enum { RNN_STEPS_MAX = 1024 };

/* Cuts rows of `count` steps into a tensor for each. A split has few parts, so it takes several,
 * one within another. */
static void steps_cut(struct onnx_import *import, int32_t rows, int64_t count, int64_t width,
                      int32_t *steps)
{
    int64_t widths[GRAPH_OUTPUTS_MAX], each = 1;
    int32_t parts[GRAPH_OUTPUTS_MAX];
    int number = 0;

    if (count == 1) {
        *steps = rows;
        return;
    }
    while (each * GRAPH_OUTPUTS_MAX < count)
        each *= GRAPH_OUTPUTS_MAX;
    for (int64_t left = count; left > 0; left -= each)
        widths[number++] = (left < each ? left : each) * width;
    if (graph_split(import->graph, rows, widths, number, parts,
                    onnx_layer_name(import, ".cut").text))
        return;
    for (int i = 0; i < number; i++)
        steps_cut(import, parts[i], widths[i] / width, width, steps + i * each);
}

/* The reverse: the steps side by side. */
static int32_t steps_join(struct onnx_import *import, int32_t *steps, int64_t count)
{
    while (count > 1) {
        int64_t joined = 0;

        for (int64_t first = 0; first < count; first += GRAPH_OUTPUTS_MAX) {
            int64_t left = count - first;

            steps[joined++] =
                graph_concatenate(import->graph, steps + first,
                                  (int)(left < GRAPH_OUTPUTS_MAX ? left : GRAPH_OUTPUTS_MAX),
                                  onnx_layer_name(import, ".steps").text);
        }
        count = joined;
    }
    return steps[0];
}

/* Rows times the matrix of a direction, with half of its biases. */
static int32_t rnn_product(struct onnx_import *import, int32_t rows, int input, int direction)
{
    struct onnx_value weight = *onnx_input(import, input), bias = *onnx_input(import, 3);
    const int64_t shape[2] = {weight.extent[1], weight.extent[2]};
    bool biased = bias.kind != ONNX_ABSENT;

    if (onnx_constant_slice(import, &weight, 0, direction, 1, 1) ||
        onnx_constant_reshape(import, &weight, 2, shape))
        return import->error.code;
    if (biased && (onnx_constant_slice(import, &bias, 0, direction, 1, 1) ||
                   onnx_constant_slice(import, &bias, 1, input == 1 ? 0 : shape[0], shape[0], 1) ||
                   onnx_constant_reshape(import, &bias, 1, shape)))
        return import->error.code;
    graph_bind_parameter(
        import->graph, "weight",
        onnx_weight(import, &weight,
                    &(struct graph_shape){.rank = 2, .extent = {shape[0], shape[1]}}, false));
    biased = biased && onnx_bind_bias(import, &bias, shape[0]);
    return graph_linear(import->graph, rows,
                        onnx_layer_name(import, input == 1 ? ".input" : ".state").text, shape[0],
                        biased);
}

/* One direction over samples [B,T,F]: a tensor for each step, in the order of the sequence. */
static int rnn_direction(struct onnx_import *import, int32_t x, int direction, bool reverse,
                         enum activation_kind kind, int64_t count, int32_t *steps)
{
    struct graph *graph = import->graph;
    const char *name = onnx_layer_name(import, ".step").text;
    int64_t hidden = onnx_input(import, 2)->extent[2];
    int32_t rows = rnn_product(import, x, 1, direction), state;
    struct onnx_value zero;
    void *numbers;

    if (rows < 0)
        return rows;
    rows = onnx_reshaped(import, rows, 1, (int64_t[]){count * hidden});
    steps_cut(import, rows, count, hidden, steps);
    zero = onnx_constant_new(import, ONNX_FLOAT, 1, &hidden, &numbers);
    state = numbers ? onnx_repeated_tensor(import, &zero) : import->error.code;
    for (int64_t i = 0; i < count && state >= 0; i++) {
        int64_t at = reverse ? count - 1 - i : i;
        int32_t product = rnn_product(import, state, 2, direction);

        if (product < 0)
            return product;
        state = graph_activation(graph, graph_add(graph, steps[at], product, name), name, kind);
        steps[at] = state;
    }
    return state < 0 ? state : 0;
}

/* The function of the steps; false: another one. */
static bool rnn_activation(const struct onnx_import *import, enum activation_kind *kind)
{
    bool tanh = has_activations(import, (const char *const[]){"Tanh"}, 1);

    *kind = tanh ? ACTIVATION_TANH : ACTIVATION_RELU;
    return tanh || has_activations(import, (const char *const[]){"Relu"}, 1);
}

static bool rnn_is_known(struct onnx_import *import, enum activation_kind *kind)
{
    const struct onnx_value *x = onnx_input(import, 0), *weight = onnx_input(import, 1),
                            *state = onnx_input(import, 2), *bias = onnx_input(import, 3);

    if (x->kind != ONNX_TENSOR || x->rank != 3 || weight->kind != ONNX_CONSTANT ||
        state->kind != ONNX_CONSTANT || weight->rank != 3 || state->rank != 3 ||
        !bias_is_known(bias))
        return onnx_missing(import, "without constant weights and biases"), false;
    if (!has_directions(import))
        return false;
    if (weight->extent[1] != state->extent[1] || state->extent[1] != state->extent[2] ||
        weight->extent[0] != state->extent[0] || state->extent[2] < 1 ||
        state->extent[2] > HIDDEN_MAX || !bias_fits(bias, weight->extent[0], state->extent[1]))
        return onnx_fail(import, "the shapes of its weights do not fit each other"), false;
    if (!has_width(import, state->extent[2]))
        return false;
    if (!is_zero(onnx_input(import, 5)) || onnx_has_input(import, 4))
        return onnx_missing(import, "with lengths, or a state that is not 0"), false;
    if (!rnn_activation(import, kind) || onnx_attribute(import->node, "clip"))
        return onnx_missing(import, "with other activations than Tanh or Relu, or with clip"),
               false;
    return true;
}

/* Appends each direction: every step of all, and their ends. */
static int rnn_append(struct onnx_import *import, int32_t x, enum activation_kind kind,
                      int64_t steps, bool back)
{
    int64_t directions = onnx_input(import, 1)->extent[0];
    int64_t hidden = onnx_input(import, 2)->extent[2];
    int32_t *step = onnx_allocate(import, (size_t)steps, sizeof *step), y[2] = {-1}, last[2] = {-1};

    for (int i = 0; i < directions && step; i++) {
        bool reverse = back || i == 1;
        int code = rnn_direction(import, x, i, reverse, kind, steps, step);

        if (code)
            return code;
        last[i] = step[reverse ? 0 : steps - 1];
        y[i] =
            onnx_reshaped(import, steps_join(import, step, steps), 2, (int64_t[]){steps, hidden});
    }
    if (step && directions == 2) {
        y[0] = graph_concatenate(import->graph, y, 2, onnx_layer_name(import, ".both").text);
        last[0] = graph_concatenate(import->graph, last, 2, onnx_layer_name(import, ".ends").text);
    }
    if (!step || import->graph->error.code)
        return import->error.code;
    give_results(import, y[0], last[0], steps, directions, hidden);
    return 0;
}

static int append_rnn(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    enum activation_kind kind;
    char text[16];
    bool back;

    if (!rnn_is_known(import, &kind))
        return import->error.code;
    back = strcmp(onnx_attribute_text(import, "direction", "forward", text, sizeof text),
                  "reverse") == 0;
    if (!onnx_attribute_int(import, "layout", 0)) {
        int64_t steps = x.extent[0];

        onnx_atoms_permute(&x.atoms, 3, (int[]){1, 0, 2});
        x.extent[0] = x.extent[1];
        x.extent[1] = steps;
    }
    if (x.extent[0] != ONNX_BATCH || x.extent[1] >= ONNX_BATCH)
        return onnx_missing(import, "whose batch is not the samples'");
    if (x.extent[1] < 1 || x.extent[1] > RNN_STEPS_MAX)
        return onnx_missing(import, "of %lld steps; %d are possible", (long long)x.extent[1],
                            (int)RNN_STEPS_MAX);
    x.tensor = onnx_shaped(import, &x, 2, x.extent + 1);
    return x.tensor < 0 ? x.tensor : rnn_append(import, x.tensor, kind, x.extent[1], back);
}

const struct onnx_operator_entry onnx_sequence_operators[] = {
    {"RNN", append_rnn, 6, 0},
    {"LSTM", append_recurrent, 8, 0},
    {"GRU", append_recurrent, 6, 0},
    {NULL, NULL, 0, 0},
};
