/* linear.c: linear layers and their gradients as products of cuBLASLt, and what they do along with
 * them: the bias, a ReLU that is the result's only reader, the gradient of the bias.
 *
 * Row-major [r, c] is column-major [c, r]: y[B,O] = x[B,I] weight[O,I]^T is computed as y^T[O,B] =
 * weight[O,I] x^T[I,B], and so on. */
#include "engine/backends/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>

/* How a node is done. */
struct linear {
    struct product *product;
    struct product *alone; /* OP_LINEAR_BACKWARD_WEIGHTS: without the bias' gradient, which cannot
                              be added to what is there; NULL: as `product` */
    bool adds_vector;      /* `product` knows of the bias, or of its gradient */
    bool casts_bias;       /* to the result's type first, into the node's workspace */
    int32_t result;        /* the tensor that OP_LINEAR writes: its ReLU's where it has one */
    bool rectified;
};

static bool has_bias(const struct graph_node *node)
{
    return node->op == OP_LINEAR && node->input_count > 2 && node->input[2] >= 0;
}

static bool has_bias_gradient(const struct graph_node *node)
{
    return node->op == OP_LINEAR_BACKWARD_WEIGHTS && node->output_count > 1 && node->output[1] >= 0;
}

/* ---- prepare -----------------------------------------------------------------------------------
 */

static struct product_shape shape_of(const struct backend_program *program,
                                     const struct graph_node *node, int32_t result)
{
    bool by_weights = node->op == OP_LINEAR_BACKWARD_WEIGHTS;
    const struct graph_tensor *weight =
        &program->graph->tensors[by_weights ? node->output[0] : node->input[1]];
    int64_t outputs = weight->shape.extent[0], inputs = weight->shape.extent[1];
    int64_t rows = program_elements(program, node->input[0]) /
                   (node->op == OP_LINEAR_BACKWARD_DATA ? outputs : inputs);
    struct product_shape shape = {.operands = program_stored_type(program, node->input[0]),
                                  .result = program_stored_type(program, result),
                                  .tf32 = program->graph->compute_type == TENSOR_TF32};

    shape.m = node->op == OP_LINEAR ? outputs : inputs;
    shape.n = by_weights ? outputs : rows;
    shape.k = by_weights ? rows : node->op == OP_LINEAR ? inputs : outputs;
    shape.transpose_a = node->op == OP_LINEAR;
    shape.transpose_b = by_weights;
    return shape;
}

/* The ReLU that alone reads the node's result, or -1. */
static int32_t find_rectifier(const struct graph *graph, int32_t index)
{
    int32_t result = graph->nodes[index].output[0], found = -1;

    if (graph->nodes[index].op != OP_LINEAR || result == graph->output)
        return -1;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->input_count; k++) {
            if (node->input[k] != result)
                continue;
            if (found >= 0 || node->op != OP_ACTIVATION ||
                node->phase != graph->nodes[index].phase ||
                node->attributes.activation != ACTIVATION_RELU)
                return -1;
            found = i;
        }
    }
    return found;
}

/* With what it does along, or, where cuBLASLt lacks that, without. */
static int make_products(struct backend_program *program, const struct graph_node *node,
                         struct linear *linear, struct error *error)
{
    struct product_shape shape = shape_of(program, node, linear->result);
    const struct cublaslt *library = program->device->cublaslt;
    struct error ignored = {0};
    int r;

    if (has_bias(node))
        shape.epilogue = linear->rectified ? PRODUCT_BIAS_RECTIFIED : PRODUCT_BIAS;
    else if (has_bias_gradient(node))
        shape.epilogue = PRODUCT_COLUMN_SUMS;
    else if (linear->rectified)
        shape.epilogue = PRODUCT_RECTIFIED;
    linear->adds_vector = shape.epilogue != PRODUCT_ALONE;
    linear->casts_bias = has_bias(node) && shape.result != TENSOR_FLOAT32;
    r = product_make(library, &shape, &linear->product, &ignored);
    if (r == 0 && shape.epilogue != PRODUCT_COLUMN_SUMS)
        return 0;
    shape.epilogue = PRODUCT_ALONE;
    if (r == 0)
        return product_make(library, &shape, &linear->alone, error);
    linear->adds_vector = linear->casts_bias = false;
    return product_make(library, &shape, &linear->product, error);
}

int linear_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct linear *linear = calloc(1, sizeof *linear);
    int32_t rectifier = find_rectifier(program->graph, index);
    int r;

    if (!linear)
        return error_set(error, -ENOMEM, "no memory for the program");
    program->linears[index] = linear;
    linear->result = node->output[0];
    if (rectifier >= 0) {
        linear->result = program->graph->nodes[rectifier].output[0];
        linear->rectified = true;
        program->operators[rectifier] = cuda_nothing;
        program->node_step[rectifier] = index;
        program->tensor_bytes[node->output[0]] = 0;
    }
    r = make_products(program, node, linear, error);
    if (r == 0 && linear->casts_bias)
        program->workspace_bytes[index] +=
            (size_t)program_elements(program, node->input[2]) *
            tensor_type_bytes(program_stored_type(program, linear->result));
    return r < 0 ? error_prefix(error, "%s", node->name) : 0;
}

void linear_free(struct linear *linear)
{
    if (!linear)
        return;
    product_free(linear->product);
    product_free(linear->alone);
    free(linear);
}

/* ---- run ---------------------------------------------------------------------------------------
 */

static int run_product(struct backend_program *program, const struct graph_node *node,
                       const struct product *product, struct product_call *call,
                       struct error *error)
{
    int r;

    call->alpha = 1;
    call->scratch = program->scratch;
    r = product_run(product, call, program->device->stream, error);
    return r < 0 ? error_prefix(error, "%s", node->name) : 0;
}

int linear_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct linear *linear = program->linears[index];
    float *bias = has_bias(node) ? program_floats(program, node->input[2]) : NULL;
    struct product_call call = {.a = program->address[node->input[1]],
                                .b = program->address[node->input[0]],
                                .result = program->address[linear->result],
                                .vector = bias};
    int64_t outputs = program->graph->tensors[node->input[1]].shape.extent[0];
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cudaSuccess;
    int r;

    if (linear->casts_bias) {
        const struct cuda_array copy = {.at = program->workspace[index],
                                        .type = program_stored_type(program, linear->result)};

        status = cuda_cast(program_array(program, node->input[2]), copy, outputs, stream);
        call.vector = copy.at;
    }
    if (status != cudaSuccess)
        return cuda_fail(error, status, node->name);
    r = run_product(program, node, linear->product, &call, error);
    if (r < 0 || linear->adds_vector || (!bias && !linear->rectified))
        return r;
    status = cuda_bias(program_array(program, linear->result), bias, linear->rectified, outputs,
                       program_elements(program, linear->result), stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

int linear_backward_data_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return run_product(program, node, program->linears[index]->product,
                       &(struct product_call){.a = program->address[node->input[1]],
                                              .b = program->address[node->input[0]],
                                              .result = program->address[node->output[0]]},
                       error);
}

int linear_backward_weights_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct linear *linear = program->linears[index];
    bool accumulate = program->run.accumulate, sums = linear->adds_vector && !accumulate;
    int64_t outputs = program->graph->tensors[node->output[0]].shape.extent[0];
    float *gradient = has_bias_gradient(node) ? program_floats(program, node->output[1]) : NULL;
    struct product_call call = {.a = program->address[node->input[0]],
                                .b = program->address[node->input[1]],
                                .c = program->address[node->output[0]],
                                .result = program->address[node->output[0]],
                                .vector = gradient,
                                .beta = accumulate ? 1 : 0};
    cudaError_t status;
    int r = run_product(program, node, sums || !linear->alone ? linear->product : linear->alone,
                        &call, error);

    if (r < 0 || !gradient || sums)
        return r;
    status = cuda_column_sum(program_array(program, node->input[1]),
                             program_elements(program, node->input[1]) / outputs, outputs,
                             accumulate, gradient, program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
