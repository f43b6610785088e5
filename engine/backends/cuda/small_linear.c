/* small_linear.c: decides which linear layers kernels/small_linear.cu computes, and which nodes
 * vanish in their launches:
 *
 *   forward    a linear layer with the activation that reads it
 *   head       the last one with softmax cross entropy, forward and backward, and the gradient by
 *              its samples with the derivative of the activation before it
 *   backward   the gradient by a layer's samples with the derivative of the activation before it
 *   weights    those of all layers, at the end of the backward part, with their updates
 *
 * Casts whose results only such layers read vanish, too: their kernels round operands
 * themselves. */
#include "engine/backends/cuda/small_linear.h"

#include "base/alignment.h"
#include "engine/backends/cuda/choices.h"
#include "engine/backends/cuda/linear_search.h"
#include "engine/backends/cuda/squeeze_excite.h"

#include <stdlib.h>
#include <string.h>

enum { LOSSES_ALIGNMENT = 16 };

/* One for each node. */
struct small_node {
    enum graph_op pass; /* linear_pass() */
    bool chosen;        /* it is computed here */
    int32_t result;     /* the tensor that the node writes */
    int32_t activation; /* the node that is computed along with it, or -1 */
};

struct small_linear {
    struct small_node *nodes;
    int32_t head;         /* the node of the last layer, which is computed with its loss; or -1 */
    enum linear_head way; /* how the head is computed */
    int32_t loss, dloss;  /* the nodes of the loss and its gradient; dloss -1: forward alone */
    /* the node of the gradient by the head's samples, which is computed with it; or -1 */
    int32_t dx;
    /* The offset behind the losses' gradient at which the rows' losses are stored until the launch
     * of the weights adds them up; 0: they are added up at once. */
    size_t losses_at;
    int32_t *weights;      /* the nodes of gradients by weights */
    int32_t weights_count; /* if above 0, they are launched at weights_at */
    int32_t weights_at;
    cuda_operator *before_weights; /* the work of that node itself */
};

bool small_is_chosen(const struct backend_program *program, int32_t node)
{
    return program->small->nodes[node].chosen;
}

/* ---- which layers ---------------------------------------------------------------------------- */

/* Whether only small layers read the tensor, as an operand. */
static bool is_read_by_small(const struct backend_program *program, int32_t tensor)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].input[k] == tensor && !(small_is_chosen(program, i) && k < 2))
                return false;
    return true;
}

static int allocate(struct backend_program *program, struct error *error)
{
    size_t count = (size_t)program->graph->node_count + 1;
    struct small_linear *small = calloc(1, sizeof *small);

    program->small = small;
    if (!small)
        return error_no_memory(error, "the program");
    small->nodes = calloc(count, sizeof *small->nodes);
    small->weights = calloc(count, sizeof *small->weights);
    if (!small->nodes || !small->weights)
        return error_no_memory(error, "the program");
    small->head = small->dx = -1;
    return 0;
}

/* Whether several nodes write the gradient, one after the other: that of a parameter which serves
 * several layers. It cannot be moved to the end, nor be updated by one of them. */
static bool is_shared(const struct graph *graph, int32_t gradient)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].output_count; k++)
            if (graph->nodes[i].output[k] == gradient && graph->nodes[i].adds >> k & 1)
                return true;
    return false;
}

static bool writes_shared(const struct graph *graph, const struct graph_node *node)
{
    for (int k = 0; k < node->output_count; k++)
        if (is_shared(graph, node->output[k]))
            return true;
    return false;
}

/* Finds out whether the fastest way for the node is a kernel of ours. */
static int choose_node(struct backend_program *program, int32_t index, struct error *error)
{
    struct small_node *small = &program->small->nodes[index];
    const struct graph_node *node = &program->graph->nodes[index];
    struct linear_problem problem;
    struct linear_choice choice;
    int r;

    small->pass = linear_pass(program->graph, node);
    small->activation = -1;
    small->result = node->output_count ? node->output[0] : -1;
    if (small->pass == OP_COUNT || squeeze_computes(program, index) ||
        (small->pass == OP_LINEAR_BACKWARD_WEIGHTS && writes_shared(program->graph, node)))
        return 0;
    problem = linear_describe(program, index);
    r = linear_search(program->device, &problem, &choice, error);
    small->chosen = r == 0 && choice.way == LINEAR_SMALL;
    return r;
}

/* The only node of that operator that reads the tensor, possibly through casts; or -1. */
static int32_t find_after_casts(const struct graph *graph, int32_t tensor, enum graph_op op)
{
    int32_t found = -1;

    for (int32_t i = graph_next_reader(graph, tensor, 0); i >= 0;
         i = graph_next_reader(graph, tensor, i + 1)) {
        int32_t other = graph->nodes[i].op == OP_CAST
                            ? find_after_casts(graph, graph->nodes[i].output[0], op)
                        : graph->nodes[i].op == op ? i
                                                   : -1;

        if (other >= 0 && found >= 0)
            return -1;
        found = other >= 0 ? other : found;
    }
    return found;
}

/* Chooses how to compute the last layer, if softmax cross entropy of few classes is behind it. */
static int choose_head(struct backend_program *program, int32_t index, struct error *error)
{
    struct small_node *nodes = program->small->nodes;
    const struct graph *graph = program->graph;
    int32_t logits = graph->nodes[index].output[0];
    int32_t dloss = find_after_casts(graph, logits, OP_CROSS_ENTROPY_BACKWARD), dx = -1;
    struct linear_problem forward = linear_describe(program, index), data;
    int r;

    if (dloss >= 0)
        dx = find_after_casts(graph, graph->nodes[dloss].output[0], OP_LINEAR_BACKWARD_DATA);
    if (dx >= 0)
        data = linear_describe(program, dx);
    r = linear_search_head(program->device, &forward, dx >= 0 ? &data : NULL, &program->small->way,
                           error);
    if (r < 0 || program->small->way == HEAD_APART)
        return r;
    nodes[index].chosen = true;
    if (dx >= 0 && program->small->way == HEAD_WHOLE)
        nodes[dx].chosen = true;
    return 0;
}

/* Whether our kernels can compute the layer together with its loss. */
static bool may_be_head(const struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index];
    int32_t loss;

    if (node->op != OP_LINEAR || node->phase != GRAPH_FORWARD ||
        graph->tensors[node->output[0]].shape.rank != 2 ||
        graph->tensors[node->output[0]].shape.extent[1] > SMALL_CLASSES_MAX ||
        program_stored_type(program, node->output[0]) != TENSOR_FLOAT32 ||
        !linear_describe(program, index).has_kernels)
        return false;
    loss = find_after_casts(graph, node->output[0], OP_CROSS_ENTROPY);
    return loss >= 0 && graph->nodes[loss].input[0] == node->output[0];
}

int small_choose(struct backend_program *program, struct error *error)
{
    const struct graph *graph = program->graph;
    int r = allocate(program, error);

    if (r == 0)
        program->small->way = HEAD_APART;
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++)
        r = choose_node(program, i, error);
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++)
        if (may_be_head(program, i))
            r = choose_head(program, i, error);
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (node->op == OP_CAST && is_read_by_small(program, node->output[0]))
            program->stored[node->output[0]] = program->stored[node->input[0]];
    }
    if (program->device->products)
        choices_trim(program->device->products);
    return r;
}

void small_free(struct small_linear *small)
{
    if (!small)
        return;
    free(small->nodes);
    free(small->weights);
    free(small);
}

/* ---- what vanishes --------------------------------------------------------------------------- */

static void absorb(struct backend_program *program, int32_t node, int32_t by)
{
    bool backward = program->graph->nodes[node].phase == GRAPH_BACKWARD &&
                    program->graph->nodes[by].phase == GRAPH_FORWARD;

    program->operators[node] = backward ? cuda_done_forward : cuda_nothing;
    program->node_step[node] = by;
}

/* The tensor whose storage this one shares through casts and flatten layers, because its numbers
 * are the same. */
static int32_t root_of(const struct backend_program *program, int32_t tensor)
{
    while (program->alias[tensor] >= 0)
        tensor = program->alias[tensor];
    return tensor;
}

/* The only node that reads the tensor's storage, apart from aliases. -1: there is none, or there
 * are several. With `op`: the only one of that operator. */
static int32_t find_reader(const struct backend_program *program, int32_t tensor, enum graph_op op,
                           bool alone)
{
    const struct graph *graph = program->graph;
    int32_t found = -1;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->input_count; k++) {
            if (node->input[k] < 0 || root_of(program, node->input[k]) != root_of(program, tensor))
                continue;
            if (node->output_count && program->alias[node->output[0]] >= 0)
                continue;
            if (node->op != op && alone)
                return -1;
            if (node->op != op || i == found)
                continue;
            if (found >= 0)
                return -1;
            found = i;
        }
    }
    return found;
}

/* Fuses the activation behind a linear layer. If its derivative is computed from its operand, that
 * is stored as well. */
static void absorb_activation(struct backend_program *program, int32_t index)
{
    struct small_node *small = &program->small->nodes[index];
    const struct graph_node *nodes = program->graph->nodes;
    int32_t y = nodes[index].output[0];
    int32_t found = find_reader(program, y, OP_ACTIVATION, false);

    if (found < 0 || nodes[found].phase != nodes[index].phase || nodes[found].input[0] != y)
        return;
    small->activation = found;
    small->result = nodes[found].output[0];
    absorb(program, found, index);
    if (y != program->graph->output && find_reader(program, y, OP_ACTIVATION, true) == found)
        program->tensor_bytes[y] = 0;
}

/* Fuses the derivative of the activation before a layer, so that dx vanishes. */
static void absorb_derivative(struct backend_program *program, int32_t index, int32_t at)
{
    struct small_node *small = &program->small->nodes[index];
    const struct graph_node *nodes = program->graph->nodes;
    int32_t dx = nodes[index].output[0];
    int32_t found = find_reader(program, dx, OP_ACTIVATION_BACKWARD, true), saved;

    if (found < 0 || nodes[found].input[0] != dx || dx == program->graph->input_gradient ||
        program->image_fusions[found].bias_gradient >= 0)
        return;
    saved = root_of(program, nodes[found].input[1]);
    if (program->graph->tensors[saved].producer > at) /* it is recomputed later */
        return;
    small->activation = found;
    small->result = nodes[found].output[0];
    absorb(program, found, at);
    program->tensor_bytes[dx] = 0;
}

/* Fuses the last layer with softmax cross entropy of few classes, if that way was chosen. */
static void absorb_loss(struct backend_program *program, int32_t index)
{
    struct small_linear *small = program->small;
    const struct graph *graph = program->graph;
    int32_t logits = graph->nodes[index].output[0];
    int32_t loss = find_reader(program, logits, OP_CROSS_ENTROPY, false);
    int32_t dloss = find_reader(program, logits, OP_CROSS_ENTROPY_BACKWARD, false), dx;

    if (small->way == HEAD_APART || loss < 0 || small->nodes[index].activation >= 0 ||
        !may_be_head(program, index))
        return;
    small->head = index;
    small->loss = loss;
    small->dloss = dloss;
    program->workspace_bytes[index] += program->workspace_bytes[loss];
    program->workspace_bytes[loss] = 0;
    absorb(program, loss, index);
    if (dloss < 0)
        return;
    absorb(program, dloss, index);
    dx = find_reader(program, graph->nodes[dloss].output[0], OP_LINEAR_BACKWARD_DATA, false);
    if (small->way != HEAD_WHOLE || dx < 0 || !small->nodes[dx].chosen ||
        root_of(program, graph->nodes[dx].input[1]) !=
            root_of(program, graph->nodes[index].input[1]))
        return;
    small->dx = dx;
    absorb(program, dx, index);
    absorb_derivative(program, dx, index);
}

/* Stores the rows' losses behind their gradient, which lives until the weights are done. */
static void let_losses_wait(struct backend_program *program)
{
    struct small_linear *small = program->small;
    const struct graph_node *nodes = program->graph->nodes;
    int32_t dlogits, waits = -1;

    if (small->head < 0 || small->dloss < 0)
        return;
    dlogits = root_of(program, nodes[small->dloss].output[0]);
    for (int32_t k = 0; k < small->weights_count; k++)
        if (root_of(program, nodes[small->weights[k]].input[1]) == dlogits)
            waits = k;
    if (waits < 0)
        return;
    small->losses_at = align_up(program->tensor_bytes[dlogits], LOSSES_ALIGNMENT);
    program->tensor_bytes[dlogits] =
        small->losses_at + (size_t)program->graph->batch * CUDA_LOSS_PARTIAL_BYTES;
}

/* Moves the gradients by weights to the end of the backward part, where the weights are not read
 * any more. There they are one launch, which may also update the weights. */
void small_gather_weights(struct backend_program *program)
{
    struct small_linear *small = program->small;
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].phase == GRAPH_BACKWARD)
            small->weights_at = i;
        if (small->nodes[i].chosen && small->nodes[i].pass == OP_LINEAR_BACKWARD_WEIGHTS)
            small->weights[small->weights_count++] = i;
    }
    for (int32_t k = 0; k < small->weights_count; k++)
        absorb(program, small->weights[k], small->weights_at);
    if (!small->weights_count)
        return;
    let_losses_wait(program);
    small->before_weights = program->operators[small->weights_at];
    program->operators[small->weights_at] = small_weights_run;
}

void small_prepare(struct backend_program *program)
{
    struct small_linear *small = program->small;
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (small->nodes[i].chosen && small->nodes[i].pass != OP_LINEAR_BACKWARD_WEIGHTS)
            program->operators[i] = small_run;
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (!small->nodes[i].chosen || small->nodes[i].pass != OP_LINEAR)
            continue;
        absorb_activation(program, i);
        absorb_loss(program, i);
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (small->nodes[i].chosen && small->nodes[i].pass == OP_LINEAR_BACKWARD_DATA &&
            i != small->dx)
            absorb_derivative(program, i, i);
}

/* ---- run ------------------------------------------------------------------------------------- */

struct cuda_small_matrix small_matrix(struct cuda_array array, int64_t elements, int64_t rows,
                                      bool side_by_side)
{
    int64_t terms = elements / rows;

    return (struct cuda_small_matrix){.array = array,
                                      .rows = (int32_t)rows,
                                      .terms = (int32_t)terms,
                                      .wide = side_by_side ? terms % 4 == 0 : rows % 2 == 0};
}

static struct cuda_small_matrix operand(const struct backend_program *program, int32_t tensor,
                                        int64_t rows, bool side_by_side)
{
    return small_matrix(program_array(program, tensor), program_elements(program, tensor), rows,
                        side_by_side);
}

/* As many warps that each has at most two chunks of terms; SMALL_WARPS is the limit. */
int32_t small_parts(int32_t terms)
{
    int32_t parts = 1;

    while (parts < SMALL_WARPS && parts * 2 * SMALL_TILE < terms)
        parts *= 2;
    return parts;
}

static struct cuda_array nowhere(void)
{
    return (struct cuda_array){.at = NULL};
}

/* Where the rows' losses are stored. */
static char *waiting_losses(const struct backend_program *program)
{
    const struct small_linear *small = program->small;
    int32_t dlogits = program->graph->nodes[small->dloss].output[0];

    return program->address[dlogits] + small->losses_at;
}

static int run_head(struct backend_program *program, struct error *error)
{
    const struct small_linear *small = program->small;
    const struct graph_node *nodes = program->graph->nodes, *node = &nodes[small->head];
    const struct graph_node *loss = &nodes[small->loss];
    const struct graph_shape *weight = &program->graph->tensors[node->input[1]].shape;
    const void *target = program->address[loss->input[1]];
    bool soft = program->graph->tensors[loss->input[1]].type == TENSOR_FLOAT32;
    bool backward = small->dloss >= 0 && program->run.phases & PROGRAM_BACKWARD;
    const struct small_node *dx = backward && small->dx >= 0 ? &small->nodes[small->dx] : NULL;
    struct cuda_small_head head = {
        .x = operand(program, node->input[0],
                     program_elements(program, node->input[0]) / weight->extent[1], true),
        .weight = operand(program, node->input[1], weight->extent[0], true),
        .bias = node->input_count > 2 ? program_floats(program, node->input[2]) : NULL,
        .logits = program_floats(program, node->output[0]),
        .log_sum_exp = program_floats(program, loss->output[0]),
        .dlogits = backward ? program_floats(program, nodes[small->dloss].output[0]) : NULL,
        .label = soft ? NULL : target,
        .probability = soft ? target : NULL,
        .partial = program->workspace[small->head],
        .dx = dx ? program_array(program, dx->result) : nowhere(),
        .activation = -1};
    cudaError_t status;

    if (backward && small->losses_at) {
        head.partial = waiting_losses(program);
        head.losses_wait = true;
    }
    if (dx && dx->activation >= 0) {
        head.activation = (int32_t)nodes[dx->activation].attributes.activation;
        head.saved = program_array(program, nodes[dx->activation].input[1]);
    }
    status = cuda_small_head((int)program->graph->compute_type, program->control,
                             program->step_scalars, &head, program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

int small_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct small_node *small = &program->small->nodes[index];
    const struct graph_node *nodes = program->graph->nodes, *node = &nodes[index];
    const struct graph_shape *weight = &program->graph->tensors[node->input[1]].shape;
    bool forward = small->pass == OP_LINEAR;
    int64_t terms = weight->extent[forward ? 1 : 0];
    struct cuda_small_product product = {
        .a = operand(program, node->input[0], program_elements(program, node->input[0]) / terms,
                     true),
        .b = operand(program, node->input[1], weight->extent[forward ? 0 : 1], forward),
        .y = program_array(program, small->result),
        .bias = forward && node->input_count > 2 ? program_floats(program, node->input[2]) : NULL,
        .activation = -1,
        .parts = small_parts((int32_t)terms)};
    cudaError_t status;

    if (index == program->small->head)
        return run_head(program, error);
    if (small->activation >= 0) {
        product.activation = (int32_t)nodes[small->activation].attributes.activation;
        if (forward && program->tensor_bytes[node->output[0]])
            product.before = program_array(program, node->output[0]);
        if (!forward)
            product.saved = program_array(program, nodes[small->activation].input[1]);
    }
    status = cuda_small_product((int)program->graph->compute_type, forward, &product,
                                program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

static struct cuda_small_weights describe_weights(const struct backend_program *program,
                                                  const struct graph_node *node, bool update)
{
    const struct graph_shape *weight = &program->graph->tensors[node->output[0]].shape;
    bool bias = node->output_count > 1 && node->output[1] >= 0;
    struct cuda_small_weights weights = {
        .dy = operand(program, node->input[1], weight->extent[0], false),
        .x = operand(program, node->input[0], weight->extent[1], false),
        .gradient = program_floats(program, node->output[0]),
        .bias_gradient = bias ? program_floats(program, node->output[1]) : NULL};

    weights.parts = small_parts(weights.x.terms);
    if (update)
        weights.weight = update_item_of(program, node->output[0]);
    if (update && bias)
        weights.bias = update_item_of(program, node->output[1]);
    return weights;
}

bool small_makes_gradient(const struct backend_program *program, int32_t gradient)
{
    int32_t producer = program->graph->tensors[gradient].producer;

    return producer >= 0 && small_is_chosen(program, producer) &&
           program->small->nodes[producer].pass == OP_LINEAR_BACKWARD_WEIGHTS;
}

bool small_updates(const struct backend_program *program)
{
    const struct step_kind *run = &program->run;

    return program->small->weights_count && run->phases & PROGRAM_BACKWARD &&
           run->phases & PROGRAM_UPDATE && !run->sums_squares && !program->graph->rounds_parameters;
}

int small_weights_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct small_linear *small = program->small;
    const struct graph_node *nodes = program->graph->nodes;
    bool update = small_updates(program);
    struct cuda_small_layers layers = {.losses = small->losses_at ? waiting_losses(program) : NULL,
                                       .loss_rows = (int32_t)program->graph->batch,
                                       .control = program->control};
    cudaError_t status = cudaSuccess;
    int r = small->before_weights(program, index, error);

    for (int32_t k = 0; r == 0 && status == cudaSuccess && k < small->weights_count;
         k += layers.count) {
        layers.count = 0;
        while (layers.count < SMALL_LAYERS_MAX && k + layers.count < small->weights_count) {
            layers.layer[layers.count] =
                describe_weights(program, &nodes[small->weights[k + layers.count]], update);
            layers.count++;
        }
        status = cuda_small_weights((int)program->graph->compute_type, program->step_scalars,
                                    &layers, program->run.accumulate, program->device->stream);
        layers.losses = NULL; /* they have been added up */
    }
    if (r < 0)
        return r;
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "the gradients of small layers");
}
