/* time_pool.c: one vector for each sequence: its last or first step, the mean of its steps, or the
 * largest number of each feature; and the gradients. */
#include "engine/backends/vulkan/operators.h"

enum { WORKGROUP = 256, COLUMNS = 32 }; /* time_pool.comp */

struct time_pool_push {
    VkDeviceAddress x, lengths, y, position;
    uint32_t batch, steps, features, count;
};

/* `sequences`: the tensor with all steps, or its gradient. */
static struct time_pool_push describe(const struct backend_program *program,
                                      const struct graph_node *node, int32_t sequences)
{
    const int64_t *extent = program->graph->tensors[sequences].shape.extent;
    const bool maximum_back = node->op == OP_MAX_OVER_TIME_BACKWARD;

    return (struct time_pool_push){
        .x = program_address(program, node->input[0]),
        .lengths =
            program_address(program, node->input_count > 1 && !maximum_back ? node->input[1] : -1),
        .y = program_address(program, node->output[0]),
        .batch = (uint32_t)extent[0],
        .steps = (uint32_t)extent[1],
        .features = (uint32_t)extent[2],
        .count = (uint32_t)program_elements(program, node->output[0])};
}

static uint32_t kind_of(const struct graph_node *node)
{
    switch (node->op) {
    case OP_LAST_STEP:
    case OP_LAST_STEP_BACKWARD:
        return node->attributes.recurrent.reverse ? TIME_POOL_FIRST : TIME_POOL_LAST;
    case OP_MEAN_OVER_TIME:
    case OP_MEAN_OVER_TIME_BACKWARD:
        return TIME_POOL_MEAN;
    default:
        return TIME_POOL_MAXIMUM;
    }
}

int time_pool_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    struct time_pool_push push = describe(program, node, node->input[0]);
    const struct launch launch = {
        .shader = SHADER_time_pool,
        .constants = {WORKGROUP, kind_of(node), push.lengths != 0, node->output_count > 1},
        .constant_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 4,
        .groups = {
            record_groups((int64_t)push.batch * ((push.features + COLUMNS - 1) / COLUMNS), 1)}};

    push.position = program_address(program, node->output_count > 1 ? node->output[1] : -1);
    return record_launch(recorder, &launch, error);
}

int time_pool_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const uint32_t kind = kind_of(node);
    struct time_pool_push push = describe(program, node, node->output[0]);
    const struct launch launch = {.shader = SHADER_time_pool_backward,
                                  .constants = {WORKGROUP, kind, push.lengths != 0},
                                  .constant_count = 3,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 4,
                                  .groups = {record_groups(push.count, WORKGROUP)}};

    push.position = program_address(program, kind == TIME_POOL_MAXIMUM ? node->input[1] : -1);
    return record_launch(recorder, &launch, error);
}
