/* operator_winograd.c: convolutions of 3x3 with stride 1 through the kernels of kernels/winograd.h.
 *
 * Where the transformed weights are small beside the images, each task goes through its samples
 * some tiles at a time, all in its thread's scratch: transform, 36 products, transform back. Where
 * they are large (deep layers: many channels, few tiles), every task would have to read all of
 * them for a few tiles; there the images of the whole batch are transformed, and the tasks divide
 * the products by frequency, so that each reads its own weights once. The gradient by the weights
 * then needs no partial sums either.
 *
 * oneDNN 2.6 has this algorithm for AVX-512 alone, always reads all transformed weights for every
 * call, and keeps partial sums of the weights' gradient. Measured on two Cascade Lake cores, 32
 * images in two calls (512 channels: 128), milliseconds forward / gradient by data / by weights:
 *
 *   channels, image   these kernels      oneDNN Winograd    oneDNN direct
 *   64, 32x32         4.9 / 4.9 / 4.9    5.7 / 5.8 / 6.1    10.2 / 10.1 / 11.2
 *   128, 16x16        4.3 / 4.3 / 4.3    7.2 / 7.4 / 5.6     9.6 /  9.3 / 10.2
 *   256, 8x8          4.5 / 4.5 / 6.3    10.3 / 9.8 / 11.6   9.1 /  9.1 / 11.6
 *   512, 4x4          16 / 16 / 23       74 / 80 / 85       44 / 45 / 125
 *   AVX2: 64, 32x32   12 / 12 / 12       none               32 / 32 / 25
 *   AVX2: 256, 8x8    8.5 / 8.5 / 12     none               21 / 19 / 24
 *
 * A step of ResNet-18 with batches of 128 took 2.45 s before and takes 1.41 s. */
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <stdlib.h>

/* What the tiles under way may take of a core's second cache (1 MiB and more where AVX-512 is, and
 * weights want a part), and the least number of them: two rounds of the products' kernel. Where the
 * transformed gradient of the weights does not stay there anyway, it is read and written once for
 * each chunk, and larger ones pay: 128 channels reach 76% of the multipliers' rate with 2.5 MiB,
 * 65% with 0.75. */
enum {
    CHUNK_BYTES = 768 * 1024,
    CHUNK_BYTES_GRADIENT = 2560 * 1024,
    CHUNK_TILES_MIN = 24,
    CHUNK_TILES_STEP = 12
};

struct winograd_state {
    struct convolution_tensors tensors;
    int32_t source, result; /* tensors: of images, what is transformed first and what comes out */
    int64_t channels, out_channels; /* of source and result */
    struct winograd_shape shape;    /* of source and result */
    int64_t sample_tiles, tiles, chunk;
    bool divides_frequencies;
    int64_t weight_stride; /* floats from one frequency to the next */
    /* floats within the node's workspace, or the thread's scratch */
    int64_t source_offset, result_offset, weight_offset;
    int64_t partial_offset, partial_stride; /* gradients of weights and bias, by task */
};

static int64_t frequency_stride(const struct backend_program *program, int64_t rows,
                                int64_t channels)
{
    /* one line more than needed, or all 36 would compete for the same places in the cache */
    return rows * channels + program->device->kernels->vector;
}

/* ---- prepare ----------------------------------------------------------------------------------
 */

static bool lies_in_blocks(const struct backend_program *program, int32_t tensor)
{
    const struct graph_tensor *t = program_tensor(program, tensor);

    return t->type == TENSOR_FLOAT32 &&
           program_image_layout(program, tensor, 1).block == program->device->kernels->vector;
}

/* The layout that the kernels want. */
static void weights_layout(const struct backend_program *program, int32_t weights,
                           struct onednn_layout *layout)
{
    const int64_t *extent = program_tensor(program, weights)->shape.extent;

    onednn_layout_blocked_weights(extent, program->device->kernels->vector, layout);
}

/* Whether the device was told to do the convolution directly, by the rank of its layer. */
static bool is_chosen_direct(const struct backend_program *program,
                             const struct convolution_tensors *tensors)
{
    static const int digits[] = {
        [ONEDNN_FORWARD] = 1, [ONEDNN_BACKWARD_DATA] = 2, [ONEDNN_BACKWARD_WEIGHTS] = 4};
    const struct graph *graph = program->graph;
    int32_t gradient_of = program_tensor(program, tensors->weights)->parameter;
    int32_t weights = gradient_of >= 0 ? gradient_of : tensors->weights;
    const char *digit = program->device->direct_convolutions;

    for (int32_t i = 0; i < graph->node_count && *digit; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (node->op != OP_CONV2D || !graph_node_is_dense_3x3(node))
            continue;
        if (node->input[1] == weights)
            return (*digit - '0') & digits[tensors->direction];
        digit++;
    }
    return false;
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
        is_chosen_direct(program, &tensors) || !lies_in_blocks(program, tensors.x) ||
        !lies_in_blocks(program, tensors.y))
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

/* Divided by samples, each task reads (or, for their gradient, writes) all transformed weights;
 * divided by frequencies, the transformed images of the batch are written and read once. */
static bool divides_frequencies(const struct backend_program *program,
                                const struct winograd_state *state)
{
    return program->tasks * state->channels * state->out_channels >=
           state->tiles * (state->channels + state->out_channels);
}

static int64_t choose_chunk(const struct backend_program *program,
                            const struct winograd_state *state)
{
    int64_t most =
        (program->graph->batch + program->tasks - 1) / program->tasks * state->sample_tiles;
    int64_t bytes =
        WINOGRAD_FREQUENCIES * (state->channels + state->out_channels) * (int64_t)sizeof(float);
    bool large = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS &&
                 WINOGRAD_FREQUENCIES * state->weight_stride * (int64_t)sizeof(float) > CHUNK_BYTES;
    int64_t chunk =
        (large ? CHUNK_BYTES_GRADIENT : CHUNK_BYTES) / bytes / CHUNK_TILES_STEP * CHUNK_TILES_STEP;

    chunk = chunk > CHUNK_TILES_MIN ? chunk : CHUNK_TILES_MIN;
    return chunk < most ? chunk : most;
}

/* Images under way: the whole batch in the workspace, or some tiles in the scratch. The transformed
 * weights lie in the workspace, their gradient beside the images. */
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
        if (!state->divides_frequencies && program->tasks > 1)
            state->partial_stride = state->channels * state->out_channels * 9;
        if (state->tensors.bias >= 0)
            state->partial_stride += (state->out_channels + lines - 1) / lines * lines;
    }
    return (size_t)((workspace + program->tasks * state->partial_stride) * word);
}

int winograd_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct winograd_state *state = calloc(1, sizeof(*state));
    struct onednn_layout layout;

    if (!state)
        return error_set(error, -ENOMEM, "no memory for a convolution");
    program->nodes[index].state = state;
    state->tensors = convolution_tensors(node);
    describe_direction(program, node, state);
    state->divides_frequencies = divides_frequencies(program, state);
    state->chunk = choose_chunk(program, state);
    program->workspace[index] = divide_memory(program, state);
    weights_layout(program, state->tensors.weights, &layout);
    return program_choose_layout(program, state->tensors.weights, &layout, error);
}

/* ---- pieces -----------------------------------------------------------------------------------
 */

static float *workspace_at(const struct step *step, int64_t offset)
{
    return (float *)(void *)step->workspace + offset;
}

/* Where the transformed images (offset) lie for the task. */
static float *images_at(const struct backend_program *program, const struct step *step, int task,
                        int64_t offset)
{
    const struct winograd_state *state = step->state;

    return state->divides_frequencies ? workspace_at(step, offset)
                                      : (float *)program_task_scratch(program, task) + offset;
}

/* The task's tiles. */
static struct range task_tiles(const struct backend_program *program,
                               const struct winograd_state *state, int task)
{
    struct range slice = program_slice(program, task);

    return (struct range){slice.first * state->sample_tiles, slice.end * state->sample_tiles};
}

static struct winograd_tiles tiles_of(const struct backend_program *program, int64_t first,
                                      int64_t count, int64_t rows, int64_t channels)
{
    return (struct winograd_tiles){.first = first,
                                   .count = count,
                                   .rows = rows,
                                   .frequency_stride = frequency_stride(program, rows, channels)};
}

static struct winograd_product product_of(const struct backend_program *program,
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

static const struct range all_frequencies = {0, WINOGRAD_FREQUENCIES};

static struct range share(int64_t count, int task, int tasks)
{
    return (struct range){count * task / tasks, count * (task + 1) / tasks};
}

/* Calls for each pair of blocks of input and output channels of the weights that is the task's. */
static struct range weight_pairs(const struct backend_program *program,
                                 const struct winograd_state *state, int task)
{
    int64_t vector = program->device->kernels->vector;

    return share(state->channels / vector * (state->out_channels / vector), task, program->tasks);
}

/* The weights' own numbers of channels: the gradient by the data has them turned. */
static int64_t weight_inputs(const struct winograd_state *state)
{
    return state->tensors.direction == ONEDNN_BACKWARD_DATA ? state->out_channels : state->channels;
}

static int64_t weight_outputs(const struct winograd_state *state)
{
    return state->tensors.direction == ONEDNN_BACKWARD_DATA ? state->channels : state->out_channels;
}

static void finish_weights(struct backend_program *program, const struct winograd_state *state,
                           struct range pairs, const float *transformed, bool accumulate,
                           float *gradient)
{
    int64_t blocks = state->channels / program->device->kernels->vector;

    for (int64_t pair = pairs.first; pair < pairs.end; pair++)
        program->device->kernels->winograd_finish_weights(
            transformed, state->channels, pair % blocks, pair / blocks, state->weight_stride,
            accumulate, gradient);
}

/* ---- forward, and the gradient by the data ----------------------------------------------------
 */

static void run_weights(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct winograd_state *state = step->state;
    const float *weights = program_address(program, state->tensors.weights);
    int64_t blocks = weight_inputs(state) / program->device->kernels->vector;
    struct range pairs = weight_pairs(program, state, task);

    (void)thread;
    for (int64_t pair = pairs.first; pair < pairs.end; pair++)
        program->device->kernels->winograd_transform_weights(
            weights, weight_inputs(state), weight_outputs(state), pair % blocks, pair / blocks,
            state->tensors.direction == ONEDNN_BACKWARD_DATA, state->weight_stride,
            workspace_at(step, state->weight_offset));
}

static void transform_source(struct backend_program *program, const struct step *step, int task,
                             struct range tiles, int64_t rows, int64_t row)
{
    const struct winograd_state *state = step->state;
    struct winograd_tiles place =
        tiles_of(program, tiles.first, tiles.end - tiles.first, rows, state->channels);

    program->device->kernels->winograd_transform_data(
        program_address(program, state->source), &state->shape, state->channels, &place,
        images_at(program, step, task, state->source_offset) +
            row * program->device->kernels->vector);
}

static void finish_result(struct backend_program *program, const struct step *step, int task,
                          struct range tiles, int64_t rows, int64_t row)
{
    const struct winograd_state *state = step->state;
    struct winograd_tiles place =
        tiles_of(program, tiles.first, tiles.end - tiles.first, rows, state->out_channels);
    bool forward = state->tensors.direction == ONEDNN_FORWARD;
    const float *bias =
        forward && state->tensors.bias >= 0 ? program_address(program, state->tensors.bias) : NULL;

    program->device->kernels->winograd_finish(
        images_at(program, step, task, state->result_offset) +
            row * program->device->kernels->vector,
        &state->shape, state->out_channels, &place, bias,
        program->nodes[step->node - program->graph->nodes].fused == ACTIVATION_RELU,
        program_address(program, state->result));
}

static void run_tiles(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct winograd_state *state = step->state;
    struct range all = task_tiles(program, state, task), tiles;

    (void)thread;
    for (tiles.first = all.first; tiles.first < all.end; tiles.first = tiles.end) {
        int64_t left = all.end - tiles.first, count = left < state->chunk ? left : state->chunk;
        struct winograd_product product = product_of(program, state, count, all_frequencies);

        tiles.end = tiles.first + count;
        transform_source(program, step, task, tiles, count, 0);
        program->device->kernels->winograd_multiply(
            &product, images_at(program, step, task, state->source_offset),
            workspace_at(step, state->weight_offset),
            images_at(program, step, task, state->result_offset));
        finish_result(program, step, task, tiles, count, 0);
    }
}

/* What is done to the tiles at `row` of images that have room for `rows`. */
typedef void tiles_function(struct backend_program *program, const struct step *step, int task,
                            struct range tiles, int64_t rows, int64_t row);

/* All of the task's tiles at their place among those of the batch. */
static void run_on_batch(struct backend_program *program, const struct step *step, int task,
                         tiles_function *function)
{
    const struct winograd_state *state = step->state;
    struct range tiles = task_tiles(program, state, task);

    function(program, step, task, tiles, state->tiles, tiles.first);
}

static void run_source(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    (void)thread;
    run_on_batch(program, step, task, transform_source);
}

static void run_products(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct winograd_state *state = step->state;
    struct winograd_product product =
        product_of(program, state, state->tiles, share(WINOGRAD_FREQUENCIES, task, program->tasks));

    (void)thread;
    program->device->kernels->winograd_multiply(&product, workspace_at(step, state->source_offset),
                                                workspace_at(step, state->weight_offset),
                                                workspace_at(step, state->result_offset));
}

static void run_result(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    (void)thread;
    run_on_batch(program, step, task, finish_result);
}

/* ---- the gradient by the weights --------------------------------------------------------------
 */

static void transform_both(struct backend_program *program, const struct step *step, int task,
                           struct range tiles, int64_t rows, int64_t row)
{
    const struct winograd_state *state = step->state;
    struct winograd_tiles place =
        tiles_of(program, tiles.first, tiles.end - tiles.first, rows, state->out_channels);

    transform_source(program, step, task, tiles, rows, row);
    program->device->kernels->winograd_transform_gradient(
        program_address(program, state->result), &state->shape, state->out_channels, &place,
        images_at(program, step, task, state->result_offset) +
            row * program->device->kernels->vector);
}

static float *partial_at(const struct step *step, int task)
{
    const struct winograd_state *state = step->state;

    return workspace_at(step, state->partial_offset + task * state->partial_stride);
}

/* Where the task's part of the bias' gradient begins in its partial sums. */
static int64_t bias_offset(const struct backend_program *program,
                           const struct winograd_state *state)
{
    return state->divides_frequencies || program->tasks == 1
               ? 0
               : state->channels * state->out_channels * 9;
}

static void sum_bias(struct backend_program *program, const struct step *step, int task)
{
    const struct winograd_state *state = step->state;
    struct range slice = program_slice(program, task);
    struct image_layout layout =
        program_image_layout(program, state->result, slice.end - slice.first);

    if (state->tensors.bias >= 0)
        program->device->kernels->channel_sum(program_sample(program, state->result, slice.first),
                                              &layout,
                                              partial_at(step, task) + bias_offset(program, state));
}

static void run_gradient_tiles(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct winograd_state *state = step->state;
    struct range all = task_tiles(program, state, task), tiles;
    float *transformed = images_at(program, step, task, state->weight_offset);
    int64_t vector = program->device->kernels->vector;
    struct range pairs = {0, state->channels / vector * (state->out_channels / vector)};

    (void)thread;
    sum_bias(program, step, task);
    for (tiles.first = all.first; tiles.first < all.end; tiles.first = tiles.end) {
        int64_t left = all.end - tiles.first, count = left < state->chunk ? left : state->chunk;
        struct winograd_product product = product_of(program, state, count, all_frequencies);

        tiles.end = tiles.first + count;
        transform_both(program, step, task, tiles, count, 0);
        program->device->kernels->winograd_multiply_transposed(
            &product, images_at(program, step, task, state->source_offset),
            images_at(program, step, task, state->result_offset), tiles.first > all.first,
            transformed);
    }
    if (program->tasks == 1)
        finish_weights(program, state, pairs, transformed, program->scalars.accumulate,
                       program_address(program, state->tensors.weights));
    else
        finish_weights(program, state, pairs, transformed, false, partial_at(step, task));
}

static void run_both(struct backend_program *program, const struct step *step, int task, int thread)
{
    (void)thread;
    sum_bias(program, step, task);
    run_on_batch(program, step, task, transform_both);
}

static void run_gradient_products(struct backend_program *program, const struct step *step,
                                  int task, int thread)
{
    const struct winograd_state *state = step->state;
    struct winograd_product product =
        product_of(program, state, state->tiles, share(WINOGRAD_FREQUENCIES, task, program->tasks));

    (void)thread;
    program->device->kernels->winograd_multiply_transposed(
        &product, workspace_at(step, state->source_offset),
        workspace_at(step, state->result_offset), false, workspace_at(step, state->weight_offset));
}

static void run_gradient_result(struct backend_program *program, const struct step *step, int task,
                                int thread)
{
    const struct winograd_state *state = step->state;

    (void)thread;
    finish_weights(program, state, weight_pairs(program, state, task),
                   workspace_at(step, state->weight_offset), program->scalars.accumulate,
                   program_address(program, state->tensors.weights));
}

/* Adds the tasks' partial sums at `offset` up, part by part. */
static void sum_partials(struct backend_program *program, const struct step *step, int task,
                         int64_t offset, int64_t count, float *result)
{
    const struct winograd_state *state = step->state;
    struct range part = program_part(program, count, task);

    if (part.first < part.end)
        program->device->kernels->partials_sum(
            partial_at(step, 0) + offset + part.first, program->tasks, state->partial_stride,
            result + part.first, part.end - part.first, program->scalars.accumulate);
}

static void run_sum(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct winograd_state *state = step->state;

    (void)thread;
    if (!state->divides_frequencies && program->tasks > 1)
        sum_partials(program, step, task, 0, state->channels * state->out_channels * 9,
                     program_address(program, state->tensors.weights));
    if (state->tensors.bias >= 0)
        sum_partials(program, step, task, bias_offset(program, state), state->out_channels,
                     program_address(program, state->tensors.bias));
}

/* ---- bind -------------------------------------------------------------------------------------
 */

/* Adds a step that touches the workspace as a whole, where tasks have strided parts of it. */
static struct step *add_step(struct backend_program *program, int32_t index, step_function *run,
                             bool writes)
{
    struct step *step = program_add_step(program, index, run);

    if (step && program->workspace[index])
        step_touch(step, step->workspace, program->workspace[index], 1, ACCESS_WHOLE, writes);
    return step;
}

static int add_data_steps(struct backend_program *program, int32_t index,
                          const struct winograd_state *state)
{
    const size_t weight_bytes =
        (size_t)(WINOGRAD_FREQUENCIES * state->weight_stride) * sizeof(float);
    struct step *step = program_add_step(program, index, run_weights);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    step_touch(step, workspace_at(step, state->weight_offset), weight_bytes, 1, ACCESS_WHOLE, true);
    if (state->divides_frequencies) {
        step = program_add_step(program, index, run_source);
        if (!step)
            return -ENOMEM;
        step_touch_tensor(program, step, state->source, ACCESS_SLICE, false);
        step_touch(step, workspace_at(step, state->source_offset),
                   (size_t)(state->result_offset - state->source_offset) * sizeof(float), 1,
                   ACCESS_WHOLE, true);
        if (!add_step(program, index, run_products, true))
            return -ENOMEM;
        step = add_step(program, index, run_result, false);
    } else {
        step = add_step(program, index, run_tiles, false);
        if (step)
            step_touch_tensor(program, step, state->source, ACCESS_SLICE, false);
    }
    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->result, ACCESS_SLICE, true);
    if (state->tensors.direction == ONEDNN_FORWARD)
        step_touch_tensor(program, step, state->tensors.bias, ACCESS_WHOLE, false);
    return 0;
}

static int add_gradient_steps(struct backend_program *program, int32_t index,
                              const struct winograd_state *state)
{
    struct step *step =
        add_step(program, index, state->divides_frequencies ? run_both : run_gradient_tiles, true);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->source, ACCESS_SLICE, false);
    step_touch_tensor(program, step, state->result, ACCESS_SLICE, false);
    if (state->divides_frequencies) {
        if (!add_step(program, index, run_gradient_products, true))
            return -ENOMEM;
        step = add_step(program, index, run_gradient_result, false);
        if (!step)
            return -ENOMEM;
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, true);
    } else if (program->tasks == 1) {
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, true);
    }
    if (!state->partial_stride)
        return 0;
    step = add_step(program, index, run_sum, false);
    if (!step)
        return -ENOMEM;
    if (!state->divides_frequencies && program->tasks > 1)
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_PART, true);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_PART, true);
    return 0;
}

int winograd_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct winograd_state *state = program->nodes[index].state;
    int result = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS
                     ? add_gradient_steps(program, index, state)
                     : add_data_steps(program, index, state);

    return result ? error_set(error, result, "no memory for the program") : 0;
}
