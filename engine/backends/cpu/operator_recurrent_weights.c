/* operator_recurrent_weights.c: the gradient of LSTM and GRU by the weights that multiply the
 * state: dweight = the sum over samples and steps of dgates[b,t] h[b,t-1], where the step before
 * t is t + 1 if the layer reads backwards. As rows (b,t) lie side by side, that is one product of
 * two matrices that are shifted by a row, but for the rows at which a sample begins. Where these
 * begin with carried state, a second product of them and that state is added.
 *
 * A task computes some rows of the weights. It goes through the samples in blocks, whose dgates it
 * copies transposed, with zeros where a sample begins. In bfloat16 it rounds both factors. */
#include "base/alignment.h"
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"

#include <stdlib.h>
#include <string.h>

/* Rows (b,t) that are multiplied at a time: the copy of 128 gates fills a quarter of a second-level
 * cache of 1 MiB. */
enum { BLOCK_ROWS = 512 };
/* Products of whole blocks and of the last rows: of the gradients and y, adding or not, and of the
 * first steps' gradients and the carried state, which add. */
enum { PRODUCT_CARRIED = 4, PRODUCTS = 6 };

struct task_product {
    struct range rows;                        /* of the weights */
    struct onednn_product *product[PRODUCTS]; /* see product_index(); NULL: not needed */
    struct onednn_call *call[PRODUCTS];
};

struct recurrent_weights_state {
    enum recurrent_cell cell;
    bool reverse;
    bool bfloat16;            /* the products */
    int32_t y, dinput, gates; /* tensors; gates: GRU alone */
    int32_t h0;               /* carried state; -1: none */
    int64_t hidden, rows;     /* units; rows of the weights */
    int64_t steps, pairs;     /* pairs of a row of dinput and one of y */
    int64_t samples;
    size_t task_bytes, scaled_offset;
    size_t rounded_offset; /* bfloat16: gradients, and then rows of the output */
    struct task_product task[TASKS_MAX];
};

/* The product of a whole block or of the last rows, which adds to the gradient or not. */
static int product_index(bool rest, bool adds)
{
    return (rest ? 2 : 0) + (adds ? 1 : 0);
}

/* ---- prepare --------------------------------------------------------------------------------- */

static int create_products(struct backend_program *program, const struct graph_node *node,
                           struct recurrent_weights_state *state, struct task_product *own,
                           struct error *error)
{
    for (int i = 0; i < PRODUCTS; i++) {
        bool carried = i >= PRODUCT_CARRIED, rest = carried ? i > PRODUCT_CARRIED : i > 1;
        int64_t all = carried ? state->samples : state->pairs;
        struct onednn_product_shape shape = {.rows = own->rows.end - own->rows.first,
                                             .columns = state->hidden,
                                             .depth = rest ? all % BLOCK_ROWS : BLOCK_ROWS,
                                             .accumulate = carried || i & 1,
                                             .bfloat16 = state->bfloat16};
        int result;

        if (shape.depth == 0 || all < shape.depth || (carried && state->h0 < 0))
            continue;
        result = onednn_product_create(program->device->onednn, &shape, &own->product[i], error);
        if (result)
            return error_prefix(error, "layer %s", node->name);
        program_reserve_scratch(program, onednn_product_scratch_bytes(own->product[i]));
    }
    return 0;
}

static size_t copy_bytes(int64_t columns, size_t element)
{
    return align_up((size_t)(columns * BLOCK_ROWS) * element, MEMORY_ALIGNMENT);
}

/* Each task's copies, of at most `rows` rows of the weights. In bfloat16 the rounded gradients make
 * room for the output once they are transposed. */
static void size_workspace(struct recurrent_weights_state *state, int64_t rows)
{
    int64_t most = state->hidden > rows ? state->hidden : rows;

    state->scaled_offset =
        copy_bytes(rows, state->bfloat16 ? sizeof(uint16_t) : sizeof(float)); /* behind these */
    state->rounded_offset = state->scaled_offset;
    if (state->cell == RECURRENT_GRU)
        state->rounded_offset += copy_bytes(rows, sizeof(float));
    state->task_bytes = state->rounded_offset;
    if (state->bfloat16)
        state->task_bytes += copy_bytes(most, sizeof(uint16_t));
}

int recurrent_weights_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct recurrent_weights_state *state = calloc(1, sizeof(*state));
    const struct graph_shape *shape;
    int64_t most = 0;

    if (!state)
        return error_no_memory(error, "a recurrent layer");
    program->nodes[index].state = state;
    state->cell = node->attributes.recurrent.cell;
    state->reverse = node->attributes.recurrent.reverse;
    state->y = node->input[0];
    state->dinput = node->input[1];
    state->gates = node->input[2];
    state->h0 = node->input_count > 3 ? node->input[3] : -1;
    shape = &program_tensor(program, state->y)->shape;
    state->steps = shape->extent[1];
    state->hidden = shape->extent[2];
    state->rows = recurrent_cell_gates(state->cell) * state->hidden;
    state->samples = shape->extent[0];
    state->pairs = state->samples * state->steps - 1;
    state->bfloat16 = recurrent_uses_bfloat16(program, state->hidden);
    for (int task = 0; task < program->parts; task++) {
        struct task_product *own = &state->task[task];
        int result;

        own->rows = program_part_of(state->rows, program->parts, task);
        if (own->rows.first >= own->rows.end)
            continue;
        most = own->rows.end - own->rows.first > most ? own->rows.end - own->rows.first : most;
        result = create_products(program, node, state, own, error);
        if (result)
            return result;
    }
    size_workspace(state, most);
    program->workspace[index] = (size_t)program->parts * state->task_bytes;
    return 0;
}

void recurrent_weights_release(void *argument)
{
    struct recurrent_weights_state *state = argument;

    for (int task = 0; task < TASKS_MAX; task++)
        for (int i = 0; i < PRODUCTS; i++) {
            onednn_call_free(state->task[task].call[i]);
            onednn_product_free(state->task[task].product[i]);
        }
    free(state);
}

/* ---- run ------------------------------------------------------------------------------------- */

/* Where a matrix of floats begins, and the floats from row to row. */
struct matrix {
    const float *start;
    int64_t row;
};

static void *task_workspace(const struct step *step, int task, size_t offset)
{
    const struct recurrent_weights_state *state = step->state;

    return step->workspace + (size_t)task * state->task_bytes + offset;
}

/* Rows (b,t) of the gradients. */
struct gradient_rows {
    int64_t first, stride, count;
};

/* The gradients by what the state's product gives, columns `columns`. Of a GRU's third gate that is
 * dinput times the reset gate, which is calculated. */
static struct matrix product_gradients(struct backend_program *program, const struct step *step,
                                       int task, struct gradient_rows rows, struct range columns)
{
    const struct recurrent_weights_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    const float *dinput = (const float *)program_address(program, state->dinput) +
                          rows.first * state->rows + columns.first;
    int64_t scaled = 2 * state->hidden, width = columns.end - columns.first, plain;
    int64_t dinput_row = rows.stride * state->rows, gates_row = rows.stride * 4 * state->hidden;
    float *to = task_workspace(step, task, state->scaled_offset);
    const float *gates;

    if (state->cell == RECURRENT_LSTM || columns.end <= scaled)
        return (struct matrix){dinput, dinput_row};
    plain = columns.first < scaled ? scaled - columns.first : 0;
    gates = (const float *)program_address(program, state->gates) + rows.first * 4 * state->hidden +
            columns.first + plain - scaled;
    kernels->matrix_copy(dinput, dinput_row, rows.count, plain, to, width, false);
    kernels->rows_multiply(dinput + plain, dinput_row, gates, gates_row, rows.count, width - plain,
                           to + plain, width);
    return (struct matrix){to, width};
}

/* The time step that a layer reads first. */
static int64_t first_time(const struct recurrent_weights_state *state)
{
    return state->reverse ? state->steps - 1 : 0;
}

/* Whether a row (b,t) is the first that the layer reads of its sample. */
static bool begins_sample(const struct recurrent_weights_state *state, int64_t row)
{
    return row % state->steps == first_time(state);
}

static void transpose(struct backend_program *program, const struct step *step, int task,
                      struct matrix from, struct gradient_rows rows, bool clears)
{
    const struct recurrent_weights_state *state = step->state;
    int64_t width = state->task[task].rows.end - state->task[task].rows.first;
    float *to = task_workspace(step, task, 0);

    program->device->kernels->matrix_transpose(from.start, from.row, rows.count, width, to);
    for (int64_t r = 0; clears && r < rows.count; r++)
        for (int64_t c = 0; begins_sample(state, rows.first + r) && c < width; c++)
            to[c * rows.count + r] = 0.0f;
}

static void transpose_bfloat16(struct backend_program *program, const struct step *step, int task,
                               struct matrix from, struct gradient_rows rows, bool clears)
{
    const struct recurrent_weights_state *state = step->state;
    const struct kernels *kernels = program->device->kernels;
    int64_t width = state->task[task].rows.end - state->task[task].rows.first;
    uint16_t *rounded = task_workspace(step, task, state->rounded_offset);

    for (int64_t r = 0; r < rows.count; r++)
        if (clears && begins_sample(state, rows.first + r))
            memset(rounded + r * width, 0, (size_t)width * sizeof *rounded);
        else
            kernels->convert_bfloat16(from.start + r * from.row, rounded + r * width, width);
    kernels->matrix_transpose_bfloat16(rounded, width, rows.count, width,
                                       task_workspace(step, task, 0));
}

/* Copies gradients transposed, each at the place of the row of y that it is multiplied with. With
 * `clears` zeros, where the row of y belongs to another sample. */
static void copy_transposed(struct backend_program *program, const struct step *step, int task,
                            struct gradient_rows rows, bool clears)
{
    const struct recurrent_weights_state *state = step->state;
    struct matrix from = product_gradients(program, step, task, rows, state->task[task].rows);

    (state->bfloat16 ? transpose_bfloat16 : transpose)(program, step, task, from, rows, clears);
}

/* Multiplies the transposed gradients with `rows` rows of the layer's output, or of its carried
 * state. */
static void run_product(struct backend_program *program, const struct step *step, int task,
                        int thread, struct onednn_call *call, const float *outputs, int64_t rows)
{
    const struct recurrent_weights_state *state = step->state;
    uint16_t *rounded = task_workspace(step, task, state->rounded_offset);

    if (state->bfloat16)
        program->device->kernels->convert_bfloat16(outputs, rounded, rows * state->hidden);
    onednn_call_set_source(call, state->bfloat16 ? (const void *)rounded : outputs);
    program_record(program, onednn_call_run(call, thread));
}

static void clear_rows(struct backend_program *program, const struct step *step, struct range rows)
{
    const struct recurrent_weights_state *state = step->state;
    float *dweight = program_address(program, step->node->output[0]);

    for (int64_t i = rows.first * state->hidden; i < rows.end * state->hidden; i++)
        dweight[i] = 0.0f;
}

static void add_bias(struct backend_program *program, const struct step *step, int task,
                     int64_t first, int64_t rows, bool adds)
{
    const struct recurrent_weights_state *state = step->state;
    struct range columns = state->task[task].rows;
    struct matrix from =
        product_gradients(program, step, task, (struct gradient_rows){first, 1, rows}, columns);

    program->device->kernels->column_sum(
        from.start, rows, columns.end - columns.first, from.row,
        (float *)program_address(program, step->node->output[1]) + columns.first, adds);
}

/* Adds the products of the carried state and the gradients of the steps behind it. */
static void add_carried(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct recurrent_weights_state *state = step->state;
    const struct task_product *own = &state->task[task];
    const float *h0 = program_address(program, state->h0);

    for (int64_t first = 0; first < state->samples; first += BLOCK_ROWS) {
        bool rest = state->samples - first < BLOCK_ROWS;
        int64_t count = rest ? state->samples - first : BLOCK_ROWS;
        struct gradient_rows rows = {first * state->steps + first_time(state), state->steps, count};

        copy_transposed(program, step, task, rows, false);
        run_product(program, step, task, thread, own->call[PRODUCT_CARRIED + rest],
                    h0 + first * state->hidden, count);
    }
}

static void run_gradient(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct recurrent_weights_state *state = step->state;
    const struct task_product *own = &state->task[task];
    const float *y = program_address(program, state->y);
    int64_t shift = state->reverse ? 0 : 1; /* of dinput's row to y's; the other way y's to it */
    bool accumulate = program_accumulates(program, step->node, 0);
    bool adds_bias = program_accumulates(program, step->node, 1);

    if (own->rows.first >= own->rows.end)
        return;
    if (state->pairs == 0 && !accumulate)
        clear_rows(program, step, own->rows);
    for (int64_t first = 0; first < state->pairs; first += BLOCK_ROWS) {
        bool rest = state->pairs - first<BLOCK_ROWS, adds = first> 0 || accumulate;
        int64_t rows = rest ? state->pairs - first : BLOCK_ROWS;

        copy_transposed(program, step, task, (struct gradient_rows){first + shift, 1, rows}, true);
        run_product(program, step, task, thread, own->call[product_index(rest, adds)],
                    y + (first + 1 - shift) * state->hidden, rows);
    }
    if (state->h0 >= 0)
        add_carried(program, step, task, thread);
    for (int64_t first = 0; first < state->pairs + 1; first += BLOCK_ROWS)
        add_bias(program, step, task, first,
                 state->pairs + 1 - first < BLOCK_ROWS ? state->pairs + 1 - first : BLOCK_ROWS,
                 first > 0 || adds_bias);
}

/* ---- bind ------------------------------------------------------------------------------------ */

static int bind_calls(struct backend_program *program, int32_t index, int task, struct error *error)
{
    struct recurrent_weights_state *state = program->nodes[index].state;
    struct task_product *own = &state->task[task];
    float *dweight = program_address(program, program->graph->nodes[index].output[0]);
    char *a = program->node_address[index] + (size_t)task * state->task_bytes;
    int result = 0;

    for (int i = 0; i < PRODUCTS && !result; i++)
        if (own->product[i])
            result = onednn_product_bind(program->device->onednn, own->product[i], a, NULL, NULL,
                                         dweight + own->rows.first * state->hidden,
                                         program_scratch_of(program, program->parts, task),
                                         &own->call[i], error);
    return result;
}

int recurrent_weights_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent_weights_state *state = program->nodes[index].state;
    struct step *step;

    for (int task = 0; task < program->parts; task++) {
        int result = bind_calls(program, index, task, error);

        if (result)
            return result;
    }
    step = program_add_step(program, index, run_gradient);
    if (!step)
        return error_no_memory(error, "the program");
    step_divide(program, step);
    step_touch(step, step->workspace, state->task_bytes, program->parts, ACCESS_TASK, true);
    step_touch_tensor(program, step, state->y, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->dinput, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->gates, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->h0, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_PART, true);
    step_touch_tensor(program, step, node->output[1], ACCESS_PART, true);
    return 0;
}
