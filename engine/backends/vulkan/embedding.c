/* embedding.c: rows of a table by their index, and the gradient of the table. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/sums.h"

enum { WORKGROUP = 256 };
/* The gradient: a workgroup has one row of a small table, and of a large one several, so that few
 * workgroups read all indices. */
enum { WORKGROUPS_MAX = 1024 };
/* Rows that are frequent are summed up by parts of the positions. A part has at least so many
 * positions, and in it a row of the table occurs at least so often, on average. */
enum { POSITIONS_OF_PART = 512, OCCURRENCES_OF_PART = 4, PARTS_MAX = 256 };

struct table {
    int64_t count, vocabulary, width; /* count: of indices */
};

static struct table table_of(const struct graph *graph, const struct graph_node *node)
{
    const bool forward = node->op == OP_EMBEDDING;
    const int32_t weight = forward ? node->input[1] : node->output[0];
    const struct graph_shape *shape = &graph->tensors[weight].shape;

    return (struct table){.count = graph_shape_elements(&graph->tensors[node->input[0]].shape),
                          .vocabulary = shape->extent[0],
                          .width = graph_shape_elements(shape) / shape->extent[0]};
}

int embedding_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct table table = table_of(program->graph, node);
    const struct {
        VkDeviceAddress index, weight, y;
        uint32_t count, width, vocabulary, unused;
    } push = {.index = program_address(program, node->input[0]),
              .weight = program_address(program, node->input[1]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)(table.count * table.width),
              .width = (uint32_t)table.width,
              .vocabulary = (uint32_t)table.vocabulary};
    const struct launch launch = {.shader = SHADER_embedding,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(table.count * table.width, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

/* ---- gradient -------------------------------------------------------------------------------- */

static int64_t parts_of(const struct table *table)
{
    const int64_t by_positions = table->count / POSITIONS_OF_PART;
    const int64_t by_rows = table->count / table->vocabulary / OCCURRENCES_OF_PART;
    const int64_t parts = by_positions < by_rows ? by_positions : by_rows;

    return parts < 1 ? 1 : parts < PARTS_MAX ? parts : PARTS_MAX;
}

/* A table for each part. */
size_t embedding_backward_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct table table = table_of(graph, node);
    const int64_t parts = parts_of(&table);

    return parts > 1 ? (size_t)(parts * table.vocabulary * table.width) * sizeof(float) : 0;
}

static int record_parts(struct recorder *recorder, int32_t index, const struct table *table,
                        VkDeviceAddress sums, bool accumulate, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t parts = parts_of(table);
    const struct {
        VkDeviceAddress index, dy, sums;
        uint32_t count, width, vocabulary, positions;
    } push = {.index = program_address(program, node->input[0]),
              .dy = program_address(program, node->input[1]),
              .sums = sums,
              .count = (uint32_t)table->count,
              .width = (uint32_t)table->width,
              .vocabulary = (uint32_t)table->vocabulary,
              .positions = (uint32_t)((table->count + parts - 1) / parts)};
    const struct launch launch = {
        .shader = SHADER_embedding_backward,
        .constants = {WORKGROUP, accumulate, table->vocabulary <= WORKGROUPS_MAX},
        .constant_count = 3,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 3,
        .groups = {table->vocabulary < WORKGROUPS_MAX ? table->vocabulary : WORKGROUPS_MAX,
                   (table->width + WORKGROUP - 1) / WORKGROUP, parts}};

    return record_launch(recorder, &launch, error);
}

int embedding_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct table table = table_of(program->graph, node);
    const int64_t parts = parts_of(&table), elements = table.vocabulary * table.width;
    const VkDeviceAddress dweight = program_address(program, node->output[0]);
    const bool accumulate = record_accumulates(recorder, node, 0);
    const struct row_sums sums = {.x = program->workspace[index],
                                  .sums = dweight,
                                  .rows = parts,
                                  .stride = elements,
                                  .columns = elements,
                                  .accumulate = accumulate};
    int r;

    if (parts == 1)
        return record_parts(recorder, index, &table, dweight, accumulate, error);
    r = record_parts(recorder, index, &table, program->workspace[index], false, error);
    record_barrier(recorder);
    return r < 0 ? r : record_row_sums(recorder, &sums, error);
}
