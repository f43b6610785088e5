/* row_norm.c: the common part of layer norm and RMS norm: both normalise each row, which the last
 * dimension counts. See operators.h. */
#include "engine/graph/operators/operators.h"

/* [B,T,D] -> [B,T]: a number for each row. */
static struct graph_shape rows_of(const struct graph_shape *shape)
{
    struct graph_shape rows = *shape;

    rows.rank--;
    return rows;
}

/* Checks that x and the tensor that is added to it are rows of one shape. */
static int check_rows(struct graph *graph, const struct row_norm_layer *layer,
                      struct graph_shape *shape)
{
    const struct graph_tensor *x =
        layer_input(graph, layer->input, layer->name, layer->op, TENSOR_FLOAT32);
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    const struct graph_tensor *residual;

    if (!x)
        return graph->error.code;
    *shape = x->shape;
    if (shape->rank != 2 && shape->rank != 3)
        return layer_fail(graph, layer->name, layer->op,
                          "expects [batch, features] or [batch, length, features], but the input "
                          "is %s",
                          graph_shape_format(shape, first, sizeof first));
    if (!(layer->epsilon >= 0))
        return layer_fail(graph, layer->name, layer->op, "epsilon %g must be at least 0",
                          (double)layer->epsilon);
    if (layer->residual < 0)
        return 0;
    residual = layer_input(graph, layer->residual, layer->name, layer->op, TENSOR_FLOAT32);
    if (residual && !graph_shape_equal(&residual->shape, shape))
        return layer_fail(graph, layer->name, layer->op, "the shapes %s and %s differ",
                          graph_shape_format(shape, first, sizeof first),
                          graph_shape_format(&residual->shape, second, sizeof second));
    return graph->error.code;
}

int32_t row_norm_append(struct graph *graph, const struct row_norm_layer *layer, int32_t *sum)
{
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS}, ones = {.kind = INITIALIZER_ONES};
    bool adds = layer->residual >= 0;
    int32_t inputs[4] = {layer->input, -1, -1, layer->residual};
    int32_t added = -1, inverse = -1, mean = -1;
    struct graph_shape shape, rows, width;
    struct graph_node *node;

    if (check_rows(graph, layer, &shape))
        return graph->error.code;
    rows = rows_of(&shape);
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): check_rows() has set it */
    width = (struct graph_shape){.rank = 1, .extent = {shape.extent[shape.rank - 1]}};
    inputs[1] =
        layer_append_parameter(graph, layer->name, "weight", TENSOR_PARAMETER, &width, ones);
    if (layer->bias)
        inputs[2] =
            layer_append_parameter(graph, layer->name, "bias", TENSOR_PARAMETER, &width, zeros);
    if (adds)
        added = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &shape, true,
                                    "%s.sum", layer->name);
    if (graph->training)
        inverse = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &rows, true,
                                      "%s.inverse", layer->name);
    if (graph->training && layer->centred)
        mean = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &rows, true, "%s.mean",
                                   layer->name);
    node = layer_append_node(graph, layer->op, layer->name, inputs, adds ? 4 : 3,
                             layer_append_result(graph, layer->name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.row_norm_epsilon = layer->epsilon;
    for (int i = 0; i < 3; i++)
        if ((int32_t[]){added, inverse, mean}[i] >= 0)
            graph_node_output(graph, node, (int32_t[]){added, inverse, mean}[i]);
    if (sum)
        *sum = added;
    return graph->output;
}

/* The sum has other readers. Their gradient, `dsum`, is added to dx. */
void row_norm_differentiate(struct differentiation *differentiation, const struct graph_node *node,
                            int32_t dy, enum graph_op backward, bool centred)
{
    struct graph *graph = differentiation->graph;
    bool adds = node->input_count > 3;
    int32_t x = adds ? node->output[1] : node->input[0];
    int32_t dsum = adds ? differentiation->gradient[x] : -1;
    const int32_t *moments = &node->output[adds ? 2 : 1];
    const int32_t inputs[] = {dy, x, node->input[1], moments[0], dsum, centred ? moments[1] : -1};
    int32_t own = graph->node_count;

    /* dx is always an output: the same pass computes it, and the order stays fixed */
    differentiation_append(differentiation, node, backward, inputs, 6, node->input, 3);
    if (adds && !graph->error.code && differentiation_needs(differentiation, node->input[3]))
        differentiation_give(differentiation, node->input[3], graph->nodes[own].output[0]);
}

/* The sum and the sum of squares, or the squares alone; then scale and shift. */
double layer_norm_flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * (node->input_count > 3 ? 8 : 7);
}

double rms_norm_flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * (node->input_count > 3 ? 5 : 4);
}

/* The normalised values again, two sums over the row, dx from them, and the sums over the rows. */
double row_norm_backward_flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 13;
}
