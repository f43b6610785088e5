/* run.c: runs of a program. The launches of each kind of run (its phases, whether gradients
 * accumulate, whether their squares are summed) are captured as one CUDA graph at its first time;
 * what else changes from run to run, kernels read from the device's memory. */
#include "engine/backends/cuda/cuda.h"

#include <errno.h>
#include <string.h>

int cuda_program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                           struct error *error)
{
    if (program->graph->tensors[tensor].role != TENSOR_INPUT)
        return error_set(error, -EINVAL, "the tensor %s is no input",
                         program->graph->tensors[tensor].name);
    program->input[tensor == program->graph->target] = canonical;
    return 0;
}

static int copy_input(struct backend_program *program, int32_t tensor, const void *from,
                      struct error *error)
{
    bool staged = tensor == program->graph->input && program->staging;
    size_t bytes = (size_t)program_elements(program, tensor) *
                   tensor_type_bytes(program->graph->tensors[tensor].type);
    cudaError_t status;

    if (!program->address[tensor])
        return 0;
    if (!from)
        return error_set(error, -EINVAL, "a step was run before its input was set");
    status = cudaMemcpyAsync(staged ? program->staging : program->address[tensor], from, bytes,
                             cudaMemcpyHostToDevice, program->device->stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "a batch on its way to the GPU");
}

/* ---- capture -----------------------------------------------------------------------------------
 */

static int launch_nodes(struct backend_program *program, struct error *error)
{
    const struct graph *graph = program->graph;
    int r = 0;

    if (program->run.phases & PROGRAM_FORWARD && program->staging)
        r = program_convert_input(program, program->staging, error);
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++)
        if (program->run.phases >> graph->nodes[i].phase & 1)
            r = program->operators[i](program, i, error);
    return r;
}

static int capture_run(struct backend_program *program, struct capture *capture,
                       struct error *error)
{
    cudaStream_t stream = program->device->stream;
    cudaGraph_t graph = NULL;
    cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    int r;

    if (status != cudaSuccess)
        return cuda_fail(error, status, "the step cannot be captured");
    program->step_scalars = program->device->scalars;
    r = launch_nodes(program, error);
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
    return a->phases == b->phases && a->accumulate == b->accumulate &&
           a->sums_squares == b->sums_squares;
}

static int find_capture(struct backend_program *program, cudaGraphExec_t *graph,
                        struct error *error)
{
    struct capture *capture;
    int r;

    for (int i = 0; i < program->capture_count; i++) {
        if (is_same_run(&program->captures[i].key, &program->run)) {
            *graph = program->captures[i].graph;
            return 0;
        }
    }
    if (program->capture_count == CUDA_CAPTURES_MAX)
        return error_set(error, -ENOSPC, "a program is run in more than %d ways",
                         CUDA_CAPTURES_MAX);
    capture = &program->captures[program->capture_count];
    capture->key = program->run;
    r = capture_run(program, capture, error);
    if (r < 0)
        return r;
    program->capture_count++;
    *graph = capture->graph;
    return 0;
}

/* ---- runs --------------------------------------------------------------------------------------
 */

int cuda_program_run(struct backend_program *program, unsigned phases,
                     const struct step_scalars *scalars, struct error *error)
{
    const struct graph *graph = program->graph;
    cudaStream_t stream = program->device->stream;
    cudaGraphExec_t captured = NULL;
    cudaError_t status;
    int r = 0;

    program->run =
        (struct capture_key){.phases = phases,
                             .accumulate = scalars->accumulate,
                             .sums_squares = scalars->clip_norm > 0 || scalars->loss_scale > 0};
    update_scalars(program, scalars, &program->scalars);
    if (phases & PROGRAM_FORWARD) {
        r = copy_input(program, graph->input, program->input[0], error);
        if (r == 0 && graph->target >= 0)
            r = copy_input(program, graph->target, program->input[1], error);
    }
    if (r == 0)
        r = find_capture(program, &captured, error);
    if (r < 0)
        return r;
    /* from pageable memory: CUDA has its own copy when the call returns */
    status = cudaMemcpyAsync(program->device->scalars, &program->scalars, sizeof program->scalars,
                             cudaMemcpyHostToDevice, stream);
    if (status == cudaSuccess)
        status = cudaGraphLaunch(captured, stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "a step on the GPU");
}

/* ---- what runs leave ---------------------------------------------------------------------------
 */

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

void cuda_program_reset_metrics(struct backend_program *program)
{
    cudaMemsetAsync(&program->control->metrics, 0, sizeof program->control->metrics,
                    program->device->stream);
}

/* An error of the device shows in the metrics as not a number, and at the next run in words. */
void cuda_program_read_metrics(struct backend_program *program, struct step_metrics *metrics)
{
    struct cuda_metrics read = {.last_loss = __builtin_nan("")};

    read_control(program, offsetof(struct cuda_control, metrics), &read, sizeof read);
    *metrics = (struct step_metrics){.loss_sum = read.loss_sum,
                                     .samples = read.samples,
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
                                 .correct = metrics->correct,
                                 .nonfinite_step = metrics->nonfinite_step};

    cudaMemcpyAsync(&program->control->metrics, &write, sizeof write, cudaMemcpyHostToDevice,
                    program->device->stream);
    cudaStreamSynchronize(program->device->stream);
}
