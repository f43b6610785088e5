/* program.c: makes a program of a graph: chooses how images, weights and rounded numbers are
 * stored, prepares each node, and tells how much memory the program needs. */
#include "engine/backends/cpu/program.h"

#include "engine/graph/operator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The number of tasks, which depends on the graph alone. It is 1 where tasks would wait for each
 * other longer than they save, and grows with the work of a step. */
static const struct {
    double floating_point_operations; /* at least this many in one forward pass */
    int tasks;
} task_rules[] = {{200e6, 8}, {75e6, 4}, {1.5e6, 2}, {0, 1}};

static bool is_recurrent(const struct graph_node *node)
{
    return node->op == OP_RECURRENT || node->op == OP_RECURRENT_INT8;
}

static double multiplications(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_tensor *weight, *y;

    if (node->phase == GRAPH_FORWARD && node->op == OP_SELECTIVE_SCAN)
        return graph_node_operator(node)->flops(graph, node) / 2;
    if (node->phase != GRAPH_FORWARD || (graph_node_operator(node)->product != PRODUCT_FORWARD &&
                                         !is_recurrent(node) && node->op != OP_LINEAR_BYTES))
        return 0;
    weight = &graph->tensors[node->input[1]];
    /* of a recurrent layer the product of the state is as large as that of the input */
    y = &graph->tensors[is_recurrent(node) ? node->input[0] : node->output[0]];
    return (double)graph_shape_elements(&y->shape) * (double)graph_shape_elements(&weight->shape) /
           (double)weight->shape.extent[0];
}

int graph_parts(const struct backend_device *device, const struct graph *graph)
{
    double operations = 0;
    int i = 0, tasks = device->tasks;

    for (int32_t k = 0; k < graph->node_count; k++)
        operations += 2 * multiplications(graph, &graph->nodes[k]);
    while (operations < task_rules[i].floating_point_operations)
        i++;
    return tasks ? tasks : task_rules[i].tasks;
}

bool graph_slices_differ(const struct backend_device *device, const struct graph *graph)
{
    return slices_differ(graph->batch, graph_parts(device, graph));
}

/* Whether images are stored channels-last. They are if most of the work is in depthwise
 * convolutions and in those of 1x1, which are then products of matrices. Their channels (24, 40,
 * 72, 88, 112 …) do not fill blocks. The step of MobileNetV3-small on one core of a Sapphire Rapids
 * (tests/helpers/step_speed, 1 thread) takes 0.134 s in blocks and 0.036 s channels-last, that of
 * EfficientNet-B0 0.44 and 0.18 s, with the kernels of kernels/depthwise.c alone. Networks of 3x3
 * convolutions over whole blocks, such as ResNet-18, use Winograd's algorithm in blocks. */
bool graph_orders_channels_last(const struct backend_device *device, const struct graph *graph)
{
    char chosen = convolution_choice_order(device->direct_convolutions);
    double all = 0, last = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_CONV2D_INT8) /* of which oneDNN has no other order */
            return true;
    if (chosen)
        return chosen == CONVOLUTION_CHANNELS_LAST;
    if (device->image_order != IMAGES_BY_GRAPH)
        return device->image_order == IMAGES_CHANNELS_LAST;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const struct conv_attributes *a = &node->attributes.conv;

        if (node->op != OP_CONV2D)
            continue;
        all += multiplications(graph, node);
        if ((a->kernel[0] == 1 && a->kernel[1] == 1) ||
            a->groups == graph->tensors[node->output[0]].shape.extent[1])
            last += multiplications(graph, node);
    }
    return last > all / 2;
}

/* Whether all readers of the samples take images in any order: they are convolutions by
 * kernels of ours. To convert the samples into blocks would take as long as to read them. */
static bool keeps_samples_plain(const struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->input_count; k++)
            if (node->input[k] == graph->input &&
                (k > 0 || (node->op != OP_CONV2D && node->op != OP_CONV2D_BACKWARD_WEIGHTS) ||
                 operator_functions_of(program->device->operators, graph, node)->prepare !=
                     convolution_prepare ||
                 !convolution_reads_any_order(program_convolution_method(program, node))))
                return false;
    }
    return graph->input >= 0 && graph->compute_type == TENSOR_FLOAT32;
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* The tensor, or what it is another shape of. */
static int32_t before_reshapes(const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;

    while (producer >= 0 && graph->nodes[producer].op == OP_RESHAPE) {
        tensor = graph->nodes[producer].input[0];
        producer = graph->tensors[tensor].producer;
    }
    return tensor;
}

/* Whether a transposed convolution reads the samples: in the place of a convolution's result, which
 * cannot lie where the host has it. */
static bool input_is_transposed(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_CONV2D_BACKWARD_DATA &&
            before_reshapes(graph, graph->nodes[i].input[0]) == graph->input)
            return true;
    return false;
}

/* Whether the samples are converted into storage of their own, because they are images whose
 * channels lie side by side, or a transposed convolution reads them. All other input is read where
 * the host has it. */
static bool converts_input(const struct backend_program *program)
{
    int32_t input = program->graph->input;

    if (input < 0 || program->tiled)
        return false;
    return input_is_transposed(program->graph) ||
           (program_tensor(program, input)->shape.rank == 4 &&
            program_interleaves_channels(program, input));
}

void program_make_view(struct backend_program *program, int32_t node)
{
    int32_t x = program->graph->nodes[node].input[0], y = program->graph->nodes[node].output[0];

    program->nodes[node].absorbed = true;
    program->root[y] = program->root[x];
    program->alias[y] = program->root[x];
    program->tensor_bytes[y] = 0;
}

static void size_tensors(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        const struct onednn_layout *layout = program_parameter_layout(program, i);
        struct int8_packing packing;

        program->tensor_bytes[i] = layout ? onednn_layout_bytes(layout)
                                          : (size_t)graph_shape_elements(&tensor->shape) *
                                                program_element_bytes(program, i);
        if (program->alias[i] >= 0 ||
            (tensor->role == TENSOR_INPUT && !(i == graph->input && converts_input(program))))
            program->tensor_bytes[i] = 0;
        if (program_int8_packing(program, i, &packing))
            program->tensor_bytes[i] = int8_packing_bytes(&packing);
        if (program_is_unfolded(program, i))
            program->tensor_bytes[i] = tiles_unfolded_bytes(program, i);
    }
    /* which the recurrent layer behind computes in parts */
    for (int32_t i = 0; i < graph->node_count; i++)
        if (program->nodes[i].input_layer >= 0)
            program->tensor_bytes[graph->nodes[i].input[0]] = 0;
}

static struct backend_program *allocate_program(struct backend_device *device,
                                                const struct graph *graph)
{
    struct backend_program *program = calloc(1, sizeof(*program));
    size_t tensors = (size_t)graph->tensor_count + 1, nodes = (size_t)graph->node_count + 1;

    if (!program)
        return NULL;
    program->device = device;
    program->graph = graph;
    program->root = calloc(tensors, sizeof(*program->root));
    program->alias = calloc(tensors, sizeof(*program->alias));
    program->tensor_bytes = calloc(tensors, sizeof(*program->tensor_bytes));
    program->layout = calloc(tensors, sizeof(*program->layout));
    program->address = calloc(tensors, sizeof(*program->address));
    program->workspace = calloc(nodes, sizeof(*program->workspace));
    program->node_address = calloc(nodes, sizeof(*program->node_address));
    program->compact = calloc(tensors, sizeof(*program->compact));
    program->nodes = calloc(nodes, sizeof(*program->nodes));
    program->node_step = calloc(nodes, sizeof(*program->node_step));
    if (program->root && program->alias && program->tensor_bytes && program->layout &&
        program->address && program->workspace && program->node_address && program->compact &&
        program->nodes && program->node_step)
        return program;
    cpu_program_free(program);
    return NULL;
}

/* Takes over the layouts of the parameters of `shared`, found by name. Copies of parameters in
 * another type are this program's own. */
static int share_layouts(struct backend_program *program, const struct backend_program *shared)
{
    for (int32_t i = 0; i < shared->graph->tensor_count; i++) {
        const struct onednn_layout *layout = program_parameter_layout(shared, i);
        int32_t own = layout && graph_tensor_is_persistent(shared->graph, i)
                          ? graph_find_tensor(program->graph, shared->graph->tensors[i].name)
                          : -1;

        /* gradients, states and averages have their parameter's layout, but an average may be a
         * parameter here */
        if (own < 0 || program->graph->tensors[own].parameter >= 0)
            continue;
        program->layout[own] = malloc(sizeof(*program->layout[own]));
        if (!program->layout[own])
            return -ENOMEM;
        *program->layout[own] = *layout;
    }
    return 0;
}

static int prepare_node(struct backend_program *program, int32_t index, struct error *error)
{
    const struct operator_functions *functions = program->nodes[index].functions;

    return functions->prepare ? functions->prepare(program, index, error) : 0;
}

static bool is_convolution(const struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;

    return operator_functions_of(program->device->operators, graph, &graph->nodes[index])
               ->prepare == convolution_prepare;
}

/* Chooses which rounded numbers are stored as bfloat16: those for which every product that reads
 * them has an implementation with two bfloat16 operands. The others stay float32, and so do the
 * numbers that they are multiplied with. */
static void choose_compact(struct backend_program *program)
{
    const struct graph *graph = program->graph;
    bool changed = graph->compute_type == TENSOR_BFLOAT16 &&
                   program->device->native_types >> TENSOR_BFLOAT16 & 1;

    for (int32_t i = 0; i < graph->tensor_count; i++)
        program->compact[i] = changed && graph->tensors[i].type == TENSOR_BFLOAT16;
    for (int32_t i = 0; i < graph->node_count && program->tiled; i++)
        if (tiles_absorb_cast(program, &graph->nodes[i]))
            program->compact[graph->nodes[i].output[0]] = false;
    while (changed) {
        changed = false;
        for (int32_t i = 0; i < graph->node_count; i++) {
            const struct graph_node *node = &graph->nodes[i];
            bool *a = &program->compact[node->input[0]], *b;

            if (node->input_count < 2 || node->input[1] < 0)
                continue;
            b = &program->compact[node->input[1]];
            if ((!*a && !*b) ||
                (*a && *b &&
                 (!is_convolution(program, i) || convolution_takes_bfloat16(program, i))))
                continue;
            *a = *b = false;
            changed = true;
        }
    }
}

/* The order in which convolutions choose the layouts of their weights: the lowest rank first. */
static int layout_rank(const struct backend_program *program, int32_t index)
{
    if (winograd_suits(program, index))
        return 0;
    return program->graph->nodes[index].op == OP_CONV2D_BACKWARD_WEIGHTS ? 1 : 2;
}

/* Whether the operator reads its parameters however they lie. */
static bool reads_any_layout(enum graph_op op)
{
    return op == OP_CAST || op == OP_OPTIMIZER || op == OP_MOVING_AVERAGE;
}

/* Whether a node other than a convolution computes with the parameter's numbers. */
static bool is_read_otherwise(const struct backend_program *program, int32_t parameter)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->input_count; k++)
            if (node->input[k] == parameter && !reads_any_layout(node->op) &&
                !is_convolution(program, i))
                return true;
    }
    return false;
}

/* The weights of a convolution in the forward pass that other nodes read, too: layers of single
 * pixels that share them, and what is computed from them, such as the norms of weight norm. In
 * lower precision the convolution may read a copy. -1: there are none. */
static int32_t shared_weights(const struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    int32_t weights, producer;

    if (graph->nodes[index].phase != GRAPH_FORWARD || !is_convolution(program, index))
        return -1;
    weights = convolution_tensors(&graph->nodes[index]).weights;
    if (is_read_otherwise(program, weights))
        return weights;
    producer = graph->tensors[weights].producer;
    if (producer < 0 || graph->nodes[producer].op != OP_CAST)
        return -1;
    weights = graph->nodes[producer].input[0];
    return is_read_otherwise(program, weights) ? weights : -1;
}

static bool has_shared_weights(const struct backend_program *program)
{
    for (int32_t i = 0; i < program->graph->node_count; i++)
        if (shared_weights(program, i) >= 0)
            return true;
    return false;
}

/* Leaves such weights in PyTorch's order, in which the others read them. */
static int keep_shared_weights_plain(struct backend_program *program, struct error *error)
{
    int result = 0;

    for (int32_t i = 0; i < program->graph->node_count && !result; i++) {
        int32_t weights = shared_weights(program, i);
        const int64_t *extent, groups = program->graph->nodes[i].attributes.conv.groups;
        struct onednn_layout plain;

        if (weights < 0)
            continue;
        extent = program_tensor(program, weights)->shape.extent;
        onednn_layout_plain_weights(
            (int64_t[]){groups, extent[0] / groups, extent[1], extent[2], extent[3]}, &plain);
        result = program_choose_layout(program, weights, &plain, error);
    }
    return result;
}

static int prepare_nodes(struct backend_program *program, struct error *error)
{
    const struct graph *graph = program->graph;
    int result = 0;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        program->root[i] = i;
        program->alias[i] = -1;
    }
    result = program_fuse(program, error);
    choose_compact(program);
    if (!result)
        result = keep_shared_weights_plain(program, error);
    /* Winograd's kernels support one layout of the weights only, so they choose first. Then the
     * gradients of weights choose. */
    for (int rank = 0; rank < 3; rank++)
        for (int32_t i = graph->node_count; !result && i-- > 0;)
            if (is_convolution(program, i) && layout_rank(program, i) == rank)
                result = prepare_node(program, i, error);
    if (!result)
        size_tensors(program);
    for (int32_t i = 0; !result && i < graph->node_count; i++)
        if (!is_convolution(program, i))
            result = prepare_node(program, i, error);
    return result;
}

static int check_operators(const struct backend_device *device, const struct graph *graph,
                           struct error *error)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const struct operator_functions *functions =
            operator_functions_of(device->operators, graph, node);

        if (!functions->bind)
            return error_set(error, -ERROR_UNSUPPORTED, "%s: the CPU backend has no %s", node->name,
                             graph_op_to_string(node->op));
        if (node->adds && !functions->adds)
            return error_set(error, -ERROR_UNSUPPORTED,
                             "%s: the CPU backend has no %s that shares its parameter with "
                             "another layer",
                             node->name, graph_op_to_string(node->op));
    }
    return 0;
}

int cpu_program_prepare(struct backend_device *device, const struct graph *graph,
                        const struct backend_program *shared, struct backend_program **program,
                        struct error *error)
{
    struct backend_program *made;
    int result = check_operators(device, graph, error);

    if (result)
        return result;
    if (!(device->compute_types >> graph->compute_type & 1))
        return error_set(error, -ERROR_UNSUPPORTED, "this CPU does not calculate in %s",
                         tensor_type_to_string(graph->compute_type));
    made = allocate_program(device, graph);
    if (!made)
        return error_no_memory(error, "the program");
    made->parts = graph_parts(device, graph);
    made->tasks = made->parts < graph->batch ? made->parts : (int)graph->batch;
    /* A program that shares parameters uses tiles only if their layout was chosen for tiles. */
    made->tiled = device->tiles && graph->compute_type == TENSOR_BFLOAT16 &&
                  tiles_suit_graph(device->operators, graph) && !has_shared_weights(made) &&
                  (!shared || shared->tiled);
    made->channels_last = graph_orders_channels_last(device, graph);
    made->plain_samples = keeps_samples_plain(made);
    for (int32_t i = 0; i < graph->node_count; i++) {
        made->nodes[i] = (struct node_plan){.fused = -1,
                                            .addend = -1,
                                            .incoming = {-1, -1},
                                            .saved = -1,
                                            .bias = -1,
                                            .input_layer = -1};
        made->nodes[i].functions =
            operator_functions_of(device->operators, graph, &graph->nodes[i]);
        made->has_loss |= graph_node_operator(&graph->nodes[i])->is_loss;
    }
    if (shared && share_layouts(made, shared))
        result = error_no_memory(error, "the program");
    if (!result)
        result = prepare_nodes(made, error);
    if (result) {
        cpu_program_free(made);
        return result;
    }
    *program = made;
    return 0;
}

void cpu_program_free(struct backend_program *program)
{
    if (!program)
        return;
    for (int32_t i = 0; program->nodes && i < program->graph->node_count; i++)
        if (program->nodes[i].state)
            program->nodes[i].functions->release(program->nodes[i].state);
    for (int32_t i = 0; program->layout && i < program->graph->tensor_count; i++)
        free(program->layout[i]);
    free(program->root);
    free(program->alias);
    free(program->tensor_bytes);
    free(program->layout);
    free(program->address);
    free(program->workspace);
    free(program->node_address);
    free(program->compact);
    free(program->nodes);
    free(program->node_step);
    free(program->source_calls);
    free(program->steps);
    free(program->segments[0]);
    free(program->segments[1]);
    free(program);
}

void cpu_program_memory(const struct backend_program *program, struct memory_request *request)
{
    *request = (struct memory_request){.graph = program->graph,
                                       .tensor_bytes = program->tensor_bytes,
                                       .tensor_alias = program->alias,
                                       .node_workspace = program->workspace,
                                       .node_step = program->node_step,
                                       .shared_workspace = (size_t)program_threads(program) *
                                                           program->scratch_bytes};
}
