/* tokens.c: what stands around the blocks of a transformer: positions, images as tokens, a token
 * before the others. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/sums.h"

enum { WORKGROUP = 256 };

static const int64_t *extents(const struct backend_program *program, int32_t tensor)
{
    return program->graph->tensors[tensor].shape.extent;
}

/* ---- positions ------------------------------------------------------------------------------- */

int add_positions_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t all = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress x, positions, y;
        uint32_t all, count;
    } push = {.x = program_address(program, node->input[0]),
              .positions = program_address(program, node->input[1]),
              .y = program_address(program, node->output[0]),
              .all = (uint32_t)all,
              .count = (uint32_t)program_elements(program, node->input[1])};
    const struct launch launch = {.shader = SHADER_add_positions,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(all, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

int add_positions_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t count = program_elements(program, node->output[0]);
    const struct row_sums sums = {.x = program_address(program, node->input[0]),
                                  .sums = program_address(program, node->output[0]),
                                  .rows = program->graph->batch,
                                  .stride = count,
                                  .columns = count,
                                  .accumulate = record_accumulates(recorder, node, 0)};

    return record_row_sums(recorder, &sums, error);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Each is a transposition of the samples. */
int image_tokens_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = extents(program, node->input[0]);
    const bool image = node->op == OP_IMAGE_TOKENS;

    return record_transpose(recorder, program_address(program, node->input[0]),
                            program_address(program, node->output[0]), extent[0], extent[1],
                            image ? extent[2] * extent[3] : extent[2], error);
}

/* ---- a token before the others --------------------------------------------------------------- */

/* `steps`: the tensor without the token. */
static int launch_prepend(struct recorder *recorder, const struct graph_node *node, int32_t steps,
                          bool backward, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const int64_t *extent = extents(program, steps);
    const int64_t count = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress x, token, y;
        uint32_t count, steps, features, unused;
    } push = {.x = program_address(program, node->input[0]),
              .token = program_address(program, backward ? -1 : node->input[1]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .steps = (uint32_t)extent[1],
              .features = (uint32_t)extent[2]};
    const struct launch launch = {.shader = SHADER_prepend_token,
                                  .constants = {WORKGROUP, backward},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

int prepend_token_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct graph_node *node = &recorder->program->graph->nodes[index];

    return launch_prepend(recorder, node, node->input[0], false, error);
}

int prepend_token_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = extents(program, node->input[0]);
    const struct row_sums sums = {.x = program_address(program, node->input[0]),
                                  .sums = program_address(program, node->output[1]),
                                  .rows = extent[0],
                                  .stride = extent[1] * extent[2],
                                  .columns = extent[2],
                                  .accumulate = record_accumulates(recorder, node, 1)};
    int r = node->output[0] >= 0 ? launch_prepend(recorder, node, node->output[0], true, error) : 0;

    return r < 0 || node->output[1] < 0 ? r : record_row_sums(recorder, &sums, error);
}
