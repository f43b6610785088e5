/* optimizer.c: appends the update part of a graph: one node for each parameter, with the state that
 * its optimizer keeps, and the groups of parameters. The backends have the formulas. */
#include "engine/graph/optimizer.h"

#include "engine/graph/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int32_t append_state(struct graph *graph, int32_t parameter, const char *name,
                            const struct optimizer_config *config)
{
    struct graph_tensor of = graph->tensors[parameter];
    int32_t state = graph_append_tensor(graph, TENSOR_OPTIMIZER, TENSOR_FLOAT32, &of.shape, false,
                                        "%s.%s", of.name, name);

    if (state < 0)
        return state;
    graph->tensors[state].parameter = parameter;
    if (optimizer_of(config)->first_state)
        graph->tensors[state].initializer =
            (struct initializer){.kind = INITIALIZER_CONSTANT,
                                 .bound = (float)optimizer_of(config)->first_state(config)};
    return state;
}

static void append_update(struct graph *graph, int32_t gradient, int group)
{
    const struct optimizer_config *config = &graph->groups[group].config;
    int32_t parameter = graph->tensors[gradient].parameter, state[OPTIMIZER_STATES_MAX];
    struct graph_node *node;
    const char *states[OPTIMIZER_STATES_MAX];
    int count = optimizer_states(config, states);

    for (int i = 0; i < count; i++)
        state[i] = append_state(graph, parameter, states[i], config);
    node = graph_append_node(graph, OP_OPTIMIZER, GRAPH_UPDATE, graph->tensors[parameter].name);
    if (!node)
        return;
    node->attributes.optimizer_group = group;
    graph_node_input(node, parameter);
    graph_node_input(node, gradient);
    for (int i = 0; i < count; i++)
        graph_node_input(node, state[i]);
}

bool graph_node_updates_matrix(const struct graph *graph, const struct graph_node *node)
{
    return node->op == OP_OPTIMIZER &&
           optimizer_of(&graph->groups[node->attributes.optimizer_group].config)->updates_matrices;
}

bool graph_node_scales_by_norms(const struct graph *graph, const struct graph_node *node)
{
    return node->op == OP_OPTIMIZER &&
           optimizer_of(&graph->groups[node->attributes.optimizer_group].config)->scales_by_norms;
}

bool graph_update_is_first(const struct graph *graph, int32_t node)
{
    while (node-- > 0)
        if (graph->nodes[node].op == OP_OPTIMIZER)
            return false;
    return true;
}

bool graph_node_updates_whole(const struct graph *graph, const struct graph_node *node)
{
    return graph_node_updates_matrix(graph, node) || graph_node_scales_by_norms(graph, node);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The tensor of which this one is the rounded copy, or the tensor itself. */
static const struct graph_tensor *before_cast(const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;

    while (producer >= 0 && (graph->nodes[producer].op == OP_CAST ||
                             graph->nodes[producer].op == OP_FAKE_QUANTIZE_ROWS)) {
        tensor = graph->nodes[producer].input[0];
        producer = graph->tensors[tensor].producer;
    }
    return &graph->tensors[tensor];
}

/* Whether the parameter is the weight of a linear layer whose result is not the graph's output. */
static bool is_hidden(const struct graph *graph, const struct graph_tensor *parameter)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (node->op == OP_LINEAR && before_cast(graph, node->input[1]) == parameter)
            return node->output[0] != graph->output;
    }
    return false;
}

static bool has_kind(const struct graph *graph, const struct graph_tensor *parameter,
                     enum parameter_kinds kinds)
{
    switch (kinds) {
    case PARAMETERS_WEIGHTS:
        return parameter->shape.rank >= 2;
    case PARAMETERS_VECTORS:
        return parameter->shape.rank < 2;
    case PARAMETERS_HIDDEN:
        return is_hidden(graph, parameter);
    case PARAMETERS_ALL:
        break;
    }
    return true;
}

static bool group_takes(const struct graph *graph, const struct optimizer_group *group,
                        const struct graph_tensor *parameter)
{
    if (!has_kind(graph, parameter, group->kinds))
        return false;
    return !group->patterns ||
           graph_name_matches_any(group->patterns, group->pattern_count, parameter->name);
}

static void check_groups(struct graph *graph)
{
    bool updated = false;

    for (int g = 0; g < graph->group_count; g++) {
        const struct optimizer_group *group = &graph->groups[g];
        const struct optimizer *optimizer = optimizer_of(&group->config);
        struct error error;

        if (optimizer->check && optimizer->check(&group->config, &error) < 0)
            graph_fail(graph, error.code, "%s", error.text);
        if (graph_check_patterns(graph, "the optimizer's group", group->patterns,
                                 group->pattern_count, &error) < 0)
            graph_fail(graph, error.code, "%s", error.text);
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        updated |= graph->nodes[i].phase == GRAPH_UPDATE;
    if (updated)
        graph_fail(graph, -EINVAL, "the graph has an optimizer already");
}

/* Checks that an optimizer that updates matrices has parameters, and only matrices. */
static void check_matrices(struct graph *graph)
{
    const char *wanted = NULL;
    bool found = false;

    for (int g = 0; g < graph->group_count; g++)
        if (optimizer_of(&graph->groups[g].config)->updates_matrices)
            wanted = optimizer_of(&graph->groups[g].config)->title;
    for (int32_t i = 0; i < graph->node_count && wanted; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (!graph_node_updates_matrix(graph, node))
            continue;
        found = true;
        if (graph->tensors[node->input[0]].shape.rank != 2)
            graph_fail(graph, -EINVAL, "%s updates matrices alone, and %s is none", wanted,
                       node->name);
    }
    if (wanted && !found)
        graph_fail(graph, -EINVAL,
                   "%s finds no hidden linear layer in this model: take another optimizer", wanted);
}

static void update_parameter(struct graph *graph, int32_t parameter)
{
    int32_t gradient = graph_gradient_of(graph, parameter);
    int group = 0;

    if (gradient < 0)
        return;
    while (group < graph->group_count &&
           !group_takes(graph, &graph->groups[group], &graph->tensors[parameter]))
        group++;
    if (group == graph->group_count)
        graph_fail(graph, -EINVAL, "no group of parameters takes %s",
                   graph->tensors[parameter].name);
    else
        append_update(graph, gradient, group);
}

int graph_add_optimizer_groups(struct graph *graph, const struct optimizer_group *groups, int count,
                               struct error *error)
{
    int32_t tensor_count = graph->tensor_count;
    struct optimizer_group *copy = calloc((size_t)count + 1, sizeof *copy);

    if (!copy)
        return error_no_memory(error, "the optimizer's settings");
    memcpy(copy, groups, (size_t)count * sizeof *copy);
    free(graph->groups);
    graph->groups = copy;
    graph->group_count = count;
    check_groups(graph);
    for (int32_t i = 0; i < tensor_count && !graph->error.code; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER)
            update_parameter(graph, i);
    if (!graph->node_count || graph->nodes[graph->node_count - 1].phase != GRAPH_UPDATE)
        graph_fail(graph, -EINVAL, "the graph has no gradients for an optimizer to use");
    check_matrices(graph);
    for (int i = 0; i < count; i++) { /* these are the caller's groups */
        copy[i].patterns = NULL;
        copy[i].pattern_count = 0;
    }
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}

int graph_add_optimizer(struct graph *graph, const struct optimizer_config *config,
                        struct error *error)
{
    const struct optimizer_group all = {.learning_rate_scale = 1, .config = *config};

    return graph_add_optimizer_groups(graph, &all, 1, error);
}
