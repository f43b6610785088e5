/* convolution_plan.c: lists the engines that cuDNN proposes for a convolution, and makes plans of
 * them: see convolution_plan.h. */
#include "engine/backends/cuda/convolution_internal.h"

#include <errno.h>
#include <stdlib.h>

enum { CONFIGURATIONS_MAX = 64 };

/* ---- engines that cuDNN proposes ------------------------------------------------------------- */

bool convolution_problem_is_risky(const struct convolution_problem *problem)
{
    for (int i = 0; i < 2 && problem->pass == CONVOLUTION_DATA; i++) {
        int64_t a = problem->stride[i], b = problem->dilation[i];

        while (b > 0) {
            int64_t rest = a % b;

            a = b;
            b = rest;
        }
        if (a > 1 && problem->weight[2 + i] > 1)
            return true;
    }
    return false;
}

/* Whether the engine's results are as exact as the problem demands, and the same bits each time if
 * the problem demands that. */
static bool is_acceptable(const struct convolution_problem *problem, int64_t engine,
                          const cudnnBackendNumericalNote_t *notes, int64_t count)
{
    bool wide = problem->type == TENSOR_FLOAT32, strict = wide && !problem->tf32;

    /* These engines do not declare it, but round more than they may. By the weights, with groups of
     * one channel, their normalised mean squared error is 1.9e-7 in float32 (17), 1.8e-6 in float16
     * (61, which adds up its parts in float16) and 1.1e-5 in bfloat16 (47), with cuDNN 9.19 on an
     * H200. */
    if (problem->pass == CONVOLUTION_WEIGHTS && problem->groups > 1 &&
        (engine == 17 || engine == 47 || engine == 61))
        return false;

    /* These engines never end or execute an illegal instruction then (cuDNN 9.14 on an H200;
     * `convolution_plans --hunt` finds such engines). */
    if (convolution_problem_is_risky(problem) && (engine == 73 || engine == 76))
        return false;

    for (int64_t i = 0; i < count; i++) {
        switch (notes[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
            if (!problem->nondeterministic)
                return false;
            break;
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
            return false;
        case CUDNN_NUMERICAL_NOTE_FFT: /* is done in float32 */
            if (!wide)
                return false;
            break;
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

/* Reads the knobs of a configuration. */
static void read_knobs(struct cudnn_builder *builder, cudnnBackendDescriptor_t configuration,
                       struct convolution_choice *choice)
{
    const struct cudnn *cudnn = builder->cudnn;
    cudnnBackendDescriptor_t knobs[CONVOLUTION_KNOBS_MAX] = {NULL};
    int64_t count = 0, got;

    for (int i = 0; i < CONVOLUTION_KNOBS_MAX; i++)
        knobs[i] = cudnn_builder_create(builder, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
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

/* Whether the configuration may be used. `choice` then says how to ask for it again. */
static bool read_configuration(const struct convolution_graph *graph,
                               cudnnBackendDescriptor_t configuration,
                               struct convolution_choice *choice)
{
    const struct cudnn *cudnn = graph->builder.cudnn;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    struct cudnn_builder builder = {.cudnn = cudnn};
    cudnnBackendDescriptor_t engine =
        cudnn_builder_create(&builder, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
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
    cudnn_builder_release(&builder);
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

/* Adds the proposals of one of cuDNN's heuristics. */
static int ask_heuristic(struct convolution_graph *graph, cudnnBackendHeurMode_t mode,
                         struct convolution_choice *choices, int count, int most)
{
    const struct cudnn *cudnn = graph->builder.cudnn;
    struct cudnn_builder builder = {.cudnn = cudnn};
    cudnnBackendDescriptor_t heuristic =
        cudnn_builder_create(&builder, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendDescriptor_t results[CONFIGURATIONS_MAX - 1];
    int64_t found = 0;

    cudnn_builder_set_descriptor(&builder, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                 graph->operations);
    cudnn_builder_set(&builder, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                      &mode);
    cudnn_builder_finalize(&builder, heuristic);
    for (int i = 0; i < CONFIGURATIONS_MAX - 1; i++)
        results[i] = cudnn_builder_create(&builder, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (builder.status == CUDNN_STATUS_SUCCESS &&
        cudnn->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS_MAX - 1,
                                        &found, results) != CUDNN_STATUS_SUCCESS)
        found = 0;
    for (int64_t i = 0; i < found && i < CONFIGURATIONS_MAX - 1 && count < most; i++)
        if (read_configuration(graph, results[i], &choices[count]) &&
            !is_known(&choices[count], choices, count))
            count++;
    cudnn_builder_release(&builder);
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

/* ---- plans ----------------------------------------------------------------------------------- */

static cudnnBackendDescriptor_t configure_engine(struct cudnn_builder *builder,
                                                 const struct convolution_graph *graph,
                                                 const struct convolution_choice *choice)
{
    cudnnBackendDescriptor_t engine =
        cudnn_builder_create(builder, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t knobs[CONVOLUTION_KNOBS_MAX], configuration;

    cudnn_builder_set_descriptor(builder, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                                 graph->operations);
    cudnn_builder_set(builder, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                      &choice->engine);
    cudnn_builder_finalize(builder, engine);
    for (int32_t i = 0; i < choice->knob_count; i++) {
        cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)choice->knobs[i].type;

        knobs[i] = cudnn_builder_create(builder, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        cudnn_builder_set(builder, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                          1, &type);
        cudnn_builder_set(builder, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                          &choice->knobs[i].value);
        cudnn_builder_finalize(builder, knobs[i]);
    }
    configuration = cudnn_builder_create(builder, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnn_builder_set_descriptor(builder, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (choice->knob_count > 0)
        cudnn_builder_set(builder, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, choice->knob_count, knobs);
    cudnn_builder_finalize(builder, configuration);
    return configuration;
}

/* Completes a plan whose attributes are set. */
static int finish_plan(struct cudnn_builder *builder, struct convolution_plan *plan,
                       struct error *error)
{
    const struct cudnn *cudnn = builder->cudnn;
    int64_t workspace = 0, got;

    cudnn_builder_finalize(builder, plan->plan);
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status =
            cudnn->cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &got, &workspace);
    cudnn_builder_release(builder);
    plan->workspace_bytes = (size_t)workspace;
    if (builder->status == CUDNN_STATUS_SUCCESS)
        return 0;
    convolution_plan_free(plan);
    return error_set(error, -ERROR_UNSUPPORTED, "cuDNN makes no plan: %s",
                     cudnn->cudnnGetErrorString(builder->status));
}

/* Begins an empty plan. The builder keeps its parts until it is finished. */
static void begin_plan(struct cudnn_builder *builder, const struct convolution_graph *graph,
                       struct convolution_plan *plan)
{
    const struct cudnn *cudnn = graph->builder.cudnn;

    *plan = (struct convolution_plan){.cudnn = cudnn, .problem = &graph->problem};
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status = cudnn->cudnnBackendCreateDescriptor(
            CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->plan);
    cudnn_builder_set(builder, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &cudnn->handle);
}

int convolution_plan_make(struct convolution_graph *graph, const struct convolution_choice *choice,
                          struct convolution_plan *plan, struct error *error)
{
    struct cudnn_builder builder = {.cudnn = graph->builder.cudnn};
    cudnnBackendDescriptor_t configuration = configure_engine(&builder, graph, choice);

    begin_plan(&builder, graph, plan);
    cudnn_builder_set_descriptor(&builder, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                 configuration);
    return finish_plan(&builder, plan, error);
}

int convolution_plan_restore(struct convolution_graph *graph, const char *text, size_t size,
                             struct convolution_plan *plan, struct error *error)
{
    struct cudnn_builder builder = {.cudnn = graph->builder.cudnn};

    begin_plan(&builder, graph, plan);
    cudnn_builder_set(&builder, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                      CUDNN_TYPE_CHAR, (int64_t)size, text);
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
    struct cudnn_builder builder = {.cudnn = cudnn};
    cudnnBackendDescriptor_t pack =
        cudnn_builder_create(&builder, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

    for (int i = 0; i < TENSORS; i++) {
        if (!tensors[i].used)
            continue;
        uids[count] = tensors[i].uid;
        pointers[count++] = tensors[i].pointer;
    }
    cudnn_builder_set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count,
                      uids);
    cudnn_builder_set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                      count, pointers);
    cudnn_builder_set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                      &operands->workspace);
    cudnn_builder_finalize(&builder, pack);
    if (builder.status == CUDNN_STATUS_SUCCESS)
        builder.status = cudnn->cudnnBackendExecute(cudnn->handle, plan->plan, pack);
    cudnn_builder_release(&builder);
    return builder.status == CUDNN_STATUS_SUCCESS
               ? 0
               : error_set(error, -ERROR_DEVICE_FAILURE, "cuDNN failed: %s",
                           cudnn->cudnnGetErrorString(builder.status));
}
