/* operator_losses.c: the losses and their gradients, on slices of the batch; those of the triplet
 * loss read the whole batch. A task notes the loss of its samples, how many labels they have, and
 * how many of these the prediction has right. */
#include "engine/backends/cpu/program.h"

/* The factor of the gradient of the batch's mean loss. */
static float loss_factor(const struct backend_program *program)
{
    const struct step_scalars *scalars = &program->scalars;

    return scalars->gradient_scale * (scalars->loss_scale > 0 ? scalars->loss_scale : 1.0f);
}

/* The factor of the gradient of a sample's loss. */
static float sample_factor(const struct backend_program *program)
{
    return loss_factor(program) / (float)program->graph->batch;
}

/* What a task's slice of the batch has of the loss's first two inputs. */
struct loss_slice {
    int64_t first, count; /* samples */
    const float *prediction;
    const void *target; /* floats or int32 */
    int64_t width;      /* numbers of a prediction */
};

static struct loss_slice slice_of(const struct backend_program *program,
                                  const struct graph_node *node, int task)
{
    struct range slice = program_slice(program, task);

    return (struct loss_slice){.first = slice.first,
                               .count = slice.end - slice.first,
                               .prediction = program_sample(program, node->input[0], slice.first),
                               .target = program_sample(program, node->input[1], slice.first),
                               .width = program_sample_elements(program, node->input[0])};
}

/* The same, for the loss itself: each sample has a label, and none is right so far. */
static struct loss_slice slice_begin(struct backend_program *program, const struct graph_node *node,
                                     int task)
{
    struct loss_slice slice = slice_of(program, node, task);

    program->correct[task] = 0;
    program->labels[task] = slice.count;
    return slice;
}

/* ---- cross entropy ---- */

static bool has_soft_targets(const struct backend_program *program, const struct graph_node *node)
{
    return program_tensor(program, node->input[1])->type == TENSOR_FLOAT32;
}

/* Whether each step of a sequence has a label, which may be -1: it does not count. */
static bool has_token_labels(const struct backend_program *program, const struct graph_node *node)
{
    return program_tensor(program, node->input[0])->shape.rank == 3;
}

static int64_t class_count(const struct backend_program *program, const struct graph_node *node)
{
    const struct graph_shape *shape = &program_tensor(program, node->input[0])->shape;

    return shape->extent[shape->rank - 1];
}

void cross_entropy_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct graph_node *node = step->node;
    const struct kernels *kernels = program->device->kernels;
    struct loss_slice slice = slice_begin(program, node, task);
    int64_t classes = class_count(program, node), rows = slice.count * (slice.width / classes);
    float *log_sum_exp = program_sample(program, node->output[0], slice.first);
    int64_t *correct = &program->correct[task];

    (void)thread;
    program->labels[task] = rows;
    program->loss[task] =
        has_soft_targets(program, node)
            ? kernels->soft_cross_entropy_forward(slice.prediction, slice.target, log_sum_exp, rows,
                                                  classes, correct)
            : kernels->cross_entropy_forward(
                  slice.prediction, slice.target, log_sum_exp, rows, classes, correct,
                  has_token_labels(program, node) ? &program->labels[task] : NULL);
}

/* The labels of the batch that count. */
static int64_t counted_labels(const struct backend_program *program, const struct graph_node *node)
{
    int64_t labels = 0;

    if (!has_token_labels(program, node))
        return program->graph->batch;
    for (int task = 0; task < program->tasks; task++)
        labels += program->labels[task];
    return labels ? labels : 1;
}

void cross_entropy_backward_run(struct backend_program *program, const struct step *step, int task,
                                int thread)
{
    const struct graph_node *node = step->node;
    const struct kernels *kernels = program->device->kernels;
    struct loss_slice slice = slice_of(program, node, task);
    int64_t classes = class_count(program, node), rows = slice.count * (slice.width / classes);
    const float *log_sum_exp = program_sample(program, node->input[2], slice.first);
    float *dlogits = program_sample(program, node->output[0], slice.first);
    float scale = loss_factor(program) / (float)counted_labels(program, node);

    (void)thread;
    if (has_soft_targets(program, node))
        kernels->soft_cross_entropy_backward(slice.prediction, slice.target, log_sum_exp, dlogits,
                                             rows, classes, scale);
    else
        kernels->cross_entropy_backward(slice.prediction, slice.target, log_sum_exp, dlogits, rows,
                                        classes, scale);
}

/* The gradient of tokens' mean loss needs the number of labels in all slices. */
int cross_entropy_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool forward = node->op == OP_CROSS_ENTROPY;
    int result = slices_bind(program, index, error);

    if (result == 0 && has_token_labels(program, node))
        step_touch(&program->steps[program->step_count - 1], program->labels, sizeof(int64_t),
                   program->tasks, forward ? ACCESS_TASK : ACCESS_WHOLE, forward);
    return result;
}

/* ---- values ---- */

/* The metrics count the loss of each sample, which is the mean of its squared differences. */
void mse_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    struct loss_slice slice = slice_begin(program, step->node, task);

    (void)thread;
    program->loss[task] = program->device->kernels->mse_forward(slice.prediction, slice.target,
                                                                slice.count * slice.width) /
                          (double)slice.width;
}

void mse_backward_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_of(program, node, task);

    (void)thread;
    program->device->kernels->mse_backward(
        slice.prediction, slice.target, program_sample(program, node->output[0], slice.first),
        slice.count * slice.width,
        2.0f * loss_factor(program) / (float)(program->graph->batch * slice.width));
}

void value_loss_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    struct loss_slice slice = slice_begin(program, step->node, task);

    (void)thread;
    program->loss[task] = program->device->kernels->value_loss_forward(
        &program->graph->value_loss, slice.prediction, slice.target, slice.count, slice.width);
}

void value_loss_backward_run(struct backend_program *program, const struct step *step, int task,
                             int thread)
{
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_of(program, node, task);

    (void)thread;
    program->device->kernels->value_loss_backward(
        &program->graph->value_loss, slice.prediction, slice.target,
        program_sample(program, node->output[0], slice.first), slice.count, slice.width,
        sample_factor(program));
}

/* ---- classes, beside cross entropy ---- */

void focal_loss_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_begin(program, node, task);

    (void)thread;
    program->loss[task] = program->device->kernels->focal_loss_forward(
        slice.prediction, slice.target, node->attributes.focal_gamma,
        program_sample(program, node->output[0], slice.first), slice.count, slice.width,
        &program->correct[task]);
}

void focal_loss_backward_run(struct backend_program *program, const struct step *step, int task,
                             int thread)
{
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_of(program, node, task);

    (void)thread;
    program->device->kernels->focal_loss_backward(
        slice.prediction, slice.target, node->attributes.focal_gamma,
        program_sample(program, node->input[2], slice.first),
        program_sample(program, node->output[0], slice.first), slice.count, slice.width,
        sample_factor(program));
}

void ordinal_loss_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_begin(program, node, task);

    (void)thread;
    program->loss[task] = program->device->kernels->ordinal_loss_forward(
        slice.prediction, slice.target, program_sample(program, node->output[0], slice.first),
        slice.count, slice.width, &program->correct[task]);
}

void ordinal_loss_backward_run(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_of(program, node, task);

    (void)thread;
    program->device->kernels->ordinal_loss_backward(
        slice.prediction, slice.target, program_sample(program, node->input[2], slice.first),
        program_sample(program, node->output[0], slice.first), slice.count, slice.width,
        sample_factor(program));
}

void head_losses_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph *graph = program->graph;
    struct loss_slice slice = slice_begin(program, step->node, task);

    (void)thread;
    program->loss[task] = program->device->kernels->head_losses_forward(
        graph->heads, graph->head_count, slice.prediction, slice.target, slice.count);
}

void head_losses_backward_run(struct backend_program *program, const struct step *step, int task,
                              int thread)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_of(program, node, task);

    (void)thread;
    program->device->kernels->head_losses_backward(
        graph->heads, graph->head_count, slice.prediction, slice.target,
        program_sample(program, node->output[0], slice.first), slice.count, sample_factor(program));
}

/* ---- triplets ---- */

/* The labels that count are the triplets. */
void triplet_loss_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct loss_slice slice = slice_begin(program, node, task);

    (void)thread;
    program->labels[task] = 0;
    program->loss[task] = program->device->kernels->triplet_loss_forward(
        &node->attributes.triplet, program_sample(program, node->input[0], 0),
        program_sample(program, node->input[1], 0), program->graph->batch, slice.width, slice.first,
        slice.first + slice.count, program_sample(program, node->output[0], slice.first),
        program_task_scratch(program, task), &program->labels[task]);
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
        slice.end, loss_factor(program), program_sample(program, node->output[0], slice.first));
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
