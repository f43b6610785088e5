/* take.c: rows of a tensor by constant numbers, as torch.index_select: padding, steps of slices,
 * repetition and constant indices are such. The gradient of a row is the sum over the rows that
 * took it; the map lists them, so that each number is summed in one order everywhere. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <string.h>

int64_t take_map_elements(const struct take_attributes *take)
{
    return 2 * take->to + take->from + 1;
}

void take_map_invert(const struct take_attributes *take, double *map)
{
    double *first = map + take->to, *list = first + take->from + 1;

    memset(first, 0, (size_t)(take->from + 1 + take->to) * sizeof *first);
    for (int64_t i = 0; i < take->to; i++)
        if (map[i] >= 0)
            first[(int64_t)map[i] + 1]++;
    for (int64_t j = 0; j < take->from; j++)
        first[j + 1] += first[j];
    for (int64_t i = 0; i < take->to; i++)
        if (map[i] >= 0)
            list[(int64_t)first[(int64_t)map[i]]++] = (double)i;
    /* each number is now where the next row's begin */
    for (int64_t j = take->from; j > 0; j--)
        first[j] = first[j - 1];
    first[0] = 0;
}

int32_t graph_take(struct graph *graph, int32_t input, int32_t map,
                   const struct take_attributes *take, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_TAKE, TENSOR_FLOAT32);
    const struct graph_tensor *numbers = layer_input(graph, map, name, OP_TAKE, TENSOR_FLOAT32);
    const int32_t inputs[2] = {input, map};
    char text[SHAPE_TEXT_MAX];
    struct graph_shape shape = {.rank = 2};
    struct graph_node *node;

    if (!x || !numbers)
        return graph->error.code;
    if (take->outer < 1 || take->from < 1 || take->to < 1 || take->inner < 1 ||
        take->from > TAKE_ROWS_MAX || take->to > TAKE_ROWS_MAX ||
        (x->batched && x->shape.rank != 2 && x->shape.rank != 3) ||
        take->outer * take->from * take->inner !=
            graph_shape_elements(&x->shape) / (x->batched ? graph->batch : 1) ||
        graph_shape_elements(&numbers->shape) != take_map_elements(take))
        return layer_fail(graph, name, OP_TAKE,
                          "%lld of %lld rows (at most %d) cannot be taken of the input %s",
                          (long long)take->to, (long long)take->from, (int)TAKE_ROWS_MAX,
                          graph_shape_format(&x->shape, text, sizeof text));
    shape.extent[0] = graph->batch;
    shape.extent[1] = take->outer * take->to * take->inner;
    node = layer_append_node(graph, OP_TAKE, name, inputs, 2,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.take = *take;
    return graph->output;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[1]};

    differentiation_append(differentiation, node, OP_TAKE_BACKWARD, inputs, 2, node->input, 1);
}

const struct graph_operator operator_take = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .differentiate = differentiate,
};

const struct graph_operator operator_take_backward = {
    .cost_class = COST_ELEMENTWISE,
};
