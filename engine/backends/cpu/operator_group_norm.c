/* operator_group_norm.c: group norm, which each task computes for its samples, and numbers that are
 * added to channels. The gradients of parameters are sums over the samples, of which each task
 * makes a part of the channels. */
#include "engine/backends/cpu/program.h"

/* Inputs: dy, x, weight, mean, inverse_std; outputs: dx, dweight, dbias. */
enum { DY, X, WEIGHT, MEAN, INVERSE_STD };

static struct group_norm describe(const struct backend_program *program,
                                  const struct graph_node *node, int32_t weight, int32_t bias)
{
    return (struct group_norm){.groups = node->attributes.group_norm.groups,
                               .epsilon = node->attributes.group_norm.epsilon,
                               .weight = program_address(program, weight),
                               .bias = bias < 0 ? NULL : program_address(program, bias)};
}

int group_norm_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t channels = program_image_layout(program, node->output[0], 1).channels;

    (void)error;
    program_reserve_scratch(program, (size_t)channels * 4 * sizeof(float));
    if (node->op == OP_GROUP_NORM_BACKWARD) /* the sums of each sample for weight and bias */
        program->workspace[index] = (size_t)(program->graph->batch * 2 * channels) * sizeof(float);
    return 0;
}

void group_norm_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct group_norm norm = describe(program, node, node->input[1], node->input[2]);
    struct image_layout layout = program_image_layout(program, node->output[0], 1);
    struct range slice = program_slice(program, task);
    bool saves = node->output_count > 1;

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->group_norm_forward(
            &norm, program_sample(program, node->input[0], n), &layout,
            program_sample(program, node->output[0], n),
            saves ? program_sample(program, node->output[1], n) : NULL,
            saves ? program_sample(program, node->output[2], n) : NULL,
            program_task_scratch(program, task));
}

static float *sample_sums(const struct step *step, int64_t channels, int64_t sample)
{
    return (float *)(void *)step->workspace + sample * 2 * channels;
}

static void run_backward(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct graph_node *node = step->node;
    const struct group_norm norm = describe(program, node, node->input[WEIGHT], -1);
    struct image_layout layout = program_image_layout(program, node->output[0], 1);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++) {
        float *sums = sample_sums(step, layout.channels, n);

        program->device->kernels->group_norm_backward(
            &norm, program_sample(program, node->input[DY], n),
            program_sample(program, node->input[X], n), &layout,
            program_sample(program, node->input[MEAN], n),
            program_sample(program, node->input[INVERSE_STD], n),
            program_sample(program, node->output[0], n), sums, sums + layout.channels,
            program_task_scratch(program, task));
    }
}

/* Adds up the sums of all samples for the task's part of the channels. */
static void run_sums(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    int64_t channels = program_image_layout(program, node->output[0], 1).channels;
    struct range part = program_part(program, channels, task);

    (void)thread;
    for (int output = 1; part.first < part.end && output < 3; output++) {
        float *sum = (float *)program_address(program, node->output[output]);
        bool adds = program_accumulates(program, node, output);

        for (int64_t c = part.first; c < part.end && !adds; c++)
            sum[c] = 0.0f;
        for (int64_t n = 0; n < program->graph->batch; n++)
            program->device->kernels->add(sum + part.first,
                                          sample_sums(step, channels, n) + (output - 1) * channels +
                                              part.first,
                                          sum + part.first, part.end - part.first);
    }
}

int group_norm_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    size_t row =
        (size_t)program_image_layout(program, node->output[0], 1).channels * 2 * sizeof(float);
    struct step *step = program_add_step(program, index, run_backward);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_inputs(program, step);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    step_touch(step, step->workspace, row, program->graph->batch, ACCESS_SLICE, true);
    step = program_add_step(program, index, run_sums);
    if (!step)
        return error_no_memory(error, "the program");
    step_touch(step, step->workspace, row, program->graph->batch, ACCESS_WHOLE, false);
    for (int i = 1; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_WHOLE, true);
    return 0;
}

/* ---- numbers that are added to channels ---- */

void channel_bias_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    struct image_layout layout =
        program_image_layout(program, node->output[0], slice.end - slice.first);

    (void)thread;
    program->device->kernels->channel_bias_forward(
        program_sample(program, node->input[0], slice.first),
        program_address(program, node->input[1]), &layout,
        program_sample(program, node->output[0], slice.first));
}

static void run_bias_backward(struct backend_program *program, const struct step *step, int task,
                              int thread)
{
    const struct graph_node *node = step->node;
    struct image_layout layout =
        program_image_layout(program, node->input[0], program->graph->batch);
    struct range part = program_part(program, layout.channels, task);

    (void)thread;
    program->device->kernels->channel_bias_backward(
        program_sample(program, node->input[0], 0), &layout, part.first, part.end,
        program_accumulates(program, node, 0), program_address(program, node->output[0]));
}

/* Tasks take channels, and read them in all samples. */
int channel_bias_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_bias_backward);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_tensor(program, step, node->input[0], ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_WHOLE, true);
    return 0;
}
