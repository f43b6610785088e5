/* byte_samples.c: makes the first linear layer of a graph for evaluation multiply bytes as they
 * are, so that nobody has to turn them into float32 numbers. See graph.h. */
#include "engine/graph/build.h"
#include "engine/graph/operator.h"

#include <math.h>

/* How many times the least factor the largest may be. An integer that stands for a weight times its
 * factor is exact to 2^-24 of the row's largest. Of weights of one size a sum of float32 numbers is
 * off by some 2^-24 sqrt(I), so there is room for a ratio of sqrt(I); channels of images differ by
 * less than 2. */
static const float FACTORS_RATIO_MOST = 4;

/* The most that a mean of bytes can be. */
static const float BYTE_MOST = 255;

static bool constants_suit(const struct byte_normalisation *bytes)
{
    float least = INFINITY, most = 0;

    for (int64_t i = 0; i < bytes->groups; i++) {
        float factor = fabsf(bytes->factor[i]);

        if (!isfinite(factor) || !(bytes->mean[i] >= 0 && bytes->mean[i] <= BYTE_MOST))
            return false;
        least = factor < least ? factor : least;
        most = factor > most ? factor : most;
    }
    return least > 0 && most <= FACTORS_RATIO_MOST * least;
}

/* The only node that reads the samples, or the last of their other shapes. */
static int32_t reader_of(const struct graph *graph)
{
    int32_t reader = graph_single_reader(graph, graph->input);

    while (reader >= 0 && graph->nodes[reader].op == OP_RESHAPE)
        reader = graph_single_reader(graph, graph->nodes[reader].output[0]);
    return reader;
}

int32_t graph_find_bytes_layer(const struct graph *graph, const struct byte_normalisation *bytes)
{
    int32_t reader = graph->error.code || graph->input < 0 ? -1 : reader_of(graph);
    const struct graph_node *node = &graph->nodes[reader < 0 ? 0 : reader];
    const struct graph_tensor *x, *weight;

    if (reader < 0 || node->op != OP_LINEAR || graph->training)
        return -1;
    x = &graph->tensors[node->input[0]];
    weight = &graph->tensors[node->input[1]];
    if (x->type != TENSOR_FLOAT32 || x->shape.rank != 2 ||
        x->shape.extent[1] % bytes->groups != 0 || weight->role != TENSOR_PARAMETER ||
        graph_single_reader(graph, node->input[1]) != reader || !constants_suit(bytes))
        return -1;
    return reader;
}

void graph_read_bytes(struct graph *graph, int32_t layer, const struct byte_normalisation *bytes)
{
    struct graph_node *node = &graph->nodes[layer];
    const struct graph_shape rows = graph->tensors[node->input[0]].shape;
    int32_t tensor = node->input[0];

    node->op = OP_LINEAR_BYTES;
    node->attributes.bytes = *bytes;
    /* the samples, and all of their other shapes */
    for (;; tensor = graph->nodes[graph->tensors[tensor].producer].input[0]) {
        graph->tensors[tensor].type = TENSOR_UINT8;
        graph->tensors[tensor].shape = rows;
        if (tensor == graph->input)
            return;
    }
}
