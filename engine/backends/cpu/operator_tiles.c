/* operator_tiles.c: convolutions over images in tiles (kernels/tiles.h). Each task computes its
 * slice, a block of samples at a time.
 *
 * Parameters have the layout [kernel row][kernel column][out][in]; that of the first convolution
 * has PyTorch's. Forward and the gradient by the data first round and pack them, in a step of their
 * own. The slices' gradients of the weights are partial sums, which are added in pairs.
 *
 * Measured on one Sapphire Rapids core of 2.1 GHz for ResNet-18's layers, with batches of 128 in
 * slices of 16, in milliseconds for forward / by data / by weights:
 *
 *   channels, image       these kernels         oneDNN 2.6.3, channels last, bfloat16
 *   64, 32x32             8.3 / 9.1 / 10         11 / 8.7 /  18
 *   64 -> 128, stride 2   5.0 / 5.4 / 6.5       5.3 /  13 /  23
 *   128, 16x16            7.4 / 7.5 / 9.5       7.5 / 9.5 /  20
 *   256, 8x8              6.2 / 6.3 / 8.5        11 /  12 /  28
 *   512, 4x4              6.2 / 6.2 /  13        35 /  42 /  82
 *   all 20 convolutions   111 / 115 / 160       233 / 289 / 615 */
#include "base/alignment.h"
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <stdlib.h>

struct tile_state {
    struct convolution_tensors tensors; /* `weights` is the parameter, or its gradient */
    bool unfolded;                      /* x is unfolded, so the kernel is 1x1 */
    struct tile_convolution shape;      /* used by forward and backward data */
    struct tile_gradient gradient;      /* used by backward weights */
    int64_t depth, padded_depth;        /* channels of x in the parameter, and in tiles */
    size_t weight_bytes;                /* of the packed weights, or of one task's partial sum */
    size_t partial_bytes;
    int32_t maps[];
};

/* ---- prepare --------------------------------------------------------------------------------- */

static int32_t uncast(const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;

    return producer >= 0 && graph->nodes[producer].op == OP_CAST ? graph->nodes[producer].input[0]
                                                                 : tensor;
}

/* The row or column of the source that tap `tap` reads for `place` of the result; -1: it reads
 * padding. */
static int32_t map_place(const struct conv_attributes *a, int d, bool backward, int64_t place,
                         int64_t tap, int64_t source_extent)
{
    int64_t from = place * a->stride[d] - a->padding[d] + tap * a->dilation[d];

    if (backward) {
        from = place + a->padding[d] - tap * a->dilation[d];
        if (from < 0 || from % a->stride[d])
            return -1;
        from /= a->stride[d];
    }
    return from >= 0 && from < source_extent ? (int32_t)from : -1;
}

static void fill_map(const struct conv_attributes *a, int d, bool backward, int64_t extent,
                     int64_t source_extent, int32_t *map)
{
    for (int64_t place = 0; place < extent; place++)
        for (int64_t tap = 0; tap < a->kernel[d]; tap++)
            map[place * a->kernel[d] + tap] = map_place(a, d, backward, place, tap, source_extent);
}

/* The attributes of the convolution that is computed. Over the unfolded x it has a 1x1 kernel, and
 * y's pixels. */
static struct conv_attributes effective_attributes(const struct graph_node *node, bool unfolded)
{
    static const struct conv_attributes single = {
        .stride = {1, 1}, .dilation = {1, 1}, .kernel = {1, 1}, .groups = 1};

    return unfolded ? single : node->attributes.conv;
}

static void describe_gradient(const struct backend_program *program, struct tile_state *state,
                              const struct conv_attributes *a)
{
    const int64_t *y = program_tensor(program, state->tensors.y)->shape.extent;
    const int64_t *x = program_tensor(program, state->tensors.x)->shape.extent;

    x = state->unfolded ? y : x;
    state->gradient = (struct tile_gradient){.height = x[2],
                                             .width = x[3],
                                             .channels = state->padded_depth,
                                             .out_height = y[2],
                                             .out_width = y[3],
                                             .out_channels = y[1],
                                             .amx = program->device->amx};
    for (int d = 0; d < 2; d++) {
        state->gradient.kernel[d] = a->kernel[d];
        state->gradient.stride[d] = a->stride[d];
        state->gradient.padding[d] = a->padding[d];
        state->gradient.dilation[d] = a->dilation[d];
    }
}

static void describe_convolution(const struct backend_program *program, struct tile_state *state,
                                 const struct conv_attributes *a, bool relu)
{
    bool backward = state->tensors.direction == ONEDNN_BACKWARD_DATA;
    const int64_t *x = program_tensor(program, state->tensors.x)->shape.extent;
    const int64_t *y = program_tensor(program, state->tensors.y)->shape.extent;
    const int64_t *from = backward || state->unfolded ? y : x, *to = backward ? x : y;
    int32_t *row_map = state->maps, *column_map = row_map + to[2] * a->kernel[0];

    state->shape = (struct tile_convolution){.height = from[2],
                                             .width = from[3],
                                             .channels = backward ? y[1] : state->padded_depth,
                                             .out_height = to[2],
                                             .out_width = to[3],
                                             .out_channels = to[1],
                                             .kernel = {a->kernel[0], a->kernel[1]},
                                             .row_map = row_map,
                                             .column_map = column_map,
                                             .column_step = backward ? a->stride[1] : 1,
                                             .relu = relu,
                                             .amx = program->device->amx};
    fill_map(a, 0, backward, to[2], from[2], row_map);
    fill_map(a, 1, backward, to[3], from[3], column_map);
}

/* Chooses the parameter's layout; the first convolution keeps PyTorch's. */
static int choose_layout(struct backend_program *program, const struct tile_state *state,
                         const struct graph_node *node, struct error *error)
{
    const int64_t *x = program_tensor(program, state->tensors.x)->shape.extent;
    const int64_t *y = program_tensor(program, state->tensors.y)->shape.extent;
    const struct conv_attributes *a = &node->attributes.conv;
    struct onednn_layout layout, plain;

    onednn_layout_spatial_first((int64_t[]){y[1], x[1], a->kernel[0], a->kernel[1]}, &layout);
    onednn_layout_plain_like(&layout, &plain);
    return program_choose_layout(program, state->tensors.weights,
                                 state->unfolded ? &plain : &layout, error);
}

static size_t divide_workspace(struct backend_program *program, struct tile_state *state,
                               int64_t taps)
{
    const struct kernels *kernels = program->device->kernels;
    int64_t out = program_tensor(program, state->tensors.y)->shape.extent[1];
    size_t elements = (size_t)(taps * out * state->padded_depth);

    if (state->tensors.direction != ONEDNN_BACKWARD_WEIGHTS) {
        program_reserve_scratch(program, (size_t)kernels->tile_convolve_scratch(&state->shape));
        state->weight_bytes = elements * sizeof(uint16_t);
        return state->weight_bytes;
    }
    program_reserve_scratch(program, (size_t)kernels->tile_gradient_scratch(&state->gradient));
    state->weight_bytes = elements * sizeof(float);
    state->partial_bytes = state->weight_bytes;
    if (state->tensors.bias >= 0)
        state->partial_bytes += align_up((size_t)out * sizeof(float), MEMORY_ALIGNMENT);
    return (size_t)program->tasks * state->partial_bytes;
}

int tile_convolution_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct convolution_tensors tensors = convolution_tensors(node);
    bool unfolded = program_is_unfolded(program, tensors.x);
    struct conv_attributes a = effective_attributes(node, unfolded);
    const struct conv_attributes *own = &node->attributes.conv;
    const int64_t *x = program_tensor(program, tensors.x)->shape.extent;
    const int64_t *y = program_tensor(program, tensors.y)->shape.extent;
    int64_t rows = x[2] > y[2] ? x[2] : y[2], columns = x[3] > y[3] ? x[3] : y[3];
    struct tile_state *state =
        calloc(1, sizeof(*state) +
                      (size_t)(rows * a.kernel[0] + columns * a.kernel[1]) * sizeof(*state->maps));

    if (!state)
        return error_no_memory(error, "a convolution");
    program->nodes[index].state = state;
    state->tensors = tensors;
    state->unfolded = unfolded;
    if (tensors.direction != ONEDNN_BACKWARD_WEIGHTS)
        state->tensors.weights = uncast(program->graph, tensors.weights);
    state->depth = unfolded ? x[1] * own->kernel[0] * own->kernel[1] : x[1];
    state->padded_depth = tile_padded(state->depth);
    if (tensors.direction == ONEDNN_BACKWARD_WEIGHTS)
        describe_gradient(program, state, &a);
    else
        describe_convolution(program, state, &a, program->nodes[index].fused == ACTIVATION_RELU);
    program->workspace[index] = divide_workspace(program, state, a.kernel[0] * a.kernel[1]);
    return choose_layout(program, state, node, error);
}

/* ---- run ------------------------------------------------------------------------------------- */

/* How many numbers one sample of x or y has. */
static int64_t sample_elements(const struct backend_program *program,
                               const struct tile_state *state, int32_t tensor)
{
    const int64_t *y = program_tensor(program, state->tensors.y)->shape.extent;

    if (state->unfolded && tensor == state->tensors.x)
        return state->padded_depth * y[2] * y[3];
    return program_sample_elements(program, tensor);
}

static uint16_t *sample_address(const struct backend_program *program,
                                const struct tile_state *state, int32_t tensor, int64_t sample)
{
    return (uint16_t *)program_address(program, tensor) +
           sample * sample_elements(program, state, tensor);
}

static int64_t unit_count(const struct tile_state *state)
{
    const struct tile_convolution *shape = &state->shape;

    return shape->kernel[0] * shape->kernel[1] * (shape->channels / TILE_CHANNELS) *
           (shape->out_channels / TILE_CHANNELS);
}

/* Packs the task's part of the weights: [to / 32][tap][from / 32], with two tiles in each. */
static void run_pack(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct tile_state *state = step->state;
    const struct tile_convolution *shape = &state->shape;
    bool backward = state->tensors.direction == ONEDNN_BACKWARD_DATA;
    struct range part = program_part(program, unit_count(state), task);
    int64_t taps = shape->kernel[0] * shape->kernel[1], blocks = shape->channels / TILE_CHANNELS;
    int64_t out = backward ? shape->channels : shape->out_channels;
    const float *weights = program_address(program, state->tensors.weights);

    (void)thread;
    for (int64_t unit = part.first; unit < part.end; unit++) {
        int64_t to = unit / (taps * blocks) * TILE_CHANNELS;
        int64_t tap = unit / blocks % taps, from = unit % blocks * TILE_CHANNELS;
        int64_t o = backward ? from : to, i = backward ? to : from;

        program->device->kernels->tile_pack_weights(
            weights + (tap * out + o) * state->depth + i, state->depth, state->depth - i, backward,
            (uint16_t *)(void *)step->workspace + unit * 2 * TILE_ELEMENTS);
    }
}

static void run_convolution(struct backend_program *program, const struct step *step, int task,
                            int thread)
{
    const struct tile_state *state = step->state;
    bool backward = state->tensors.direction == ONEDNN_BACKWARD_DATA;
    int32_t from = backward ? state->tensors.y : state->tensors.x;
    int32_t to = backward ? state->tensors.x : state->tensors.y;
    struct range slice = program_slice(program, task);
    int64_t samples = slice.end - slice.first;

    (void)thread;
    for (int64_t b = 0; b < tile_block_count(samples); b++) {
        int64_t first = tile_block_first(samples, b);

        program->device->kernels->tile_convolve(
            &state->shape, sample_address(program, state, from, slice.first + first),
            (const uint16_t *)(const void *)step->workspace,
            state->tensors.bias >= 0 ? program_address(program, state->tensors.bias) : NULL,
            tile_block_first(samples, b + 1) - first, program_task_scratch(program, task),
            sample_address(program, state, to, slice.first + first));
    }
}

static float *partial_sum(const struct tile_state *state, const struct step *step, int task,
                          size_t offset)
{
    return (float *)(void *)(step->workspace + (size_t)task * state->partial_bytes + offset);
}

static void run_gradient(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct tile_state *state = step->state;
    struct range slice = program_slice(program, task);
    int64_t samples = slice.end - slice.first;
    struct tile_images images = program_tile_images(program, state->tensors.y, samples);

    (void)thread;
    for (int64_t b = 0; b < tile_block_count(samples); b++) {
        int64_t first = tile_block_first(samples, b);

        program->device->kernels->tile_convolve_weights(
            &state->gradient, sample_address(program, state, state->tensors.x, slice.first + first),
            sample_address(program, state, state->tensors.y, slice.first + first),
            tile_block_first(samples, b + 1) - first, b > 0, program_task_scratch(program, task),
            partial_sum(state, step, task, 0));
    }
    if (state->tensors.bias >= 0)
        program->device->kernels->tile_channel_sum(
            sample_address(program, state, state->tensors.y, slice.first), &images,
            partial_sum(state, step, task, state->weight_bytes));
}

static void sum_partials(struct backend_program *program, const struct step *step, size_t offset,
                         int64_t count, float *result, bool accumulate)
{
    const struct tile_state *state = step->state;

    program->device->kernels->partials_sum(partial_sum(state, step, 0, offset), program->tasks,
                                           (int64_t)(state->partial_bytes / sizeof(float)), result,
                                           count, accumulate);
}

/* How many rows the parameter has: [tap][out], or [out] in PyTorch's layout. Padding does not
 * count. */
static int64_t weight_rows(const struct tile_state *state)
{
    return (int64_t)(state->weight_bytes / sizeof(float)) / state->padded_depth;
}

static void run_sum(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct tile_state *state = step->state;
    struct range part = program_part(program, weight_rows(state), task);
    float *weights = program_address(program, state->tensors.weights);
    int64_t biases = state->gradient.out_channels;
    bool adds = program_adds_to(program, step->node, state->tensors.weights);

    (void)thread;
    if (state->depth == state->padded_depth && part.first < part.end)
        sum_partials(program, step, (size_t)(part.first * state->depth) * sizeof(float),
                     (part.end - part.first) * state->depth, weights + part.first * state->depth,
                     adds);
    for (int64_t row = part.first; row < part.end && state->depth != state->padded_depth; row++)
        sum_partials(program, step, (size_t)(row * state->padded_depth) * sizeof(float),
                     state->depth, weights + row * state->depth, adds);
    part = program_part(program, biases, task);
    if (state->tensors.bias >= 0 && part.first < part.end)
        sum_partials(program, step, state->weight_bytes + (size_t)part.first * sizeof(float),
                     part.end - part.first,
                     (float *)program_address(program, state->tensors.bias) + part.first,
                     program_adds_to(program, step->node, state->tensors.bias));
}

/* ---- bind ------------------------------------------------------------------------------------ */

static void touch_images(struct backend_program *program, struct step *step, int32_t tensor,
                         bool write)
{
    const struct tile_state *state = step->state;

    step_touch(step, program_address(program, tensor),
               (size_t)sample_elements(program, state, tensor) * sizeof(uint16_t),
               program->graph->batch, ACCESS_SLICE, write);
}

static int add_data_steps(struct backend_program *program, int32_t index,
                          const struct tile_state *state)
{
    char *workspace = program->node_address[index];
    bool forward = state->tensors.direction == ONEDNN_FORWARD;
    struct step *step = program_add_step(program, index, run_pack);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    step_touch(step, workspace, 2 * TILE_ELEMENTS * sizeof(uint16_t), unit_count(state),
               ACCESS_PART, true);
    step = program_add_step(program, index, run_convolution);
    if (!step)
        return -ENOMEM;
    step_touch(step, workspace, state->weight_bytes, 1, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_WHOLE, false);
    touch_images(program, step, state->tensors.x, !forward);
    touch_images(program, step, state->tensors.y, forward);
    return 0;
}

static int add_weight_steps(struct backend_program *program, int32_t index,
                            const struct tile_state *state)
{
    char *workspace = program->node_address[index];
    struct step *step = program_add_step(program, index, run_gradient);

    if (!step)
        return -ENOMEM;
    touch_images(program, step, state->tensors.x, false);
    touch_images(program, step, state->tensors.y, false);
    step_touch(step, workspace, state->partial_bytes, program->tasks, ACCESS_TASK, true);
    step = program_add_step(program, index, run_sum);
    if (!step)
        return -ENOMEM;
    step_touch(step, workspace, state->partial_bytes, program->tasks, ACCESS_WHOLE, false);
    step_touch(step, program_address(program, state->tensors.weights),
               (size_t)state->depth * sizeof(float), weight_rows(state), ACCESS_PART, true);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_PART, true);
    return 0;
}

int tile_convolution_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct tile_state *state = program->nodes[index].state;
    int result = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS
                     ? add_weight_steps(program, index, state)
                     : add_data_steps(program, index, state);

    return result ? error_set(error, result, "no memory for the program") : 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Finds the first convolution that reads the unfolded samples. */
static const struct graph_node *reader_of(const struct graph *graph, int32_t tensor)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_CONV2D && graph->nodes[i].input[0] == tensor)
            return &graph->nodes[i];
    return NULL;
}

static struct tile_gradient unfolded_shape(const struct backend_program *program, int32_t tensor)
{
    const struct graph_node *reader = reader_of(program->graph, tensor);
    const struct conv_attributes *a = &reader->attributes.conv;
    const int64_t *x = program_tensor(program, tensor)->shape.extent;
    const int64_t *y = program_tensor(program, reader->output[0])->shape.extent;

    return (struct tile_gradient){.height = x[2],
                                  .width = x[3],
                                  .channels = x[1],
                                  .out_height = y[2],
                                  .out_width = y[3],
                                  .kernel = {a->kernel[0], a->kernel[1]},
                                  .stride = {a->stride[0], a->stride[1]},
                                  .padding = {a->padding[0], a->padding[1]},
                                  .dilation = {a->dilation[0], a->dilation[1]}};
}

static int64_t unfolded_elements(const struct tile_gradient *shape)
{
    return tile_padded(shape->channels * shape->kernel[0] * shape->kernel[1]) * shape->out_height *
           shape->out_width;
}

size_t tiles_unfolded_bytes(const struct backend_program *program, int32_t tensor)
{
    struct tile_gradient shape = unfolded_shape(program, tensor);

    return (size_t)(unfolded_elements(&shape) * program->graph->batch) * sizeof(uint16_t);
}

static void run_unfold(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    int32_t x = step->node->input[0], y = step->node->output[0];
    struct tile_gradient shape = unfolded_shape(program, y);
    struct range slice = program_slice(program, task);

    (void)thread;
    program->device->kernels->tile_unfold((const float *)program_address(program, x) +
                                              slice.first * program_sample_elements(program, x),
                                          &shape, slice.end - slice.first,
                                          (uint16_t *)program_address(program, y) +
                                              slice.first * unfolded_elements(&shape));
}

int tiles_unfold_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct tile_gradient shape = unfolded_shape(program, node->output[0]);
    struct step *step = program_add_step(program, index, run_unfold);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch(step, program_address(program, node->output[0]),
               (size_t)unfolded_elements(&shape) * sizeof(uint16_t), program->graph->batch,
               ACCESS_SLICE, true);
    return 0;
}

/* ---- between convolutions -------------------------------------------------------------------- */

void tiles_add_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t count = (slice.end - slice.first) * program_sample_elements(program, node->output[0]);

    (void)thread;
    program->device->kernels->tile_add(program_sample(program, node->input[0], slice.first),
                                       program_sample(program, node->input[1], slice.first),
                                       program_sample(program, node->output[0], slice.first),
                                       count);
}

void tiles_relu_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t count = (slice.end - slice.first) * program_sample_elements(program, node->output[0]);

    (void)thread;
    program->device->kernels->tile_relu(program_sample(program, node->input[0], slice.first),
                                        program_sample(program, node->output[0], slice.first),
                                        count);
}

void tiles_relu_backward_run(struct backend_program *program, const struct step *step, int task,
                             int thread)
{
    const struct graph_node *node = step->node;
    struct range slice = program_slice(program, task);
    int64_t count = (slice.end - slice.first) * program_sample_elements(program, node->output[0]);

    (void)thread;
    program->device->kernels->tile_relu_backward(
        program_sample(program, node->input[0], slice.first),
        program_sample(program, node->input[1], slice.first),
        program_sample(program, node->output[0], slice.first), count);
}

void tiles_reshape_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    int32_t from = step->node->input[0], to = step->node->output[0];
    struct range slice = program_slice(program, task);
    struct tile_images images = program_tile_images(
        program, program_is_tiled(program, from) ? from : to, slice.end - slice.first);

    (void)thread;
    if (program_is_tiled(program, from))
        program->device->kernels->tiles_to_plain(program_sample(program, from, slice.first),
                                                 &images, program_sample(program, to, slice.first));
    else
        program->device->kernels->plain_to_tiles(program_sample(program, from, slice.first),
                                                 &images, program_sample(program, to, slice.first));
}

/* The work of a task of a pool: x is the larger image, or its gradient. */
struct tile_pool {
    struct pool_shape shape;
    struct tile_images images; /* of x */
    void *from, *to;
    int64_t first; /* its first sample */
};

static struct tile_pool tile_pool(const struct backend_program *program, int task,
                                  const struct graph_node *node, int32_t x, int32_t y)
{
    struct range slice = program_slice(program, task);

    return (struct tile_pool){
        .shape = program_pool_shape(program, node, x, y),
        .images = program_tile_images(program, x, slice.end - slice.first),
        .from = program_sample(program, node->input[0], slice.first),
        .to = program_sample(program, node->output[0], slice.first),
        .first = slice.first,
    };
}

void tiles_max_pool_run(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct graph_node *node = step->node;
    struct tile_pool pool = tile_pool(program, task, node, node->input[0], node->output[0]);

    (void)thread;
    program->device->kernels->tile_max_pool(
        pool.from, &pool.shape, &pool.images, pool.to,
        node->output_count > 1 ? program_sample(program, node->output[1], pool.first) : NULL);
}

void tiles_max_pool_backward_run(struct backend_program *program, const struct step *step, int task,
                                 int thread)
{
    const struct graph_node *node = step->node;
    struct tile_pool pool = tile_pool(program, task, node, node->output[0], node->input[0]);

    (void)thread;
    program->device->kernels->tile_max_pool_backward(
        pool.from, program_sample(program, node->input[1], pool.first), &pool.shape, &pool.images,
        pool.to);
}

void tiles_average_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct graph_node *node = step->node;
    struct tile_pool pool = tile_pool(program, task, node, node->input[0], node->output[0]);

    (void)thread;
    program->device->kernels->tile_average(pool.from, &pool.images, pool.to);
}

void tiles_average_backward_run(struct backend_program *program, const struct step *step, int task,
                                int thread)
{
    const struct graph_node *node = step->node;
    struct tile_pool pool = tile_pool(program, task, node, node->output[0], node->input[0]);

    (void)thread;
    program->device->kernels->tile_average_backward(pool.from, &pool.images, pool.to);
}
