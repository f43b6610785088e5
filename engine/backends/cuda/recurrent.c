/* recurrent.c: LSTM and GRU: what goes from step to step (recurrent_ways.h), forward and
 * backward, the gradient by the weights, which is one product over all steps, and the state that
 * is carried to the next batch. */
#include "base/alignment.h"
#include "engine/backends/cuda/recurrent_ways.h"
#include "engine/graph/forward.h"

#include <stdlib.h>

struct recurrent {
    struct recurrent_way way; /* of the operators that go from step to step */
    /* of the gradient by the weights: its product, and where its operands are in the workspace */
    struct product *product;
    enum tensor_type operands;
    size_t previous, gradient;
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
    recurrent->previous = reserve(program, index, rows * shape->hidden, recurrent->operands);
    if (recurrent->copies_gradient)
        recurrent->gradient = reserve(program, index, rows * gates, recurrent->operands);
    return product_make(program->device->cublaslt, &product, &recurrent->product, error);
}

/* The two operators that go from step to step. */
static int prepare_way(struct backend_program *program, int32_t index,
                       const struct cuda_recurrent *shape, struct recurrent *recurrent,
                       struct error *error)
{
    const struct recurrent_problem problem = {.shape = *shape,
                                              .backward = program->graph->nodes[index].op ==
                                                          OP_RECURRENT_BACKWARD,
                                              .tf32 = program->graph->compute_type == TENSOR_TF32};
    int r = recurrent_choose(program->device, &problem, &recurrent->way, error);

    program->workspace_bytes[index] = recurrent->way.workspace_bytes;
    return r;
}

int recurrent_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct recurrent *recurrent = calloc(1, sizeof *recurrent);
    const struct cuda_recurrent shape = describe(program, node, sequences_of(node));
    int r;

    if (!recurrent)
        return error_no_memory(error, "a recurrent layer");
    program->recurrents[index] = recurrent;
    recurrent->operands = operand_type(program);
    r = node->op == OP_RECURRENT_BACKWARD_WEIGHTS
            ? prepare_weights(program, index, &shape, recurrent, error)
            : prepare_way(program, index, &shape, recurrent, error);
    return r < 0 ? error_prefix(error, "%s", node->name) : 0;
}

void recurrent_free(struct recurrent *recurrent)
{
    if (!recurrent)
        return;
    recurrent_way_free(&recurrent->way);
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

static int launch(struct backend_program *program, int32_t index, const struct cuda_recurrent *r,
                  bool backward, struct error *error)
{
    int result =
        recurrent_launch(&program->recurrents[index]->way, r, backward, program->workspace[index],
                         program->scratch, program->device->stream, error);

    return result < 0 ? error_prefix(error, "%s", program->graph->nodes[index].name) : 0;
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
    return launch(program, index, &r, false, error);
}

int recurrent_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_recurrent r = describe(program, node, node->input[2]);

    r.lengths = lengths_of(program, node->input[4]);
    r.weight = program_floats(program, node->input[1]);
    r.gates = program_array(program, node->input[0]);
    r.dy = program_array(program, node->input[2]);
    r.memory = program_array(program, node->input[3]);
    r.dinput = program_array(program, node->output[0]);
    r.memory_first = program_floats(program, carried_input(node, 5));
    return launch(program, index, &r, true, error);
}

int recurrent_backward_weights_run(struct backend_program *program, int32_t index,
                                   struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent *own = program->recurrents[index];
    struct cuda_recurrent r = describe(program, node, node->input[0]);
    const struct cuda_array previous = {.at = workspace_at(program, index, own->previous),
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
        const struct cuda_array copy = {.at = workspace_at(program, index, own->gradient),
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
                   cuda_long_column_sum(gradient, r.batch * r.steps,
                                        program_elements(program, node->output[1]), adds_bias,
                                        program_floats(program, node->output[1]), program->scratch,
                                        CUDA_PRODUCT_SCRATCH, stream),
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
