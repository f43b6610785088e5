/* trajectory.c: training steps of a specification's model from given weights on given batches:
 *
 *   trajectory SPECIFICATION INPUT OUTPUT [PLUGIN]
 *
 * INPUT (safetensors) has the initial weights under their names (a model in the ONNX format may
 * keep its own), and "samples.<i>" and "targets.<i>" of step i, counted from 0. The optimizer and
 * its rate are the specification's, its data is not looked at. Prints the loss of every step and
 * writes to OUTPUT the weights behind the last one, and as "outputs" what the model gave for
 * "samples.0" in evaluation mode before the first one. PLUGIN is a backend's, of which device 0
 * computes; without one the CPU does. */
#include "engine/train/session.h"
#include "engine/train/weight_layouts.h"
#include "worker/trainee/worker_plugin.h"
#include "worker/trainee/worker_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct task {
    struct worker_spec spec;
    struct model_data data;
    struct safetensors input;
    struct session *session;
    struct safetensors_tensor outputs;
    float *output;
    int steps;
};

static void expect(int result, const struct error *error)
{
    if (!result)
        return;
    fprintf(stderr, "trajectory: %s\n", error->text);
    exit(1);
}

static const struct safetensors_tensor *find(const struct task *task, const char *name)
{
    const struct safetensors_tensor *tensor = safetensors_find(&task->input, name);

    if (tensor)
        return tensor;
    fprintf(stderr, "trajectory: the input has no tensor '%s'\n", name);
    exit(1);
}

static const struct safetensors_tensor *find_batch(const struct task *task, const char *what,
                                                   int step)
{
    char name[32];

    snprintf(name, sizeof name, "%s.%d", what, step);
    return find(task, name);
}

/* A copy with the alignment that the session needs. */
static void *aligned_copy(const struct safetensors_tensor *tensor)
{
    void *copy = aligned_alloc(64, (tensor->bytes + 63) / 64 * 64);

    if (!copy)
        abort();
    return memcpy(copy, tensor->data, tensor->bytes);
}

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct task *task = context;

    return model_build(&task->spec.model, &task->data, graph, error);
}

static void open_session(struct task *task, const struct backend *backend,
                         struct backend_device *device)
{
    const struct safetensors_tensor *samples = find_batch(task, "samples", 0);
    struct session_config config = {.backend = backend,
                                    .device = device,
                                    .build = build,
                                    .build_context = task,
                                    .optimizer = task->spec.training.optimizer,
                                    .training_batches = {samples->shape[0]},
                                    .evaluation_batches = {samples->shape[0]},
                                    .seed = 1};
    struct error error = {0};

    task->data = (struct model_data){.rank = samples->rank - 1,
                                     .outputs = task->spec.classes,
                                     .loss = task->spec.loss,
                                     .loss_parameter = task->spec.loss_parameter,
                                     .loss_numbers = task->spec.loss_numbers,
                                     .loss_number_count = task->spec.loss_number_count,
                                     .triplet = task->spec.triplet};
    if (task->spec.head_count) {
        task->data.heads = task->spec.heads;
        task->data.head_count = task->spec.head_count;
        for (int i = 0; i < task->spec.head_count; i++)
            task->data.outputs += task->spec.heads[i].classes;
    }
    if (task->spec.loss == LOSS_TRIPLET)
        task->data.outputs = task->spec.embedding_size;
    if (model_loss_is_of_values(task->spec.loss))
        task->data.outputs = find_batch(task, "targets", 0)->shape[1] *
                             (task->spec.loss == LOSS_QUANTILES ? task->spec.loss_number_count : 1);
    if (samples->type == SAFETENSORS_INT32) {
        task->data.type = TENSOR_INT32;
        task->data.vocabulary = task->spec.classes;
    }
    for (int i = 0; i < task->data.rank; i++)
        task->data.sample_shape[i] = samples->shape[i + 1];
    expect(session_prepare(&config, &task->session, &error), &error);
    expect(session_allocate(task->session, &error), &error);
}

static bool is_weight(const struct session_tensor *tensor)
{
    return tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATISTIC;
}

static void write_weights(struct task *task)
{
    struct session_tensor tensor;
    struct error error = {0};

    for (int i = 0; session_tensor(task->session, i, &tensor) == 0; i++)
        if (is_weight(&tensor) &&
            (!task->spec.model.onnx || safetensors_find(&task->input, tensor.name)))
            expect(session_write(task->session, i, find(task, tensor.name)->data, &error), &error);
}

static void evaluate(struct task *task)
{
    const struct safetensors_tensor *samples = find_batch(task, "samples", 0);
    const struct graph *graph = session_graph_for(task->session, false, samples->shape[0], 0);
    const struct graph_shape *shape = &graph->tensors[graph->output].shape;
    void *x = aligned_copy(samples), *targets = aligned_copy(find_batch(task, "targets", 0));
    struct error error = {0};

    expect(session_evaluate(task->session,
                            &(struct session_batch){
                                .count = samples->shape[0], .samples = x, .targets = targets},
                            &error),
           &error);
    task->output = malloc((size_t)graph_shape_elements(shape) * sizeof *task->output);
    if (!task->output)
        abort();
    expect(session_read_output(task->session, task->output, &error), &error);
    task->outputs = (struct safetensors_tensor){
        .name = "outputs", .type = SAFETENSORS_FLOAT32, .rank = shape->rank};
    for (int r = 0; r < shape->rank; r++)
        task->outputs.shape[r] = shape->extent[r];
    task->outputs.bytes = (size_t)graph_shape_elements(shape) * sizeof *task->output;
    free(x);
    free(targets);
}

static void run_steps(struct task *task)
{
    struct step_metrics metrics;
    struct error error = {0};

    for (int step = 0; step < task->steps; step++) {
        float rate = (float)task->spec.training.schedule.learning_rate;
        struct step_scalars scalars = {
            .step = step + 1, .batch = step + 1, .learning_rate = rate, .gradient_scale = 1};
        const struct safetensors_tensor *samples = find_batch(task, "samples", step);
        void *x = aligned_copy(samples), *targets = aligned_copy(find_batch(task, "targets", step));

        expect(session_step(task->session,
                            &(struct session_batch){
                                .count = samples->shape[0], .samples = x, .targets = targets},
                            PROGRAM_STEP, &scalars, &error),
               &error);
        session_read_metrics(task->session, true, &metrics);
        printf("%.9g\n", metrics.last_loss);
        free(x);
        free(targets);
    }
}

/* The weights in the form of the file that their model came from. */
static void save_weights(struct task *task, const char *path)
{
    struct session_tensor tensor;
    struct safetensors_tensor *tensors = calloc(1, sizeof *tensors);
    struct safetensors_writer *writer;
    struct error error = {0};
    char *layouts;
    int count = 1;

    if (!tensors)
        abort();
    tensors[0] = task->outputs;
    tensors[0].data = task->output;
    for (int i = 0; session_tensor(task->session, i, &tensor) == 0; i++) {
        void *values;

        if (!is_weight(&tensor))
            continue;
        tensors = realloc(tensors, (size_t)(count + 1) * sizeof *tensors);
        values = malloc(tensor.bytes);
        if (!tensors || !values)
            abort();
        expect(session_read(task->session, i, values, &error), &error);
        tensors[count] = (struct safetensors_tensor){.name = strdup(tensor.name),
                                                     .type = SAFETENSORS_FLOAT32,
                                                     .rank = tensor.shape.rank,
                                                     .bytes = tensor.bytes,
                                                     .data = values,
                                                     .owned = true};
        for (int k = 0; k < tensor.shape.rank; k++)
            tensors[count].shape[k] = tensor.shape.extent[k];
        count++;
    }
    expect(weight_layouts_format(session_graph(task->session), &layouts, &error), &error);
    if (layouts)
        expect(weight_layouts_scatter(layouts, &tensors, &count, &error), &error);
    expect(safetensors_writer_open(path, NULL, 0, tensors, count, &writer, &error), &error);
    for (int i = 0; i < count; i++)
        expect(safetensors_writer_add(writer, tensors[i].data, tensors[i].bytes, &error), &error);
    expect(safetensors_writer_finish(writer, NULL, NULL, &error), &error);
    weight_layouts_free(tensors, count);
    free(layouts);
}

int main(int argc, char **argv)
{
    const struct backend *backend = backend_cpu();
    struct backend_device *device;
    struct task task = {0};
    struct error error = {0};

    if (argc != 4 && argc != 5) {
        fprintf(stderr, "trajectory SPECIFICATION INPUT OUTPUT [PLUGIN]\n");
        return 2;
    }
    if (argc == 5)
        expect(worker_plugin_load("cuda", argv[4], &backend, &error), &error);
    expect(worker_spec_load(argv[1], &task.spec, &error), &error);
    expect(safetensors_open(argv[2], &task.input, &error), &error);
    task.steps = (int)task.spec.training.steps;
    expect(backend->device_open(&(struct backend_device_config){.threads = task.spec.threads},
                                &device, &error),
           &error);
    open_session(&task, backend, device);
    write_weights(&task);
    evaluate(&task);
    run_steps(&task);
    save_weights(&task, argv[3]);
    free(task.output);
    session_free(task.session);
    backend->device_close(device);
    safetensors_close(&task.input);
    worker_spec_release(&task.spec);
    return 0;
}
