/* quantization.c: graph_quantize(): makes layers multiply integers. It is a pass over the forward
 * part, so that no builder of a model has to know of it. */
#include "engine/graph/build.h"
#include "engine/graph/forward.h"
#include "engine/graph/operator.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* More products of 0 … 255 and -127 … 127 may exceed the sum's 32 bits. */
enum { PRODUCTS_MAX = INT32_MAX / (255 * 127) };

static bool is_quantizable(const struct graph_node *node)
{
    return node->op == OP_LINEAR || node->op == OP_RECURRENT;
}

enum { SCALE_NAME_MAX = GRAPH_NAME_MAX + 8 };

/* The name of a weight's factors. */
static void scale_name(const struct graph *graph, int32_t weight, char name[SCALE_NAME_MAX])
{
    snprintf(name, SCALE_NAME_MAX, "%s_scale", graph->tensors[weight].name);
}

bool graph_weight_fits_int8(const struct graph *graph, int32_t weight)
{
    const struct graph_shape *shape = &graph->tensors[weight].shape;
    char name[SCALE_NAME_MAX];

    scale_name(graph, weight, name);
    return graph_shape_elements(shape) / shape->extent[0] <= PRODUCTS_MAX &&
           strlen(name) < GRAPH_NAME_MAX && graph_find_tensor(graph, name) < 0;
}

bool graph_weight_can_be_int8(const struct graph *graph, int32_t weight)
{
    if (!graph_weight_fits_int8(graph, weight))
        return false;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->input_count; k++)
            if (node->input[k] == weight && (k != 1 || !is_quantizable(node)))
                return false;
    }
    return graph->tensors[weight].role == TENSOR_PARAMETER && weight != graph->output;
}

/* The factors of the weight's rows, which it gets with its first reader. */
int32_t graph_append_weight_scale(struct graph *graph, int32_t weight)
{
    struct graph_tensor of = graph->tensors[weight];
    const struct graph_shape rows = {.rank = 1, .extent = {of.shape.extent[0]}};
    char name[SCALE_NAME_MAX];
    int32_t scale;

    scale_name(graph, weight, name);
    scale = graph_find_tensor(graph, name);
    if (scale < 0)
        scale =
            graph_append_tensor(graph, TENSOR_PARAMETER, TENSOR_FLOAT32, &rows, false, "%s", name);
    if (scale >= 0)
        graph->tensors[weight].type = TENSOR_INT8;
    return scale;
}

static void quantize_node(struct graph *graph, int32_t index, int32_t scale)
{
    struct graph_node *node = &graph->nodes[index];
    int place = 3;

    if (node->op == OP_RECURRENT) {
        place = RECURRENT_SCALE;
        node->op = OP_RECURRENT_INT8;
    } else {
        node->op = OP_LINEAR_INT8;
    }
    while (node->input_count < place)
        graph_node_input(node, -1);
    graph_node_input(node, scale);
}

/* Returns how many layers became integers. */
static int quantize_dynamic(struct graph *graph)
{
    int quantized = 0;

    for (int32_t i = 0; !graph->error.code && i < graph->node_count; i++) {
        int32_t weight = graph->nodes[i].input[1], scale;

        /* the weight of a layer that was quantized before is one that several layers share */
        if (!is_quantizable(&graph->nodes[i]) || (graph->tensors[weight].type != TENSOR_INT8 &&
                                                  !graph_weight_can_be_int8(graph, weight)))
            continue;
        scale = graph_append_weight_scale(graph, weight);
        if (scale >= 0)
            quantize_node(graph, i, scale);
        quantized++;
    }
    return quantized;
}

int graph_quantize(struct graph *graph, const char *text, struct error *error)
{
    static const char stated[] = "static\n";
    int quantized = 0;

    if (!graph->error.code && (graph->training || graph->compute_type != TENSOR_FLOAT32))
        graph_fail(graph, -EINVAL, "only a float32 graph for evaluation can be quantized");
    if (strncmp(text, stated, sizeof stated - 1) == 0)
        quantized = graph_quantize_convolutions(graph, text + sizeof stated - 1);
    else if (strcmp(text, "dynamic") != 0)
        graph_fail(graph, -EINVAL, "the quantization \"%.20s\" is none that this traind knows",
                   text);
    quantized += quantize_dynamic(graph);
    if (!graph->error.code && !quantized)
        graph_fail(graph, -EINVAL,
                   "the model has no linear or recurrent layer of its own that could be quantized");
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}
