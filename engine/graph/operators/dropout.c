/* dropout.c: drops numbers or whole samples at random in training, as torch.nn.Dropout and
 * torchvision.ops.StochasticDepth. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

static int32_t append_dropout(struct graph *graph, int32_t input, const char *name,
                              float probability, bool rows)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_DROPOUT, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (!(probability >= 0.0f && probability < 1.0f))
        return layer_fail(graph, name, OP_DROPOUT,
                          "the probability %g lies outside of 0 (included) to 1 (excluded)",
                          (double)probability);
    if (!graph->training || probability == 0.0f)
        return input;
    shape = x->shape;
    node = layer_append_node(graph, OP_DROPOUT, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.dropout.probability = probability;
    node->attributes.dropout.dropout_stream = (uint32_t)(node - graph->nodes);
    node->attributes.dropout.rows = rows;
    return graph->output;
}

int32_t graph_dropout(struct graph *graph, int32_t input, const char *name, float probability)
{
    return append_dropout(graph, input, name, probability, false);
}

int32_t graph_stochastic_depth(struct graph *graph, int32_t input, const char *name,
                               float probability)
{
    return append_dropout(graph, input, name, probability, true);
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_DROPOUT_BACKWARD, &dy, 1, node->input, 1);
}

const struct graph_operator operator_dropout = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_dropout_backward = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .flops = flops,
};
