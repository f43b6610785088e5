/* run.c: uses a program: binds it to memory, writes and reads its tensors, runs its steps. */
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- bind ------------------------------------------------------------------------------------ */

static bool is_external(const struct backend_program *program, int32_t tensor)
{
    return program_tensor(program, tensor)->role == TENSOR_INPUT && !program->tensor_bytes[tensor];
}

static void run_input_conversion(struct backend_program *program, const struct step *step, int task,
                                 int thread)
{
    int32_t input = program->graph->input;
    struct range slice = program_slice(program, task);
    struct image_layout layout = program_image_layout(program, input, slice.end - slice.first);

    (void)step;
    (void)thread;
    program->device->kernels->plain_to_blocks(
        (const float *)program->samples + slice.first * program_sample_elements(program, input),
        program_sample(program, input, slice.first), &layout);
}

static int resolve_addresses(struct backend_program *program,
                             const struct memory_placement *placement,
                             struct backend_buffer *buffer, struct error *error)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        size_t offset = placement->tensor_offset[i], bytes = program->tensor_bytes[i];

        if (!bytes)
            continue;
        /* A tensor that no step writes or reads has no place. */
        if (offset == SIZE_MAX)
            continue;
        if (offset + bytes > buffer->bytes)
            return error_set(error, -EINVAL, "the memory plan does not fit into the buffer");
        program->address[i] = buffer->start + offset;
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (program->workspace[i])
            program->node_address[i] = buffer->start + placement->workspace_offset[i];
    if (program->scratch_bytes)
        program->scratch = buffer->start + placement->shared_workspace_offset;
    return 0;
}

int slices_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct operator_functions *functions = program->nodes[index].functions;
    bool tiled = program_is_tiled(program, node->input[0]) ||
                 (node->output_count && program_is_tiled(program, node->output[0]));
    struct step *step;

    if (program->nodes[index].absorbed)
        return 0;
    step = program_add_step(program, index, tiled ? functions->run_tiles : functions->run);
    if (!step)
        return error_no_memory(error, "the program");
    if (!tiled && functions->elementwise && program_slices_differ(program))
        step_divide(program, step);
    step_touch_inputs(program, step);
    for (int i = 0; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    return 0;
}

int cpu_program_bind(struct backend_program *program, const struct memory_placement *placement,
                     struct backend_buffer *buffer, struct error *error)
{
    const struct graph *graph = program->graph;
    int result = resolve_addresses(program, placement, buffer, error);

    if (!result && graph->input >= 0 && !is_external(program, graph->input) &&
        program->tensor_bytes[graph->input]) {
        struct step *step = program_add_step(program, 0, run_input_conversion);

        if (!step)
            return error_no_memory(error, "the program");
        step_touch_tensor(program, step, graph->input, ACCESS_SLICE, true);
    }
    for (int32_t i = 0; !result && i < graph->node_count; i++)
        result = program->nodes[i].functions->bind(program, i, error);
    if (!result && program_schedule(program))
        result = error_no_memory(error, "the program");
    return result;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Copies a parameter from oneDNN's layout to PyTorch's, or back. */
static int copy_parameter(struct backend_program *program, int32_t tensor, void *canonical,
                          bool write, struct error *error)
{
    struct onednn *onednn = program->device->onednn;
    const struct onednn_layout *own = program_parameter_layout(program, tensor);
    struct onednn_layout plain;
    struct onednn_reorder *reorder = NULL;
    struct onednn_call *call = NULL;
    void *place = program_address(program, tensor);
    int result;

    onednn_layout_plain_like(own, &plain);
    result =
        onednn_reorder_create(onednn, write ? &plain : own, write ? own : &plain, &reorder, error);
    if (!result)
        result = onednn_reorder_bind(onednn, reorder, write ? canonical : place,
                                     write ? place : canonical, &call, error);
    if (!result && onednn_call_run(call, 0))
        result = error_set(error, -EIO, "oneDNN could not copy %s",
                           program_tensor(program, tensor)->name);
    onednn_call_free(call);
    onednn_reorder_free(reorder);
    return result;
}

static int copy_tensor(struct backend_program *program, int32_t tensor, void *canonical, bool write,
                       struct error *error)
{
    const struct graph_tensor *t = program_tensor(program, tensor);
    struct image_layout layout = program_image_layout(program, tensor, program->graph->batch);
    void *place = program_address(program, tensor);
    const struct kernels *kernels = program->device->kernels;
    size_t bytes = (size_t)graph_shape_elements(&t->shape) * program_element_bytes(program, tensor);
    struct int8_packing packing;

    if (!place)
        return error_set(error, -EINVAL, "the tensor %s has no place on the device", t->name);
    if (program_parameter_layout(program, tensor))
        return copy_parameter(program, tensor, canonical, write, error);
    if (program_int8_packing(program, tensor, &packing)) {
        if (write)
            kernels->int8_pack(&packing, canonical, place);
        else
            kernels->int8_unpack(&packing, place, canonical);
        return 0;
    }
    if (program_is_tiled(program, tensor)) {
        tiles_copy(program, tensor, canonical, write);
        return 0;
    }
    if (t->batched && program_interleaves_channels(program, tensor) && t->type == TENSOR_FLOAT32) {
        if (write)
            kernels->plain_to_blocks(canonical, place, &layout);
        else
            kernels->blocks_to_plain(place, canonical, &layout);
    } else if (write) {
        memcpy(place, canonical, bytes);
    } else {
        memcpy(canonical, place, bytes);
    }
    return 0;
}

int cpu_tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                     struct error *error)
{
    if (program_tensor(program, tensor)->role == TENSOR_INPUT)
        return error_set(error, -EINVAL, "input is set by program_set_input, not tensor_write");
    program->device->writes++;
    return copy_tensor(program, tensor, (void *)canonical, true, error);
}

int cpu_tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                    struct error *error)
{
    return copy_tensor(program, tensor, canonical, false, error);
}

int cpu_program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                          struct error *error)
{
    if (program_tensor(program, tensor)->role != TENSOR_INPUT)
        return error_set(error, -EINVAL, "the tensor %s is no input",
                         program_tensor(program, tensor)->name);
    if ((uintptr_t)canonical % MEMORY_ALIGNMENT)
        return error_set(error, -EINVAL, "the input is not aligned to %d bytes", MEMORY_ALIGNMENT);
    if (is_external(program, tensor)) {
        program->address[tensor] = (char *)canonical;
        for (int i = 0; tensor == program->graph->input && i < program->source_call_count; i++)
            onednn_call_set_source(program->source_calls[i].call,
                                   (const char *)canonical + program->source_calls[i].offset);
    } else {
        program->samples = canonical;
    }
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

static void add_metrics(struct backend_program *program)
{
    struct step_metrics *metrics = &program->metrics;
    int64_t labels = 0;
    double loss = 0;

    for (int task = 0; task < program->tasks; task++) {
        loss += program->loss[task];
        labels += program->labels[task];
        metrics->correct += program->correct[task];
    }
    metrics->loss_sum += loss;
    metrics->samples += program->graph->batch;
    metrics->labels += labels;
    metrics->last_loss = loss / (double)(labels ? labels : 1);
    if (!isfinite(loss) && !metrics->nonfinite_step)
        metrics->nonfinite_step = program->scalars.step;
}

static int check_input(const struct backend_program *program, struct error *error)
{
    const struct graph *graph = program->graph;
    const int32_t inputs[] = {graph->input, graph->lengths, graph->target};

    for (int i = 0; i < 3; i++)
        if (inputs[i] >= 0 && is_external(program, inputs[i]) && !program->address[inputs[i]])
            return error_set(error, -EINVAL, "a step was run before its input was set");
    if (graph->input >= 0 && !is_external(program, graph->input) && !program->samples)
        return error_set(error, -EINVAL, "a step was run before its input was set");
    return 0;
}

/* Lets nodes make anew what they have made of parameters. */
static int refresh(struct backend_program *program, struct error *error)
{
    int result = 0;

    if (program->refreshed == program->device->writes)
        return 0;
    for (int32_t i = 0; i < program->graph->node_count && !result; i++)
        if (program->nodes[i].functions->refresh)
            result = program->nodes[i].functions->refresh(program, i, error);
    program->refreshed = program->device->writes;
    return result;
}

bool cpu_program_update_skipped(struct backend_program *program)
{
    return (program->phases & PROGRAM_UPDATE) && program_skips_update(program);
}

int cpu_program_run(struct backend_program *program, unsigned phases,
                    const struct step_scalars *scalars, struct error *error)
{
    int failure = check_input(program, error);

    if (!failure)
        failure = refresh(program, error);
    if (failure)
        return failure;
    program->phases = phases;
    program->scalars = *scalars;
    atomic_store_explicit(&program->failure, 0, memory_order_relaxed);
    program_execute(program);
    failure = atomic_load_explicit(&program->failure, memory_order_relaxed);
    if (failure)
        return error_set_errno(error, failure, "oneDNN failed in step %lld",
                               (long long)scalars->step);
    if (program->has_loss && (phases & PROGRAM_FORWARD))
        add_metrics(program);
    return 0;
}
