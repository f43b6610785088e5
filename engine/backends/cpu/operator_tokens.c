/* operator_tokens.c: positions that are added to tokens, images as tokens, and a token before the
 * others. The gradients of parameters are sums over the samples, of which each task makes a part of
 * the numbers. */
#include "engine/backends/cpu/program.h"

#include <string.h>

static int64_t token_width(const struct backend_program *program, int32_t tensor)
{
    return program_tensor(program, tensor)->shape.extent[2];
}

/* ---- positions ---- */

void add_positions_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct graph_node *node = step->node;
    int64_t count = program_sample_elements(program, node->output[0]);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        program->device->kernels->add(program_sample(program, node->input[0], n),
                                      program_address(program, node->input[1]),
                                      program_sample(program, node->output[0], n), count);
}

/* dparameter = the sum over samples of the first numbers of dy's samples. */
static void sum_samples(struct backend_program *program, const struct step *step, int task,
                        int output)
{
    const struct graph_node *node = step->node;
    int64_t stride = program_sample_elements(program, node->input[0]);
    int64_t count = graph_shape_elements(&program_tensor(program, node->output[output])->shape);
    struct range part = program_part(program, count, task);
    float *sum = (float *)program_address(program, node->output[output]) + part.first;
    const float *dy = (float *)program_sample(program, node->input[0], 0) + part.first;
    int64_t n = 0;

    if (part.first >= part.end)
        return;
    if (!program_accumulates(program, node, output)) {
        memcpy(sum, dy, (size_t)(part.end - part.first) * sizeof *sum);
        n = 1;
    }
    for (; n < program->graph->batch; n++)
        program->device->kernels->add(sum, dy + n * stride, sum, part.end - part.first);
}

static void run_add_positions_backward(struct backend_program *program, const struct step *step,
                                       int task, int thread)
{
    (void)thread;
    sum_samples(program, step, task, 0);
}

/* Tasks take numbers of a parameter, not its rows, and read them in all samples. */
int add_positions_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_add_positions_backward);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_tensor(program, step, node->input[0], ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_WHOLE, true);
    return 0;
}

/* ---- images ---- */

/* Copies between one image and its tokens. */
static void copy_image(const struct kernels *kernels, const struct image_layout *image,
                       float *pixels_in_blocks, float *tokens, bool to_tokens)
{
    const int64_t channels = image->channels, pixels = image->pixels, block = image->block;

    if (block == 1 && to_tokens)
        kernels->matrix_transpose(pixels_in_blocks, pixels, channels, pixels, tokens);
    else if (block == 1)
        kernels->matrix_transpose(tokens, channels, pixels, channels, pixels_in_blocks);
    else
        for (int64_t c = 0; c < channels; c += block) {
            float *piece = pixels_in_blocks + c * pixels;

            if (to_tokens)
                kernels->matrix_copy(piece, block, pixels, block, tokens + c, channels, false);
            else
                kernels->matrix_copy(tokens + c, channels, pixels, block, piece, block, false);
        }
}

static void copy_images(struct backend_program *program, int32_t image, int32_t tokens, int task,
                        bool to_tokens)
{
    struct range slice = program_slice(program, task);
    struct image_layout layout = program_image_layout(program, image, 1);

    for (int64_t i = slice.first; i < slice.end; i++)
        copy_image(program->device->kernels, &layout, program_sample(program, image, i),
                   program_sample(program, tokens, i), to_tokens);
}

void image_tokens_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    (void)thread;
    copy_images(program, step->node->input[0], step->node->output[0], task, true);
}

void token_image_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    (void)thread;
    copy_images(program, step->node->output[0], step->node->input[0], task, false);
}

/* Channels last, the image is its tokens. */
int image_tokens_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int32_t x = node->input[0], y = node->output[0];
    struct image_layout layout =
        program_image_layout(program, node->op == OP_IMAGE_TOKENS ? x : y, 1);

    (void)error;
    if (layout.block != layout.channels)
        return 0;
    program_make_view(program, index);
    return 0;
}

/* ---- a token before the others ---- */

void prepend_token_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct graph_node *node = step->node;
    int64_t width = token_width(program, node->output[0]);
    int64_t count = program_sample_elements(program, node->input[0]);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++) {
        float *y = program_sample(program, node->output[0], n);

        memcpy(y, program_address(program, node->input[1]), (size_t)width * sizeof *y);
        memcpy(y + width, program_sample(program, node->input[0], n), (size_t)count * sizeof *y);
    }
}

static void run_prepend_token_backward(struct backend_program *program, const struct step *step,
                                       int task, int thread)
{
    const struct graph_node *node = step->node;
    int64_t width = token_width(program, node->output[0]);
    int64_t count = program_sample_elements(program, node->output[0]);
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t n = slice.first; n < slice.end; n++)
        memcpy(program_sample(program, node->output[0], n),
               (float *)program_sample(program, node->input[0], n) + width,
               (size_t)count * sizeof(float));
}

static void run_token_sum(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    (void)thread;
    sum_samples(program, step, task, 1);
}

int prepend_token_backward_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_prepend_token_backward);

    if (!step)
        return error_no_memory(error, "the program");
    step_touch_tensor(program, step, node->input[0], ACCESS_SLICE, false);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    step = program_add_step(program, index, run_token_sum);
    if (!step)
        return error_no_memory(error, "the program");
    step_touch_tensor(program, step, node->input[0], ACCESS_WHOLE, false);
    step_touch_tensor(program, step, node->output[1], ACCESS_WHOLE, true);
    return 0;
}
