/* build.c: the graph of a case. */
#include "engine/graph/forward.h"
#include "tests/cuda/cases.h"

#include <stdio.h>

static int32_t append_layer(struct graph *graph, const struct case_layer *layer, const char *name,
                            int32_t before, int32_t last)
{
    char other[24];

    switch (layer->kind) {
    case CASE_END:
        break;
    case CASE_LINEAR:
        return graph_linear(graph, last, name, layer->size, layer->bias);
    case CASE_CONV2D:
        return graph_conv2d(graph, last, name, layer->size, &layer->window, layer->bias);
    case CASE_MAX_POOL2D:
        return graph_max_pool2d(graph, last, name, &layer->window);
    case CASE_AVERAGE_POOL2D:
        return graph_average_pool2d(graph, last, name, &layer->window);
    case CASE_GLOBAL_AVERAGE_POOL2D:
        return graph_global_average_pool2d(graph, last, name);
    case CASE_RELU ... CASE_SOFTPLUS:
        return graph_activation(graph, last, name, (enum activation_kind)(layer->kind - CASE_RELU));
    case CASE_BATCH_NORM:
        return graph_batch_norm(graph, last, name, 1e-5f, 0.1f);
    case CASE_EMBEDDING:
        return graph_embedding(graph, last, name, CASE_VOCABULARY, layer->size);
    case CASE_DROPOUT:
        return graph_dropout(graph, last, name, 0.3f);
    case CASE_STOCHASTIC_DEPTH:
        return graph_stochastic_depth(graph, last, name, 0.3f);
    case CASE_ADD:
        return graph_add(graph, before, last, name);
    case CASE_CHANNEL_SCALE:
        snprintf(other, sizeof other, "%s.scale", name);
        return graph_channel_scale(graph, last,
                                   graph_activation(graph,
                                                    graph_global_average_pool2d(graph, last, other),
                                                    other, ACTIVATION_SIGMOID),
                                   name);
    case CASE_FLATTEN:
        return graph_flatten(graph, last, name);
    }
    return last;
}

/* Returns the last result; an error stays in graph->error. */
static int32_t append_layers(struct graph *graph, const struct test_case *test)
{
    int32_t before = graph->input, last = graph->input;
    char name[16];

    if (test->build)
        return test->build(graph, graph->input);
    for (int i = 0; i < CASE_LAYERS_MAX && test->layers[i].kind != CASE_END; i++) {
        int32_t result;

        snprintf(name, sizeof name, "%d", i);
        result = append_layer(graph, &test->layers[i], name, before, last);
        before = last;
        last = result;
    }
    return last;
}

static void append_loss(struct graph *graph, const struct test_case *test, int32_t output)
{
    static const struct loss_head heads[] = {
        {.classes = 5, .labels = 3, .binary = true, .weight = 0.5f},
        {.classes = 4, .labels = 2, .weight = 1.5f}};

    const enum case_loss loss = test->loss;

    if (loss == CASE_CLASSES)
        graph_cross_entropy(graph, output);
    else if (loss == CASE_SOFT)
        graph_soft_cross_entropy(graph, output);
    else if (loss == CASE_HEADS)
        graph_head_losses(graph, output, heads, sizeof heads / sizeof *heads);
    else if (loss == CASE_FOCAL)
        graph_focal_loss(graph, output, 2);
    else if (loss == CASE_ORDINAL)
        graph_ordinal_loss(graph, output);
    else if (loss == CASE_TRIPLETS)
        graph_triplet_loss(graph, output, &test->triplet_loss);
    else if (loss == CASE_VALUES)
        graph_value_loss(graph, output, &test->value_loss);
    else
        graph_mse(graph, output);
}

static bool has_parameters(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER)
            return true;
    return false;
}

static int append_optimizer(struct graph *graph, const struct test_case *test, struct error *error)
{
    struct optimizer_group groups[CASE_GROUPS_MAX];

    if (!test->groups)
        return graph_add_optimizer(graph, &test->optimizer, error);
    for (int i = 0; i < test->groups; i++)
        groups[i] = (struct optimizer_group){
            .kinds = PARAMETERS_VECTORS,
            .learning_rate_scale = 0.5,
            .config = {.kind = OPTIMIZER_LION, .beta1 = 0.9, .beta2 = 0.99}};
    groups[test->groups - 1] = (struct optimizer_group){
        .kinds = PARAMETERS_ALL, .learning_rate_scale = 2, .config = test->optimizer};
    return graph_add_optimizer_groups(graph, groups, test->groups, error);
}

static int append_training(struct graph *graph, const struct test_case *test, enum tensor_type type,
                           struct error *error)
{
    struct recompute_config recompute = {.kind = test->recompute};
    int result = graph_differentiate(graph, error);

    if (result == 0 && test->recompute != RECOMPUTE_NONE)
        result = graph_recompute(graph, &recompute, error);
    if (result == 0)
        result = graph_carry_states(graph, error);
    if (result == 0 && type != TENSOR_FLOAT32)
        result = graph_lower_precision(graph, type, error);
    if (result == 0 && has_parameters(graph))
        result = append_optimizer(graph, test, error);
    if (result == 0 && test->average)
        result = graph_add_averages(graph, error);
    return result;
}

int case_build(const struct test_case *test, enum tensor_type type, struct graph *graph,
               struct error *error)
{
    int result = 0;

    graph_init(graph, test->batch, !test->evaluation);
    graph->accumulate = test->accumulate;
    graph->rounds_parameters = test->pure && type != TENSOR_FLOAT32 && type != TENSOR_TF32;
    graph->wants_input_gradient = !test->evaluation && !test->indices;
    graph_input(graph, test->indices ? TENSOR_INT32 : TENSOR_FLOAT32, test->sample, test->rank);
    append_loss(graph, test, append_layers(graph, test));
    if (!test->evaluation)
        result = append_training(graph, test, type, error);
    else
        result = graph_carry_states(graph, error);
    if (result == 0 && test->evaluation && type != TENSOR_FLOAT32)
        result = graph_lower_precision(graph, type, error);
    return result ? result : graph_finish(graph, error);
}
