/* operator_winograd.c: convolutions of 3x3 with stride 1 through the kernels of kernels/winograd.h.
  * If the transformed weights are small compared with the images, each task goes through its
 * samples some tiles at a time, in its thread's scratch: transform, 36 products, transform back.
 * Deep layers have large weights: many channels, few tiles. There every task would have to read
 * all weights for a few tiles. Instead, the images of the whole batch are transformed, and the
 * tasks divide the products by frequency, so that each task reads its own weights once. The
 * gradient by the weights then needs no partial sums, either.
  * oneDNN 2.6 has this algorithm for AVX-512 only. Every call reads all transformed weights, and
 * the weights' gradient has partial sums. Measured on two Cascade Lake cores, with 32 images in
 * two calls (128 images for 512 channels), in milliseconds for forward / gradient by data / by
 * weights:
 *
 *   channels, image   these kernels      oneDNN Winograd    oneDNN direct
 *   64, 32x32         4.9 / 4.9 / 4.9    5.7 / 5.8 / 6.1    10.2 / 10.1 / 11.2
 *   128, 16x16        4.3 / 4.3 / 4.3    7.2 / 7.4 / 5.6     9.6 /  9.3 / 10.2
 *   256, 8x8          4.5 / 4.5 / 6.3    10.3 / 9.8 / 11.6   9.1 /  9.1 / 11.6
 *   512, 4x4          16 / 16 / 23       74 / 80 / 85       44 / 45 / 125
 *   AVX2: 64, 32x32   12 / 12 / 12       none               32 / 32 / 25
 *   AVX2: 256, 8x8    8.5 / 8.5 / 12     none               21 / 19 / 24
  * A step of ResNet-18 with batches of 128 took 2.45 s without these kernels and takes 1.41 s with
 * them. This file chooses how to divide the work; operator_winograd_data.c and
 * operator_winograd_weights.c have the steps. */
#include "engine/backends/cpu/operator_winograd_internal.h"

#include <stdlib.h>

/* Memory for the tiles of a chunk, and their least number, which is two rounds of the products'
 * kernel. A chunk stays in a core's second-level cache (at least 1 MiB on processors with AVX-512),
 * of which the weights need a part. For the gradient by the weights, a transformed gradient that
 * does not stay in the cache is read and written once for each chunk. Larger chunks pay there: 128
 * channels reach 76% of the multipliers' rate with 2.5 MiB, and 65% with 0.75 MiB. */
enum {
    CHUNK_BYTES = 768 * 1024,
    CHUNK_BYTES_GRADIENT = 2560 * 1024,
    CHUNK_TILES_MIN = 24,
    CHUNK_TILES_STEP = 12
};

static int64_t frequency_stride(const struct backend_program *program, int64_t rows,
                                int64_t channels)
{
    /* One vector more than needed, or all 36 matrices would fall into the same sets of the
     * cache. */
    return rows * channels + program->device->kernels->vector;
}

/* ---- prepare --------------------------------------------------------------------------------- */

static bool lies_in_blocks(const struct backend_program *program, int32_t tensor)
{
    const struct graph_tensor *t = program_tensor(program, tensor);

    return t->type == TENSOR_FLOAT32 &&
           program_image_layout(program, tensor, 1).block == program->device->kernels->vector;
}

/* The layout of weights that the kernels read. */
static void weights_layout(const struct backend_program *program, int32_t weights,
                           struct onednn_layout *layout)
{
    const int64_t *extent = program_tensor(program, weights)->shape.extent;

    onednn_layout_blocked_weights(extent, program->device->kernels->vector, layout);
}

bool winograd_suits(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct conv_attributes *a = &node->attributes.conv;
    struct convolution_tensors tensors = convolution_tensors(node);
    const struct onednn_layout *own = program_parameter_layout(program, tensors.weights);
    struct onednn_layout wanted;

    if (program->channels_last || !graph_node_is_dense_3x3(node) ||
        a->padding[0] != a->padding[1] || a->padding[0] > 2 ||
        program_convolution_method(program, node) != CONVOLUTION_BY_DEVICE ||
        !lies_in_blocks(program, tensors.x) || !lies_in_blocks(program, tensors.y))
        return false;
    weights_layout(program, tensors.weights, &wanted);
    return !own || onednn_layout_equal(own, &wanted);
}

static void describe_direction(const struct backend_program *program, const struct graph_node *node,
                               struct winograd_state *state)
{
    const struct convolution_tensors *tensors = &state->tensors;
    bool turned = tensors->direction == ONEDNN_BACKWARD_DATA;
    const int64_t *from, *to;

    state->source = turned ? tensors->y : tensors->x;
    state->result = turned ? tensors->x : tensors->y;
    from = program_tensor(program, state->source)->shape.extent;
    to = program_tensor(program, state->result)->shape.extent;
    state->channels = from[1];
    state->out_channels = to[1];
    state->shape = (struct winograd_shape){.height = from[2],
                                           .width = from[3],
                                           .out_height = to[2],
                                           .out_width = to[3],
                                           .padding = turned ? 2 - node->attributes.conv.padding[0]
                                                             : node->attributes.conv.padding[0]};
    state->sample_tiles =
        (to[2] + WINOGRAD_TILE - 1) / WINOGRAD_TILE * ((to[3] + WINOGRAD_TILE - 1) / WINOGRAD_TILE);
    state->tiles = state->sample_tiles * program->graph->batch;
    state->weight_stride = frequency_stride(program, state->channels, state->out_channels);
}

/* Whether to divide the work by frequencies instead of samples. Divided by samples, each task reads
 * (or for the gradient by the weights, writes) all transformed weights. Divided by frequencies, the
 * transformed images of the batch are written and read once. */
static bool divides_frequencies(const struct winograd_state *state)
{
    return state->tiles < state->tasks ||
           state->tasks * state->channels * state->out_channels >=
               state->tiles * (state->channels + state->out_channels);
}

static int64_t choose_chunk(const struct backend_program *program,
                            const struct winograd_state *state)
{
    int64_t most = state->divided ? (state->tiles + state->tasks - 1) / state->tasks
                                  : (program->graph->batch + state->tasks - 1) / state->tasks *
                                        state->sample_tiles;
    int64_t bytes =
        WINOGRAD_FREQUENCIES * (state->channels + state->out_channels) * (int64_t)sizeof(float);
    bool large = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS &&
                 WINOGRAD_FREQUENCIES * state->weight_stride * (int64_t)sizeof(float) > CHUNK_BYTES;
    int64_t chunk =
        (large ? CHUNK_BYTES_GRADIENT : CHUNK_BYTES) / bytes / CHUNK_TILES_STEP * CHUNK_TILES_STEP;

    chunk = chunk > CHUNK_TILES_MIN ? chunk : CHUNK_TILES_MIN;
    return chunk < most ? chunk : most;
}

/* Divides the memory. The transformed images are those of the whole batch, in the workspace, or
 * those of some tiles, in the scratch. The transformed weights lie in the workspace, and their
 * gradient beside the images. */
static size_t divide_memory(struct backend_program *program, struct winograd_state *state)
{
    const int64_t word = sizeof(float), lines = MEMORY_ALIGNMENT / word;
    bool gradient = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS;
    int64_t rows = state->divides_frequencies ? state->tiles : state->chunk;
    int64_t images = 0, workspace = 0;
    int64_t weights = WINOGRAD_FREQUENCIES * state->weight_stride;

    state->source_offset = images;
    images += WINOGRAD_FREQUENCIES * frequency_stride(program, rows, state->channels);
    state->result_offset = images;
    images += WINOGRAD_FREQUENCIES * frequency_stride(program, rows, state->out_channels);
    if (gradient) {
        state->weight_offset = images;
        images += weights;
    }
    if (state->divides_frequencies)
        workspace += images;
    else
        program_reserve_scratch(program, (size_t)(images * word));
    if (!gradient) {
        state->weight_offset = workspace;
        workspace += weights;
    }
    state->partial_offset = workspace;
    if (gradient) {
        if (!state->divides_frequencies && state->tasks > 1)
            state->partial_stride = state->channels * state->out_channels * 9;
        if (state->tensors.bias >= 0)
            state->partial_stride += (state->out_channels + lines - 1) / lines * lines;
    }
    return (size_t)((workspace + state->tasks * state->partial_stride) * word);
}

int winograd_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct winograd_state *state = calloc(1, sizeof(*state));
    struct onednn_layout layout;

    if (!state)
        return error_no_memory(error, "a convolution");
    program->nodes[index].state = state;
    state->tensors = convolution_tensors(node);
    describe_direction(program, node, state);
    state->divided = program_slices_differ(program);
    state->tasks = state->divided ? program->parts : program->tasks;
    state->divides_frequencies = divides_frequencies(state);
    state->chunk = choose_chunk(program, state);
    program->workspace[index] = divide_memory(program, state);
    weights_layout(program, state->tensors.weights, &layout);
    return program_choose_layout(program, state->tensors.weights, &layout, error);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

float *winograd_workspace_at(const struct step *step, int64_t offset)
{
    return (float *)(void *)step->workspace + offset;
}

float *winograd_images_at(const struct backend_program *program, const struct step *step, int task,
                          int64_t offset)
{
    const struct winograd_state *state = step->state;

    return state->divides_frequencies
               ? winograd_workspace_at(step, offset)
               : (float *)program_scratch_of(program, step->tasks, task) + offset;
}

struct range winograd_task_samples(const struct backend_program *program,
                                   const struct winograd_state *state, int task)
{
    return winograd_share(program->graph->batch, task, state->tasks);
}

struct range winograd_task_tiles(const struct backend_program *program,
                                 const struct winograd_state *state, int task)
{
    struct range slice = winograd_task_samples(program, state, task);

    if (state->divided)
        return winograd_share(state->tiles, task, state->tasks);
    return (struct range){slice.first * state->sample_tiles, slice.end * state->sample_tiles};
}

struct winograd_tiles winograd_tiles_of(const struct backend_program *program, int64_t first,
                                        int64_t count, int64_t rows, int64_t channels)
{
    return (struct winograd_tiles){.first = first,
                                   .count = count,
                                   .rows = rows,
                                   .frequency_stride = frequency_stride(program, rows, channels)};
}

struct winograd_product winograd_product_of(const struct backend_program *program,
                                            const struct winograd_state *state, int64_t tiles,
                                            struct range frequencies)
{
    return (struct winograd_product){.first_frequency = frequencies.first,
                                     .end_frequency = frequencies.end,
                                     .tiles = tiles,
                                     .channels = state->channels,
                                     .out_channels = state->out_channels,
                                     .x_stride = frequency_stride(program, tiles, state->channels),
                                     .weight_stride = state->weight_stride,
                                     .y_stride =
                                         frequency_stride(program, tiles, state->out_channels)};
}

const struct range winograd_all_frequencies = {0, WINOGRAD_FREQUENCIES};

struct range winograd_share(int64_t count, int task, int tasks)
{
    return (struct range){count * task / tasks, count * (task + 1) / tasks};
}

struct range winograd_weight_pairs(const struct backend_program *program,
                                   const struct winograd_state *state, int task)
{
    int64_t vector = program->device->kernels->vector;

    return winograd_share(state->channels / vector * (state->out_channels / vector), task,
                          state->tasks);
}

void winograd_transform_source(struct backend_program *program, const struct step *step, int task,
                               struct range tiles, int64_t rows, int64_t row)
{
    const struct winograd_state *state = step->state;
    struct winograd_tiles place =
        winograd_tiles_of(program, tiles.first, tiles.end - tiles.first, rows, state->channels);

    program->device->kernels->winograd_transform_data(
        program_address(program, state->source), &state->shape, state->channels, &place,
        winograd_images_at(program, step, task, state->source_offset) +
            row * program->device->kernels->vector);
}

void winograd_run_on_batch(struct backend_program *program, const struct step *step, int task,
                           winograd_tiles_function *function)
{
    const struct winograd_state *state = step->state;
    struct range tiles = winograd_task_tiles(program, state, task);

    function(program, step, task, tiles, state->tiles, tiles.first);
}

struct step *winograd_add_plain_step(struct backend_program *program, int32_t index,
                                     step_function *run)
{
    const struct winograd_state *state = program->nodes[index].state;
    struct step *step = program_add_step(program, index, run);

    if (step && state->divided)
        step_divide(program, step);
    return step;
}

struct step *winograd_add_step(struct backend_program *program, int32_t index, step_function *run,
                               bool writes)
{
    struct step *step = winograd_add_plain_step(program, index, run);

    if (step && program->workspace[index])
        step_touch(step, step->workspace, program->workspace[index], 1, ACCESS_WHOLE, writes);
    return step;
}

/* ---- bind ------------------------------------------------------------------------------------ */

int winograd_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct winograd_state *state = program->nodes[index].state;
    int result = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS
                     ? winograd_add_gradient_steps(program, index, state)
                     : winograd_add_data_steps(program, index, state);

    return result ? error_set(error, result, "no memory for the program") : 0;
}
