/* permute.c: the axes of each sample in another order, as torch.permute, which is its own
 * gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

/* Whether the order names each axis once, and the axes make the sample. */
static bool permute_is_sane(const struct permute_attributes *permute, int64_t elements)
{
    unsigned seen = 0;
    int64_t product = 1;

    if (permute->rank < 1 || permute->rank > PERMUTE_RANK_MAX)
        return false;
    for (int i = 0; i < permute->rank; i++) {
        if (permute->order[i] < 0 || permute->order[i] >= permute->rank || permute->extent[i] < 1 ||
            __builtin_mul_overflow(product, permute->extent[i], &product))
            return false;
        seen |= 1u << permute->order[i];
    }
    return seen == (1u << permute->rank) - 1 && product == elements;
}

int32_t graph_permute(struct graph *graph, int32_t input, const struct permute_attributes *permute,
                      const char *name)
{
    const struct graph_tensor *x = layer_rows(graph, input, name, OP_PERMUTE);
    char text[SHAPE_TEXT_MAX];
    struct graph_shape shape;
    struct graph_node *node;
    int64_t elements, last;

    if (!x)
        return graph->error.code;
    elements = graph_shape_elements(&x->shape) / graph->batch;
    if (!permute_is_sane(permute, elements))
        return layer_fail(graph, name, OP_PERMUTE, "its axes are not those of the input %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    last = permute->extent[permute->order[permute->rank - 1]];
    shape = (struct graph_shape){.rank = 3, .extent = {graph->batch, elements / last, last}};
    if (elements == last)
        shape = (struct graph_shape){.rank = 2, .extent = {graph->batch, last}};
    node = layer_append_node(graph, OP_PERMUTE, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.permute = *permute;
    return graph->output;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const struct permute_attributes *forward = &node->attributes.permute;
    struct graph_node back = *node;

    for (int i = 0; i < forward->rank; i++) {
        back.attributes.permute.order[forward->order[i]] = i;
        back.attributes.permute.extent[i] = forward->extent[forward->order[i]];
    }
    differentiation_append(differentiation, &back, OP_PERMUTE, &dy, 1, node->input, 1);
}

const struct graph_operator operator_permute = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .differentiate = differentiate,
};
