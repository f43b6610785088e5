/* inverted_residual.c: see inverted_residual.h. */
#include "engine/models/inverted_residual.h"

#include "engine/graph/forward.h"

/* Writes "<name>.block.<*part>", and advances to the next part. */
static struct layer_name next_part(const char *name, int *part)
{
    return layer_name("%s.block.%d", name, (*part)++);
}

int32_t inverted_residual_append(struct graph *graph, int32_t x, const char *name,
                                 const struct inverted_residual *block)
{
    struct convnet_unit unit = {.channels = block->expanded,
                                .kernel = 1,
                                .stride = 1,
                                .groups = 1,
                                .epsilon = block->epsilon,
                                .momentum = block->momentum};
    int64_t channels = x < 0 ? 0 : graph->tensors[x].shape.extent[1];
    struct layer_name last;
    int32_t y = x;
    int part = 0;

    if (block->expanded != channels)
        y = convnet_activated_unit(graph, y, next_part(name, &part).text, &unit, block->activation);
    unit.kernel = block->kernel;
    unit.stride = block->stride;
    unit.groups = block->expanded;
    y = convnet_activated_unit(graph, y, next_part(name, &part).text, &unit, block->activation);
    if (block->squeeze_excite.channels)
        y = convnet_squeeze_excite(graph, y, next_part(name, &part).text, &block->squeeze_excite);
    unit.channels = block->channels;
    unit.kernel = unit.stride = 1;
    unit.groups = 1;
    last = next_part(name, &part);
    y = convnet_unit(graph, y, layer_name("%s.0", last.text).text,
                     layer_name("%s.1", last.text).text, &unit);
    if (block->stride != 1 || block->channels != channels)
        return y;
    y = graph_stochastic_depth(graph, y, layer_name("%s.stochastic_depth", name).text,
                               block->drop_probability);
    return graph_add(graph, y, x, layer_name("%s.add", name).text);
}
