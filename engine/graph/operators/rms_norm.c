/* rms_norm.c: normalises rows to a mean square of 1, as torch.nn.RMSNorm over the last dimension
 * (Zhang and Sennrich 2019, arXiv:1910.07467), and the gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_rms_norm(struct graph *graph, int32_t input, const char *name, float epsilon)
{
    const struct row_norm_layer layer = {
        .op = OP_RMS_NORM, .name = name, .input = input, .residual = -1, .epsilon = epsilon};

    return row_norm_append(graph, &layer, NULL);
}

int32_t graph_add_rms_norm(struct graph *graph, int32_t input, int32_t residual, const char *name,
                           float epsilon, int32_t *sum)
{
    const struct row_norm_layer layer = {.op = OP_ADD_RMS_NORM,
                                         .name = name,
                                         .input = input,
                                         .residual = residual,
                                         .epsilon = epsilon};

    return row_norm_append(graph, &layer, sum);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    row_norm_differentiate(differentiation, node, dy, OP_RMS_NORM_BACKWARD, false);
}

const struct graph_operator operator_rms_norm = {
    .cost_class = COST_NORMALISATION,
    .is_cheap = true,
    .flops = rms_norm_flops,
    .differentiate = differentiate,
};

/* Not marked as cheap to recompute, because of the sum (add.c). */
const struct graph_operator operator_add_rms_norm = {
    .cost_class = COST_NORMALISATION,
    .flops = rms_norm_flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_rms_norm_backward = {
    .cost_class = COST_NORMALISATION,
    .flops = row_norm_backward_flops,
};
