/* operator_images.c: pooling and resizing on slices of the batch. */
#include "engine/backends/cpu/program.h"

struct pool_shape program_pool_shape(const struct backend_program *program,
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

/* The work of a task of a pool: x is the larger image or its gradient, y the pooled one or its
 * gradient. */
struct pool_task {
    struct pool_shape shape;
    int64_t images, block; /* the pieces are `block` channels of one image */
    float *x, *y;
};

static struct pool_task pool_task(const struct backend_program *program, int task,
                                  const struct graph_node *node, int32_t x, int32_t y)
{
    struct range slice = program_slice(program, task);
    struct image_layout layout = program_image_layout(program, x, slice.end - slice.first);

    return (struct pool_task){.shape = program_pool_shape(program, node, x, y),
                              .images = layout.samples * layout.channels / layout.block,
                              .block = layout.block,
                              .x = program_sample(program, x, slice.first),
                              .y = program_sample(program, y, slice.first)};
}

static void pool_floats(struct backend_program *program, const struct graph_node *node, int task)
{
    struct pool_task pool = pool_task(program, task, node, node->input[0], node->output[0]);
    int64_t first = program_slice(program, task).first;

    program->device->kernels->max_pool_forward(
        pool.x, &pool.shape, pool.images, pool.block, pool.y,
        node->output_count > 1 ? program_sample(program, node->output[1], first) : NULL);
}

/* Of integers, which lie channels last (graph_orders_channels_last()). */
static void pool_bytes(struct backend_program *program, const struct graph_node *node, int task)
{
    struct range slice = program_slice(program, task);
    struct pool_shape shape = program_pool_shape(program, node, node->input[0], node->output[0]);

    program->device->kernels->max_pool_bytes(
        program_sample(program, node->input[0], slice.first), &shape, slice.end - slice.first,
        program_tensor(program, node->input[0])->shape.extent[1],
        program_sample(program, node->output[0], slice.first));
}

void max_pool_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;

    if (program_tensor(program, node->input[0])->type == TENSOR_UINT8)
        pool_bytes(program, node, task);
    else
        pool_floats(program, node, task);
    (void)thread;
}

void max_pool_backward_run(struct backend_program *program, const struct step *step, int task,
                           int thread)
{
    const struct graph_node *node = step->node;
    struct pool_task pool = pool_task(program, task, node, node->output[0], node->input[0]);
    int64_t first = program_slice(program, task).first;

    (void)thread;
    program->device->kernels->max_pool_backward(pool.y,
                                                program_sample(program, node->input[1], first),
                                                &pool.shape, pool.images, pool.block, pool.x);
}

void average_pool_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct pool_task pool = pool_task(program, task, node, node->input[0], node->output[0]);

    (void)thread;
    program->device->kernels->average_pool_forward(pool.x, &pool.shape, pool.images, pool.block,
                                                   pool.y);
}

void average_pool_backward_run(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    struct pool_task pool = pool_task(program, task, node, node->output[0], node->input[0]);

    (void)thread;
    program->device->kernels->average_pool_backward(pool.y, &pool.shape, pool.images, pool.block,
                                                    pool.x);
}

void adaptive_max_run(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct graph_node *node = step->node;
    struct pool_task pool = pool_task(program, task, node, node->input[0], node->output[0]);
    int64_t first = program_slice(program, task).first;

    (void)thread;
    program->device->kernels->adaptive_max_forward(
        pool.x, &pool.shape, pool.images, pool.block, pool.y,
        node->output_count > 1 ? program_sample(program, node->output[1], first) : NULL);
}

void adaptive_max_backward_run(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct graph_node *node = step->node;
    struct pool_task pool = pool_task(program, task, node, node->output[0], node->input[0]);
    int64_t first = program_slice(program, task).first;

    (void)thread;
    program->device->kernels->adaptive_max_backward(pool.y,
                                                    program_sample(program, node->input[1], first),
                                                    &pool.shape, pool.images, pool.block, pool.x);
}

void adaptive_average_run(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct graph_node *node = step->node;
    struct pool_task pool = pool_task(program, task, node, node->input[0], node->output[0]);

    (void)thread;
    program->device->kernels->adaptive_average_forward(pool.x, &pool.shape, pool.images, pool.block,
                                                       pool.y);
}

void adaptive_average_backward_run(struct backend_program *program, const struct step *step,
                                   int task, int thread)
{
    const struct graph_node *node = step->node;
    struct pool_task pool = pool_task(program, task, node, node->output[0], node->input[0]);

    (void)thread;
    program->device->kernels->adaptive_average_backward(pool.y, &pool.shape, pool.images,
                                                        pool.block, pool.x);
}

/* ---- resizing: x is the operand or its gradient, y the result or its gradient ---- */

static struct resize_shape resize_shape(const struct backend_program *program,
                                        const struct graph_node *node, int32_t x, int32_t y)
{
    const int64_t *from = program_tensor(program, x)->shape.extent;
    const int64_t *to = program_tensor(program, y)->shape.extent;

    return (struct resize_shape){
        .from = {from[2], from[3]},
        .to = {to[2], to[3]},
        .mode = node->attributes.resize.mode,
        .step = {node->attributes.resize.step[0], node->attributes.resize.step[1]}};
}

void resize_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct graph_node *node = step->node;
    struct resize_shape shape = resize_shape(program, node, node->input[0], node->output[0]);
    struct pool_task images = pool_task(program, task, node, node->input[0], node->output[0]);

    (void)thread;
    program->device->kernels->resize_forward(images.x, &shape, images.images, images.block,
                                             images.y);
}

void resize_backward_run(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct graph_node *node = step->node;
    struct resize_shape shape = resize_shape(program, node, node->output[0], node->input[0]);
    struct pool_task images = pool_task(program, task, node, node->output[0], node->input[0]);

    (void)thread;
    program->device->kernels->resize_backward(images.y, &shape, images.images, images.block,
                                              images.x);
}
