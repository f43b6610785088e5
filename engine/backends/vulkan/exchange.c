/* exchange.c: what host and device exchange in each run: scalars and a batch go there, the loss
 * comes back. Each slot has a place for all of that, so that the host fills one while the device
 * still reads another. */
#include "base/alignment.h"
#include "engine/backends/vulkan/operators.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Where the parts of a slot begin. */
struct slot_layout {
    size_t results, numbers, input[VULKAN_INPUTS], end;
};

/* -1: the graph has no such input. */
static int32_t input_tensor(const struct graph *graph, int input)
{
    return (const int32_t[VULKAN_INPUTS]){graph->input, graph->target, graph->lengths}[input];
}

/* 0: no node reads it. */
static size_t input_bytes(const struct backend_program *program, int input)
{
    int32_t tensor = input_tensor(program->graph, input);

    return tensor < 0 ? 0
                      : (size_t)program_elements(program, tensor) *
                            tensor_type_bytes(program->graph->tensors[tensor].type);
}

static struct slot_layout slot_layout(const struct backend_program *program)
{
    struct slot_layout layout;
    size_t offset = sizeof(struct shader_scalars) +
                    (size_t)program->graph->group_count * sizeof(float[UPDATE_COEFFICIENTS]);

    layout.results = align_up(offset, MEMORY_ALIGNMENT);
    layout.numbers = layout.results + sizeof(struct shader_results);
    offset = layout.numbers + (size_t)loss_numbers(program->graph, NULL) * sizeof(float);
    for (int i = 0; i < VULKAN_INPUTS; i++) {
        layout.input[i] = align_up(offset, MEMORY_ALIGNMENT);
        offset = layout.input[i] + input_bytes(program, i);
    }
    layout.end = align_up(offset, MEMORY_ALIGNMENT);
    return layout;
}

static size_t slot_offset(const struct backend_program *program, int slot)
{
    return (size_t)slot * slot_layout(program).end;
}

int exchange_create(struct backend_program *program, struct error *error)
{
    size_t bytes = slot_offset(program, VULKAN_SLOTS);
    int r = vulkan_memory_allocate(program->device, bytes, true, &program->exchange, error);

    if (r < 0)
        return r;
    memset(program->exchange.mapped, 0, bytes);
    for (int i = 0; i < VULKAN_SLOTS; i++)
        loss_numbers(program->graph,
                     (float *)(void *)(program->exchange.mapped + slot_offset(program, i) +
                                       slot_layout(program).numbers));
    return 0;
}

VkDeviceAddress exchange_numbers(const struct backend_program *program)
{
    return program->exchange.address + slot_layout(program).numbers;
}

VkDeviceAddress exchange_scalars(const struct backend_program *program, int slot)
{
    return program->exchange.address + slot_offset(program, slot);
}

VkDeviceAddress exchange_results(const struct backend_program *program, int slot)
{
    return exchange_scalars(program, slot) + slot_layout(program).results;
}

static void fill_scalars(const struct backend_program *program, const struct step_scalars *step,
                         struct shader_scalars *scalars)
{
    bool scaled = step->loss_scale > 0;

    *scalars = (struct shader_scalars){
        .seed = {(uint32_t)step->seed, (uint32_t)(step->seed >> 32)},
        .batch = {(uint32_t)step->batch, (uint32_t)((uint64_t)step->batch >> 32)},
        .loss_factor = step->gradient_scale * (scaled ? step->loss_scale : 1.0f),
        .unscale = scaled ? (float)(1.0 / (double)step->loss_scale) : 1.0f,
        .clip_norm = step->clip_norm > 0 ? step->clip_norm : 0,
        .clip_value = step->clip_value > 0 ? step->clip_value : INFINITY,
        .average_share = step->average_share,
        .finite_alone = scaled};
    for (int i = 0; i < program->graph->group_count; i++)
        update_coefficients(&program->graph->groups[i], step, scalars->group[i]);
}

int exchange_fill(struct backend_program *program, int slot, const struct step_scalars *scalars,
                  bool inputs, struct error *error)
{
    const struct slot_layout layout = slot_layout(program);
    char *place = program->exchange.mapped + slot_offset(program, slot);

    fill_scalars(program, scalars, (struct shader_scalars *)place);
    memset(place + layout.results, 0, sizeof(struct shader_results));
    for (int i = 0; inputs && i < VULKAN_INPUTS; i++) {
        int32_t tensor = input_tensor(program->graph, i);

        if (tensor < 0 || !program->address[tensor])
            continue;
        if (!program->input[i])
            return error_set(error, -EINVAL, "a step was run before its input was set");
        memcpy(place + layout.input[i], program->input[i], input_bytes(program, i));
    }
    return 0;
}

static void copy_input(struct recorder *recorder, int input, size_t offset)
{
    const struct backend_program *program = recorder->program;
    const int32_t tensor = input_tensor(program->graph, input);
    const VkBufferCopy copy = {.srcOffset = offset,
                               .dstOffset =
                                   program->address[tensor] - program->buffer->memory.address,
                               .size = input_bytes(program, input)};

    program->device->library.CmdCopyBuffer(recorder->commands, program->exchange.buffer,
                                           program->buffer->memory.buffer, 1, &copy);
}

int exchange_record_inputs(struct recorder *recorder, int slot, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct slot_layout layout = slot_layout(program);
    int r = 0;

    for (int i = 0; r == 0 && i < VULKAN_INPUTS; i++) {
        const size_t offset = slot_offset(program, slot) + layout.input[i];
        int32_t tensor = input_tensor(program->graph, i);

        if (tensor < 0 || !program->address[tensor])
            continue;
        if (program_is_half(program, tensor))
            r = record_copy(recorder, program->exchange.address + offset,
                            program_address(program, tensor), program_elements(program, tensor),
                            error);
        else
            copy_input(recorder, i, offset);
    }
    queue_barrier(program->device, recorder->commands);
    return r;
}

int exchange_collect(struct backend_program *program, int slot, struct error *error)
{
    struct vulkan_pending *pending = &program->pending[slot];
    struct step_metrics *metrics = &program->metrics;
    struct shader_results results;
    int r;

    if (!pending->waits)
        return 0;
    r = queue_wait(program->device, pending->submission, error);
    if (r < 0)
        return r;
    pending->waits = false;
    memcpy(&results,
           program->exchange.mapped + slot_offset(program, slot) + slot_layout(program).results,
           sizeof results);
    program->update_skipped = results.skipped;
    if (!pending->has_loss)
        return 0;
    metrics->loss_sum += (double)results.loss;
    metrics->samples += program->graph->batch;
    metrics->labels += results.labels;
    metrics->correct += results.correct;
    metrics->last_loss = (double)results.loss / (double)(results.labels ? results.labels : 1);
    if (!isfinite(results.loss) && !metrics->nonfinite_step)
        metrics->nonfinite_step = pending->step;
    return 0;
}
