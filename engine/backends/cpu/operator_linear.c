/* operator_linear.c: linear layers and embeddings. Forward and the gradient by the data divide the
 * samples among the tasks or, where that is faster, the features. The gradient by the weights
 * divides the weights, so that there are no partial sums.
 *
 * Each task computes one product by oneDNN, which needs matrices whose rows are contiguous.
 * Operands and results that are some columns of a matrix are therefore copied, and so is the
 * transposed operand of the gradient by the weights. */
#include "base/alignment.h"
#include "engine/backends/cpu/operator_linear_digits.h"
#include "engine/graph/operator.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MIN = 32 }; /* the least columns of a task: two AVX-512 vectors */

/* The part of the result that a task computes. */
struct tile {
    struct range rows, columns;
};

/* The product that one task computes. */
struct task_product {
    struct tile tile;
    struct onednn_product *product[2]; /* [1] adds to the result; another task may own them */
    struct onednn_call *call[2];
    bool owns; /* the products are this task's own */
    bool copies_a, copies_b, copies_c;
    size_t b_offset, c_offset; /* in the task's workspace, which begins with the copy of a */
};

/* y = x weightᵀ + bias; dx = dy weight; dweight = dyᵀ x: as one product of matrices c = a b. */
struct linear_state {
    int32_t a, b, c, bias;        /* tensors; bias -1: none */
    int64_t data, out, in;        /* rows of x and y, and their features */
    int64_t rows, columns, depth; /* of c; of a and b */
    bool by_digits;               /* tasks try linear_digits_run() first */
    int tasks; /* as many as the program's slices, or as its parts if the slices differ in size */
    bool divides_rows;            /* each task computes rows of c; false: columns */
    bool bfloat16;                /* a and b are bfloat16 */
    struct linear_digits *digits; /* owned; NULL: the product is oneDNN's */
    size_t workspace_bytes;       /* the workspace of one task */
    struct task_product task[TASKS_MAX];
};

/* ---- prepare --------------------------------------------------------------------------------- */

/* Whether the node is a linear layer, or a convolution of single pixels. */
static bool is_forward(const struct graph_node *node)
{
    return graph_node_operator(node)->product == PRODUCT_FORWARD;
}

static bool is_gradient(const struct graph_node *node)
{
    return graph_node_operator(node)->product == PRODUCT_BACKWARD_WEIGHTS;
}

/* Whether it is faster to divide the columns of c. oneDNN packs b for each task anew. Tasks that
 * compute columns pack only a part of b. They have to copy their result, and their part of b unless
 * it consists of rows of the weights. */
static bool dividing_columns_pays(const struct linear_state *state, bool forward, int tasks)
{
    int64_t packed = state->depth * (tasks - 1),
            copied = state->rows + (forward ? 0 : state->depth);

    return packed > copied;
}

/* Whether tasks try to compute the rows by integers first. The weights are then those that were
 * written, not what another node makes of them in each run, such as a rounded copy. */
static bool takes_digits(const struct backend_program *program, const struct graph_node *node,
                         const struct linear_state *state)
{
    return node->op == OP_LINEAR && !state->bfloat16 &&
           program_tensor(program, state->b)->role == TENSOR_PARAMETER &&
           linear_digits_pay(program, state->data / program_threads(program), state->out,
                             state->in);
}

static void describe(const struct backend_program *program, const struct graph_node *node,
                     struct linear_state *state)
{
    bool gradient = is_gradient(node), forward = is_forward(node);
    int tasks = program_slices_differ(program) ? program->parts : program->tasks;
    const struct graph_shape *weight;

    state->tasks = tasks;
    state->a = node->input[gradient ? 1 : 0];
    state->b = node->input[gradient ? 0 : 1];
    state->c = node->output[0];
    state->bias = forward && node->input_count > 2 ? node->input[2] : -1;
    state->bfloat16 = program->compact[state->a];
    weight = &program_tensor(program, gradient ? state->c : state->b)->shape;
    state->out = weight->extent[0];
    state->in = weight->extent[1];
    state->data = graph_shape_elements(&program_tensor(program, state->a)->shape) /
                  (forward ? state->in : state->out);
    state->rows = gradient ? state->out : state->data;
    state->columns = forward ? state->out : state->in;
    state->depth = gradient ? state->data : forward ? state->in : state->out;
    if (takes_digits(program, node, state)) {
        state->tasks = program_threads(program);
        state->divides_rows = state->by_digits = true;
    } else if (gradient)
        state->divides_rows = state->out >= PART_GRAIN * tasks || state->out >= state->in;
    else
        state->divides_rows =
            state->columns < COLUMNS_MIN * tasks || !dividing_columns_pays(state, forward, tasks);
}

static struct tile task_tile(const struct backend_program *program, const struct graph_node *node,
                             const struct linear_state *state, int task)
{
    struct range slice = program_slice(program, task);
    int64_t per_sample = state->data / program->graph->batch;

    if (!state->divides_rows)
        return (struct tile){{0, state->rows}, program_part_of(state->columns, state->tasks, task)};
    if (is_gradient(node) || state->by_digits)
        return (struct tile){program_part_of(state->rows, state->tasks, task), {0, state->columns}};
    if (program_slices_differ(program))
        return (struct tile){
            {state->data * task / state->tasks, state->data * (task + 1) / state->tasks},
            {0, state->columns}};
    return (struct tile){{slice.first * per_sample, slice.end * per_sample}, {0, state->columns}};
}

static size_t operand_bytes(const struct linear_state *state, int64_t elements)
{
    return (size_t)elements * (state->bfloat16 ? sizeof(uint16_t) : sizeof(float));
}

static bool tile_is_empty(const struct tile *tile)
{
    return tile->rows.first >= tile->rows.end || tile->columns.first >= tile->columns.end;
}

static struct onednn_product_shape product_shape(const struct backend_program *program,
                                                 const struct graph_node *node,
                                                 const struct linear_state *state,
                                                 const struct tile *tile)
{
    return (struct onednn_product_shape){
        .rows = tile->rows.end - tile->rows.first,
        .columns = tile->columns.end - tile->columns.first,
        .depth = state->depth,
        .b_transposed = is_forward(node),
        .bias = state->bias >= 0,
        .relu = program->nodes[node - program->graph->nodes].fused == ACTIVATION_RELU,
        .bfloat16 = state->bfloat16};
}

static bool same_extents(const struct tile *a, const struct tile *b)
{
    return a->rows.end - a->rows.first == b->rows.end - b->rows.first &&
           a->columns.end - a->columns.first == b->columns.end - b->columns.first;
}

/* Creates the products of a task. Tasks with the same extents share them. */
static int create_products(struct backend_program *program, const struct graph_node *node,
                           struct linear_state *state, int task, struct error *error)
{
    struct task_product *own = &state->task[task];
    struct onednn_product_shape shape = product_shape(program, node, state, &own->tile);
    int result;

    for (int other = 0; other < task; other++)
        if (same_extents(&state->task[other].tile, &own->tile)) {
            memcpy(own->product, state->task[other].product, sizeof(own->product));
            return 0;
        }
    own->owns = true;
    result = onednn_product_create(program->device->onednn, &shape, &own->product[0], error);
    /* where the result is copied, the copy adds it */
    if (!result && is_gradient(node) && (program->graph->accumulate || node->adds & 1) &&
        !own->copies_c) {
        shape.accumulate = true;
        result = onednn_product_create(program->device->onednn, &shape, &own->product[1], error);
    }
    return result ? error_prefix(error, "layer %s", node->name) : 0;
}

/* The task's workspace is [a] [b] [c]. */
static size_t divide_workspace(const struct linear_state *state, struct task_product *own)
{
    int64_t rows = own->tile.rows.end - own->tile.rows.first;
    int64_t columns = own->tile.columns.end - own->tile.columns.first;

    own->b_offset =
        own->copies_a ? align_up(operand_bytes(state, rows * state->depth), MEMORY_ALIGNMENT) : 0;
    own->c_offset =
        own->b_offset +
        (own->copies_b ? align_up(operand_bytes(state, state->depth * columns), MEMORY_ALIGNMENT)
                       : 0);
    return own->c_offset +
           (own->copies_c ? align_up((size_t)(rows * columns) * sizeof(float), MEMORY_ALIGNMENT)
                          : 0);
}

int linear_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct linear_state *state;

    if (program->nodes[index].absorbed)
        return 0;
    state = calloc(1, sizeof(*state));
    if (!state)
        return error_no_memory(error, "a linear layer");
    program->nodes[index].state = state;
    describe(program, node, state);
    if (state->by_digits &&
        linear_digits_create(program, state->out, state->in, &state->digits, error) < 0)
        return error->code;
    for (int task = 0; task < state->tasks; task++) {
        struct task_product *own = &state->task[task];
        size_t bytes;
        int result;

        own->tile = task_tile(program, node, state, task);
        if (tile_is_empty(&own->tile))
            continue;
        own->copies_a = is_gradient(node);
        own->copies_b = !state->divides_rows && !is_forward(node);
        own->copies_c = !state->divides_rows && state->tasks > 1;
        result = create_products(program, node, state, task, error);
        if (result)
            return result;
        for (int i = 0; i < 2 && own->product[i]; i++)
            program_reserve_scratch(program, onednn_product_scratch_bytes(own->product[i]));
        bytes = divide_workspace(state, own);
        state->workspace_bytes = bytes > state->workspace_bytes ? bytes : state->workspace_bytes;
    }
    program->workspace[index] = (size_t)state->tasks * state->workspace_bytes;
    return 0;
}

void linear_release(void *argument)
{
    struct linear_state *state = argument;

    for (int task = 0; task < TASKS_MAX; task++)
        for (int i = 0; i < 2; i++) {
            onednn_call_free(state->task[task].call[i]);
            if (state->task[task].owns)
                onednn_product_free(state->task[task].product[i]);
        }
    linear_digits_free(state->digits);
    free(state);
}

int linear_refresh(struct backend_program *program, int32_t index, struct error *error)
{
    const struct linear_state *state = program->nodes[index].state;

    (void)error;
    if (state && state->digits)
        linear_digits_refresh(state->digits, program_address(program, state->b));
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

static float *task_workspace(const struct step *step, const struct linear_state *state, int task,
                             size_t offset)
{
    return (float *)(void *)(step->workspace + (size_t)task * state->workspace_bytes + offset);
}

static void copy_operands_bfloat16(struct backend_program *program, const struct step *step,
                                   int task)
{
    const struct linear_state *state = step->state;
    const struct task_product *own = &state->task[task];
    const struct tile *tile = &own->tile;
    int64_t rows = tile->rows.end - tile->rows.first;
    int64_t columns = tile->columns.end - tile->columns.first;
    const uint16_t *from = program_address(program, state->b);
    uint16_t *to = (uint16_t *)(void *)task_workspace(step, state, task, own->b_offset);

    if (own->copies_a)
        program->device->kernels->matrix_transpose_bfloat16(
            (const uint16_t *)program_address(program, state->a) + tile->rows.first, state->out,
            state->depth, rows, (uint16_t *)(void *)task_workspace(step, state, task, 0));
    for (int64_t r = 0; own->copies_b && r < state->depth; r++)
        memcpy(to + r * columns, from + r * state->in + tile->columns.first,
               (size_t)columns * sizeof(*to));
}

static void copy_operands(struct backend_program *program, const struct step *step, int task)
{
    const struct linear_state *state = step->state;
    const struct task_product *own = &state->task[task];
    const struct tile *tile = &own->tile;
    const struct kernels *kernels = program->device->kernels;

    if (own->copies_a)
        kernels->matrix_transpose(
            (const float *)program_address(program, state->a) + tile->rows.first, state->out,
            state->depth, tile->rows.end - tile->rows.first, task_workspace(step, state, task, 0));
    if (own->copies_b)
        kernels->matrix_copy((const float *)program_address(program, state->b) +
                                 tile->columns.first,
                             state->in, state->depth, tile->columns.end - tile->columns.first,
                             task_workspace(step, state, task, own->b_offset),
                             tile->columns.end - tile->columns.first, false);
}

static void apply_activation(struct backend_program *program, enum activation_kind kind,
                             const struct linear_state *state, const struct tile *tile)
{
    float *y = (float *)program_address(program, state->c) + tile->rows.first * state->columns +
               tile->columns.first;
    int64_t columns = tile->columns.end - tile->columns.first;
    int64_t rows = tile->rows.end - tile->rows.first;
    const struct kernels *kernels = program->device->kernels;

    if (columns == state->columns) {
        kernels->activation_forward(kind, y, y, rows * columns);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        kernels->activation_forward(kind, y + r * state->columns, y + r * state->columns, columns);
}

/* Computes the rows of the task by integers, if they can be. */
static bool run_digits(struct backend_program *program, const struct step *step, int task)
{
    const struct linear_state *state = step->state;
    const struct tile *tile = &state->task[task].tile;
    int fused = program->nodes[step->node - program->graph->nodes].fused;

    if (!state->digits)
        return false;
    return linear_digits_run(
        program, state->digits,
        &(struct linear_rows){
            .x = (const float *)program_address(program, state->a) + tile->rows.first * state->in,
            .y = (float *)program_address(program, state->c) + tile->rows.first * state->out,
            .bias = state->bias >= 0 ? program_address(program, state->bias) : NULL,
            .count = tile->rows.end - tile->rows.first,
            .relu = fused == ACTIVATION_RELU},
        program_scratch_of(program, state->tasks, task));
}

/* Computes the task's part by oneDNN. */
static void run_onednn(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct linear_state *state = step->state;
    const struct task_product *own = &state->task[task];
    const struct tile *tile = &own->tile;
    bool accumulate = is_gradient(step->node) && program_accumulates(program, step->node, 0);

    if (state->bfloat16)
        copy_operands_bfloat16(program, step, task);
    else
        copy_operands(program, step, task);
    program_record(program,
                   onednn_call_run(own->call[accumulate && !own->copies_c ? 1 : 0], thread));
    if (own->copies_c) {
        int64_t columns = tile->columns.end - tile->columns.first;

        program->device->kernels->matrix_copy(task_workspace(step, state, task, own->c_offset),
                                              columns, tile->rows.end - tile->rows.first, columns,
                                              (float *)program_address(program, state->c) +
                                                  tile->rows.first * state->columns +
                                                  tile->columns.first,
                                              state->columns, accumulate);
    }
}

static void run_product(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct linear_state *state = step->state;
    const struct tile *tile = &state->task[task].tile;
    int fused = program->nodes[step->node - program->graph->nodes].fused;

    if (tile_is_empty(tile))
        return;
    if (!run_digits(program, step, task))
        run_onednn(program, step, task, thread);
    if (fused >= 0 && fused != ACTIVATION_RELU)
        apply_activation(program, (enum activation_kind)fused, state, tile);
}

static void run_gradient(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct linear_state *state = step->state;
    const struct graph_node *node = step->node;
    struct range part = state->divides_rows ? state->task[task].tile.rows
                        : task == 0         ? (struct range){0, state->out}
                                            : (struct range){0, 0};
    const struct kernels *kernels = program->device->kernels;
    float *bias;

    run_product(program, step, task, thread);
    if (node->output_count < 2 || part.first >= part.end)
        return;
    bias = (float *)program_address(program, node->output[1]) + part.first;
    if (state->bfloat16)
        kernels->column_sum_bfloat16(
            (const uint16_t *)program_address(program, state->a) + part.first, state->data,
            part.end - part.first, state->out, bias, program_accumulates(program, node, 1));
    else
        kernels->column_sum((const float *)program_address(program, state->a) + part.first,
                            state->data, part.end - part.first, state->out, bias,
                            program_accumulates(program, node, 1));
}

/* ---- bind ------------------------------------------------------------------------------------ */

static int bind_call(struct backend_program *program, const struct graph_node *node,
                     struct linear_state *state, int task, int which, char *workspace,
                     struct error *error)
{
    struct task_product *own = &state->task[task];
    const struct tile *tile = &own->tile;
    const char *a = program_address(program, state->a), *b = program_address(program, state->b);
    float *c = program_address(program, state->c);
    const float *bias = state->bias >= 0 ? program_address(program, state->bias) : NULL;
    bool external_a = !program->tensor_bytes[program->root[state->a]];
    bool external_b = !program->tensor_bytes[program->root[state->b]];
    int64_t a_offset = tile->rows.first * state->depth;
    int64_t b_offset = is_forward(node) ? tile->columns.first * state->depth : 0;
    int result;

    workspace += (size_t)task * state->workspace_bytes;
    a = own->copies_a ? workspace : external_a ? NULL : a + operand_bytes(state, a_offset);
    b = own->copies_b ? workspace + own->b_offset
        : external_b  ? NULL
                      : b + operand_bytes(state, b_offset);
    c = own->copies_c ? (float *)(void *)(workspace + own->c_offset)
                      : c + tile->rows.first * state->columns;
    result = onednn_product_bind(program->device->onednn, own->product[which], a, b,
                                 bias ? bias + tile->columns.first : NULL, c,
                                 program_scratch_of(program, state->tasks, task), &own->call[which],
                                 error);
    if (!result && (!a || !b))
        result = program_add_source_call(program, own->call[which],
                                         (size_t)(a ? b_offset : a_offset) * sizeof(float), error);
    return result;
}

static struct step *add_step(struct backend_program *program, int32_t index, step_function *run,
                             struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct linear_state *state = program->nodes[index].state;
    struct step *step;

    for (int task = 0; task < state->tasks; task++)
        for (int which = 0; which < 2; which++)
            if (state->task[task].product[which] &&
                bind_call(program, node, state, task, which, program->node_address[index], error))
                return NULL;
    step = program_add_step(program, index, run);
    if (!step)
        error_no_memory(error, "the program");
    if (step && state->by_digits)
        step_divide_by_threads(program, step);
    else if (step && program_slices_differ(program))
        step_divide(program, step);
    if (step && state->workspace_bytes)
        step_touch(step, step->workspace, state->workspace_bytes, state->tasks, ACCESS_TASK, true);
    return step;
}

/* Binds forward and the gradient by the data. */
int linear_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct linear_state *state = program->nodes[index].state;
    enum access_pattern pattern;
    struct step *step;

    if (program->nodes[index].absorbed)
        return 0;
    step = add_step(program, index, run_product, error);
    if (!step)
        return error->code;
    pattern = state->divides_rows ? ACCESS_SLICE : ACCESS_WHOLE;
    step_touch_tensor(program, step, state->a, pattern, false);
    step_touch_tensor(program, step, state->b, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->bias, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->c, pattern, true);
    return 0;
}

int linear_backward_weights_bind(struct backend_program *program, int32_t index,
                                 struct error *error)
{
    struct step *step = add_step(program, index, run_gradient, error);
    const struct linear_state *state = program->nodes[index].state;
    const struct graph_node *node = &program->graph->nodes[index];

    if (!step)
        return error->code;
    step_touch_tensor(program, step, state->a, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->b, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->c, state->divides_rows ? ACCESS_PART : ACCESS_WHOLE,
                      true);
    if (node->output_count > 1)
        step_touch_tensor(program, step, node->output[1],
                          state->divides_rows ? ACCESS_PART : ACCESS_FIRST, true);
    return 0;
}

/* ---- embedding ------------------------------------------------------------------------------- */

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
    if (!program_accumulates(program, node, 0))
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
        return error_no_memory(error, "the program");
    if (forward) {
        step_touch_tensor(program, step, node->input[0], ACCESS_SLICE, false);
        step_touch_tensor(program, step, node->input[1], ACCESS_WHOLE, false);
        step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    } else {
        step_touch_tensor(program, step, node->input[0], ACCESS_WHOLE, false);
        step_touch_tensor(program, step, node->input[1], ACCESS_WHOLE, false);
        step_touch_tensor(program, step, node->output[0], ACCESS_PART, true);
    }
    return 0;
}
