/* operator_batch_norm.c: batch normalisation. Tasks compute the moments of their slices, task 0
 * combines them, and then all tasks apply the result to their slices. A sum and an activation
 * behind it are applied in the same pass, and their gradients are computed in its passes
 * (fusion.c). */
#include "engine/backends/cpu/program.h"

#include <math.h>

/* The node's workspace has rows of `channels` floats. The first three rows hold what is applied.
 * Then come the rows of each task. Forward: mean and m2. Backward: the sums of dy and of dy (x -
 * mean), and the factor and offset that compute the activation's input from x. */
enum { APPLIED_ROWS = 3, TASK_ROWS = 4 };

static int64_t channel_count(const struct backend_program *program, const struct graph_node *node)
{
    return program_tensor(program, node->input[0])->shape.extent[1];
}

static float *workspace_row(const struct backend_program *program, const struct step *step,
                            int64_t row)
{
    return (float *)(void *)step->workspace + row * channel_count(program, step->node);
}

static float *task_row(const struct backend_program *program, const struct step *step, int task,
                       int row)
{
    return workspace_row(program, step, APPLIED_ROWS + task * TASK_ROWS + row);
}

int batch_norm_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    int64_t channels = channel_count(program, &program->graph->nodes[index]);

    (void)error;
    program->workspace[index] =
        (size_t)((APPLIED_ROWS + TASK_ROWS * program->tasks) * channels) * sizeof(float);
    return 0;
}

static const struct node_plan *plan_of(const struct backend_program *program,
                                       const struct step *step)
{
    return &program->nodes[step->node - program->graph->nodes];
}

static struct image_layout slice_layout(const struct backend_program *program, int32_t tensor,
                                        int task)
{
    struct range slice = program_slice(program, task);

    return program_image_layout(program, tensor, slice.end - slice.first);
}

static void run_moments(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    int32_t x = step->node->input[0];
    struct image_layout layout = slice_layout(program, x, task);

    (void)thread;
    if (program_is_tiled(program, x)) {
        struct tile_images images = program_tile_images(program, x, layout.samples);

        program->device->kernels->tile_moments(
            program_sample(program, x, program_slice(program, task).first), &images,
            task_row(program, step, task, 0), task_row(program, step, task, 1));
        return;
    }
    program->device->kernels->batch_norm_moments(
        program_sample(program, x, program_slice(program, task).first), &layout,
        task_row(program, step, task, 0), task_row(program, step, task, 1));
}

/* Combines mean and sum of squared deviations of channel c over all tasks (Chan, Golub and LeVeque
 * 1979, "Updating formulae and a pairwise algorithm for computing sample variances"). Returns the
 * number of values. */
static double combine_moments(const struct backend_program *program, const struct step *step,
                              int64_t c, double *mean, double *m2)
{
    double count = 0;

    *mean = *m2 = 0;
    for (int task = 0; task < program->tasks; task++) {
        struct image_layout layout = slice_layout(program, step->node->input[0], task);
        double n = (double)(layout.samples * layout.pixels);
        double distance = (double)task_row(program, step, task, 0)[c] - *mean;

        *m2 += (double)task_row(program, step, task, 1)[c] +
               distance * distance * count * n / (count + n);
        *mean += distance * n / (count + n);
        count += n;
    }
    return count;
}

/* Computes the factor and offset that turn x into the result. It uses the moments as they are
 * stored, so that OP_BATCH_NORM_APPLY and the backward part get the same numbers. */
static void set_applied(double weight, double bias, float mean, float inverse_std, float *factor,
                        float *offset)
{
    *factor = (float)(weight * inverse_std);
    *offset = (float)(bias - mean * (weight * inverse_std));
}

/* Sets what the slices apply to channel c: the factor in row 0, the offset in row 1. */
static void set_applied_rows(const struct backend_program *program, const struct step *step,
                             int64_t c, float mean, float inverse_std)
{
    const float *weight = program_address(program, step->node->input[1]);
    const float *bias = program_address(program, step->node->input[2]);

    set_applied(weight[c], bias[c], mean, inverse_std, &workspace_row(program, step, 0)[c],
                &workspace_row(program, step, 1)[c]);
}

/* In task 0: takes the moments of the batch, or the running ones, and sets what the slices
 * apply. */
static void run_statistics(struct backend_program *program, const struct step *step, int task,
                           int thread)
{
    const struct graph_node *node = step->node;
    float *running_mean = program_address(program, node->input[3]);
    float *running_variance = program_address(program, node->input[4]);
    double momentum = node->attributes.batch_norm.momentum;
    double epsilon = node->attributes.batch_norm.epsilon;

    (void)task;
    (void)thread;
    for (int64_t c = 0; c < channel_count(program, node); c++) {
        double mean = running_mean[c], variance = running_variance[c], inverse;

        if (node->attributes.batch_norm.training) {
            double m2, count = combine_moments(program, step, c, &mean, &m2);

            variance = m2 / count;
            running_mean[c] = (float)((1 - momentum) * running_mean[c] + momentum * mean);
            running_variance[c] =
                (float)((1 - momentum) * running_variance[c] + momentum * m2 / (count - 1));
        }
        inverse = 1 / sqrt(variance + epsilon);
        if (node->attributes.batch_norm.training) {
            ((float *)program_address(program, node->output[1]))[c] = (float)mean;
            ((float *)program_address(program, node->output[2]))[c] = (float)inverse;
        }
        set_applied_rows(program, step, c, (float)mean, (float)inverse);
    }
}

/* In task 0: sets what the slices apply from stored moments. */
static void run_known_statistics(struct backend_program *program, const struct step *step, int task,
                                 int thread)
{
    const struct graph_node *node = step->node;
    const float *mean = program_address(program, node->input[3]);
    const float *inverse_std = program_address(program, node->input[4]);

    (void)task;
    (void)thread;
    for (int64_t c = 0; c < channel_count(program, node); c++)
        set_applied_rows(program, step, c, mean[c], inverse_std[c]);
}

static void run_apply(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    int64_t first = program_slice(program, task).first;
    struct image_layout layout = slice_layout(program, node->input[0], task);
    const struct node_plan *plan = plan_of(program, step);

    (void)thread;
    if (program_is_tiled(program, node->input[0])) {
        struct tile_images images = program_tile_images(program, node->input[0], layout.samples);

        program->device->kernels->tile_normalize(
            program_sample(program, node->input[0], first), &images,
            workspace_row(program, step, 0), workspace_row(program, step, 1),
            plan->addend >= 0 ? program_sample(program, plan->addend, first) : NULL,
            plan->fused == ACTIVATION_RELU, program_sample(program, node->output[0], first));
        return;
    }
    program->device->kernels->batch_norm_apply(
        program_sample(program, node->input[0], first), &layout, workspace_row(program, step, 0),
        workspace_row(program, step, 1),
        plan->addend >= 0 ? program_sample(program, plan->addend, first) : NULL, plan->fused,
        program_sample(program, node->output[0], first));
}

/* Declares what the three steps of a node read and write: the tasks' rows, and the applied rows. */
static void touch_task_rows(struct backend_program *program, struct step *step,
                            enum access_pattern pattern, bool write)
{
    size_t bytes = (size_t)channel_count(program, step->node) * sizeof(float);

    step_touch(step, task_row(program, step, 0, 0), TASK_ROWS * bytes, program->tasks, pattern,
               write);
}

static void touch_applied_rows(struct backend_program *program, struct step *step,
                               enum access_pattern pattern, bool write)
{
    size_t bytes = (size_t)channel_count(program, step->node) * sizeof(float);

    step_touch(step, step->workspace, bytes, APPLIED_ROWS, pattern, write);
}

/* Adds the step in which the slices apply the factor and offset. */
static struct step *add_apply_step(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_apply);

    if (!step)
        return NULL;
    touch_applied_rows(program, step, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->input[0], ACCESS_SLICE, false);
    step_touch_tensor(program, step, program->nodes[index].addend, ACCESS_SLICE, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    return step;
}

/* Adds the step `run`, in which the first task finds factor and offset, and the one that applies
 * them. */
static int bind_applied(struct backend_program *program, int32_t index, step_function *run,
                        struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run);

    if (!step)
        return error_no_memory(error, "the program");
    step->first_task_only = true;
    touch_applied_rows(program, step, ACCESS_FIRST, true);
    for (int i = 1; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_FIRST, false);
    return add_apply_step(program, index) ? 0 : error_no_memory(error, "the program");
}

int batch_norm_apply_bind(struct backend_program *program, int32_t index, struct error *error)
{
    return bind_applied(program, index, run_known_statistics, error);
}

/* In task 0: sets what turns dy into dx. */
static void run_frozen_statistics(struct backend_program *program, const struct step *step,
                                  int task, int thread)
{
    const struct graph_node *node = step->node;
    const float *weight = program_address(program, node->input[1]);
    const float *variance = program_address(program, node->input[2]);
    double epsilon = node->attributes.batch_norm.epsilon;

    (void)task;
    (void)thread;
    for (int64_t c = 0; c < channel_count(program, node); c++) {
        float inverse = (float)(1 / sqrt(variance[c] + epsilon));

        set_applied(weight[c], 0, 0, inverse, &workspace_row(program, step, 0)[c],
                    &workspace_row(program, step, 1)[c]);
    }
}

/* The gradient through a frozen batch norm is what that does to x, without its offset. */
int batch_norm_frozen_backward_bind(struct backend_program *program, int32_t index,
                                    struct error *error)
{
    return bind_applied(program, index, run_frozen_statistics, error);
}

int batch_norm_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step;

    if (node->attributes.batch_norm.training) {
        step = program_add_step(program, index, run_moments);
        if (!step)
            return error_no_memory(error, "the program");
        step_touch_tensor(program, step, node->input[0], ACCESS_SLICE, false);
        touch_task_rows(program, step, ACCESS_TASK, true);
    }
    step = program_add_step(program, index, run_statistics);
    if (!step)
        return error_no_memory(error, "the program");
    step->first_task_only = true;
    touch_task_rows(program, step, ACCESS_FIRST, false);
    touch_applied_rows(program, step, ACCESS_FIRST, true);
    for (int i = 1; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_FIRST, i >= 3);
    for (int i = 1; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_FIRST, true);
    return add_apply_step(program, index) ? 0 : error_no_memory(error, "the program");
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The task's slice of the gradient with respect to the result of the normalisation. */
static struct batch_norm_gradient gradient_of(const struct backend_program *program,
                                              const struct step *step, int task)
{
    const struct node_plan *plan = plan_of(program, step);
    int64_t first = program_slice(program, task).first;
    bool fused = plan->fused >= 0;
    struct batch_norm_gradient gradient = {
        .dy = program_sample(program, fused ? plan->incoming[0] : step->node->input[1], first),
        .activation = plan->fused};

    if (plan->incoming[1] >= 0)
        gradient.other = program_sample(program, plan->incoming[1], first);
    if (plan->saved >= 0) {
        gradient.result = program_sample(program, plan->saved, first);
        gradient.masked = program_sample(program, step->node->input[1], first);
    }
    if (plan->bias >= 0) {
        gradient.factor = task_row(program, step, task, 2);
        gradient.offset = task_row(program, step, task, 3);
    }
    return gradient;
}

/* The same for images in tiles, where only a ReLU is fused. */
static struct tile_norm_gradient tile_gradient_of(const struct batch_norm_gradient *gradient)
{
    return (struct tile_norm_gradient){.dy = (const void *)gradient->dy,
                                       .other = (const void *)gradient->other,
                                       .result = (const void *)gradient->result,
                                       .masked = (void *)gradient->masked,
                                       .factor = gradient->factor,
                                       .offset = gradient->offset};
}

/* Sets the factor and offset by which the forward part computed the activation's input from x. */
static void set_forward_rows(const struct backend_program *program, const struct step *step,
                             int task)
{
    const struct graph_node *node = step->node;
    const float *weight = program_address(program, node->input[2]);
    const float *bias = program_address(program, plan_of(program, step)->bias);
    const float *mean = program_address(program, node->input[3]);
    const float *inverse_std = program_address(program, node->input[4]);

    for (int64_t c = 0; c < channel_count(program, node); c++)
        set_applied(weight[c], bias[c], mean[c], inverse_std[c],
                    &task_row(program, step, task, 2)[c], &task_row(program, step, task, 3)[c]);
}

static void run_backward_sums(struct backend_program *program, const struct step *step, int task,
                              int thread)
{
    const struct graph_node *node = step->node;
    int64_t first = program_slice(program, task).first;
    struct image_layout layout = slice_layout(program, node->input[0], task);
    struct batch_norm_gradient gradient = gradient_of(program, step, task);

    (void)thread;
    if (gradient.factor)
        set_forward_rows(program, step, task);
    if (program_is_tiled(program, node->input[0])) {
        struct tile_images images = program_tile_images(program, node->input[0], layout.samples);
        struct tile_norm_gradient g = tile_gradient_of(&gradient);

        program->device->kernels->tile_norm_sums(program_sample(program, node->input[0], first), &g,
                                                 &images, program_address(program, node->input[3]),
                                                 task_row(program, step, task, 0),
                                                 task_row(program, step, task, 1));
        return;
    }
    program->device->kernels->batch_norm_backward_sums(
        program_sample(program, node->input[0], first), &gradient, &layout,
        program_address(program, node->input[3]), task_row(program, step, task, 0),
        task_row(program, step, task, 1));
}

/* In task 0: computes the gradients of weight and bias, and sets what the slices apply. With s the
 * inverse standard deviation, N the number of values in a channel, g = sum of dy and h = sum of dy
 * (x - mean):
 * dx = w s (dy - g / N - (x - mean) s² h / N) */
static void run_backward_statistics(struct backend_program *program, const struct step *step,
                                    int task, int thread)
{
    const struct graph_node *node = step->node;
    struct image_layout all = program_image_layout(program, node->input[0], program->graph->batch);
    double count = (double)(all.samples * all.pixels);
    const float *weight = program_address(program, node->input[2]);
    const float *inverse = program_address(program, node->input[4]);
    float *dweight = program_address(program, node->output[1]);
    float *dbias = program_address(program, node->output[2]);

    (void)task;
    (void)thread;
    for (int64_t c = 0; c < all.channels; c++) {
        double g = 0, h = 0, s = inverse[c];

        for (int t = 0; t < program->tasks; t++) {
            g += task_row(program, step, t, 0)[c];
            h += task_row(program, step, t, 1)[c];
        }
        dbias[c] = (float)g + (program_accumulates(program, node, 2) ? dbias[c] : 0.0f);
        dweight[c] = (float)(h * s) + (program_accumulates(program, node, 1) ? dweight[c] : 0.0f);
        workspace_row(program, step, 0)[c] = (float)(weight[c] * s);
        workspace_row(program, step, 1)[c] = (float)(-weight[c] * s * s * s * h / count);
        workspace_row(program, step, 2)[c] = (float)(-weight[c] * s * g / count);
    }
}

static void run_backward_apply(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    int64_t first = program_slice(program, task).first;
    struct image_layout layout = slice_layout(program, node->input[0], task);
    struct batch_norm_gradient gradient = gradient_of(program, step, task);

    (void)thread;
    if (program_is_tiled(program, node->input[0])) {
        struct tile_images images = program_tile_images(program, node->input[0], layout.samples);
        struct tile_norm_gradient g = tile_gradient_of(&gradient);

        program->device->kernels->tile_norm_gradient(
            program_sample(program, node->input[0], first), &g, &images,
            program_address(program, node->input[3]), workspace_row(program, step, 0),
            workspace_row(program, step, 1), workspace_row(program, step, 2),
            program_sample(program, node->output[0], first));
        return;
    }
    program->device->kernels->batch_norm_backward_apply(
        program_sample(program, node->input[0], first), &gradient, &layout,
        program_address(program, node->input[3]), workspace_row(program, step, 0),
        workspace_row(program, step, 1), workspace_row(program, step, 2),
        program_sample(program, node->output[0], first));
}

/* Declares that both passes read x and the gradient. The first pass stores the gradient unless it
 * is `incoming`. */
static void touch_gradient(struct backend_program *program, struct step *step, bool sums)
{
    const struct graph_node *node = step->node;
    const struct node_plan *plan = plan_of(program, step);

    step_touch_tensor(program, step, node->input[0], ACCESS_SLICE, false);
    step_touch_tensor(program, step, node->input[1], ACCESS_SLICE, sums && plan->saved >= 0);
    step_touch_tensor(program, step, node->input[3], ACCESS_WHOLE, false);
    if (plan->saved < 0 || sums)
        for (int i = 0; i < 2; i++)
            step_touch_tensor(program, step, plan->incoming[i], ACCESS_SLICE, false);
    if (sums) {
        step_touch_tensor(program, step, plan->saved, ACCESS_SLICE, false);
        step_touch_tensor(program, step, node->input[2], ACCESS_WHOLE, false);
        step_touch_tensor(program, step, plan->bias, ACCESS_WHOLE, false);
        step_touch_tensor(program, step, node->input[4], ACCESS_WHOLE, false);
    }
    touch_task_rows(program, step, ACCESS_TASK, sums);
}

int batch_norm_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_backward_sums);

    if (!step)
        return error_no_memory(error, "the program");
    touch_gradient(program, step, true);
    step = program_add_step(program, index, run_backward_statistics);
    if (!step)
        return error_no_memory(error, "the program");
    step->first_task_only = true;
    touch_task_rows(program, step, ACCESS_FIRST, false);
    touch_applied_rows(program, step, ACCESS_FIRST, true);
    step_touch_tensor(program, step, node->input[2], ACCESS_FIRST, false);
    step_touch_tensor(program, step, node->input[4], ACCESS_FIRST, false);
    step_touch_tensor(program, step, node->output[1], ACCESS_FIRST, true);
    step_touch_tensor(program, step, node->output[2], ACCESS_FIRST, true);
    step = program_add_step(program, index, run_backward_apply);
    if (!step)
        return error_no_memory(error, "the program");
    touch_applied_rows(program, step, ACCESS_WHOLE, false);
    touch_gradient(program, step, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    return 0;
}
