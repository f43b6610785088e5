/* program.c: prepares a graph for a GPU: how its tensors are stored, how much memory it needs, and
 * where they are. */
#include "base/alignment.h"
#include "engine/backends/cuda/general.h"
#include "engine/backends/cuda/muon.h"
#include "engine/backends/cuda/small_linear.h"
#include "engine/backends/cuda/squeeze_excite.h"
#include "engine/backends/cuda/transformer.h"
#include "engine/backends/kept_floats.h"
#include "engine/graph/operator.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_convolution(const struct graph_node *node)
{
    return graph_node_operator(node)->cost_class == COST_CONVOLUTION;
}

static bool is_attention(const struct graph_node *node)
{
    return node->op == OP_ATTENTION || node->op == OP_ATTENTION_BACKWARD;
}

static bool is_batch_norm(const struct graph_node *node)
{
    return node->op == OP_BATCH_NORM || node->op == OP_BATCH_NORM_BACKWARD;
}

static bool is_recurrent(const struct graph_node *node)
{
    return node->op == OP_RECURRENT || node->op == OP_RECURRENT_BACKWARD ||
           node->op == OP_RECURRENT_BACKWARD_WEIGHTS;
}

bool cuda_supports(struct backend_device *device, const struct graph *graph,
                   const struct graph_node *node, char *reason)
{
    struct error error = {0};

    if (!cuda_operator_of(node->op)) {
        snprintf(reason, 256, "the CUDA backend has no %s", graph_op_to_string(node->op));
        return false;
    }
    if (!attention_supports(graph, node, reason) || !general_supports(graph, node, reason))
        return false;
    if (node->adds && !cuda_operator_adds(node->op)) {
        snprintf(reason, 256, "the CUDA backend has no %s that shares its parameter",
                 graph_op_to_string(node->op));
        return false;
    }
    if (is_convolution(node) && convolution_open_library(device, &error) < 0) {
        snprintf(reason, 256, "%.255s", error.text);
        return false;
    }
    return true;
}

static int check_graph(struct backend_device *device, const struct graph *graph,
                       struct error *error)
{
    char reason[256];

    if (graph->group_count > CUDA_GROUPS_MAX)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "the CUDA backend has at most %d groups of parameters", CUDA_GROUPS_MAX);
    for (int32_t i = 0; i < graph->node_count; i++)
        if (!cuda_supports(device, graph, &graph->nodes[i], reason))
            return error_set(error, -ERROR_UNSUPPORTED, "%s: %s", graph->nodes[i].name, reason);
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
    program->stored = calloc(tensors, sizeof *program->stored);
    program->as_given = calloc(tensors, sizeof *program->as_given);
    program->address = calloc(tensors, sizeof *program->address);
    program->workspace_bytes = calloc(nodes, sizeof *program->workspace_bytes);
    program->workspace = calloc(nodes, sizeof *program->workspace);
    program->fusions = calloc(nodes, sizeof *program->fusions);
    program->image_fusions = calloc(nodes, sizeof *program->image_fusions);
    program->linears = calloc(nodes, sizeof *program->linears);
    program->muons = calloc(nodes, sizeof *program->muons);
    program->batch_products = calloc(nodes, sizeof *program->batch_products);
    program->convolutions = calloc(nodes, sizeof *program->convolutions);
    program->recurrents = calloc(nodes, sizeof *program->recurrents);
    program->attention_ways = calloc(nodes, sizeof *program->attention_ways);
    program->operators = calloc(nodes, sizeof *program->operators);
    program->node_step = calloc(nodes, sizeof *program->node_step);
    if (program->tensor_bytes && program->alias && program->stored && program->as_given &&
        program->address && program->workspace_bytes && program->workspace && program->fusions &&
        program->image_fusions && program->linears && program->muons && program->batch_products &&
        program->convolutions && program->recurrents && program->attention_ways &&
        program->operators && program->node_step)
        return program;
    cuda_program_free(program);
    return NULL;
}

/* ---- how tensors are stored ------------------------------------------------------------------ */

static void choose_types(struct backend_program *program)
{
    const struct graph *graph = program->graph;
    bool low = graph->compute_type == TENSOR_BFLOAT16 || graph->compute_type == TENSOR_FLOAT16;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *t = &graph->tensors[i];
        bool lowered = low && t->type == TENSOR_FLOAT32 && t->batched && i != graph->output &&
                       (t->role == TENSOR_ACTIVATION || i == graph->input);

        program->stored[i] = (uint8_t)(lowered ? graph->compute_type : t->type);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->output_count; k++)
            if (node_keeps_floats(node, k))
                program->stored[node->output[k]] = TENSOR_FLOAT32;
        if (graph_node_operator(node)->cost_class != COST_LOSS)
            continue;
        for (int k = 0; k < node->input_count; k++)
            program->stored[node->input[k]] = (uint8_t)graph->tensors[node->input[k]].type;
        for (int k = 0; k < node->output_count; k++)
            program->stored[node->output[k]] = (uint8_t)graph->tensors[node->output[k]].type;
    }
}

/* Parameters that are combined with rows of numbers, and what belongs to them. */
static void choose_orders(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        int32_t parameter = general_parameter(graph, &graph->nodes[i]);

        if (parameter >= 0)
            program->as_given[parameter] = true;
    }
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].parameter >= 0 && program->as_given[graph->tensors[i].parameter])
            program->as_given[i] = true;
}

struct cuda_layout program_layout(const struct backend_program *program, int32_t tensor)
{
    const struct graph_shape *shape = &program->graph->tensors[tensor].shape;

    if (!program_is_channels_last(program, tensor))
        return (struct cuda_layout){.channels = 1, .pixels = 1};
    return (struct cuda_layout){.channels = shape->extent[1],
                                .pixels = shape->extent[2] * shape->extent[3]};
}

static bool is_canonical(const struct backend_program *program, int32_t tensor)
{
    struct cuda_layout layout = program_layout(program, tensor);

    return layout.channels == 1 || layout.pixels == 1;
}

/* Whether the node's result is its operand as stored. */
static bool is_alias(const struct backend_program *program, const struct graph_node *node)
{
    if (!graph_node_operator(node)->is_view)
        return false;
    if (program->stored[node->input[0]] != program->stored[node->output[0]])
        return false;
    /* channels last, an image is its tokens */
    return node->op == OP_CAST || node->op == OP_IMAGE_TOKENS || node->op == OP_TOKEN_IMAGE ||
           (is_canonical(program, node->input[0]) && is_canonical(program, node->output[0]));
}

static size_t stored_bytes(const struct backend_program *program, int32_t tensor)
{
    return (size_t)program_elements(program, tensor) *
           tensor_type_bytes(program_stored_type(program, tensor));
}

/* The plan may store a result in place of an operand with as many cache lines. If their types
 * differ, one's elements overlap several of the other's. This makes the result larger, so that the
 * plan does not do that. */
static void keep_apart(struct backend_program *program, const struct graph_node *node)
{
    size_t *bytes = program->tensor_bytes;
    int32_t y = node->output[0];

    for (int k = 0; k < node->input_count; k++) {
        int32_t x = node->input[k];

        if (x < 0 || program->stored[x] == program->stored[y])
            continue;
        while (program->alias[x] >= 0)
            x = program->alias[x];
        if (align_up(bytes[x], MEMORY_ALIGNMENT) == align_up(bytes[y], MEMORY_ALIGNMENT)) {
            bytes[y] += MEMORY_ALIGNMENT;
            k = -1; /* start again: now it may be as large as another operand */
        }
    }
}

static bool samples_are_staged(const struct backend_program *program)
{
    int32_t input = program->graph->input;

    return program->graph->tensors[input].type == TENSOR_FLOAT32 &&
           (program->stored[input] != TENSOR_FLOAT32 || !is_canonical(program, input));
}

static size_t operator_workspace(const struct backend_program *program, int32_t node)
{
    return program->convolutions[node]
               ? convolution_workspace(program, node)
               : cuda_operator_workspace(program->graph, &program->graph->nodes[node]);
}

/* The end of the first node's own workspace. The samples are staged behind it. They are read before
 * that node begins, but its results must not be stored there while they are converted. */
static size_t staging_offset(const struct backend_program *program)
{
    return align_up(operator_workspace(program, 0), MEMORY_ALIGNMENT);
}

static cuda_operator *program_operator(const struct graph *graph, const struct graph_node *node)
{
    enum graph_op pass = linear_pass(graph, node);

    return cuda_operator_of(pass == OP_COUNT ? node->op : pass);
}

static void size_program(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        program->alias[i] = -1;
        program->tensor_bytes[i] = stored_bytes(program, i);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        program->operators[i] = program_operator(graph, node);
        program->node_step[i] = i;
        program->workspace_bytes[i] = operator_workspace(program, i);
        program->has_loss |= graph_node_operator(node)->is_loss;
        if (is_alias(program, node)) {
            program->alias[node->output[0]] = node->input[0];
            program->tensor_bytes[node->output[0]] = 0;
        } else if (node->output_count) {
            keep_apart(program, node);
        }
    }
    if (samples_are_staged(program))
        program->workspace_bytes[0] =
            staging_offset(program) +
            (size_t)program_elements(program, graph->input) * sizeof(float);
}

static int prepare_convolutions(struct backend_program *program, struct error *error)
{
    int r = 0;

    for (int32_t i = 0; r == 0 && i < program->graph->node_count; i++)
        if (is_convolution(&program->graph->nodes[i]) &&
            linear_pass(program->graph, &program->graph->nodes[i]) == OP_COUNT)
            r = convolution_prepare(program, i, error);
    convolution_end_search(program->device);
    return r;
}

static int take_control(struct backend_program *program, struct error *error)
{
    struct backend_device *device = program->device;

    for (int i = 0; i < CUDA_PROGRAMS_MAX; i++) {
        if (device->control_used[i])
            continue;
        device->control_used[i] = true;
        program->control = &device->controls[i];
        /* another program may have used it */
        cudaMemsetAsync(program->control, 0, sizeof *program->control, device->stream);
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

    if (r < 0)
        return r;
    made = allocate_program(device, graph);
    if (!made)
        return error_no_memory(error, "the program");
    choose_types(made);
    choose_orders(made);
    r = squeeze_choose(made, error);
    if (r == 0)
        r = small_choose(made, error);
    if (r == 0) {
        program_find_image_fusions(made);
        r = prepare_convolutions(made, error);
    }
    if (r == 0) {
        size_program(made);
        squeeze_apply(made);
        r = program_apply_image_fusions(made, error);
    }
    if (r == 0) {
        small_prepare(made);
        r = program_fuse_norms(made, error);
        program_apply_gates(made);
        program_fuse_casts(made);
        small_gather_weights(made);
    }
    if (r == 0)
        r = take_control(made, error);
    if (r == 0) /* everything else has one layout in all programs */
        made->loss_scale = shared ? shared->loss_scale : &made->control->loss_scale;
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        if (squeeze_computes(made, i))
            continue;
        if (linear_pass(graph, &graph->nodes[i]) != OP_COUNT && !small_is_chosen(made, i))
            r = linear_prepare(made, i, error);
        else if (graph_node_updates_matrix(graph, &graph->nodes[i]))
            r = muon_prepare(made, i, error);
        else if (is_recurrent(&graph->nodes[i]))
            r = recurrent_prepare(made, i, error);
        else if (is_attention(&graph->nodes[i]))
            r = attention_prepare(made, i, error);
        else if (is_batch_norm(&graph->nodes[i]))
            r = norm_prepare(made, i, error);
        else if (graph->nodes[i].op == OP_BATCH_PRODUCT)
            batch_product_prepare(made, i);
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
    for (int32_t i = 0; program->linears && i < program->graph->node_count; i++)
        linear_free(program->linears[i]);
    for (int32_t i = 0; program->muons && i < program->graph->node_count; i++)
        muon_free(program->muons[i]);
    for (int32_t i = 0; program->convolutions && i < program->graph->node_count; i++)
        convolution_free(program->convolutions[i]);
    for (int32_t i = 0; program->batch_products && i < program->graph->node_count; i++)
        product_free(program->batch_products[i]);
    for (int32_t i = 0; program->recurrents && i < program->graph->node_count; i++)
        recurrent_free(program->recurrents[i]);
    if (program->control)
        program->device->control_used[program->control - program->device->controls] = false;
    small_free(program->small);
    profile_free(program);
    free(program->items);
    free(program->other_items);
    free(program->tensor_bytes);
    free(program->alias);
    free(program->stored);
    free(program->as_given);
    free(program->address);
    free(program->workspace_bytes);
    free(program->workspace);
    free(program->linears);
    free(program->muons);
    free(program->batch_products);
    free(program->convolutions);
    free(program->recurrents);
    free(program->attention_ways);
    free(program->operators);
    free(program->node_step);
    free(program->fusions);
    free(program->image_fusions);
    free(program->touches);
    free(program->squeezes);
    free(program);
}

void cuda_program_memory(const struct backend_program *program, struct memory_request *request)
{
    *request =
        (struct memory_request){.graph = program->graph,
                                .tensor_bytes = program->tensor_bytes,
                                .tensor_alias = program->alias,
                                .node_workspace = program->workspace_bytes,
                                .node_step = program->node_step,
                                .touches = program->touches,
                                .touch_count = program->touch_count,
                                .shared_workspace = CUDA_PRODUCT_SCRATCH + CUDA_SCRATCH_ALIGNMENT};
}

int cuda_program_bind(struct backend_program *program, const struct memory_placement *placement,
                      struct backend_buffer *buffer, struct error *error)
{
    const struct graph *graph = program->graph;

    if (!buffer->start) /* this is a rehearsal without memory */
        return 0;
    program->buffer = buffer;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        size_t offset = placement->tensor_offset[i];

        if (program->alias[i] >= 0 || offset == SIZE_MAX)
            continue;
        if (offset + program->tensor_bytes[i] > buffer->bytes)
            return error_set(error, -EINVAL, "the memory plan does not fit into the buffer");
        program->address[i] = buffer->start + offset;
    }
    for (int32_t i = 0; i < graph->tensor_count; i++) { /* an alias may be the alias of an alias */
        int32_t root = i;

        while (program->alias[root] >= 0)
            root = program->alias[root];
        program->address[i] = program->address[root];
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (program->workspace_bytes[i])
            program->workspace[i] = buffer->start + placement->workspace_offset[i];
    if (samples_are_staged(program))
        program->staging = program->workspace[0] + staging_offset(program);
    /* the buffer itself is aligned to 256 */
    program->scratch =
        buffer->start + align_up(placement->shared_workspace_offset, CUDA_SCRATCH_ALIGNMENT);
    return update_prepare(program, error);
}
