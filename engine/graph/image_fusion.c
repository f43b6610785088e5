/* image_fusion.c: see image_fusion.h. */
#include "engine/graph/image_fusion.h"

#include "engine/graph/fusion.h"

/* The fusion that is being found, and the rules for it. */
struct image_search {
    const struct graph *graph;
    const struct image_fusion_rules *rules;
    struct image_fusion *fusions;
};

static bool stored_alike(const struct image_search *search, int32_t a, int32_t b)
{
    return search->rules->stored_alike(search->rules->context, a, b);
}

static bool convolves(const struct image_search *search, int32_t node)
{
    return search->rules->convolves(search->rules->context, node);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The node of that operator that is the first reader of the tensor in the node's own phase, if all
 * other readers have the operator `backward`. *others receives how many of those there are. -1:
 * there is no such node, or there are other readers. */
static int32_t find_reader(const struct graph *graph, int32_t index, int32_t tensor,
                           enum graph_op op, enum graph_op backward, int32_t *last, int *others)
{
    int32_t found = -1;

    *others = 0;
    *last = -1;
    if (tensor == graph->output)
        return -1;
    for (int32_t i = graph_next_reader(graph, tensor, 0); i >= 0;
         i = graph_next_reader(graph, tensor, i + 1)) {
        const struct graph_node *node = &graph->nodes[i];

        if (node->op == op && found < 0 && node->input[0] == tensor && !node->recomputed &&
            node->phase == graph->nodes[index].phase) {
            found = i;
        } else if (node->op == backward && node->input[1] == tensor) {
            (*others)++;
            *last = i;
        } else {
            return -1;
        }
    }
    return found;
}

/* The maximum pool behind the ReLU `activation` whose result nothing else reads, or -1.
 * *pool_backward and *relu_backward receive the gradients, or -1. */
static int32_t find_pool(const struct image_search *search, int32_t index, int32_t activation,
                         int32_t *pool_backward, int32_t *relu_backward)
{
    const struct graph *graph = search->graph;
    int32_t z = graph->nodes[activation].output[0];
    int others;
    int32_t pool =
        find_reader(graph, index, z, OP_MAX_POOL2D, OP_ACTIVATION_BACKWARD, relu_backward, &others);
    const struct graph_node *node = pool < 0 ? NULL : &graph->nodes[pool];

    *pool_backward = -1;
    if (!node || !stored_alike(search, z, node->output[0]) ||
        node->attributes.conv.kernel[0] * node->attributes.conv.kernel[1] >
            search->rules->window_max)
        return -1;
    if (node->output_count < 2)
        return others == 0 ? pool : -1;
    *pool_backward = graph_single_reader(graph, node->output[1]);
    if (others != 1 || *pool_backward < 0 ||
        graph->nodes[*pool_backward].op != OP_MAX_POOL2D_BACKWARD ||
        graph_single_reader(graph, graph->nodes[*pool_backward].output[0]) != *relu_backward ||
        graph->nodes[*relu_backward].input[0] != graph->nodes[*pool_backward].output[0] ||
        !stored_alike(search, graph->nodes[*pool_backward].output[0],
                      graph->nodes[*relu_backward].output[0]))
        return -1;
    return pool;
}

/* The node that computes the gradients of a convolution's weights and bias. `gradient` is the
 * gradient with respect to the convolution's result. -1: there is none. */
static int32_t find_bias_reader(const struct image_search *search, int32_t gradient)
{
    const struct graph *graph = search->graph;

    for (int32_t i = graph_next_reader(graph, gradient, 0); i >= 0;
         i = graph_next_reader(graph, gradient, i + 1)) {
        const struct graph_node *node = &graph->nodes[i];
        int32_t found = -1;

        if (node->op == OP_CAST && stored_alike(search, node->output[0], gradient))
            found = find_bias_reader(search, node->output[0]);
        else if (node->op == OP_CONV2D_BACKWARD_WEIGHTS && node->input[1] == gradient &&
                 node->output_count > 1 && node->output[1] >= 0 && convolves(search, i))
            found = i;
        if (found >= 0)
            return found;
    }
    return -1;
}

/* `by` computes the gradient `gradient` with respect to a convolution's result. Lets it sum up the
 * gradient of the bias as well. */
static void find_bias(const struct image_search *search, int32_t by, int32_t gradient)
{
    int32_t weights = find_bias_reader(search, gradient);

    if (weights < 0 || search->fusions[weights].leaves_bias)
        return;
    search->fusions[weights].leaves_bias = true;
    search->fusions[by].bias_gradient = search->graph->nodes[weights].output[1];
}

static void find_behind_convolution(const struct image_search *search, int32_t index)
{
    const struct graph *graph = search->graph;
    const struct graph_node *node = &graph->nodes[index];
    struct image_fusion *fusion = &search->fusions[index];
    int32_t pool_backward = -1, relu_backward = -1, last;
    int others;
    int32_t activation = find_reader(graph, index, node->output[0], OP_ACTIVATION,
                                     OP_ACTIVATION_BACKWARD, &last, &others);
    bool has_bias = node->input_count > 2 && node->input[2] >= 0;

    if (node->op != OP_CONV2D || !convolves(search, index) || activation < 0 ||
        !stored_alike(search, node->output[0], graph->nodes[activation].output[0]))
        return;
    if (graph->nodes[activation].attributes.activation == ACTIVATION_RELU && others == 0)
        fusion->pool = find_pool(search, index, activation, &pool_backward, &relu_backward);
    if (fusion->pool < 0 && !has_bias)
        return;
    fusion->activation = activation;
    fusion->keeps = others > 0;
    if (fusion->pool < 0 || pool_backward < 0)
        return;
    fusion->pool_backward = pool_backward;
    fusion->relu_backward = relu_backward;
    find_bias(search, pool_backward, graph->nodes[relu_backward].output[0]);
}

/* ---- squeeze and excite ---------------------------------------------------------------------- */

static bool is_global_pool(const struct graph *graph, const struct graph_node *node)
{
    const int64_t *large = graph->tensors[node->output[0]].shape.extent;
    const int64_t *small = graph->tensors[node->input[0]].shape.extent;

    return small[2] == 1 && small[3] == 1 && node->attributes.conv.kernel[0] == large[2] &&
           node->attributes.conv.kernel[1] == large[3];
}

static void find_sum(const struct image_search *search, int32_t index)
{
    const struct graph *graph = search->graph;
    const struct graph_node *sum = &graph->nodes[index];
    struct image_fusion *fusion = &search->fusions[index];

    if (sum->op != OP_ADD || sum->phase != GRAPH_BACKWARD)
        return;
    for (int i = 0; i < 2; i++) {
        int32_t scaled = graph->tensors[sum->input[i]].producer;
        int32_t pooled = graph->tensors[sum->input[1 - i]].producer;

        if (scaled < 0 || pooled < 0 || graph->nodes[scaled].op != OP_CHANNEL_SCALE_BACKWARD ||
            graph->nodes[pooled].op != OP_AVERAGE_POOL2D_BACKWARD ||
            graph->nodes[scaled].output[0] != sum->input[i] ||
            !is_global_pool(graph, &graph->nodes[pooled]) ||
            graph_single_reader(graph, sum->input[0]) != index ||
            graph_single_reader(graph, sum->input[1]) != index ||
            !stored_alike(search, graph->nodes[scaled].input[0], sum->output[0]))
            continue;
        fusion->scaled = scaled;
        fusion->pooled = pooled;
        search->fusions[scaled].sums_alone = true;
        return;
    }
}

/* The activation that makes the factors of the channel scale `index`, if nothing else reads its
 * result before. A ReLU belongs to the product before it. */
static int32_t find_gate(const struct image_search *search, int32_t index)
{
    const struct graph *graph = search->graph;
    int32_t factors = graph->nodes[index].input[1], gate = graph->tensors[factors].producer;

    if (gate < 0 || graph->nodes[gate].op != OP_ACTIVATION || factors == graph->output ||
        graph->nodes[gate].attributes.activation == ACTIVATION_RELU ||
        graph->nodes[gate].phase != graph->nodes[index].phase ||
        graph_next_reader(graph, factors, 0) != index)
        return -1;
    for (int32_t i = index; i >= 0; i = graph_next_reader(graph, factors, i + 1))
        if (graph_may_be_added_before(graph, i, factors, index))
            return -1;
    return gate;
}

/* The gradient of the activation that made the factors, if it alone reads their gradient, and what
 * it saved is there by then. */
static int32_t find_gate_backward(const struct image_search *search, int32_t index)
{
    const struct graph *graph = search->graph;
    int32_t gradient = graph->nodes[index].output[1];
    int32_t gate = gradient < 0 ? -1 : graph_single_reader(graph, gradient);
    const struct graph_node *node = gate < 0 ? NULL : &graph->nodes[gate];

    if (!node || node->op != OP_ACTIVATION_BACKWARD || node->input[0] != gradient ||
        node->phase != graph->nodes[index].phase ||
        graph->tensors[node->input[1]].producer > index ||
        !stored_alike(search, gradient, node->output[0]))
        return -1;
    return gate;
}

void graph_find_image_fusions(const struct graph *graph, const struct image_fusion_rules *rules,
                              struct image_fusion *fusions)
{
    const struct image_search search = {graph, rules, fusions};

    for (int32_t i = 0; i < graph->node_count; i++)
        fusions[i] = (struct image_fusion){.activation = -1,
                                           .pool = -1,
                                           .pool_backward = -1,
                                           .relu_backward = -1,
                                           .bias_gradient = -1,
                                           .scaled = -1,
                                           .pooled = -1,
                                           .gate = -1};
    for (int32_t i = 0; i < graph->node_count; i++) {
        find_behind_convolution(&search, i);
        find_sum(&search, i);
        if (graph->nodes[i].op == OP_CHANNEL_SCALE)
            fusions[i].gate = find_gate(&search, i);
        if (graph->nodes[i].op == OP_CHANNEL_SCALE_BACKWARD)
            fusions[i].gate = find_gate_backward(&search, i);
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_ACTIVATION_BACKWARD)
            find_bias(&search, i, graph->nodes[i].output[0]);
}
