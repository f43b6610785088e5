/* layer_decay.c: learning rates that fall from the output to the input of a model (Clark et al.
 * 2020, ELECTRA, arXiv:2003.10555; Bao et al. 2021, BEiT, arXiv:2106.08254). See graph.h. */
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The length of a parameter's name up to its first part that is a number: of "blocks.3" in
 * "blocks.3.norm1.weight". 0: no part is. */
static size_t block_length(const char *name)
{
    for (const char *part = name; *part; part += strcspn(part, ".") + 1) {
        size_t length = strcspn(part, ".");

        if (length && strspn(part, "0123456789") == length)
            return (size_t)(part - name) + length;
        if (!part[length])
            break;
    }
    return 0;
}

static bool same_block(const char *a, const char *b)
{
    size_t length = block_length(a);

    return length == block_length(b) && strncmp(a, b, length) == 0;
}

static bool same_module(const char *a, const char *b)
{
    const char *end = strrchr(a, '.');
    size_t length = end ? (size_t)(end - a) + 1 : 0;

    if (!end)
        return strcmp(a, b) == 0;
    return strncmp(a, b, length) == 0 && !strchr(b + length, '.');
}

/* Whether a parameter of the block, or of the layer where it is in none, is more than a vector: a
 * norm begins no depth. */
static bool has_weights(const struct graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER && graph->tensors[i].shape.rank > 1 &&
            (block_length(name) ? same_block(graph->tensors[i].name, name)
                                : same_module(name, graph->tensors[i].name)))
            return true;
    return false;
}

/* Numbers the depths of the parameters from 0, in the order of the model. Returns the last one. */
static int number_depths(const struct graph *graph, int *depth)
{
    const char *block = NULL;
    int last = 0;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];

        if (tensor->role != TENSOR_PARAMETER)
            continue;
        if (!block) {
            block = tensor->name;
        } else if (!same_block(block, tensor->name) && has_weights(graph, tensor->name)) {
            block = tensor->name;
            last++;
        }
        depth[i] = last;
    }
    return last;
}

/* The group like `group` whose learning rate is so much smaller; makes it if there is none. */
static int group_at(struct graph *graph, int group, double factor, int first_made)
{
    double scale = graph->groups[group].learning_rate_scale * factor;
    struct optimizer_group *grown;

    if (factor == 1)
        return group;
    for (int g = first_made; g < graph->group_count; g++)
        if (graph->groups[g].learning_rate_scale == scale &&
            graph->groups[g].kinds == graph->groups[group].kinds &&
            memcmp(&graph->groups[g].config, &graph->groups[group].config,
                   sizeof graph->groups[g].config) == 0)
            return g;
    grown = realloc(graph->groups, ((size_t)graph->group_count + 1) * sizeof *grown);
    if (!grown) {
        graph_fail(graph, -ENOMEM, "no memory for the groups of parameters");
        return group;
    }
    graph->groups = grown;
    grown[graph->group_count] = grown[group];
    grown[graph->group_count].learning_rate_scale = scale;
    return graph->group_count++;
}

int graph_decay_layers(struct graph *graph, double decay, struct error *error)
{
    int *depth = calloc((size_t)graph->tensor_count + 1, sizeof *depth);
    int last, first_made = graph->group_count;

    if (!depth)
        return error_no_memory(error, "the depths of the model's layers");
    last = number_depths(graph, depth);
    if (last == 0)
        graph_fail(graph, -EINVAL,
                   "train.optimizer.layer_decay needs layers one behind another, with numbers in "
                   "their names, and this model has one depth; set the learning rates by "
                   "train.optimizer.groups");
    for (int32_t i = 0; i < graph->node_count && !graph->error.code; i++) {
        struct graph_node *node = &graph->nodes[i];

        if (node->op == OP_OPTIMIZER)
            node->attributes.optimizer_group =
                group_at(graph, node->attributes.optimizer_group,
                         pow(decay, last - depth[node->input[0]]), first_made);
    }
    free(depth);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}
