/* operator_lamb.c: LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2). With the direction
 * d = r + decay w of Adam's r, a parameter moves by lr |w| / |d| d, or by lr d where a norm is 0.
 * Each task updates the moments of its part and adds up squares; behind a barrier each knows both
 * norms. The workspace holds the two sums of each task. */
#include "base/alignment.h"
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <math.h>

struct lamb_squares {
    double parameter, direction;
};

static const struct optimizer_group *group_of(const struct backend_program *program,
                                              const struct graph_node *node)
{
    return &program->graph->groups[node->attributes.optimizer_group];
}

int lamb_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    (void)error;
    program->workspace[index] = align_up(TASKS_MAX * sizeof(struct lamb_squares), MEMORY_ALIGNMENT);
    return 0;
}

static struct lamb_squares *squares_at(const struct step *step)
{
    return (struct lamb_squares *)(void *)step->workspace;
}

/* What of the parameter and of the tensors beside it the task has: arrays from its first element
 * on, and how many elements. */
struct lamb_part {
    float *parameter, *gradient, *m, *v;
    int64_t count;
};

static struct lamb_part part_of(const struct backend_program *program, const struct step *step,
                                int task)
{
    const struct graph_node *node = step->node;
    struct lamb_part part = {NULL};
    float **arrays[] = {&part.parameter, &part.gradient, &part.m, &part.v};
    int64_t rows, width;
    struct range range;

    program_parameter_rows(program, node->input[0], &rows, &width);
    range = program_part_of(rows, step->tasks, task);
    part.count = (range.end - range.first) * width;
    for (int i = 0; i < 4; i++)
        *arrays[i] = (float *)program_address(program, node->input[i]) + range.first * width;
    return part;
}

static void run_moments(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct optimizer_group *group = group_of(program, step->node);
    struct optimizer_scalars scalars = optimizer_scalars(program, group);
    struct lamb_part part = part_of(program, step, task);
    double squares[2] = {0, 0};

    (void)thread;
    if (part.count > 0 && !program_skips_update(program))
        program->device->kernels->lamb_moments(&group->config, &scalars, part.parameter,
                                               part.gradient, part.m, part.v, squares, part.count);
    squares_at(step)[task] = (struct lamb_squares){squares[0], squares[1]};
}

static void run_step(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct optimizer_group *group = group_of(program, step->node);
    struct optimizer_scalars scalars = optimizer_scalars(program, group);
    struct lamb_part part = part_of(program, step, task);
    struct lamb_squares sum = {0, 0};
    double rate = (double)scalars.learning_rate;

    (void)thread;
    if (part.count <= 0 || program_skips_update(program))
        return;
    for (int i = 0; i < step->tasks; i++) {
        sum.parameter += squares_at(step)[i].parameter;
        sum.direction += squares_at(step)[i].direction;
    }
    if (sum.parameter > 0 && sum.direction > 0)
        rate *= sqrt(sum.parameter / sum.direction);
    program->device->kernels->lamb_step(&group->config, &scalars, (float)rate, part.parameter,
                                        part.m, part.v, part.count);
    program_round_parameter(program, part.parameter, part.count);
}

static int add_step(struct backend_program *program, int32_t index, step_function *run)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run);
    const bool moves = run == run_step;

    if (!step)
        return -ENOMEM;
    step_touch_squares(program, step);
    step_touch(step, step->workspace, sizeof(struct lamb_squares), program->tasks,
               moves ? ACCESS_WHOLE : ACCESS_TASK, !moves);
    for (int i = 0; i < node->input_count; i++) /* parameter, gradient and moments */
        if (!moves || i != 1)
            step_touch_tensor(program, step, node->input[i], ACCESS_PART, moves ? i == 0 : i > 1);
    return 0;
}

int lamb_bind(struct backend_program *program, int32_t index, struct error *error)
{
    int result = optimizer_squares_bind(program, index);

    if (result == 0)
        result = add_step(program, index, run_moments);
    if (result == 0)
        result = add_step(program, index, run_step);
    return result ? error_no_memory(error, "the program") : 0;
}
