/* squeeze_excite.c: see squeeze_excite.h. */
#include "engine/graph/squeeze_excite.h"

#include "engine/graph/fusion.h"
#include "engine/graph/operator.h"

static bool is_member(const struct squeeze_excite_nodes *nodes, int32_t node)
{
    return node == nodes->scale || node == nodes->pool || node == nodes->reduce ||
           node == nodes->activation || node == nodes->expand || node == nodes->gate ||
           node == nodes->sum;
}

/* The tensor of which this one is a copy in another type. */
static int32_t before_casts(const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;

    while (producer >= 0 && graph->nodes[producer].op == OP_CAST) {
        tensor = graph->nodes[producer].input[0];
        producer = graph->tensors[tensor].producer;
    }
    return tensor;
}

/* The node that makes the operand, apart from casts; -1: none does, or there is no operand. */
static int32_t maker(const struct graph *graph, const struct graph_node *node, int operand)
{
    int32_t tensor = node->input[operand];

    return tensor < 0 ? -1 : graph->tensors[before_casts(graph, tensor)].producer;
}

/* The node of that operator in the same phase that makes the node's first operand; or -1. */
static int32_t find_before(const struct graph *graph, int32_t node, enum graph_op op)
{
    int32_t found = node < 0 ? -1 : maker(graph, &graph->nodes[node], 0);

    return found >= 0 && graph->nodes[found].op == op &&
                   graph->nodes[found].phase == graph->nodes[node].phase &&
                   graph->nodes[found].recomputed == graph->nodes[node].recomputed
               ? found
               : -1;
}

/* The same for a linear layer, or for its gradient by the samples. */
static int32_t find_product(const struct graph *graph, int32_t node, enum product_pass pass)
{
    int32_t found = node < 0 ? -1 : maker(graph, &graph->nodes[node], 0);

    return found >= 0 && graph_node_operator(&graph->nodes[found])->product == pass
               ? find_before(graph, node, graph->nodes[found].op)
               : -1;
}

static bool is_global_average(const struct graph *graph, int32_t large, int32_t small,
                              const struct graph_node *node)
{
    const int64_t *from = graph->tensors[large].shape.extent;
    const int64_t *to = graph->tensors[small].shape.extent;
    const struct conv_attributes *pool = &node->attributes.conv;

    return to[2] == 1 && to[3] == 1 && pool->kernel[0] == from[2] && pool->kernel[1] == from[3] &&
           pool->padding[0] == 0 && pool->padding[1] == 0;
}

/* Whether a node that is no member reads the tensor, and has no place behind `last`. */
static bool is_read_by(const struct graph *graph, const struct squeeze_excite_nodes *nodes,
                       int32_t tensor, int32_t last)
{
    for (int32_t i = graph_next_reader(graph, tensor, 0); i >= 0;
         i = graph_next_reader(graph, tensor, i + 1))
        if (graph->nodes[i].op == OP_CAST
                ? is_read_by(graph, nodes, graph->nodes[i].output[0], last)
                : !is_member(nodes, i) &&
                      (i <= last || graph_may_be_added_before(graph, i, tensor, last)))
            return true;
    return false;
}

bool squeeze_excite_is_read(const struct graph *graph, const struct squeeze_excite_nodes *nodes,
                            int32_t tensor)
{
    return tensor == graph->output || is_read_by(graph, nodes, tensor, graph->node_count);
}

bool graph_find_squeeze_excite(const struct graph *graph, int32_t scale,
                               struct squeeze_excite_nodes *nodes)
{
    const struct graph_node *node = &graph->nodes[scale];
    const struct graph_node *pool;
    int32_t gate;

    if (node->op != OP_CHANNEL_SCALE)
        return false;
    gate = maker(graph, node, 1);
    if (gate < 0 || graph->nodes[gate].op != OP_ACTIVATION ||
        graph->nodes[gate].phase != node->phase ||
        graph->nodes[gate].recomputed != node->recomputed)
        return false;
    *nodes = (struct squeeze_excite_nodes){.scale = scale, .gate = gate, .sum = -1};
    nodes->expand = find_product(graph, nodes->gate, PRODUCT_FORWARD);
    nodes->activation = find_before(graph, nodes->expand, OP_ACTIVATION);
    nodes->reduce = find_product(graph, nodes->activation, PRODUCT_FORWARD);
    nodes->pool = find_before(graph, nodes->reduce, OP_AVERAGE_POOL2D);
    if (nodes->pool < 0)
        return false;
    pool = &graph->nodes[nodes->pool];
    return pool->input[0] == node->input[0] &&
           is_global_average(graph, pool->input[0], pool->output[0], pool) &&
           !is_read_by(graph, nodes, pool->output[0], scale) &&
           !is_read_by(graph, nodes, graph->nodes[nodes->reduce].output[0], scale) &&
           !is_read_by(graph, nodes, graph->nodes[nodes->activation].output[0], scale) &&
           !is_read_by(graph, nodes, graph->nodes[nodes->expand].output[0], scale) &&
           !is_read_by(graph, nodes, graph->nodes[nodes->gate].output[0], scale);
}

/* The OP_ADD that alone reads the scale's gradient by the image, and the average's gradient that it
 * adds; or -1. */
static int32_t find_sum(const struct graph *graph, int32_t scale, int32_t *pool)
{
    int32_t gradient = graph->nodes[scale].output[0];
    int32_t sum = gradient < 0 ? -1 : graph_single_reader(graph, gradient);
    const struct graph_node *node = sum < 0 ? NULL : &graph->nodes[sum];
    const struct graph_node *average;
    int32_t other;

    if (!node || node->op != OP_ADD || node->phase != graph->nodes[scale].phase)
        return -1;
    other = node->input[0] == gradient ? node->input[1] : node->input[0];
    *pool = graph->tensors[other].producer;
    average = *pool < 0 ? NULL : &graph->nodes[*pool];
    return average && average->op == OP_AVERAGE_POOL2D_BACKWARD && average->phase == node->phase &&
                   is_global_average(graph, average->output[0], average->input[0], average) &&
                   graph_single_reader(graph, other) == sum
               ? sum
               : -1;
}

static bool is_there_before(const struct graph *graph, int32_t tensor, int32_t node)
{
    return graph->tensors[tensor].producer < node;
}

bool graph_find_squeeze_excite_backward(const struct graph *graph, int32_t scale,
                                        struct squeeze_excite_nodes *nodes)
{
    const struct graph_node *node = &graph->nodes[scale], *of = graph->nodes;

    if (node->op != OP_CHANNEL_SCALE_BACKWARD || node->output[1] < 0)
        return false;
    *nodes = (struct squeeze_excite_nodes){.scale = scale, .pool = -1};
    nodes->sum = find_sum(graph, scale, &nodes->pool);
    if (nodes->sum < 0)
        return false;
    nodes->reduce = find_product(graph, nodes->pool, PRODUCT_BACKWARD_DATA);
    nodes->activation = find_before(graph, nodes->reduce, OP_ACTIVATION_BACKWARD);
    nodes->expand = find_product(graph, nodes->activation, PRODUCT_BACKWARD_DATA);
    nodes->gate = find_before(graph, nodes->expand, OP_ACTIVATION_BACKWARD);
    return nodes->gate >= 0 && before_casts(graph, of[nodes->gate].input[0]) == node->output[1] &&
           is_there_before(graph, of[nodes->gate].input[1], scale) &&
           is_there_before(graph, of[nodes->activation].input[1], scale) &&
           is_there_before(graph, of[nodes->expand].input[1], scale) &&
           is_there_before(graph, of[nodes->reduce].input[1], scale) &&
           !squeeze_excite_is_read(graph, nodes, node->output[1]) &&
           !squeeze_excite_is_read(graph, nodes, of[nodes->expand].output[0]) &&
           !squeeze_excite_is_read(graph, nodes, of[nodes->reduce].output[0]) &&
           !is_read_by(graph, nodes, of[nodes->gate].output[0], scale) &&
           !is_read_by(graph, nodes, of[nodes->activation].output[0], scale);
}
