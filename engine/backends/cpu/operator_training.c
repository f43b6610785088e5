/* operator_training.c: the losses, and the update: clipping and the optimizers. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <math.h>

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
    struct range slice = program_slice(program, task);
    int64_t classes = class_count(program, node);
    int64_t rows =
        (slice.end - slice.first) * (program_sample_elements(program, node->input[0]) / classes);
    const float *logits = program_sample(program, node->input[0], slice.first);
    const void *target = program_sample(program, node->input[1], slice.first);
    float *log_sum_exp = program_sample(program, node->output[0], slice.first);
    int64_t *correct = &program->correct[task];

    (void)thread;
    *correct = 0;
    program->labels[task] = rows;
    program->loss[task] =
        has_soft_targets(program, node)
            ? kernels->soft_cross_entropy_forward(logits, target, log_sum_exp, rows, classes,
                                                  correct)
            : kernels->cross_entropy_forward(
                  logits, target, log_sum_exp, rows, classes, correct,
                  has_token_labels(program, node) ? &program->labels[task] : NULL);
}

float program_loss_factor(const struct backend_program *program)
{
    const struct step_scalars *scalars = &program->scalars;

    return scalars->gradient_scale * (scalars->loss_scale > 0 ? scalars->loss_scale : 1.0f);
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
    struct range slice = program_slice(program, task);
    int64_t classes = class_count(program, node);
    int64_t rows =
        (slice.end - slice.first) * (program_sample_elements(program, node->input[0]) / classes);
    const float *logits = program_sample(program, node->input[0], slice.first);
    const void *target = program_sample(program, node->input[1], slice.first);
    const float *log_sum_exp = program_sample(program, node->input[2], slice.first);
    float *dlogits = program_sample(program, node->output[0], slice.first);
    float scale = program_loss_factor(program) / (float)counted_labels(program, node);

    (void)thread;
    if (has_soft_targets(program, node))
        kernels->soft_cross_entropy_backward(logits, target, log_sum_exp, dlogits, rows, classes,
                                             scale);
    else
        kernels->cross_entropy_backward(logits, target, log_sum_exp, dlogits, rows, classes, scale);
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

/* The metrics count the loss of each sample, which is the mean of its squared differences. */
void mse_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t features = program_sample_elements(program, node->input[0]);

    (void)thread;
    program->correct[task] = 0;
    program->labels[task] = slice.end - slice.first;
    program->loss[task] =
        program->device->kernels->mse_forward(program_sample(program, node->input[0], slice.first),
                                              program_sample(program, node->input[1], slice.first),
                                              (slice.end - slice.first) * features) /
        (double)features;
}

void mse_backward_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t features = program_sample_elements(program, node->input[0]);

    (void)thread;
    program->device->kernels->mse_backward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first),
        program_sample(program, node->output[0], slice.first), (slice.end - slice.first) * features,
        2.0f * program_loss_factor(program) / (float)(program->graph->batch * features));
}

void head_losses_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->correct[task] = 0;
    program->labels[task] = slice.end - slice.first;
    program->loss[task] = program->device->kernels->head_losses_forward(
        graph->heads, graph->head_count, program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first), slice.end - slice.first);
}

void head_losses_backward_run(struct backend_program *program, const struct step *step, int task,
                              int thread)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    program->device->kernels->head_losses_backward(
        graph->heads, graph->head_count, program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first),
        program_sample(program, node->output[0], slice.first), slice.end - slice.first,
        program_loss_factor(program) / (float)graph->batch);
}

/* ---- update ---------------------------------------------------------------------------------- */

/* Adds up the squares of all gradients before the first update, part by part. The norm for clipping
 * needs the sum. It also tells whether all gradients are finite: a sum in double of finite float32
 * squares always is. */
static void run_gradient_squares(struct backend_program *program, const struct step *step, int task,
                                 int thread)
{
    int32_t gradient = step->node->input[1];
    bool first = step->state != NULL;
    int64_t rows, width;
    struct range part;

    (void)thread;
    if (first)
        program->gradient_squares[task] = 0;
    program_parameter_rows(program, gradient, &rows, &width);
    part = program_part(program, rows, task);
    if (part.first < part.end)
        program->gradient_squares[task] += program->device->kernels->squares_sum(
            (const float *)program_address(program, gradient) + part.first * width,
            (part.end - part.first) * width);
}

static double gradient_squares_total(const struct backend_program *program)
{
    double sum = 0;

    for (int task = 0; task < program->tasks; task++)
        sum += program->gradient_squares[task];
    return sum;
}

bool program_skips_update(const struct backend_program *program)
{
    return program->scalars.loss_scale > 0 && !isfinite(gradient_squares_total(program));
}

/* The factor by which the update multiplies the gradients: 1 / loss_scale, and for clipping min(1,
 * clip_norm / (norm + 1e-6)) of the unscaled gradients, as torch.nn.utils.clip_grad_norm_. */
static float gradient_factor(const struct backend_program *program)
{
    const struct step_scalars *scalars = &program->scalars;
    double unscale = scalars->loss_scale > 0 ? 1.0 / (double)scalars->loss_scale : 1.0, factor;

    if (!(scalars->clip_norm > 0))
        return (float)unscale;
    factor = scalars->clip_norm / (sqrt(gradient_squares_total(program)) * unscale + 1e-6);
    return (float)(factor < 1 ? factor * unscale : unscale);
}

struct optimizer_scalars optimizer_scalars(const struct backend_program *program,
                                           const struct optimizer_group *group)
{
    const struct step_scalars *step = &program->scalars;
    const struct optimizer_config *config = &group->config;
    double own = optimizer_of(config)->has_betas ? config->beta1 : config->momentum;

    return (struct optimizer_scalars){
        .step = step->step - step->skipped,
        .learning_rate = (float)(step->learning_rate * group->learning_rate_scale),
        .gradient_factor = gradient_factor(program),
        .gradient_limit = step->clip_value > 0 ? step->clip_value : INFINITY,
        .momentum = step->cycle_momentum ? step->momentum : own,
        .momentum_product = step->momentum_product,
        .average_share = step->average_share};
}

void program_round_parameter(const struct backend_program *program, float *values, int64_t count)
{
    enum tensor_type type = program->graph->compute_type;

    if (program->graph->rounds_parameters && (type == TENSOR_BFLOAT16 || type == TENSOR_FLOAT16))
        program->device->kernels->round_values(type, values, values, count);
}

static void run_optimizer(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct graph_node *node = step->node;
    const struct optimizer_group *group = &program->graph->groups[node->attributes.optimizer_group];
    struct optimizer_scalars scalars = optimizer_scalars(program, group);
    float *array[2 + OPTIMIZER_STATES_MAX] = {NULL};
    int64_t rows, width;
    struct range part;

    (void)thread;
    program_parameter_rows(program, node->input[0], &rows, &width);
    part = program_part_of(rows, step->tasks, task);
    if (part.first >= part.end || program_skips_update(program))
        return;
    for (int i = 0; i < node->input_count && i < 2 + OPTIMIZER_STATES_MAX; i++)
        if (node->input[i] >= 0)
            array[i] = (float *)program_address(program, node->input[i]) + part.first * width;
    program->device->kernels->optimizer_update(&group->config, &scalars, array[0], array[1],
                                               array + 2, (part.end - part.first) * width);
    program_round_parameter(program, array[0], (part.end - part.first) * width);
}

static bool is_first_update(const struct graph *graph, int32_t index)
{
    while (index-- > 0)
        if (graph->nodes[index].op == OP_OPTIMIZER)
            return false;
    return true;
}

static int squares_bind(struct backend_program *program, int32_t first)
{
    for (int32_t i = first; i < program->graph->node_count; i++) {
        struct step *step;

        if (program->graph->nodes[i].op != OP_OPTIMIZER)
            continue;
        step = program_add_step(program, i, run_gradient_squares);
        if (!step)
            return -ENOMEM;
        step->squares = true;
        step->state = i == first ? program : NULL; /* not NULL marks the step that starts the sum */
        step_touch_tensor(program, step, program->graph->nodes[i].input[1], ACCESS_PART, false);
        step_touch(step, program->gradient_squares, sizeof(double), program->tasks, ACCESS_TASK,
                   true);
    }
    return 0;
}

int optimizer_squares_bind(struct backend_program *program, int32_t node)
{
    return is_first_update(program->graph, node) ? squares_bind(program, node) : 0;
}

int optimizer_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step;

    step = optimizer_squares_bind(program, index) ? NULL
                                                  : program_add_step(program, index, run_optimizer);
    if (!step)
        return error_no_memory(error, "the program");
    step_divide(program, step);
    step_touch(step, program->gradient_squares, sizeof(double), program->tasks, ACCESS_WHOLE,
               false);
    step->access[step->access_count - 1].squares = true;
    for (int i = 0; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_PART, i != 1);
    return 0;
}

static void run_moving_average(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    int64_t rows, width;
    struct range part;

    (void)thread;
    program_parameter_rows(program, node->input[0], &rows, &width);
    part = program_part_of(rows, step->tasks, task);
    if (part.first < part.end && !program_skips_update(program))
        program->device->kernels->moving_average(
            (float *)program_address(program, node->input[1]) + part.first * width,
            (const float *)program_address(program, node->input[0]) + part.first * width,
            node->attributes.copies ? 1 : program->scalars.average_share,
            (part.end - part.first) * width);
}

int moving_average_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_moving_average);

    if (!step)
        return error_no_memory(error, "the program");
    step_divide(program, step);
    step_touch(step, program->gradient_squares, sizeof(double), program->tasks, ACCESS_WHOLE,
               false);
    step->access[step->access_count - 1].squares = true;
    step_touch_tensor(program, step, node->input[0], ACCESS_PART, false);
    step_touch_tensor(program, step, node->input[1], ACCESS_PART, true);
    return 0;
}
