/* operator_linear_bytes.c: linear layers that multiply bytes as they are (OP_LINEAR_BYTES).
 * Whenever weights were written, the weights times the factors by which the bytes would be
 * normalised become integers of three digits. What remains of the mean is an integer, too, so that
 * it cancels exactly.
 *
 * A row of weights may have one that is much larger than the others: that of a pixel that is dark
 * in all images costs nothing. The integers then hold the others badly, and their rounding errors
 * are a second matrix, whose products are added. */
#include "base/cleanup.h"
#include "engine/backends/cpu/digit_weights.h"
#include "engine/backends/cpu/program.h"

#include <stdlib.h>

/* Packed rows of a task, which stay in the cache of a core while all weights pass by. */
enum { BLOCK_BYTES = 256 * 1024, BLOCK_ROWS_MOST = 256 };

struct bytes_state {
    struct digit_weights weights;
    struct digit_weights rest; /* the rounding errors; without memory: they do not count */
    int64_t block;             /* rows that are packed at a time */
};

int linear_bytes_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const int64_t *weight =
        program_tensor(program, program->graph->nodes[index].input[1])->shape.extent;
    struct bytes_state *state = calloc(1, sizeof *state);
    int64_t rows;

    if (!state)
        return error_no_memory(error, "a linear layer");
    program->nodes[index].state = state;
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
    digit_weights_release(&state->rest);
    free(state);
}

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

int linear_bytes_refresh(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct bytes_state *state = program->nodes[index].state;
    const float *values = program_address(program, node->input[1]);
    int64_t depth = state->weights.depth;
    AUTO_FREE float *constants = list_constants(&node->attributes.bytes, depth);

    if (!constants)
        return error_no_memory(error, "the weights of a linear layer");
    digit_weights_release(&state->rest);
    if (digit_weights_write_for_bytes(&state->weights, values, constants, constants + depth, NULL))
        return 0;
    if (digit_weights_create(state->weights.out, depth, &state->rest, error) < 0)
        return error->code;
    digit_weights_write_for_bytes(&state->rest, values, constants, constants + depth,
                                  &state->weights);
    return 0;
}

static void use_weights(struct digits_linear *product, const struct digit_weights *weights)
{
    product->weights = weights->digits;
    product->scale = weights->scale;
    product->offset = weights->offset;
}

/* The products of packed rows by both matrices. */
static void multiply(const struct kernels *kernels, const struct bytes_state *state,
                     struct digits_linear product, int64_t rows)
{
    const bool relu = product.relu;

    use_weights(&product, &state->weights);
    if (state->rest.memory) {
        product.relu = false;
        kernels->bytes_linear(&product, rows);
        use_weights(&product, &state->rest);
        product.bias = NULL;
        product.adds = true;
        product.relu = relu;
    }
    kernels->bytes_linear(&product, rows);
}

static void run_rows(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct bytes_state *state = step->state;
    const struct graph_node *node = step->node;
    const struct kernels *kernels = program->device->kernels;
    struct range slice = program_part_of(program->graph->batch, step->tasks, task);
    int64_t depth = state->weights.depth, out = state->weights.out;
    int fused = program->nodes[node - program->graph->nodes].fused;
    const uint8_t *x = program_address(program, node->input[0]);
    uint8_t *packed = program_scratch_of(program, step->tasks, task);
    struct digits_linear product = {
        .steps = digits_steps(depth),
        .out = out,
        .x = packed,
        .bias = node->input[2] < 0 ? NULL : program_address(program, node->input[2]),
        .y_row = out,
        .relu = fused == ACTIVATION_RELU};

    (void)thread;
    for (int64_t row = slice.first, count; row < slice.end; row += count) {
        count = slice.end - row < state->block ? slice.end - row : state->block;
        kernels->digits_pack_bytes(x + row * depth, count, depth, packed);
        product.y = (float *)program_address(program, node->output[0]) + row * out;
        multiply(kernels, state, product, count);
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
