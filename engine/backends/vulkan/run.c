/* run.c: runs programs. The work of each kind of step is recorded once for each slot, when it first
 * occurs; what changes from step to step is in the slot (exchange.c). The steps of a launch are
 * submitted together. */
#include "engine/backends/vulkan/times.h"

#include <errno.h>
#include <stdlib.h>

int vulkan_program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                             struct error *error)
{
    const struct graph *graph = program->graph;

    if (graph->tensors[tensor].role != TENSOR_INPUT)
        return error_set(error, -EINVAL, "the tensor %s is no input", graph->tensors[tensor].name);
    if (tensor == graph->input)
        program->input[0] = canonical;
    else if (tensor == graph->target)
        program->input[1] = canonical;
    else
        program->input[2] = canonical;
    return 0;
}

static int record_nodes(struct recorder *recorder, struct error *error)
{
    const struct graph *graph = recorder->program->graph;
    int r = 0;

    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        if (!(recorder->kind.phases >> graph->nodes[i].phase & 1) ||
            recorder->program->fusions[i].absorbed)
            continue;
        r = record_node(recorder, i, error);
        if (r == 0)
            r = vulkan_operator_of(graph->nodes[i].op)(recorder, i, error);
    }
    return r;
}

/* Records what a step reads: its scalars and its batch. */
static int record_arrivals(struct recorder *recorder, int slot, struct error *error)
{
    const struct vulkan_run_kind *kind = &recorder->kind;
    struct backend_device *device = recorder->program->device;
    int r = 0;

    exchange_record_scalars(recorder, slot);
    if (kind->phases & PROGRAM_FORWARD && !kind->data)
        r = exchange_record_batch(recorder, slot / BACKEND_STEPS_MAX, error);
    queue_barrier(device, recorder->commands);
    if (r == 0 && kind->phases & PROGRAM_FORWARD && kind->data) {
        r = data_record_batch(recorder, kind->data, kind->augmented, error);
        queue_barrier(device, recorder->commands);
    }
    return r;
}

static int record_step(struct backend_program *program, const struct vulkan_run_kind *kind,
                       int slot, VkCommandBuffer *commands, struct error *error)
{
    struct recorder recorder = {.program = program,
                                .kind = *kind,
                                .scalars = program_scalars(program),
                                .results = exchange_results(program, slot),
                                .node = -1};
    int r = queue_begin(program->device, true, commands, error);

    if (r < 0)
        return r;
    recorder.commands = *commands;
    times_begin(&recorder);
    r = record_arrivals(&recorder, slot, error);
    if (r == 0)
        r = record_nodes(&recorder, error);
    if (r == 0)
        r = queue_end(program->device, *commands, error);
    free(recorder.ranges);
    if (r < 0) {
        queue_discard(program->device, *commands);
        *commands = VK_NULL_HANDLE;
    }
    return r;
}

int program_rehearse(struct backend_program *program, struct error *error)
{
    struct recorder recorder = {.program = program,
                                .kind = {.phases = PROGRAM_STEP},
                                .scalars = program_scalars(program),
                                .results = exchange_results(program, 0),
                                .rehearses = true};
    int r;

    if (!program->device->measures)
        return 0;
    r = queue_begin(program->device, false, &recorder.commands, error);
    if (r < 0)
        return r;
    r = record_nodes(&recorder, error);
    free(recorder.ranges);
    queue_discard(program->device, recorder.commands);
    return r;
}

static bool is_same_kind(const struct vulkan_run_kind *a, const struct vulkan_run_kind *b)
{
    return a->phases == b->phases && a->accumulate == b->accumulate &&
           a->sums_squares == b->sums_squares && a->data == b->data && a->augmented == b->augmented;
}

static int find_capture(struct backend_program *program, const struct vulkan_run_kind *kind,
                        struct vulkan_capture **found, struct error *error)
{
    for (int i = 0; i < program->capture_count; i++) {
        if (is_same_kind(&program->captures[i].kind, kind)) {
            *found = &program->captures[i];
            return 0;
        }
    }
    if (program->capture_count == VULKAN_CAPTURES_MAX)
        return error_set(error, -ENOSPC, "a program is run in more than %d ways",
                         VULKAN_CAPTURES_MAX);
    *found = &program->captures[program->capture_count++];
    (*found)->kind = *kind;
    return 0;
}

/* The commands of a step, recorded if there are none yet, which *recorded then says. */
static int find_commands(struct backend_program *program, const struct backend_data *data,
                         const struct backend_step *step, int slot, VkCommandBuffer *commands,
                         bool *recorded, struct error *error)
{
    const struct vulkan_run_kind kind = {.phases = step->phases,
                                         .accumulate = step->scalars.accumulate,
                                         .sums_squares = step->scalars.clip_norm > 0 ||
                                                         step->scalars.loss_scale > 0,
                                         .data = data,
                                         .augmented = data && step->batch.augmented};
    struct vulkan_capture *capture = NULL;
    int r = find_capture(program, &kind, &capture, error);

    if (r == 0 && !capture->commands[slot]) {
        *recorded = true;
        r = record_step(program, &kind, slot, &capture->commands[slot], error);
    }
    if (r == 0)
        *commands = capture->commands[slot];
    return r;
}

/* Submits all steps at once. */
static int run_steps(struct backend_program *program, const struct backend_data *data,
                     const struct backend_step *steps, int count, struct error *error)
{
    const int turn = program->turn, first = turn * BACKEND_STEPS_MAX;
    struct vulkan_pending *pending = &program->pending[turn];
    VkCommandBuffer commands[BACKEND_STEPS_MAX];
    bool recorded = false;
    int r = exchange_collect(program, turn, error);

    for (int k = 0; r == 0 && k < count; k++) {
        r = find_commands(program, data, &steps[k], first + k, &commands[k], &recorded, error);
        exchange_fill_step(program, first + k, &steps[k], data);
        pending->step[k] = steps[k].scalars.step;
    }
    if (r == 0 && !data && steps->phases & PROGRAM_FORWARD)
        r = exchange_fill_batch(program, turn, error);
    if (r == 0)
        r = queue_submit(program->device, commands, count, &pending->submission, error);
    if (r < 0)
        return r;
    pending->count = count;
    pending->has_loss = steps->phases & PROGRAM_FORWARD && program->has_loss;
    program->turn = (turn + 1) % VULKAN_TURNS;
    if (!recorded) /* no step like these needs further pipelines */
        pipeline_cache_save(program->device);
    return 0;
}

int vulkan_program_run(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error)
{
    const struct backend_step step = {.scalars = *scalars, .phases = phases};

    return run_steps(program, NULL, &step, 1, error);
}

int vulkan_program_run_steps(struct backend_program *program, struct backend_data *data,
                             const struct backend_step *steps, int count, struct error *error)
{
    if (count < 1 || count > BACKEND_STEPS_MAX)
        return error_set(error, -EINVAL, "%d steps in one launch; there may be 1 to %d", count,
                         BACKEND_STEPS_MAX);
    return run_steps(program, data, steps, count, error);
}

int program_collect(struct backend_program *program, struct error *error)
{
    int r = 0;

    for (int i = 0; r == 0 && i < VULKAN_TURNS; i++) /* the oldest first */
        r = exchange_collect(program, (program->turn + i) % VULKAN_TURNS, error);
    return r;
}

/* The next run reports an error of the device. */
bool vulkan_program_update_skipped(struct backend_program *program)
{
    program_collect(program, NULL);
    return program->update_skipped;
}

void vulkan_program_reset_metrics(struct backend_program *program)
{
    program_collect(program, NULL);
    program->metrics = (struct step_metrics){0};
}

void vulkan_program_read_metrics(struct backend_program *program, struct step_metrics *metrics)
{
    program_collect(program, NULL);
    *metrics = program->metrics;
}

void vulkan_program_restore_metrics(struct backend_program *program,
                                    const struct step_metrics *metrics)
{
    program_collect(program, NULL);
    program->metrics = *metrics;
}
