/* describe.c: describes in words how a program computes a node (struct node_description of
 * backend.h). */
#include "engine/backends/cpu/program.h"

#include <stdio.h>
#include <string.h>

static void append(char method[NODE_METHOD_MAX], const char *word)
{
    size_t length = strlen(method);

    snprintf(method + length, NODE_METHOD_MAX - length, "%s%s", length ? " " : "", word);
}

/* How the image, or its gradient, is laid out. */
static const char *layout_word(const struct backend_program *program, int32_t tensor)
{
    int64_t block;

    if (program_is_tiled(program, tensor))
        return "tiles";
    if (program->channels_last)
        return "channels_last";
    block = program_image_layout(program, tensor, 1).block;
    return block == 16 ? "blocks_16" : block == 8 ? "blocks_8" : "planes";
}

/* Appends what other nodes' work is done along with this node. */
static void append_absorbed(const struct backend_program *program, int32_t node,
                            char method[NODE_METHOD_MAX])
{
    const struct node_plan *plan = &program->nodes[node];

    if (plan->fused >= 0)
        append(method, activation_kind_to_string((enum activation_kind)plan->fused));
    if (plan->addend >= 0)
        append(method, "add");
}

static void describe_method(const struct backend_program *program, int32_t index,
                            char method[NODE_METHOD_MAX])
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct node_plan *plan = &program->nodes[index];
    int32_t image = node->output_count > 0 ? node->output[0] : -1;

    if (plan->functions->prepare == winograd_prepare)
        append(method, "winograd");
    else if (plan->functions->prepare == tile_convolution_prepare)
        append(method, "tiles");
    else if (plan->functions->prepare == product_prepare)
        append(method, "product");
    else if (plan->functions->prepare == convolution_prepare)
        convolution_method(program, index, method);
    else if (plan->functions->prepare == linear_prepare)
        append(method, "product");
    else if (image >= 0 && program_tensor(program, image)->shape.rank == 4)
        append(method, layout_word(program, image));
    if (node->input[0] >= 0 && program->compact[node->input[0]])
        append(method, "bfloat16");
    append_absorbed(program, index, method);
}

void cpu_program_describe(const struct backend_program *program, int32_t node,
                          struct node_description *description)
{
    *description = (struct node_description){.absorbed = program->nodes[node].absorbed,
                                             .tasks = program->tasks,
                                             .lanes = program_threads(program)};
    if (description->lanes > description->tasks)
        description->lanes = description->tasks;
    describe_method(program, node, description->method);
}
