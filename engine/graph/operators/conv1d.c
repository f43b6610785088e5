/* conv1d.c: convolutions, pools and resampling of sequences [batch, channels, length], as
 * torch.nn.Conv1d and the like. A sequence is an image of one row. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <errno.h>

/* [B,C,L] -> [B,C,1,L]. Parameters that are bound stay those of the next layer. */
static int32_t to_row(struct graph *graph, int32_t input, const char *name)
{
    int bound = graph->bound_count;
    const struct graph_tensor *x = layer_input(graph, input, name, OP_RESHAPE, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];
    int64_t channels, length;

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 3)
        return graph_fail(graph, -EINVAL,
                          "layer %s: expects [batch, channels, length], but the input is %s", name,
                          graph_shape_format(&x->shape, text, sizeof text));
    channels = x->shape.extent[1];
    length = x->shape.extent[2];
    input = graph_reshape(graph, input, layer_part_name(name, "row").text,
                          (int64_t[]){channels, 1, length}, 3);
    graph->bound_count = bound;
    return input;
}

/* [B,C,1,L] -> [B,C,L]. */
static int32_t from_row(struct graph *graph, int32_t input, const char *name)
{
    struct graph_shape shape;

    if (graph->error.code)
        return graph->error.code;
    shape = graph->tensors[input].shape;
    return graph_reshape(graph, input, layer_part_name(name, "sequence").text,
                         (int64_t[]){shape.extent[1], shape.extent[3]}, 2);
}

/* The attributes of a row: what axis 1 says. */
static struct conv_attributes row_attributes(const struct conv_attributes *attributes)
{
    struct conv_attributes row = *attributes;

    row.kernel[0] = row.stride[0] = row.dilation[0] = 1;
    row.padding[0] = 0;
    return row;
}

/* PyTorch's weights have no axis for the row. */
static void drop_row(struct graph *graph, const char *name)
{
    int32_t weight = graph_find_tensor(graph, layer_part_name(name, "weight").text);

    if (weight >= 0)
        graph->tensors[weight].dropped_axis = 2;
}

int32_t graph_conv1d(struct graph *graph, int32_t input, const char *name, int64_t channels,
                     const struct conv_attributes *attributes, bool bias)
{
    struct conv_attributes row = row_attributes(attributes);
    int32_t x = to_row(graph, input, name);

    x = graph_conv2d(graph, x, name, channels, &row, bias);
    drop_row(graph, name);
    return from_row(graph, x, name);
}

int32_t graph_conv_transpose1d(struct graph *graph, int32_t input, const char *name,
                               int64_t channels, const struct conv_attributes *attributes,
                               int output_padding, bool bias)
{
    struct conv_attributes row = row_attributes(attributes);
    int32_t x = to_row(graph, input, name);

    x = graph_conv_transpose2d(graph, x, name, channels, &row, (int[]){0, output_padding}, bias);
    drop_row(graph, name);
    return from_row(graph, x, name);
}

int32_t graph_max_pool1d(struct graph *graph, int32_t input, const char *name,
                         const struct conv_attributes *attributes)
{
    struct conv_attributes row = row_attributes(attributes);

    return from_row(graph, graph_max_pool2d(graph, to_row(graph, input, name), name, &row), name);
}

int32_t graph_average_pool1d(struct graph *graph, int32_t input, const char *name,
                             const struct conv_attributes *attributes)
{
    struct conv_attributes row = row_attributes(attributes);

    return from_row(graph, graph_average_pool2d(graph, to_row(graph, input, name), name, &row),
                    name);
}

int32_t graph_adaptive_average_pool1d(struct graph *graph, int32_t input, const char *name,
                                      int64_t length)
{
    int32_t x = to_row(graph, input, name);

    return from_row(graph, graph_adaptive_average_pool2d(graph, x, name, 1, length), name);
}

int32_t graph_adaptive_max_pool1d(struct graph *graph, int32_t input, const char *name,
                                  int64_t length)
{
    int32_t x = to_row(graph, input, name);

    return from_row(graph, graph_adaptive_max_pool2d(graph, x, name, 1, length), name);
}

int32_t graph_resize1d(struct graph *graph, int32_t input, const char *name, int64_t length,
                       double scale, enum resize_mode mode)
{
    const struct resize resize = {.height = 1, .width = length, .scale = {1, scale}, .mode = mode};

    return from_row(graph, graph_resize2d(graph, to_row(graph, input, name), name, &resize), name);
}
