/* operator_general.c: operators over plain tensors (kernels/general.c): columns of rows, axes in
 * another order, rows by constant numbers, sums over an axis, two tensors combined number by
 * number, softmax, products of matrices. */
#include "engine/backends/cpu/program.h"

#include <string.h>

/* ---- columns of rows ---- */

static void slice_copy(struct backend_program *program, const struct step *step, int32_t wide,
                       int32_t narrow, int task, bool back)
{
    const struct kernels *kernels = program->device->kernels;
    const struct graph_shape *from = &program_tensor(program, wide)->shape;
    const struct graph_shape *to = &program_tensor(program, narrow)->shape;
    struct range slice = program_slice(program, task);
    const int64_t row = from->extent[from->rank - 1], width = to->extent[to->rank - 1];
    const int64_t elements = (slice.end - slice.first) * program_sample_elements(program, wide);
    float *rows = program_sample(program, wide, slice.first);
    float *columns = program_sample(program, narrow, slice.first);
    float *part = rows + step->node->attributes.slice_first;

    if (back) {
        memset(rows, 0, (size_t)elements * sizeof *rows);
        kernels->matrix_copy(columns, width, elements / row, width, part, row, false);
    } else {
        kernels->matrix_copy(part, row, elements / row, width, columns, width, false);
    }
}

void slice_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    (void)thread;
    slice_copy(program, step, step->node->input[0], step->node->output[0], task, false);
}

void slice_backward_run(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    (void)thread;
    slice_copy(program, step, step->node->output[0], step->node->input[0], task, true);
}

/* ---- axes in another order ---- */

void permute_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->permute(&node->attributes.permute,
                                          program_sample(program, node->input[0], n),
                                          program_sample(program, node->output[0], n));
}

/* What a sample reads of an operand: a parameter is the same for all; NULL: it is left out. */
static const float *operand(const struct backend_program *program, int32_t tensor, int64_t sample)
{
    if (tensor < 0)
        return NULL;
    return program_tensor(program, tensor)->batched ? program_sample(program, tensor, sample)
                                                    : program_address(program, tensor);
}

/* ---- rows by constant numbers ---- */

void take_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->take_forward(
            &node->attributes.take, operand(program, node->input[0], n),
            program_address(program, node->input[1]), program_sample(program, node->output[0], n));
}

static void take_back(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    const struct take_attributes *how = &node->attributes.take;
    const int64_t rows = how->outer * how->from;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++) {
        float *dx = program_sample(program, node->output[0], n);

        memset(dx, 0, (size_t)(rows * how->inner) * sizeof *dx);
        program->device->kernels->take_backward(how, program_sample(program, node->input[0], n),
                                                program_address(program, node->input[1]), 0, rows,
                                                dx);
    }
}

/* A task sums over all samples, for its part of a parameter's rows. */
static void take_back_shared(struct backend_program *program, const struct step *step, int task,
                             int thread)
{
    const struct graph_node *node = step->node;
    const struct take_attributes *how = &node->attributes.take;
    struct range part = program_part(program, how->outer * how->from, task);
    float *dx = program_address(program, node->output[0]);

    (void)thread;
    if (part.first >= part.end)
        return;
    if (!program_accumulates(program, node, 0))
        memset(dx + part.first * how->inner, 0,
               (size_t)((part.end - part.first) * how->inner) * sizeof *dx);
    for (int64_t n = 0; n < program->graph->batch; n++)
        program->device->kernels->take_backward(how, program_sample(program, node->input[0], n),
                                                program_address(program, node->input[1]),
                                                part.first, part.end, dx);
}

/* Adds the step of a gradient by a tensor of the samples, or by a parameter. */
static int bind_by_batch(struct backend_program *program, int32_t index, step_function *batched,
                         step_function *shared, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool samples = program_tensor(program, node->output[0])->batched;
    enum access_pattern pattern = samples ? ACCESS_SLICE : ACCESS_WHOLE;
    struct step *step = program_add_step(program, index, samples ? batched : shared);

    if (!step)
        return error_no_memory(error, "the program");
    for (int i = 0; i < node->input_count; i++)
        if (node->input[i] >= 0)
            step_touch_tensor(
                program, step, node->input[i],
                program_tensor(program, node->input[i])->batched ? pattern : ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->output[0], pattern, true);
    return 0;
}

int take_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    return bind_by_batch(program, index, take_back, take_back_shared, error);
}

/* ---- sums over an axis ---- */

void axis_sum_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->axis_sum_forward(&node->attributes.axis_sum,
                                                   program_sample(program, node->input[0], n),
                                                   program_sample(program, node->output[0], n));
}

void axis_sum_backward_run(struct backend_program *program, const struct step *step, int task,
                           int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->axis_sum_backward(&node->attributes.axis_sum,
                                                    program_sample(program, node->input[0], n),
                                                    program_sample(program, node->output[0], n));
}

/* ---- two tensors, number by number ---- */

void broadcast_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->broadcast_forward(
            &node->attributes.broadcast, program_sample(program, node->input[0], n),
            operand(program, node->input[1], n), program_sample(program, node->output[0], n));
}

void broadcast_backward_first_run(struct backend_program *program, const struct step *step,
                                  int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->broadcast_backward_first(
            &node->attributes.broadcast, program_sample(program, node->input[0], n),
            operand(program, node->input[1], n), operand(program, node->input[2], n),
            program_sample(program, node->output[0], n));
}

/* Of a batched operand, a sample's gradient is its own sum. */
static void run_second_batched(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    int64_t count = node->attributes.broadcast.middle;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++) {
        float *db = program_sample(program, node->output[0], n);

        memset(db, 0, (size_t)count * sizeof *db);
        program->device->kernels->broadcast_backward_second(
            &node->attributes.broadcast, program_sample(program, node->input[0], n),
            operand(program, node->input[1], n), operand(program, node->input[2], n), 0, count, db);
    }
}

/* A task sums over all samples, for its part of a parameter's elements. */
static void run_second_shared(struct backend_program *program, const struct step *step, int task,
                              int thread)
{
    const struct graph_node *node = step->node;
    struct range part = program_part(program, node->attributes.broadcast.middle, task);
    float *db = program_address(program, node->output[0]);

    (void)thread;
    if (part.first >= part.end)
        return;
    if (!program_accumulates(program, node, 0))
        memset(db + part.first, 0, (size_t)(part.end - part.first) * sizeof *db);
    for (int64_t n = 0; n < program->graph->batch; n++)
        program->device->kernels->broadcast_backward_second(
            &node->attributes.broadcast, program_sample(program, node->input[0], n),
            operand(program, node->input[1], n), operand(program, node->input[2], n), part.first,
            part.end, db);
}

int broadcast_backward_second_bind(struct backend_program *program, int32_t index,
                                   struct error *error)
{
    return bind_by_batch(program, index, run_second_batched, run_second_shared, error);
}

/* ---- softmax and products ---- */

void softmax_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct graph_shape *shape = &program_tensor(program, node->output[0])->shape;
    struct range slice = program_slice(program, task);
    int64_t columns = shape->extent[shape->rank - 1];
    int64_t elements =
        (slice.end - slice.first) * program_sample_elements(program, node->output[0]);

    (void)thread;
    program->device->kernels->softmax_forward(
        program_sample(program, node->input[0], slice.first), elements / columns, columns,
        program_sample(program, node->output[0], slice.first));
}

void softmax_backward_run(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct graph_node *node = step->node;
    const struct graph_shape *shape = &program_tensor(program, node->output[0])->shape;
    struct range slice = program_slice(program, task);
    int64_t columns = shape->extent[shape->rank - 1];
    int64_t elements =
        (slice.end - slice.first) * program_sample_elements(program, node->output[0]);

    (void)thread;
    program->device->kernels->softmax_backward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first), elements / columns, columns,
        program_sample(program, node->output[0], slice.first));
}

void batch_product_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->batch_product(&node->attributes.batch_product,
                                                program_sample(program, node->input[0], n),
                                                program_sample(program, node->input[1], n),
                                                program_sample(program, node->output[0], n));
}
