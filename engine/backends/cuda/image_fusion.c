/* image_fusion.c: nodes that a neighbour does along with its own work, so that what passes between
 * them is neither written nor read:
 *
 *   convolution with a bias -> activation              one pass over the convolution's result
 *   convolution -> ReLU -> maximum pool                the same, which leaves the maxima alone:
 * where one is not above zero its window has no position, so that ReLU backward is the pool's, too
 *   activation backward -> convolution backward        the gradient of the bias is added up in the
 *       pass that makes the gradient by the convolution's result, or of the pool's own gradients
 *   channel scale backward, average pool backward -> add    squeeze and excite: one pass makes the
 *       gradient by what both have read
 *
 * An absorbed node launches nothing. What a pass reads or writes of other nodes' is touched by its
 * own node, so that it lives until then (struct memory_request). Found before algorithms of
 * convolutions are chosen, applied once tensors have their bytes. */
#include "engine/backends/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>

static bool stored_alike(const struct backend_program *program, int32_t a, int32_t b)
{
    return program->stored[a] == program->stored[b];
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The node of that operator that reads the tensor first and foremost in the node's own phase, where
 * all other readers are of `backward`; *others: how many of them. -1: there is none, or others. */
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

/* The maximum pool behind the ReLU `activation` whose result nobody else needs, or -1;
 * *pool_backward and *relu_backward: their gradients, -1 where there are none. */
static int32_t find_pool(const struct backend_program *program, int32_t index, int32_t activation,
                         int32_t *pool_backward, int32_t *relu_backward)
{
    const struct graph *graph = program->graph;
    int32_t z = graph->nodes[activation].output[0];
    int others;
    int32_t pool =
        find_reader(graph, index, z, OP_MAX_POOL2D, OP_ACTIVATION_BACKWARD, relu_backward, &others);
    const struct graph_node *node = pool < 0 ? NULL : &graph->nodes[pool];

    *pool_backward = -1;
    if (!node || !stored_alike(program, z, node->output[0]) ||
        node->attributes.conv.kernel[0] * node->attributes.conv.kernel[1] >= CUDA_POOL_NOWHERE)
        return -1;
    if (node->output_count < 2)
        return others == 0 ? pool : -1;
    *pool_backward = graph_single_reader(graph, node->output[1]);
    if (others != 1 || *pool_backward < 0 ||
        graph->nodes[*pool_backward].op != OP_MAX_POOL2D_BACKWARD ||
        graph_single_reader(graph, graph->nodes[*pool_backward].output[0]) != *relu_backward ||
        graph->nodes[*relu_backward].input[0] != graph->nodes[*pool_backward].output[0] ||
        !stored_alike(program, graph->nodes[*pool_backward].output[0],
                      graph->nodes[*relu_backward].output[0]))
        return -1;
    return pool;
}

/* The node by the weights, with a bias, of the convolution by whose result `gradient` is; or -1. */
static int32_t find_bias_reader(const struct backend_program *program, int32_t gradient)
{
    const struct graph *graph = program->graph;

    for (int32_t i = graph_next_reader(graph, gradient, 0); i >= 0;
         i = graph_next_reader(graph, gradient, i + 1)) {
        const struct graph_node *node = &graph->nodes[i];
        int32_t found = -1;

        if (node->op == OP_CAST && stored_alike(program, node->output[0], gradient))
            found = find_bias_reader(program, node->output[0]);
        else if (node->op == OP_CONV2D_BACKWARD_WEIGHTS && node->input[1] == gradient &&
                 node->output_count > 1 && node->output[1] >= 0 &&
                 linear_pass(graph, node) == OP_COUNT)
            found = i;
        if (found >= 0)
            return found;
    }
    return -1;
}

/* `by`, which makes the gradient by the convolution's result that `gradient`
 * is, adds up the bias'. */
static void find_bias(struct backend_program *program, int32_t by, int32_t gradient)
{
    int32_t weights = find_bias_reader(program, gradient);

    if (weights < 0 || program->image_fusions[weights].leaves_bias)
        return;
    program->image_fusions[weights].leaves_bias = true;
    program->image_fusions[by].bias_gradient = program->graph->nodes[weights].output[1];
}

static void find_behind_convolution(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index];
    struct image_fusion *fusion = &program->image_fusions[index];
    int32_t pool_backward = -1, relu_backward = -1, last;
    int others;
    int32_t activation = find_reader(graph, index, node->output[0], OP_ACTIVATION,
                                     OP_ACTIVATION_BACKWARD, &last, &others);
    bool has_bias = node->input_count > 2 && node->input[2] >= 0;

    if (node->op != OP_CONV2D || linear_pass(graph, node) != OP_COUNT || activation < 0 ||
        !stored_alike(program, node->output[0], graph->nodes[activation].output[0]))
        return;
    if (graph->nodes[activation].attributes.activation == ACTIVATION_RELU && others == 0)
        fusion->pool = find_pool(program, index, activation, &pool_backward, &relu_backward);
    if (fusion->pool < 0 && !has_bias)
        return;
    fusion->activation = activation;
    fusion->keeps = others > 0;
    if (fusion->pool < 0 || pool_backward < 0)
        return;
    fusion->pool_backward = pool_backward;
    fusion->relu_backward = relu_backward;
    find_bias(program, pool_backward, graph->nodes[relu_backward].output[0]);
}

/* ---- squeeze and excite ---------------------------------------------------------------------- */

static bool is_global_pool(const struct graph *graph, const struct graph_node *node)
{
    const int64_t *large = graph->tensors[node->output[0]].shape.extent;
    const int64_t *small = graph->tensors[node->input[0]].shape.extent;

    return small[2] == 1 && small[3] == 1 && node->attributes.conv.kernel[0] == large[2] &&
           node->attributes.conv.kernel[1] == large[3];
}

static void find_sum(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    const struct graph_node *sum = &graph->nodes[index];
    struct image_fusion *fusion = &program->image_fusions[index];

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
            !stored_alike(program, graph->nodes[scaled].input[0], sum->output[0]))
            continue;
        fusion->scaled = scaled;
        fusion->pooled = pooled;
        program->image_fusions[scaled].sums_alone = true;
        return;
    }
}

void program_find_image_fusions(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++)
        program->image_fusions[i] = (struct image_fusion){.activation = -1,
                                                          .pool = -1,
                                                          .pool_backward = -1,
                                                          .relu_backward = -1,
                                                          .bias_gradient = -1,
                                                          .scaled = -1,
                                                          .pooled = -1};
    for (int32_t i = 0; i < graph->node_count; i++) {
        find_behind_convolution(program, i);
        find_sum(program, i);
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_ACTIVATION_BACKWARD)
            find_bias(program, i, graph->nodes[i].output[0]);
}

/* ---- what that changes ----------------------------------------------------------------------- */

static void touch(struct backend_program *program, int32_t tensor, int32_t node)
{
    program->touches[program->touch_count++] = (struct memory_touch){tensor, node};
}

static void absorb(struct backend_program *program, int32_t node, int32_t by)
{
    program->operators[node] = cuda_nothing;
    program->node_step[node] = by;
}

static void lie_with(struct backend_program *program, int32_t tensor, int32_t other)
{
    while (program->alias[other] >= 0)
        other = program->alias[other];
    program->alias[tensor] = other;
    program->tensor_bytes[tensor] = 0;
}

static void apply_behind_convolution(struct backend_program *program, int32_t index)
{
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct graph_node *nodes = program->graph->nodes;

    absorb(program, fusion->activation, index);
    if (fusion->pool >= 0) {
        absorb(program, fusion->pool, index);
        program->tensor_bytes[nodes[fusion->activation].output[0]] = 0;
    } else if (!fusion->keeps) {
        lie_with(program, nodes[fusion->activation].output[0], nodes[index].output[0]);
    }
    if (fusion->relu_backward >= 0) {
        absorb(program, fusion->relu_backward, fusion->pool_backward);
        lie_with(program, nodes[fusion->relu_backward].output[0],
                 nodes[fusion->pool_backward].output[0]);
    }
}

static void apply_sum(struct backend_program *program, int32_t index)
{
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct graph_node *scaled = &program->graph->nodes[fusion->scaled];
    const struct graph_node *pooled = &program->graph->nodes[fusion->pooled];

    program->operators[index] = channel_scale_sum_run;
    program->operators[fusion->pooled] = cuda_nothing;
    program->tensor_bytes[scaled->output[0]] = program->tensor_bytes[pooled->output[0]] = 0;
    touch(program, scaled->input[0], index);
    touch(program, scaled->input[2], index);
    touch(program, pooled->input[0], index);
}

int program_apply_image_fusions(struct backend_program *program, struct error *error)
{
    enum { TOUCHES_OF_NODE = 3 };
    const struct graph *graph = program->graph;

    program->touches =
        calloc((size_t)graph->node_count * TOUCHES_OF_NODE + 1, sizeof *program->touches);
    if (!program->touches)
        return error_no_memory(error, "the program");
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct image_fusion *fusion = &program->image_fusions[i];

        if (fusion->activation >= 0)
            apply_behind_convolution(program, i);
        if (fusion->scaled >= 0)
            apply_sum(program, i);
        if (fusion->bias_gradient >= 0)
            touch(program, fusion->bias_gradient, i);
        if (fusion->bias_gradient >= 0 && graph->nodes[i].op == OP_ACTIVATION_BACKWARD)
            program->operators[i] = activation_sum_run;
    }
    return 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static cudaError_t add_up(struct backend_program *program, struct cuda_channel_sum *sum,
                          int32_t tensor, int32_t bias_gradient)
{
    const int64_t *extent = program->graph->tensors[tensor].shape.extent;

    sum->rows = extent[0] * extent[2] * extent[3];
    sum->channels = extent[1];
    sum->accumulate = program->run.accumulate;
    sum->sum = program_floats(program, bias_gradient);
    sum->parts = (float *)program->scratch;
    return cuda_channel_sum(sum, program->device->stream);
}

int channel_sum_run(struct backend_program *program, int32_t index, int32_t gradient,
                    int32_t position, int32_t bias_gradient, struct error *error)
{
    struct cuda_channel_sum sum = {
        .x = program_array(program, gradient),
        .kind = -1,
        .position = position < 0 ? NULL : (const uint8_t *)program->address[position]};
    cudaError_t status = add_up(program, &sum, gradient, bias_gradient);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, program->graph->nodes[index].name);
}

int activation_sum_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_channel_sum sum = {.x = program_array(program, node->input[0]),
                                   .kind = (int)node->attributes.activation,
                                   .saved = program_array(program, node->input[1]),
                                   .result = program_array(program, node->output[0])};
    cudaError_t status =
        add_up(program, &sum, node->output[0], program->image_fusions[index].bias_gradient);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

int channel_scale_sum_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_node *scaled = &program->graph->nodes[fusion->scaled];
    const struct graph_node *pooled = &program->graph->nodes[fusion->pooled];
    const struct cuda_layout layout = program_layout(program, node->output[0]);
    cudaError_t status = cuda_channel_scale_gradient(
        program_array(program, scaled->input[0]), program_array(program, scaled->input[2]),
        program_array(program, pooled->input[0]), program_array(program, node->output[0]),
        program->graph->batch, layout.pixels, layout.channels, program->device->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
