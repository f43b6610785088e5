/* columns.c: tensors side by side, and taken apart again: features of rows, channels of images. A
 * part is a block of numbers of each row. */
#include "engine/backends/vulkan/vulkan.h"

/* Numbers of a row; a row of images is a whole one, with its channels behind each other. */
static int64_t row_width(const struct graph *graph, int32_t tensor)
{
    const struct graph_shape *shape = &graph->tensors[tensor].shape;

    return shape->rank == 4 ? graph_shape_elements(shape) / shape->extent[0]
                            : shape->extent[shape->rank - 1];
}

/* A launch for each part; they write different numbers. */
int columns_run(struct recorder *recorder, int32_t index, struct error *error)
{
    enum { WORKGROUP = 256 };
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool join = node->op == OP_CONCATENATE;
    const int32_t wide = join ? node->output[0] : node->input[0];
    const int32_t *parts = join ? node->input : node->output;
    const int count = join ? node->input_count : node->output_count;
    int64_t first = 0;
    int r = 0;

    for (int i = 0; r == 0 && i < count; i++) {
        const int64_t elements = program_elements(program, parts[i]);
        const struct {
            VkDeviceAddress wide, part;
            uint32_t count, wide_width, width, first;
        } push = {.wide = program_address(program, wide),
                  .part = program_address(program, parts[i]),
                  .count = (uint32_t)elements,
                  .wide_width = (uint32_t)row_width(program->graph, wide),
                  .width = (uint32_t)row_width(program->graph, parts[i]),
                  .first = (uint32_t)first};
        const struct launch launch = {.shader = SHADER_columns,
                                      .constants = {WORKGROUP, join},
                                      .constant_count = 2,
                                      .push = &push,
                                      .push_bytes = sizeof push,
                                      .groups = {record_groups(elements, WORKGROUP)}};

        r = record_launch(recorder, &launch, error);
        first += push.width;
    }
    return r;
}
