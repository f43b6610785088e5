/* convnet.c: see convnet.h. */
#include "engine/models/convnet.h"

#include "engine/graph/forward.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct layer_name layer_name(const char *format, ...)
{
    struct layer_name name;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(name.text, sizeof name.text, format, arguments);
    va_end(arguments);
    return name;
}

int64_t convnet_channels(double channels, double width)
{
    enum { DIVISOR = 8 };
    double wanted = channels * width;
    int64_t rounded = (int64_t)(wanted + DIVISOR / 2) / DIVISOR * DIVISOR;

    rounded = rounded < DIVISOR ? DIVISOR : rounded;
    return (double)rounded < 0.9 * wanted ? rounded + DIVISOR : rounded;
}

int32_t convnet_unit(struct graph *graph, int32_t x, const char *convolution, const char *norm,
                     const struct convnet_unit *unit)
{
    const int kernel = unit->kernel, stride = unit->stride, padding = kernel / 2;
    const struct conv_attributes attributes = {.kernel = {kernel, kernel},
                                               .stride = {stride, stride},
                                               .padding = {padding, padding},
                                               .dilation = {1, 1},
                                               .groups = (int)unit->groups};

    x = graph_conv2d(graph, x, convolution, unit->channels, &attributes, false);
    return graph_batch_norm(graph, x, norm, unit->epsilon, unit->momentum);
}

int32_t convnet_activated_unit(struct graph *graph, int32_t x, const char *name,
                               const struct convnet_unit *unit, enum activation_kind activation)
{
    x = convnet_unit(graph, x, layer_name("%s.0", name).text, layer_name("%s.1", name).text, unit);
    return graph_activation(graph, x, layer_name("%s.2", name).text, activation);
}

int32_t convnet_squeeze_excite(struct graph *graph, int32_t x, const char *name,
                               const struct squeeze_excite *config)
{
    const struct conv_attributes pixel = {
        .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    int32_t s = graph_global_average_pool2d(graph, x, layer_name("%s.avgpool", name).text);
    int64_t channels = s < 0 ? 0 : graph->tensors[s].shape.extent[1];

    s = graph_conv2d(graph, s, layer_name("%s.fc1", name).text, config->channels, &pixel, true);
    s = graph_activation(graph, s, layer_name("%s.activation", name).text, config->activation);
    s = graph_conv2d(graph, s, layer_name("%s.fc2", name).text, channels, &pixel, true);
    s = graph_activation(graph, s, layer_name("%s.scale_activation", name).text, config->scale);
    return graph_channel_scale(graph, x, s, name);
}

int32_t pool_steps(struct graph *graph, int32_t x, int32_t lengths, enum model_pooling pooling)
{
    return pooling == POOLING_FLATTEN ? graph_flatten(graph, x, "pool")
           : pooling == POOLING_MAX   ? graph_max_over_time(graph, x, lengths, "pool")
                                      : graph_mean_over_time(graph, x, lengths, "pool");
}

void convnet_initialize(struct graph *graph)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const int64_t *weight;
        double fan_out;

        if (node->op != OP_CONV2D)
            continue;
        weight = graph->tensors[node->input[1]].shape.extent;
        fan_out = (double)(weight[0] * weight[2] * weight[3]);
        graph_set_initializer(
            graph, node->input[1],
            (struct initializer){.kind = INITIALIZER_NORMAL, .bound = (float)sqrt(2 / fan_out)});
        if (node->input[2] >= 0)
            graph_set_initializer(graph, node->input[2],
                                  (struct initializer){.kind = INITIALIZER_ZEROS});
    }
}
