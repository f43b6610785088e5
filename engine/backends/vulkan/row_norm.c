/* row_norm.c: layer norm and RMS norm, and their gradients. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/sums.h"

enum { ROW_MIN = 32, ROW_MAX = 256 }; /* invocations of a row */
/* row_norm_weights.comp: its workgroup, and the rows that it adds up; parts of the sum. */
enum { WEIGHTS_WORKGROUP = 256, ROWS_OF_PART = 64, PARTS_MAX = 128, WEIGHTS_COLUMNS = 32 };

struct rows {
    int64_t count, width;
};

static struct rows rows_of(const struct graph *graph, int32_t x)
{
    const struct graph_shape *shape = &graph->tensors[x].shape;
    const int64_t width = shape->extent[shape->rank - 1];

    return (struct rows){graph_shape_elements(shape) / width, width};
}

static uint32_t row_workgroup(int64_t width)
{
    uint32_t workgroup = ROW_MIN;

    while (workgroup < ROW_MAX && workgroup * 2 <= width)
        workgroup *= 2;
    return workgroup;
}

static bool is_centred(const struct graph_node *node)
{
    return node->op == OP_LAYER_NORM || node->op == OP_ADD_LAYER_NORM ||
           node->op == OP_LAYER_NORM_BACKWARD;
}

static int32_t input_of(const struct graph_node *node, int number)
{
    return number < node->input_count ? node->input[number] : -1;
}

static int32_t output_of(const struct graph_node *node, int number)
{
    return number < node->output_count ? node->output[number] : -1;
}

int row_norm_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct rows rows = rows_of(program->graph, node->input[0]);
    const int32_t residual = input_of(node, 3);
    const int next = residual >= 0 ? 2 : 1;
    const struct {
        VkDeviceAddress x, weight, bias, residual, y, sum, inverse, mean;
        uint32_t rows, width;
        float epsilon;
        uint32_t unused;
    } push = {.x = program_address(program, node->input[0]),
              .weight = program_address(program, node->input[1]),
              .bias = program_address(program, node->input[2]),
              .residual = program_address(program, residual),
              .y = program_address(program, node->output[0]),
              .sum = residual >= 0 ? program_address(program, node->output[1]) : 0,
              .inverse = program_address(program, output_of(node, next)),
              .mean = program_address(program, output_of(node, next + 1)),
              .rows = (uint32_t)rows.count,
              .width = (uint32_t)rows.width,
              .epsilon = node->attributes.row_norm_epsilon};
    const struct launch launch = {.shader = SHADER_row_norm,
                                  .constants = {row_workgroup(rows.width), is_centred(node),
                                                push.bias != 0, residual >= 0, push.inverse != 0},
                                  .constant_count = 5,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 8,
                                  .groups = {record_groups(rows.count, 1)}};

    return record_launch(recorder, &launch, error);
}

/* ---- gradients: inputs dy, x, weight, inverse, dsum?, mean?; outputs dx, dweight, dbias? ----- */

static int64_t parts_of(const struct rows *rows)
{
    const int64_t parts = (rows->count + ROWS_OF_PART - 1) / ROWS_OF_PART;

    return parts < PARTS_MAX ? parts : PARTS_MAX;
}

/* Of each part the sums for the weight, then those for the bias. */
size_t row_norm_backward_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct rows rows = rows_of(graph, node->input[1]);

    return (size_t)(parts_of(&rows) * 2 * rows.width) * sizeof(float);
}

static int record_data(struct recorder *recorder, const struct graph_node *node,
                       const struct rows *rows, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct {
        VkDeviceAddress dy, x, weight, inverse, dsum, mean, dx;
        uint32_t rows, width;
    } push = {.dy = program_address(program, node->input[0]),
              .x = program_address(program, node->input[1]),
              .weight = program_address(program, node->input[2]),
              .inverse = program_address(program, node->input[3]),
              .dsum = program_address(program, input_of(node, 4)),
              .mean = program_address(program, input_of(node, 5)),
              .dx = program_address(program, node->output[0]),
              .rows = (uint32_t)rows->count,
              .width = (uint32_t)rows->width};
    const struct launch launch = {
        .shader = SHADER_row_norm_backward,
        .constants = {row_workgroup(rows->width), is_centred(node), push.dsum != 0},
        .constant_count = 3,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 7,
        .groups = {record_groups(rows->count, 1)}};

    return push.dx ? record_launch(recorder, &launch, error) : 0;
}

static int record_weights(struct recorder *recorder, int32_t index, const struct rows *rows,
                          struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t parts = parts_of(rows);
    const struct {
        VkDeviceAddress dy, x, inverse, mean, sums;
        uint32_t rows, width, rows_of_part, unused;
    } push = {.dy = program_address(program, node->input[0]),
              .x = program_address(program, node->input[1]),
              .inverse = program_address(program, node->input[3]),
              .mean = program_address(program, input_of(node, 5)),
              .sums = program->workspace[index],
              .rows = (uint32_t)rows->count,
              .width = (uint32_t)rows->width,
              .rows_of_part = (uint32_t)((rows->count + parts - 1) / parts)};
    const struct launch launch = {
        .shader = SHADER_row_norm_weights,
        .constants = {WEIGHTS_WORKGROUP, is_centred(node)},
        .constant_count = 2,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 5,
        .groups = {(rows->width + WEIGHTS_COLUMNS - 1) / WEIGHTS_COLUMNS, parts}};
    int r = record_launch(recorder, &launch, error);

    record_barrier(recorder);
    for (int i = 1; r == 0 && i <= 2; i++) {
        const struct row_sums sums = {.x = program->workspace[index] +
                                           (VkDeviceSize)((i - 1) * rows->width) * sizeof(float),
                                      .sums = program_address(program, output_of(node, i)),
                                      .rows = parts,
                                      .stride = 2 * rows->width,
                                      .columns = rows->width,
                                      .accumulate = record_accumulates(recorder, node, i)};

        if (sums.sums)
            r = record_row_sums(recorder, &sums, error);
    }
    return r;
}

int row_norm_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct graph_node *node = &recorder->program->graph->nodes[index];
    const struct rows rows = rows_of(recorder->program->graph, node->input[1]);
    int r = record_data(recorder, node, &rows, error);

    return r < 0 ? r : record_weights(recorder, index, &rows, error);
}
