/* general.c: launches operators over plain tensors (kernels/general.h): columns of rows, axes in
 * another order, rows by constant numbers, sums over an axis, two tensors combined number by
 * number, softmax, products of matrices, rounding as integers would. */
#include "engine/backends/cuda/general.h"

#include "engine/backends/cuda/kernels/general.h"

#include <stdio.h>

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

static int64_t row_width(const struct backend_program *program, int32_t tensor)
{
    const struct graph_shape *shape = &program->graph->tensors[tensor].shape;

    return shape->extent[shape->rank - 1];
}

static bool is_batched(const struct graph *graph, int32_t tensor)
{
    return graph->tensors[tensor].batched;
}

/* Whether the node adds to a gradient: that of a parameter alone. */
static bool adds_to(const struct backend_program *program, const struct graph_node *node)
{
    return !is_batched(program->graph, node->output[0]) && program_accumulates(program, node, 0);
}

/* ---- columns of rows, axes in another order, rows by constant numbers ---- */

int slice_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const bool back = node->op == OP_SLICE_BACKWARD;
    const int32_t wide = back ? node->output[0] : node->input[0];
    const int32_t narrow = back ? node->input[0] : node->output[0];
    const struct cuda_slice slice = {.rows =
                                         program_elements(program, wide) / row_width(program, wide),
                                     .row = row_width(program, wide),
                                     .first = node->attributes.slice_first,
                                     .width = row_width(program, narrow)};
    const struct cuda_array rows = program_array(program, wide);
    const struct cuda_array part = program_array(program, narrow);
    cudaStream_t stream = program->device->stream;

    return checked(node,
                   back ? cuda_slice_backward(&slice, part, rows, stream)
                        : cuda_slice(&slice, rows, part, stream),
                   error);
}

int permute_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return checked(node,
                   cuda_permute(&node->attributes.permute, program->graph->batch,
                                program_array(program, node->input[0]),
                                program_array(program, node->output[0]), program->device->stream),
                   error);
}

int take_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return checked(node,
                   cuda_take(&node->attributes.take, program->graph->batch,
                             !is_batched(program->graph, node->input[0]),
                             program_array(program, node->input[0]),
                             program_floats(program, node->input[1]),
                             program_array(program, node->output[0]), program->device->stream),
                   error);
}

int take_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return checked(
        node,
        cuda_take_backward(&node->attributes.take, program->graph->batch,
                           !is_batched(program->graph, node->output[0]), adds_to(program, node),
                           program_array(program, node->input[0]),
                           program_floats(program, node->input[1]),
                           program_array(program, node->output[0]), program->device->stream),
        error);
}

/* ---- sums over an axis, softmax ---- */

int axis_sum_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct axis_sum_attributes *how = &node->attributes.axis_sum;
    const struct cuda_array from = program_array(program, node->input[0]);
    const struct cuda_array to = program_array(program, node->output[0]);
    const int64_t batch = program->graph->batch;
    cudaStream_t stream = program->device->stream;

    return checked(node,
                   node->op == OP_AXIS_SUM ? cuda_axis_sum(how, batch, from, to, stream)
                                           : cuda_axis_sum_backward(how, batch, from, to, stream),
                   error);
}

int softmax_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t columns = row_width(program, node->output[0]);
    const int64_t rows = program_elements(program, node->output[0]) / columns;
    const struct cuda_array first = program_array(program, node->input[0]);
    const struct cuda_array to = program_array(program, node->output[0]);
    cudaStream_t stream = program->device->stream;

    return checked(node,
                   node->op == OP_SOFTMAX
                       ? cuda_softmax(rows, columns, first, to, stream)
                       : cuda_softmax_backward(rows, columns, first,
                                               program_array(program, node->input[1]), to, stream),
                   error);
}

/* ---- two tensors, number by number ---- */

/* `second`: the repeated operand, or its gradient. */
static struct cuda_broadcast describe_broadcast(const struct graph *graph,
                                                const struct graph_node *node, int32_t second)
{
    return (struct cuda_broadcast){.how = node->attributes.broadcast,
                                   .batch = graph->batch,
                                   .shared = second >= 0 && !is_batched(graph, second)};
}

int broadcast_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_broadcast broadcast =
        describe_broadcast(program->graph, node, node->input[1]);

    return checked(node,
                   cuda_broadcast(&broadcast, program_array(program, node->input[0]),
                                  program_array(program, node->input[1]),
                                  program_array(program, node->output[0]), program->device->stream),
                   error);
}

int broadcast_backward_first_run(struct backend_program *program, int32_t index,
                                 struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_broadcast broadcast =
        describe_broadcast(program->graph, node, node->input[2]);

    return checked(node,
                   cuda_broadcast_backward_first(&broadcast, program_array(program, node->input[0]),
                                                 program_array(program, node->input[1]),
                                                 program_array(program, node->input[2]),
                                                 program_array(program, node->output[0]),
                                                 program->device->stream),
                   error);
}

int broadcast_backward_second_run(struct backend_program *program, int32_t index,
                                  struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_broadcast broadcast =
        describe_broadcast(program->graph, node, node->output[0]);

    return checked(node,
                   cuda_broadcast_backward_second(
                       &broadcast, program_array(program, node->input[0]),
                       program_array(program, node->input[1]),
                       program_array(program, node->input[2]), adds_to(program, node),
                       program_array(program, node->output[0]),
                       (float *)(void *)program->workspace[index], program->device->stream),
                   error);
}

/* ---- products of matrices ---- */

/* Kernels of the library may have the products in the grid's third dimension, which is not larger.
 * With more, a kernel of our own works through them. */
enum { LIBRARY_PRODUCTS_MAX = 65535 };

/* In column-major terms the result is b^T a^T. */
void batch_product_prepare(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct batch_product_attributes *how = &node->attributes.batch_product;
    const struct product_shape shape = {.m = how->columns,
                                        .n = how->rows,
                                        .k = how->depth,
                                        .count = program->graph->batch * how->groups,
                                        .transpose_a = how->transpose_b,
                                        .transpose_b = how->transpose_a,
                                        .operands = program_stored_type(program, node->input[0]),
                                        .result = program_stored_type(program, node->output[0]),
                                        .tf32 = program->graph->compute_type == TENSOR_TF32};
    struct error ignored;

    if (shape.operands == program_stored_type(program, node->input[1]) &&
        shape.count <= LIBRARY_PRODUCTS_MAX)
        (void)product_make(program->device->cublaslt, &shape, &program->batch_products[index],
                           &ignored);
}

int batch_product_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct product *product = program->batch_products[index];
    cudaStream_t stream = program->device->stream;
    const struct product_call call = {.a = program->address[node->input[1]],
                                      .b = program->address[node->input[0]],
                                      .result = program->address[node->output[0]],
                                      .alpha = 1.0f,
                                      .scratch = program->scratch};

    if (product)
        return product_run(product, &call, stream, error);
    return checked(node,
                   cuda_batch_product(&node->attributes.batch_product, program->graph->batch,
                                      program_array(program, node->input[0]),
                                      program_array(program, node->input[1]),
                                      program_array(program, node->output[0]), stream),
                   error);
}

/* ---- rounding as integers would ---- */

int fake_quantize_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_array x = program_array(program, node->input[0]);
    const int64_t count = program_elements(program, node->input[0]);
    float *range = program_floats(program, node->input[1]);
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cudaSuccess;

    if (program->graph->training && !node->recomputed)
        status =
            cuda_observe_range(x, count, range, (float *)(void *)program->workspace[index], stream);
    if (status == cudaSuccess)
        status =
            cuda_fake_quantize(x, count, range, program_array(program, node->output[0]), stream);
    return checked(node, status, error);
}

int fake_quantize_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return checked(
        node,
        cuda_fake_quantize_backward(
            program_array(program, node->input[0]), program_array(program, node->input[1]),
            program_elements(program, node->input[0]), program_floats(program, node->input[2]),
            program_array(program, node->output[0]), program->device->stream),
        error);
}

/* A row of a sample is its last axis, one of a weight all behind its first axis. */
int fake_quantize_rows_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const bool batched = is_batched(program->graph, node->input[0]);
    const int64_t count = program_elements(program, node->input[0]);
    const int64_t rows = batched ? count / row_width(program, node->input[0])
                                 : program->graph->tensors[node->input[0]].shape.extent[0];

    return checked(node,
                   cuda_fake_quantize_rows(
                       rows, count / rows, !batched, program_array(program, node->input[0]),
                       program_array(program, node->output[0]), program->device->stream),
                   error);
}

/* ---- what they need ---- */

int32_t general_parameter(const struct graph *graph, const struct graph_node *node)
{
    int32_t operand = -1;

    switch (node->op) {
    case OP_BROADCAST:
    case OP_ADD_POSITIONS:
    case OP_PREPEND_TOKEN:
        operand = node->input[1];
        break;
    case OP_TAKE:
        operand = node->input[0];
        break;
    default:
        break;
    }
    return operand >= 0 && !is_batched(graph, operand) ? operand : -1;
}

/* Whether a convolution reads the tensor, which must be channels-last then. */
static bool is_weight_of_convolution(const struct graph *graph, int32_t tensor)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_CONV2D || graph->nodes[i].op == OP_CONV2D_BACKWARD_DATA)
            if (graph->nodes[i].input[1] == tensor)
                return true;
    return false;
}

bool general_supports(const struct graph *graph, const struct graph_node *node, char *reason)
{
    int32_t parameter = general_parameter(graph, node);

    if (parameter >= 0 && graph->tensors[parameter].shape.rank == 4 &&
        is_weight_of_convolution(graph, parameter)) {
        snprintf(reason, 256, "the CUDA backend has no %s of a convolution's weight",
                 graph_op_to_string(node->op));
        return false;
    }
    if (node->op != OP_FAKE_QUANTIZE_ROWS || !is_batched(graph, node->input[0]) ||
        graph->tensors[node->input[0]].shape.rank <= 3)
        return true;
    snprintf(reason, 256, "the CUDA backend has no %s of images' rows",
             graph_op_to_string(node->op));
    return false;
}

size_t general_workspace(const struct graph *graph, const struct graph_node *node)
{
    struct cuda_broadcast broadcast;

    switch (node->op) {
    case OP_BROADCAST_BACKWARD_SECOND:
        broadcast = describe_broadcast(graph, node, node->output[0]);
        return cuda_broadcast_scratch(&broadcast);
    case OP_FAKE_QUANTIZE:
        return CUDA_RANGE_SCRATCH;
    default:
        return 0;
    }
}
