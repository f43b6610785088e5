/* recurrent.c: recurrent layers, as torch.nn.LSTM and torch.nn.GRU, of one direction over a whole
 * sequence, and their gradients. The product of the input and its weights is a linear layer over
 * all steps at once. What remains is what goes from step to step:
 *
 *   LSTM (Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000):
 *     i, f, o = sigmoid, g = tanh of (input + W h + b);  c = f c + i g;  h = o tanh(c)
 *   GRU (Cho et al. 2014, arXiv:1406.1078, with the reset gate behind the product as in cuDNN):
 *     r, z = sigmoid(input + W h + b);  n = tanh(input + r (W h + b));  h = (1 - z) n + z h
 *
 * A sequence that is shorter than the batch is treated as torch's packed sequences are: its padding
 * gives 0, and the reverse direction begins at its last step.
 *
 * A layer may begin with the state that the batch before left: truncated back-propagation through
 * time (Williams and Peng 1990, doi:10.1162/neco.1990.2.4.490). No gradient passes from a batch to
 * the one before, as if the state were detached. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <math.h>
#include <stdio.h>

static const char *const recurrent_cell_names[] = {
    [RECURRENT_LSTM] = "lstm",
    [RECURRENT_GRU] = "gru",
};
DEFINE_STRING_TABLE(recurrent_cell, enum recurrent_cell, recurrent_cell_names)

enum { SAVED_GATES = 4, SUFFIX_MAX = 40 };

int recurrent_cell_gates(enum recurrent_cell cell)
{
    return cell == RECURRENT_LSTM ? 4 : 3;
}

/* "_l0", "_l1_reverse", … */
static struct layer_suffix {
    char text[SUFFIX_MAX / 2];
} layer_suffix(const struct recurrent_layer *layer)
{
    struct layer_suffix suffix;

    snprintf(suffix.text, sizeof suffix.text, "_l%d%s", layer->number,
             layer->reverse ? "_reverse" : "");
    return suffix;
}

/* torch's names: weight_ih_l0, weight_hh_l0_reverse, … */
static int32_t append_parameter(struct graph *graph, const char *name, const char *part,
                                const struct recurrent_layer *layer,
                                const struct graph_shape *shape)
{
    const struct initializer initializer = {.kind = INITIALIZER_UNIFORM,
                                            .bound = 1.0f / sqrtf((float)layer->hidden)};
    char suffix[SUFFIX_MAX];

    snprintf(suffix, sizeof suffix, "%s%s", part, layer_suffix(layer).text);
    return layer_append_parameter(graph, name, suffix, TENSOR_PARAMETER, shape, initializer);
}

static int check_lengths(struct graph *graph, const char *name, int32_t lengths)
{
    const struct graph_tensor *t = lengths < 0 ? NULL : &graph->tensors[lengths];

    if (t && (t->type != TENSOR_INT32 || t->shape.rank != 1 || t->shape.extent[0] != graph->batch))
        return layer_fail(graph, name, OP_RECURRENT, "the lengths must be int32 values, [batch]");
    return 0;
}

/* ---- carried state --------------------------------------------------------------------------- */

/* What is carried: the state h, and the content of an LSTM's cells. */
static const char *const carried_names[] = {"h", "c"};

static int carried_count(enum recurrent_cell cell)
{
    return cell == RECURRENT_LSTM ? 2 : 1;
}

static bool carries_state(const struct graph_node *node)
{
    return node->input_count > RECURRENT_H0 && node->input[RECURRENT_H0] >= 0;
}

/* "lstm.h_l0", "lstm.c_l0". Training and evaluation read texts of their own, and so have states of
 * their own. */
static void append_states(struct graph *graph, const char *name,
                          const struct recurrent_layer *layer, int32_t *inputs)
{
    const struct graph_shape shape = {.rank = 2, .extent = {graph->streams, layer->hidden}};

    for (int i = 0; i < carried_count(layer->cell); i++)
        inputs[RECURRENT_H0 + i] = graph_append_tensor(
            graph, TENSOR_STATE, TENSOR_FLOAT32, &shape, false, "%s%s.%s%s",
            graph->training ? "" : "evaluation.", name, carried_names[i], layer_suffix(layer).text);
}

static int check_carried(struct graph *graph, const char *name, int32_t lengths,
                         const struct recurrent_layer *layer)
{
    if (layer->carries_state && lengths >= 0)
        return layer_fail(graph, name, OP_RECURRENT,
                          "state is carried by sequences that are as long as the batch alone");
    if (layer->carries_state && graph->streams < graph->batch)
        return layer_fail(graph, name, OP_RECURRENT, "%lld rows of state for a batch of %lld",
                          (long long)graph->streams, (long long)graph->batch);
    return 0;
}

struct recurrent_results graph_recurrent_results(const struct graph_node *node)
{
    int carried = carries_state(node) ? carried_count(node->attributes.recurrent.cell) : 0;
    int last = node->output_count - carried;

    return (struct recurrent_results){.y = node->output[0],
                                      .gates = last > 1 ? node->output[1] : -1,
                                      .cells = last > 2 ? node->output[2] : -1,
                                      .last_h = carried > 0 ? node->output[last] : -1,
                                      .last_c = carried > 1 ? node->output[last + 1] : -1};
}

/* ---- layer ----------------------------------------------------------------------------------- */

static void append_output(struct graph *graph, struct graph_node *node,
                          const struct graph_shape *shape, const char *what)
{
    int32_t tensor = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, shape, true,
                                         "%s.%s", node->name, what);

    if (tensor >= 0)
        graph_node_output(graph, node, tensor);
}

/* The node behind the linear layer, whose result is `input`. */
static int32_t append_recurrence(struct graph *graph, const char *name, const int32_t *inputs,
                                 const struct recurrent_layer *layer,
                                 const struct graph_shape *result)
{
    const struct graph_shape last = {.rank = 2, .extent = {graph->batch, layer->hidden}};
    int carried = layer->carries_state ? carried_count(layer->cell) : 0;
    struct graph_shape saved = *result;
    struct graph_node *node;

    node = layer_append_node(graph, OP_RECURRENT, name, inputs, RECURRENT_H0 + carried,
                             layer_append_result(graph, name, result));
    if (!node)
        return graph->error.code;
    node->attributes.recurrent.cell = layer->cell;
    node->attributes.recurrent.reverse = layer->reverse;
    saved.extent[2] *= SAVED_GATES;
    if (graph->training)
        append_output(graph, node, &saved, "gates");
    if (graph->training && layer->cell == RECURRENT_LSTM)
        append_output(graph, node, result, "cells");
    for (int i = 0; i < carried; i++)
        append_output(graph, node, &last, carried_names[i]);
    return graph->error.code ? graph->error.code : graph->output;
}

int32_t graph_recurrent(struct graph *graph, int32_t input, int32_t lengths, const char *name,
                        const struct recurrent_layer *layer)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_RECURRENT, TENSOR_FLOAT32);
    int64_t rows = recurrent_cell_gates(layer->cell) * layer->hidden;
    struct graph_shape result, all_gates, weight = {.rank = 2, .extent = {rows, 0}};
    const struct graph_shape bias = {.rank = 1, .extent = {rows}};
    char text[SHAPE_TEXT_MAX], node_name[GRAPH_NAME_MAX];
    int32_t linear[3] = {input}, inputs[RECURRENT_C0 + 1] = {-1, -1, -1, lengths};

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 3)
        return layer_fail(graph, name, OP_RECURRENT,
                          "expects sequences [batch, steps, features], but the input is %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    if (layer->hidden < 1)
        return layer_fail(graph, name, OP_RECURRENT, "%lld hidden units, at least 1 is needed",
                          (long long)layer->hidden);
    if (check_lengths(graph, name, lengths) || check_carried(graph, name, lengths, layer))
        return graph->error.code;
    result = all_gates = x->shape;
    result.extent[2] = layer->hidden;
    all_gates.extent[2] = rows;
    weight.extent[1] = x->shape.extent[2];
    linear[1] = append_parameter(graph, name, "weight_ih", layer, &weight);
    weight.extent[1] = layer->hidden;
    inputs[1] = append_parameter(graph, name, "weight_hh", layer, &weight);
    linear[2] = append_parameter(graph, name, "bias_ih", layer, &bias);
    inputs[2] = append_parameter(graph, name, "bias_hh", layer, &bias);
    if (layer->carries_state)
        append_states(graph, name, layer, inputs);
    snprintf(node_name, sizeof node_name, "%s%s", name, layer_suffix(layer).text);
    inputs[0] = layer_append_result(graph, node_name, &all_gates);
    if (!layer_append_node(graph, OP_LINEAR, node_name, linear, 3, inputs[0]))
        return graph->error.code;
    return append_recurrence(graph, node_name, inputs, layer, &result);
}

static void differentiate(struct differentiation *d, const struct graph_node *node, int32_t dy)
{
    bool lstm = node->attributes.recurrent.cell == RECURRENT_LSTM;
    int32_t y = node->output[0], gates = node->output[1], memory = lstm ? node->output[2] : y;
    int carried = carries_state(node);
    int32_t h0 = carried ? node->input[RECURRENT_H0] : -1, dinput;
    int32_t memory_before = carried && lstm ? node->input[RECURRENT_C0] : h0;

    differentiation_append(
        d, node, OP_RECURRENT_BACKWARD,
        (int32_t[]){gates, node->input[1], dy, memory, node->input[3], memory_before}, 5 + carried,
        node->input, 1);
    dinput = d->gradient[node->input[0]];
    differentiation_append(d, node, OP_RECURRENT_BACKWARD_WEIGHTS,
                           (int32_t[]){y, dinput, lstm ? -1 : gates, h0}, 3 + carried,
                           &node->input[1], 2);
}

/* Multiply-adds of the state's product at all steps; the weights are input 1. */
static double product_of_states(const struct graph *graph, const struct graph_node *node,
                                int32_t steps_of)
{
    const struct graph_shape *shape = &graph->tensors[steps_of].shape;

    return 2.0 * (double)(shape->extent[0] * shape->extent[1]) *
           graph_tensor_elements(graph, node->input[1]);
}

/* Some operations for each gate beside the product, as cost.h counts activations. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return product_of_states(graph, node, node->output[0]) +
           graph_tensor_elements(graph, node->input[0]);
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return product_of_states(graph, node, node->input[0]) +
           graph_tensor_elements(graph, node->output[0]);
}

static double flops_backward_weights(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_shape *shape = &graph->tensors[node->input[0]].shape;

    return 2.0 * (double)(shape->extent[0] * shape->extent[1]) *
               graph_tensor_elements(graph, node->output[0]) +
           graph_tensor_elements(graph, node->input[1]);
}

const struct graph_operator operator_recurrent = {
    .cost_class = COST_LINEAR,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_recurrent_int8 = {
    .cost_class = COST_LINEAR,
    .flops = flops,
};

/* The gradient by the input of an LSTM takes over the storage of the gates, which a step reads
 * before it writes there. */
const struct graph_operator operator_recurrent_backward = {
    .cost_class = COST_LINEAR,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops_backward,
};

const struct graph_operator operator_recurrent_backward_weights = {
    .cost_class = COST_LINEAR,
    .flops = flops_backward_weights,
};
