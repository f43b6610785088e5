/* program.c: a graph on a GPU: what it needs, where it lies, its tensors written and read. Every
 * tensor lies in PyTorch's shape, row-major. */
#include "engine/backends/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cuda_supports(struct backend_device *device, const struct graph *graph,
                   const struct graph_node *node, char *reason)
{
    (void)device;
    if (!cuda_operator_of(node->op)) {
        snprintf(reason, 256, "the CUDA backend has no %s", graph_op_to_string(node->op));
        return false;
    }
    if (node->op == OP_OPTIMIZER &&
        graph->groups[node->attributes.optimizer_group].config.kind == OPTIMIZER_MUON) {
        snprintf(reason, 256, "the CUDA backend has no Muon");
        return false;
    }
    return true;
}

static int check_graph(struct backend_device *device, const struct graph *graph,
                       struct error *error)
{
    char reason[256];

    if (graph->compute_type != TENSOR_FLOAT32)
        return error_set(error, -ENOTSUP, "the CUDA backend does not calculate in %s",
                         tensor_type_to_string(graph->compute_type));
    if (graph->group_count > CUDA_GROUPS_MAX)
        return error_set(error, -ENOTSUP, "the CUDA backend has at most %d groups of parameters",
                         CUDA_GROUPS_MAX);
    for (int32_t i = 0; i < graph->node_count; i++)
        if (!cuda_supports(device, graph, &graph->nodes[i], reason))
            return error_set(error, -ENOTSUP, "%s: %s", graph->nodes[i].name, reason);
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
    program->alias = calloc(tensors, sizeof *program->alias);
    program->address = calloc(tensors, sizeof *program->address);
    program->workspace_bytes = calloc(nodes, sizeof *program->workspace_bytes);
    program->workspace = calloc(nodes, sizeof *program->workspace);
    program->products = calloc(nodes, sizeof *program->products);
    if (program->tensor_bytes && program->alias && program->address && program->workspace_bytes &&
        program->workspace && program->products)
        return program;
    cuda_program_free(program);
    return NULL;
}

static void size_program(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        program->alias[i] = -1;
        program->tensor_bytes[i] =
            (size_t)program_elements(program, i) * tensor_type_bytes(graph->tensors[i].type);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        program->workspace_bytes[i] = cuda_operator_workspace(graph, node);
        program->has_loss |= node->op == OP_CROSS_ENTROPY || node->op == OP_MSE;
        if (node->op != OP_RESHAPE)
            continue;
        program->alias[node->output[0]] = node->input[0];
        program->tensor_bytes[node->output[0]] = 0;
    }
}

static int take_control(struct backend_program *program, struct error *error)
{
    struct backend_device *device = program->device;

    for (int i = 0; i < CUDA_PROGRAMS_MAX; i++) {
        if (device->control_used[i])
            continue;
        device->control_used[i] = true;
        program->control = &device->controls[i];
        return 0;
    }
    return error_set(error, -ENOSPC, "more than %d programs on one GPU", CUDA_PROGRAMS_MAX);
}

int cuda_program_prepare(struct backend_device *device, const struct graph *graph,
                         const struct backend_program *shared, struct backend_program **program,
                         struct error *error)
{
    struct backend_program *made;
    int r = check_graph(device, graph, error);

    (void)shared; /* there is one layout */
    if (r < 0)
        return r;
    made = allocate_program(device, graph);
    if (!made)
        return error_set(error, -ENOMEM, "no memory for the program");
    size_program(made);
    r = take_control(made, error);
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        enum graph_op op = graph->nodes[i].op;

        if (op == OP_LINEAR || op == OP_LINEAR_BACKWARD_DATA || op == OP_LINEAR_BACKWARD_WEIGHTS)
            r = linear_prepare(made, i, error);
    }
    if (r < 0) {
        cuda_program_free(made);
        return r;
    }
    *program = made;
    return 0;
}

void cuda_program_free(struct backend_program *program)
{
    if (!program)
        return;
    for (int i = 0; i < program->capture_count; i++)
        cudaGraphExecDestroy(program->captures[i].graph);
    for (int32_t i = 0; program->products && i < program->graph->node_count; i++)
        product_free(program->products[i]);
    if (program->control)
        program->device->control_used[program->control - program->device->controls] = false;
    free(program->items);
    free(program->tensor_bytes);
    free(program->alias);
    free(program->address);
    free(program->workspace_bytes);
    free(program->workspace);
    free(program->products);
    free(program);
}

void cuda_program_memory(const struct backend_program *program, struct memory_request *request)
{
    *request =
        (struct memory_request){.graph = program->graph,
                                .tensor_bytes = program->tensor_bytes,
                                .tensor_alias = program->alias,
                                .node_workspace = program->workspace_bytes,
                                .shared_workspace = CUDA_PRODUCT_SCRATCH + CUDA_SCRATCH_ALIGNMENT};
}

int cuda_program_bind(struct backend_program *program, const struct memory_placement *placement,
                      struct backend_buffer *buffer, struct error *error)
{
    const struct graph *graph = program->graph;
    size_t scratch;

    if (!buffer->start) /* a rehearsal */
        return 0;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        size_t offset = placement->tensor_offset[i];

        if (program->alias[i] >= 0 || offset == SIZE_MAX)
            continue;
        if (offset + program->tensor_bytes[i] > buffer->bytes)
            return error_set(error, -EINVAL, "the memory plan does not fit into the buffer");
        program->address[i] = buffer->start + offset;
    }
    for (int32_t i = 0; i < graph->tensor_count; i++) { /* aliases of aliases, too */
        int32_t root = i;

        while (program->alias[root] >= 0)
            root = program->alias[root];
        program->address[i] = program->address[root];
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (program->workspace_bytes[i])
            program->workspace[i] = buffer->start + placement->workspace_offset[i];
    /* the buffer itself is aligned to 256 */
    scratch = placement->shared_workspace_offset + CUDA_SCRATCH_ALIGNMENT - 1;
    program->scratch = buffer->start + scratch / CUDA_SCRATCH_ALIGNMENT * CUDA_SCRATCH_ALIGNMENT;
    return update_prepare(program, error);
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

static int copy_tensor(struct backend_program *program, int32_t tensor, void *canonical, bool write,
                       struct error *error)
{
    const struct graph_tensor *t = &program->graph->tensors[tensor];
    size_t bytes = (size_t)graph_shape_elements(&t->shape) * tensor_type_bytes(t->type);
    cudaStream_t stream = program->device->stream;
    char *place = program->address[tensor];
    cudaError_t status;

    if (!place)
        return error_set(error, -EINVAL, "the tensor %s has no place on the device", t->name);
    status = write ? cudaMemcpyAsync(place, canonical, bytes, cudaMemcpyHostToDevice, stream)
                   : cudaMemcpyAsync(canonical, place, bytes, cudaMemcpyDeviceToHost, stream);
    if (status == cudaSuccess)
        status = cudaStreamSynchronize(stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, t->name);
}

int cuda_tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                      struct error *error)
{
    if (program->graph->tensors[tensor].role == TENSOR_INPUT)
        return error_set(error, -EINVAL, "input is set by program_set_input, not tensor_write");
    return copy_tensor(program, tensor, (void *)canonical, true, error);
}

int cuda_tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                     struct error *error)
{
    return copy_tensor(program, tensor, canonical, false, error);
}
