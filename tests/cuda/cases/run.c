/* run.c: a case on two backends: the same graph, weights and batches; afterwards results,
 * gradients, parameters, optimizer states, statistics and metrics are compared.
 *
 * Where the products are of a smaller type, samples and weights are few round numbers that it holds
 * exactly. Sums of their products are exact too, so that both backends see the same signs and
 * maxima, and what is compared is arithmetic, not on which side of a kink a rounded number lies. */
#include "base/philox.h"
#include "engine/graph/memory_plan.h"
#include "tests/cuda/cases.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double case_limit(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 ? 1e-10 : type == TENSOR_TF32 ? 1e-5 : 1e-4;
}

/* ---- one graph on one backend ---------------------------------------------------------------- */

struct session {
    const struct backend *backend;
    struct backend_device *device;
    struct backend_program *program;
    struct backend_buffer *buffer;
    struct memory_plan plan;
    struct graph graph;
    struct loss_scale loss_scale;
};

static int session_open(struct session *session, struct error *error)
{
    const struct backend *backend = session->backend;
    struct memory_request request;
    int result =
        backend->program_prepare(session->device, &session->graph, NULL, &session->program, error);

    if (result < 0)
        return result;
    backend->program_memory(session->program, &request);
    result = memory_plan_make(&request, 1, 0, &session->plan, error);
    if (result == 0)
        result = backend->buffer_create(session->device, session->plan.arena_bytes,
                                        &session->buffer, error);
    if (result == 0)
        result = backend->program_bind(session->program, session->plan.placements, session->buffer,
                                       error);
    return result;
}

static void session_close(struct session *session)
{
    if (session->program)
        session->backend->program_free(session->program);
    if (session->buffer)
        session->backend->buffer_free(session->buffer);
    memory_plan_release(&session->plan);
    graph_release(&session->graph);
}

static size_t tensor_elements(const struct graph *graph, int32_t tensor)
{
    return (size_t)graph_shape_elements(&graph->tensors[tensor].shape);
}

static void *allocate(size_t bytes)
{
    void *memory =
        aligned_alloc(MEMORY_ALIGNMENT, (bytes / MEMORY_ALIGNMENT + 1) * MEMORY_ALIGNMENT);

    if (!memory)
        abort();
    return memory;
}

/* ---- what goes in ---------------------------------------------------------------------------- */

static float draw(uint64_t seed, uint64_t index, float low, float high)
{
    struct philox bits = philox_draw(7 + seed, philox_stream(PHILOX_TEST, 1), index);

    return low + (high - low) * philox_uniform(bits.word[0]);
}

/* One of `2 * side + 1` numbers, `unit` apart, around 0. */
static float draw_round(uint64_t seed, uint64_t index, int side, float unit)
{
    float u = draw(seed, index, 0, (float)(2 * side + 1));

    return (fminf(floorf(u), (float)(2 * side)) - (float)side) * unit;
}

struct batch {
    void *samples, *target;
    int32_t *lengths; /* NULL: the graph has no such input */
};

static struct batch batch_make(const struct graph *graph)
{
    return (struct batch){allocate(4 * tensor_elements(graph, graph->input)),
                          allocate(4 * tensor_elements(graph, graph->target)),
                          graph->lengths < 0 ? NULL : allocate(4 * (size_t)graph->batch)};
}

static void batch_free(const struct batch *batch)
{
    free(batch->samples);
    free(batch->target);
    free(batch->lengths);
}

/* How many values a label may have; `i` is its place among those of the batch. */
static int64_t label_classes(const struct graph *graph, size_t i)
{
    const struct graph_shape *output = &graph->tensors[graph->output].shape;
    int64_t place = 0;

    if (graph->head_count > 0)
        place = (int64_t)i % graph->tensors[graph->target].shape.extent[1];
    for (int h = 0; h < graph->head_count; h++) {
        if (place < graph->heads[h].labels)
            return graph->heads[h].classes;
        place -= graph->heads[h].labels;
    }
    return output->extent[output->rank - 1];
}

static void batch_fill(const struct batch *batch, const struct graph *graph, uint64_t seed,
                       bool round, int step)
{
    const struct graph_tensor *input = &graph->tensors[graph->input];
    const struct graph_tensor *target = &graph->tensors[graph->target];
    size_t samples = tensor_elements(graph, graph->input);
    size_t targets = tensor_elements(graph, graph->target);
    const struct graph_shape *output = &graph->tensors[graph->output].shape;
    uint64_t base = (uint64_t)step << 32;

    for (size_t i = 0; i < samples; i++)
        if (input->type == TENSOR_INT32)
            ((int32_t *)batch->samples)[i] =
                (int32_t)draw(seed, base + i, 0, CASE_VOCABULARY - 0.01f);
        else
            ((float *)batch->samples)[i] =
                round ? draw_round(seed, base + i, 2, 0.5f) : draw(seed, base + i, -1, 2);
    for (int64_t i = 0; batch->lengths && i < graph->batch; i++)
        batch->lengths[i] = 1 + (int32_t)draw(seed, base + (3ull << 30) + (uint64_t)i, 0,
                                              (float)input->shape.extent[1] - 0.01f);
    for (size_t i = 0; i < targets; i++) {
        float value = draw(seed, base + (1ull << 31) + i, 0, 1);
        int64_t classes = label_classes(graph, i);

        if (target->type == TENSOR_INT32 && output->rank == 3 && value < 0.2f)
            ((int32_t *)batch->target)[i] = -1; /* a step that does not count */
        else if (target->type == TENSOR_INT32)
            /* not all equal: otherwise gradients of biases would be differences of equal sums */
            ((int32_t *)batch->target)[i] =
                (int32_t)(value * value * (float)classes) % (int32_t)classes;
        else
            ((float *)batch->target)[i] = value;
    }
}

/* Gains, biases and statistics begin with ones or zeros, where a mistake would not show. */
static float weight_value(const struct graph_tensor *tensor, uint64_t seed, uint64_t index,
                          float initial, bool round)
{
    int64_t fan_in = graph_shape_elements(&tensor->shape) / tensor->shape.extent[0];

    if ((tensor->role != TENSOR_PARAMETER && tensor->role != TENSOR_STATISTIC) ||
        tensor->initializer.kind == INITIALIZER_GIVEN || /* numbers of rows */
        strncmp(tensor->name, GRAPH_RANGE_PREFIX, sizeof GRAPH_RANGE_PREFIX - 1) == 0)
        return initial;
    if (tensor->shape.rank == 1)
        return round ? roundf(initial) + 0.203125f + draw_round(seed, index, 6, 0.03125f)
                     : initial + draw(seed, index, 0, 0.3f);
    return round ? draw_round(seed, index, 1, ldexpf(1, -(int)(log2((double)fan_in) / 2)))
                 : initial;
}

static int write_weights(struct session *session, uint64_t seed, bool round, struct error *error)
{
    const struct graph *graph = &session->graph;
    int result = 0;

    for (int32_t i = 0; result == 0 && i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        uint64_t key = 0;
        float *values;

        if (!graph_tensor_is_persistent(graph, i))
            continue;
        for (const char *c = tensor->name; *c; c++) /* places differ from graph to graph */
            key = key * 31 + (uint64_t)(unsigned char)*c;
        values = allocate(4 * tensor_elements(graph, i));
        graph_initial_values(graph, i, 11, values);
        for (size_t k = 0; k < tensor_elements(graph, i); k++)
            values[k] = weight_value(tensor, seed, (key << 24) + k, values[k], round);
        result = session->backend->tensor_write(session->program, i, values, error);
        free(values);
    }
    return result;
}

/* ---- what comes out -------------------------------------------------------------------------- */

double normalised_error(const float *got, const float *want, int64_t count)
{
    double error = 0, scale = 0;

    for (int64_t i = 0; i < count; i++) {
        double difference = (double)got[i] - want[i];

        error += difference * difference;
        scale += (double)want[i] * want[i];
    }
    return scale > 0 ? error / scale : error;
}

static void compare(struct case_outcome *outcome, const char *name, const float *got,
                    const float *want, int64_t count)
{
    double error = normalised_error(got, want, count);

    outcome->compared++;
    if (isnan(outcome->worst) || error <= outcome->worst)
        return;
    outcome->worst = error;
    snprintf(outcome->what, sizeof outcome->what, "%s", name);
}

static int compare_tensor(const struct session *cpu, int32_t of_cpu, const struct session *gpu,
                          int32_t of_gpu, const char *name, struct case_outcome *outcome,
                          struct error *error)
{
    size_t count;
    float *want, *got;
    int result;

    if (of_cpu < 0)
        return 0;
    count = tensor_elements(&cpu->graph, of_cpu);
    if (of_gpu < 0 || tensor_elements(&gpu->graph, of_gpu) != count)
        return error_set(error, -EINVAL, "the lowered graph has no %s", name);
    want = allocate(4 * count);
    got = allocate(4 * count);
    memset(got, 0xff, 4 * count); /* not a number, where nothing is written */
    result = cpu->backend->tensor_read(cpu->program, of_cpu, want, error);
    if (result == 0)
        result = gpu->backend->tensor_read(gpu->program, of_gpu, got, error);
    if (result == 0)
        compare(outcome, name, got, want, (int64_t)count);
    free(want);
    free(got);
    return result;
}

/* Whether the parameter has no bits beyond those of the graph's type. */
static int check_rounded(const struct session *gpu, int32_t parameter, struct error *error)
{
    size_t count = tensor_elements(&gpu->graph, parameter);
    float *values = allocate(4 * count), *rounded = allocate(4 * count);
    int result = gpu->backend->tensor_read(gpu->program, parameter, values, error);

    memcpy(rounded, values, 4 * count);
    tensor_type_round(gpu->graph.compute_type, rounded, (int64_t)count);
    if (result == 0 && memcmp(values, rounded, 4 * count) != 0)
        result = error_set(error, -EINVAL, "%s was not rounded by its update",
                           gpu->graph.tensors[parameter].name);
    free(values);
    free(rounded);
    return result;
}

static int compare_persistent(const struct session *cpu, const struct session *gpu,
                              struct case_outcome *outcome, struct error *error)
{
    const struct graph *graph = &cpu->graph;
    int result = 0;

    for (int32_t i = 0; result == 0 && i < graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &graph->tensors[i];
        int32_t other = graph_find_tensor(&gpu->graph, tensor->name);
        char name[GRAPH_NAME_MAX + 16];

        if (!graph_tensor_is_persistent(graph, i) || tensor->type != TENSOR_FLOAT32 ||
            tensor->role == TENSOR_GRADIENT)
            continue;
        result = compare_tensor(cpu, i, gpu, other, tensor->name, outcome, error);
        if (result == 0 && gpu->graph.rounds_parameters && tensor->role == TENSOR_PARAMETER)
            result = check_rounded(gpu, other, error);
        if (result || tensor->role != TENSOR_PARAMETER || !graph->training)
            continue;
        snprintf(name, sizeof name, "gradient of %s", tensor->name);
        result = compare_tensor(cpu, graph_gradient_of(graph, i), gpu,
                                graph_gradient_of(&gpu->graph, other), name, outcome, error);
    }
    return result;
}

static int compare_all(const struct session *cpu, const struct session *gpu, bool exact_counts,
                       struct case_outcome *outcome, struct error *error)
{
    struct step_metrics want, got;
    int result = compare_persistent(cpu, gpu, outcome, error);

    if (result == 0)
        result = compare_tensor(cpu, cpu->graph.output, gpu, gpu->graph.output, "the output",
                                outcome, error);
    if (result == 0)
        result = compare_tensor(cpu, cpu->graph.input_gradient, gpu, gpu->graph.input_gradient,
                                "gradient of the samples", outcome, error);
    if (result)
        return result;
    cpu->backend->program_read_metrics(cpu->program, &want);
    gpu->backend->program_read_metrics(gpu->program, &got);
    compare(outcome, "loss_sum", (float[]){(float)got.loss_sum}, (float[]){(float)want.loss_sum},
            1);
    compare(outcome, "last_loss", (float[]){(float)got.last_loss}, (float[]){(float)want.last_loss},
            1);
    compare(outcome, "labels", (float[]){(float)got.labels}, (float[]){(float)want.labels}, 1);
    compare(outcome, "samples", (float[]){(float)got.samples}, (float[]){(float)want.samples}, 1);
    compare(outcome, "loss scale", (float[]){(float)gpu->loss_scale.scale},
            (float[]){(float)cpu->loss_scale.scale}, 1);
    compare(outcome, "skipped updates", (float[]){(float)gpu->loss_scale.skipped},
            (float[]){(float)cpu->loss_scale.skipped}, 1);
    if (exact_counts)
        compare(outcome, "correct", (float[]){(float)got.correct}, (float[]){(float)want.correct},
                1);
    return 0;
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* After an update: adapts the loss scale and counts skipped updates, if the case follows
 * overflows. */
static int follow_scale(struct session *session, const struct test_case *test, float loss_scale,
                        struct error *error)
{
    const struct backend *backend = session->backend;
    bool skipped = loss_scale > 0 && backend->program_update_skipped(session->program);

    if (test->scale_follows && backend->program_read_loss_scale)
        backend->program_read_loss_scale(session->program, &session->loss_scale);
    else if (test->scale_follows)
        loss_scale_follow(&session->loss_scale, skipped);
    else if (skipped != (loss_scale > 1e30f))
        return error_set(error, -EINVAL,
                         "an update was skipped that should not be, or the other way round");
    return 0;
}

static int run_step(struct session *session, const struct test_case *test, float loss_scale,
                    int step, const struct batch *batch, struct error *error)
{
    struct step_scalars scalars = {.step = step,
                                   .batch = step,
                                   .seed = 5,
                                   .learning_rate = 0.01f,
                                   .gradient_scale = test->accumulate ? 0.5f : 1,
                                   .clip_norm = test->clip_norm,
                                   .clip_value = test->clip_value,
                                   .average_share = step == 1 ? 1 : 0.1f,
                                   .momentum_product = pow(0.45, step),
                                   .loss_scale = loss_scale};
    const struct backend *backend = session->backend;
    bool own = test->scale_follows && backend->program_write_loss_scale;
    struct backend_program *program = session->program;
    const struct graph *graph = &session->graph;
    int result = backend->program_set_input(program, graph->input, batch->samples, error);

    if (test->scale_follows && step == 1)
        session->loss_scale = (struct loss_scale){.scale = 8.0 * (double)loss_scale};
    if (own && step == 1)
        backend->program_write_loss_scale(program, &session->loss_scale);
    if (test->scale_follows) {
        scalars.loss_scale = own ? 1 : (float)session->loss_scale.scale;
        scalars.skipped = own ? 0 : session->loss_scale.skipped;
        scalars.scales_itself = own;
        scalars.gradient_scale = 0x1p20f; /* so that the inverses of the scales are not subnormal */
    }
    if (result == 0)
        result = backend->program_set_input(program, graph->target, batch->target, error);
    if (result == 0 && batch->lengths)
        result = backend->program_set_input(program, graph->lengths, batch->lengths, error);
    if (result == 0 && test->evaluation)
        return backend->program_run(program, PROGRAM_FORWARD, &scalars, error);
    if (result == 0 && test->accumulate) {
        result = backend->program_run(program, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, error);
        scalars.accumulate = true;
        scalars.batch += 100;
    }
    if (result == 0)
        result = backend->program_run(program, PROGRAM_STEP, &scalars, error);
    return result < 0 ? result : follow_scale(session, test, loss_scale, error);
}

static int run_both(const struct test_case *test, enum tensor_type type, struct session *cpu,
                    struct session *gpu, struct error *error)
{
    struct batch batch = batch_make(&cpu->graph);
    bool round = type != TENSOR_FLOAT32;
    float loss_scale = type == TENSOR_FLOAT16 && !test->evaluation ? 1024 : test->loss_scale;
    int result = write_weights(cpu, test->seed, round, error);

    if (result == 0)
        result = write_weights(gpu, test->seed, round, error);
    cpu->backend->program_reset_metrics(cpu->program);
    gpu->backend->program_reset_metrics(gpu->program);
    for (int step = 1; result == 0 && step <= (test->steps ? test->steps : 1); step++) {
        batch_fill(&batch, &cpu->graph, test->seed, round, step);
        result = run_step(cpu, test, loss_scale, step, &batch, error);
        if (result == 0)
            result = run_step(gpu, test, loss_scale, step, &batch, error);
    }
    batch_free(&batch);
    if (result == 0 && test->scale_follows &&
        (cpu->loss_scale.skipped == 0 || cpu->loss_scale.skipped == test->steps))
        return error_set(error, -EINVAL, "of %d updates %lld overflow: all the same", test->steps,
                         (long long)cpu->loss_scale.skipped);
    return result;
}

/* Whether the backend supports all operators and types of the graph. */
static bool is_supported(const struct session *session, enum tensor_type type, char *reason)
{
    const struct graph *graph = &session->graph;
    struct backend_device_info info;

    session->backend->device_describe(session->device, &info);
    if (!(info.compute_types & 1u << type)) {
        snprintf(reason, 256, "products of %s", tensor_type_to_string(type));
        return false;
    }
    for (int32_t i = 0; session->backend->supports && i < graph->node_count; i++)
        if (!session->backend->supports(session->device, graph, &graph->nodes[i], reason))
            return false;
    return true;
}

void case_run(const struct test_case *test, enum tensor_type type,
              struct backend_device *cpu_device, const struct backend *backend,
              struct backend_device *device, double limit, struct case_outcome *outcome)
{
    struct session cpu = {.backend = backend_cpu(), .device = cpu_device};
    struct session gpu = {.backend = backend, .device = device};
    struct error error = {0};
    int result = case_build(test, TENSOR_FLOAT32, &cpu.graph, &error);

    *outcome = (struct case_outcome){.status = CASE_AGREES, .worst = -1};
    if (result == 0)
        result = case_build(test, type, &gpu.graph, &error);
    if (result == 0 && !is_supported(&gpu, type, outcome->what)) {
        outcome->status = CASE_MISSING;
        session_close(&gpu);
        session_close(&cpu);
        return;
    }
    if (result == 0)
        result = session_open(&cpu, &error);
    if (result == 0)
        result = session_open(&gpu, &error);
    if (result == 0)
        result = run_both(test, type, &cpu, &gpu, &error);
    if (result == 0)
        result = compare_all(&cpu, &gpu, type == TENSOR_FLOAT32, outcome, &error);
    if (result) {
        outcome->status = CASE_BROKEN;
        snprintf(outcome->what, sizeof outcome->what, "%.255s", error.text);
    } else if (!(outcome->worst <= limit)) {
        outcome->status = CASE_DIFFERS;
    }
    session_close(&gpu);
    session_close(&cpu);
}
