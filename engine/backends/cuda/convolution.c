/* convolution.c: convolutions and their gradients as nodes of a program. Each runs by the way that
 * convolution_choice.c has chosen. */
#include "base/alignment.h"
#include "engine/backends/cuda/convolution_choice.h"
#include "engine/backends/cuda/muon.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* ---- the library ----------------------------------------------------------------------------- */

int convolution_open_library(struct backend_device *device, struct error *error)
{
    char path[PATH_MAX];
    bool kept;
    int r = 0;

    if (!device->cudnn)
        r = cudnn_open(device->stream, &device->cudnn, error);
    if (r < 0)
        return r;
    kept = choices_name_file(device->cache_folder, "convolutions", device->model,
                             device->cudnn->cudnnGetVersion(), path);
    if (!device->search)
        return convolution_search_open(device->cudnn, device->stream, kept ? path : NULL,
                                       &device->search, error);
    if (kept)
        choices_keep(convolution_search_choices(device->search), path);
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
        choices_trim(convolution_search_choices(device->search));
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* Whether a gradient of weights may be stored in the type of cuDNN's operands, in which cuDNN
 * writes it. Nothing may be added to it, and only updates may read it; Muon's may not. */
static bool may_stay_low(const struct graph *graph, const struct graph_node *node)
{
    if (node->op != OP_CONV2D_BACKWARD_WEIGHTS || graph->accumulate)
        return false;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *reader = &graph->nodes[i];

        for (int k = 0; k < reader->input_count; k++)
            if (reader->input[k] == node->output[0] &&
                (reader->op != OP_OPTIMIZER || graph_node_updates_whole(graph, reader)))
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
                        : error_no_memory(error, "a convolution");

    program->convolutions[index] = convolution;
    if (r < 0)
        return r;
    if (type != program_stored_type(program, node->input[1]))
        return error_set(error, -EINVAL, "%s: the operands' types differ", node->name);
    if (program->graph->tensors[places_of(node).y].shape.extent[1] * CUDA_CHANNEL_PARTS *
            (int64_t)sizeof(float) >
        CUDA_PRODUCT_SCRATCH)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "%s: the CUDA backend takes at most %d channels", node->name,
                         CUDA_PRODUCT_SCRATCH / (CUDA_CHANNEL_PARTS * (int)sizeof(float)));
    r = convolution_choose_way(program, node, program->image_fusions[index].activation >= 0,
                               convolution, error);
    if (r < 0 || convolution->way != BY_PLAN)
        return r;
    if (may_stay_low(program->graph, node))
        program->stored[result] = (uint8_t)type;
    convolution->apart = program_stored_type(program, result) != type ||
                         (node->op == OP_CONV2D_BACKWARD_WEIGHTS && program->graph->accumulate);
    convolution->result_offset =
        align_up(convolution->plan.workspace_bytes, CUDA_SCRATCH_ALIGNMENT);
    return 0;
}

size_t convolution_workspace(const struct backend_program *program, int32_t index)
{
    const struct convolution *convolution = program->convolutions[index];
    const struct graph_node *node = &program->graph->nodes[index];
    size_t bytes = convolution->result_offset;

    if (convolution_way_is_padded(convolution->way))
        bytes = convolution->padded.bytes;
    if (convolution->apart)
        bytes += (size_t)program_elements(program, places_of(node).result) *
                 tensor_type_bytes(program_stored_type(program, node->input[0]));
    return bytes ? bytes + CUDA_SCRATCH_ALIGNMENT : 0;
}

void convolution_free(struct convolution *convolution)
{
    if (!convolution)
        return;
    convolution_padded_free(&convolution->padded);
    convolution_plan_free(&convolution->plan);
    convolution_graph_free(convolution->graph);
    free(convolution);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* The pixels of all images together: the rows of a matrix whose columns are the channels. */
static int64_t pixels_of(const struct backend_program *program, int32_t tensor)
{
    const int64_t *extent = program->graph->tensors[tensor].shape.extent;

    return extent[0] * extent[2] * extent[3];
}

/* Where the plan writes the result. */
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

/* Runs the kernel of our own that was chosen. */
static cudaError_t run_own(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct places at = places_of(node);
    bool by_weights = node->op == OP_CONV2D_BACKWARD_WEIGHTS;
    const struct own_operands operands = {
        .x = program->address[at.x],
        .y = program->address[at.y],
        .weight = program->address[at.weight],
        .bias = node->op == OP_CONV2D ? program_floats(program, at.bias) : NULL,
        .gradient = by_weights ? program_floats(program, at.weight) : NULL,
        .accumulate = program->run.accumulate,
        .parts = (float *)program->scratch};

    return own_launch(program, node, program->convolutions[index]->way, (int)program->graph->batch,
                      &operands);
}

static int run_plan(struct backend_program *program, int32_t index, struct cuda_array *written,
                    struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct places at = places_of(node);
    uintptr_t workspace = align_up((uintptr_t)program->workspace[index], CUDA_SCRATCH_ALIGNMENT);
    struct convolution_operands operands = {.x = program->address[at.x],
                                            .weight = program->address[at.weight],
                                            .y = program->address[at.y],
                                            .bias = program_floats(program, at.bias),
                                            .workspace = (void *)workspace};
    cudaError_t status;
    int r;

    if (convolution_way_is_padded(program->convolutions[index]->way)) {
        *written = program_array(program, at.result);
        r = convolution_padded_run(&program->convolutions[index]->padded, &operands, *written,
                                   node->op == OP_CONV2D_BACKWARD_WEIGHTS &&
                                       program->run.accumulate,
                                   program->device->stream, error);
        return r < 0 ? error_prefix(error, "%s", node->name) : 0;
    }
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

/* Runs the bias, the activation and the pool, as far as they are fused. */
static cudaError_t run_behind(struct backend_program *program, int32_t index,
                              struct cuda_array result)
{
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct graph_node *nodes = program->graph->nodes;
    struct places at = places_of(&nodes[index]);
    const float *bias =
        program->convolutions[index]->adds_bias ? program_floats(program, at.bias) : NULL;
    const struct cuda_array none = {.at = NULL};
    cudaStream_t stream = program->device->stream;

    if (fusion->pool >= 0) {
        const struct graph_node *pool = &nodes[fusion->pool];
        struct cuda_pool shape =
            image_describe_pool(program, pool, pool->input[0], pool->output[0]);

        shape.rectified = true;
        shape.bias = bias;
        return cuda_max_pool(
            &shape, result, program_array(program, pool->output[0]),
            pool->output_count > 1 ? (uint8_t *)program->address[pool->output[1]] : NULL, stream);
    }
    if (fusion->activation >= 0)
        return cuda_bias_activation(
            result, bias, (int)nodes[fusion->activation].attributes.activation,
            fusion->keeps ? result : none,
            program_array(program, nodes[fusion->activation].output[0]), pixels_of(program, at.y),
            program->graph->tensors[at.y].shape.extent[1], stream);
    return bias ? cuda_bias_activation(result, bias, -1, none, result, pixels_of(program, at.y),
                                       program->graph->tensors[at.y].shape.extent[1], stream)
                : cudaSuccess;
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
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): run_plan() has set it */
        status = cuda_cast(written, result, program_elements(program, at.result), stream);
    if (status == cudaSuccess)
        status = run_behind(program, index, result);
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
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): run_plan() has set it */
        status = cuda_add_gradient(written, program_floats(program, at.weight),
                                   program_elements(program, at.weight), accumulate, stream);
    if (status == cudaSuccess && at.bias >= 0 && !program->image_fusions[index].leaves_bias)
        return channel_sum_run(program, index, at.y, -1, at.bias, error);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
