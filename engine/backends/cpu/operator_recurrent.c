/* operator_recurrent.c: what goes from step to step in LSTM and GRU, forward and backward
 * (kernels/recurrent.h).
 *
 * All time steps are one step of the program. A thread does it in its first task for all of its
 * part: of the samples, or of the units of the layer. With units, the threads meet behind each time
 * step, because each needs the whole state. No number depends on the division. */
#include "base/alignment.h"
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <stdlib.h>

struct recurrent_state {
    enum recurrent_cell cell;
    bool backward, reverse;
    int64_t hidden, steps, gates;
    int64_t unit_panels;  /* that the kernel takes units in */
    size_t weights_bytes; /* packed */
    size_t state_bytes;   /* of what one time step hands to the next; two lie behind the weights */
    size_t content_bytes; /* of what changes in place, behind these; 0: none */
    int32_t weights, bias, lengths;
};

/* ---- prepare --------------------------------------------------------------------------------- */

int recurrent_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct recurrent_state *state = calloc(1, sizeof(*state));
    int vector = program->device->kernels->vector, panel;
    const struct graph_tensor *t;
    size_t row;

    if (!state)
        return error_no_memory(error, "a recurrent layer");
    program->nodes[index].state = state;
    state->backward = node->op == OP_RECURRENT_BACKWARD;
    state->cell = node->attributes.recurrent.cell;
    state->reverse = node->attributes.recurrent.reverse;
    state->gates = recurrent_cell_gates(state->cell);
    state->weights = node->input[1];
    state->bias = state->backward ? -1 : node->input[2];
    state->lengths = node->input[state->backward ? 4 : 3];
    t = program_tensor(program, node->input[0]);
    state->steps = t->shape.extent[1];
    state->hidden = program_tensor(program, state->weights)->shape.extent[1];
    panel = state->backward ? RECURRENT_BACKWARD_VECTORS * vector : vector;
    state->unit_panels = (state->hidden + panel - 1) / panel;
    row = (size_t)state->hidden * sizeof(float);
    state->weights_bytes =
        align_up(align_up((size_t)state->hidden, (size_t)vector) * (size_t)state->gates * row,
                 MEMORY_ALIGNMENT);
    state->state_bytes =
        align_up((size_t)program->graph->batch * row * (size_t)(state->backward ? state->gates : 1),
                 MEMORY_ALIGNMENT);
    if (state->backward || state->cell == RECURRENT_LSTM)
        state->content_bytes = align_up((size_t)program->graph->batch * row, MEMORY_ALIGNMENT);
    program->workspace[index] =
        state->weights_bytes + 2 * state->state_bytes + state->content_bytes;
    return 0;
}

void recurrent_release(void *state)
{
    free(state);
}

/* ---- run ------------------------------------------------------------------------------------- */

/* What a thread works on. */
struct share {
    struct range rows, panels;
    bool meets; /* the others behind each time step */
};

/* The time of the product of one time step for rows and panels: rows are taken six at a time, and
 * fewer than four of them wait for the weights. A barrier takes as long as the products of a number
 * of rows and weights. Both were measured on two Zen 5 cores with layers of 32 to 1024 units. */
enum { COST_ROWS = 6, COST_ROWS_MIN = 4, COST_BARRIER = 1000 };

static int64_t product_cost(const struct recurrent_state *state, int64_t rows, int64_t panels)
{
    int64_t least = (rows + COST_ROWS - 1) / COST_ROWS * COST_ROWS_MIN;

    return (rows > least ? rows : least) * panels * (state->backward ? state->gates : 1) *
           state->hidden;
}

/* Whether threads that share the units are faster than threads that share the rows. */
static bool shares_units(const struct backend_program *program, const struct recurrent_state *state)
{
    int64_t threads = program_threads(program), batch = program->graph->batch;
    int64_t rows = (batch + threads - 1) / threads;
    int64_t panels = (state->unit_panels + threads - 1) / threads;

    return product_cost(state, batch, panels) + COST_BARRIER <
           product_cost(state, rows, state->unit_panels);
}

static struct share thread_share(const struct backend_program *program,
                                 const struct recurrent_state *state, int thread)
{
    int threads = program_threads(program);
    int64_t batch = program->graph->batch, panels = state->unit_panels;

    if (shares_units(program, state))
        return (struct share){
            {0, batch}, {panels * thread / threads, panels * (thread + 1) / threads}, threads > 1};
    return (struct share){
        {batch * thread / threads, batch * (thread + 1) / threads}, {0, panels}, false};
}

static float *workspace_at(const struct step *step, size_t offset)
{
    return (float *)(void *)(step->workspace + offset);
}

/* What the time step number `i` leaves to the next. */
static float *state_behind(const struct step *step, const struct recurrent_state *state, int64_t i)
{
    return workspace_at(step, state->weights_bytes + (size_t)(i & 1) * state->state_bytes);
}

static void pack_weights(struct backend_program *program, const struct step *step, int thread)
{
    const struct recurrent_state *state = step->state;
    int threads = program_threads(program);

    program->device->kernels->recurrent_pack(
        program_address(program, state->weights), state->gates, state->hidden, state->backward,
        state->unit_panels * thread / threads, state->unit_panels * (thread + 1) / threads,
        workspace_at(step, 0));
    if (threads > 1)
        thread_team_barrier(program->device->team, thread);
}

static void clear_content(const struct step *step, const struct share *share)
{
    const struct recurrent_state *state = step->state;
    float *content = workspace_at(step, state->weights_bytes + 2 * state->state_bytes);

    if (!state->content_bytes)
        return;
    /* where threads share the rows, each clears all of them before its own first step: they meet
     * behind it */
    for (int64_t i = share->rows.first * state->hidden; i < share->rows.end * state->hidden; i++)
        content[i] = 0.0f;
}

/* The tensor at a time step; absent if there is none. */
static struct recurrent_array array_at(const struct backend_program *program, int32_t tensor,
                                       int64_t time)
{
    const struct graph_shape *shape;
    float *start;

    if (tensor < 0)
        return (struct recurrent_array){NULL, 0};
    shape = &program_tensor(program, tensor)->shape;
    start = program_address(program, tensor);
    return (struct recurrent_array){start + time * shape->extent[2],
                                    shape->extent[1] * shape->extent[2]};
}

static struct recurrent_time time_at(const struct backend_program *program,
                                     const struct recurrent_state *state, int64_t time)
{
    return (struct recurrent_time){
        .step = time,
        .steps = state->steps,
        .reverse = state->reverse,
        .lengths = state->lengths < 0 ? NULL : program_address(program, state->lengths)};
}

static int32_t output_or_none(const struct graph_node *node, int index)
{
    return index < node->output_count ? node->output[index] : -1;
}

static void run_forward(struct backend_program *program, const struct step *step,
                        const struct share *share, int thread)
{
    const struct recurrent_state *state = step->state;
    const struct graph_node *node = step->node;

    for (int64_t i = 0; i < state->steps; i++) {
        int64_t time = state->reverse ? state->steps - 1 - i : i;
        const struct recurrent_forward now = {
            .cell = state->cell,
            .hidden = state->hidden,
            .time = time_at(program, state, time),
            .weights = workspace_at(step, 0),
            .bias = program_address(program, state->bias),
            .before = i ? state_behind(step, state, i - 1) : NULL,
            .after = state_behind(step, state, i),
            .content = state->content_bytes
                           ? workspace_at(step, state->weights_bytes + 2 * state->state_bytes)
                           : NULL,
            .input = array_at(program, node->input[0], time),
            .gates = array_at(program, output_or_none(node, 1), time),
            .cells = array_at(program, output_or_none(node, 2), time),
            .output = array_at(program, node->output[0], time)};

        program->device->kernels->recurrent_forward(&now, share->rows.first, share->rows.end,
                                                    share->panels.first, share->panels.end);
        if (share->meets)
            thread_team_barrier(program->device->team, thread);
    }
}

static void run_backward(struct backend_program *program, const struct step *step,
                         const struct share *share, int thread)
{
    const struct recurrent_state *state = step->state;
    const struct graph_node *node = step->node;

    for (int64_t i = 0; i < state->steps; i++) {
        int64_t time = state->reverse ? i : state->steps - 1 - i;
        int64_t before = state->reverse ? time + 1 : time - 1;
        bool has_before = before >= 0 && before < state->steps;
        const struct recurrent_backward now = {
            .cell = state->cell,
            .hidden = state->hidden,
            .time = time_at(program, state, time),
            .weights = workspace_at(step, 0),
            .behind = i ? state_behind(step, state, i - 1) : NULL,
            .here = state_behind(step, state, i),
            .carried = workspace_at(step, state->weights_bytes + 2 * state->state_bytes),
            .gates = array_at(program, node->input[0], time),
            .dy = array_at(program, node->input[2], time),
            .memory = array_at(program, node->input[3], time),
            .memory_before = array_at(program, has_before ? node->input[3] : -1, before),
            .dinput = array_at(program, node->output[0], time)};

        program->device->kernels->recurrent_backward(&now, share->rows.first, share->rows.end,
                                                     share->panels.first, share->panels.end);
        if (share->meets)
            thread_team_barrier(program->device->team, thread);
    }
}

static void run_steps(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct recurrent_state *state = step->state;
    struct share share = thread_share(program, state, thread);

    if (task != program_first_task(program, step->tasks, thread))
        return;
    clear_content(step, &share);
    pack_weights(program, step, thread);
    (state->backward ? run_backward : run_forward)(program, step, &share, thread);
}

/* ---- bind ------------------------------------------------------------------------------------ */

int recurrent_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_steps);

    if (!step)
        return error_no_memory(error, "the program");
    /* Every thread has a task then. */
    step_divide(program, step);
    step_touch(step, step->workspace, program->workspace[index], 1, ACCESS_WHOLE, true);
    for (int i = 0; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_WHOLE, false);
    for (int i = 0; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_WHOLE, true);
    return 0;
}
