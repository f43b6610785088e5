/* operator_linear_bytes.c: linear layers that multiply bytes as they are (OP_LINEAR_BYTES). The
 * weights, times the factors by which the bytes would be normalised, become integers of three
 * digits (kernels/bytes.h) whenever weights were written. What remains of the mean is an integer,
 * too, so that it cancels exactly.
 *
 * An integer differs from its weight by at most 2^-24 of the row's largest one, and the sums are
 * exact. So the result is at least as near to the exact one as a sum of float32 numbers usually is,
 * unless the factors differ much (graph_read_bytes()). */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "engine/backends/cpu/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The largest integer of three digits, -128 to 127 each. */
enum { INTEGER_MOST = ((INT8_MAX * BYTES_BASE) + INT8_MAX) * BYTES_BASE + INT8_MAX };

/* Rows that a task copies at a time, so that they stay in the caches while all weights pass by. */
enum { BLOCK_BYTES = 256 * 1024, BLOCK_ROWS_MOST = 256 };

struct bytes_state {
    struct int8_packing packing;
    int64_t depth; /* without padding */
    int64_t block; /* rows */
    int8_t *digits;
    int32_t *offset;
    float *scale;
    char *memory; /* owned: all three */
};

/* ---- prepare --------------------------------------------------------------------------------- */

static int allocate(struct bytes_state *state, struct error *error)
{
    size_t groups = (size_t)state->packing.groups;
    size_t digits = align_up(int8_packing_sums(&state->packing), MEMORY_ALIGNMENT);
    size_t offset = groups * BYTES_DIGITS * INT8_LANES * sizeof(int32_t);
    size_t all = digits + offset + groups * INT8_LANES * sizeof(float);

    state->memory = aligned_alloc(MEMORY_ALIGNMENT, align_up(all, MEMORY_ALIGNMENT));
    if (!state->memory)
        return error_no_memory(error, "the weights of a linear layer");
    memset(state->memory, 0, all);
    state->digits = (int8_t *)state->memory;
    state->offset = (int32_t *)(void *)(state->memory + digits);
    state->scale = (float *)(void *)(state->memory + digits + offset);
    return 0;
}

static size_t scratch_bytes(const struct bytes_state *state)
{
    return (size_t)((state->block + BYTES_ROWS) * state->packing.depth);
}

int linear_bytes_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const int64_t *weight =
        program_tensor(program, program->graph->nodes[index].input[1])->shape.extent;
    struct bytes_state *state = calloc(1, sizeof *state);
    int64_t padded;

    if (!state)
        return error_no_memory(error, "a linear layer");
    program->nodes[index].state = state;
    padded = (int64_t)align_up((size_t)weight[1], BYTES_DEPTH_ALIGNMENT);
    state->depth = weight[1];
    state->packing = int8_packing_of(BYTES_DIGITS * weight[0], padded, BYTES_DIGITS);
    state->block = BLOCK_BYTES / padded / BYTES_ROWS * BYTES_ROWS;
    state->block = state->block < BYTES_ROWS        ? BYTES_ROWS
                   : state->block > BLOCK_ROWS_MOST ? BLOCK_ROWS_MOST
                                                    : state->block;
    program_reserve_scratch(program, scratch_bytes(state));
    return allocate(state, error);
}

void linear_bytes_release(void *argument)
{
    struct bytes_state *state = argument;

    free(state->memory);
    free(state);
}

/* ---- refresh --------------------------------------------------------------------------------- */

/* The constants of each byte of a sample: the means, then the factors; malloc'd. */
static float *list_constants(const struct byte_normalisation *bytes, int64_t depth)
{
    float *constants = malloc(2 * (size_t)depth * sizeof *constants);

    for (int64_t k = 0; constants && k < depth; k++) {
        int64_t group = bytes->interleaved ? k % bytes->groups : k / (depth / bytes->groups);

        constants[k] = bytes->mean[group];
        constants[depth + k] = bytes->factor[group];
    }
    return constants;
}

/* Takes the lowest digit off an integer. */
static int32_t take_digit(int32_t *integer)
{
    int32_t digit = (int8_t)*integer;

    *integer = (*integer - digit) / BYTES_BASE;
    return digit;
}

/* Writes the digits of a weight. */
static void write_digits(const struct bytes_state *state, int64_t unit, int64_t k, int32_t integer)
{
    int8_t *to = state->digits +
                 (size_t)(unit / INT8_LANES) * int8_packing_group_bytes(&state->packing) +
                 (k / 4 * BYTES_DIGITS * INT8_LANES + unit % INT8_LANES) * 4 + k % 4;

    for (int d = BYTES_DIGITS - 1; d >= 0; d--)
        to[d * INT8_LANES * 4] = (int8_t)take_digit(&integer);
}

/* Divides what the mean of the bytes contributes among the digits. */
static void write_offset(const struct bytes_state *state, int64_t unit, double sum)
{
    int32_t *to = state->offset + unit / INT8_LANES * BYTES_DIGITS * INT8_LANES + unit % INT8_LANES;

    for (int d = 0; d < BYTES_DIGITS; d++) {
        double base = pow(BYTES_BASE, BYTES_DIGITS - 1 - d), digit = rint(sum / base);

        to[d * INT8_LANES] = (int32_t)digit;
        sum -= digit * base;
    }
}

static void make_integers(const struct bytes_state *state, const float *mean, const float *factor,
                          int64_t unit, const float *weights)
{
    double most = 0, inverse, sum = 0;
    bool finite = true;

    for (int64_t k = 0; k < state->depth; k++) {
        double weight = fabs((double)weights[k] * factor[k]);

        finite &= weight < INFINITY;
        most = weight > most ? weight : most;
    }
    /* weights that are no finite numbers give no number */
    state->scale[unit] = finite ? (float)(most / INTEGER_MOST) : NAN;
    inverse = finite && most > 0 ? INTEGER_MOST / most : 0;
    for (int64_t k = 0; k < state->depth; k++) {
        int32_t integer =
            inverse > 0 ? (int32_t)lrint((double)weights[k] * factor[k] * inverse) : 0;

        sum += (double)integer * mean[k];
        write_digits(state, unit, k, integer);
    }
    write_offset(state, unit, sum);
}

int linear_bytes_refresh(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct bytes_state *state = program->nodes[index].state;
    const float *weights = program_address(program, node->input[1]);
    AUTO_FREE float *constants = list_constants(&node->attributes.bytes, state->depth);

    if (!constants)
        return error_no_memory(error, "the weights of a linear layer");
    for (int64_t unit = 0; unit < state->packing.hidden; unit++)
        make_integers(state, constants, constants + state->depth, unit,
                      weights + unit * state->depth);
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

static void apply_activation(struct backend_program *program, int kind,
                             const struct bytes_linear *task, int64_t rows, struct range groups)
{
    int64_t first = groups.first * INT8_LANES, end = groups.end * INT8_LANES;

    end = end < task->packing.hidden ? end : task->packing.hidden;
    for (int64_t r = 0; r < rows && first < end; r++) {
        float *y = task->y + r * task->y_row + first;

        program->device->kernels->activation_forward((enum activation_kind)kind, y, y, end - first);
    }
}

/* Computes the groups of results for the rows. */
static void multiply(struct backend_program *program, const struct step *step, struct range rows,
                     struct range groups, uint8_t *scratch)
{
    const struct bytes_state *state = step->state;
    const struct graph_node *node = step->node;
    int fused = program->nodes[node - program->graph->nodes].fused;
    const uint8_t *x = program_address(program, node->input[0]);
    float *y = program_address(program, node->output[0]);
    struct bytes_linear task = {
        .packing = state->packing,
        .x = scratch,
        .x_row = state->packing.depth,
        .digits = state->digits,
        .offset = state->offset,
        .scale = state->scale,
        .bias = node->input[2] < 0 ? NULL : program_address(program, node->input[2]),
        .y_row = state->packing.hidden,
        .relu = fused == ACTIVATION_RELU,
        .instructions = program->device->int8};

    for (int64_t row = rows.first, count; row < rows.end; row += count) {
        count = rows.end - row < state->block ? rows.end - row : state->block;
        for (int64_t r = 0; r < count; r++)
            memcpy(scratch + r * state->packing.depth, x + (row + r) * state->depth,
                   (size_t)state->depth);
        task.y = y + row * task.y_row;
        program->device->kernels->bytes_linear(&task, count, groups.first, groups.end);
        if (fused >= 0 && fused != ACTIVATION_RELU)
            apply_activation(program, fused, &task, count, groups);
    }
}

static void run_samples(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct bytes_state *state = step->state;

    (void)thread;
    multiply(program, step, program_slice(program, task), (struct range){0, state->packing.groups},
             program_task_scratch(program, task));
}

/* Few samples: tasks share the results. */
static void run_columns(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct bytes_state *state = step->state;
    int64_t groups = state->packing.groups;

    (void)thread;
    multiply(program, step, (struct range){0, program->graph->batch},
             (struct range){groups * task / step->tasks, groups * (task + 1) / step->tasks},
             program_scratch_of(program, step->tasks, task));
}

int linear_bytes_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool shares_columns = program_slices_differ(program);
    struct step *step =
        program_add_step(program, index, shares_columns ? run_columns : run_samples);

    if (!step)
        return error_no_memory(error, "the program");
    if (shares_columns)
        step_divide(program, step);
    step_touch_inputs(program, step);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    return 0;
}
