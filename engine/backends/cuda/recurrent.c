/* recurrent.c: LSTM and GRU. Where the device can hold the weights of all units at once, one launch
 * goes through all steps (kernels/recurrent.h). Elsewhere each step is a product of cuBLASLt and a
 * launch for the gates. The gradient by the weights is one product over all steps. */
#include "engine/backends/cuda/kernels/recurrent.h"

#include "base/alignment.h"
#include "engine/backends/cuda/cuda.h"

#include <stdlib.h>

struct recurrent {
    bool whole; /* one launch for all steps, by `plan` */
    struct cuda_recurrent_plan plan;
    struct product *product;
    enum tensor_type operands; /* of products */
    /* where parts of the workspace begin */
    size_t weight, operand, carried, sums;
    bool copies_gradient; /* dinput is no operand of the product as it is */
};

/* ---- prepare --------------------------------------------------------------------------------- */

static enum tensor_type operand_type(const struct backend_program *program)
{
    enum tensor_type type = program->graph->compute_type;

    return type == TENSOR_TF32 ? TENSOR_FLOAT32 : type;
}

/* Shapes alone. `sequences`: a tensor [batch, steps, hidden]. */
static struct cuda_recurrent describe(const struct backend_program *program,
                                      const struct graph_node *node, int32_t sequences)
{
    const int64_t *extent = program->graph->tensors[sequences].shape.extent;

    return (struct cuda_recurrent){.cell = node->attributes.recurrent.cell,
                                   .batch = extent[0],
                                   .steps = extent[1],
                                   .hidden = extent[2],
                                   .reverse = node->attributes.recurrent.reverse,
                                   .compute = (int)operand_type(program)};
}

/* y, dy or y: of the three operators. */
static int32_t sequences_of(const struct graph_node *node)
{
    return node->op == OP_RECURRENT            ? node->output[0]
           : node->op == OP_RECURRENT_BACKWARD ? node->input[2]
                                               : node->input[0];
}

/* Takes so many bytes at the end of the node's workspace; returns where they begin. */
static size_t reserve(struct backend_program *program, int32_t index, int64_t elements,
                      enum tensor_type type)
{
    size_t *bytes = &program->workspace_bytes[index], offset = align_up(*bytes, MEMORY_ALIGNMENT);

    *bytes = offset + (size_t)elements * tensor_type_bytes(type);
    return offset;
}

static int prepare_steps(struct backend_program *program, int32_t index,
                         const struct cuda_recurrent *shape, struct recurrent *recurrent,
                         struct error *error)
{
    bool backward = program->graph->nodes[index].op == OP_RECURRENT_BACKWARD;
    int64_t hidden = shape->hidden, gates = recurrent_cell_gates(shape->cell) * hidden;
    const struct product_shape product = {.m = backward ? hidden : gates,
                                          .n = shape->batch,
                                          .k = backward ? gates : hidden,
                                          .transpose_a = !backward,
                                          .operands = recurrent->operands,
                                          .result = TENSOR_FLOAT32,
                                          .tf32 = program->graph->compute_type == TENSOR_TF32};

    recurrent->plan.workspace_bytes = 0;
    recurrent->operand = reserve(program, index, shape->batch * product.k, recurrent->operands);
    recurrent->carried = reserve(program, index, shape->batch * hidden, TENSOR_FLOAT32);
    recurrent->sums = reserve(program, index, shape->batch * product.m, TENSOR_FLOAT32);
    if (recurrent->operands != TENSOR_FLOAT32)
        recurrent->weight = reserve(program, index, gates * hidden, recurrent->operands);
    return product_make(program->device->cublaslt, &product, &recurrent->product, error);
}

static int prepare_weights(struct backend_program *program, int32_t index,
                           const struct cuda_recurrent *shape, struct recurrent *recurrent,
                           struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t gates = recurrent_cell_gates(shape->cell) * shape->hidden;
    int64_t rows = shape->batch * shape->steps;
    const struct product_shape product = {.m = shape->hidden,
                                          .n = gates,
                                          .k = rows,
                                          .transpose_b = true,
                                          .operands = recurrent->operands,
                                          .result = TENSOR_FLOAT32,
                                          .tf32 = program->graph->compute_type == TENSOR_TF32};

    recurrent->copies_gradient =
        shape->cell == RECURRENT_GRU ||
        program_stored_type(program, node->input[1]) != recurrent->operands;
    recurrent->operand = reserve(program, index, rows * shape->hidden, recurrent->operands);
    if (recurrent->copies_gradient)
        recurrent->sums = reserve(program, index, rows * gates, recurrent->operands);
    return product_make(program->device->cublaslt, &product, &recurrent->product, error);
}

int recurrent_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct recurrent *recurrent = calloc(1, sizeof *recurrent);
    const struct cuda_recurrent shape = describe(program, node, sequences_of(node));
    bool backward = node->op == OP_RECURRENT_BACKWARD;
    int r = 0;

    if (!recurrent)
        return error_no_memory(error, "a recurrent layer");
    program->recurrents[index] = recurrent;
    recurrent->operands = operand_type(program);
    if (node->op == OP_RECURRENT_BACKWARD_WEIGHTS)
        r = prepare_weights(program, index, &shape, recurrent, error);
    else if (cuda_recurrent_plan(&shape, backward, &recurrent->plan))
        recurrent->whole = true;
    else
        r = prepare_steps(program, index, &shape, recurrent, error);
    if (recurrent->whole)
        recurrent->operand =
            reserve(program, index, (int64_t)recurrent->plan.workspace_bytes, TENSOR_UINT8);
    return r < 0 ? error_prefix(error, "%s", node->name) : 0;
}

void recurrent_free(struct recurrent *recurrent)
{
    if (!recurrent)
        return;
    product_free(recurrent->product);
    free(recurrent);
}

/* ---- run ------------------------------------------------------------------------------------- */

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

static void *workspace_at(const struct backend_program *program, int32_t index, size_t offset)
{
    return program->workspace[index] + offset;
}

/* Goes from step to step: the product of what the step before left, and a launch. */
static int run_steps(struct backend_program *program, int32_t index, const struct cuda_recurrent *r,
                     struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent *own = program->recurrents[index];
    bool backward = node->op == OP_RECURRENT_BACKWARD, rounds = own->operands != TENSOR_FLOAT32;
    cudaStream_t stream = program->device->stream;
    struct cuda_array weight = program_array(program, node->input[1]);
    struct cuda_recurrent_step step = {
        .sums = workspace_at(program, index, own->sums),
        .operand = {.at = workspace_at(program, index, own->operand), .type = (int)own->operands},
        .carried = workspace_at(program, index, own->carried)};
    struct product_call call = {.b = step.operand.at,
                                .result = workspace_at(program, index, own->sums),
                                .alpha = 1,
                                .scratch = program->scratch};
    cudaError_t status = cudaSuccess;
    int result = 0;

    if (rounds) {
        const struct cuda_array copy = {.at = workspace_at(program, index, own->weight),
                                        .type = (int)own->operands};

        status = cuda_cast(weight, copy, program_elements(program, node->input[1]), stream);
        weight = copy;
    }
    call.a = weight.at;
    if (status == cudaSuccess && r->h0)
        status = cuda_cast((struct cuda_array){.at = (void *)r->h0, .type = TENSOR_FLOAT32},
                           step.operand, r->batch * r->hidden, stream);
    for (; status == cudaSuccess && step.number < r->steps; step.number++) {
        if (step.number > 0 || r->h0)
            result = product_run(own->product, &call, stream, error);
        if (result < 0)
            return error_prefix(error, "%s", node->name);
        status = backward ? cuda_recurrent_step_backward(r, &step, stream)
                          : cuda_recurrent_step(r, &step, stream);
    }
    return checked(node, status, error);
}

/* What is carried from batch to batch; -1: nothing is. */
static int32_t carried_input(const struct graph_node *node, int number)
{
    return number < node->input_count ? node->input[number] : -1;
}

static const int32_t *lengths_of(const struct backend_program *program, int32_t lengths)
{
    return lengths < 0 ? NULL : (const int32_t *)program->address[lengths];
}

int recurrent_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent_results results = graph_recurrent_results(node);
    const struct recurrent *own = program->recurrents[index];
    struct cuda_recurrent r = describe(program, node, node->output[0]);

    r.lengths = lengths_of(program, node->input[3]);
    r.weight = program_floats(program, node->input[1]);
    r.bias = program_floats(program, node->input[2]);
    r.input = program_array(program, node->input[0]);
    r.h0 = program_floats(program, carried_input(node, RECURRENT_H0));
    r.c0 = program_floats(program, carried_input(node, RECURRENT_C0));
    r.y = program_array(program, results.y);
    r.gates = program_array(program, results.gates);
    r.cells = program_array(program, results.cells);
    r.last_h = program_floats(program, results.last_h);
    r.last_c = program_floats(program, results.last_c);
    if (!own->whole)
        return run_steps(program, index, &r, error);
    return checked(node,
                   cuda_recurrent_sequence(&r, &own->plan,
                                           workspace_at(program, index, own->operand),
                                           program->device->stream),
                   error);
}

int recurrent_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent *own = program->recurrents[index];
    struct cuda_recurrent r = describe(program, node, node->input[2]);

    r.lengths = lengths_of(program, node->input[4]);
    r.weight = program_floats(program, node->input[1]);
    r.gates = program_array(program, node->input[0]);
    r.dy = program_array(program, node->input[2]);
    r.memory = program_array(program, node->input[3]);
    r.dinput = program_array(program, node->output[0]);
    r.memory_first = program_floats(program, carried_input(node, 5));
    if (!own->whole)
        return run_steps(program, index, &r, error);
    return checked(node,
                   cuda_recurrent_sequence_backward(&r, &own->plan,
                                                    workspace_at(program, index, own->operand),
                                                    program->device->stream),
                   error);
}

int recurrent_backward_weights_run(struct backend_program *program, int32_t index,
                                   struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent *own = program->recurrents[index];
    struct cuda_recurrent r = describe(program, node, node->input[0]);
    const struct cuda_array previous = {.at = workspace_at(program, index, own->operand),
                                        .type = (int)own->operands};
    bool adds = program_accumulates(program, node, 0);
    bool adds_bias = program_accumulates(program, node, 1);
    struct cuda_array gradient = program_array(program, node->input[1]);
    cudaStream_t stream = program->device->stream;
    struct product_call call = {.a = previous.at,
                                .c = program->address[node->output[0]],
                                .result = program->address[node->output[0]],
                                .alpha = 1,
                                .beta = adds ? 1 : 0,
                                .scratch = program->scratch};
    cudaError_t status;
    int result;

    r.h0 = program_floats(program, carried_input(node, 3));
    status = cuda_recurrent_previous(&r, program_array(program, node->input[0]), previous, stream);
    if (status == cudaSuccess && own->copies_gradient) {
        const struct cuda_array copy = {.at = workspace_at(program, index, own->sums),
                                        .type = (int)own->operands};

        status = cuda_recurrent_product_gradient(&r, program_array(program, node->input[2]),
                                                 gradient, copy, stream);
        gradient = copy;
    }
    if (status != cudaSuccess)
        return cuda_fail(error, status, node->name);
    call.b = gradient.at;
    result = product_run(own->product, &call, stream, error);
    if (result < 0)
        return error_prefix(error, "%s", node->name);
    return checked(node,
                   cuda_column_sum(gradient, r.batch * r.steps,
                                   program_elements(program, node->output[1]), adds_bias,
                                   program_floats(program, node->output[1]), stream),
                   error);
}

int carry_state_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return checked(
        node,
        cudaMemcpyAsync(program_floats(program, node->input[1]),
                        program_floats(program, node->input[0]),
                        (size_t)program_elements(program, node->input[0]) * sizeof(float),
                        cudaMemcpyDeviceToDevice, program->device->stream),
        error);
}
