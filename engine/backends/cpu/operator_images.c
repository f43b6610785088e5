/* operator_images.c: pooling, on slices of the batch. */
#include "engine/backends/cpu/program.h"

#include <errno.h>

/* ---- pooling ----------------------------------------------------------------------------------
 */

/* One piece is `block` channels of one image; x is the larger image, y the pooled one. */
static struct pool_shape pool_shape(const struct backend_program *program,
                                    const struct graph_node *node, int32_t x, int32_t y)
{
    const struct conv_attributes *a = &node->attributes.conv;
    const int64_t *in = program_tensor(program, x)->shape.extent;
    const int64_t *out = program_tensor(program, y)->shape.extent;

    return (struct pool_shape){.height = in[2],
                               .width = in[3],
                               .out_height = out[2],
                               .out_width = out[3],
                               .kernel = {a->kernel[0], a->kernel[1]},
                               .stride = {a->stride[0], a->stride[1]},
                               .padding = {a->padding[0], a->padding[1]}};
}

static void run_pool(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    const struct kernels *kernels = program->device->kernels;
    bool backward = node->op == OP_MAX_POOL2D_BACKWARD || node->op == OP_AVERAGE_POOL2D_BACKWARD;
    int32_t x = backward ? node->output[0] : node->input[0];
    int32_t y = backward ? node->input[0] : node->output[0];
    struct pool_shape shape = pool_shape(program, node, x, y);
    struct range slice = program_slice(program, task);
    struct image_layout layout = program_image_layout(program, x, slice.end - slice.first);
    int64_t images = layout.samples * layout.channels / layout.block;
    float *large = program_sample(program, x, slice.first);
    float *small = program_sample(program, y, slice.first);

    (void)thread;
    if (program_is_tiled(program, x))
        tiles_run_pool(program, node, &shape, task);
    else if (node->op == OP_MAX_POOL2D)
        kernels->max_pool_forward(
            large, &shape, images, layout.block, small,
            node->output_count > 1 ? program_sample(program, node->output[1], slice.first) : NULL);
    else if (node->op == OP_MAX_POOL2D_BACKWARD)
        kernels->max_pool_backward(small, program_sample(program, node->input[1], slice.first),
                                   &shape, images, layout.block, large);
    else if (node->op == OP_AVERAGE_POOL2D)
        kernels->average_pool_forward(large, &shape, images, layout.block, small);
    else
        kernels->average_pool_backward(small, &shape, images, layout.block, large);
}

int pool_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct step *step = program_add_step(program, index, run_pool);

    if (!step)
        return error_set(error, -ENOMEM, "no memory for the program");
    for (int i = 0; i < node->input_count; i++)
        step_touch_tensor(program, step, node->input[i], ACCESS_SLICE, false);
    for (int i = 0; i < node->output_count; i++)
        step_touch_tensor(program, step, node->output[i], ACCESS_SLICE, true);
    return 0;
}
