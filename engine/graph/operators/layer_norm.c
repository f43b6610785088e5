/* layer_norm.c: normalises rows to mean 0 and variance 1, as torch.nn.LayerNorm over the last
 * dimension (Ba, Kiros and Hinton 2016, arXiv:1607.06450), and the gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_layer_norm(struct graph *graph, int32_t input, const char *name, float epsilon,
                         bool bias)
{
    const struct row_norm_layer layer = {.op = OP_LAYER_NORM,
                                         .name = name,
                                         .input = input,
                                         .residual = -1,
                                         .epsilon = epsilon,
                                         .bias = bias,
                                         .centred = true};

    return row_norm_append(graph, &layer, NULL);
}

int32_t graph_add_layer_norm(struct graph *graph, int32_t input, int32_t residual, const char *name,
                             float epsilon, bool bias, int32_t *sum)
{
    const struct row_norm_layer layer = {.op = OP_ADD_LAYER_NORM,
                                         .name = name,
                                         .input = input,
                                         .residual = residual,
                                         .epsilon = epsilon,
                                         .bias = bias,
                                         .centred = true};

    return row_norm_append(graph, &layer, sum);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    row_norm_differentiate(differentiation, node, dy, OP_LAYER_NORM_BACKWARD, true);
}

const struct graph_operator operator_layer_norm = {
    .cost_class = COST_NORMALISATION,
    .is_cheap = true,
    .flops = layer_norm_flops,
    .differentiate = differentiate,
};

/* Not marked as cheap to recompute, because of the sum (add.c). */
const struct graph_operator operator_add_layer_norm = {
    .cost_class = COST_NORMALISATION,
    .flops = layer_norm_flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_layer_norm_backward = {
    .cost_class = COST_NORMALISATION,
    .flops = row_norm_backward_flops,
};
