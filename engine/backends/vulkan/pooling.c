/* pooling.c: maxima and means of windows of images, and their gradients. */
#include "engine/backends/vulkan/operators.h"

enum { WORKGROUP = 256, ROW_WORKGROUP = 64 }; /* a row has as many numbers at least */

/* As the shaders have it: pool.glsl. */
struct pool {
    uint32_t images, from[2], to[2], kernel[2], stride[2], padding[2];
};

/* The pool from x to y, or from dx to dy. */
static struct pool pool_of(const struct graph *graph, const struct graph_node *node, int32_t x,
                           int32_t y)
{
    const struct conv_attributes *window = &node->attributes.conv;
    const int64_t *from = graph->tensors[x].shape.extent, *to = graph->tensors[y].shape.extent;
    struct pool pool = {.images = (uint32_t)(from[0] * from[1])};

    for (int axis = 0; axis < 2; axis++) {
        pool.from[axis] = (uint32_t)from[2 + axis];
        pool.to[axis] = (uint32_t)to[2 + axis];
        pool.kernel[axis] = (uint32_t)window->kernel[axis];
        pool.stride[axis] = (uint32_t)window->stride[axis];
        pool.padding[axis] = (uint32_t)window->padding[axis];
    }
    return pool;
}

static bool is_adaptive(const struct graph_node *node)
{
    return node->op == OP_ADAPTIVE_AVERAGE_POOL2D || node->op == OP_ADAPTIVE_MAX_POOL2D ||
           node->op == OP_ADAPTIVE_AVERAGE_POOL2D_BACKWARD ||
           node->op == OP_ADAPTIVE_MAX_POOL2D_BACKWARD;
}

static bool is_maximum(const struct graph_node *node)
{
    return node->op == OP_MAX_POOL2D || node->op == OP_ADAPTIVE_MAX_POOL2D ||
           node->op == OP_MAX_POOL2D_BACKWARD || node->op == OP_ADAPTIVE_MAX_POOL2D_BACKWARD;
}

/* Shaders multiply extents of adaptive pools in 32 bits. */
static int check_adaptive(const struct graph_node *node, const struct pool *pool,
                          struct error *error)
{
    for (int axis = 0; is_adaptive(node) && axis < 2; axis++)
        if (((uint64_t)pool->to[axis] + 1) * ((uint64_t)pool->from[axis] + 1) > UINT32_MAX)
            return error_set(error, -ERROR_UNSUPPORTED,
                             "%s: the Vulkan backend has no adaptive pool from %u to %u pixels",
                             node->name, pool->from[axis], pool->to[axis]);
    return 0;
}

/* Whether the window is the whole image, and enough of it for a workgroup. */
static bool is_global(const struct pool *pool)
{
    for (int axis = 0; axis < 2; axis++)
        if (pool->to[axis] != 1 || pool->padding[axis] || pool->kernel[axis] != pool->from[axis])
            return false;
    return (int64_t)pool->from[0] * pool->from[1] >= ROW_WORKGROUP;
}

static int record_means(struct recorder *recorder, const struct pool *pool, VkDeviceAddress x,
                        VkDeviceAddress y, struct error *error)
{
    const struct {
        VkDeviceAddress x, means;
        uint32_t rows, width;
    } push = {x, y, pool->images, pool->from[0] * pool->from[1]};
    const struct launch launch = {.shader = SHADER_row_means,
                                  .constants = {ROW_WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 2,
                                  .groups = {record_groups(pool->images, 1)}};

    return record_launch(recorder, &launch, error);
}

int pool_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool positions = node->output_count > 1;
    const struct {
        VkDeviceAddress x, y, positions;
        struct pool pool;
        uint32_t unused;
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, node->output[0]),
              .positions = positions ? program_address(program, node->output[1]) : 0,
              .pool = pool_of(program->graph, node, node->input[0], node->output[0])};
    const int64_t count = program_elements(program, node->output[0]);
    const struct launch launch = {
        .shader = SHADER_pool,
        .constants = {WORKGROUP, is_adaptive(node), is_maximum(node), positions},
        .constant_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 3,
        .groups = {record_groups(positions ? (count + 3) / 4 : count, WORKGROUP)}};
    int r = check_adaptive(node, &push.pool, error);

    if (r < 0)
        return r;
    if (node->op == OP_AVERAGE_POOL2D && is_global(&push.pool))
        return record_means(recorder, &push.pool, push.x, push.y, error);
    return record_launch(recorder, &launch, error);
}

int pool_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool maximum = is_maximum(node);
    const struct {
        VkDeviceAddress dy, dx, positions;
        struct pool pool;
        uint32_t unused;
    } push = {.dy = program_address(program, node->input[0]),
              .dx = program_address(program, node->output[0]),
              .positions = maximum ? program_address(program, node->input[1]) : 0,
              .pool = pool_of(program->graph, node, node->output[0], node->input[0])};
    const struct launch launch = {
        .shader = SHADER_pool_backward,
        .constants = {WORKGROUP, is_adaptive(node), maximum},
        .constant_count = 3,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 3,
        .groups = {record_groups(program_elements(program, node->output[0]), WORKGROUP)}};
    int r = check_adaptive(node, &push.pool, error);

    return r < 0 ? r : record_launch(recorder, &launch, error);
}
