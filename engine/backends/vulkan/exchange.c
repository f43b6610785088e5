/* exchange.c: what host and device exchange in each launch: scalars of its steps and a batch go
 * there, losses come back. Each launch has a turn, and each of its steps a slot, so that the host
 * fills those of one launch while the device still reads those of another. */
#include "base/alignment.h"
#include "engine/backends/vulkan/operators.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Where the parts begin: the loss' numbers, the slots of all turns, the batches of all turns. */
struct exchange_layout {
    size_t results, slot_bytes; /* in a slot: the scalars come first */
    size_t slots;
    size_t input[VULKAN_INPUTS], turn_bytes; /* in a turn's batch */
    size_t inputs, end;
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

static size_t scalars_bytes(const struct backend_program *program)
{
    return sizeof(struct shader_scalars) +
           (size_t)program->graph->group_count * sizeof(float[UPDATE_COEFFICIENTS]);
}

static struct exchange_layout exchange_layout(const struct backend_program *program)
{
    struct exchange_layout layout = {.results = align_up(scalars_bytes(program), 16)};

    layout.slot_bytes = align_up(layout.results + sizeof(struct shader_results), MEMORY_ALIGNMENT);
    layout.slots =
        align_up((size_t)loss_numbers(program->graph, NULL) * sizeof(float), MEMORY_ALIGNMENT);
    layout.inputs = layout.slots + VULKAN_SLOTS * layout.slot_bytes;
    for (int i = 0; i < VULKAN_INPUTS; i++) {
        layout.input[i] = layout.turn_bytes;
        layout.turn_bytes += align_up(input_bytes(program, i), MEMORY_ALIGNMENT);
    }
    layout.end = layout.inputs + VULKAN_TURNS * layout.turn_bytes;
    return layout;
}

static size_t slot_offset(const struct backend_program *program, int slot)
{
    const struct exchange_layout layout = exchange_layout(program);

    return layout.slots + (size_t)slot * layout.slot_bytes;
}

static size_t batch_offset(const struct backend_program *program, int turn)
{
    const struct exchange_layout layout = exchange_layout(program);

    return layout.inputs + (size_t)turn * layout.turn_bytes;
}

size_t exchange_scalars_bytes(const struct backend_program *program)
{
    return scalars_bytes(program);
}

int exchange_create(struct backend_program *program, struct error *error)
{
    size_t bytes = exchange_layout(program).end;
    int r = vulkan_memory_allocate(program->device, bytes, true, &program->exchange, error);

    if (r < 0)
        return r;
    memset(program->exchange.mapped, 0, bytes);
    loss_numbers(program->graph, (float *)(void *)program->exchange.mapped);
    return 0;
}

VkDeviceAddress exchange_numbers(const struct backend_program *program)
{
    return program->exchange.address;
}

VkDeviceAddress exchange_results(const struct backend_program *program, int slot)
{
    return program->exchange.address + slot_offset(program, slot) +
           exchange_layout(program).results;
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

void exchange_fill_step(struct backend_program *program, int slot, const struct backend_step *step,
                        const struct backend_data *data)
{
    char *place = program->exchange.mapped + slot_offset(program, slot);
    struct shader_scalars *scalars = (struct shader_scalars *)place;

    fill_scalars(program, &step->scalars, scalars);
    if (data)
        data_scalars(data, &step->batch, scalars);
    memset(place + exchange_layout(program).results, 0, sizeof(struct shader_results));
}

int exchange_fill_batch(struct backend_program *program, int turn, struct error *error)
{
    const struct exchange_layout layout = exchange_layout(program);
    char *place = program->exchange.mapped + batch_offset(program, turn);

    for (int i = 0; i < VULKAN_INPUTS; i++) {
        int32_t tensor = input_tensor(program->graph, i);

        if (tensor < 0 || !program->address[tensor])
            continue;
        if (!program->input[i])
            return error_set(error, -EINVAL, "a step was run before its input was set");
        memcpy(place + layout.input[i], program->input[i], input_bytes(program, i));
    }
    return 0;
}

void exchange_record_scalars(struct recorder *recorder, int slot)
{
    const struct backend_program *program = recorder->program;
    const VkBufferCopy copy = {.srcOffset = slot_offset(program, slot),
                               .dstOffset = recorder->scalars - program->control.address,
                               .size = scalars_bytes(program)};

    program->device->library.CmdCopyBuffer(recorder->commands, program->exchange.buffer,
                                           program->control.buffer, 1, &copy);
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

int exchange_record_batch(struct recorder *recorder, int turn, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct exchange_layout layout = exchange_layout(program);
    int r = 0;

    for (int i = 0; r == 0 && i < VULKAN_INPUTS; i++) {
        const size_t offset = batch_offset(program, turn) + layout.input[i];
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
    return r;
}

/* Adds what a step has left to the metrics. */
static void collect_step(struct backend_program *program, int slot, bool has_loss, int64_t step)
{
    struct step_metrics *metrics = &program->metrics;
    struct shader_results results;

    memcpy(&results,
           program->exchange.mapped + slot_offset(program, slot) + exchange_layout(program).results,
           sizeof results);
    program->update_skipped = results.skipped;
    if (!has_loss)
        return;
    metrics->loss_sum += (double)results.loss;
    metrics->samples += program->graph->batch;
    metrics->labels += results.labels;
    metrics->correct += results.correct;
    metrics->last_loss = (double)results.loss / (double)(results.labels ? results.labels : 1);
    if (!isfinite(results.loss) && !metrics->nonfinite_step)
        metrics->nonfinite_step = step;
}

int exchange_collect(struct backend_program *program, int turn, struct error *error)
{
    struct vulkan_pending *pending = &program->pending[turn];
    int r;

    if (pending->count == 0)
        return 0;
    r = queue_wait(program->device, pending->submission, error);
    if (r < 0)
        return r;
    for (int k = 0; k < pending->count; k++)
        collect_step(program, turn * BACKEND_STEPS_MAX + k, pending->has_loss, pending->step[k]);
    pending->count = 0;
    return 0;
}
