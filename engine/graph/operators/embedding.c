/* embedding.c: a learnt row for each index, as torch.nn.Embedding, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_embedding(struct graph *graph, int32_t input, const char *name, int64_t vocabulary,
                        int64_t width)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_EMBEDDING, TENSOR_INT32);
    const struct initializer normal = {.kind = INITIALIZER_NORMAL, .bound = 1.0f};
    struct graph_shape result, weight = {.rank = 2, .extent = {vocabulary, width}};
    int32_t inputs[2] = {input, -1};
    char text[SHAPE_TEXT_MAX];

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 2)
        return layer_fail(graph, name, OP_EMBEDDING,
                          "expects [batch, context], but the input is %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    if (vocabulary < 1 || width < 1)
        return layer_fail(graph, name, OP_EMBEDDING,
                          "a vocabulary of %lld and a width of %lld, at least 1 is needed",
                          (long long)vocabulary, (long long)width);
    result = (struct graph_shape){.rank = 3, .extent = {graph->batch, x->shape.extent[1], width}};
    inputs[1] = layer_append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, normal);
    layer_append_node(graph, OP_EMBEDDING, name, inputs, 2,
                      layer_append_result(graph, name, &result));
    return graph->error.code ? graph->error.code : graph->output;
}

/* It reads the rows that it needs, not the whole table. */
static double bytes(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_bytes(graph, node->input[0]) +
           2 * graph_tensor_bytes(graph, node->output[0]);
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[1]);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_EMBEDDING_BACKWARD,
                           (int32_t[]){node->input[0], dy}, 2, &node->input[1], 1);
}

const struct graph_operator operator_embedding = {
    .cost_class = COST_EMBEDDING,
    .is_cheap = true,
    .bytes = bytes,
    .differentiate = differentiate,
};

const struct graph_operator operator_embedding_backward = {
    .cost_class = COST_EMBEDDING,
    .flops = flops_backward,
};
