/* convolution.c: convolutions and their gradients as nodes of a program. Each is computed by the
 * fastest known plan of cuDNN (convolution_plan.h, convolution_search.h), or by a kernel of our own
 * if that was measured to be faster. */
#include "base/alignment.h"
#include "engine/backends/cuda/convolution_own.h"
#include "engine/backends/cuda/convolution_padded.h"
#include "engine/backends/cuda/muon.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct convolution {
    struct convolution_graph *graph;
    struct convolution_plan plan;
    struct convolution_padded padded; /* where that is the way */
    enum convolution_way way;
    bool adds_bias; /* a kernel adds it after the plan */
    bool apart;     /* the plan writes to the workspace, and a kernel moves the result from there */
    size_t result_offset; /* in the workspace */
};

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

/* Chooses a plan. It includes the bias if a plan that needs no compilation does that (float32), but
 * not if there is a pass behind it in any case (`behind`). -ERROR_SLOWER, without a sentence: no
 * plan takes less than `limit`. */
static int choose_plan(struct backend_program *program, const struct graph_node *node, bool behind,
                       double limit, struct convolution *convolution, struct error *error)
{
    struct convolution_problem problem = describe(program, node);
    bool bias = node->op == OP_CONV2D && places_of(node).bias >= 0;
    int r = -ERROR_UNSUPPORTED;

    if (bias && !behind) {
        problem.bias = true;
        r = convolution_search_plan(program->device->search, &problem, false, limit,
                                    &convolution->graph, &convolution->plan, error);
        problem.bias = false;
    }
    if (r == -ERROR_UNSUPPORTED) {
        convolution->adds_bias = bias;
        r = convolution_search_plan(program->device->search, &problem, true, limit,
                                    &convolution->graph, &convolution->plan, error);
    }
    return r < 0 && r != -ERROR_SLOWER ? error_prefix(error, "%s", node->name) : r;
}

static bool time_plan(struct backend_program *program, const struct convolution_problem *problem,
                      struct convolution_plan *plan, double *microseconds)
{
    struct convolution_operands operands;
    struct error ignored;

    return convolution_search_operands(program->device->search, problem, plan->workspace_bytes,
                                       &operands) &&
           convolution_plan_time(plan, &operands, program->device->stream, OWN_RUNS, microseconds,
                                 &ignored) == 0;
}

/* Chooses the fastest among our kernels `ways`, plans for more channels and cuDNN's plans. If a
 * plan is the fastest, makes it. BY_PLAN with `is_measured` false: they could not be compared. */
static int compare_ways(struct backend_program *program, const struct graph_node *node, bool behind,
                        const enum convolution_way *ways, int count,
                        struct convolution *convolution, bool *is_measured, struct error *error)
{
    const struct convolution_problem problem = describe(program, node);
    const struct convolution_problem measured = convolution_search_measured(&problem), *at;
    struct convolution_search *search = program->device->search;
    char key[CHOICES_KEY_MAX];
    enum convolution_way way;
    double own = INFINITY, plan;
    bool is_known;
    int r;

    convolution_search_key(&measured, key);
    is_known = choices_find(convolution_search_choices(search), key);
    at = is_known ? &problem : &measured;
    way = own_fastest(program, node, ways, count, at, &own);
    if (way != BY_PLAN && convolution_problem_is_risky(&problem)) {
        convolution->way = way;
        *is_measured = true;
        return 0;
    }
    for (int f = 0; f < CONVOLUTION_FILLINGS; f++)
        if (convolution_padded_is_possible(at, (enum convolution_filling)f) &&
            convolution_padded_time(search, at, (enum convolution_filling)f,
                                    program->device->stream, &plan) &&
            plan < own) {
            way = (enum convolution_way)(BY_PADDED + f);
            own = plan;
        }
    r = choose_plan(program, node, behind, own, convolution, error);
    convolution->way = way;
    *is_measured = way != BY_PLAN;
    if (r < 0 && way != BY_PLAN)
        return 0;
    if (r < 0 || way == BY_PLAN)
        return r;
    if (!is_known) { /* here the plan took less than the limit */
        convolution->way = BY_PLAN;
    } else {
        *is_measured = time_plan(program, &problem, &convolution->plan, &plan);
        convolution->way = *is_measured && own <= plan ? way : BY_PLAN;
    }
    return 0;
}

static bool is_padded(int way)
{
    return way >= BY_PADDED && way < BY_PADDED + CONVOLUTION_FILLINGS;
}

static bool is_among(int way, const enum convolution_way *ways, int count)
{
    bool found = way == BY_PLAN || is_padded(way);

    for (int i = 0; i < count; i++)
        found |= (int)ways[i] == way;
    return found;
}

/* Makes a plan for more channels. If there is none after all, it makes one for those that there
 * are. */
static int choose_padded(struct backend_program *program, const struct graph_node *node,
                         bool behind, struct convolution *convolution, struct error *error)
{
    const struct convolution_problem problem = describe(program, node);

    convolution->adds_bias = node->op == OP_CONV2D && places_of(node).bias >= 0;
    if (convolution_padded_prepare(program->device->search, &problem,
                                   (enum convolution_filling)(convolution->way - BY_PADDED),
                                   &convolution->padded, error) == 0)
        return 0;
    convolution->way = BY_PLAN;
    convolution->adds_bias = false;
    return choose_plan(program, node, behind, INFINITY, convolution, error);
}

/* Chooses the kernel of our own, or the plan, that was measured to be the fastest. */
static int choose_way(struct backend_program *program, const struct graph_node *node, bool behind,
                      struct convolution *convolution, struct error *error)
{
    const struct convolution_problem problem = describe(program, node);
    const struct convolution_problem measured = convolution_search_measured(&problem);
    struct choices *choices = convolution_search_choices(program->device->search);
    enum convolution_way ways[CONVOLUTION_WAYS];
    int count = own_ways(program, node, ways), r, way;
    char key[CHOICES_KEY_MAX], described[CHOICES_KEY_MAX];
    const char *known;
    bool is_measured = false, has_others = count > 0 ||
                                           convolution_padded_is_possible(&problem, FILL_CHUNKS) ||
                                           convolution_padded_is_possible(&problem, FILL_POWERS);

    convolution_search_key(&measured, described);
    snprintf(key, sizeof key, "way,%.180s", described);
    known = choices_find(choices, key);
    way = known ? convolution_way_from_string(known) : -1;
    if (has_others && !is_among(way, ways, count)) {
        r = compare_ways(program, node, behind, ways, count, convolution, &is_measured, error);
        known = r == 0 && is_measured
                    ? choices_add(choices, key, convolution_way_to_string(convolution->way))
                    : NULL;
        /* if another process has measured it meanwhile, its result counts */
        way = known ? convolution_way_from_string(known) : -1;
        way = is_among(way, ways, count) ? way : (int)convolution->way;
        if (r == 0 && way == BY_PLAN && !convolution->graph)
            r = choose_plan(program, node, behind, INFINITY, convolution, error);
    } else {
        way = has_others ? way : BY_PLAN;
        r = way == BY_PLAN ? choose_plan(program, node, behind, INFINITY, convolution, error) : 0;
    }
    convolution->way = (enum convolution_way)way;
    if (r < 0 || way == BY_PLAN)
        return r;
    convolution->adds_bias = false;
    convolution_plan_free(&convolution->plan);
    convolution_graph_free(convolution->graph);
    convolution->graph = NULL;
    return is_padded(way) ? choose_padded(program, node, behind, convolution, error) : 0;
}

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
    r = choose_way(program, node, program->image_fusions[index].activation >= 0, convolution,
                   error);
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

    if (is_padded(convolution->way))
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

    if (is_padded(program->convolutions[index]->way)) {
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
