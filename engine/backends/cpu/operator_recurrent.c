/* operator_recurrent.c: what goes from step to step in LSTM and GRU, forward and backward
 * (kernels/recurrent.h).
 *
 * All time steps are one step of the program. A thread does it in its first task for all of its
 * part: of the samples, or of the units of the layer. With units, the threads meet behind each time
 * step, because each needs the whole state. No number depends on the division.
 *
 * A layer whose weights are int8 has them packed already. The state is quantized behind each step
 * by a fixed factor: its numbers are from -1 to 1. In bfloat16 on a processor with AMX each step
 * rounds the state, or backward the gradient, for the next one.
 *
 * Where the layer carries state, its first step begins with what the batch before left, and its
 * last one leaves the state in a result, which OP_CARRY_STATE copies once nothing reads the old. */
#include "base/alignment.h"
#include "engine/backends/cpu/operator_recurrent_input.h"
#include "engine/graph/forward.h"

#include <stdlib.h>
#include <string.h>

struct recurrent_state {
    enum recurrent_cell cell;
    bool backward, reverse, int8;
    bool bfloat16; /* the state's product, by AMX */
    int64_t hidden, steps, gates;
    int64_t unit_panels;  /* that the kernel takes units in */
    size_t weights_bytes; /* packed; int8: the factors of the products */
    size_t state_bytes;   /* of what one time step hands to the next; two lie behind the weights */
    size_t content_bytes; /* of what changes in place, behind these; 0: none */
    /* what the product reads in place of the state: rows in int8 or bfloat16, of which two lie
     * behind the content; 0: none */
    size_t operand_row, operand_bytes;
    int32_t weights, bias, lengths;
    /* What is carried from batch to batch; -1: the state before the first step is 0. Backward,
     * memory_first is the part that it reads: of an LSTM c0, of a GRU h0. */
    int32_t h0, c0, memory_first;
    struct recurrent_input_state input; /* forward */
};

/* With fewer units float32 is faster, because sums in bfloat16 go through memory and factors are
 * rounded. Steps of LSTM and GRU were measured with 1 to 64 samples, on one thread of a Xeon with
 * AMX. The time in float32 divided by that in bfloat16: 0.64 to 0.97 with 16 and 32 units, 0.71 to
 * 1.14 with 48, 0.97 to 1.31 with 64, 1.11 to 1.57 with 128. A measurement for each model would be
 * no choice here, because a resumed run must have the same bits. */
enum { BFLOAT16_UNITS_MIN = 64 };

bool recurrent_uses_bfloat16(const struct backend_program *program, int64_t units)
{
    return program->graph->compute_type == TENSOR_BFLOAT16 &&
           program->device->native_types >> TENSOR_BFLOAT16 & 1 && units >= BFLOAT16_UNITS_MIN;
}

bool recurrent_uses_amx(const struct backend_program *program, int64_t units)
{
    return program->device->amx && recurrent_uses_bfloat16(program, units);
}

/* ---- prepare --------------------------------------------------------------------------------- */

static int32_t input_or_none(const struct graph_node *node, int index)
{
    return index < node->input_count ? node->input[index] : -1;
}

/* The memory of a layer whose weights are int8. */
static void size_int8(struct recurrent_state *state)
{
    struct int8_packing packing =
        int8_packing_of(state->gates * state->hidden, state->hidden, (int)state->gates);

    state->unit_panels = packing.groups;
    state->weights_bytes = align_up(
        (size_t)(packing.groups * packing.vectors) * INT8_LANES * sizeof(float), MEMORY_ALIGNMENT);
    state->operand_row = int8_row_bytes(state->hidden);
}

/* The memory of a layer that multiplies its state in bfloat16. */
static void size_bfloat16(struct recurrent_state *state)
{
    int64_t depth = state->hidden * (state->backward ? state->gates : 1);
    int64_t columns = state->hidden * (state->backward ? 1 : state->gates);

    /* a panel is filled up to whole vectors of each gate, and the depth to pairs */
    state->operand_row = align_up((size_t)depth, 2) * sizeof(uint16_t);
    state->weights_bytes = align_up(align_up((size_t)state->hidden, AMX_LANES) *
                                        (size_t)(columns / state->hidden) * state->operand_row,
                                    MEMORY_ALIGNMENT);
}

int recurrent_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct recurrent_state *state = calloc(1, sizeof(*state));
    int vector = program->device->kernels->vector, panel;
    const struct graph_tensor *t;
    size_t row, bytes;

    if (!state)
        return error_no_memory(error, "a recurrent layer");
    program->nodes[index].state = state;
    state->backward = node->op == OP_RECURRENT_BACKWARD;
    state->int8 = node->op == OP_RECURRENT_INT8;
    state->cell = node->attributes.recurrent.cell;
    state->reverse = node->attributes.recurrent.reverse;
    state->gates = recurrent_cell_gates(state->cell);
    state->weights = node->input[1];
    state->bias = state->backward ? -1 : node->input[2];
    state->lengths = node->input[state->backward ? 4 : 3];
    state->h0 = state->backward ? -1 : input_or_none(node, RECURRENT_H0);
    state->c0 = state->backward ? -1 : input_or_none(node, RECURRENT_C0);
    state->memory_first = state->backward ? input_or_none(node, 5) : -1;
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
    if (state->backward || (state->cell == RECURRENT_LSTM && state->c0 < 0))
        state->content_bytes = align_up((size_t)program->graph->batch * row, MEMORY_ALIGNMENT);
    state->bfloat16 =
        !state->int8 && program->device->amx && program->graph->compute_type == TENSOR_BFLOAT16;
    if (state->int8)
        size_int8(state);
    if (state->bfloat16)
        size_bfloat16(state);
    state->operand_bytes =
        align_up((size_t)program->graph->batch * state->operand_row, MEMORY_ALIGNMENT);
    bytes = state->weights_bytes + 2 * state->state_bytes + state->content_bytes +
            2 * state->operand_bytes;
    recurrent_input_prepare(program, index, state->hidden, state->gates, bytes, &state->input);
    program->workspace[index] = bytes + state->input.bytes;
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
/* Products of integers, or of numbers in bfloat16, in the time of one of floats. A tile of AMX
 * takes about as long with one row as with all of them, because its weights have to be read. */
enum { COST_INT8 = 4, COST_BFLOAT16 = 12 };

static int64_t product_cost(const struct recurrent_state *state, int64_t rows, int64_t panels)
{
    int64_t weights = panels * (state->backward ? state->gates : 1) * state->hidden;
    int64_t least = (rows + COST_ROWS - 1) / COST_ROWS * COST_ROWS_MIN;

    if (state->bfloat16)
        return (rows + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS * weights / COST_BFLOAT16;
    return (rows > least ? rows : least) * weights / (state->int8 ? COST_INT8 : 1);
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

/* The same, as the product of the next reads it. */
static void *operand_behind(const struct step *step, int64_t i)
{
    const struct recurrent_state *state = step->state;
    size_t behind = state->weights_bytes + 2 * state->state_bytes + state->content_bytes;

    return step->workspace + behind + (size_t)(i & 1) * state->operand_bytes;
}

/* Makes the factors of the products of integers: those of the weights times that of the state. */
static void scale_products(const struct backend_program *program, const struct step *step)
{
    const struct recurrent_state *state = step->state;
    const float *scale = program_address(program, step->node->input[RECURRENT_SCALE]);
    float *to = workspace_at(step, 0);

    for (int64_t unit = 0; unit < state->unit_panels * INT8_LANES; unit++)
        for (int64_t gate = 0; gate < state->gates; gate++)
            to[(unit / INT8_LANES * state->gates + gate) * INT8_LANES + unit % INT8_LANES] =
                unit < state->hidden ? scale[gate * state->hidden + unit] / INT8_STATE_RANGE : 0.0f;
}

/* Before the first step: the factors, and the state that is carried. */
static void begin_int8(struct backend_program *program, const struct step *step, int thread)
{
    const struct recurrent_state *state = step->state;
    const float *first = state->h0 < 0 ? NULL : program_address(program, state->h0);

    for (int64_t row = 0; thread == 0 && first && row < program->graph->batch; row++)
        program->device->kernels->int8_quantize_state(first + row * state->hidden, state->hidden,
                                                      (uint8_t *)operand_behind(step, 1) +
                                                          (size_t)row * state->operand_row);
    if (thread == 0)
        scale_products(program, step);
    if (program_threads(program) > 1)
        thread_team_barrier(program->device->team, thread);
}

static void pack_weights(struct backend_program *program, const struct step *step, int thread)
{
    const struct recurrent_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    const float *weights = program_address(program, state->weights);
    const float *first = state->h0 < 0 ? NULL : program_address(program, state->h0);
    int threads = program_threads(program);
    struct range panels = {state->unit_panels * thread / threads,
                           state->unit_panels * (thread + 1) / threads};

    if (state->bfloat16)
        kernels->recurrent_pack_bfloat16(weights, state->gates, state->hidden, state->backward,
                                         panels.first, panels.end, (uint16_t *)step->workspace);
    else
        kernels->recurrent_pack(weights, state->gates, state->hidden, state->backward, panels.first,
                                panels.end, workspace_at(step, 0));
    if (state->bfloat16 && first && thread == 0)
        kernels->recurrent_round(first, program->graph->batch, state->hidden,
                                 operand_behind(step, 1),
                                 (int64_t)(state->operand_row / sizeof(uint16_t)));
    if (threads > 1)
        thread_team_barrier(program->device->team, thread);
}

/* What changes in place: of an LSTM that carries state the last content of its cells, which is a
 * result; else workspace. NULL: nothing does. */
static float *content_of(const struct backend_program *program, const struct step *step)
{
    const struct recurrent_state *state = step->state;

    if (state->c0 >= 0)
        return program_address(program, graph_recurrent_results(step->node).last_c);
    return state->content_bytes ? workspace_at(step, state->weights_bytes + 2 * state->state_bytes)
                                : NULL;
}

static void begin_content(const struct backend_program *program, const struct step *step,
                          const struct share *share)
{
    const struct recurrent_state *state = step->state;
    const float *first = state->c0 < 0 ? NULL : program_address(program, state->c0);
    float *content = content_of(program, step);

    if (!content)
        return;
    /* where threads share the units, each fills all rows before its own first step: they meet
     * behind it */
    for (int64_t i = share->rows.first * state->hidden; i < share->rows.end * state->hidden; i++)
        content[i] = first ? first[i] : 0.0f;
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

static struct recurrent_array carried_array(const struct backend_program *program, int32_t tensor)
{
    if (tensor < 0)
        return (struct recurrent_array){NULL, 0};
    return (struct recurrent_array){program_address(program, tensor),
                                    program_tensor(program, tensor)->shape.extent[1]};
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

/* The state that the time step number `i` begins with; NULL: 0. */
static const float *state_before(const struct backend_program *program, const struct step *step,
                                 int64_t i)
{
    const struct recurrent_state *state = step->state;

    if (i)
        return state_behind(step, state, i - 1);
    return state->h0 < 0 ? NULL : program_address(program, state->h0);
}

/* Where the time step number `i` leaves its state: the last one in a result, if it is carried. */
static float *state_after(const struct backend_program *program, const struct step *step, int64_t i)
{
    const struct recurrent_state *state = step->state;

    if (state->h0 < 0 || i < state->steps - 1)
        return state_behind(step, state, i);
    return program_address(program, graph_recurrent_results(step->node).last_h);
}

/* The product of the time step number `i`, of integers. */
static struct int8_state int8_state_at(const struct backend_program *program,
                                       const struct step *step, int64_t i)
{
    const struct recurrent_state *state = step->state;

    return (struct int8_state){
        .packing = int8_packing_of(state->gates * state->hidden, state->hidden, (int)state->gates),
        .weights = program_address(program, state->weights),
        .scale = workspace_at(step, 0),
        .before = i || state->h0 >= 0 ? operand_behind(step, i - 1) : NULL,
        .after = operand_behind(step, i),
        .row = (int64_t)state->operand_row,
        .instructions = program->device->int8};
}

/* The same in bfloat16. */
static struct recurrent_bfloat16 bfloat16_at(const struct step *step, int64_t i)
{
    const struct recurrent_state *state = step->state;

    return (struct recurrent_bfloat16){.weights = (const uint16_t *)(const void *)step->workspace,
                                       .before =
                                           i || state->h0 >= 0 ? operand_behind(step, i - 1) : NULL,
                                       .after = operand_behind(step, i),
                                       .row = (int64_t)(state->operand_row / sizeof(uint16_t))};
}

/* The first time step of the block that the time step number `i` is in. */
static int64_t block_first(const struct recurrent_state *state, int64_t i)
{
    int64_t number = i / state->input.block * state->input.block;
    int64_t first = state->steps - number - state->input.block;

    return !state->reverse ? number : first > 0 ? first : 0;
}

/* Computes the input's product for the block that begins with the time step number `i`. Threads
 * that share the units divide the block's steps. */
static void begin_block(struct backend_program *program, const struct step *step, int64_t i,
                        const struct share *share, int thread)
{
    const struct recurrent_state *state = step->state;
    int64_t left = state->steps - i;
    int64_t steps = left < state->input.block ? left : state->input.block;
    int64_t first = block_first(state, i), threads = program_threads(program);
    struct recurrent_part part = {first, first + steps, share->rows};

    if (share->meets) {
        part.first_step = first + steps * thread / threads;
        part.end_step = first + steps * (thread + 1) / threads;
    }
    recurrent_input_run(program, step, &state->input, first, &part, thread);
    if (share->meets)
        thread_team_barrier(program->device->team, thread);
}

/* The product of the input at the time step number `i`. */
static struct recurrent_product input_at(const struct backend_program *program,
                                         const struct step *step, int64_t i, int64_t time)
{
    const struct recurrent_state *state = step->state;
    struct recurrent_array rows;

    if (state->input.layer >= 0)
        return recurrent_input_at(step, &state->input, block_first(state, i), time);
    rows = array_at(program, step->node->input[0], time);
    return (struct recurrent_product){.start = rows.start,
                                      .panel = state->int8 ? INT8_LANES
                                                           : program->device->kernels->vector,
                                      .row = rows.row,
                                      .gate = state->hidden};
}

static void run_forward(struct backend_program *program, const struct step *step,
                        const struct share *share, int thread)
{
    const struct recurrent_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    struct recurrent_results results = graph_recurrent_results(step->node);

    for (int64_t i = 0; i < state->steps; i++) {
        int64_t time = state->reverse ? state->steps - 1 - i : i;
        const struct int8_state int8 = int8_state_at(program, step, i);
        const struct recurrent_bfloat16 bfloat16 = bfloat16_at(step, i);
        const struct recurrent_forward now = {.cell = state->cell,
                                              .hidden = state->hidden,
                                              .time = time_at(program, state, time),
                                              .weights = workspace_at(step, 0),
                                              .bias = program_address(program, state->bias),
                                              .before = state_before(program, step, i),
                                              .after = state_after(program, step, i),
                                              .content = content_of(program, step),
                                              .input = input_at(program, step, i, time),
                                              .gates = array_at(program, results.gates, time),
                                              .cells = array_at(program, results.cells, time),
                                              .output = array_at(program, results.y, time),
                                              .int8 = state->int8 ? &int8 : NULL,
                                              .bfloat16 = state->bfloat16 ? &bfloat16 : NULL};

        if (state->input.layer >= 0 && i % state->input.block == 0)
            begin_block(program, step, i, share, thread);
        (state->int8 ? kernels->recurrent_forward_int8 : kernels->recurrent_forward)(
            &now, share->rows.first, share->rows.end, share->panels.first, share->panels.end);
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
        const struct recurrent_bfloat16 bfloat16 = bfloat16_at(step, i);
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
            .memory_first = carried_array(program, state->memory_first),
            .dinput = array_at(program, node->output[0], time),
            .bfloat16 = state->bfloat16 ? &bfloat16 : NULL};

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
    begin_content(program, step, &share);
    recurrent_input_begin(program, step, &state->input, thread);
    (state->int8 ? begin_int8 : pack_weights)(program, step, thread);
    (state->backward ? run_backward : run_forward)(program, step, &share, thread);
}

/* ---- bind ------------------------------------------------------------------------------------ */

/* Declares that the step reads the node's inputs from `first` on. */
static void touch_inputs(struct backend_program *program, struct step *step,
                         const struct graph_node *node, int first)
{
    for (int i = first; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_WHOLE, false);
}

int recurrent_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int32_t layer = program->nodes[index].input_layer;
    struct step *step = program_add_step(program, index, run_steps);

    if (!step)
        return error_no_memory(error, "the program");
    /* Every thread has a task then. */
    step_divide(program, step);
    step_touch(step, step->workspace, program->workspace[index], 1, ACCESS_WHOLE, true);
    if (layer >= 0)
        touch_inputs(program, step, &program->graph->nodes[layer], 0);
    touch_inputs(program, step, node, layer >= 0 ? 1 : 0);
    for (int i = 0; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_WHOLE, true);
    return 0;
}

/* ---- carried state --------------------------------------------------------------------------- */

static void run_carry(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t width = program_sample_elements(program, node->input[0]);

    (void)thread;
    if (slice.first < slice.end)
        memcpy((float *)program_address(program, node->input[1]) + slice.first * width,
               program_sample(program, node->input[0], slice.first),
               (size_t)((slice.end - slice.first) * width) * sizeof(float));
}

int carry_state_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_carry);
    size_t row = (size_t)program_sample_elements(program, node->input[0]) * sizeof(float);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_tensor(program, step, node->input[0], ACCESS_SLICE, false);
    step_touch(step, program_address(program, node->input[1]), row, program->graph->batch,
               ACCESS_SLICE, true);
    return 0;
}
