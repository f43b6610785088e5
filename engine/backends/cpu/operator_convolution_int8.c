/* operator_convolution_int8.c: convolutions of integers of 8 bits by oneDNN, with the batch norm,
 * sum and ReLU behind them. Images lie channels last. Tasks have their slices of the batch, or else
 * each thread its part of the samples: all slices read the weights, so many weights for few images
 * are read less often so. Where samples do not divide evenly, threads share the rows of each image.
 *
 * The norm and all scales and zero points come down to a factor and a bias for each channel. oneDNN
 * builds the factors into a primitive, so primitives are made anew when parameters were written
 * (refresh); before that, prepare makes them with other factors to learn their layouts. */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Places of the node's inputs. */
enum { X, WEIGHT, BIAS, SCALE, NORM_WEIGHT, NORM_BIAS, NORM_MEAN, NORM_VARIANCE, ADDEND };

/* A part of the batch: samples, or some rows of one sample. The task is one of the step's. */
struct piece {
    int primitive, task;
    size_t x_offset, y_offset, y_bytes;
    struct onednn_call *call;
};

struct int8_convolution_state {
    bool by_threads; /* else by slices */
    struct onednn_int8_shape shape[TASKS_MAX];
    struct onednn_int8_convolution *primitive[TASKS_MAX];
    int primitives;
    struct onednn_layout weights;
    char *packed; /* owned: the weights in that layout, and from weights_bytes on the bias */
    size_t weights_bytes;
    float *scale;         /* owned: [channels of y] */
    struct piece *pieces; /* owned */
    int64_t piece_count;
};

/* ---- shapes ---------------------------------------------------------------------------------- */

static const int64_t *extents(const struct backend_program *program, int32_t tensor)
{
    return program_tensor(program, tensor)->shape.extent;
}

/* Whether the zero point of x is part of the bias. Without padding it adds the same to all sums of
 * a channel, and oneDNN's fastest implementations have no zero points. */
static bool bias_has_zero(const struct onednn_int8_shape *whole)
{
    return whole->padding[0] == 0 && whole->padding[1] == 0 && whole->padding_end[0] <= 0 &&
           whole->padding_end[1] <= 0;
}

/* Of `samples` whole samples. */
static struct onednn_int8_shape whole_shape(const struct backend_program *program,
                                            const struct graph_node *node, int64_t samples)
{
    const struct conv_int8_attributes *a = &node->attributes.conv_int8;
    const int64_t *x = extents(program, node->input[X]), *y = extents(program, node->output[0]);
    struct onednn_int8_shape shape = {
        .samples = samples,
        .channels = x[1],
        .height = x[2],
        .width = x[3],
        .out_channels = y[1],
        .out_height = y[2],
        .out_width = y[3],
        .groups = a->conv.groups,
        .zero = a->x.zero,
        .sum = node->input[ADDEND] >= 0 ? a->addend.scale / a->y.scale : 0,
        .relu = a->relu,
        .gives_floats = program_tensor(program, node->output[0])->type == TENSOR_FLOAT32};

    for (int d = 0; d < 2; d++) {
        shape.kernel[d] = a->conv.kernel[d];
        shape.stride[d] = a->conv.stride[d];
        shape.dilation[d] = a->conv.dilation[d];
        shape.padding[d] = a->conv.padding[d];
        shape.padding_end[d] = (y[2 + d] - 1) * shape.stride[d] +
                               (shape.kernel[d] - 1) * shape.dilation[d] + 1 - x[2 + d] -
                               shape.padding[d];
    }
    if (bias_has_zero(&shape))
        shape.zero = 0;
    return shape;
}

/* Cuts the shape of one sample to rows `first` to before `end` of y. Gives the first row of x that
 * they read; -1: they read none. */
static int64_t cut_rows(struct onednn_int8_shape *shape, int64_t first, int64_t end)
{
    int64_t begin = first * shape->stride[0] - shape->padding[0];
    int64_t behind = (end - 1) * shape->stride[0] - shape->padding[0] +
                     (shape->kernel[0] - 1) * shape->dilation[0] + 1;
    int64_t top = begin < 0 ? 0 : begin, bottom = behind > shape->height ? shape->height : behind;

    if (top >= bottom)
        return -1;
    shape->padding[0] = top - begin;
    shape->padding_end[0] = behind - bottom;
    shape->height = bottom - top;
    shape->out_height = end - first;
    return top;
}

/* ---- prepare --------------------------------------------------------------------------------- */

static struct piece *add_piece(struct int8_convolution_state *state, int primitive, int task)
{
    struct piece *piece = &state->pieces[state->piece_count++];

    *piece = (struct piece){.primitive = primitive, .task = task};
    return piece;
}

static size_t element_bytes(const struct onednn_int8_shape *shape)
{
    return shape->gives_floats ? sizeof(float) : 1;
}

/* The primitive for so many whole samples, which is added if no other piece has it. */
static int primitive_of(const struct backend_program *program, const struct graph_node *node,
                        struct int8_convolution_state *state, int64_t samples)
{
    int known = 0;

    while (known < state->primitives && state->shape[known].samples != samples)
        known++;
    if (known == state->primitives)
        state->shape[state->primitives++] = whole_shape(program, node, samples);
    return known;
}

static void add_samples(const struct backend_program *program, const struct graph_node *node,
                        struct int8_convolution_state *state, struct range samples, int task)
{
    int primitive = primitive_of(program, node, state, samples.end - samples.first);
    struct piece *piece = add_piece(state, primitive, task);
    size_t x_sample = (size_t)program_sample_elements(program, node->input[X]),
           y_sample = (size_t)program_sample_elements(program, node->output[0]) *
                      element_bytes(&state->shape[primitive]);

    piece->x_offset = (size_t)samples.first * x_sample;
    piece->y_offset = (size_t)samples.first * y_sample;
    piece->y_bytes = (size_t)(samples.end - samples.first) * y_sample;
}

/* The threads take rows of each sample. False: some would read nothing but padding. */
static bool divide_rows(struct backend_program *program, const struct graph_node *node,
                        struct int8_convolution_state *state)
{
    struct onednn_int8_shape whole = whole_shape(program, node, 1);
    size_t x_row = (size_t)(whole.width * whole.channels),
           y_row = (size_t)(whole.out_width * whole.out_channels) * element_bytes(&whole),
           x_sample = x_row * (size_t)whole.height, y_sample = y_row * (size_t)whole.out_height;
    int threads = program_threads(program);

    for (int thread = 0; thread < threads; thread++) {
        int64_t first = whole.out_height * thread / threads,
                end = whole.out_height * (thread + 1) / threads, top;
        int task = program_first_task(program, program->parts, thread);

        if (first == end)
            continue;
        state->shape[state->primitives] = whole;
        top = cut_rows(&state->shape[state->primitives], first, end);
        if (top < 0)
            return false;
        for (int64_t sample = 0; sample < program->graph->batch; sample++) {
            struct piece *piece = add_piece(state, state->primitives, task);

            piece->x_offset = (size_t)sample * x_sample + (size_t)top * x_row;
            piece->y_offset = (size_t)sample * y_sample + (size_t)first * y_row;
            piece->y_bytes = (size_t)(end - first) * y_row;
        }
        state->primitives++;
    }
    return true;
}

/* The threads take samples, of at most two numbers of them. */
static void divide_samples(const struct backend_program *program, const struct graph_node *node,
                           struct int8_convolution_state *state)
{
    int64_t batch = program->graph->batch;
    int threads = program_threads(program);

    state->primitives = 0;
    state->piece_count = 0;
    for (int thread = 0; thread < threads; thread++) {
        struct range samples = {batch * thread / threads, batch * (thread + 1) / threads};

        if (samples.first < samples.end)
            add_samples(program, node, state, samples,
                        program_first_task(program, program->parts, thread));
    }
}

/* Whether slices would read more weights than images. */
static bool has_many_weights(const struct backend_program *program, const struct graph_node *node)
{
    int64_t samples = program_slice(program, 0).end;
    int64_t images = samples * (program_sample_elements(program, node->input[X]) +
                                program_sample_elements(program, node->output[0]));

    return graph_shape_elements(&program_tensor(program, node->input[WEIGHT])->shape) > images;
}

static void divide(struct backend_program *program, const struct graph_node *node,
                   struct int8_convolution_state *state)
{
    int threads = program_threads(program);

    state->by_threads = program_slices_differ(program) || has_many_weights(program, node);
    if (!state->by_threads) {
        for (int task = 0; task < program->tasks; task++)
            add_samples(program, node, state, program_slice(program, task), task);
        return;
    }
    if (!slices_differ(program->graph->batch, threads) || !divide_rows(program, node, state))
        divide_samples(program, node, state);
}

static int create_primitives(struct backend_program *program, const struct graph_node *node,
                             struct int8_convolution_state *state, bool chooses,
                             struct error *error)
{
    for (int i = 0; i < state->primitives; i++) {
        int r;

        onednn_int8_free(state->primitive[i]);
        state->primitive[i] = NULL;
        r = onednn_int8_create(program->device->onednn, &state->shape[i], state->scale,
                               chooses && i == 0 ? NULL : &state->weights, &state->primitive[i],
                               error);
        if (r < 0)
            return error_prefix(error, "layer %s", node->name);
        if (chooses && i == 0)
            onednn_int8_weights_layout(state->primitive[i], &state->weights);
        if (chooses)
            program_reserve_scratch(program, onednn_int8_scratch_bytes(state->primitive[i]));
    }
    return 0;
}

int convolution_int8_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t channels = extents(program, node->output[0])[1];
    size_t most = (size_t)program->graph->batch * (size_t)program->parts + TASKS_MAX;
    struct int8_convolution_state *state = calloc(1, sizeof *state);
    int r;

    if (!state)
        return error_no_memory(error, "a convolution");
    program->nodes[index].state = state;
    state->scale = malloc((size_t)channels * sizeof *state->scale);
    state->pieces = calloc(most, sizeof *state->pieces);
    if (!state->scale || !state->pieces)
        return error_no_memory(error, "a convolution");
    for (int64_t i = 0; i < channels; i++)
        state->scale[i] = 0.5f; /* other than 1, which oneDNN leaves out */
    divide(program, node, state);
    r = create_primitives(program, node, state, true, error);
    if (r < 0)
        return r;
    state->weights_bytes = align_up(onednn_layout_bytes(&state->weights), MEMORY_ALIGNMENT);
    state->packed = aligned_alloc(
        MEMORY_ALIGNMENT,
        align_up(state->weights_bytes + (size_t)channels * sizeof(float), MEMORY_ALIGNMENT));
    return state->packed ? 0 : error_no_memory(error, "the weights of a convolution");
}

static void free_calls(struct int8_convolution_state *state)
{
    for (int64_t i = 0; i < state->piece_count; i++) {
        onednn_call_free(state->pieces[i].call);
        state->pieces[i].call = NULL;
    }
}

void convolution_int8_release(void *argument)
{
    struct int8_convolution_state *state = argument;

    if (state->pieces)
        free_calls(state);
    for (int i = 0; i < state->primitives; i++)
        onednn_int8_free(state->primitive[i]);
    free(state->pieces);
    free(state->scale);
    free(state->packed);
    free(state);
}

/* ---- refresh --------------------------------------------------------------------------------- */

static float number(const struct backend_program *program, const struct graph_node *node, int place,
                    int64_t index, float otherwise)
{
    int32_t tensor = node->input[place];

    return tensor < 0 ? otherwise : ((const float *)program_address(program, tensor))[index];
}

/* What a weight's integer is divided by for oneDNN: 2 where its sums are exact for small integers
 * alone. */
static int weights_divisor(void)
{
    return onednn_int8_is_exact() ? 1 : 2;
}

/* Writes the weights as oneDNN gets them, row-major. */
static void divide_weights(const struct backend_program *program, const struct graph_node *node,
                           int8_t *to)
{
    int64_t count = graph_shape_elements(&program_tensor(program, node->input[WEIGHT])->shape);
    const int8_t *weights = program_address(program, node->input[WEIGHT]);
    float divisor = (float)weights_divisor();

    for (int64_t i = 0; i < count; i++)
        to[i] = (int8_t)lrintf((float)weights[i] / divisor);
}

static int64_t sum_weights(const int8_t *weights, int64_t count)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += weights[i];
    return sum;
}

/* The factors and the bias, which is in units of the sums, for the divided weights. */
static void find_factors(const struct backend_program *program, const struct graph_node *node,
                         const int8_t *weights, float *scale, float *bias)
{
    const struct conv_int8_attributes *a = &node->attributes.conv_int8;
    bool floats = program_tensor(program, node->output[0])->type == TENSOR_FLOAT32;
    int64_t channels = extents(program, node->output[0])[1];
    int64_t count =
        graph_shape_elements(&program_tensor(program, node->input[WEIGHT])->shape) / channels;
    const struct onednn_int8_shape whole = whole_shape(program, node, 1);
    float divisor = (float)weights_divisor();
    int32_t zero = a->x.zero - whole.zero; /* of what oneDNN does not know */

    for (int64_t c = 0; c < channels; c++) {
        float factor = number(program, node, NORM_WEIGHT, c, 1), unit, shift;

        if (node->input[NORM_VARIANCE] >= 0)
            factor /= sqrtf(number(program, node, NORM_VARIANCE, c, 1) + a->epsilon);
        shift =
            number(program, node, NORM_BIAS, c, 0) +
            factor * (number(program, node, BIAS, c, 0) - number(program, node, NORM_MEAN, c, 0));
        unit = a->x.scale * number(program, node, SCALE, c, 1) * factor * divisor;
        if (!(fabsf(unit) > 1e-30f)) /* the bias alone counts, which is divided by it */
            unit = 1e-30f;
        if (!floats)
            shift += a->y.scale * (float)a->y.zero;
        if (node->input[ADDEND] >= 0)
            shift -= a->addend.scale * (float)a->addend.zero;
        bias[c] = shift / unit;
        if (zero)
            bias[c] -= (float)(zero * sum_weights(weights + c * count, count));
        scale[c] = floats ? unit : unit / a->y.scale;
    }
}

/* Copies the divided weights into oneDNN's layout. */
static int copy_weights(struct backend_program *program, const struct graph_node *node,
                        const int8_t *weights, const struct int8_convolution_state *state,
                        struct error *error)
{
    const int64_t *w = extents(program, node->input[WEIGHT]);
    int64_t groups = node->attributes.conv_int8.conv.groups;
    struct onednn *onednn = program->device->onednn;
    struct onednn_reorder *reorder = NULL;
    struct onednn_call *call = NULL;
    struct onednn_layout plain;
    int r;

    onednn_layout_plain_int8((int64_t[]){groups, w[0] / groups, w[1], w[2], w[3]}, &plain);
    r = onednn_reorder_create(onednn, &plain, &state->weights, &reorder, error);
    if (r == 0)
        r = onednn_reorder_bind(onednn, reorder, weights, state->packed, &call, error);
    if (r == 0 && onednn_call_run(call, 0) < 0)
        r = error_set(error, -EIO, "oneDNN could not copy the weights of %s", node->name);
    onednn_call_free(call);
    onednn_reorder_free(reorder);
    return r;
}

static int bind_pieces(struct backend_program *program, int32_t index,
                       struct int8_convolution_state *state, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    char *x = program_address(program, node->input[X]),
         *y = program_address(program, node->output[0]);
    int tasks = state->by_threads ? program->parts : program->tasks, r = 0;

    free_calls(state);
    for (int64_t i = 0; i < state->piece_count && r == 0; i++) {
        struct piece *piece = &state->pieces[i];

        r = onednn_int8_bind(program->device->onednn, state->primitive[piece->primitive],
                             x + piece->x_offset, state->packed,
                             state->packed + state->weights_bytes, y + piece->y_offset,
                             program_scratch_of(program, tasks, piece->task), &piece->call, error);
    }
    return r;
}

int convolution_int8_refresh(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct int8_convolution_state *state = program->nodes[index].state;
    AUTO_FREE int8_t *weights =
        malloc((size_t)graph_shape_elements(&program_tensor(program, node->input[WEIGHT])->shape));
    int r;

    if (!weights)
        return error_no_memory(error, "the weights of a convolution");
    divide_weights(program, node, weights);
    find_factors(program, node, weights, state->scale,
                 (float *)(void *)(state->packed + state->weights_bytes));
    r = create_primitives(program, node, state, false, error);
    if (r == 0)
        r = copy_weights(program, node, weights, state, error);
    return r == 0 ? bind_pieces(program, index, state, error) : r;
}

/* ---- run ------------------------------------------------------------------------------------- */

static void run_pieces(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct int8_convolution_state *state = step->state;
    int32_t addend = step->node->input[ADDEND];
    char *y = program_address(program, step->node->output[0]);

    for (int64_t i = 0; i < state->piece_count; i++) {
        const struct piece *piece = &state->pieces[i];

        if (piece->task != task)
            continue;
        if (addend >= 0) /* oneDNN adds to what is there */
            memcpy(y + piece->y_offset,
                   (const char *)program_address(program, addend) + piece->y_offset,
                   piece->y_bytes);
        program_record(program, onednn_call_run(piece->call, thread));
    }
}

int convolution_int8_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct int8_convolution_state *state = program->nodes[index].state;
    struct step *step = program_add_step(program, index, run_pieces);

    if (!step)
        return error_no_memory(error, "the program");
    if (state->by_threads)
        step_divide(program, step);
    step_touch_tensor(program, step, node->input[X], ACCESS_SLICE, false);
    step_touch_tensor(program, step, node->input[ADDEND], ACCESS_SLICE, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    return 0;
}
