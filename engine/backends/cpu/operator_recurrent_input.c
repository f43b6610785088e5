/* operator_recurrent_input.c: see operator_recurrent_input.h. The block is [step][panel][sample]
 * [gate][unit of the panel], as the kernels read it: rows of all gates would lie a power of two
 * apart, so that the nearest cache held but a few of them. No number depends on how many steps the
 * block has, nor on who computes which part of it. */
#include "engine/backends/cpu/operator_recurrent_input.h"

/* The part of the second-level cache that a block takes: the weights, the state and what a step
 * writes need the rest. With 4 and 2 layers of 64 and 256 units were 3 and 5 % slower, with 16 no
 * faster. */
enum { CACHE_SHARE = 8 };

/* ---- prepare --------------------------------------------------------------------------------- */

/* As many time steps as fill that part of a thread's cache, if the threads share the samples. */
static int64_t block_steps(const struct backend_program *program,
                           const struct recurrent_input_state *input)
{
    int64_t threads = program_threads(program);
    int64_t bytes = input->step * (int64_t)sizeof(float) / threads;
    int64_t steps = (int64_t)program->device->cache_bytes / CACHE_SHARE / (bytes ? bytes : 1);

    return steps < 1 ? 1 : steps < input->sequence ? steps : input->sequence;
}

/* Panels if both kernels have units by the same number, else rows. */
static void choose_order(const struct backend_program *program, struct recurrent_input_state *input,
                         bool reads_groups)
{
    int64_t vector = program->device->kernels->vector, batch = program->graph->batch;
    int64_t writes = input->int8 ? INT8_LANES : vector, reads = reads_groups ? INT8_LANES : vector;
    int64_t panels = (input->hidden + reads - 1) / reads;

    input->order = (struct recurrent_product){
        .panel = batch * input->gates * reads, .row = input->gates * reads, .gate = reads};
    input->step = panels * input->order.panel;
    if (writes == reads)
        return;
    input->order = (struct recurrent_product){
        .panel = reads, .row = input->gates * input->hidden, .gate = input->hidden};
    input->step = batch * input->order.row;
}

void recurrent_input_prepare(struct backend_program *program, int32_t node, int64_t hidden,
                             int64_t gates, size_t offset, struct recurrent_input_state *input)
{
    const struct graph_node *layer;
    const struct graph_tensor *x;
    int64_t padded;

    *input = (struct recurrent_input_state){.layer = program->nodes[node].input_layer};
    if (input->layer < 0)
        return;
    layer = &program->graph->nodes[input->layer];
    x = program_tensor(program, layer->input[0]);
    input->int8 = program_int8_packing(program, layer->input[1], &input->packing);
    input->bfloat16 = program->compact[layer->input[0]] && program->compact[layer->input[1]];
    input->features = x->shape.extent[2];
    input->sequence = x->shape.extent[1];
    input->gates = gates;
    input->hidden = hidden;
    choose_order(program, input, program->graph->nodes[node].op == OP_RECURRENT_INT8);
    input->block = block_steps(program, input);
    padded = (int64_t)align_up((size_t)hidden, (size_t)program->device->kernels->vector);
    input->weights_offset = offset;
    input->block_offset = offset;
    if (input->int8)
        program_reserve_scratch(program, linear_int8_scratch_bytes(input->features));
    else
        input->block_offset += align_up((size_t)(padded * gates * input->features) *
                                            (input->bfloat16 ? sizeof(uint16_t) : sizeof(float)),
                                        MEMORY_ALIGNMENT);
    input->bytes = input->block_offset - offset +
                   align_up((size_t)(input->block * input->step) * sizeof(float), MEMORY_ALIGNMENT);
}

/* ---- run ------------------------------------------------------------------------------------- */

static void *workspace_at(const struct step *step, size_t offset)
{
    return step->workspace + offset;
}

void recurrent_input_begin(struct backend_program *program, const struct step *step,
                           const struct recurrent_input_state *input, int thread)
{
    const struct kernels *kernels = program->device->kernels;
    int threads = program_threads(program), vector = kernels->vector;
    int64_t panels = (input->hidden + vector - 1) / vector;
    int64_t first = panels * thread / threads, end = panels * (thread + 1) / threads;
    const void *weights;

    if (input->layer < 0 || input->int8)
        return;
    weights = program_address(program, program->graph->nodes[input->layer].input[1]);
    if (input->bfloat16)
        kernels->recurrent_pack_input_bfloat16(weights, input->gates, input->hidden,
                                               input->features, first, end,
                                               workspace_at(step, input->weights_offset));
    else
        kernels->recurrent_pack_input(weights, input->gates, input->hidden, input->features, first,
                                      end, workspace_at(step, input->weights_offset));
}

struct recurrent_product recurrent_input_at(const struct step *step,
                                            const struct recurrent_input_state *input,
                                            int64_t block_first, int64_t time)
{
    struct recurrent_product at = input->order;

    at.start =
        (float *)workspace_at(step, input->block_offset) + (time - block_first) * input->step;
    return at;
}

/* Rows of x: the number that the first begins with, and numbers from one to the next. */
struct input_rows {
    int64_t first, next, count;
};

/* Multiplies rows of x. */
static void multiply(struct backend_program *program, const struct step *step,
                     const struct recurrent_input_state *input, struct input_rows rows,
                     struct recurrent_product y, int thread)
{
    const struct graph_node *layer = &program->graph->nodes[input->layer];
    int32_t bias = layer->input_count > 2 ? layer->input[2] : -1;
    void *x = program_address(program, layer->input[0]), *packed;
    struct recurrent_input product = {.gates = input->gates,
                                      .hidden = input->hidden,
                                      .depth = input->features,
                                      .bias = bias < 0 ? NULL : program_address(program, bias),
                                      .x = {.row = rows.next},
                                      .y = y};

    if (input->int8) {
        const struct linear_int8_rows of_int8 = {.x = (float *)x + rows.first,
                                                 .x_row = rows.next,
                                                 .y = y.start,
                                                 .y_row = y.row,
                                                 .y_group = y.panel,
                                                 .y_vector = y.gate,
                                                 .count = rows.count};

        linear_int8_multiply(program, input->layer, &input->packing, &of_int8,
                             program->scratch + (size_t)thread * program->scratch_bytes);
        return;
    }
    packed = workspace_at(step, input->weights_offset);
    if (input->bfloat16) {
        product.bfloat16_weights = packed;
        product.bfloat16_x = (uint16_t *)x + rows.first;
    } else {
        product.weights = packed;
        product.x.start = (float *)x + rows.first;
    }
    program->device->kernels->recurrent_input(&product, rows.count);
}

void recurrent_input_run(struct backend_program *program, const struct step *step,
                         const struct recurrent_input_state *input, int64_t block_first,
                         const struct recurrent_part *part, int thread)
{
    int64_t features = input->features, sample = input->sequence * features;
    int64_t first = part->rows.first * sample + part->first_step * features;
    int64_t steps = part->end_step - part->first_step, rows = part->rows.end - part->rows.first;
    struct recurrent_product y = recurrent_input_at(step, input, block_first, part->first_step);
    /* the weights are read once for several rows: those of a step or, if they are more, of a
     * sample */
    bool by_step = rows >= steps;

    if (!input->int8 && y.panel < input->order.row) /* rows: of the writing kernel's panels */
        y.panel = program->device->kernels->vector;
    if (input->int8 && y.panel < input->order.row)
        y.panel = INT8_LANES;
    y.start += part->rows.first * y.row;
    for (int64_t i = 0; i < (by_step ? steps : rows); i++) {
        struct input_rows from = {.first = first + i * (by_step ? features : sample),
                                  .next = by_step ? sample : features,
                                  .count = by_step ? rows : steps};
        struct recurrent_product to = y;

        to.start += i * (by_step ? input->step : y.row);
        to.row = by_step ? y.row : input->step;
        multiply(program, step, input, from, to, thread);
    }
}
