/* operator_linear_bytes.c: linear layers that multiply bytes as they are (OP_LINEAR_BYTES).
 * Whenever weights were written, the weights times the factors by which the bytes would be
 * normalised become integers of three digits. What remains of the mean is an integer, too, so that
 * it cancels exactly. Rows of weights that cannot be integers are multiplied one by one. */
#include "engine/backends/cpu/digit_weights.h"
#include "engine/backends/cpu/program.h"

#include <math.h>
#include <stdlib.h>

/* Packed rows of a task, which stay in the cache of a core while all weights pass by. */
enum { BLOCK_BYTES = 256 * 1024, BLOCK_ROWS_MOST = 256 };

struct bytes_state {
    struct digit_weights weights;
    int64_t block;    /* rows that are packed at a time */
    float *constants; /* owned: list_constants() */
};

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

int linear_bytes_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const int64_t *weight =
        program_tensor(program, program->graph->nodes[index].input[1])->shape.extent;
    struct bytes_state *state = calloc(1, sizeof *state);
    const struct byte_normalisation *bytes = &program->graph->nodes[index].attributes.bytes;
    int64_t rows;

    if (!state)
        return error_no_memory(error, "a linear layer");
    program->nodes[index].state = state;
    state->constants = list_constants(bytes, weight[1]);
    if (!state->constants)
        return error_no_memory(error, "a linear layer");
    rows = BLOCK_BYTES / (int64_t)digits_rows_bytes(1, weight[1], 1) * AMX_ROWS;
    rows = rows < BLOCK_ROWS_MOST ? rows / BYTES_ROWS * BYTES_ROWS : BLOCK_ROWS_MOST;
    state->block = rows > BYTES_ROWS ? rows : BYTES_ROWS;
    program_reserve_scratch(program, digits_rows_bytes(state->block, weight[1], 1));
    return digit_weights_create(weight[0], weight[1], &state->weights, error);
}

void linear_bytes_release(void *argument)
{
    struct bytes_state *state = argument;

    digit_weights_release(&state->weights);
    free(state->constants);
    free(state);
}

int linear_bytes_refresh(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct bytes_state *state = program->nodes[index].state;

    (void)error;
    digit_weights_write_for_bytes(&state->weights, program_address(program, node->input[1]),
                                  state->constants, state->constants + state->weights.depth);
    return 0;
}

static float multiply_one(const struct bytes_state *state, const uint8_t *x, const float *weights,
                          float bias)
{
    const float *mean = state->constants, *factor = mean + state->weights.depth;
    double sum = bias;

    for (int64_t k = 0; k < state->weights.depth; k++)
        sum += ((double)x[k] - mean[k]) * factor[k] * weights[k];
    return (float)sum;
}

/* Computes the results that the integers do not: of `count` rows of bytes. */
static void run_others(const struct bytes_state *state, const struct digits_linear *product,
                       const uint8_t *x, const float *weights, int64_t count)
{
    int64_t depth = state->weights.depth, out = state->weights.out;

    for (int64_t o = 0; o < out; o++)
        for (int64_t row = 0; isnan(product->scale[o]) && row < count; row++) {
            float y = multiply_one(state, x + row * depth, weights + o * depth,
                                   product->bias ? product->bias[o] : 0);

            product->y[row * out + o] = product->relu && y < 0 ? 0 : y;
        }
}

static void run_rows(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct bytes_state *state = step->state;
    const struct graph_node *node = step->node;
    const struct kernels *kernels = program->device->kernels;
    struct range slice = program_part_of(program->graph->batch, step->tasks, task);
    int64_t depth = state->weights.depth, out = state->weights.out;
    int fused = program->nodes[node - program->graph->nodes].fused;
    const uint8_t *x;
    struct digits_linear product = {
        .steps = digits_steps(depth),
        .out = out,
        .x = program_scratch_of(program, step->tasks, task),
        .weights = state->weights.digits,
        .scale = state->weights.scale,
        .offset = state->weights.offset,
        .bias = node->input[2] < 0 ? NULL : program_address(program, node->input[2]),
        .y_row = out,
        .relu = fused == ACTIVATION_RELU};

    (void)thread;
    for (int64_t row = slice.first, count; row < slice.end; row += count) {
        count = slice.end - row < state->block ? slice.end - row : state->block;
        x = (const uint8_t *)program_address(program, node->input[0]) + row * depth;
        kernels->digits_pack_bytes(x, count, depth, program_scratch_of(program, step->tasks, task));
        product.y = (float *)program_address(program, node->output[0]) + row * out;
        kernels->bytes_linear(&product, count);
        run_others(state, &product, x, program_address(program, node->input[1]), count);
        if (fused >= 0 && fused != ACTIVATION_RELU)
            kernels->activation_forward((enum activation_kind)fused, product.y, product.y,
                                        count * out);
    }
}

int linear_bytes_bind(struct backend_program *program, int32_t index, struct error *error)
{
    struct step *step = program_add_step(program, index, run_rows);

    if (!step)
        return error_no_memory(error, "the program");
    step_divide_by_threads(program, step);
    step_touch_inputs(program, step);
    step_touch_tensor(program, step, program->graph->nodes[index].output[0], ACCESS_SLICE, true);
    return 0;
}
