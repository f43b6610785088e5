/* operator_linear.c: linear layers and embeddings. Forward and the gradient by the data work on
 * slices of the batch, or, where these would be too flat for the matrix product to be fast, on all
 * samples and a part of the features; the gradient by the weights is divided over the weights, so
 * that no partial sums arise. */
#include "engine/backends/cpu/program.h"

#include <errno.h>

/* y = x weightᵀ + bias */
struct linear_sizes {
    int64_t rows_per_sample, in, out;
};

static struct linear_sizes linear_sizes(const struct backend_program *program, int32_t x,
                                        int32_t weight)
{
    const struct graph_shape *shape = &program_tensor(program, weight)->shape;
    int64_t in = shape->extent[1];

    return (struct linear_sizes){program_sample_elements(program, x) / in, in, shape->extent[0]};
}

/* A product of fewer rows packs its other operand for too little work. */
enum { ROWS_MIN = 64, COLUMNS_MIN = 32 };

/* Whether the result with that many features is divided by features instead of samples. */
static bool divides_features(const struct backend_program *program, int64_t rows_per_sample,
                             int64_t features)
{
    return program->tasks > 1 &&
           program->graph->batch * rows_per_sample < ROWS_MIN * program->tasks &&
           features >= COLUMNS_MIN * program->tasks;
}

/* The rows and columns of a result that a task computes. */
struct tile {
    struct range rows, columns;
};

static struct tile task_tile(const struct backend_program *program, int64_t rows_per_sample,
                             int64_t features, int task)
{
    struct range slice = program_slice(program, task);

    if (divides_features(program, rows_per_sample, features))
        return (struct tile){{0, program->graph->batch * rows_per_sample},
                             program_part(program, features, task)};
    return (struct tile){{slice.first * rows_per_sample, slice.end * rows_per_sample},
                         {0, features}};
}

static void run_linear(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const int32_t *input = step->node->input;
    struct linear_sizes n = linear_sizes(program, input[0], input[1]);
    struct tile tile = task_tile(program, n.rows_per_sample, n.out, task);
    int64_t rows = tile.rows.end - tile.rows.first;
    int64_t columns = tile.columns.end - tile.columns.first;
    const struct kernels *kernels = program->device->kernels;
    const float *x = (const float *)program_address(program, input[0]) + tile.rows.first * n.in;
    const float *weight =
        (const float *)program_address(program, input[1]) + tile.columns.first * n.in;
    float *y = (float *)program_address(program, step->node->output[0]) + tile.rows.first * n.out +
               tile.columns.first;
    int fused = program->nodes[step->node - program->graph->nodes].fused;
    const float *bias = step->node->input_count > 2 && input[2] >= 0
                            ? (const float *)program_address(program, input[2]) + tile.columns.first
                            : NULL;

    (void)thread;
    program_record(program,
                   onednn_sgemm('N', 'T', rows, columns, n.in, x, n.in, weight, n.in, 0, y, n.out));
    if (bias && fused == ACTIVATION_RELU) {
        kernels->bias_add_relu(y, bias, rows, columns, n.out);
        return;
    }
    if (bias)
        kernels->bias_add(y, bias, rows, columns, n.out);
    if (fused >= 0 && columns == n.out)
        kernels->activation_forward((enum activation_kind)fused, y, y, rows * n.out);
    else if (fused >= 0)
        for (int64_t r = 0; r < rows; r++)
            kernels->activation_forward((enum activation_kind)fused, y + r * n.out, y + r * n.out,
                                        columns);
}

/* A step from the samples of `x` to `features` of y: slices of both, or all of x to a part. */
static void touch_data(struct backend_program *program, struct step *step, int32_t x, int32_t y,
                       int64_t rows_per_sample, int64_t features)
{
    enum access_pattern pattern =
        divides_features(program, rows_per_sample, features) ? ACCESS_WHOLE : ACCESS_SLICE;

    step_touch_tensor(program, step, x, pattern, false);
    step_touch_tensor(program, step, y, pattern, true);
}

int linear_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct linear_sizes n = linear_sizes(program, node->input[0], node->input[1]);
    struct step *step = program_add_step(program, index, run_linear);

    if (!step)
        return error_set(error, -ENOMEM, "no memory for the program");
    touch_data(program, step, node->input[0], node->output[0], n.rows_per_sample, n.out);
    for (int i = 1; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_WHOLE, false);
    return 0;
}

static void run_linear_backward_data(struct backend_program *program, const struct step *step,
                                     int task, int thread)
{
    const struct graph_node *node = step->node;
    struct linear_sizes n = linear_sizes(program, node->output[0], node->input[1]);
    struct tile tile = task_tile(program, n.rows_per_sample, n.in, task);
    const float *dy =
        (const float *)program_address(program, node->input[0]) + tile.rows.first * n.out;
    const float *weight =
        (const float *)program_address(program, node->input[1]) + tile.columns.first;
    float *dx = (float *)program_address(program, node->output[0]) + tile.rows.first * n.in +
                tile.columns.first;

    (void)thread;
    program_record(program, onednn_sgemm('N', 'N', tile.rows.end - tile.rows.first,
                                         tile.columns.end - tile.columns.first, n.out, dy, n.out,
                                         weight, n.in, 0, dx, n.in));
}

int linear_backward_data_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct linear_sizes n = linear_sizes(program, node->output[0], node->input[1]);
    struct step *step = program_add_step(program, index, run_linear_backward_data);

    if (!step)
        return error_set(error, -ENOMEM, "no memory for the program");
    touch_data(program, step, node->input[0], node->output[0], n.rows_per_sample, n.in);
    step_touch_tensor(program, step, node->input[1], ACCESS_WHOLE, false);
    return 0;
}

/* A task computes rows of the weights' gradient when there are enough of them, else columns. */
static bool divides_outputs(const struct backend_program *program, const struct linear_sizes *n)
{
    return n->out >= PART_GRAIN * program->tasks || n->out >= n->in;
}

static void run_linear_backward_weights(struct backend_program *program, const struct step *step,
                                        int task, int thread)
{
    const struct graph_node *node = step->node;
    struct linear_sizes n = linear_sizes(program, node->input[0], node->output[0]);
    int64_t rows = program->graph->batch * n.rows_per_sample;
    const float *x = program_sample(program, node->input[0], 0);
    const float *dy = program_sample(program, node->input[1], 0);
    float *dweight = program_address(program, node->output[0]);
    float *dbias = node->output_count > 1 ? program_address(program, node->output[1]) : NULL;
    bool accumulate = program->scalars.accumulate;
    const struct kernels *kernels = program->device->kernels;

    (void)thread;
    if (divides_outputs(program, &n)) {
        struct range part = program_part(program, n.out, task);

        if (part.first >= part.end)
            return;
        program_record(program,
                       onednn_sgemm('T', 'N', part.end - part.first, n.in, rows, dy + part.first,
                                    n.out, x, n.in, accumulate, dweight + part.first * n.in, n.in));
        if (dbias)
            kernels->column_sum(dy + part.first, rows, part.end - part.first, n.out,
                                dbias + part.first, accumulate);
    } else {
        struct range part = program_part(program, n.in, task);

        if (part.first < part.end)
            program_record(program, onednn_sgemm('T', 'N', n.out, part.end - part.first, rows, dy,
                                                 n.out, x + part.first, n.in, accumulate,
                                                 dweight + part.first, n.in));
        if (dbias && task == 0)
            kernels->column_sum(dy, rows, n.out, n.out, dbias, accumulate);
    }
}

int linear_backward_weights_bind(struct backend_program *program, int32_t index,
                                 struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_linear_backward_weights);
    struct linear_sizes n = linear_sizes(program, node->input[0], node->output[0]);
    bool outputs = divides_outputs(program, &n);

    if (!step)
        return error_set(error, -ENOMEM, "no memory for the program");
    step_touch_tensor(program, step, node->input[0], ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->input[1], ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->output[0], outputs ? ACCESS_PART : ACCESS_WHOLE, true);
    if (node->output_count > 1)
        step_touch_tensor(program, step, node->output[1], outputs ? ACCESS_PART : ACCESS_FIRST,
                          true);
    return 0;
}

/* ---- embedding --------------------------------------------------------------------------------
 */

static void run_embedding(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct graph_node *node = step->node;
    const struct graph_shape *weight = &program_tensor(program, node->input[1])->shape;
    struct range slice = program_slice(program, task);
    int64_t per_sample = program_sample_elements(program, node->input[0]);

    (void)thread;
    program->device->kernels->embedding_forward(
        program_sample(program, node->input[0], slice.first),
        program_address(program, node->input[1]),
        program_sample(program, node->output[0], slice.first),
        (slice.end - slice.first) * per_sample, weight->extent[1], weight->extent[0]);
}

static void run_embedding_backward(struct backend_program *program, const struct step *step,
                                   int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct graph_shape *weight = &program_tensor(program, node->output[0])->shape;
    struct range part = program_part(program, weight->extent[0], task);
    float *dweight = program_address(program, node->output[0]);
    int64_t width = weight->extent[1];

    (void)thread;
    if (part.first >= part.end)
        return;
    if (!program->scalars.accumulate)
        for (int64_t i = part.first * width; i < part.end * width; i++)
            dweight[i] = 0.0f;
    program->device->kernels->embedding_backward(
        program_sample(program, node->input[0], 0), program_sample(program, node->input[1], 0),
        dweight, program->graph->batch * program_sample_elements(program, node->input[0]), width,
        part.first, part.end);
}

int embedding_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool forward = node->op == OP_EMBEDDING;
    struct step *step =
        program_add_step(program, index, forward ? run_embedding : run_embedding_backward);

    if (!step)
        return error_set(error, -ENOMEM, "no memory for the program");
    if (forward) {
        step_touch_tensor(program, step, node->input[1], ACCESS_WHOLE, false);
        step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    } else {
        step_touch_tensor(program, step, node->input[1], ACCESS_WHOLE, false);
        step_touch_tensor(program, step, node->output[0], ACCESS_PART, true);
    }
    return 0;
}
