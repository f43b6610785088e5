/* program_tensors.c: tells how and where the tensors of a program are stored, and which of them a
 * convolution uses. Operators and the program call these functions, which call neither. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/operator.h"

#include <stdlib.h>

/* The channels of a block of images. It depends on the channels alone, so all tensors of a shape
 * agree, gradients included. Channels-last images are one block of all channels. */
static int64_t image_block(const struct backend_program *program, int64_t channels)
{
    int block = program->device->image_block;

    if (program->channels_last)
        return channels;
    if (channels % block == 0)
        return block;
    return channels % 8 == 0 ? 8 : 1;
}

struct image_layout program_image_layout(const struct backend_program *program, int32_t tensor,
                                         int64_t samples)
{
    const struct graph_shape *shape = &program_tensor(program, tensor)->shape;
    struct image_layout layout = {.samples = samples, .channels = 1, .pixels = 1, .block = 1};

    if (shape->rank > 1)
        layout.channels = shape->extent[1];
    for (int i = 2; i < shape->rank; i++)
        layout.pixels *= shape->extent[i];
    if (shape->rank == 4 && !(program->plain_samples && tensor == program->graph->input))
        layout.block = image_block(program, layout.channels);
    else if (shape->rank == 2)
        layout.block = layout.channels;
    return layout;
}

bool program_interleaves_channels(const struct backend_program *program, int32_t tensor)
{
    struct image_layout layout = program_image_layout(program, tensor, 1);

    return layout.block > 1 && layout.pixels > 1;
}

void *program_sample(const struct backend_program *program, int32_t tensor, int64_t sample)
{
    return (char *)program_address(program, tensor) +
           sample * program_sample_elements(program, tensor) *
               (int64_t)program_element_bytes(program, tensor);
}

void *program_scratch_of(const struct backend_program *program, int tasks, int task)
{
    int thread = 0;

    while (thread + 1 < program_threads(program) &&
           program_first_task(program, tasks, thread + 1) <= task)
        thread++;
    return program->scratch + (size_t)thread * program->scratch_bytes;
}

void *program_task_scratch(const struct backend_program *program, int task)
{
    return program_scratch_of(program, program->tasks, task);
}

const struct onednn_layout *program_parameter_layout(const struct backend_program *program,
                                                     int32_t tensor)
{
    const struct graph_tensor *t = program_tensor(program, tensor);

    return program->layout[t->parameter >= 0 ? t->parameter : tensor];
}

int program_choose_layout(struct backend_program *program, int32_t tensor,
                          const struct onednn_layout *layout, struct error *error)
{
    int32_t parameter = program_tensor(program, tensor)->parameter;
    struct onednn_layout **own = &program->layout[parameter >= 0 ? parameter : tensor];

    if (*own)
        return 0;
    *own = malloc(sizeof(**own));
    if (!*own)
        return error_no_memory(error, "a layout");
    **own = *layout;
    return 0;
}

void program_parameter_rows(const struct backend_program *program, int32_t tensor, int64_t *rows,
                            int64_t *row_elements)
{
    const struct graph_tensor *t = program_tensor(program, tensor);
    const struct onednn_layout *layout = program_parameter_layout(program, tensor);

    if (layout) {
        *rows = (int64_t)(onednn_layout_bytes(layout) / program_element_bytes(program, tensor));
        *row_elements = 1;
        return;
    }
    *rows = t->shape.rank > 0 ? t->shape.extent[0] : 1;
    *row_elements = *rows ? graph_shape_elements(&t->shape) / *rows : 0;
}

struct convolution_tensors convolution_tensors(const struct graph_node *node)
{
    const int32_t *in = node->input, *out = node->output;

    switch (graph_node_operator(node)->product) {
    case PRODUCT_FORWARD:
        return (struct convolution_tensors){.direction = ONEDNN_FORWARD,
                                            .x = in[0],
                                            .weights = in[1],
                                            .bias = node->input_count > 2 ? in[2] : -1,
                                            .y = out[0]};
    case PRODUCT_BACKWARD_DATA:
        return (struct convolution_tensors){.direction = ONEDNN_BACKWARD_DATA,
                                            .x = out[0],
                                            .weights = in[1],
                                            .bias = -1,
                                            .y = in[0]};
    default:
        return (struct convolution_tensors){.direction = ONEDNN_BACKWARD_WEIGHTS,
                                            .x = in[0],
                                            .weights = out[0],
                                            .bias = node->output_count > 1 ? out[1] : -1,
                                            .y = in[1]};
    }
}
