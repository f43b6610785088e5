/* fusion.c: see fusion.h. */
#include "engine/graph/fusion.h"

/* The fusion that is being found, and the rules for it. */
struct search {
    const struct graph *graph;
    const struct fusion_rules *rules;
    struct fusion *fusions;
};

static bool is_free(const struct fusion_rules *rules, int32_t node)
{
    return !rules->is_free || rules->is_free(rules->context, node);
}

static bool stored_alike(const struct fusion_rules *rules, int32_t a, int32_t b)
{
    return !rules->stored_alike || rules->stored_alike(rules->context, a, b);
}

static bool has_kind(const struct graph_node *node, unsigned kinds)
{
    return kinds & FUSION_ACTIVATION(node->attributes.activation);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The node of that operator that is the only reader of y, and that may be fused with `index`; or
 * -1. */
static int32_t find_follower(const struct graph *graph, const struct fusion_rules *rules,
                             int32_t index, int32_t y, enum graph_op op)
{
    int32_t reader = graph_single_reader(graph, y);

    if (reader < 0 || graph->nodes[reader].op != op || !is_free(rules, reader) ||
        graph->nodes[reader].phase != graph->nodes[index].phase ||
        !stored_alike(rules, graph->nodes[reader].output[0], y))
        return -1;
    return reader;
}

static int32_t find_activation(const struct graph *graph, const struct fusion_rules *rules,
                               int32_t index, int32_t y, unsigned kinds)
{
    int32_t reader = find_follower(graph, rules, index, y, OP_ACTIVATION);

    return reader >= 0 && has_kind(&graph->nodes[reader], kinds) ? reader : -1;
}

int32_t graph_find_activation(const struct graph *graph, const struct fusion_rules *rules,
                              int32_t node, unsigned kinds)
{
    return find_activation(graph, rules, node, graph->nodes[node].output[0], kinds);
}

/* If the other summand is a batch norm's result that only the sum reads, and that batch norm's
 * operand is kept anyway, the sum takes the operand and normalises it. */
static void find_second(const struct search *search, int32_t index, int32_t other)
{
    const struct graph *graph = search->graph;
    const struct fusion_rules *rules = search->rules;
    struct fusion *fusion = &search->fusions[index];
    int32_t second = graph->tensors[other].producer, x;

    if (second < 0 || graph->nodes[second].op != OP_BATCH_NORM || !is_free(rules, second) ||
        graph->nodes[second].output_count < 3 ||
        !rules->abilities(rules->context, second).normalises_addend ||
        search->fusions[second].addend >= 0 || search->fusions[second].activation >= 0 ||
        graph_single_reader(graph, other) != fusion->sum ||
        graph->nodes[index].op != OP_BATCH_NORM || graph->nodes[index].output_count < 3)
        return;
    x = graph->nodes[second].input[0];
    if (!stored_alike(rules, x, other) || graph_next_reader(graph, x, index + 1) < 0)
        return;
    fusion->addend = x;
    fusion->second = second;
    search->fusions[second].moments_alone = true;
}

/* Finds the sum behind batch norm, if the other summand is computed before. Returns the last
 * result. */
static int32_t find_sum(const struct search *search, int32_t index, bool normalises)
{
    const struct graph *graph = search->graph;
    struct fusion *fusion = &search->fusions[index];
    int32_t y = graph->nodes[index].output[0], other;
    int32_t reader = find_follower(graph, search->rules, index, y, OP_ADD);
    const struct graph_node *sum;

    if (reader < 0)
        return y;
    sum = &graph->nodes[reader];
    other = sum->input[sum->input[0] == y];
    if (other == y || graph->tensors[other].producer > index || !graph->tensors[other].batched ||
        !stored_alike(search->rules, other, y))
        return y;
    fusion->sum = reader;
    fusion->addend = other;
    if (normalises)
        find_second(search, index, other);
    return sum->output[0];
}

bool graph_may_be_added_before(const struct graph *graph, int32_t node, int32_t tensor,
                               int32_t place)
{
    const struct graph_node *sum = &graph->nodes[node];

    return sum->op == OP_ADD &&
           graph->tensors[sum->input[sum->input[0] == tensor]].producer < place;
}

static void find_behind(const struct search *search, int32_t index)
{
    const struct graph_node *node = &search->graph->nodes[index];
    const struct fusion_abilities abilities =
        search->rules->abilities(search->rules->context, index);
    int32_t y = node->output_count ? node->output[0] : -1;

    if (abilities.adds)
        y = find_sum(search, index, abilities.normalises_addend);
    if (abilities.activations)
        search->fusions[index].activation =
            find_activation(search->graph, search->rules, index, y, abilities.activations);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The gradients of SiLU and hardswish read batch norm's result. If batch norm backward recomputes
 * that result, only the activation reads it, and the activation is fused with batch norm as
 * well. */
static void drop_result(const struct search *search, int32_t norm, int32_t activation_backward)
{
    const struct graph *graph = search->graph;
    int32_t y = graph->nodes[norm].output[0], first = graph_next_reader(graph, y, 0);

    if (y == graph->output || first < 0 || graph->nodes[first].op != OP_ACTIVATION ||
        !is_free(search->rules, first) ||
        !stored_alike(search->rules, graph->nodes[first].output[0], y) ||
        graph_next_reader(graph, y, first + 1) != activation_backward ||
        graph_next_reader(graph, y, activation_backward + 1) >= 0)
        return;
    search->fusions[norm].activation = first;
}

/* Fuses a sum whose result only the activation's gradient reads with that gradient. */
static void find_gradient_sum(const struct search *search, int32_t index)
{
    const struct graph *graph = search->graph;
    struct fusion *fusion = &search->fusions[index];
    int32_t dy = graph->nodes[fusion->activation_backward].input[0];
    int32_t sum = graph->tensors[dy].producer;

    if (sum < 0 || graph->nodes[sum].op != OP_ADD || graph->nodes[sum].phase != GRAPH_BACKWARD ||
        !is_free(search->rules, sum) ||
        graph_single_reader(graph, dy) != fusion->activation_backward)
        return;
    for (int i = 0; i < 2; i++)
        if (!stored_alike(search->rules, graph->nodes[sum].input[i], dy))
            return;
    for (int i = 0; i < 2; i++)
        fusion->incoming[i] = graph->nodes[sum].input[i];
    fusion->gradient_sum = sum;
}

/* The pattern activation backward -> batch norm backward, computed from x. */
static bool find_slope(const struct search *search, int32_t index, int32_t activation,
                       const struct fusion_abilities *abilities)
{
    const struct graph *graph = search->graph;
    const struct graph_node *node = &graph->nodes[index], *behind = &graph->nodes[activation];
    enum activation_kind kind = behind->attributes.activation;
    struct fusion *fusion = &search->fusions[index];
    int32_t dy = behind->input[0], norm;

    if (!has_kind(behind, abilities->activations) ||
        graph_single_reader(graph, node->input[1]) != index ||
        !graph_gradient_can_be_overwritten(graph, dy))
        return false;
    norm = graph_batch_norm_behind(graph, node, kind, behind->input[1]);
    if (norm < 0)
        return false;
    fusion->activation_backward = activation;
    fusion->incoming[0] = dy;
    fusion->norm = norm;
    if (kind != ACTIVATION_RELU)
        drop_result(search, norm, activation);
    else if (abilities->adds_always)
        find_gradient_sum(search, index);
    return true;
}

/* The pattern [add ->] ReLU backward -> batch norm backward, which is the first reader of the
 * gradient. */
static void find_mask(const struct search *search, int32_t index, int32_t activation,
                      const struct fusion_abilities *abilities)
{
    const struct graph *graph = search->graph;
    const struct graph_node *behind = &graph->nodes[activation];
    struct fusion *fusion = &search->fusions[index];
    int32_t masked = behind->output[0];

    if (behind->attributes.activation != ACTIVATION_RELU ||
        graph_next_reader(graph, masked, 0) != index || masked == graph->input_gradient ||
        !stored_alike(search->rules, behind->input[1], masked))
        return;
    fusion->activation_backward = activation;
    fusion->saved = behind->input[1];
    fusion->incoming[0] = behind->input[0];
    if (abilities->adds)
        find_gradient_sum(search, index);
}

static void find_before(const struct search *search, int32_t index)
{
    const struct graph *graph = search->graph;
    const struct graph_node *node = &graph->nodes[index];
    const struct fusion_abilities abilities =
        search->rules->abilities(search->rules->context, index);
    int32_t dy = node->input[1], behind = graph->tensors[dy].producer;

    if (!abilities.activations)
        return;
    if (behind >= 0 && graph->nodes[behind].op == OP_ACTIVATION_BACKWARD &&
        is_free(search->rules, behind) &&
        stored_alike(search->rules, graph->nodes[behind].input[0], dy) &&
        !find_slope(search, index, behind, &abilities))
        find_mask(search, index, behind, &abilities);
    search->fusions[index].overwrites = graph_gradient_can_be_overwritten(graph, dy);
}

void graph_find_fusions(const struct graph *graph, const struct fusion_rules *rules,
                        struct fusion *fusions)
{
    const struct search search = {graph, rules, fusions};

    for (int32_t i = 0; i < graph->node_count; i++)
        fusions[i] = (struct fusion){.activation = -1,
                                     .sum = -1,
                                     .addend = -1,
                                     .second = -1,
                                     .activation_backward = -1,
                                     .gradient_sum = -1,
                                     .incoming = {-1, -1},
                                     .norm = -1,
                                     .saved = -1};
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op != OP_BATCH_NORM_BACKWARD)
            find_behind(&search, i);
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_BATCH_NORM_BACKWARD)
            find_before(&search, i);
}

int32_t graph_overwritten_gradient(const struct graph *graph, const struct fusion *fusion)
{
    for (int i = 0; i < 2; i++)
        if (fusion->incoming[i] >= 0 &&
            graph_gradient_can_be_overwritten(graph, fusion->incoming[i]))
            return fusion->incoming[i];
    return -1;
}
