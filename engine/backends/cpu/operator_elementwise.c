/* operator_elementwise.c: activations, dropout, add, channel scale, reshape, and their backward
 * nodes. All work on slices of the batch. Activations and add work on parts of the elements if the
 * slices differ in size. */
#include "engine/backends/cpu/program.h"

/* The elements of the node's result that the task computes. */
static struct range task_elements(const struct backend_program *program, const struct step *step,
                                  int task)
{
    int64_t elements = program_sample_elements(program, step->node->output[0]);
    struct range slice;

    if (step->divides_samples)
        return program_part_of(program->graph->batch * elements, step->tasks, task);
    slice = program_slice(program, task);
    return (struct range){slice.first * elements, slice.end * elements};
}

static float *element(const struct backend_program *program, int32_t tensor, int64_t index)
{
    return (float *)program_address(program, tensor) + index;
}

/* Runs an operator for which element i of the result depends on element i of the operands alone. */
void pointwise_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range part = task_elements(program, step, task);

    (void)thread;
    program->device->kernels->pointwise(
        node, element(program, node->input[0], part.first),
        node->input_count > 1 ? element(program, node->input[1], part.first) : NULL,
        element(program, node->output[0], part.first), part.end - part.first);
}

void channel_scale_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    struct image_layout layout =
        program_image_layout(program, node->output[0], slice.end - slice.first);

    (void)thread;
    program->device->kernels->channel_scale_forward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first), &layout,
        program_sample(program, node->output[0], slice.first));
}

void channel_scale_backward_run(struct backend_program *program, const struct step *step, int task,
                                int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    struct image_layout layout =
        program_image_layout(program, node->output[0], slice.end - slice.first);

    (void)thread;
    program->device->kernels->channel_scale_backward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first),
        program_sample(program, node->input[2], slice.first), &layout,
        program_sample(program, node->output[0], slice.first),
        program_sample(program, node->output[1], slice.first));
}

void dropout_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t per_sample = program_sample_elements(program, node->output[0]);
    struct image_layout layout =
        program_image_layout(program, node->output[0], slice.end - slice.first);
    struct dropout_mask mask = {.seed = program->scalars.seed,
                                .stream = node->attributes.dropout.dropout_stream,
                                .batch = program->scalars.batch,
                                .probability = node->attributes.dropout.probability};
    const float *x = program_sample(program, node->input[0], slice.first);
    float *y = program_sample(program, node->output[0], slice.first);

    (void)thread;
    if (node->attributes.dropout.rows)
        program->device->kernels->dropout_rows(&mask, x, y, slice.first, slice.end - slice.first,
                                               per_sample);
    else if (layout.block > 1 && layout.pixels > 1)
        program->device->kernels->dropout_blocked(&mask, x, y, &layout, slice.first);
    else
        program->device->kernels->dropout(&mask, x, y, slice.first * per_sample,
                                          (slice.end - slice.first) * per_sample);
}

/* The factors of a sample's channels are a dropout of ones. */
int channel_dropout_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    (void)error;
    program_reserve_scratch(program,
                            (size_t)program_image_layout(program, node->output[0], 1).channels * 2 *
                                sizeof(float));
    return 0;
}

void channel_dropout_run(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct graph_node *node = step->node;
    const struct kernels *kernels = program->device->kernels;
    struct image_layout layout = program_image_layout(program, node->output[0], 1);
    struct range slice = program_slice(program, task);
    struct dropout_mask mask = {.seed = program->scalars.seed,
                                .stream = node->attributes.dropout.dropout_stream,
                                .batch = program->scalars.batch,
                                .probability = node->attributes.dropout.probability};
    float *ones = program_task_scratch(program, task), *factors = ones + layout.channels;

    (void)thread;
    for (int64_t c = 0; c < layout.channels; c++)
        ones[c] = 1.0f;
    for (int64_t n = slice.first; n < slice.end; n++) {
        kernels->dropout(&mask, ones, factors, n * layout.channels, layout.channels);
        kernels->channel_scale_forward(program_sample(program, node->input[0], n), factors, &layout,
                                       program_sample(program, node->output[0], n));
    }
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* Reorders bytes only for images whose channels lie side by side: it turns them into rows, or
 * back. */
void reshape_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    int32_t from = step->node->input[0], to = step->node->output[0];
    struct range slice = program_slice(program, task);
    int64_t samples = slice.end - slice.first;
    struct image_layout x = program_image_layout(program, from, samples);
    struct image_layout y = program_image_layout(program, to, samples);
    const float *source = program_sample(program, from, slice.first);
    float *result = program_sample(program, to, slice.first);

    (void)thread;
    if (program_interleaves_channels(program, from))
        program->device->kernels->blocks_to_plain(source, result, &x);
    else
        program->device->kernels->plain_to_blocks(source, result, &y);
}

int reshape_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int32_t x = node->input[0], y = node->output[0];

    if (program_interleaves_channels(program, x) && program_interleaves_channels(program, y))
        return error_set(error, -ERROR_UNSUPPORTED,
                         "layer %s: the CPU backend cannot reshape images into images", node->name);
    if (program_interleaves_channels(program, x) || program_interleaves_channels(program, y))
        return 0;
    program_make_view(program, index);
    return 0;
}
