/* attention.c: scaled dot-product attention with several heads (Vaswani et al. 2017,
 * arXiv:1706.03762), as torch.nn.functional.scaled_dot_product_attention, and its gradient. The
 * probabilities are not stored: the backward part makes them again from the saved logarithms of
 * their sums (Dao et al. 2022, arXiv:2205.14135), so memory grows linearly with the sequence. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

/* [B,T,3D] of queries, keys and values; also checks the number of heads. */
static const struct graph_tensor *packed_input(struct graph *graph, int32_t input, const char *name,
                                               enum graph_op op, int heads)
{
    const struct graph_tensor *x = layer_input(graph, input, name, op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (!x)
        return NULL;
    if (heads >= 1 && x->shape.rank == 3 && x->shape.extent[2] % (3 * (int64_t)heads) == 0)
        return x;
    layer_fail(graph, name, op,
               "expects [batch, length, 3 x width] of queries, keys and values, with a width that "
               "the heads divide, but the input is %s and there are %d heads",
               graph_shape_format(&x->shape, text, sizeof text), heads);
    return NULL;
}

int32_t graph_attention(struct graph *graph, int32_t input, const char *name, int heads,
                        bool causal, int32_t lengths)
{
    const struct graph_tensor *x = packed_input(graph, input, name, OP_ATTENTION, heads);
    const int32_t inputs[2] = {input, lengths};
    struct graph_shape result, sums;
    struct graph_node *node;
    int32_t saved = -1;

    if (!x)
        return graph->error.code;
    result = x->shape;
    result.extent[2] /= 3;
    sums = (struct graph_shape){.rank = 3, .extent = {graph->batch, heads, result.extent[1]}};
    if (graph->training)
        saved = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &sums, true,
                                    "%s.log_sum_exp", name);
    node = layer_append_node(graph, OP_ATTENTION, name, inputs, 2,
                             layer_append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.attention.heads = heads;
    node->attributes.attention.causal = causal;
    if (saved >= 0)
        graph_node_output(graph, node, saved);
    return graph->output;
}

/* A product of all pairs of steps and one with the values; of causal attention half of each. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    double steps = (double)graph->tensors[node->output[0]].shape.extent[1];

    return graph_tensor_elements(graph, node->output[0]) * steps *
           (node->attributes.attention.causal ? 2 : 4);
}

/* The first product again, and four for the gradients. */
static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    double steps = (double)graph->tensors[node->input[0]].shape.extent[1];

    return graph_tensor_elements(graph, node->input[0]) * steps *
           (node->attributes.attention.causal ? 5 : 10);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[0], node->output[0], node->output[1], node->input[1]};

    differentiation_append(differentiation, node, OP_ATTENTION_BACKWARD, inputs, 5, node->input, 1);
}

const struct graph_operator operator_attention = {
    .cost_class = COST_ATTENTION,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_attention_backward = {
    .cost_class = COST_ATTENTION,
    .flops = flops_backward,
};

/* ---- rotary positions ------------------------------------------------------------------------ */

int32_t graph_rotary(struct graph *graph, int32_t input, const char *name, int heads, float base)
{
    const struct graph_tensor *x = packed_input(graph, input, name, OP_ROTARY, heads);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    if (shape.extent[2] / 3 / heads % 2 || !(base > 1))
        return layer_fail(graph, name, OP_ROTARY,
                          "needs an even width of each head and a base above 1, but they are %lld "
                          "and %g",
                          (long long)(shape.extent[2] / 3 / heads), (double)base);
    node = layer_append_node(graph, OP_ROTARY, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.rotary.heads = heads;
    node->attributes.rotary.base = base;
    return graph->output;
}

static double flops_rotary(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 2;
}

static void differentiate_rotary(struct differentiation *differentiation,
                                 const struct graph_node *node, int32_t dy)
{
    differentiation_append(differentiation, node, OP_ROTARY_BACKWARD, &dy, 1, node->input, 1);
}

/* A pair of numbers is turned in the plane: each depends on both, so that nothing is in place. */
const struct graph_operator operator_rotary = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .flops = flops_rotary,
    .differentiate = differentiate_rotary,
};

const struct graph_operator operator_rotary_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops_rotary,
};
