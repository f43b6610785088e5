/* selective_scan.c: the selective state-space recurrence of Mamba (Gu and Dao 2023,
 * arXiv:2312.00752, section 3) and its gradients. For each channel d and state n
 *
 *     step  = softplus(delta[t,d])
 *     h[n]  = exp(step A[d,n]) h[n] + step B[t,n] u[t,d],   A = -exp(A_log)
 *     y     = (sum over n of C[t,n] h[n] + D[d] u[t,d]) silu(z[t,d])
 *
 * The states of every SCAN_CHUNK-th step are kept, and the backward part makes those between anew:
 * the memory grows with T D N / SCAN_CHUNK, not with T D N. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

static int check_shape(struct graph *graph, const char *name, int32_t tensor, const char *what,
                       const struct graph_shape *expected)
{
    char given[SHAPE_TEXT_MAX], wanted[SHAPE_TEXT_MAX];

    if (!layer_input(graph, tensor, name, OP_SELECTIVE_SCAN, TENSOR_FLOAT32))
        return graph->error.code;
    if (graph_shape_equal(&graph->tensors[tensor].shape, expected))
        return 0;
    return layer_fail(graph, name, OP_SELECTIVE_SCAN, "%s is %s, but %s is needed", what,
                      graph_shape_format(&graph->tensors[tensor].shape, given, sizeof given),
                      graph_shape_format(expected, wanted, sizeof wanted));
}

static int check_inputs(struct graph *graph, const struct scan_inputs *scan, const char *name)
{
    const struct graph_tensor *u = layer_sequence(graph, scan->u, name, OP_SELECTIVE_SCAN);
    const struct graph_tensor *b = layer_sequence(graph, scan->b, name, OP_SELECTIVE_SCAN);
    struct graph_shape channels, states;
    char text[SHAPE_TEXT_MAX];

    if (!u || !b)
        return graph->error.code;
    if (scan->sequences < 1 || u->shape.extent[1] % scan->sequences)
        return layer_fail(graph, name, OP_SELECTIVE_SCAN, "%d sequences do not divide %s",
                          scan->sequences, graph_shape_format(&u->shape, text, sizeof text));
    channels = states = u->shape;
    states.extent[2] = b->shape.extent[2];
    if (check_shape(graph, name, scan->delta, "delta", &channels) ||
        check_shape(graph, name, scan->b, "B", &states) ||
        check_shape(graph, name, scan->c, "C", &states) ||
        (scan->z >= 0 && check_shape(graph, name, scan->z, "z", &channels)))
        return graph->error.code;
    return 0;
}

int32_t graph_selective_scan(struct graph *graph, const struct scan_inputs *scan, const char *name)
{
    const struct initializer logarithms = {.kind = INITIALIZER_LOG_COUNT};
    const struct initializer ones = {.kind = INITIALIZER_ONES};
    int32_t inputs[7] = {scan->u, scan->delta, -1, scan->b, scan->c, -1, scan->z};
    struct graph_shape a = {.rank = 2}, d = {.rank = 1}, kept = {.rank = 4}, y;
    struct graph_node *node;
    int64_t length;
    int32_t states = -1;

    if (check_inputs(graph, scan, name))
        return graph->error.code;
    y = graph->tensors[scan->u].shape;
    length = y.extent[1] / scan->sequences;
    d.extent[0] = a.extent[0] = y.extent[2];
    a.extent[1] = graph->tensors[scan->b].shape.extent[2];
    kept = (struct graph_shape){
        .rank = 4,
        .extent = {graph->batch, scan->sequences * ((length + SCAN_CHUNK - 1) / SCAN_CHUNK),
                   a.extent[1], a.extent[0]}};
    inputs[2] = layer_append_parameter(graph, name, "A_log", TENSOR_PARAMETER, &a, logarithms);
    inputs[5] = layer_append_parameter(graph, name, "D", TENSOR_PARAMETER, &d, ones);
    if (graph->training)
        states = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &kept, true,
                                     "%s.states", name);
    node = layer_append_node(graph, OP_SELECTIVE_SCAN, name, inputs, 7,
                             layer_append_result(graph, name, &y));
    if (!node)
        return graph->error.code;
    node->attributes.time =
        (struct time_attributes){.sequences = scan->sequences, .reverse = scan->reverse};
    if (states >= 0)
        graph_node_output(graph, node, states);
    return graph->output;
}

/* Per step, channel and state: an exponential (about ten operations), and two multiply-adds and two
 * products. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) *
           (double)graph->tensors[node->input[2]].shape.extent[1] * 16;
}

/* The states again, and in reverse order the gradients by state, A, B, C and step. */
static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) *
           (double)graph->tensors[node->input[3]].shape.extent[1] * 32;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t *in = node->input;
    const int32_t inputs[] = {dy, in[0], in[1], in[2], in[3], in[4], in[5], in[6], node->output[1]};

    differentiation_append(differentiation, node, OP_SELECTIVE_SCAN_BACKWARD, inputs, 9, in, 7);
}

const struct graph_operator operator_selective_scan = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_selective_scan_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops_backward,
};
