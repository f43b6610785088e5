/* run.c: runs programs. The work of each kind of run is recorded once for each slot, when it first
 * occurs; what changes from step to step is in the slot (exchange.c). */
#include "engine/backends/vulkan/vulkan.h"

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
        if (!(recorder->kind.phases >> graph->nodes[i].phase & 1))
            continue;
        r = record_node(recorder, i, error);
        if (r == 0)
            r = vulkan_operator_of(graph->nodes[i].op)(recorder, i, error);
    }
    return r;
}

static int record_run(struct backend_program *program, const struct vulkan_run_kind *kind, int slot,
                      VkCommandBuffer *commands, struct error *error)
{
    struct recorder recorder = {.program = program,
                                .kind = *kind,
                                .scalars = exchange_scalars(program, slot),
                                .results = exchange_results(program, slot)};
    int r = queue_begin(program->device, true, commands, error);

    if (r < 0)
        return r;
    recorder.commands = *commands;
    if (kind->phases & PROGRAM_FORWARD)
        r = exchange_record_inputs(&recorder, slot, error);
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

static int find_capture(struct backend_program *program, const struct vulkan_run_kind *kind,
                        struct vulkan_capture **found, struct error *error)
{
    for (int i = 0; i < program->capture_count; i++) {
        const struct vulkan_run_kind *other = &program->captures[i].kind;

        if (other->phases == kind->phases && other->accumulate == kind->accumulate &&
            other->sums_squares == kind->sums_squares) {
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

int vulkan_program_run(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error)
{
    const struct vulkan_run_kind kind = {.phases = phases,
                                         .accumulate = scalars->accumulate,
                                         .sums_squares =
                                             scalars->clip_norm > 0 || scalars->loss_scale > 0};
    int slot = program->slot;
    struct vulkan_pending *pending = &program->pending[slot];
    struct vulkan_capture *capture = NULL;
    bool recorded = false;
    int r = exchange_collect(program, slot, error);

    if (r == 0)
        r = find_capture(program, &kind, &capture, error);
    recorded = r == 0 && capture->commands[slot];
    if (r == 0 && !recorded)
        r = record_run(program, &kind, slot, &capture->commands[slot], error);
    if (r == 0)
        r = exchange_fill(program, slot, scalars, phases & PROGRAM_FORWARD, error);
    if (r == 0)
        r = queue_submit(program->device, capture->commands[slot], &pending->submission, error);
    if (r < 0)
        return r;
    pending->waits = true;
    pending->has_loss = phases & PROGRAM_FORWARD && program->has_loss;
    pending->step = scalars->step;
    program->slot = (slot + 1) % VULKAN_SLOTS;
    if (recorded) /* no run like it needs further pipelines */
        pipeline_cache_save(program->device);
    return 0;
}

int program_collect(struct backend_program *program, struct error *error)
{
    int r = 0;

    for (int i = 0; r == 0 && i < VULKAN_SLOTS; i++) /* the oldest first */
        r = exchange_collect(program, (program->slot + i) % VULKAN_SLOTS, error);
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
