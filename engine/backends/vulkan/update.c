/* update.c: the update of the parameters: the norm of all gradients, the optimizers' formulas, and
 * moving averages. */
#include "engine/backends/vulkan/operators.h"
#include "engine/graph/optimizer.h"

/* shaders/optimizer.comp and coefficients.glsl have these numbers */
_Static_assert(FORMULA_SGD == 1 && FORMULA_ADAM == 2 && FORMULA_RMSPROP == 3 && FORMULA_LION == 4 &&
                   FORMULA_ADAGRAD == 5 && FORMULA_ADADELTA == 6 && FORMULA_ADAMAX == 7 &&
                   FORMULA_AMSGRAD == 8 && FORMULA_SCHEDULE_FREE == 9,
               "as in optimizer.comp");
_Static_assert(COEFFICIENT_RATE == 0 && COEFFICIENT_SHRINK == 1 && COEFFICIENT_DECAY == 2 &&
                   COEFFICIENT_KEEP == 3 && COEFFICIENT_TAKE == 4 && COEFFICIENT_KEEP2 == 5 &&
                   COEFFICIENT_TAKE2 == 6 && COEFFICIENT_EPSILON == 7 && COEFFICIENT_ROOT == 8 &&
                   COEFFICIENT_OWN == 9 && COEFFICIENT_NESTEROV == 10 && COEFFICIENT_MOMENTUM == 11,
               "as in coefficients.glsl");

enum { WORKGROUP = 256 };

/* The workgroups that sum the squares of a gradient: each invocation has at least 16 numbers. */
static int64_t square_groups(const struct graph *graph, const struct graph_node *node)
{
    int64_t groups =
        record_groups(graph_shape_elements(&graph->tensors[node->input[0]].shape), WORKGROUP * 16);

    return groups < SQUARES_GROUPS_MAX ? groups : SQUARES_GROUPS_MAX;
}

int32_t update_squares(const struct graph *graph)
{
    int32_t count = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_OPTIMIZER)
            count += (int32_t)square_groups(graph, &graph->nodes[i]);
    return count;
}

static int record_squares(struct recorder *recorder, const struct graph_node *node, int32_t first,
                          struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct {
        VkDeviceAddress gradient, control;
        uint32_t count, first;
    } push = {.gradient = program_address(program, node->input[1]),
              .control = program->control.address,
              .count = (uint32_t)program_elements(program, node->input[0]),
              .first = (uint32_t)first};
    const struct launch launch = {.shader = SHADER_gradient_norm,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {square_groups(program->graph, node)}};

    return record_launch(recorder, &launch, error);
}

/* Computes the factor of all gradients, and whether the update is skipped. */
static int record_factor(struct recorder *recorder, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph *graph = program->graph;
    const struct {
        VkDeviceAddress control, results, scalars;
        uint32_t count, unused;
    } push = {.control = program->control.address,
              .results = recorder->results,
              .scalars = recorder->scalars,
              .count = (uint32_t)program->square_count};
    const struct launch launch = {.shader = SHADER_gradient_factor,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push};
    int32_t first = 0;
    int r = 0;

    record_barrier(recorder); /* all gradients are read */
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        if (graph->nodes[i].op != OP_OPTIMIZER)
            continue;
        r = record_squares(recorder, &graph->nodes[i], first, error);
        first += (int32_t)square_groups(graph, &graph->nodes[i]);
    }
    record_barrier(recorder);
    if (r == 0)
        r = record_launch(recorder, &launch, error);
    record_barrier(recorder);
    return r;
}

uint32_t update_rounding(const struct graph *graph)
{
    return !graph->rounds_parameters                ? ROUNDING_NONE
           : graph->compute_type == TENSOR_BFLOAT16 ? ROUNDING_BFLOAT16
           : graph->compute_type == TENSOR_FLOAT16  ? ROUNDING_FLOAT16
                                                    : ROUNDING_NONE;
}

int update_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index];
    const int group = node->attributes.optimizer_group;
    const int64_t count = program_elements(program, node->input[0]);
    const bool summed = recorder->kind.sums_squares;
    struct {
        VkDeviceAddress parameter, gradient, state[3], scalars, control;
        uint32_t count, group;
    } push = {.parameter = program_address(program, node->input[0]),
              .gradient = program_address(program, node->input[1]),
              .scalars = recorder->scalars,
              .control = program->control.address,
              .count = (uint32_t)count,
              .group = (uint32_t)group * UPDATE_COEFFICIENTS};
    const struct launch launch = {.shader = SHADER_optimizer,
                                  .constants = {WORKGROUP,
                                                update_formula_of(graph->groups[group].config.kind),
                                                summed, update_rounding(graph)},
                                  .constant_count = 4,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(count, WORKGROUP)}};
    int r = 0;

    for (int i = 0; i < 3 && i + 2 < node->input_count; i++)
        push.state[i] = program_address(program, node->input[i + 2]);
    if (summed && graph_update_is_first(graph, index))
        r = record_factor(recorder, error);
    if (r == 0 && graph_node_updates_whole(graph, node))
        return update_whole_run(recorder, index, error);
    return r < 0 ? r : record_launch(recorder, &launch, error);
}

int moving_average_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t count = program_elements(program, node->input[0]);
    const struct {
        VkDeviceAddress average, value, scalars, control;
        uint32_t count, unused;
    } push = {.average = program_address(program, node->input[1]),
              .value = program_address(program, node->input[0]),
              .scalars = recorder->scalars,
              .control = program->control.address,
              .count = (uint32_t)count};
    const struct launch launch = {
        .shader = SHADER_moving_average,
        .constants = {WORKGROUP, recorder->kind.sums_squares, node->attributes.copies},
        .constant_count = 3,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}
