/* channel_dropout.c: drops whole channels of samples at random in training, as torch.nn.Dropout1d
 * and Dropout2d (Tompson et al. 2014, arXiv:1411.4280). Channel c of sample n is decided as element
 * n C + c of a dropout is. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_channel_dropout(struct graph *graph, int32_t input, const char *name,
                              float probability)
{
    const struct graph_tensor *x =
        layer_input(graph, input, name, OP_CHANNEL_DROPOUT, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    if (shape.rank < 3)
        return layer_fail(graph, name, OP_CHANNEL_DROPOUT,
                          "expects [batch, channels, …], but the input is %s",
                          graph_shape_format(&shape, text, sizeof text));
    if (!(probability >= 0.0f && probability < 1.0f))
        return layer_fail(graph, name, OP_CHANNEL_DROPOUT,
                          "the probability %g lies outside of 0 (included) to 1 (excluded)",
                          (double)probability);
    if (!graph->training || probability == 0.0f)
        return input;
    node = layer_append_node(graph, OP_CHANNEL_DROPOUT, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.dropout.probability = probability;
    node->attributes.dropout.dropout_stream = (uint32_t)(node - graph->nodes);
    node->attributes.dropout.rows = false;
    return graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_CHANNEL_DROPOUT_BACKWARD, &dy, 1, node->input,
                           1);
}

const struct graph_operator operator_channel_dropout = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_channel_dropout_backward = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops,
};
