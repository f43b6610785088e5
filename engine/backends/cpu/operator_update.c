/* operator_update.c: the update: clipping, the optimizers and moving averages. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <math.h>

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
    return graph_update_is_first(program->graph, node) ? squares_bind(program, node) : 0;
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
    step_touch_squares(program, step);
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
    step_touch_squares(program, step);
    step_touch_tensor(program, step, node->input[0], ACCESS_PART, false);
    step_touch_tensor(program, step, node->input[1], ACCESS_PART, true);
    return 0;
}
