/* convolution_plan.c: see convolution_plan.h. */
#include "engine/backends/cuda/convolution_plan.h"

#include <errno.h>
#include <stdlib.h>

enum { DESCRIPTORS_MAX = 64, CONFIGURATIONS_MAX = 64, OPERATIONS_MAX = 6 };
/* Tensors that are given, in the order of struct convolution_operands, then those between
 * operations. */
enum { UID_X = 1, UID_WEIGHT, UID_Y, UID_BIAS, UID_SCALE, UID_SHIFT, UID_SUM, UID_SQUARES };
enum { UID_PRODUCTS = 20, UID_SCALED, UID_SHIFTED, UID_RECTIFIED };

/* ---- descriptors -------------------------------------------------------------------------------
 */

/* Makes descriptors one after the other; after a failure the calls do nothing. */
struct builder {
    const struct cudnn *cudnn;
    cudnnStatus_t status;
    int count;
    cudnnBackendDescriptor_t made[DESCRIPTORS_MAX];
};

static void builder_release(struct builder *builder)
{
    while (builder->count > 0)
        builder->cudnn->cudnnBackendDestroyDescriptor(builder->made[--builder->count]);
}

static cudnnBackendDescriptor_t create(struct builder *builder, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;

    if (builder->status == CUDNN_STATUS_SUCCESS && builder->count == DESCRIPTORS_MAX)
        builder->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status = builder->cudnn->cudnnBackendCreateDescriptor(type, &made);
    if (made)
        builder->made[builder->count++] = made;
    return made;
}

static void set(struct builder *builder, cudnnBackendDescriptor_t descriptor,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void *values)
{
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status =
            builder->cudnn->cudnnBackendSetAttribute(descriptor, name, type, count, values);
}

static void set_descriptor(struct builder *builder, cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    set(builder, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(struct builder *builder, cudnnBackendDescriptor_t descriptor)
{
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status = builder->cudnn->cudnnBackendFinalize(descriptor);
}

/* ---- the operation graph -----------------------------------------------------------------------
 */

struct convolution_graph {
    struct builder builder;
    struct convolution_problem problem;
    int operation_count;
    cudnnBackendDescriptor_t operation[OPERATIONS_MAX], operations;
};

static cudnnDataType_t data_type(enum tensor_type type)
{
    return type == TENSOR_BFLOAT16  ? CUDNN_DATA_BFLOAT16
           : type == TENSOR_FLOAT16 ? CUDNN_DATA_HALF
                                    : CUDNN_DATA_FLOAT;
}

/* A tensor whose last three dimensions lie in the order h, w, channels. */
static cudnnBackendDescriptor_t describe_tensor(struct builder *builder, int64_t uid,
                                                const int64_t extent[4], cudnnDataType_t type,
                                                bool virtual)
{
    const int64_t stride[4] = {extent[1] * extent[2] * extent[3], 1, extent[3] * extent[1],
                               extent[1]};
    const int64_t alignment = 16;
    cudnnBackendDescriptor_t tensor = create(builder, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set(builder, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(builder, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extent);
    set(builder, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(builder, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(builder, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(builder, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &virtual);
    finalize(builder, tensor);
    return tensor;
}

static cudnnBackendDescriptor_t describe_convolution(struct builder *builder,
                                                     const struct convolution_problem *problem)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dimensions = 2;
    cudnnBackendDescriptor_t made = create(builder, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    set(builder, made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, problem->padding);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, problem->padding);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, problem->dilation);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, problem->stride);
    finalize(builder, made);
    return made;
}

/* What each pass calls its parts. */
static const struct pass_names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, weight, y, convolution, alpha, beta;
} pass_names[CONVOLUTION_PASSES] = {
    [CONVOLUTION_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CONVOLUTION_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CONVOLUTION_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnDataType_t type_in_pass(const struct convolution_problem *problem,
                                    enum convolution_pass writes)
{
    return data_type(problem->pass == writes ? problem->result : problem->type);
}

/* y = x (mode) b, or mode(x) without b */
static cudnnBackendDescriptor_t
describe_pointwise(struct builder *builder, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                   cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t pointwise = create(builder, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t operation;

    set(builder, pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(builder, pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize(builder, pointwise);
    operation = create(builder, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finalize(builder, operation);
    return operation;
}

/* Operations in front of the convolution: max(0, x scale + shift), which it reads in place of x. */
static cudnnBackendDescriptor_t add_prologue(struct convolution_graph *graph,
                                             cudnnBackendDescriptor_t x)
{
    struct builder *builder = &graph->builder;
    const struct convolution_problem *problem = &graph->problem;
    const int64_t channels[4] = {1, problem->x[1], 1, 1};
    cudnnDataType_t type = data_type(problem->type);
    cudnnBackendDescriptor_t scale = describe_tensor(builder, UID_SCALE, channels, type, false);
    cudnnBackendDescriptor_t shift = describe_tensor(builder, UID_SHIFT, channels, type, false);
    cudnnBackendDescriptor_t scaled = describe_tensor(builder, UID_SCALED, problem->x, type, true);
    cudnnBackendDescriptor_t shifted =
        describe_tensor(builder, UID_SHIFTED, problem->x, type, true);
    cudnnBackendDescriptor_t rectified =
        describe_tensor(builder, UID_RECTIFIED, problem->x, type, true);

    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_MUL, x, scale, scaled);
    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_ADD, scaled, shift, shifted);
    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_RELU_FWD, shifted, NULL, rectified);
    return rectified;
}

/* Sums over each channel of y and of its squares, float32. */
static void add_statistics(struct convolution_graph *graph, cudnnBackendDescriptor_t y)
{
    struct builder *builder = &graph->builder;
    const int64_t channels[4] = {1, graph->problem.y[1], 1, 1};
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t sum =
        describe_tensor(builder, UID_SUM, channels, CUDNN_DATA_FLOAT, false);
    cudnnBackendDescriptor_t squares =
        describe_tensor(builder, UID_SQUARES, channels, CUDNN_DATA_FLOAT, false);
    cudnnBackendDescriptor_t made = create(builder, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);

    set(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    set(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set_descriptor(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
    set_descriptor(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    set_descriptor(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    finalize(builder, made);
    graph->operation[graph->operation_count++] = made;
}

static void add_bias(struct convolution_graph *graph, cudnnBackendDescriptor_t products)
{
    struct builder *builder = &graph->builder;
    const struct convolution_problem *problem = &graph->problem;
    const int64_t channels[4] = {1, problem->y[1], 1, 1};
    cudnnBackendDescriptor_t bias =
        describe_tensor(builder, UID_BIAS, channels, CUDNN_DATA_FLOAT, false);
    cudnnBackendDescriptor_t y =
        describe_tensor(builder, UID_Y, problem->y, data_type(problem->result), false);

    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_ADD, products, bias, y);
}

static cudnnBackendDescriptor_t describe_pass(struct convolution_graph *graph,
                                              cudnnBackendDescriptor_t x,
                                              cudnnBackendDescriptor_t weight,
                                              cudnnBackendDescriptor_t y)
{
    struct builder *builder = &graph->builder;
    const struct pass_names *names = &pass_names[graph->problem.pass];
    const float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t convolution = describe_convolution(builder, &graph->problem);
    cudnnBackendDescriptor_t operation = create(builder, names->operation);

    set_descriptor(builder, operation, names->x, x);
    set_descriptor(builder, operation, names->weight, weight);
    set_descriptor(builder, operation, names->y, y);
    set_descriptor(builder, operation, names->convolution, convolution);
    set(builder, operation, names->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(builder, operation, names->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    finalize(builder, operation);
    return operation;
}

static void describe_operations(struct convolution_graph *graph)
{
    struct builder *builder = &graph->builder;
    const struct convolution_problem *problem = &graph->problem;
    cudnnBackendDescriptor_t x =
        describe_tensor(builder, UID_X, problem->x, type_in_pass(problem, CONVOLUTION_DATA), false);
    cudnnBackendDescriptor_t weight = describe_tensor(
        builder, UID_WEIGHT, problem->weight, type_in_pass(problem, CONVOLUTION_WEIGHTS), false);
    cudnnBackendDescriptor_t y =
        problem->bias ? describe_tensor(builder, UID_PRODUCTS, problem->y, CUDNN_DATA_FLOAT, true)
                      : describe_tensor(builder, UID_Y, problem->y,
                                        type_in_pass(problem, CONVOLUTION_FORWARD), false);

    if (problem->rectified)
        x = add_prologue(graph, x);
    graph->operation[graph->operation_count++] = describe_pass(graph, x, weight, y);
    if (problem->bias)
        add_bias(graph, y);
    if (problem->statistics)
        add_statistics(graph, y);
    graph->operations = create(builder, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(builder, graph->operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
        &builder->cudnn->handle);
    set(builder, graph->operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        graph->operation_count, graph->operation);
    finalize(builder, graph->operations);
}

int convolution_graph_make(const struct cudnn *cudnn, const struct convolution_problem *problem,
                           struct convolution_graph **result, struct error *error)
{
    struct convolution_graph *graph = calloc(1, sizeof *graph);
    cudnnStatus_t status;

    if (!graph)
        return error_set(error, -ENOMEM, "no memory for a convolution");
    graph->builder.cudnn = cudnn;
    graph->problem = *problem;
    describe_operations(graph);
    status = graph->builder.status;
    if (status != CUDNN_STATUS_SUCCESS) {
        convolution_graph_free(graph);
        return error_set(error, -ENOTSUP, "cuDNN refuses the convolution: %s",
                         cudnn->cudnnGetErrorString(status));
    }
    *result = graph;
    return 0;
}

void convolution_graph_free(struct convolution_graph *graph)
{
    if (!graph)
        return;
    builder_release(&graph->builder);
    free(graph);
}

/* ---- engines that cuDNN proposes ---------------------------------------------------------------
 */

/* Whether results are as exact as the problem wants, and the same bits each time if it wants that.
 */
static bool is_acceptable(const struct convolution_problem *problem, int64_t engine,
                          const cudnnBackendNumericalNote_t *notes, int64_t count)
{
    bool strict = problem->type == TENSOR_FLOAT32 && !problem->tf32;

    /* They say nothing of it, but round more than they may: with groups of one channel by the
     * weights, their normalised mean squared error is 1.9e-7 in float32 (17), 1.8e-6 in float16
     * (61, whose parts are added up in it), 1.1e-5 in bfloat16 (47); cuDNN 9.19 on an H200. */
    if (problem->pass == CONVOLUTION_WEIGHTS && problem->groups > 1 &&
        (engine == 17 || engine == 47 || engine == 61))
        return false;

    for (int64_t i = 0; i < count; i++) {
        switch (notes[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
            if (!problem->nondeterministic)
                return false;
            break;
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        case CUDNN_NUMERICAL_NOTE_FFT:
            return false;
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
            if (strict)
                return false;
            break;
        default:
            break;
        }
    }
    return true;
}

/* The knobs of a configuration. */
static void read_knobs(struct builder *builder, cudnnBackendDescriptor_t configuration,
                       struct convolution_choice *choice)
{
    const struct cudnn *cudnn = builder->cudnn;
    cudnnBackendDescriptor_t knobs[CONVOLUTION_KNOBS_MAX] = {NULL};
    int64_t count = 0, got;

    for (int i = 0; i < CONVOLUTION_KNOBS_MAX; i++)
        knobs[i] = create(builder, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status = cudnn->cudnnBackendGetAttribute(
            configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            CONVOLUTION_KNOBS_MAX, &count, knobs);
    for (int64_t i = 0; i < count && i < CONVOLUTION_KNOBS_MAX; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;

        if (builder->status == CUDNN_STATUS_SUCCESS)
            builder->status = cudnn->cudnnBackendGetAttribute(
                knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &got, &type);
        if (builder->status == CUDNN_STATUS_SUCCESS)
            builder->status =
                cudnn->cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                                CUDNN_TYPE_INT64, 1, &got, &choice->knobs[i].value);
        choice->knobs[i].type = (int32_t)type;
        choice->knob_count++;
    }
}

/* Whether the configuration may be used; then `choice` says how to ask for it again. */
static bool read_configuration(const struct convolution_graph *graph,
                               cudnnBackendDescriptor_t configuration,
                               struct convolution_choice *choice)
{
    const struct cudnn *cudnn = graph->builder.cudnn;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    struct builder builder = {.cudnn = cudnn};
    cudnnBackendDescriptor_t engine = create(&builder, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t note_count = 0, behavior_count = 0, got;

    *choice = (struct convolution_choice){0};
    if (builder.status == CUDNN_STATUS_SUCCESS)
        builder.status =
            cudnn->cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &got, &engine);
    if (builder.status == CUDNN_STATUS_SUCCESS)
        builder.status = cudnn->cudnnBackendGetAttribute(
            engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &note_count, notes);
    if (builder.status == CUDNN_STATUS_SUCCESS)
        builder.status = cudnn->cudnnBackendGetAttribute(
            engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &got, &choice->engine);
    if (builder.status == CUDNN_STATUS_SUCCESS)
        builder.status = cudnn->cudnnBackendGetAttribute(
            engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behavior_count, behavior);
    for (int64_t i = 0; i < behavior_count; i++)
        choice->compiles |= behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    read_knobs(&builder, configuration, choice);
    builder_release(&builder);
    return builder.status == CUDNN_STATUS_SUCCESS &&
           is_acceptable(&graph->problem, choice->engine, notes, note_count);
}

static bool is_known(const struct convolution_choice *choice,
                     const struct convolution_choice *choices, int count)
{
    for (int i = 0; i < count; i++) {
        const struct convolution_choice *other = &choices[i];
        bool same = other->engine == choice->engine && other->knob_count == choice->knob_count;

        for (int32_t k = 0; same && k < choice->knob_count; k++)
            same = other->knobs[k].type == choice->knobs[k].type &&
                   other->knobs[k].value == choice->knobs[k].value;
        if (same)
            return true;
    }
    return false;
}

/* Adds what one of cuDNN's heuristics proposes. */
static int ask_heuristic(struct convolution_graph *graph, cudnnBackendHeurMode_t mode,
                         struct convolution_choice *choices, int count, int most)
{
    const struct cudnn *cudnn = graph->builder.cudnn;
    struct builder builder = {.cudnn = cudnn};
    cudnnBackendDescriptor_t heuristic = create(&builder, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendDescriptor_t results[CONFIGURATIONS_MAX - 1];
    int64_t found = 0;

    set_descriptor(&builder, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph->operations);
    set(&builder, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(&builder, heuristic);
    for (int i = 0; i < CONFIGURATIONS_MAX - 1; i++)
        results[i] = create(&builder, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (builder.status == CUDNN_STATUS_SUCCESS &&
        cudnn->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS_MAX - 1,
                                        &found, results) != CUDNN_STATUS_SUCCESS)
        found = 0;
    for (int64_t i = 0; i < found && i < CONFIGURATIONS_MAX - 1 && count < most; i++)
        if (read_configuration(graph, results[i], &choices[count]) &&
            !is_known(&choices[count], choices, count))
            count++;
    builder_release(&builder);
    return count;
}

int convolution_graph_choices(struct convolution_graph *graph, struct convolution_choice *choices,
                              int most)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                   CUDNN_HEUR_MODE_FALLBACK};
    int count = 0;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        count = ask_heuristic(graph, modes[i], choices, count, most);
    return count;
}

/* ---- plans -------------------------------------------------------------------------------------
 */

static cudnnBackendDescriptor_t configure_engine(struct builder *builder,
                                                 const struct convolution_graph *graph,
                                                 const struct convolution_choice *choice)
{
    cudnnBackendDescriptor_t engine = create(builder, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t knobs[CONVOLUTION_KNOBS_MAX], configuration;

    set_descriptor(builder, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph->operations);
    set(builder, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &choice->engine);
    finalize(builder, engine);
    for (int32_t i = 0; i < choice->knob_count; i++) {
        cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)choice->knobs[i].type;

        knobs[i] = create(builder, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set(builder, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        set(builder, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
            &choice->knobs[i].value);
        finalize(builder, knobs[i]);
    }
    configuration = create(builder, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_descriptor(builder, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (choice->knob_count > 0)
        set(builder, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
            CUDNN_TYPE_BACKEND_DESCRIPTOR, choice->knob_count, knobs);
    finalize(builder, configuration);
    return configuration;
}

/* Completes a plan whose attributes are set. */
static int finish_plan(struct builder *builder, struct convolution_plan *plan, struct error *error)
{
    const struct cudnn *cudnn = builder->cudnn;
    int64_t workspace = 0, got;

    finalize(builder, plan->plan);
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status =
            cudnn->cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &got, &workspace);
    builder_release(builder);
    plan->workspace_bytes = (size_t)workspace;
    if (builder->status == CUDNN_STATUS_SUCCESS)
        return 0;
    convolution_plan_free(plan);
    return error_set(error, -ENOTSUP, "cuDNN makes no plan: %s",
                     cudnn->cudnnGetErrorString(builder->status));
}

/* An empty plan; the builder keeps what it is made of until it is finished. */
static void begin_plan(struct builder *builder, const struct convolution_graph *graph,
                       struct convolution_plan *plan)
{
    const struct cudnn *cudnn = graph->builder.cudnn;

    *plan = (struct convolution_plan){.cudnn = cudnn, .problem = &graph->problem};
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status = cudnn->cudnnBackendCreateDescriptor(
            CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->plan);
    set(builder, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
        &cudnn->handle);
}

int convolution_plan_make(struct convolution_graph *graph, const struct convolution_choice *choice,
                          struct convolution_plan *plan, struct error *error)
{
    struct builder builder = {.cudnn = graph->builder.cudnn};
    cudnnBackendDescriptor_t configuration = configure_engine(&builder, graph, choice);

    begin_plan(&builder, graph, plan);
    set_descriptor(&builder, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    return finish_plan(&builder, plan, error);
}

int convolution_plan_restore(struct convolution_graph *graph, const char *text, size_t size,
                             struct convolution_plan *plan, struct error *error)
{
    struct builder builder = {.cudnn = graph->builder.cudnn};

    begin_plan(&builder, graph, plan);
    set(&builder, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        (int64_t)size, text);
    return finish_plan(&builder, plan, error) ? error_set(error, -EINVAL, "%s", error->text) : 0;
}

char *convolution_plan_save(const struct convolution_plan *plan, size_t *size)
{
    int64_t bytes = 0;
    char *text = NULL;

    if (plan->cudnn->cudnnBackendGetAttribute(
            plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &bytes,
            NULL) == CUDNN_STATUS_SUCCESS &&
        bytes > 0)
        text = calloc((size_t)bytes + 1, 1);
    if (text && plan->cudnn->cudnnBackendGetAttribute(
                    plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    bytes, &bytes, text) == CUDNN_STATUS_SUCCESS) {
        *size = (size_t)bytes;
        return text;
    }
    free(text);
    return NULL;
}

void convolution_plan_free(struct convolution_plan *plan)
{
    if (plan->plan)
        plan->cudnn->cudnnBackendDestroyDescriptor(plan->plan);
    plan->plan = NULL;
}

int convolution_plan_run(struct convolution_plan *plan, const struct convolution_operands *operands,
                         struct error *error)
{
    const struct cudnn *cudnn = plan->cudnn;
    const struct {
        int64_t uid;
        bool used;
        void *pointer;
    } tensors[] = {{UID_X, true, operands->x},
                   {UID_WEIGHT, true, operands->weight},
                   {UID_Y, true, operands->y},
                   {UID_BIAS, plan->problem->bias, operands->bias},
                   {UID_SCALE, plan->problem->rectified, operands->scale},
                   {UID_SHIFT, plan->problem->rectified, operands->shift},
                   {UID_SUM, plan->problem->statistics, operands->sum},
                   {UID_SQUARES, plan->problem->statistics, operands->squares}};
    enum { TENSORS = sizeof tensors / sizeof *tensors };
    int64_t uids[TENSORS], count = 0;
    void *pointers[TENSORS];
    struct builder builder = {.cudnn = cudnn};
    cudnnBackendDescriptor_t pack = create(&builder, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

    for (int i = 0; i < TENSORS; i++) {
        if (!tensors[i].used)
            continue;
        uids[count] = tensors[i].uid;
        pointers[count++] = tensors[i].pointer;
    }
    set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
        pointers);
    set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
        &operands->workspace);
    finalize(&builder, pack);
    if (builder.status == CUDNN_STATUS_SUCCESS)
        builder.status = cudnn->cudnnBackendExecute(cudnn->handle, plan->plan, pack);
    builder_release(&builder);
    return builder.status == CUDNN_STATUS_SUCCESS
               ? 0
               : error_set(error, -EREMOTEIO, "cuDNN failed: %s",
                           cudnn->cudnnGetErrorString(builder.status));
}
