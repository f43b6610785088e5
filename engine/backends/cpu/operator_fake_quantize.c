/* operator_fake_quantize.c: numbers are rounded as integers of 8 bits would hold them. In training
 * tasks find the range of their slices, and task 0 moves the running range towards that of the
 * batch, as PyTorch's MovingAverageMinMaxObserver does. */
#include "engine/backends/cpu/program.h"

#include <math.h>
#include <string.h>

/* PyTorch's averaging_constant. */
static const float range_momentum = 0.01f;

enum { X, RANGE };
enum { DY, BACKWARD_X, BACKWARD_RANGE };

/* A task's range, in a cache line of its own. */
struct task_range {
    float range[2];
    char space[56];
};

static bool observes(const struct backend_program *program, const struct graph_node *node)
{
    return program->graph->training && !node->recomputed;
}

int fake_quantize_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    (void)error;
    if (observes(program, &program->graph->nodes[index]))
        program->workspace[index] = (size_t)program->tasks * sizeof(struct task_range);
    return 0;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void run_range(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    struct task_range *found = (struct task_range *)(void *)step->workspace + task;
    struct range slice = program_slice(program, task);
    int32_t x = step->node->input[X];

    (void)thread;
    found->range[0] = INFINITY;
    found->range[1] = -INFINITY;
    program->device->kernels->widen_range(
        program_sample(program, x, slice.first),
        (slice.end - slice.first) * program_sample_elements(program, x), found->range);
}

/* Both 0: no batch was seen. */
static bool is_known(const float range[2])
{
    return range[0] != 0 || range[1] != 0;
}

static void run_average(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct task_range *found = (const struct task_range *)(const void *)step->workspace;
    float *range = program_address(program, step->node->input[RANGE]);
    float least = INFINITY, most = -INFINITY;

    (void)task;
    (void)thread;
    for (int i = 0; i < program->tasks; i++) {
        least = fminf(least, found[i].range[0]);
        most = fmaxf(most, found[i].range[1]);
    }
    if (!isfinite(least) || !isfinite(most))
        return; /* the loss will tell */
    if (!is_known(range)) {
        range[0] = least;
        range[1] = most;
    } else {
        range[0] += range_momentum * (least - range[0]);
        range[1] += range_momentum * (most - range[1]);
    }
}

/* ---- rounding -------------------------------------------------------------------------------- */

static void run_fake(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t count = (slice.end - slice.first) * program_sample_elements(program, node->input[X]);
    const float *x = program_sample(program, node->input[X], slice.first);
    float *y = program_sample(program, node->output[0], slice.first);
    const float *range = program_address(program, node->input[RANGE]);
    struct quantization q = graph_quantization_of_range(range);

    (void)thread;
    if (is_known(range))
        program->device->kernels->fake_quantize(x, count, q.scale, (float)q.zero, y);
    else
        memcpy(y, x, (size_t)count * sizeof *y);
}

int fake_quantize_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step;

    if (observes(program, node)) {
        step = program_add_step(program, index, run_range);
        if (!step)
            return error_no_memory(error, "the program");
        step_touch_tensor(program, step, node->input[X], ACCESS_SLICE, false);
        step_touch(step, step->workspace, sizeof(struct task_range), program->tasks, ACCESS_TASK,
                   true);
        step = program_add_step(program, index, run_average);
        if (!step)
            return error_no_memory(error, "the program");
        step->first_task_only = true;
        step_touch(step, step->workspace, sizeof(struct task_range), program->tasks, ACCESS_FIRST,
                   false);
        step_touch_tensor(program, step, node->input[RANGE], ACCESS_FIRST, true);
    }
    step = program_add_step(program, index, run_fake);
    if (!step)
        return error_no_memory(error, "the program");
    step_touch_inputs(program, step);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    return 0;
}

void fake_quantize_backward_run(struct backend_program *program, const struct step *step, int task,
                                int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t count = (slice.end - slice.first) * program_sample_elements(program, node->input[DY]);
    const float *dy = program_sample(program, node->input[DY], slice.first);
    float *dx = program_sample(program, node->output[0], slice.first);
    const float *range = program_address(program, node->input[BACKWARD_RANGE]);
    struct quantization q = graph_quantization_of_range(range);

    (void)thread;
    if (is_known(range))
        program->device->kernels->fake_quantize_backward(
            dy, program_sample(program, node->input[BACKWARD_X], slice.first), count, q.scale,
            (float)q.zero, dx);
    else
        memcpy(dx, dy, (size_t)count * sizeof *dx);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Samples are rounded to 0 … 255, weights symmetrically, as the integer layers take them. */
static void run_rows(struct backend_program *program, const struct step *step, int task, int thread)
{
    int32_t x = step->node->input[X], y = step->node->output[0];
    const struct graph_tensor *tensor = program_tensor(program, x);
    int64_t first_extent = tensor->shape.extent[0], width = graph_shape_elements(&tensor->shape);
    struct range part =
        tensor->batched ? program_slice(program, task) : program_part(program, first_extent, task);
    int64_t step_elements = width / first_extent;

    (void)thread;
    width = tensor->batched ? tensor->shape.extent[tensor->shape.rank - 1] : step_elements;
    program->device->kernels->fake_quantize_rows(
        (const float *)program_address(program, x) + part.first * step_elements,
        (part.end - part.first) * step_elements / width, width, !tensor->batched,
        (float *)program_address(program, y) + part.first * step_elements);
}

int fake_quantize_rows_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool batched = program_tensor(program, node->output[0])->batched;
    struct step *step = program_add_step(program, index, run_rows);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_tensor(program, step, node->input[X], batched ? ACCESS_SLICE : ACCESS_PART, false);
    step_touch_tensor(program, step, node->output[0], batched ? ACCESS_SLICE : ACCESS_PART, true);
    return 0;
}
