/* quantization.c: numbers rounded as integers of 8 bits would hold them, for quantization-aware
 * training. */
#include "engine/backends/vulkan/operators.h"

enum { WORKGROUP = 256, ROW_WORKGROUP = 64, PARTS = 64 };

static bool observes(const struct graph *graph, const struct graph_node *node)
{
    return graph->training && !node->recomputed;
}

/* The ranges of parts. */
size_t fake_quantize_workspace(const struct graph *graph, const struct graph_node *node)
{
    return observes(graph, node) ? PARTS * sizeof(float[2]) : 0;
}

/* Moves the running range towards that of the batch. */
static int record_range(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t count = program_elements(program, node->input[0]);
    const int64_t groups = record_groups(count, WORKGROUP);
    struct {
        VkDeviceAddress x, parts, range;
        uint32_t count, unused;
    } push = {.x = program_address(program, node->input[0]),
              .parts = program->workspace[index],
              .range = program_address(program, node->input[1]),
              .count = (uint32_t)count};
    struct launch launch = {.shader = SHADER_range,
                            .constants = {WORKGROUP, 0},
                            .constant_count = 2,
                            .push = &push,
                            .push_bytes = sizeof push,
                            .addresses = 3,
                            .groups = {groups < PARTS ? groups : PARTS}};
    int r = record_launch(recorder, &launch, error);

    record_barrier(recorder);
    push.count = (uint32_t)launch.groups[0];
    launch.constants[1] = 1;
    launch.groups[0] = 1;
    if (r == 0)
        r = record_launch(recorder, &launch, error);
    record_barrier(recorder);
    return r;
}

/* Rounds, or makes the gradient of that. */
int fake_quantize_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool back = node->op == OP_FAKE_QUANTIZE_BACKWARD;
    const int64_t count = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress x, dy, y, range;
        uint32_t count, unused;
    } push = {.x = program_address(program, node->input[back ? 1 : 0]),
              .dy = program_address(program, back ? node->input[0] : -1),
              .y = program_address(program, node->output[0]),
              .range = program_address(program, node->input[back ? 2 : 1]),
              .count = (uint32_t)count};
    const struct launch launch = {.shader = SHADER_fake_quantize,
                                  .constants = {WORKGROUP, back},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 4,
                                  .groups = {record_groups(count, WORKGROUP)}};
    int r = 0;

    if (!back && observes(program->graph, node))
        r = record_range(recorder, index, error);
    return r < 0 ? r : record_launch(recorder, &launch, error);
}

/* A row of a sample is its last axis, one of a weight all behind its first axis. */
int fake_quantize_rows_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_tensor *x = &program->graph->tensors[node->input[0]];
    const int64_t count = graph_shape_elements(&x->shape);
    const int64_t rows =
        x->batched ? count / x->shape.extent[x->shape.rank - 1] : x->shape.extent[0];
    const struct {
        VkDeviceAddress x, y;
        uint32_t rows, width;
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, node->output[0]),
              .rows = (uint32_t)rows,
              .width = (uint32_t)(count / rows)};
    const struct launch launch = {.shader = SHADER_fake_quantize_rows,
                                  .constants = {ROW_WORKGROUP, !x->batched},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 2,
                                  .groups = {record_groups(rows, 1)}};

    return record_launch(recorder, &launch, error);
}
