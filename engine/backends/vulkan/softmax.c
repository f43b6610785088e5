/* softmax.c: the softmax of rows and its gradient, and products of matrices that both belong to the
 * samples. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/product.h"

int softmax_run(struct recorder *recorder, int32_t index, struct error *error)
{
    enum { WORKGROUP = 64 };
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *shape = &program->graph->tensors[node->output[0]].shape;
    const int64_t width = shape->extent[shape->rank - 1];
    const int64_t rows = graph_shape_elements(shape) / width;
    const bool backward = node->op == OP_SOFTMAX_BACKWARD;
    const struct {
        VkDeviceAddress x, y, result;
        uint32_t rows, width;
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, backward ? node->input[1] : -1),
              .result = program_address(program, node->output[0]),
              .rows = (uint32_t)rows,
              .width = (uint32_t)width};
    const struct launch launch = {.shader = SHADER_softmax,
                                  .constants = {WORKGROUP, backward},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(rows, 1)}};

    return record_launch(recorder, &launch, error);
}

/* A matrix [rows, columns], or one that is stored as [columns, rows]. */
static struct product_operand operand(VkDeviceAddress at, int64_t rows, int64_t columns,
                                      bool transposed)
{
    return (struct product_operand){.at = at,
                                    .row_stride = transposed ? rows : 1,
                                    .column_stride = transposed ? 1 : columns,
                                    .batch_stride = rows * columns};
}

int batch_product_run(struct recorder *recorder, int32_t index, struct error *error)
{
    enum { PRODUCTS_MAX = 32768 }; /* of a launch: every grid may be 65535 deep */
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct batch_product_attributes *p = &node->attributes.batch_product;
    const int64_t all = p->groups * program->graph->batch;
    struct product product = {
        .m = p->rows,
        .n = p->columns,
        .k = p->depth,
        .a = operand(program_address(program, node->input[0]), p->rows, p->depth, p->transpose_a),
        .b =
            operand(program_address(program, node->input[1]), p->depth, p->columns, p->transpose_b),
        .c = program_address(program, node->output[0]),
        .c_row_stride = p->columns,
        .c_batch_stride = p->rows * p->columns};
    int r = 0;

    for (int64_t first = 0; r == 0 && first < all; first += PRODUCTS_MAX) {
        product.batch = all - first < PRODUCTS_MAX ? all - first : PRODUCTS_MAX;
        r = record_product(recorder, &product, error);
        product.a.at = address_behind(product.a.at, product.batch * product.a.batch_stride);
        product.b.at = address_behind(product.b.at, product.batch * product.b.batch_stride);
        product.c = address_behind(product.c, product.batch * product.c_batch_stride);
    }
    return r;
}
