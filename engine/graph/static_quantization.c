/* static_quantization.c: makes convolutions of a graph multiply integers of 8 bits whose ranges are
 * known beforehand (static quantization; Jacob et al. 2018, arXiv:1712.05877). A convolution takes
 * the batch norm, the sum and the ReLU behind it along where nothing else reads what lies between,
 * and gives integers where convolutions or pools read them. A maximum of integers is an integer of
 * the same scale, so a pool behind a convolution hands them on. */
#include "base/memory.h"
#include "engine/graph/build.h"
#include "engine/graph/operator.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANGE_NAME_MAX = GRAPH_NAME_MAX + 16 };

/* A convolution and the nodes that it takes along; -1: none. */
struct chain {
    int32_t norm, sum, relu;
    int32_t addend; /* what the sum adds */
    int32_t end;    /* the tensor that the last of them makes */
};

struct pass {
    struct graph *graph;
    const char *ranges;            /* lines; NULL: they are observed, or */
    bool fakes;                    /* floats are rounded as integers would be */
    struct chain *chains;          /* of the nodes; end -1: the node is no such convolution */
    bool *absorbed;                /* nodes */
    bool *carries;                 /* nodes: its result has the integers of its operand */
    bool *as_integers, *as_floats; /* how a tensor is read */
    bool *is_made;                 /* a tensor that comes of integers */
    bool *is_carried;              /* a tensor with the scale of the one before it */
    int32_t *integers;             /* the uint8 tensor of a float one; -1: none yet */
    int32_t *rounded;              /* with `fakes`: what its readers read instead; -1: itself */
    struct quantization *quantization;
    int count; /* convolutions */
};

/* ---- finding --------------------------------------------------------------------------------- */

/* The node of that kind which alone reads the tensor; -1: there is none. */
static int32_t sole_reader(const struct graph *graph, int32_t tensor, enum graph_op op)
{
    int32_t reader = graph_single_reader(graph, tensor);

    return reader >= 0 && graph->nodes[reader].op == op ? reader : -1;
}

static bool is_quantizable(const struct graph *graph, const struct graph_node *node)
{
    int32_t weight = node->input[1];

    return node->op == OP_CONV2D && graph->tensors[weight].role == TENSOR_PARAMETER &&
           graph_single_reader(graph, weight) >= 0 && graph_weight_fits_int8(graph, weight);
}

/* What a sum adds to a tensor, if it is there before node `index` runs; else -1. */
static int32_t addend_of(const struct graph *graph, const struct graph_node *sum, int32_t tensor,
                         int32_t index)
{
    int32_t other = sum->input[sum->input[0] == tensor ? 1 : 0];

    return other != tensor && graph->tensors[other].producer < index ? other : -1;
}

static struct chain chain_of(const struct graph *graph, int32_t index)
{
    struct chain chain = {-1, -1, -1, -1, graph->nodes[index].output[0]};

    chain.norm = sole_reader(graph, chain.end, OP_BATCH_NORM);
    if (chain.norm >= 0)
        chain.end = graph->nodes[chain.norm].output[0];
    chain.sum = sole_reader(graph, chain.end, OP_ADD);
    if (chain.sum >= 0)
        chain.addend = addend_of(graph, &graph->nodes[chain.sum], chain.end, index);
    if (chain.addend < 0)
        chain.sum = -1;
    else
        chain.end = graph->nodes[chain.sum].output[0];
    chain.relu = sole_reader(graph, chain.end, OP_ACTIVATION);
    if (chain.relu >= 0 && graph->nodes[chain.relu].attributes.activation != ACTIVATION_RELU)
        chain.relu = -1;
    if (chain.relu >= 0)
        chain.end = graph->nodes[chain.relu].output[0];
    return chain;
}

static void find_chains(struct pass *pass)
{
    const struct graph *graph = pass->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        struct chain *chain = &pass->chains[i];

        chain->end = -1;
        if (pass->absorbed[i] || !is_quantizable(graph, &graph->nodes[i]))
            continue;
        *chain = chain_of(graph, i);
        pass->count++;
        for (int k = 0; k < 3; k++) {
            int32_t node = (int32_t[]){chain->norm, chain->sum, chain->relu}[k];

            if (node >= 0)
                pass->absorbed[node] = true;
        }
    }
}

/* Whether the node takes the maximum of what a convolution, or another such node, gives. */
static bool carries_integers(const struct pass *pass, const struct graph_node *node)
{
    return node->op == OP_MAX_POOL2D && pass->is_made[node->input[0]];
}

static void find_carriers(struct pass *pass)
{
    const struct graph *graph = pass->graph;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (pass->chains[i].end >= 0)
            pass->is_made[pass->chains[i].end] = true;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        pass->carries[i] = !pass->absorbed[i] && carries_integers(pass, node);
        if (pass->carries[i])
            pass->is_made[node->output[0]] = pass->is_carried[node->output[0]] = true;
    }
}

/* The tensor of which dropout, which evaluation does not have, makes this one. */
static int32_t before_dropout(const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;

    while (producer >= 0 && (graph->nodes[producer].op == OP_DROPOUT ||
                             graph->nodes[producer].op == OP_CHANNEL_DROPOUT)) {
        tensor = graph->nodes[producer].input[0];
        producer = graph->tensors[tensor].producer;
    }
    return tensor;
}

static void find_readers(struct pass *pass)
{
    const struct graph *graph = pass->graph;

    pass->as_floats[graph->output] = true;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (pass->chains[i].end >= 0) {
            pass->as_integers[before_dropout(graph, node->input[0])] = true;
            if (pass->chains[i].addend >= 0) /* a sum is made in integers */
                pass->as_integers[before_dropout(graph, pass->chains[i].addend)] =
                    pass->as_integers[pass->chains[i].end] = true;
            continue;
        }
        if (pass->carries[i]) {
            pass->as_integers[node->input[0]] = pass->as_integers[node->output[0]] = true;
            continue;
        }
        for (int k = 0; k < node->input_count && !pass->absorbed[i]; k++)
            if (node->input[k] >= 0)
                pass->as_floats[node->input[k]] = true;
    }
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* The tensor's name, and from the second tensor of that name on its number among them. */
static void range_name(const struct graph *graph, int32_t tensor, char name[RANGE_NAME_MAX])
{
    int number = 1;

    for (int32_t i = 0; i < tensor; i++)
        number += strcmp(graph->tensors[i].name, graph->tensors[tensor].name) == 0;
    if (number == 1)
        snprintf(name, RANGE_NAME_MAX, "%s", graph->tensors[tensor].name);
    else
        snprintf(name, RANGE_NAME_MAX, "%.*s#%d", GRAPH_NAME_MAX, graph->tensors[tensor].name,
                 number);
}

static int find_range(struct pass *pass, int32_t tensor)
{
    const char *line = pass->ranges;
    char name[RANGE_NAME_MAX];
    float least, most;

    range_name(pass->graph, tensor, name);
    for (; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        int used = 0;
        size_t length;

        if (sscanf(line, "%f %f %n", &least, &most, &used) != 2 || !used || !isfinite(least) ||
            !isfinite(most))
            break;
        length = strcspn(line + used, "\n");
        if (length == strlen(name) && memcmp(line + used, name, length) == 0) {
            pass->quantization[tensor] = graph_quantization_of_range((const float[]){least, most});
            return 0;
        }
    }
    return graph_fail(
        pass->graph, -EINVAL,
        "the quantization has no range of %s: the checkpoint is damaged, or of another "
        "model",
        name);
}

/* ---- the new nodes --------------------------------------------------------------------------- */

struct graph_node *graph_append_copy(struct graph *graph, const struct graph_node *node)
{
    struct graph_node *copy = graph_append_node(graph, node->op, node->phase, node->name);

    if (!copy)
        return NULL;
    *copy = *node;
    for (int k = 0; k < copy->output_count; k++)
        if (copy->output[k] >= 0)
            graph->tensors[copy->output[k]].producer = graph->node_count - 1;
    return copy;
}

/* A node that only reads and writes one tensor each; `output` -1: none. */
static void append_conversion(struct pass *pass, enum graph_op op, int32_t tensor, int32_t input,
                              int32_t output)
{
    struct graph *graph = pass->graph;
    struct graph_node *node =
        graph_append_node(graph, op, GRAPH_FORWARD, graph->tensors[tensor].name);

    if (!node)
        return;
    graph_node_input(node, input);
    graph_node_output(graph, node, output);
    graph->tensors[output].producer = graph->node_count - 1;
    node->attributes.quantization = pass->quantization[tensor];
}

static int32_t append_integers(struct pass *pass, int32_t tensor)
{
    const struct graph_shape shape = pass->graph->tensors[tensor].shape;
    char name[GRAPH_NAME_MAX];

    snprintf(name, sizeof name, "%s", pass->graph->tensors[tensor].name);
    pass->integers[tensor] = graph_append_tensor(pass->graph, TENSOR_ACTIVATION, TENSOR_UINT8,
                                                 &shape, true, "%.80s.integers", name);
    return pass->integers[tensor];
}

static void append_observer(struct pass *pass, int32_t tensor)
{
    struct graph *graph = pass->graph;
    const struct graph_shape shape = {.rank = 1, .extent = {2}};
    char name[RANGE_NAME_MAX];
    struct graph_node *node;
    int32_t range;

    range_name(graph, tensor, name);
    range = graph_append_tensor(graph, TENSOR_STATE, TENSOR_FLOAT32, &shape, false,
                                GRAPH_RANGE_PREFIX "%s", name);
    node = range < 0
               ? NULL
               : graph_append_node(graph, OP_OBSERVE, GRAPH_FORWARD, graph->tensors[tensor].name);
    if (!node)
        return;
    graph_node_input(node, tensor);
    graph_node_input(node, range);
}

static void append_rounding(struct pass *pass, int32_t tensor)
{
    int32_t output = pass->graph->output;
    char name[RANGE_NAME_MAX];

    range_name(pass->graph, tensor, name);
    pass->rounded[tensor] = graph_fake_quantize(pass->graph, tensor, name);
    pass->graph->output = output;
}

/* Behind what makes a float tensor. */
static void append_behind(struct pass *pass, int32_t tensor)
{
    if (tensor < 0 || !pass->as_integers[tensor] || pass->is_carried[tensor])
        return;
    if (pass->fakes)
        append_rounding(pass, tensor);
    else if (!pass->ranges)
        append_observer(pass, tensor);
    else if (append_integers(pass, tensor) >= 0)
        append_conversion(pass, OP_QUANTIZE, tensor, tensor, pass->integers[tensor]);
}

static void append_convolution(struct pass *pass, const struct graph_node *nodes, int32_t index)
{
    const struct graph_node *old = &nodes[index];
    const struct chain *chain = &pass->chains[index];
    const struct graph_node *norm = chain->norm >= 0 ? &nodes[chain->norm] : NULL;
    int32_t scale = graph_append_weight_scale(pass->graph, old->input[1]), y = chain->end;
    struct conv_int8_attributes attributes = {.conv = old->attributes.conv,
                                              .x = pass->quantization[old->input[0]],
                                              .relu = chain->relu >= 0};
    struct graph_node *node;

    if (pass->as_integers[y]) {
        attributes.y = pass->quantization[y];
        y = append_integers(pass, y);
    }
    if (scale < 0 || y < 0)
        return;
    node = graph_append_node(pass->graph, OP_CONV2D_INT8, GRAPH_FORWARD, old->name);
    if (!node)
        return;
    graph_node_input(node, pass->integers[old->input[0]]);
    graph_node_input(node, old->input[1]);
    graph_node_input(node, old->input_count > 2 ? old->input[2] : -1);
    graph_node_input(node, scale);
    for (int k = 1; k < 5; k++)
        graph_node_input(node, norm ? norm->input[k] : -1);
    graph_node_input(node, chain->addend < 0 ? -1 : pass->integers[chain->addend]);
    if (norm)
        attributes.epsilon = norm->attributes.batch_norm.epsilon;
    if (chain->addend >= 0)
        attributes.addend = pass->quantization[chain->addend];
    node->attributes.conv_int8 = attributes;
    graph_node_output(pass->graph, node, y);
    pass->graph->tensors[y].producer = pass->graph->node_count - 1;
    if (pass->as_integers[chain->end] && pass->as_floats[chain->end])
        append_conversion(pass, OP_DEQUANTIZE, chain->end, y, chain->end);
}

/* The node, which reads and gives integers. */
static void append_carrier(struct pass *pass, const struct graph_node *node)
{
    int32_t x = node->input[0], y = node->output[0];
    int32_t integers = append_integers(pass, y);
    struct graph_node *copy = integers < 0 ? NULL : graph_append_copy(pass->graph, node);

    if (!copy)
        return;
    pass->quantization[y] = pass->quantization[x];
    copy->input[0] = pass->integers[x];
    copy->output[0] = integers;
    pass->graph->tensors[integers].producer = pass->graph->node_count - 1;
    if (pass->as_floats[y])
        append_conversion(pass, OP_DEQUANTIZE, y, integers, y);
}

/* The node as it was, which reads what was rounded. */
static bool append_reading(struct pass *pass, const struct graph_node *node)
{
    struct graph_node *copy = graph_append_copy(pass->graph, node);

    for (int k = 0; copy && pass->fakes && k < copy->input_count; k++)
        if (copy->input[k] >= 0 && pass->rounded[copy->input[k]] >= 0)
            copy->input[k] = pass->rounded[copy->input[k]];
    return copy;
}

/* Writes the nodes anew. */
static void append_all(struct pass *pass, const struct graph_node *nodes, int32_t count)
{
    struct graph *graph = pass->graph;

    append_behind(pass, graph->input);
    for (int32_t i = 0; i < count && !graph->error.code; i++) {
        if (pass->ranges && pass->chains[i].end >= 0) {
            append_convolution(pass, nodes, i);
            continue;
        }
        if (pass->ranges && pass->absorbed[i])
            continue;
        if (pass->ranges && pass->carries[i]) {
            append_carrier(pass, &nodes[i]);
            continue;
        }
        if (append_reading(pass, &nodes[i]))
            for (int k = 0; k < nodes[i].output_count; k++)
                append_behind(pass, nodes[i].output[k]);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void rewrite(struct pass *pass)
{
    struct graph *graph = pass->graph;
    int32_t count = graph->node_count;
    struct graph_node *nodes = memory_allocate((size_t)count * sizeof *nodes + 1);

    for (int32_t i = 0; i < graph->tensor_count; i++)
        pass->integers[i] = pass->rounded[i] = -1;
    for (int32_t i = 0; pass->ranges && i < graph->tensor_count && !graph->error.code; i++)
        if (pass->as_integers[i] && !pass->is_carried[i])
            find_range(pass, i);
    memcpy(nodes, graph->nodes, (size_t)count * sizeof *nodes);
    if (!graph->error.code) {
        graph->node_count = 0;
        append_all(pass, nodes, count);
    }
    free(nodes);
}

/* Returns the number of convolutions that can be quantized. */
static int run_pass(struct graph *graph, const char *ranges, bool fakes)
{
    size_t nodes = (size_t)graph->node_count + 1, tensors = (size_t)graph->tensor_count + 1;
    struct pass pass = {.graph = graph,
                        .ranges = ranges,
                        .fakes = fakes,
                        .chains = memory_zero(nodes * sizeof *pass.chains),
                        .absorbed = memory_zero(nodes * sizeof *pass.absorbed),
                        .carries = memory_zero(nodes * sizeof *pass.carries),
                        .as_integers = memory_zero(tensors * sizeof *pass.as_integers),
                        .as_floats = memory_zero(tensors * sizeof *pass.as_floats),
                        .is_made = memory_zero(tensors * sizeof *pass.is_made),
                        .is_carried = memory_zero(tensors * sizeof *pass.is_carried),
                        .integers = memory_zero(tensors * sizeof *pass.integers),
                        .rounded = memory_zero(tensors * sizeof *pass.rounded),
                        .quantization = memory_zero(tensors * sizeof *pass.quantization)};

    find_chains(&pass);
    find_carriers(&pass);
    find_readers(&pass);
    if (pass.count)
        rewrite(&pass);
    free(pass.chains);
    free(pass.absorbed);
    free(pass.carries);
    free(pass.as_integers);
    free(pass.as_floats);
    free(pass.is_made);
    free(pass.is_carried);
    free(pass.integers);
    free(pass.rounded);
    free(pass.quantization);
    return pass.count;
}

int graph_quantize_convolutions(struct graph *graph, const char *ranges)
{
    return graph->error.code ? 0 : run_pass(graph, ranges, false);
}

int graph_fake_quantize_convolutions(struct graph *graph)
{
    /* before the pass, behind which they have other readers */
    for (int32_t i = 0; i < graph->node_count; i++)
        if (is_quantizable(graph, &graph->nodes[i]))
            graph->tensors[graph->nodes[i].input[1]].rounds_to_int8 = true;
    return run_pass(graph, NULL, true);
}

int graph_observe(struct graph *graph, struct error *error)
{
    if (!graph->error.code && run_pass(graph, NULL, false) == 0)
        graph_fail(graph, -EINVAL,
                   "the model has no convolution that could be quantized: quantize it without "
                   "--static");
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}
