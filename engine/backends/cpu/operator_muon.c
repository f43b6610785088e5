/* operator_muon.c: Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/): the
 * direction of momentum, orthogonalised by Newton-Schulz iterations, as torch.optim.Muon has it,
 * but in float32 instead of bfloat16.
 *
 *   buffer = momentum buffer + (1 - momentum) g;  u = g + momentum (buffer - g) with Nesterov
 *   X = u / |u| (transposed if it has more rows than columns)
 *   repeat: A = X Xᵀ;  B = b A + c A A;  X = a X + B X
 *   w = (1 - lr decay) w - lr scale X
  * The tasks divide the rows of each product. The workspace holds two matrices like the parameter,
 * which are X and the next X in turns, then A and B, and a sum of squares for each task. */
#include "base/alignment.h"
#include "engine/backends/cpu/program.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The quintic's coefficients, from the source above. */
static const float quintic_a = 3.4445f, quintic_b = -4.7750f, quintic_c = 2.0315f;

enum muon_product { GRAM, SQUARE, APPLY, PRODUCTS };

struct muon_state {
    int64_t rows, columns; /* of the parameter */
    int64_t small, large;  /* of X, whose rows are the smaller extent */
    bool transposed;
    int iterations;
    struct onednn_product *product[PRODUCTS][TASKS_MAX]; /* an earlier task may own them */
    bool owns[TASKS_MAX];
    struct onednn_call *call[PRODUCTS][2][TASKS_MAX]; /* [1]: with X and the next X exchanged */
    size_t matrix[2], gram, polynomial, squares;      /* offsets in the workspace */
};

static const struct optimizer_group *group_of(const struct backend_program *program,
                                              const struct graph_node *node)
{
    return &program->graph->groups[node->attributes.optimizer_group];
}

/* ---- prepare --------------------------------------------------------------------------------- */

static int create_products(struct backend_program *program, struct muon_state *state, int task,
                           struct error *error)
{
    struct range part = program_part(program, state->small, task);
    int64_t small = state->small, large = state->large, rows = part.end - part.first;
    const struct onednn_product_shape shapes[PRODUCTS] = {
        [GRAM] = {.rows = rows, .columns = small, .depth = large, .b_transposed = 1},
        [SQUARE] = {.rows = rows, .columns = small, .depth = small},
        [APPLY] = {.rows = rows, .columns = large, .depth = small}};

    for (int other = 0; other < task; other++) {
        struct range before = program_part(program, state->small, other);

        if (before.end - before.first != rows)
            continue;
        for (int p = 0; p < PRODUCTS; p++)
            state->product[p][task] = state->product[p][other];
        return 0;
    }
    state->owns[task] = true;
    for (int p = 0; p < PRODUCTS; p++) {
        int result = onednn_product_create(program->device->onednn, &shapes[p],
                                           &state->product[p][task], error);

        if (result)
            return result;
    }
    return 0;
}

static size_t divide_workspace(struct backend_program *program, struct muon_state *state)
{
    size_t matrix =
        align_up((size_t)(state->rows * state->columns) * sizeof(float), MEMORY_ALIGNMENT);
    size_t square =
        align_up((size_t)(state->small * state->small) * sizeof(float), MEMORY_ALIGNMENT);

    for (int task = 0; task < program->tasks; task++)
        for (int p = 0; p < PRODUCTS && state->product[p][task]; p++)
            program_reserve_scratch(program, onednn_product_scratch_bytes(state->product[p][task]));
    state->matrix[1] = matrix;
    state->gram = 2 * matrix;
    state->polynomial = state->gram + square;
    state->squares = state->polynomial + square;
    return state->squares + align_up(TASKS_MAX * sizeof(double), MEMORY_ALIGNMENT);
}

int muon_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *shape = &program_tensor(program, node->input[0])->shape;
    struct muon_state *state = calloc(1, sizeof(*state));

    if (!state)
        return error_no_memory(error, "the optimizer");
    program->nodes[index].state = state;
    state->rows = shape->extent[0];
    state->columns = shape->extent[1];
    state->transposed = state->rows > state->columns;
    state->small = state->transposed ? state->columns : state->rows;
    state->large = state->transposed ? state->rows : state->columns;
    state->iterations = group_of(program, node)->config.iterations;
    for (int task = 0; task < program->tasks; task++) {
        struct range part = program_part(program, state->small, task);
        int result = part.first < part.end ? create_products(program, state, task, error) : 0;

        if (result)
            return result;
    }
    program->workspace[index] = divide_workspace(program, state);
    return 0;
}

void muon_release(void *argument)
{
    struct muon_state *state = argument;

    for (int task = 0; task < TASKS_MAX; task++)
        for (int p = 0; p < PRODUCTS; p++) {
            onednn_call_free(state->call[p][0][task]);
            onednn_call_free(state->call[p][1][task]);
            if (state->owns[task])
                onednn_product_free(state->product[p][task]);
        }
    free(state);
}

/* ---- run ------------------------------------------------------------------------------------- */

static float *floats_at(const struct step *step, size_t offset)
{
    return (float *)(void *)(step->workspace + offset);
}

static double *squares_of(const struct step *step)
{
    return (double *)(void *)(step->workspace + ((const struct muon_state *)step->state)->squares);
}

/* Updates the momentum, and writes the direction into the second matrix in the parameter's
 * layout. */
static void run_direction(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct muon_state *state = step->state;
    const struct graph_node *node = step->node;
    const struct optimizer_group *group = group_of(program, node);
    struct optimizer_scalars scalars = optimizer_scalars(program, group);
    struct range part = program_part(program, state->rows, task);
    int64_t first = part.first * state->columns;

    (void)thread;
    squares_of(step)[task] = 0;
    if (part.first >= part.end || program_skips_update(program))
        return;
    squares_of(step)[task] = program->device->kernels->muon_direction(
        &group->config, &scalars, (const float *)program_address(program, node->input[1]) + first,
        (float *)program_address(program, node->input[2]) + first,
        floats_at(step, state->matrix[1]) + first, (part.end - part.first) * state->columns);
}

static void run_normalise(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct muon_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    double epsilon = group_of(program, step->node)->config.epsilon, squares = 0, norm;
    struct range part = program_part(program, state->small, task);
    const float *direction = floats_at(step, state->matrix[1]);
    float *x = floats_at(step, state->matrix[0]) + part.first * state->large;

    (void)thread;
    if (part.first >= part.end)
        return;
    for (int t = 0; t < program->tasks; t++)
        squares += squares_of(step)[t];
    norm = sqrt(squares) > epsilon ? sqrt(squares) : epsilon;
    if (state->transposed) {
        kernels->matrix_transpose(direction + part.first, state->columns, state->rows,
                                  part.end - part.first, x);
        direction = x;
    } else {
        direction += part.first * state->large;
    }
    kernels->scale(direction, (float)(1 / norm), x, (part.end - part.first) * state->large);
}

static void run_gram(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct muon_state *state = step->state;

    if (state->call[GRAM][step->variant][task])
        program_record(program, onednn_call_run(state->call[GRAM][step->variant][task], thread));
}

static void run_polynomial(struct backend_program *program, const struct step *step, int task,
                           int thread)
{
    const struct muon_state *state = step->state;
    struct range part = program_part(program, state->small, task);
    int64_t first = part.first * state->small;

    if (!state->call[SQUARE][0][task])
        return;
    program_record(program, onednn_call_run(state->call[SQUARE][0][task], thread));
    program->device->kernels->scaled_sum(quintic_b, floats_at(step, state->gram) + first, quintic_c,
                                         floats_at(step, state->polynomial) + first,
                                         (part.end - part.first) * state->small);
}

static void run_apply(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct muon_state *state = step->state;
    struct range part = program_part(program, state->small, task);
    int64_t first = part.first * state->large;

    if (!state->call[APPLY][step->variant][task])
        return;
    program_record(program, onednn_call_run(state->call[APPLY][step->variant][task], thread));
    program->device->kernels->scaled_sum(quintic_a,
                                         floats_at(step, state->matrix[step->variant]) + first, 1,
                                         floats_at(step, state->matrix[!step->variant]) + first,
                                         (part.end - part.first) * state->large);
}

static void run_update(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct muon_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    const struct optimizer_group *group = group_of(program, step->node);
    double rate = (double)optimizer_scalars(program, group).learning_rate;
    struct range part = program_part(program, state->rows, task);
    int64_t first = part.first * state->columns, count = (part.end - part.first) * state->columns;
    const float *x = floats_at(step, state->matrix[step->variant]);
    float *other = floats_at(step, state->matrix[!step->variant]) + first;
    float *parameter = (float *)program_address(program, step->node->input[0]) + first;

    (void)thread;
    if (part.first >= part.end || program_skips_update(program))
        return;
    if (state->transposed)
        kernels->matrix_transpose(x + part.first, state->rows, state->columns,
                                  part.end - part.first, other);
    kernels->scaled_sum(
        (float)(-rate * optimizer_muon_rate_scale(&group->config, (double)state->rows,
                                                  (double)state->columns)),
        state->transposed ? other : x + first, (float)(1 - rate * group->config.weight_decay),
        parameter, count);
    program_round_parameter(program, parameter, count);
}

/* ---- bind ------------------------------------------------------------------------------------ */

static int bind_calls(struct backend_program *program, struct muon_state *state, int task,
                      char *workspace, struct error *error)
{
    struct range part = program_part(program, state->small, task);
    float *x[2] = {(float *)(void *)workspace, (float *)(void *)(workspace + state->matrix[1])};
    float *gram = (float *)(void *)(workspace + state->gram);
    float *polynomial = (float *)(void *)(workspace + state->polynomial);
    void *scratch = program_task_scratch(program, task);
    int64_t wide = part.first * state->large, square = part.first * state->small;
    struct onednn *onednn = program->device->onednn;
    int result = 0;

    if (part.first >= part.end)
        return 0;
    for (int v = 0; v < 2 && !result; v++) {
        result = onednn_product_bind(onednn, state->product[GRAM][task], x[v] + wide, x[v], NULL,
                                     gram + square, scratch, &state->call[GRAM][v][task], error);
        if (!result)
            result = onednn_product_bind(onednn, state->product[APPLY][task], polynomial + square,
                                         x[v], NULL, x[!v] + wide, scratch,
                                         &state->call[APPLY][v][task], error);
    }
    if (!result)
        result =
            onednn_product_bind(onednn, state->product[SQUARE][task], gram + square, gram, NULL,
                                polynomial + square, scratch, &state->call[SQUARE][0][task], error);
    return result;
}

/* A part of the work: the function that runs it, and what it touches in the workspace. */
struct muon_step {
    step_function *run;
    int variant;
    size_t reads, writes; /* offsets of matrices: of one read whole, and of one written by rows */
    bool squares_written, squares_read, by_parameter;
};

static int add_step(struct backend_program *program, int32_t index, const struct muon_state *state,
                    const struct muon_step *wanted, int64_t written_columns)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, wanted->run);
    int64_t rows = wanted->by_parameter ? state->rows : state->small;
    bool update = wanted->run == run_update;

    if (!step)
        return -ENOMEM;
    step->variant = wanted->variant;
    if (wanted->run != run_direction)
        step_touch(step, step->workspace + wanted->reads,
                   (size_t)(state->rows * state->columns) * sizeof(float), 1, ACCESS_WHOLE, false);
    if (wanted->run == run_polynomial || wanted->run == run_apply)
        step_touch(step, step->workspace + state->gram, 2 * (state->polynomial - state->gram), 1,
                   ACCESS_WHOLE, false);
    step_touch(step, step->workspace + wanted->writes, (size_t)written_columns * sizeof(float),
               rows, ACCESS_PART, true);
    if (wanted->squares_written || wanted->squares_read)
        step_touch(step, step->workspace + state->squares, sizeof(double), program->tasks,
                   wanted->squares_read ? ACCESS_WHOLE : ACCESS_TASK, wanted->squares_written);
    if (!wanted->by_parameter)
        return 0;
    step_touch_squares(program, step);
    for (int i = 0; i < node->input_count; i++)
        if (update == (i == 0))
            step_touch_tensor(program, step, node->input[i], ACCESS_PART, i != 1);
    return 0;
}

static int add_steps(struct backend_program *program, int32_t index, const struct muon_state *state)
{
    int64_t small = state->small, large = state->large;
    int last = state->iterations % 2, r;

    r = add_step(program, index, state,
                 &(struct muon_step){.run = run_direction,
                                     .writes = state->matrix[1],
                                     .squares_written = true,
                                     .by_parameter = true},
                 state->columns);
    if (r == 0)
        r = add_step(program, index, state,
                     &(struct muon_step){
                         .run = run_normalise, .reads = state->matrix[1], .squares_read = true},
                     large);
    for (int i = 0; i < state->iterations && r == 0; i++) {
        size_t x = state->matrix[i % 2], next = state->matrix[(i + 1) % 2];

        r = add_step(program, index, state,
                     &(struct muon_step){run_gram, i % 2, x, state->gram, false, false, false},
                     small);
        if (r == 0)
            r = add_step(
                program, index, state,
                &(struct muon_step){run_polynomial, 0, x, state->polynomial, false, false, false},
                small);
        if (r == 0)
            r = add_step(program, index, state,
                         &(struct muon_step){run_apply, i % 2, x, next, false, false, false},
                         large);
    }
    if (r == 0)
        r = add_step(program, index, state,
                     &(struct muon_step){.run = run_update,
                                         .variant = last,
                                         .reads = state->matrix[last],
                                         .writes = state->matrix[!last],
                                         .by_parameter = true},
                     state->columns);
    return r;
}

int muon_bind(struct backend_program *program, int32_t index, struct error *error)
{
    struct muon_state *state = program->nodes[index].state;
    int result = optimizer_squares_bind(program, index);

    for (int task = 0; task < program->tasks && !result; task++)
        result = bind_calls(program, state, task, program->node_address[index], error);
    if (!result)
        result = add_steps(program, index, state);
    return result == -ENOMEM ? error_set(error, result, "no memory for the program") : result;
}
