/* operator_sequence.c: operators over sequences [B,T,F], on slices of the batch: the maximum over
 * time, both strands of DNA, and features side by side. */
#include "engine/backends/cpu/program.h"

#include <string.h>

/* ---- maximum over time ----------------------------------------------------------------------- */

void max_over_time_run(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    const struct graph_node *node = step->node;
    const int64_t *extent = program_tensor(program, node->input[0])->shape.extent;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t i = slice.first; i < slice.end; i++) {
        const int32_t *length =
            node->input[1] >= 0 ? program_sample(program, node->input[1], i) : NULL;

        program->device->kernels->max_over_time(
            program_sample(program, node->input[0], i), length ? *length : extent[1], extent[2],
            program_sample(program, node->output[0], i),
            node->output_count > 1 ? program_sample(program, node->output[1], i) : NULL);
    }
}

void max_over_time_backward_run(struct backend_program *program, const struct step *step, int task,
                                int thread)
{
    const struct graph_node *node = step->node;
    const int64_t *extent = program_tensor(program, node->output[0])->shape.extent;
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t i = slice.first; i < slice.end; i++) {
        const float *dy = program_sample(program, node->input[0], i);
        const int32_t *position = program_sample(program, node->input[1], i);
        float *dx = program_sample(program, node->output[0], i);

        memset(dx, 0, (size_t)(extent[1] * extent[2]) * sizeof *dx);
        for (int64_t f = 0; f < extent[2]; f++)
            dx[position[f] * extent[2] + f] = dy[f];
    }
}

/* ---- both strands ---------------------------------------------------------------------------- */

void both_strands_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    const struct complement_attributes *complement = &node->attributes.complement;
    const int64_t length = program_tensor(program, node->input[0])->shape.extent[1];
    struct range slice = program_slice(program, task);

    (void)thread;
    for (int64_t i = slice.first; i < slice.end; i++) {
        const int32_t *x = program_sample(program, node->input[0], i);
        int32_t *y = program_sample(program, node->output[0], i);

        memcpy(y, x, (size_t)length * sizeof *y);
        for (int64_t t = 0; t < length; t++) {
            int32_t symbol = x[length - 1 - t];
            bool pairs = symbol >= 0 && symbol < complement->symbols;

            y[length + t] = pairs ? complement->of[symbol] : symbol;
        }
    }
}

/* ---- side by side ---------------------------------------------------------------------------- */

/* Copies the task's rows between `wide` and the narrow tensors that lie side by side in it. */
static void copy_columns(struct backend_program *program, int32_t wide, const int32_t *narrow,
                         int count, int task, bool join)
{
    const struct graph_shape *shape = &program_tensor(program, wide)->shape;
    struct range slice = program_slice(program, task);
    const int64_t row = shape->extent[shape->rank - 1];
    const int64_t rows = (slice.end - slice.first) * (program_sample_elements(program, wide) / row);
    float *columns = program_sample(program, wide, slice.first);

    for (int i = 0; i < count; i++) {
        const struct graph_shape *own = &program_tensor(program, narrow[i])->shape;
        const int64_t width = own->extent[own->rank - 1];
        float *part = program_sample(program, narrow[i], slice.first);

        if (join)
            program->device->kernels->matrix_copy(part, width, rows, width, columns, row, false);
        else
            program->device->kernels->matrix_copy(columns, row, rows, width, part, width, false);
        columns += width;
    }
}

/* Copies channels between a wide image and a narrow one, whose first is channel `first` of it; in
 * blocks of different sizes, number by number. */
static void copy_channels(const struct image_layout *wide, float *image,
                          const struct image_layout *narrow, float *part, int64_t first, bool join)
{
    const int64_t pixels = wide->pixels;

    for (int64_t c = 0; c < narrow->channels; c++) {
        int64_t w = first + c;
        float *to = image + w / wide->block * wide->block * pixels + w % wide->block;
        float *from = part + c / narrow->block * narrow->block * pixels + c % narrow->block;

        for (int64_t p = 0; p < pixels; p++)
            if (join)
                to[p * wide->block] = from[p * narrow->block];
            else
                from[p * narrow->block] = to[p * wide->block];
    }
}

/* The same as copy_columns() for images. In blocks of one size the channels lie one behind
 * another. */
static void copy_images(struct backend_program *program, int32_t wide, const int32_t *narrow,
                        int count, int task, bool join)
{
    struct range slice = program_slice(program, task);
    struct image_layout layout = program_image_layout(program, wide, 1);
    int64_t first = 0;

    for (int i = 0; i < count; i++) {
        struct image_layout own = program_image_layout(program, narrow[i], 1);
        bool whole = layout.block == own.block && first % layout.block == 0;
        size_t bytes = (size_t)(own.channels * own.pixels) * sizeof(float);

        for (int64_t n = slice.first; n < slice.end; n++) {
            float *image = program_sample(program, wide, n);
            float *part = program_sample(program, narrow[i], n);

            if (whole && join)
                memcpy(image + first * layout.pixels, part, bytes);
            else if (whole)
                memcpy(part, image + first * layout.pixels, bytes);
            else if (layout.block == layout.channels && own.block == own.channels)
                program->device->kernels->matrix_copy(
                    join ? part : image + first, join ? own.channels : layout.channels,
                    layout.pixels, own.channels, join ? image + first : part,
                    join ? layout.channels : own.channels, false);
            else
                copy_channels(&layout, image, &own, part, first, join);
        }
        first += own.channels;
    }
}

void concatenate_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    bool images = program_tensor(program, node->output[0])->shape.rank == 4;

    (void)thread;
    (images ? copy_images : copy_columns)(program, node->output[0], node->input, node->input_count,
                                          task, true);
}

void split_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    bool images = program_tensor(program, node->input[0])->shape.rank == 4;

    (void)thread;
    (images ? copy_images : copy_columns)(program, node->input[0], node->output, node->output_count,
                                          task, false);
}
