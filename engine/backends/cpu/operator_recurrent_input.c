/* operator_recurrent_input.c: see operator_recurrent_input.h. The block is [step][sample][gates
 * hidden]. No number depends on how many steps it has, nor on who computes which part of it. */
#include "engine/backends/cpu/operator_recurrent_input.h"

/* The part of the second-level cache that a block takes: the weights, the state and what a step
 * writes need the rest. */
enum { CACHE_SHARE = 4 };

/* ---- prepare --------------------------------------------------------------------------------- */

/* As many time steps as fill that part of a thread's cache, if the threads share the samples. */
static int64_t block_steps(const struct backend_program *program,
                           const struct recurrent_input_state *input)
{
    int64_t threads = program_threads(program);
    int64_t rows = (program->graph->batch + threads - 1) / threads;
    int64_t step = rows * input->gates * input->hidden * (int64_t)sizeof(float);
    int64_t steps = (int64_t)program->device->cache_bytes / CACHE_SHARE / step;

    return steps < 1 ? 1 : steps < input->sequence ? steps : input->sequence;
}

void recurrent_input_prepare(struct backend_program *program, int32_t node, int64_t hidden,
                             int64_t gates, size_t offset, struct recurrent_input_state *input)
{
    const struct graph_node *layer;
    const struct graph_tensor *x;
    int64_t rows = program->graph->batch, padded;

    *input = (struct recurrent_input_state){.layer = program->nodes[node].input_layer};
    if (input->layer < 0)
        return;
    layer = &program->graph->nodes[input->layer];
    x = program_tensor(program, layer->input[0]);
    input->int8 = program_int8_packing(program, layer->input[1], &input->packing);
    input->features = x->shape.extent[2];
    input->sequence = x->shape.extent[1];
    input->gates = gates;
    input->hidden = hidden;
    input->block = block_steps(program, input);
    padded = (int64_t)align_up((size_t)hidden, (size_t)program->device->kernels->vector);
    input->weights_offset = offset;
    input->row_offset = offset;
    if (input->int8)
        program_reserve_scratch(program, linear_int8_scratch_bytes(input->features));
    else
        input->row_offset +=
            align_up((size_t)(padded * gates * input->features) * sizeof(float), MEMORY_ALIGNMENT);
    input->bytes =
        input->row_offset - offset +
        align_up((size_t)(input->block * rows * gates * hidden) * sizeof(float), MEMORY_ALIGNMENT);
}

/* ---- run ------------------------------------------------------------------------------------- */

static float *workspace_at(const struct step *step, size_t offset)
{
    return (float *)(void *)(step->workspace + offset);
}

void recurrent_input_begin(struct backend_program *program, const struct step *step,
                           const struct recurrent_input_state *input, int thread)
{
    int threads = program_threads(program), vector = program->device->kernels->vector;
    int64_t panels = (input->hidden + vector - 1) / vector;

    if (input->layer < 0 || input->int8)
        return;
    program->device->kernels->recurrent_pack_input(
        program_address(program, program->graph->nodes[input->layer].input[1]), input->gates,
        input->hidden, input->features, panels * thread / threads, panels * (thread + 1) / threads,
        workspace_at(step, input->weights_offset));
}

struct recurrent_array recurrent_input_at(const struct step *step,
                                          const struct backend_program *program,
                                          const struct recurrent_input_state *input,
                                          int64_t block_first, int64_t time)
{
    int64_t row = input->gates * input->hidden;
    float *start = workspace_at(step, input->row_offset);

    return (struct recurrent_array){start + (time - block_first) * program->graph->batch * row,
                                    row};
}

/* Multiplies `count` rows of x. */
static void multiply(struct backend_program *program, const struct step *step,
                     const struct recurrent_input_state *input, struct recurrent_array x,
                     struct recurrent_array y, int64_t count, int thread)
{
    const struct graph_node *layer = &program->graph->nodes[input->layer];
    int32_t bias = layer->input_count > 2 ? layer->input[2] : -1;

    if (input->int8) {
        const struct linear_int8_rows rows = {
            .x = x.start, .x_row = x.row, .y = y.start, .y_row = y.row, .count = count};

        linear_int8_multiply(program, input->layer, &input->packing, &rows,
                             program->scratch + (size_t)thread * program->scratch_bytes);
        return;
    }
    program->device->kernels->recurrent_input(
        &(struct recurrent_input){.gates = input->gates,
                                  .hidden = input->hidden,
                                  .depth = input->features,
                                  .weights = workspace_at(step, input->weights_offset),
                                  .bias = bias < 0 ? NULL : program_address(program, bias),
                                  .x = x,
                                  .y = y},
        count);
}

void recurrent_input_run(struct backend_program *program, const struct step *step,
                         const struct recurrent_input_state *input, int64_t block_first,
                         const struct recurrent_part *part, int thread)
{
    float *x = program_address(program, program->graph->nodes[input->layer].input[0]);
    int64_t features = input->features, sample = input->sequence * features;
    int64_t steps = part->end_step - part->first_step, rows = part->rows.end - part->rows.first;
    int64_t batch = program->graph->batch;
    struct recurrent_array y =
        recurrent_input_at(step, program, input, block_first, part->first_step);

    x += part->rows.first * sample + part->first_step * features;
    y.start += part->rows.first * y.row;
    /* the weights are read once for several rows: those of a step or, if they are more, of a
     * sample */
    for (int64_t i = 0; rows >= steps && i < steps; i++)
        multiply(program, step, input, (struct recurrent_array){x + i * features, sample},
                 (struct recurrent_array){y.start + i * batch * y.row, y.row}, rows, thread);
    for (int64_t r = 0; rows < steps && r < rows; r++)
        multiply(program, step, input, (struct recurrent_array){x + r * sample, features},
                 (struct recurrent_array){y.start + r * y.row, batch * y.row}, steps, thread);
}
