/* losses.c: losses and their gradients. Rows leave their losses in the workspace, where one
 * workgroup adds them up for the host. */
#include "engine/backends/vulkan/operators.h"

enum { ROW_WORKGROUP = 64, SUM_WORKGROUP = 256 };

/* Rows of logits, or of a prediction, and their numbers. */
struct rows {
    int64_t count, width;
};

static struct rows rows_of(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_shape *shape = &graph->tensors[node->input[0]].shape;
    const bool steps =
        (node->op == OP_CROSS_ENTROPY || node->op == OP_CROSS_ENTROPY_BACKWARD) && shape->rank == 3;
    const int64_t elements = graph_shape_elements(shape);
    const int64_t width = steps ? shape->extent[2] : elements / graph->batch;

    return (struct rows){elements / width, width};
}

/* Of each row its loss, and whether it is correct. */
size_t loss_workspace(const struct graph *graph, const struct graph_node *node)
{
    return (size_t)rows_of(graph, node).count * (sizeof(float) + sizeof(int32_t));
}

static uint32_t target_of(const struct graph *graph, const struct graph_node *node)
{
    if (graph->tensors[node->input[1]].type == TENSOR_FLOAT32)
        return TARGET_PROBABILITIES;
    return graph->tensors[node->input[0]].shape.rank == 3 ? TARGET_TOKENS : TARGET_LABELS;
}

int record_loss_sum(struct recorder *recorder, int32_t index, uint32_t target, bool counts_correct,
                    struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct rows rows = rows_of(program->graph, node);
    const struct {
        VkDeviceAddress loss, correct, label, results, control;
        uint32_t rows, unused;
    } push = {.loss = program->workspace[index],
              .correct = program->workspace[index] + (VkDeviceSize)rows.count * sizeof(float),
              .label = program_address(program, node->input[1]),
              .results = recorder->results,
              .control = program->control.address,
              .rows = (uint32_t)rows.count};
    const struct launch launch = {.shader = SHADER_loss_sum,
                                  .constants = {SUM_WORKGROUP, target, counts_correct},
                                  .constant_count = 3,
                                  .push = &push,
                                  .push_bytes = sizeof push};

    record_barrier(recorder);
    return record_launch(recorder, &launch, error);
}

int cross_entropy_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct rows rows = rows_of(program->graph, node);
    const uint32_t target = target_of(program->graph, node);
    const struct {
        VkDeviceAddress logits, target, log_sum_exp, loss, correct;
        uint32_t rows, classes;
    } push = {.logits = program_address(program, node->input[0]),
              .target = program_address(program, node->input[1]),
              .log_sum_exp = program_address(program, node->output[0]),
              .loss = program->workspace[index],
              .correct = program->workspace[index] + (VkDeviceSize)rows.count * sizeof(float),
              .rows = (uint32_t)rows.count,
              .classes = (uint32_t)rows.width};
    const struct launch launch = {.shader = SHADER_cross_entropy,
                                  .constants = {ROW_WORKGROUP, target},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(rows.count, 1)}};
    int r = record_launch(recorder, &launch, error);

    return r < 0 ? r : record_loss_sum(recorder, index, target, true, error);
}

int cross_entropy_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct rows rows = rows_of(program->graph, node);
    const struct {
        VkDeviceAddress logits, target, log_sum_exp, dlogits, scalars, control;
        uint32_t rows, classes;
    } push = {.logits = program_address(program, node->input[0]),
              .target = program_address(program, node->input[1]),
              .log_sum_exp = program_address(program, node->input[2]),
              .dlogits = program_address(program, node->output[0]),
              .scalars = recorder->scalars,
              .control = program->control.address,
              .rows = (uint32_t)rows.count,
              .classes = (uint32_t)rows.width};
    const struct launch launch = {.shader = SHADER_cross_entropy_backward,
                                  .constants = {ROW_WORKGROUP, target_of(program->graph, node)},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(rows.count, 1)}};

    return record_launch(recorder, &launch, error);
}

/* The loss, or its gradient. */
int mse_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct rows rows = rows_of(program->graph, node);
    const bool backward = node->op == OP_MSE_BACKWARD;
    const struct {
        VkDeviceAddress prediction, target, result, scalars;
        uint32_t rows, features;
    } push = {.prediction = program_address(program, node->input[0]),
              .target = program_address(program, node->input[1]),
              .result =
                  backward ? program_address(program, node->output[0]) : program->workspace[index],
              .scalars = recorder->scalars,
              .rows = (uint32_t)rows.count,
              .features = (uint32_t)rows.width};
    const struct launch launch = {.shader = SHADER_mse,
                                  .constants = {ROW_WORKGROUP, backward},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(rows.count, 1)}};
    int r = record_launch(recorder, &launch, error);

    return r < 0 || backward ? r : record_loss_sum(recorder, index, TARGET_LABELS, false, error);
}
