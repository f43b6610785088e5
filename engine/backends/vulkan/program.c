/* program.c: prepares a graph: how much memory it needs, and where its tensors are. */
#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/operators.h"
#include "engine/graph/operator.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool vulkan_supports(struct backend_device *device, const struct graph *graph,
                     const struct graph_node *node, char *reason)
{
    (void)device;
    if (!vulkan_operator_of(node->op)) {
        snprintf(reason, 256, "the Vulkan backend has no %s", graph_op_to_string(node->op));
        return false;
    }
    if (node->adds && !vulkan_operator_adds(node->op)) {
        snprintf(reason, 256, "the Vulkan backend has no %s that shares its parameter",
                 graph_op_to_string(node->op));
        return false;
    }
    if (node->op == OP_OPTIMIZER) {
        const struct optimizer_config *config =
            &graph->groups[node->attributes.optimizer_group].config;

        if (update_formula_of(config->kind) == FORMULA_NONE) {
            snprintf(reason, 256, "the Vulkan backend has no update by %s",
                     optimizer_of(config)->title);
            return false;
        }
    }
    return true;
}

static int check_graph(struct backend_device *device, const struct graph *graph,
                       struct error *error)
{
    char reason[256];

    if (!types_support(device, graph->compute_type, reason))
        return error_set(error, -ERROR_UNSUPPORTED, "%s", reason);
    for (int32_t i = 0; i < graph->node_count; i++)
        if (!vulkan_supports(device, graph, &graph->nodes[i], reason))
            return error_set(error, -ERROR_UNSUPPORTED, "%s: %s", graph->nodes[i].name, reason);
    for (int32_t i = 0; i < graph->tensor_count; i++) /* shaders count elements in 32 bits */
        if (graph_shape_elements(&graph->tensors[i].shape) > INT32_MAX)
            return error_set(error, -ERROR_UNSUPPORTED,
                             "the Vulkan backend has tensors of at most %d numbers, and %s has "
                             "%lld",
                             INT32_MAX, graph->tensors[i].name,
                             (long long)graph_shape_elements(&graph->tensors[i].shape));
    return 0;
}

static struct backend_program *allocate_program(struct backend_device *device,
                                                const struct graph *graph)
{
    struct backend_program *program = calloc(1, sizeof *program);
    size_t tensors = (size_t)graph->tensor_count + 1, nodes = (size_t)graph->node_count + 1;

    if (!program)
        return NULL;
    program->device = device;
    program->graph = graph;
    program->tensor_bytes = calloc(tensors, sizeof *program->tensor_bytes);
    program->stored = calloc(tensors, sizeof *program->stored);
    program->alias = calloc(tensors, sizeof *program->alias);
    program->address = calloc(tensors, sizeof *program->address);
    program->workspace_bytes = calloc(nodes, sizeof *program->workspace_bytes);
    program->workspace = calloc(nodes, sizeof *program->workspace);
    program->fusions = calloc(nodes, sizeof *program->fusions);
    program->node_step = calloc(nodes, sizeof *program->node_step);
    if (program->tensor_bytes && program->stored && program->alias && program->address &&
        program->workspace_bytes && program->workspace && program->fusions && program->node_step)
        return program;
    vulkan_program_free(program);
    return NULL;
}

static void size_program(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        program->alias[i] = -1;
        program->tensor_bytes[i] =
            (size_t)program_elements(program, i) * tensor_type_bytes(program->stored[i]);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        program->workspace_bytes[i] = vulkan_operator_workspace(program, node);
        program->has_loss |= graph_node_operator(node)->is_loss;
        if ((node->op == OP_RESHAPE || node->op == OP_CAST) &&
            program->stored[node->input[0]] == program->stored[node->output[0]]) {
            program->alias[node->output[0]] = node->input[0];
            program->tensor_bytes[node->output[0]] = 0;
        }
    }
}

static size_t control_bytes(const struct backend_program *program)
{
    return sizeof(struct shader_control) + (size_t)program->square_count * sizeof(float[2]);
}

VkDeviceAddress program_scalars(const struct backend_program *program)
{
    return program->control.address + control_bytes(program);
}

static int create_control(struct backend_program *program, struct error *error)
{
    program->square_count = update_squares(program->graph);
    return vulkan_memory_allocate(program->device,
                                  control_bytes(program) + exchange_scalars_bytes(program), false,
                                  &program->control, error);
}

int vulkan_program_prepare(struct backend_device *device, const struct graph *graph,
                           const struct backend_program *shared, struct backend_program **program,
                           struct error *error)
{
    struct backend_program *made;
    int r = check_graph(device, graph, error);

    (void)shared; /* tensors lie in PyTorch's order in all programs */
    if (r < 0)
        return r;
    made = allocate_program(device, graph);
    if (!made)
        return error_no_memory(error, "the program");
    matrices_check(device, graph->compute_type);
    types_choose(made);
    size_program(made);
    r = program_fuse(made, error);
    if (r == 0)
        r = create_control(made, error);
    if (r == 0)
        r = exchange_create(made, error);
    if (r < 0) {
        vulkan_program_free(made);
        return r;
    }
    *program = made;
    return 0;
}

void vulkan_program_free(struct backend_program *program)
{
    if (!program)
        return;
    program_collect(program, NULL);
    for (int i = 0; i < program->capture_count; i++)
        for (int k = 0; k < VULKAN_SLOTS; k++)
            queue_discard(program->device, program->captures[i].commands[k]);
    vulkan_memory_free(program->device, &program->exchange);
    vulkan_memory_free(program->device, &program->control);
    free(program->tensor_bytes);
    free(program->stored);
    free(program->alias);
    free(program->address);
    free(program->workspace_bytes);
    free(program->workspace);
    free(program->fusions);
    free(program->node_step);
    free(program);
}

void vulkan_program_memory(const struct backend_program *program, struct memory_request *request)
{
    *request = (struct memory_request){.graph = program->graph,
                                       .tensor_bytes = program->tensor_bytes,
                                       .tensor_alias = program->alias,
                                       .node_workspace = program->workspace_bytes,
                                       .node_step = program->node_step};
}

int vulkan_program_bind(struct backend_program *program, const struct memory_placement *placement,
                        struct backend_buffer *buffer, struct error *error)
{
    const struct graph *graph = program->graph;

    program->buffer = buffer;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        size_t offset = placement->tensor_offset[i];

        if (program->alias[i] >= 0 || offset == SIZE_MAX)
            continue;
        if (offset + program->tensor_bytes[i] > buffer->memory.bytes)
            return error_set(error, -EINVAL, "the memory plan does not fit into the buffer");
        program->address[i] = buffer->memory.address + offset;
    }
    for (int32_t i = 0; i < graph->tensor_count; i++) { /* an alias may be the alias of an alias */
        int32_t root = i;

        while (program->alias[root] >= 0)
            root = program->alias[root];
        program->address[i] = program->address[root];
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (program->workspace_bytes[i])
            program->workspace[i] = buffer->memory.address + placement->workspace_offset[i];
    return program_rehearse(program, error);
}
