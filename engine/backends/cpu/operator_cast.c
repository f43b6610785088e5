/* operator_cast.c: rounds the operands of products to the graph's compute type. In memory the
 * rounded numbers are bfloat16 if all products that read them can take that, else float32. A
 * parameter whose layout oneDNN chose is copied to the layout that the products of the rounded
 * parameter prefer; that copy rounds to bfloat16, too. */
#include "engine/backends/cpu/program.h"

#include <stdlib.h>
#include <string.h>

struct cast_state {
    struct onednn_reorder *reorder;
    struct onednn_call *reorder_call;
};

static void run_cast(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    int32_t x = node->input[0], y = node->output[0];
    const struct cast_state *state = step->state;
    const struct graph_tensor *result = program_tensor(program, y);
    const float *from = program_address(program, state ? y : x);
    char *to = program_address(program, y);
    struct range part;
    int64_t width;

    (void)thread;
    if (result->batched) {
        part = program_slice(program, task);
        width = program_sample_elements(program, y);
    } else {
        int64_t rows;

        program_parameter_rows(program, y, &rows, &width);
        part = program_part(program, rows, task);
    }
    if (part.first >= part.end)
        return;
    from += part.first * width;
    to += (size_t)(part.first * width) * program_element_bytes(program, y);
    if (result->type == TENSOR_FLOAT32) {
        if ((const char *)from != to)
            memcpy(to, from, (size_t)((part.end - part.first) * width) * sizeof *from);
    } else if (program->compact[y])
        program->device->kernels->convert_bfloat16(from, (uint16_t *)(void *)to,
                                                   (part.end - part.first) * width);
    else
        program->device->kernels->round_values(result->type, from, (float *)(void *)to,
                                               (part.end - part.first) * width);
}

static void run_reorder(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct cast_state *state = step->state;

    (void)task;
    program_record(program, onednn_call_run(state->reorder_call, thread));
}

/* Makes a copy if the two layouts differ, or if oneDNN chose only one of them. */
int cast_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct onednn_layout *from = program_parameter_layout(program, node->input[0]);
    const struct onednn_layout *to = program_parameter_layout(program, node->output[0]);
    struct onednn_layout plain;
    struct cast_state *state;

    if (tiles_absorb_cast(program, node)) {
        program_make_view(program, index);
        return 0;
    }
    if (!from && !to)
        return 0;
    if (!from || !to) {
        onednn_layout_plain_like(from ? from : to, &plain);
        from = from ? from : &plain;
        to = to ? to : &plain;
    }
    if (onednn_layout_equal(from, to))
        return 0;
    state = calloc(1, sizeof(*state));
    if (!state)
        return error_no_memory(error, "a cast");
    program->nodes[index].state = state;
    return onednn_reorder_create(program->device->onednn, from, to, &state->reorder, error);
}

void cast_release(void *argument)
{
    struct cast_state *state = argument;

    onednn_call_free(state->reorder_call);
    onednn_reorder_free(state->reorder);
    free(state);
}

static int bind_reorder(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cast_state *state = program->nodes[index].state;
    struct step *step = program_add_step(program, index, run_reorder);

    if (!step)
        return error_no_memory(error, "the program");
    step->first_task_only = true;
    step_touch_tensor(program, step, node->input[0], ACCESS_FIRST, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_FIRST, true);
    return onednn_reorder_bind(
        program->device->onednn, state->reorder, program_address(program, node->input[0]),
        program_address(program, node->output[0]), &state->reorder_call, error);
}

int cast_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool batched = program_tensor(program, node->output[0])->batched;
    bool reordered = program->nodes[index].state != NULL;
    int result;
    struct step *step;

    if (program->nodes[index].absorbed)
        return 0;
    if (program_is_unfolded(program, node->output[0]))
        return tiles_unfold_bind(program, index, error);
    result = reordered ? bind_reorder(program, index, error) : 0;
    if (!result && reordered && program->compact[node->output[0]])
        return 0;
    step = result ? NULL : program_add_step(program, index, run_cast);
    if (!step)
        return result ? result : error_no_memory(error, "the program");
    if (!reordered)
        step_touch_tensor(program, step, node->input[0], batched ? ACCESS_SLICE : ACCESS_PART,
                          false);
    step_touch_tensor(program, step, node->output[0], batched ? ACCESS_SLICE : ACCESS_PART, true);
    return 0;
}
