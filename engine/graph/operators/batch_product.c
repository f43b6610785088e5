/* batch_product.c: products of matrices that both belong to the samples, as torch.bmm, and the
 * gradients, which are such products. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_batch_product(struct graph *graph, int32_t a, int32_t b,
                            const struct batch_product_attributes *product, const char *name)
{
    const struct graph_tensor *x = layer_rows(graph, a, name, OP_BATCH_PRODUCT);
    const struct graph_tensor *y = layer_rows(graph, b, name, OP_BATCH_PRODUCT);
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    const int32_t inputs[2] = {a, b};
    struct graph_shape shape;
    struct graph_node *node;

    if (!x || !y)
        return graph->error.code;
    if (product->groups < 1 || product->rows < 1 || product->columns < 1 || product->depth < 1 ||
        product->groups * product->rows * product->depth * graph->batch !=
            graph_shape_elements(&x->shape) ||
        product->groups * product->depth * product->columns * graph->batch !=
            graph_shape_elements(&y->shape))
        return layer_fail(graph, name, OP_BATCH_PRODUCT,
                          "the shapes %s and %s do not fit each other",
                          graph_shape_format(&x->shape, first, sizeof first),
                          graph_shape_format(&y->shape, second, sizeof second));
    shape = (struct graph_shape){
        .rank = 3, .extent = {graph->batch, product->groups * product->rows, product->columns}};
    node = layer_append_node(graph, OP_BATCH_PRODUCT, name, inputs, 2,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.batch_product = *product;
    return graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * 2 *
           (double)node->attributes.batch_product.depth;
}

/* With y = a b: da = dy b^T and db = a^T dy; of an operand that is stored transposed, the
 * transposed of these. */
static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const struct batch_product_attributes *p = &node->attributes.batch_product;
    int32_t a = node->input[0], b = node->input[1];
    struct graph_node back = *node;

    back.attributes.batch_product =
        p->transpose_a ? (struct batch_product_attributes){p->groups,  p->depth,       p->rows,
                                                           p->columns, p->transpose_b, true}
                       : (struct batch_product_attributes){p->groups,  p->rows, p->depth,
                                                           p->columns, false,   !p->transpose_b};
    if (differentiation_needs(differentiation, a))
        differentiation_append(differentiation, &back, OP_BATCH_PRODUCT,
                               p->transpose_a ? (int32_t[]){b, dy} : (int32_t[]){dy, b}, 2, &a, 1);
    back.attributes.batch_product =
        p->transpose_b ? (struct batch_product_attributes){p->groups, p->columns, p->depth,
                                                           p->rows,   true,       p->transpose_a}
                       : (struct batch_product_attributes){p->groups, p->depth,        p->columns,
                                                           p->rows,   !p->transpose_a, false};
    if (differentiation_needs(differentiation, b))
        differentiation_append(differentiation, &back, OP_BATCH_PRODUCT,
                               p->transpose_b ? (int32_t[]){dy, a} : (int32_t[]){a, dy}, 2, &b, 1);
}

const struct graph_operator operator_batch_product = {
    .cost_class = COST_ATTENTION,
    .flops = flops,
    .differentiate = differentiate,
};
