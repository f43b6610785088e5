/* onnx.c: a model of a file in the ONNX format, fitted to the data: its output must be what the
 * loss compares. engine/onnx/ reads the file. */
#include "engine/graph/forward.h"
#include "engine/models/builders.h"

#include <errno.h>

/* What the node that gives a tensor reads, if it makes probabilities of scores as a loss does: of
 * classes, or of each number; else the tensor. */
static int32_t scores_of(const struct graph *graph, int32_t tensor, bool classes, bool binary)
{
    int32_t producer = graph->tensors[tensor].producer;
    const struct graph_node *node = producer < 0 ? NULL : &graph->nodes[producer];

    if (node && ((classes && node->op == OP_SOFTMAX) ||
                 (binary && node->op == OP_ACTIVATION &&
                  node->attributes.activation == ACTIVATION_SIGMOID)))
        return node->input[0];
    return tensor;
}

/* Takes the last node off, which gives the result. */
static void last_drop(struct graph *graph, int32_t result)
{
    graph->tensors[result].producer = -1; /* no node reads or writes it */
    graph->node_count--;
}

/* The same of several outputs side by side, each with a loss of its own. */
static void probabilities_of_heads_drop(struct graph *graph, const struct model_data *data,
                                        int32_t *result)
{
    const struct graph_node *last = &graph->nodes[graph->node_count - 1];
    int32_t parts[GRAPH_INPUTS_MAX];
    int count = last->input_count;
    bool same = true;

    if (last->op != OP_CONCATENATE || count != data->head_count)
        return;
    for (int i = 0; i < count; i++) {
        const struct graph_shape *shape = &graph->tensors[last->input[i]].shape;

        if (shape->rank != 2 || shape->extent[1] != data->heads[i].classes)
            return;
        parts[i] = scores_of(graph, last->input[i], !data->heads[i].binary, data->heads[i].binary);
        same &= parts[i] == last->input[i];
    }
    if (same)
        return;
    last_drop(graph, *result);
    *result = graph_concatenate(graph, parts, count, "outputs");
}

/* Takes off a softmax or sigmoid with which the model ends, if the loss has it: it would be applied
 * twice, in training and to predictions. */
static void probabilities_drop(struct graph *graph, const struct model_data *data, int32_t *result)
{
    enum model_loss loss = data->loss;
    int32_t last = graph->node_count - 1, scores;

    if (last < 0 || graph->nodes[last].output[0] != *result)
        return;
    if (loss == LOSS_HEADS) {
        probabilities_of_heads_drop(graph, data, result);
        return;
    }
    scores = scores_of(graph, *result,
                       loss == LOSS_CROSS_ENTROPY || loss == LOSS_FOCAL || loss == LOSS_SOFT,
                       loss == LOSS_BINARY);
    if (scores == *result)
        return;
    last_drop(graph, *result);
    *result = scores;
    graph->output = scores;
}

static bool learns(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER)
            return true;
    return false;
}

/* Makes a row of what an image is, if the data has as many: those of an autoencoder, or classes of
 * 1x1 pixels. */
static void outputs_flatten(struct graph *graph, int64_t outputs, int32_t *result)
{
    const struct graph_shape *shape = &graph->tensors[*result].shape;

    if (shape->rank > 2 && shape->extent[shape->rank - 1] != outputs &&
        graph_shape_elements(shape) / graph->batch == outputs)
        *result = graph_flatten(graph, *result, "outputs");
}

static int build(const struct model_config *config, const struct model_data *data,
                 struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    int code = onnx_build(config->onnx, !config->draws_weights, graph, x, result, error);
    const struct graph_shape *shape;
    char text[128];

    if (code || graph->error.code)
        return code;
    if (graph->training && !learns(graph))
        return error_set(error, -EINVAL,
                         "the model has no weights that could learn: numbers of Constant nodes are "
                         "constants, initialisers are weights");
    probabilities_drop(graph, data, result);
    if (!data->outputs) /* model_count_outputs() */
        return 0;
    outputs_flatten(graph, data->outputs, result);
    if (graph->error.code)
        return 0; /* the caller reports it */
    shape = &graph->tensors[*result].shape;
    if (shape->extent[shape->rank - 1] != data->outputs && data->loss == LOSS_TRIPLET)
        return error_set(error, -EINVAL,
                         "the model gives %lld outputs (%s), but model.embedding_size is %lld; "
                         "leave it out",
                         (long long)shape->extent[shape->rank - 1],
                         graph_shape_format(shape, text, sizeof text), (long long)data->outputs);
    if (shape->extent[shape->rank - 1] != data->outputs)
        return error_set(error, -EINVAL,
                         "the model gives %lld outputs (%s), but the data has %lld %s",
                         (long long)shape->extent[shape->rank - 1],
                         graph_shape_format(shape, text, sizeof text), (long long)data->outputs,
                         model_loss_is_of_values(data->loss) ? "values to predict" : "classes");
    return 0;
}

const struct model models_onnx = {
    .build = build,
    .python =
        {.imports = "",
         .body = "    raise NotImplementedError(\"these weights belong to the module that the ONNX "
                 "file was exported \"\n"
                 "                              \"from: load them there with "
                 "load_state_dict\")\n"},
};
