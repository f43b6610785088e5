/* operator_losses.c: losses of values, the focal loss and the ordinal loss, on slices of the batch;
 * the triplet loss, whose slices read the whole batch. The metrics count the loss of each sample,
 * or of each triplet. */
#include "engine/backends/cpu/program.h"

void value_loss_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->correct[task] = 0;
    program->labels[task] = slice.end - slice.first;
    program->loss[task] = program->device->kernels->value_loss_forward(
        &program->graph->value_loss, program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first), slice.end - slice.first,
        program_sample_elements(program, node->input[0]));
}

void value_loss_backward_run(struct backend_program *program, const struct step *step, int task,
                             int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->device->kernels->value_loss_backward(
        &program->graph->value_loss, program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first),
        program_sample(program, node->output[0], slice.first), slice.end - slice.first,
        program_sample_elements(program, node->input[0]),
        program_loss_factor(program) / (float)program->graph->batch);
}

void focal_loss_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->correct[task] = 0;
    program->labels[task] = slice.end - slice.first;
    program->loss[task] = program->device->kernels->focal_loss_forward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first), node->attributes.focal_gamma,
        program_sample(program, node->output[0], slice.first), slice.end - slice.first,
        program_sample_elements(program, node->input[0]), &program->correct[task]);
}

void focal_loss_backward_run(struct backend_program *program, const struct step *step, int task,
                             int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->device->kernels->focal_loss_backward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first), node->attributes.focal_gamma,
        program_sample(program, node->input[2], slice.first),
        program_sample(program, node->output[0], slice.first), slice.end - slice.first,
        program_sample_elements(program, node->input[0]),
        program_loss_factor(program) / (float)program->graph->batch);
}

void ordinal_loss_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->correct[task] = 0;
    program->labels[task] = slice.end - slice.first;
    program->loss[task] = program->device->kernels->ordinal_loss_forward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first),
        program_sample(program, node->output[0], slice.first), slice.end - slice.first,
        program_sample_elements(program, node->input[0]), &program->correct[task]);
}

void ordinal_loss_backward_run(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->device->kernels->ordinal_loss_backward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first),
        program_sample(program, node->input[2], slice.first),
        program_sample(program, node->output[0], slice.first), slice.end - slice.first,
        program_sample_elements(program, node->input[0]),
        program_loss_factor(program) / (float)program->graph->batch);
}

void triplet_loss_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->correct[task] = 0;
    program->labels[task] = 0;
    program->loss[task] = program->device->kernels->triplet_loss_forward(
        &node->attributes.triplet, program_sample(program, node->input[0], 0),
        program_sample(program, node->input[1], 0), program->graph->batch,
        program_sample_elements(program, node->input[0]), slice.first, slice.end,
        program_sample(program, node->output[0], slice.first), program_task_scratch(program, task),
        &program->labels[task]);
}

void triplet_loss_backward_run(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->device->kernels->triplet_loss_backward(
        program_sample(program, node->input[0], 0), program_sample(program, node->input[1], 0),
        program->graph->batch, program_sample_elements(program, node->input[0]), slice.first,
        slice.end, program_loss_factor(program),
        program_sample(program, node->output[0], slice.first));
}

int triplet_loss_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    (void)index, (void)error;
    program_reserve_scratch(program, (size_t)program->graph->batch * sizeof(float));
    return 0;
}

/* An anchor's triplets are of all samples of the batch, and so is a sample's gradient. */
int triplet_loss_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, program->nodes[index].functions->run);

    if (!step)
        return error_no_memory(error, "the program");
    for (int i = 0; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    return 0;
}
