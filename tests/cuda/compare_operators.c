/* compare_operators: every operator of the CUDA backend against the CPU backend: the same graph,
 * the same weights, the same batch; afterwards results, gradients, parameters, optimizer states,
 * statistics and metrics are compared by their normalised mean squared error.
 *
 * compare_operators [PLUGIN]: exit status 0: all agree; 1: not; 77: there is no GPU. */
#include "base/philox.h"
#include "engine/graph/memory_plan.h"
#include "worker/worker_plugin.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double nmse_limit = 1e-10; /* float32 without TF32 */

/* ---- one graph on one backend ------------------------------------------------------------------
 */

struct session {
    const struct backend *backend;
    struct backend_device *device;
    struct backend_program *program;
    struct backend_buffer *buffer;
    struct memory_plan plan;
    const struct graph *graph;
};

static void expect(int result, const struct error *error)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void session_open(struct session *session, const struct backend *backend,
                         struct backend_device *device, const struct graph *graph)
{
    struct memory_request request;
    struct error error = {0};

    *session = (struct session){.backend = backend, .device = device, .graph = graph};
    expect(backend->program_prepare(device, graph, NULL, &session->program, &error), &error);
    backend->program_memory(session->program, &request);
    expect(memory_plan_make(&request, 1, 0, &session->plan, &error), &error);
    expect(backend->buffer_create(device, session->plan.arena_bytes, &session->buffer, &error),
           &error);
    expect(
        backend->program_bind(session->program, session->plan.placements, session->buffer, &error),
        &error);
}

static void session_close(struct session *session)
{
    session->backend->program_free(session->program);
    session->backend->buffer_free(session->buffer);
    memory_plan_release(&session->plan);
}

static size_t tensor_bytes(const struct graph *graph, int32_t tensor)
{
    const struct graph_tensor *t = &graph->tensors[tensor];

    return (size_t)graph_shape_elements(&t->shape) * tensor_type_bytes(t->type);
}

static void *allocate(size_t bytes)
{
    void *memory =
        aligned_alloc(MEMORY_ALIGNMENT, (bytes / MEMORY_ALIGNMENT + 1) * MEMORY_ALIGNMENT);

    if (!memory)
        abort();
    return memory;
}

/* ---- what is compared --------------------------------------------------------------------------
 */

struct tally {
    int compared, failed;
    double worst;
    char worst_name[128];
};

static void compare(struct tally *tally, const char *name, const float *got, const float *want,
                    int64_t count)
{
    double error = 0, scale = 0, nmse;

    for (int64_t i = 0; i < count; i++) {
        double difference = (double)got[i] - want[i];

        error += difference * difference;
        scale += (double)want[i] * want[i];
    }
    nmse = scale > 0 ? error / scale : error;
    tally->compared++;
    if (!(nmse <= tally->worst)) {
        tally->worst = nmse;
        snprintf(tally->worst_name, sizeof tally->worst_name, "%s", name);
    }
    tally->failed += !(nmse <= nmse_limit);
}

static bool is_kept(const struct graph *graph, int32_t i)
{
    const struct graph_tensor *t = &graph->tensors[i];

    return t->type == TENSOR_FLOAT32 &&
           (graph_tensor_is_persistent(graph, i) || i == graph->output ||
            i == graph->input_gradient || t->role == TENSOR_GRADIENT);
}

static void compare_tensors(struct session *cpu, struct session *gpu, struct tally *tally)
{
    const struct graph *graph = cpu->graph;
    struct error error = {0};

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        float *want, *got;

        if (!is_kept(graph, i))
            continue;
        want = allocate(tensor_bytes(graph, i));
        got = allocate(tensor_bytes(graph, i));
        expect(cpu->backend->tensor_read(cpu->program, i, want, &error), &error);
        expect(gpu->backend->tensor_read(gpu->program, i, got, &error), &error);
        compare(tally, graph->tensors[i].name[0] ? graph->tensors[i].name : "a result", got, want,
                graph_shape_elements(&graph->tensors[i].shape));
        free(want);
        free(got);
    }
}

static void compare_metrics(struct session *cpu, struct session *gpu, struct tally *tally)
{
    struct step_metrics want, got;

    cpu->backend->program_read_metrics(cpu->program, &want);
    gpu->backend->program_read_metrics(gpu->program, &got);
    compare(tally, "loss_sum", (float[]){(float)got.loss_sum}, (float[]){(float)want.loss_sum}, 1);
    compare(tally, "last_loss", (float[]){(float)got.last_loss}, (float[]){(float)want.last_loss},
            1);
    compare(tally, "correct", (float[]){(float)got.correct}, (float[]){(float)want.correct}, 1);
    compare(tally, "samples", (float[]){(float)got.samples}, (float[]){(float)want.samples}, 1);
}

/* ---- cases -------------------------------------------------------------------------------------
 */

enum layer {
    LAYER_LINEAR,
    LAYER_LINEAR_PLAIN, /* without bias */
    LAYER_ACTIVATION,
    LAYER_BATCH_NORM,
    LAYER_DROPOUT,
    LAYER_DEPTH, /* stochastic depth */
    LAYER_ADD,   /* of the result before the last and the last */
    LAYER_FLATTEN
};

enum loss { LOSS_CLASSES, LOSS_SOFT, LOSS_MSE };

struct case_layer {
    enum layer layer;
    int argument; /* features, or kind of activation */
};

struct test_case {
    const char *name;
    int64_t batch, sample[3];
    int rank;
    enum loss loss;
    struct case_layer layers[8];
    struct optimizer_config optimizer;
    int steps;
    bool evaluation, average, accumulate;
    float clip_norm, clip_value, loss_scale;
    enum recompute_kind recompute;
};

static void add_layer(struct graph *graph, const struct case_layer *layer, int number,
                      int32_t *before)
{
    int32_t last = graph->output;
    char name[16];

    snprintf(name, sizeof name, "%d", number);
    switch (layer->layer) {
    case LAYER_LINEAR:
    case LAYER_LINEAR_PLAIN:
        graph_linear(graph, last, name, layer->argument, layer->layer == LAYER_LINEAR);
        break;
    case LAYER_ACTIVATION:
        graph_activation(graph, last, name, (enum activation_kind)layer->argument);
        break;
    case LAYER_BATCH_NORM:
        graph_batch_norm(graph, last, name, 1e-5f, 0.1f);
        break;
    case LAYER_DROPOUT:
        graph_dropout(graph, last, name, 0.3f);
        break;
    case LAYER_DEPTH:
        graph_stochastic_depth(graph, last, name, 0.3f);
        break;
    case LAYER_ADD:
        graph_add(graph, *before, last, name);
        break;
    case LAYER_FLATTEN:
        graph_flatten(graph, last, name);
        break;
    }
    *before = last;
}

static void build(const struct test_case *test, struct graph *graph)
{
    struct recompute_config recompute = {.kind = test->recompute};
    struct error error = {0};
    int32_t before;

    graph_init(graph, test->batch, !test->evaluation);
    graph->accumulate = test->accumulate;
    graph->wants_input_gradient = !test->evaluation;
    before = graph_input(graph, TENSOR_FLOAT32, test->sample, test->rank);
    for (int i = 0; i < 8 && (i == 0 || test->layers[i].argument >= 0); i++)
        add_layer(graph, &test->layers[i], i, &before);
    if (test->loss == LOSS_CLASSES)
        graph_cross_entropy(graph, graph->output);
    else if (test->loss == LOSS_SOFT)
        graph_soft_cross_entropy(graph, graph->output);
    else
        graph_mse(graph, graph->output);
    if (!test->evaluation) {
        expect(graph_differentiate(graph, &error), &error);
        if (test->recompute != RECOMPUTE_NONE)
            expect(graph_recompute(graph, &recompute, &error), &error);
        expect(graph_add_optimizer(graph, &test->optimizer, &error), &error);
    }
    if (test->average)
        expect(graph_add_averages(graph, &error), &error);
    expect(graph_finish(graph, &error), &error);
}

/* ---- a run -------------------------------------------------------------------------------------
 */

static float draw(uint64_t index, float low, float high)
{
    struct philox bits = philox_draw(7, philox_stream(PHILOX_TEST, 1), index);

    return low + (high - low) * philox_uniform(bits.word[0]);
}

static void fill_batch(const struct graph *graph, int step, float *samples, void *target)
{
    int64_t count = graph_shape_elements(&graph->tensors[graph->input].shape);
    const struct graph_tensor *t = &graph->tensors[graph->target];
    int64_t targets = graph_shape_elements(&t->shape);
    int64_t classes = graph_shape_elements(&graph->tensors[graph->output].shape) / graph->batch;
    uint64_t base = (uint64_t)step << 32;

    for (int64_t i = 0; i < count; i++)
        samples[i] = draw(base + (uint64_t)i, -2, 2);
    for (int64_t i = 0; i < targets; i++) {
        float value = draw(base + (1ull << 31) + (uint64_t)i, 0, 1);

        if (t->type == TENSOR_INT32)
            ((int32_t *)target)[i] = (int32_t)(value * (float)classes) % (int32_t)classes;
        else
            ((float *)target)[i] = value;
    }
}

static void write_weights(struct session *session)
{
    const struct graph *graph = session->graph;
    struct error error = {0};

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        float *values;

        if (!graph_tensor_is_persistent(graph, i))
            continue;
        values = allocate(tensor_bytes(graph, i));
        graph_initial_values(graph, i, 11, values);
        /* gains, biases and statistics begin with ones or zeros, where a mistake would not show */
        for (int64_t k = 0; k < graph_shape_elements(&graph->tensors[i].shape); k++)
            if (graph->tensors[i].shape.rank == 1 && (graph->tensors[i].role == TENSOR_PARAMETER ||
                                                      graph->tensors[i].role == TENSOR_STATISTIC))
                values[k] += draw(((uint64_t)i << 24) + (uint64_t)k, 0, 0.3f);
        expect(session->backend->tensor_write(session->program, i, values, &error), &error);
        free(values);
    }
}

static void run_step(struct session *session, const struct test_case *test, int step,
                     const float *samples, const void *target)
{
    struct step_scalars scalars = {.step = step,
                                   .batch = step,
                                   .seed = 5,
                                   .learning_rate = 0.01f,
                                   .gradient_scale = test->accumulate ? 0.5f : 1,
                                   .clip_norm = test->clip_norm,
                                   .clip_value = test->clip_value,
                                   .average_decay = step == 1 ? 0 : 0.9f,
                                   .momentum_product = pow(0.45, step),
                                   .loss_scale = test->loss_scale};
    const struct graph *graph = session->graph;
    struct error error = {0};

    expect(session->backend->program_set_input(session->program, graph->input, samples, &error),
           &error);
    expect(session->backend->program_set_input(session->program, graph->target, target, &error),
           &error);
    if (test->evaluation) {
        expect(session->backend->program_run(session->program, PROGRAM_FORWARD, &scalars, &error),
               &error);
        return;
    }
    if (test->accumulate) {
        expect(session->backend->program_run(session->program, PROGRAM_FORWARD | PROGRAM_BACKWARD,
                                             &scalars, &error),
               &error);
        scalars.accumulate = true;
        scalars.batch += 100;
    }
    expect(session->backend->program_run(session->program, PROGRAM_STEP, &scalars, &error), &error);
    if (test->loss_scale > 0 &&
        session->backend->program_update_skipped(session->program) != (test->loss_scale > 1e30f)) {
        fprintf(stderr, "%s: an update was skipped that should not be, or the other way round\n",
                test->name);
        exit(1);
    }
}

static int run_case(const struct test_case *test, struct backend_device *cpu_device,
                    const struct backend *backend, struct backend_device *gpu_device)
{
    struct session cpu, gpu;
    struct tally tally = {0};
    struct graph graph;
    float *samples;
    void *target;

    build(test, &graph);
    session_open(&cpu, backend_cpu(), cpu_device, &graph);
    session_open(&gpu, backend, gpu_device, &graph);
    write_weights(&cpu);
    write_weights(&gpu);
    cpu.backend->program_reset_metrics(cpu.program);
    gpu.backend->program_reset_metrics(gpu.program);
    samples = allocate(tensor_bytes(&graph, graph.input));
    target = allocate(tensor_bytes(&graph, graph.target));
    for (int step = 1; step <= (test->steps ? test->steps : 1); step++) {
        fill_batch(&graph, step, samples, target);
        run_step(&cpu, test, step, samples, target);
        run_step(&gpu, test, step, samples, target);
    }
    compare_tensors(&cpu, &gpu, &tally);
    compare_metrics(&cpu, &gpu, &tally);
    printf("%-34s %3d compared, worst NMSE %8.1e (%s)%s\n", test->name, tally.compared, tally.worst,
           tally.worst_name, tally.failed ? "  FAILED" : "");
    free(samples);
    free(target);
    session_close(&gpu);
    session_close(&cpu);
    graph_release(&graph);
    return tally.failed > 0;
}

#define END              \
    {                    \
        LAYER_LINEAR, -1 \
    }
#define MLP(...)                            \
    .batch = 24, .sample = {40}, .rank = 1, \
    .layers = {{LAYER_LINEAR, 48}, __VA_ARGS__, {LAYER_LINEAR, 10}, END}
/* A bias before a batch norm has no effect: its gradient is rounding alone, and cannot be compared.
 */
#define MLP_NORM(...)                       \
    .batch = 24, .sample = {40}, .rank = 1, \
    .layers = {{LAYER_LINEAR_PLAIN, 48}, {LAYER_BATCH_NORM, 0}, __VA_ARGS__, END}
#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define ACTIVATION(text, kind)                                         \
    {                                                                  \
        .name = "activation " text, MLP({LAYER_ACTIVATION, kind}), SGD \
    }
#define OPTIMIZER(text, ...)                                                             \
    {                                                                                    \
        .name = "optimizer " text, MLP({LAYER_ACTIVATION, ACTIVATION_RELU}), .steps = 4, \
        .optimizer = {                                                                   \
            __VA_ARGS__                                                                  \
        }                                                                                \
    }

static const struct test_case cases[] = {
    {.name = "linear 1x1 -> 1",
     .batch = 1,
     .sample = {1},
     .rank = 1,
     .loss = LOSS_MSE,
     .layers = {{LAYER_LINEAR, 1}, END},
     SGD},
    {.name = "linear 7x13 -> 5",
     .batch = 7,
     .sample = {13},
     .rank = 1,
     .layers = {{LAYER_LINEAR, 5}, END},
     SGD},
    {.name = "linear without bias",
     .batch = 33,
     .sample = {17},
     .rank = 1,
     .layers = {{LAYER_LINEAR_PLAIN, 3}, END},
     SGD},
    {.name = "linear 128x784 -> 256 -> 10",
     .batch = 128,
     .sample = {784},
     .rank = 1,
     /* smooth: of 32768 values some lie so near to ReLU's kink that rounding decides */
     .layers = {{LAYER_LINEAR, 256}, {LAYER_ACTIVATION, ACTIVATION_GELU}, {LAYER_LINEAR, 10}, END},
     SGD},
    {.name = "linear 512x1024 -> 1000",
     .batch = 512,
     .sample = {1024},
     .rank = 1,
     .layers = {{LAYER_LINEAR, 1000}, END},
     SGD},
    ACTIVATION("ReLU", ACTIVATION_RELU),
    ACTIVATION("SiLU", ACTIVATION_SILU),
    ACTIVATION("GELU", ACTIVATION_GELU),
    ACTIVATION("tanh", ACTIVATION_TANH),
    ACTIVATION("sigmoid", ACTIVATION_SIGMOID),
    ACTIVATION("hardswish", ACTIVATION_HARDSWISH),
    ACTIVATION("hardsigmoid", ACTIVATION_HARDSIGMOID),
    {.name = "batch norm of features", MLP_NORM({LAYER_LINEAR, 10}), SGD, .steps = 3},
    {.name = "batch norm in evaluation", MLP_NORM({LAYER_LINEAR, 10}), .evaluation = true},
    {.name = "batch norm of images",
     .batch = 6,
     .sample = {5, 7, 3},
     .rank = 3,
     .layers = {{LAYER_BATCH_NORM, 0}, {LAYER_FLATTEN, 0}, {LAYER_LINEAR, 4}, END},
     SGD,
     .steps = 2},
    {.name = "batch norm, recomputed",
     MLP_NORM({LAYER_ACTIVATION, ACTIVATION_SILU}, {LAYER_LINEAR, 10}),
     SGD,
     .recompute = RECOMPUTE_SELECTIVE},
    {.name = "dropout", MLP({LAYER_DROPOUT, 0}), SGD, .steps = 2},
    {.name = "stochastic depth", MLP({LAYER_DEPTH, 0}), SGD, .steps = 2},
    {.name = "sum of branches", MLP({LAYER_ACTIVATION, ACTIVATION_TANH}, {LAYER_ADD, 0}), SGD},
    {.name = "cross entropy, soft", MLP({LAYER_ACTIVATION, 0}), .loss = LOSS_SOFT, SGD},
    {.name = "cross entropy of 1000 classes",
     .batch = 9,
     .sample = {20},
     .rank = 1,
     .layers = {{LAYER_LINEAR, 1000}, END},
     SGD},
    {.name = "mean squared error", MLP({LAYER_ACTIVATION, 0}), .loss = LOSS_MSE, SGD},
    OPTIMIZER("SGD", .kind = OPTIMIZER_SGD, .weight_decay = 0.01),
    OPTIMIZER("SGD, Nesterov", .kind = OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true),
    OPTIMIZER("SGD, dampening", .kind = OPTIMIZER_SGD, .momentum = 0.9, .dampening = 0.3),
    OPTIMIZER("Adam", .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8,
              .weight_decay = 0.01),
    OPTIMIZER("AdamW", .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8,
              .weight_decay = 0.01),
    OPTIMIZER("NAdam", .kind = OPTIMIZER_NADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8,
              .momentum_decay = 0.004),
    OPTIMIZER("RMSprop", .kind = OPTIMIZER_RMSPROP, .alpha = 0.99, .epsilon = 1e-8),
    OPTIMIZER("RMSprop, momentum", .kind = OPTIMIZER_RMSPROP, .alpha = 0.99, .epsilon = 1e-8,
              .momentum = 0.5),
    OPTIMIZER("Lion", .kind = OPTIMIZER_LION, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.01),
    OPTIMIZER("Adagrad", .kind = OPTIMIZER_ADAGRAD, .epsilon = 1e-10, .learning_rate_decay = 0.1),
    OPTIMIZER("Adadelta", .kind = OPTIMIZER_ADADELTA, .alpha = 0.9, .epsilon = 1e-6),
    {.name = "gradients clipped by norm",
     MLP({LAYER_ACTIVATION, 0}),
     SGD,
     .steps = 3,
     .clip_norm = 0.1f},
    {.name = "gradients clipped by value",
     MLP({LAYER_ACTIVATION, 0}),
     SGD,
     .steps = 3,
     .clip_value = 0.001f},
    {.name = "gradients accumulated", MLP({LAYER_DROPOUT, 0}), SGD, .steps = 2, .accumulate = true},
    {.name = "loss scaled", MLP({LAYER_ACTIVATION, 0}), SGD, .steps = 2, .loss_scale = 1024},
    {.name = "moving averages", MLP_NORM({LAYER_LINEAR, 10}), SGD, .steps = 3, .average = true},
};

int main(int argc, char **argv)
{
    struct backend_device_config config = {.threads = 4};
    struct backend_device *cpu, *gpu;
    struct backend_device_info info;
    const struct backend *backend;
    struct error error = {0};
    int failed = 0, count = sizeof cases / sizeof *cases;

    expect(worker_plugin_load("cuda", argc > 1 ? argv[1] : NULL, &backend, &error), &error);
    expect(backend_cpu()->device_open(&config, &cpu, &error), &error);
    if (backend->device_open(&config, &gpu, &error) < 0) {
        puts(error.text);
        return error.code == -ENODEV ? 77 : 1;
    }
    backend->device_describe(gpu, &info);
    printf("%s, %s, %s\n", info.model, info.features, info.versions);
    for (int i = 0; i < count; i++)
        failed += run_case(&cases[i], cpu, backend, gpu);
    printf("%d of %d cases agree within an NMSE of %.0e\n", count - failed, count, nmse_limit);
    backend->device_close(gpu);
    backend_cpu()->device_close(cpu);
    return failed > 0;
}
