/* run.c: runs programs. Each kind of run is captured as one CUDA graph when it first occurs. The
 * kind is the number of steps, their phases, whether gradients accumulate, whether their squares
 * are summed, and where the batches come from. Everything else that changes from step to step is in
 * the device's memory, where each step of a launch has its own scalars. */
#include "base/alignment.h"
#include "engine/backends/cuda/cuda.h"

#include <errno.h>
#include <string.h>

/* The inputs of a program, in the order of its `input`. */
enum { SAMPLES, TARGET, LENGTHS, INPUTS };

/* -1: the graph has no such input. */
static int32_t input_tensor(const struct graph *graph, int input)
{
    return (const int32_t[]){graph->input, graph->target, graph->lengths}[input];
}

int cuda_program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                           struct error *error)
{
    if (program->graph->tensors[tensor].role != TENSOR_INPUT)
        return error_set(error, -EINVAL, "the tensor %s is no input",
                         program->graph->tensors[tensor].name);
    for (int i = 0; i < INPUTS; i++)
        if (tensor == input_tensor(program->graph, i))
            program->input[i] = canonical;
    return 0;
}

/* ---- batches of the host --------------------------------------------------------------------- */

/* One of the program's inputs on its way to the device. */
struct arrival {
    int32_t tensor;
    const void *from; /* on the host */
    size_t bytes;
    /* the first place on the device; NULL: the stream of the runs copies it */
    char *place;
};

static int describe_arrival(const struct backend_program *program, int input,
                            struct arrival *arrival, struct error *error)
{
    const struct graph *graph = program->graph;
    int32_t tensor = input_tensor(graph, input);

    *arrival = (struct arrival){.tensor = -1};
    if (tensor < 0 || !program->address[tensor])
        return 0;
    if (!program->input[input])
        return error_set(error, -EINVAL, "a step was run before its input was set");
    arrival->tensor = tensor;
    arrival->from = program->input[input];
    arrival->bytes =
        (size_t)program_elements(program, tensor) * tensor_type_bytes(graph->tensors[tensor].type);
    arrival->place = buffer_arrival(program->buffer, arrival->from, arrival->bytes);
    return 0;
}

/* Copies what has arrived, or what is on the host, to where the nodes read it. */
static int place_arrival(struct backend_program *program, const struct arrival *arrival,
                         struct error *error)
{
    bool converted = arrival->tensor == program->graph->input && program->staging;
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cudaSuccess;

    if (arrival->tensor < 0)
        return 0;
    if (!arrival->place || !converted)
        status = cudaMemcpyAsync(converted ? program->staging : program->address[arrival->tensor],
                                 arrival->place ? arrival->place : arrival->from, arrival->bytes,
                                 cudaMemcpyDefault, stream);
    if (status != cudaSuccess)
        return cuda_fail(error, status, "a batch on its way to the GPU");
    return converted ? program_convert_input(
                           program, arrival->place ? arrival->place : program->staging, error)
                     : 0;
}

/* Batches in the buffer's staged part are copied while the previous run still works. The run before
 * that is done (queue_stage()), so nothing reads the place any more. */
static int bring_batch(struct backend_program *program, struct error *error)
{
    struct cuda_queue *queue = &program->device->queue;
    struct arrival arrivals[INPUTS];
    cudaError_t status;
    int r = 0;

    for (int i = 0; r == 0 && i < INPUTS; i++)
        r = describe_arrival(program, i, &arrivals[i], error);
    if (r < 0)
        return r;
    /* the host may fill this part again after the run */
    status = cudaEventSynchronize(queue->copied);
    for (int i = 0; status == cudaSuccess && i < INPUTS; i++)
        if (arrivals[i].place)
            status = cudaMemcpyAsync(arrivals[i].place, arrivals[i].from, arrivals[i].bytes,
                                     cudaMemcpyHostToDevice, queue->copies);
    if (status == cudaSuccess)
        status = cudaEventRecord(queue->copied, queue->copies);
    if (status == cudaSuccess)
        status = cudaStreamWaitEvent(program->device->stream, queue->copied, 0);
    if (status != cudaSuccess)
        return cuda_fail(error, status, "a batch on its way to the GPU");
    for (int i = 0; r == 0 && i < INPUTS; i++)
        r = place_arrival(program, &arrivals[i], error);
    return r;
}

/* ---- capture --------------------------------------------------------------------------------- */

static int launch_nodes(struct backend_program *program, struct error *error)
{
    const struct graph *graph = program->graph;
    int r = profile_mark(program, -1, error);

    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        if (program->run.phases >> graph->nodes[i].phase & 1)
            r = program->operators[i](program, i, error);
        if (r == 0)
            r = profile_mark(program, i, error);
    }
    return r;
}

static size_t scalars_bytes(const struct backend_program *program)
{
    size_t bytes = offsetof(struct cuda_scalars, group) +
                   (size_t)program->graph->group_count * sizeof(float[UPDATE_COEFFICIENTS]);

    return align_up(bytes, 16);
}

static struct cuda_scalars *scalars_of_step(const struct backend_program *program,
                                            struct cuda_scalars *first, int step)
{
    return (struct cuda_scalars *)((char *)first + (size_t)step * scalars_bytes(program));
}

static struct step_kind kind_of_step(const struct capture_key *key, int step)
{
    struct step_kind kind = key->first;

    kind.accumulate = key->accumulates >> step & 1;
    kind.phases &= ~(unsigned)PROGRAM_UPDATE;
    if (key->updates >> step & 1)
        kind.phases |= PROGRAM_UPDATE;
    return kind;
}

/* Sets the address at which the nodes read an input, and those of its aliases. */
static void place_input(struct backend_program *program, int32_t input, char *place)
{
    for (int32_t i = 0; input >= 0 && i < program->graph->tensor_count; i++) {
        int32_t root = i;

        while (program->alias[root] >= 0)
            root = program->alias[root];
        if (root == input)
            program->address[i] = place;
    }
}

/* Launches a step on a batch of the data. From time to time it also makes batches, for as many
 * steps as there is room for. */
static int launch_data_step(struct backend_program *program, const struct capture_key *key,
                            int step, struct error *error)
{
    const struct graph *graph = program->graph;
    int room = data_batches(key->data), left = key->count - step;
    int r = 0;

    if (step % room == 0)
        r = data_make_batches(key->data, program, left < room ? left : room, key->augmented,
                              program->step_scalars, scalars_bytes(program), error);
    place_input(program, graph->input, data_samples(key->data, step));
    place_input(program, graph->target, data_targets(key->data, step));
    return r < 0 ? r : launch_nodes(program, error);
}

static int launch_steps(struct backend_program *program, const struct capture_key *key,
                        struct error *error)
{
    const struct graph *graph = program->graph;
    char *samples = program->address[graph->input];
    char *targets = graph->target >= 0 ? program->address[graph->target] : NULL;
    int r = 0;

    for (int k = 0; r == 0 && k < key->count; k++) {
        program->run = kind_of_step(key, k);
        program->step_scalars = scalars_of_step(program, program->device->queue.scalars, k);
        r = key->data ? launch_data_step(program, key, k, error) : launch_nodes(program, error);
    }
    place_input(program, graph->input, samples);
    place_input(program, graph->target, targets);
    return r;
}

static int capture_steps(struct backend_program *program, struct capture *capture,
                         struct error *error)
{
    cudaStream_t stream = program->device->stream;
    cudaGraph_t graph = NULL;
    cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    int r;

    if (status != cudaSuccess)
        return cuda_fail(error, status, "the step cannot be captured");
    r = launch_steps(program, &capture->key, error);
    status = cudaStreamEndCapture(stream, &graph);
    if (r == 0 && status != cudaSuccess)
        r = cuda_fail(error, status, "the step cannot be captured");
    if (r == 0) {
        status = cudaGraphInstantiate(&capture->graph, graph, 0);
        if (status != cudaSuccess)
            r = cuda_fail(error, status, "the step cannot be made a CUDA graph");
    }
    if (graph)
        cudaGraphDestroy(graph);
    return r;
}

static bool is_same_run(const struct capture_key *a, const struct capture_key *b)
{
    return a->first.phases == b->first.phases && a->first.sums_squares == b->first.sums_squares &&
           a->first.recording == b->first.recording && a->count == b->count &&
           a->accumulates == b->accumulates && a->updates == b->updates && a->data == b->data &&
           a->augmented == b->augmented;
}

static int find_capture(struct backend_program *program, const struct capture_key *key,
                        cudaGraphExec_t *graph, struct error *error)
{
    struct capture *capture;
    int r;

    for (int i = 0; i < program->capture_count; i++) {
        if (is_same_run(&program->captures[i].key, key)) {
            *graph = program->captures[i].graph;
            program->run = kind_of_step(key, key->count - 1);
            return 0;
        }
    }
    if (program->capture_count == CUDA_CAPTURES_MAX)
        return error_set(error, -ENOSPC, "a program is run in more than %d ways",
                         CUDA_CAPTURES_MAX);
    capture = &program->captures[program->capture_count];
    capture->key = *key;
    r = capture_steps(program, capture, error);
    if (r < 0)
        return r;
    program->capture_count++;
    *graph = capture->graph;
    return 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static struct capture_key key_of_steps(const struct backend_program *program,
                                       const struct backend_data *data,
                                       const struct backend_step *steps, int count)
{
    struct capture_key key = {
        .first = {.phases = steps[0].phases & ~(unsigned)PROGRAM_UPDATE,
                  .sums_squares = steps[0].scalars.clip_norm > 0 || steps[0].scalars.loss_scale > 0,
                  .recording = profile_wanted(program)},
        .count = count,
        .data = data,
        .augmented = data && steps[0].batch.augmented};

    for (int k = 0; k < count; k++) {
        key.accumulates |= (uint64_t)steps[k].scalars.accumulate << k;
        key.updates |= (uint64_t) !!(steps[k].phases & PROGRAM_UPDATE) << k;
    }
    return key;
}

static int run_steps(struct backend_program *program, struct backend_data *data,
                     const struct backend_step *steps, int count, struct error *error)
{
    const struct capture_key key = key_of_steps(program, data, steps, count);
    struct cuda_queue *queue = &program->device->queue;
    struct cuda_scalars *staged;
    cudaGraphExec_t captured = NULL;
    cudaError_t status = queue_stage(queue, &staged);
    int r = status == cudaSuccess ? 0 : cuda_fail(error, status, "a step on the GPU");

    if (r == 0 && key.first.recording)
        r = profile_prepare(program, error);
    if (r == 0)
        r = find_capture(program, &key, &captured, error);
    if (r == 0 && !data && steps->phases & PROGRAM_FORWARD)
        r = bring_batch(program, error);
    if (r < 0)
        return r;
    for (int k = 0; k < count; k++) {
        struct cuda_scalars *scalars = scalars_of_step(program, staged, k);

        update_scalars(program, &steps[k].scalars, scalars);
        if (data)
            data_scalars(data, &steps[k].batch, scalars);
    }
    status = queue_launch(queue, program->device->stream, (size_t)count * scalars_bytes(program),
                          captured);
    if (status != cudaSuccess)
        return cuda_fail(error, status, "a step on the GPU");
    return key.first.recording ? profile_read(program, error) : 0;
}

int cuda_program_run(struct backend_program *program, unsigned phases,
                     const struct step_scalars *scalars, struct error *error)
{
    const struct backend_step step = {.scalars = *scalars, .phases = phases};

    return run_steps(program, NULL, &step, 1, error);
}

int cuda_program_run_steps(struct backend_program *program, struct backend_data *data,
                           const struct backend_step *steps, int count, struct error *error)
{
    if (count < 1 || count > BACKEND_STEPS_MAX)
        return error_set(error, -EINVAL, "%d steps in one launch; there may be 1 to %d", count,
                         BACKEND_STEPS_MAX);
    if (profile_wanted(program) == RECORD_NOTHING)
        return run_steps(program, data, steps, count, error);
    for (int k = 0, r; k < count; k++) /* marks belong to a single step */
        if ((r = run_steps(program, data, &steps[k], 1, error)) < 0)
            return r;
    return 0;
}

/* ---- what runs leave ------------------------------------------------------------------------- */

static void read_control(const struct backend_program *program, size_t offset, void *to,
                         size_t bytes)
{
    cudaMemcpyAsync(to, (const char *)program->control + offset, bytes, cudaMemcpyDeviceToHost,
                    program->device->stream);
    cudaStreamSynchronize(program->device->stream);
}

bool cuda_program_update_skipped(struct backend_program *program)
{
    int32_t skipped = 0;

    if (!(program->run.phases & PROGRAM_UPDATE) || !program->run.sums_squares)
        return false;
    read_control(program, offsetof(struct cuda_control, skipped), &skipped, sizeof skipped);
    return skipped;
}

void cuda_program_write_loss_scale(struct backend_program *program,
                                   const struct loss_scale *loss_scale)
{
    cudaMemcpyAsync(program->loss_scale, loss_scale, sizeof *loss_scale, cudaMemcpyHostToDevice,
                    program->device->stream);
    cudaStreamSynchronize(program->device->stream);
}

/* The next run reports an error of the device, in words. */
void cuda_program_read_loss_scale(struct backend_program *program, struct loss_scale *loss_scale)
{
    cudaMemcpyAsync(loss_scale, program->loss_scale, sizeof *loss_scale, cudaMemcpyDeviceToHost,
                    program->device->stream);
    cudaStreamSynchronize(program->device->stream);
}

void cuda_program_reset_metrics(struct backend_program *program)
{
    cudaMemsetAsync(&program->control->metrics, 0, sizeof program->control->metrics,
                    program->device->stream);
}

/* An error of the device shows in the metrics as not a number; the next run reports it in words. */
void cuda_program_read_metrics(struct backend_program *program, struct step_metrics *metrics)
{
    struct cuda_metrics read = {.last_loss = __builtin_nan("")};

    read_control(program, offsetof(struct cuda_control, metrics), &read, sizeof read);
    *metrics = (struct step_metrics){.loss_sum = read.loss_sum,
                                     .samples = read.samples,
                                     .labels = read.labels,
                                     .correct = read.correct,
                                     .last_loss = read.last_loss,
                                     .nonfinite_step = read.nonfinite_step};
}

void cuda_program_restore_metrics(struct backend_program *program,
                                  const struct step_metrics *metrics)
{
    struct cuda_metrics write = {.loss_sum = metrics->loss_sum,
                                 .last_loss = metrics->last_loss,
                                 .samples = metrics->samples,
                                 .labels = metrics->labels,
                                 .correct = metrics->correct,
                                 .nonfinite_step = metrics->nonfinite_step};

    cudaMemcpyAsync(&program->control->metrics, &write, sizeof write, cudaMemcpyHostToDevice,
                    program->device->stream);
    cudaStreamSynchronize(program->device->stream);
}
