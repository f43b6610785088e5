/* linear.c: linear layers and their gradients as products of cuBLASLt, by the fastest known
 * algorithm (linear_search.h). A product may include the bias, a ReLU that is the result's only
 * reader, or the gradient of the bias; otherwise kernels compute these behind it. */
#include "engine/backends/cuda/linear_search.h"
#include "engine/graph/operator.h"

#include <stdlib.h>

/* How a node is computed. */
struct linear {
    enum graph_op pass;
    struct product *product;
    /* for OP_LINEAR_BACKWARD_WEIGHTS: a product without the bias' gradient, because that cannot be
     * accumulated; NULL: `product` is used */
    struct product *alone;
    bool adds_vector; /* `product` includes the bias, or its gradient */
    bool casts_bias;  /* the bias is first cast to the result's type, into the node's workspace */
    int32_t result;   /* the tensor that OP_LINEAR writes, which is its ReLU's if that is fused */
    bool rectified;
};

static bool has_bias(const struct linear *linear, const struct graph_node *node)
{
    return linear->pass == OP_LINEAR && node->input_count > 2 && node->input[2] >= 0;
}

static bool has_bias_gradient(const struct linear *linear, const struct graph_node *node)
{
    return linear->pass == OP_LINEAR_BACKWARD_WEIGHTS && node->output_count > 1 &&
           node->output[1] >= 0;
}

static bool is_pixel(const struct graph *graph, int32_t tensor)
{
    const struct graph_shape *shape = &graph->tensors[tensor].shape;

    return shape->extent[2] == 1 && shape->extent[3] == 1;
}

/* With padding, a pixel that is not the image's own may be the only one that counts. */
static bool is_of_pixels(const struct graph *graph, const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;

    return conv->groups == 1 && conv->padding[0] == 0 && conv->padding[1] == 0 &&
           is_pixel(graph, node->input[0]) && is_pixel(graph, node->input[1]) &&
           is_pixel(graph, node->output[0]);
}

enum graph_op linear_pass(const struct graph *graph, const struct graph_node *node)
{
    static const enum graph_op linear[] = {
        [PRODUCT_NONE] = OP_COUNT,
        [PRODUCT_FORWARD] = OP_LINEAR,
        [PRODUCT_BACKWARD_DATA] = OP_LINEAR_BACKWARD_DATA,
        [PRODUCT_BACKWARD_WEIGHTS] = OP_LINEAR_BACKWARD_WEIGHTS,
    };
    const struct graph_operator *descriptor = graph_node_operator(node);

    if (descriptor->cost_class == COST_CONVOLUTION && !is_of_pixels(graph, node))
        return OP_COUNT;
    return linear[descriptor->product];
}

/* ---- prepare --------------------------------------------------------------------------------- */

static bool stored_alike(const void *context, int32_t a, int32_t b)
{
    const struct backend_program *program = context;

    return program->stored[a] == program->stored[b];
}

int32_t linear_rectifier(const struct backend_program *program, int32_t index)
{
    const struct fusion_rules rules = {.context = program, .stored_alike = stored_alike};

    if (linear_pass(program->graph, &program->graph->nodes[index]) != OP_LINEAR)
        return -1;
    return graph_find_activation(program->graph, &rules, index, FUSION_ACTIVATION(ACTIVATION_RELU));
}

/* Makes a product with the chosen algorithm, or with the first one that cuBLASLt proposes. */
static int make_product(const struct cublaslt *library, const struct product_shape *shape,
                        const char *algorithm, struct product **product, struct error *error)
{
    if (*algorithm && product_make_known(library, shape, algorithm, product, error) == 0)
        return 0;
    return product_make(library, shape, product, error);
}

/* Makes the products: with the fused operations if that was measured to be faster, else without. */
static int make_products(struct backend_program *program, int32_t index, struct linear *linear,
                         struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct linear_problem problem = linear_describe(program, index);
    struct product_shape shape = linear_product_shape(&problem);
    const struct cublaslt *library = program->device->cublaslt;
    struct linear_choice choice;
    struct error ignored = {0};
    int r = linear_search(program->device, &problem, &choice, error);

    if (r < 0)
        return r;
    if (choice.way == LINEAR_FUSED && has_bias(linear, node))
        shape.epilogue = linear->rectified ? PRODUCT_BIAS_RECTIFIED : PRODUCT_BIAS;
    else if (choice.way == LINEAR_FUSED && has_bias_gradient(linear, node))
        shape.epilogue = PRODUCT_COLUMN_SUMS;
    else if (choice.way == LINEAR_FUSED && linear->rectified)
        shape.epilogue = PRODUCT_RECTIFIED;
    linear->adds_vector = shape.epilogue != PRODUCT_ALONE;
    linear->casts_bias =
        linear->adds_vector && has_bias(linear, node) && shape.result != TENSOR_FLOAT32;
    r = make_product(library, &shape, choice.algorithm, &linear->product,
                     linear->adds_vector ? &ignored : error);
    if (!linear->adds_vector || (r == 0 && shape.epilogue != PRODUCT_COLUMN_SUMS))
        return r;
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
    int32_t rectifier = linear_rectifier(program, index);
    int r;

    if (!linear)
        return error_no_memory(error, "the program");
    program->linears[index] = linear;
    linear->pass = linear_pass(program->graph, node);
    linear->result = node->output[0];
    if (rectifier >= 0) {
        linear->result = program->graph->nodes[rectifier].output[0];
        linear->rectified = true;
        program->operators[rectifier] = cuda_nothing;
        program->node_step[rectifier] = index;
        program->tensor_bytes[node->output[0]] = 0;
    }
    r = make_products(program, index, linear, error);
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

/* ---- run ------------------------------------------------------------------------------------- */

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
    float *bias = has_bias(linear, node) ? program_floats(program, node->input[2]) : NULL;
    struct product_call call = {.a = program->address[node->input[1]],
                                .b = program->address[node->input[0]],
                                .result = program->address[linear->result],
                                .vector = bias};
    int64_t outputs = program->graph->tensors[node->input[1]].shape.extent[0];
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cudaSuccess;
    struct cuda_array result;
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
    result = program_array(program, linear->result);
    status = cuda_bias_activation(
        result, bias, linear->rectified ? ACTIVATION_RELU : -1, (struct cuda_array){.at = NULL},
        result, program_elements(program, linear->result) / outputs, outputs, stream);
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
    bool accumulate = program_accumulates(program, node, 1);
    bool sums = linear->adds_vector && !accumulate;
    int64_t outputs = program->graph->tensors[node->output[0]].shape.extent[0];
    float *gradient =
        has_bias_gradient(linear, node) ? program_floats(program, node->output[1]) : NULL;
    struct product_call call = {.a = program->address[node->input[0]],
                                .b = program->address[node->input[1]],
                                .c = program->address[node->output[0]],
                                .result = program->address[node->output[0]],
                                .vector = gradient,
                                .beta = program_accumulates(program, node, 0) ? 1 : 0};
    cudaError_t status;
    int r = run_product(program, node, sums || !linear->alone ? linear->product : linear->alone,
                        &call, error);

    if (r < 0 || !gradient || sums)
        return r;
    status = cuda_long_column_sum(program_array(program, node->input[1]),
                                  program_elements(program, node->input[1]) / outputs, outputs,
                                  accumulate, gradient, program->scratch, CUDA_PRODUCT_SCRATCH,
                                  program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
