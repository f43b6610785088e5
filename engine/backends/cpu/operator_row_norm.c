/* operator_row_norm.c: layer norm and RMS norm. Each task normalises rows: those of its samples, or
 * a part of all rows if the slices differ in size. It sums up the gradients of weight and bias over
 * its rows. A second step adds the tasks' sums in a fixed order. */
#include "base/alignment.h"
#include "engine/backends/cpu/program.h"

/* The inputs and outputs of a node; -1 where absent. */
struct norm_tensors {
    int32_t x, weight, bias, residual;
    int32_t y, sum, inverse, mean;
};

static int64_t row_width(const struct backend_program *program, int32_t tensor)
{
    const struct graph_shape *shape = &program_tensor(program, tensor)->shape;

    return shape->extent[shape->rank - 1];
}

static bool is_centred(const struct graph_node *node)
{
    return node->op != OP_RMS_NORM && node->op != OP_ADD_RMS_NORM &&
           node->op != OP_RMS_NORM_BACKWARD;
}

/* The rows of the task, in a tensor whose rows have `width` elements. */
static struct range task_rows(const struct backend_program *program, const struct step *step,
                              int task, int32_t tensor)
{
    int64_t width = row_width(program, tensor);
    int64_t per_sample = program_sample_elements(program, tensor) / width;
    struct range slice;

    if (step->divides_samples)
        return program_part_of(program->graph->batch * per_sample, step->tasks, task);
    slice = program_slice(program, task);
    return (struct range){slice.first * per_sample, slice.end * per_sample};
}

/* The address of the row; NULL for an absent tensor. */
static float *row_of(const struct backend_program *program, int32_t tensor, int64_t row,
                     int64_t width)
{
    return tensor < 0 ? NULL : (float *)program_address(program, tensor) + row * width;
}

static int32_t input_of(const struct graph_node *node, int number)
{
    return number < node->input_count ? node->input[number] : -1;
}

static struct norm_tensors norm_tensors(const struct graph_node *node)
{
    int32_t output[4] = {-1, -1, -1, -1};
    struct norm_tensors t = {node->input[0],
                             node->input[1],
                             input_of(node, 2),
                             input_of(node, 3),
                             node->output[0],
                             -1,
                             -1,
                             -1};
    int next = 0;

    for (int i = 1; i < node->output_count; i++)
        output[i - 1] = node->output[i];
    if (t.residual >= 0)
        t.sum = output[next++];
    t.inverse = output[next++];
    t.mean = output[next];
    return t;
}

static void run_forward(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct graph_node *node = step->node;
    struct norm_tensors t = norm_tensors(node);
    struct range rows = task_rows(program, step, task, t.x);
    struct row_norm norm = {.width = row_width(program, t.x),
                            .epsilon = node->attributes.row_norm_epsilon,
                            .centred = is_centred(node),
                            .weight = program_address(program, t.weight)};

    (void)thread;
    norm.bias = row_of(program, t.bias, 0, norm.width);
    program->device->kernels->row_norm_forward(
        &norm, row_of(program, t.x, rows.first, norm.width),
        row_of(program, t.residual, rows.first, norm.width), rows.end - rows.first,
        row_of(program, t.sum, rows.first, norm.width),
        row_of(program, t.y, rows.first, norm.width), row_of(program, t.mean, rows.first, 1),
        row_of(program, t.inverse, rows.first, 1));
}

/* Adds the step that works on rows, and declares what it reads and writes; NULL: out of memory. */
static struct step *add_rows_step(struct backend_program *program, int32_t index,
                                  step_function *run)
{
    struct step *step = program_add_step(program, index, run);

    if (!step)
        return NULL;
    if (program_slices_differ(program))
        step_divide(program, step);
    step_touch_inputs(program, step);
    return step;
}

int row_norm_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = add_rows_step(program, index, run_forward);

    if (!step)
        return error_no_memory(error, "the program");
    for (int i = 0; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    return 0;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Inputs: dy, x, weight, inverse, dsum?, mean?; outputs: dx, dweight, dbias?. */
enum { DY, X, WEIGHT, INVERSE, DSUM, MEAN };

static int task_count(const struct backend_program *program)
{
    return program_slices_differ(program) ? program->parts : program->tasks;
}

/* The distance in floats between the sums of two tasks, and between those of weight and bias. */
static int64_t sums_stride(int64_t width)
{
    return (int64_t)(align_up((size_t)width * sizeof(float), MEMORY_ALIGNMENT) / sizeof(float));
}

static float *task_sums(const struct step *step, int64_t width, int output, int task)
{
    return (float *)(void *)step->workspace + ((int64_t)task * 2 + output - 1) * sums_stride(width);
}

int row_norm_backward_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t stride = sums_stride(row_width(program, node->input[X]));

    (void)error;
    program->workspace[index] = (size_t)(task_count(program) * 2 * stride) * sizeof(float);
    return 0;
}

static void run_backward(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct graph_node *node = step->node;
    struct range rows = task_rows(program, step, task, node->input[X]);
    struct row_norm norm = {.width = row_width(program, node->input[X]),
                            .centred = is_centred(node),
                            .weight = program_address(program, node->input[WEIGHT])};

    (void)thread;
    program->device->kernels->row_norm_backward(
        &norm, row_of(program, node->input[DY], rows.first, norm.width),
        row_of(program, node->input[X], rows.first, norm.width),
        row_of(program, node->input[DSUM], rows.first, norm.width),
        row_of(program, node->input[MEAN], rows.first, 1),
        row_of(program, node->input[INVERSE], rows.first, 1), rows.end - rows.first,
        row_of(program, node->output[0], rows.first, norm.width),
        task_sums(step, norm.width, 1, task),
        node->output_count > 2 ? task_sums(step, norm.width, 2, task) : NULL);
}

/* Adds up the sums of all tasks for the task's part of the columns. */
static void run_sums(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    int64_t width = row_width(program, node->input[X]);
    struct range part = program_part(program, width, task);

    (void)thread;
    for (int output = 1; part.first < part.end && output < node->output_count; output++)
        program->device->kernels->partials_sum(
            task_sums(step, width, output, 0) + part.first, task_count(program),
            2 * sums_stride(width), row_of(program, node->output[output], part.first, 1),
            part.end - part.first, program_accumulates(program, node, output));
}

int row_norm_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    size_t row = 2 * sizeof(float) * (size_t)sums_stride(row_width(program, node->input[X]));
    struct step *step = add_rows_step(program, index, run_backward);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    step_touch(step, step->workspace, row, task_count(program), ACCESS_TASK, true);
    step = program_add_step(program, index, run_sums);
    if (!step)
        return error_no_memory(error, "the program");
    step_touch(step, step->workspace, row, task_count(program), ACCESS_WHOLE, false);
    for (int i = 1; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_PART, true);
    return 0;
}
