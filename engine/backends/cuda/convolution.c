/* convolution.c: convolutions and their gradients as nodes of a program: each by a plan of cuDNN
 * (convolution_plan.h), the fastest that is known (convolution_search.h), but depthwise ones,
 * and gradients by the weights in tf32, by kernels of our own. */
#include "engine/backends/cuda/convolution_search.h"
#include "engine/backends/cuda/muon.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct convolution {
    struct convolution_graph *graph;
    struct convolution_plan plan;
    enum { BY_PLAN, BY_DEPTHWISE, BY_STEM, BY_TF32 } way; /* the others: kernels/, without a plan */
    bool adds_bias;                                       /* after the plan, by a kernel */
    bool apart;           /* the plan writes to the workspace, from where a kernel brings it */
    size_t result_offset; /* there */
};

/* ---- the library -------------------------------------------------------------------------------
 */

/* Where choices are kept: they hold for this model, driver and cuDNN. False: nowhere. */
static bool name_file(const struct backend_device *device, char path[PATH_MAX])
{
    int driver = 0, start, length;

    if (!device->cache_folder)
        return false;
    cudaDriverGetVersion(&driver);
    start = snprintf(path, PATH_MAX, "%s/", device->cache_folder);
    length = snprintf(path, PATH_MAX, "%s/convolutions-%s-%d-%zu.txt", device->cache_folder,
                      device->model, driver, device->cudnn->cudnnGetVersion());
    for (char *c = path + start; start < length && length < PATH_MAX && *c; c++)
        if (*c == ' ' || *c == '/')
            *c = '-';
    return length < PATH_MAX;
}

int convolution_open_library(struct backend_device *device, struct error *error)
{
    char path[PATH_MAX];
    bool kept;
    int r = 0;

    if (!device->cudnn)
        r = cudnn_open(device->stream, &device->cudnn, error);
    if (r < 0)
        return r;
    kept = name_file(device, path);
    if (!device->search)
        return convolution_search_open(device->cudnn, device->stream, kept ? path : NULL,
                                       &device->search, error);
    if (kept)
        convolution_search_keep(device->search, path);
    return 0;
}

void convolution_close_library(struct backend_device *device)
{
    convolution_search_close(device->search);
    cudnn_close(device->cudnn);
}

void convolution_end_search(struct backend_device *device)
{
    if (device->search)
        convolution_search_trim(device->search);
}

/* ---- preparation -------------------------------------------------------------------------------
 */

/* The tensors of a node by their place in the convolution. */
struct places {
    int32_t x, weight, y, bias, result; /* -1: there is none */
};

static struct places places_of(const struct graph_node *node)
{
    const int32_t *in = node->input, *out = node->output;

    if (node->op == OP_CONV2D)
        return (struct places){in[0], in[1], out[0], node->input_count > 2 ? in[2] : -1, out[0]};
    if (node->op == OP_CONV2D_BACKWARD_DATA)
        return (struct places){out[0], in[1], in[0], -1, out[0]};
    return (struct places){in[0], out[0], in[1], node->output_count > 1 ? out[1] : -1, out[0]};
}

static struct convolution_problem describe(const struct backend_program *program,
                                           const struct graph_node *node)
{
    const struct graph *graph = program->graph;
    const struct conv_attributes *conv = &node->attributes.conv;
    struct places at = places_of(node);
    struct convolution_problem problem = {.pass = node->op == OP_CONV2D ? CONVOLUTION_FORWARD
                                                  : node->op == OP_CONV2D_BACKWARD_DATA
                                                      ? CONVOLUTION_DATA
                                                      : CONVOLUTION_WEIGHTS,
                                          .type = program_stored_type(program, node->input[0]),
                                          .groups = conv->groups};

    problem.result = problem.type;
    problem.tf32 = graph->compute_type == TENSOR_TF32;
    problem.nondeterministic = graph->nondeterministic;
    for (int i = 0; i < 4; i++) {
        problem.x[i] = graph->tensors[at.x].shape.extent[i];
        problem.weight[i] = graph->tensors[at.weight].shape.extent[i];
        problem.y[i] = graph->tensors[at.y].shape.extent[i];
    }
    for (int i = 0; i < 2; i++) {
        problem.stride[i] = conv->stride[i];
        problem.padding[i] = conv->padding[i];
        problem.dilation[i] = conv->dilation[i];
    }
    return problem;
}

/* Square filters, stride 1 or 2, padded so that results are as many as pixels of that stride. */
static bool is_plain(const struct conv_attributes *conv, int kernel)
{
    return conv->kernel[0] == kernel && conv->kernel[1] == kernel && conv->stride[0] <= 2 &&
           conv->stride[1] == conv->stride[0] && conv->padding[0] == kernel / 2 &&
           conv->padding[1] == kernel / 2 && conv->dilation[0] == 1 && conv->dilation[1] == 1;
}

static struct cuda_depthwise describe_depthwise(const struct backend_program *program,
                                                const struct graph_node *node)
{
    struct places at = places_of(node);
    const int64_t *x = program->graph->tensors[at.x].shape.extent;
    const int64_t *y = program->graph->tensors[at.y].shape.extent;

    return (struct cuda_depthwise){.type = program_stored_type(program, node->input[0]),
                                   .batch = (int)x[0],
                                   .channels = (int)x[1],
                                   .height = (int)x[2],
                                   .width = (int)x[3],
                                   .out_height = (int)y[2],
                                   .out_width = (int)y[3],
                                   .kernel = node->attributes.conv.kernel[0],
                                   .stride = node->attributes.conv.stride[0]};
}

static struct cuda_stem describe_stem(const struct backend_program *program,
                                      const struct graph_node *node)
{
    const struct cuda_depthwise d = describe_depthwise(program, node);

    return (struct cuda_stem){.type = d.type,
                              .batch = d.batch,
                              .channels = d.channels,
                              .height = d.height,
                              .width = d.width,
                              .outputs =
                                  (int)program->graph->tensors[places_of(node).y].shape.extent[1],
                              .out_height = d.out_height,
                              .out_width = d.out_width,
                              .stride = d.stride};
}

static struct cuda_weights_tf32 describe_tf32(const struct backend_program *program,
                                              const struct graph_node *node)
{
    const struct cuda_stem d = describe_stem(program, node);

    return (struct cuda_weights_tf32){.batch = d.batch,
                                      .channels = d.channels,
                                      .height = d.height,
                                      .width = d.width,
                                      .outputs = d.outputs};
}

static bool is_for_tf32(const struct backend_program *program, const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;
    const struct cuda_weights_tf32 d = describe_tf32(program, node);
    size_t bytes = (size_t)program_elements(program, places_of(node).weight) * sizeof(float);

    return node->op == OP_CONV2D_BACKWARD_WEIGHTS && program->graph->compute_type == TENSOR_TF32 &&
           program_stored_type(program, node->input[0]) == TENSOR_FLOAT32 &&
           program->device->capability[0] >= 8 && conv->groups == 1 && conv->stride[0] == 1 &&
           is_plain(conv, 3) && bytes <= CUDA_PRODUCT_SCRATCH && cuda_weights_tf32_is_possible(&d);
}

/* Which of our own kernels does the node, if any. */
static void choose_way(const struct backend_program *program, const struct graph_node *node,
                       struct convolution *convolution)
{
    const struct conv_attributes *conv = &node->attributes.conv;
    const struct cuda_stem stem = describe_stem(program, node);
    struct places at = places_of(node);

    if (program_stored_type(program, at.x) != program_stored_type(program, at.y) ||
        program_elements(program, at.x) > INT32_MAX || program_elements(program, at.y) > INT32_MAX)
        return;
    if (conv->groups == stem.channels && stem.outputs == stem.channels && stem.channels % 8 == 0 &&
        (is_plain(conv, 3) || is_plain(conv, 5)))
        convolution->way = BY_DEPTHWISE;
    else if (is_for_tf32(program, node))
        convolution->way = BY_TF32;
}

/* With the bias in the plan where there is one that needs no compilation (float32), else without.
 */
static int choose_plan(struct backend_program *program, const struct graph_node *node,
                       struct convolution *convolution, struct error *error)
{
    struct convolution_problem problem = describe(program, node);
    bool bias = node->op == OP_CONV2D && places_of(node).bias >= 0;
    int r = -ENOTSUP;

    if (bias) {
        problem.bias = true;
        r = convolution_search_plan(program->device->search, &problem, false, &convolution->graph,
                                    &convolution->plan, error);
        problem.bias = false;
    }
    if (r == -ENOTSUP) {
        convolution->adds_bias = bias;
        r = convolution_search_plan(program->device->search, &problem, true, &convolution->graph,
                                    &convolution->plan, error);
    }
    return r < 0 ? error_prefix(error, "%s", node->name) : 0;
}

static size_t aligned(size_t bytes)
{
    return (bytes + CUDA_SCRATCH_ALIGNMENT - 1) / CUDA_SCRATCH_ALIGNMENT * CUDA_SCRATCH_ALIGNMENT;
}

/* Whether a gradient of weights may be stored in the type of cuDNN's operands, which is the type
 * that it comes in: nothing is added to it, and only updates read it, but for Muon's. */
static bool may_stay_low(const struct graph *graph, const struct graph_node *node)
{
    if (node->op != OP_CONV2D_BACKWARD_WEIGHTS || graph->accumulate)
        return false;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *reader = &graph->nodes[i];

        for (int k = 0; k < reader->input_count; k++)
            if (reader->input[k] == node->output[0] &&
                (reader->op != OP_OPTIMIZER || muon_is_wanted(graph, reader)))
                return false;
    }
    return true;
}

int convolution_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    enum tensor_type type = program_stored_type(program, node->input[0]);
    int32_t result = places_of(node).result;
    struct convolution *convolution = calloc(1, sizeof *convolution);
    int r = convolution ? convolution_open_library(program->device, error)
                        : error_set(error, -ENOMEM, "no memory for a convolution");

    program->convolutions[index] = convolution;
    if (r < 0)
        return r;
    if (type != program_stored_type(program, node->input[1]))
        return error_set(error, -EINVAL, "%s: the operands' types differ", node->name);
    if (program->graph->tensors[places_of(node).y].shape.extent[1] * CUDA_CHANNEL_PARTS *
            (int64_t)sizeof(float) >
        CUDA_PRODUCT_SCRATCH)
        return error_set(error, -ENOTSUP, "%s: the CUDA backend takes at most %d channels",
                         node->name,
                         CUDA_PRODUCT_SCRATCH / (CUDA_CHANNEL_PARTS * (int)sizeof(float)));
    choose_way(program, node, convolution);
    if (convolution->way != BY_PLAN)
        return 0;
    r = choose_plan(program, node, convolution, error);
    if (r < 0)
        return r;
    if (may_stay_low(program->graph, node))
        program->stored[result] = (uint8_t)type;
    convolution->apart = program_stored_type(program, result) != type ||
                         (node->op == OP_CONV2D_BACKWARD_WEIGHTS && program->graph->accumulate);
    convolution->result_offset = aligned(convolution->plan.workspace_bytes);
    return 0;
}

size_t convolution_workspace(const struct backend_program *program, int32_t index)
{
    const struct convolution *convolution = program->convolutions[index];
    const struct graph_node *node = &program->graph->nodes[index];
    size_t bytes = convolution->result_offset;

    if (convolution->apart)
        bytes += (size_t)program_elements(program, places_of(node).result) *
                 tensor_type_bytes(program_stored_type(program, node->input[0]));
    return bytes ? bytes + CUDA_SCRATCH_ALIGNMENT : 0;
}

void convolution_free(struct convolution *convolution)
{
    if (!convolution)
        return;
    convolution_plan_free(&convolution->plan);
    convolution_graph_free(convolution->graph);
    free(convolution);
}

/* ---- runs --------------------------------------------------------------------------------------
 */

/* Of all images together: the rows of a matrix whose columns are the channels. */
static int64_t pixels_of(const struct backend_program *program, int32_t tensor)
{
    const int64_t *extent = program->graph->tensors[tensor].shape.extent;

    return extent[0] * extent[2] * extent[3];
}

/* Where the plan puts the result. */
static struct cuda_array plan_result(struct backend_program *program, int32_t index,
                                     char *workspace)
{
    const struct convolution *convolution = program->convolutions[index];
    const struct graph_node *node = &program->graph->nodes[index];

    return convolution->apart
               ? (struct cuda_array){.at = workspace + convolution->result_offset,
                                     .type = program_stored_type(program, node->input[0])}
               : program_array(program, places_of(node).result);
}

static cudaError_t run_depthwise(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_depthwise depthwise = describe_depthwise(program, node);
    struct places at = places_of(node);
    bool by_weights = node->op == OP_CONV2D_BACKWARD_WEIGHTS;
    const struct cuda_depthwise_operands operands = {
        .x = program->address[at.x],
        .y = program->address[at.y],
        .weight = program->address[at.weight],
        .bias = node->op == OP_CONV2D ? program_floats(program, at.bias) : NULL,
        .gradient = by_weights ? program_floats(program, at.weight) : NULL,
        .accumulate = program->run.accumulate,
        .parts = (float *)program->scratch,
        .part_bytes = CUDA_PRODUCT_SCRATCH};

    return cuda_depthwise(&depthwise,
                          node->op == OP_CONV2D ? CUDA_DEPTHWISE_FORWARD
                          : by_weights          ? CUDA_DEPTHWISE_WEIGHTS
                                                : CUDA_DEPTHWISE_DATA,
                          &operands, program->device->stream);
}

static cudaError_t run_stem(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_stem stem = describe_stem(program, node);
    struct places at = places_of(node);
    bool by_weights = node->op == OP_CONV2D_BACKWARD_WEIGHTS;
    const struct cuda_stem_operands operands = {
        .x = program->address[at.x],
        .y = program->address[at.y],
        .weight = program->address[at.weight],
        .bias = by_weights ? NULL : program_floats(program, at.bias),
        .gradient = by_weights ? program_floats(program, at.weight) : NULL,
        .accumulate = program->run.accumulate,
        .parts = (float *)program->scratch,
        .part_bytes = CUDA_PRODUCT_SCRATCH};

    return cuda_stem(&stem, &operands, program->device->stream);
}

static cudaError_t run_tf32(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_weights_tf32 weights = describe_tf32(program, node);
    struct places at = places_of(node);
    const struct cuda_weights_tf32_operands operands = {.x = program->address[at.x],
                                                        .y = program->address[at.y],
                                                        .gradient =
                                                            program_floats(program, at.weight),
                                                        .accumulate = program->run.accumulate,
                                                        .parts = (float *)program->scratch,
                                                        .part_bytes = CUDA_PRODUCT_SCRATCH};

    return cuda_weights_tf32(&weights, &operands, program->device->stream);
}

/* By the kernel of our own that was chosen. */
static cudaError_t run_own(struct backend_program *program, int32_t index)
{
    switch (program->convolutions[index]->way) {
    case BY_STEM:
        return run_stem(program, index);
    case BY_TF32:
        return run_tf32(program, index);
    default:
        return run_depthwise(program, index);
    }
}

static int run_plan(struct backend_program *program, int32_t index, struct cuda_array *written,
                    struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct places at = places_of(node);
    uintptr_t workspace = ((uintptr_t)program->workspace[index] + CUDA_SCRATCH_ALIGNMENT - 1) /
                          CUDA_SCRATCH_ALIGNMENT * CUDA_SCRATCH_ALIGNMENT;
    struct convolution_operands operands = {.x = program->address[at.x],
                                            .weight = program->address[at.weight],
                                            .y = program->address[at.y],
                                            .bias = program_floats(program, at.bias),
                                            .workspace = (void *)workspace};
    cudaError_t status;
    int r;

    if (program->convolutions[index]->way != BY_PLAN) {
        status = run_own(program, index);
        return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
    }
    *written = plan_result(program, index, (char *)workspace);
    if (node->op == OP_CONV2D)
        operands.y = written->at;
    else if (node->op == OP_CONV2D_BACKWARD_DATA)
        operands.x = written->at;
    else
        operands.weight = written->at;
    r = convolution_plan_run(&program->convolutions[index]->plan, &operands, error);
    return r < 0 ? error_prefix(error, "%s", node->name) : 0;
}

int convolution_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct places at = places_of(node);
    const struct convolution *convolution = program->convolutions[index];
    struct cuda_array result = program_array(program, at.result), written;
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cudaSuccess;
    int r = run_plan(program, index, &written, error);

    if (r < 0)
        return r;
    if (convolution->apart)
        status = cuda_cast(written, result, program_elements(program, at.result), stream);
    if (status == cudaSuccess && convolution->adds_bias)
        status = cuda_add_bias(result, pixels_of(program, at.y),
                               program->graph->tensors[at.y].shape.extent[1],
                               program_floats(program, at.bias), stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

int convolution_backward_weights_run(struct backend_program *program, int32_t index,
                                     struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct places at = places_of(node);
    bool accumulate = program->run.accumulate;
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cudaSuccess;
    struct cuda_array written;
    int r = run_plan(program, index, &written, error);

    if (r < 0)
        return r;
    if (program->convolutions[index]->apart)
        status = cuda_add_gradient(written, program_floats(program, at.weight),
                                   program_elements(program, at.weight), accumulate, stream);
    if (status == cudaSuccess && at.bias >= 0)
        status =
            cuda_channel_sum(program_array(program, at.y), pixels_of(program, at.y),
                             program->graph->tensors[at.y].shape.extent[1], accumulate,
                             program_floats(program, at.bias), (float *)program->scratch, stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
