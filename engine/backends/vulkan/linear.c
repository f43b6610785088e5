/* linear.c: linear layers and their gradients. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/product.h"
#include "engine/backends/vulkan/sums.h"

/* The extents of a layer: rows of samples, or of steps; features in and out. */
struct extents {
    int64_t rows, in, out;
};

static struct extents extents_of(const struct graph *graph, int32_t weight, int32_t result)
{
    const struct graph_shape *shape = &graph->tensors[weight].shape;

    return (struct extents){.rows = graph_shape_elements(&graph->tensors[result].shape) /
                                    shape->extent[0],
                            .in = graph_shape_elements(shape) / shape->extent[0],
                            .out = shape->extent[0]};
}

/* A matrix whose rows lie behind each other, or its transpose. */
static struct product_operand matrix(VkDeviceAddress at, int64_t columns)
{
    return (struct product_operand){.at = at, .row_stride = 1, .column_stride = columns};
}

static struct product_operand transpose(VkDeviceAddress at, int64_t columns)
{
    return (struct product_operand){.at = at, .row_stride = columns, .column_stride = 1};
}

int linear_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct extents e = extents_of(program->graph, node->input[1], node->output[0]);
    const struct product product = {
        .m = e.rows,
        .n = e.out,
        .k = e.in,
        .a = matrix(program_address(program, node->input[0]), e.in),
        .b = transpose(program_address(program, node->input[1]), e.in),
        .bias = program_address(program, node->input_count > 2 ? node->input[2] : -1),
        .c = program_address(program, node->output[0]),
        .c_row_stride = e.out,
        .activation = program->fusions[index].activation};

    return record_product(recorder, &product, error);
}

int linear_backward_data_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct extents e = extents_of(program->graph, node->input[1], node->input[0]);
    const struct product product = {.m = e.rows,
                                    .n = e.in,
                                    .k = e.out,
                                    .a = matrix(program_address(program, node->input[0]), e.out),
                                    .b = matrix(program_address(program, node->input[1]), e.in),
                                    .c = program_address(program, node->output[0]),
                                    .c_row_stride = e.in};

    return record_product(recorder, &product, error);
}

size_t linear_backward_weights_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct extents e = extents_of(graph, node->output[0], node->input[1]);
    const int64_t parts = product_parts(e.out, e.in, e.rows);

    return parts > 1 ? (size_t)(parts * e.out * e.in) * sizeof(float) : 0;
}

int linear_backward_weights_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct extents e = extents_of(program->graph, node->output[0], node->input[1]);
    const VkDeviceAddress dy = program_address(program, node->input[1]);
    const struct product product = {
        .m = e.out,
        .n = e.in,
        .k = e.rows,
        .a = transpose(dy, e.out),
        .b = matrix(program_address(program, node->input[0]), e.in),
        .c = program_address(program, node->output[0]),
        .c_row_stride = e.in,
        .d = record_accumulates(recorder, node, 0) ? program_address(program, node->output[0]) : 0,
        .beta = 1};
    int r = record_product_by_parts(recorder, &product, program->workspace[index], error);

    if (r == 0 && node->output_count > 1 && node->output[1] >= 0) {
        const struct row_sums sums = {.x = dy,
                                      .sums = program_address(program, node->output[1]),
                                      .rows = e.rows,
                                      .stride = e.out,
                                      .columns = e.out,
                                      .accumulate = record_accumulates(recorder, node, 1)};

        r = record_row_sums(recorder, &sums, error);
    }
    return r;
}
