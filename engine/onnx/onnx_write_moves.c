/* onnx_write_moves.c: what moves and combines elements as nodes of ONNX: other shapes, other orders
 * of axes, parts side by side, operands that repeat. */
#include "engine/onnx/onnx_writer.h"

static const struct graph_shape *shape_of(const struct onnx_writer *writer, int32_t tensor)
{
    return &writer->graph->tensors[tensor].shape;
}

static const struct graph_shape *output_shape(const struct onnx_writer *writer)
{
    return shape_of(writer, writer->node->output[0]);
}

static void write_reshape(struct onnx_writer *writer)
{
    onnx_give(writer, 0, onnx_reshape_as(writer, onnx_read(writer, 0), output_shape(writer)));
}

static void write_permute(struct onnx_writer *writer)
{
    const struct permute_attributes *permute = &writer->node->attributes.permute;
    int64_t order[1 + PERMUTE_RANK_MAX] = {0};
    onnx_name y = onnx_reshape(writer, onnx_read(writer, 0), permute->extent, permute->rank);

    for (int i = 0; i < permute->rank; i++)
        order[1 + i] = 1 + permute->order[i];
    y = onnx_transpose(writer, y, order, 1 + permute->rank);
    onnx_give(writer, 0, onnx_reshape_as(writer, y, output_shape(writer)));
}

/* The axis along which tensors are joined and split. */
static int64_t side_axis(const struct graph_shape *shape)
{
    return shape->rank == 4 ? 1 : shape->rank - 1;
}

static void write_concatenate(struct onnx_writer *writer)
{
    onnx_name inputs[GRAPH_INPUTS_MAX];
    Onnx__Node *node;

    for (int i = 0; i < writer->node->input_count; i++)
        inputs[i] = onnx_read(writer, i);
    node = onnx_append(writer, "Concat", inputs, writer->node->input_count, 1);
    onnx_set_int(writer, node, "axis", side_axis(output_shape(writer)));
    onnx_give(writer, 0, node->output[0]);
}

static void write_split(struct onnx_writer *writer)
{
    int64_t widths[GRAPH_OUTPUTS_MAX], axis = side_axis(output_shape(writer));
    int count = writer->node->output_count;
    onnx_name inputs[2] = {onnx_read(writer, 0)};
    Onnx__Node *node;

    for (int i = 0; i < count; i++)
        widths[i] = shape_of(writer, writer->node->output[i])->extent[axis];
    inputs[1] = onnx_ints(writer, widths, count);
    node = onnx_append(writer, "Split", inputs, 2, count);
    onnx_set_int(writer, node, "axis", axis);
    for (int i = 0; i < count; i++)
        onnx_give(writer, i, node->output[i]);
}

static void write_slice(struct onnx_writer *writer)
{
    const struct graph_shape *y = output_shape(writer);
    int64_t first = writer->node->attributes.slice_first, axis = y->rank - 1,
            end = first + y->extent[axis];

    onnx_give(writer, 0,
              onnx_apply(writer, "Slice", onnx_read(writer, 0), onnx_ints(writer, &first, 1),
                         onnx_ints(writer, &end, 1), onnx_ints(writer, &axis, 1), NULL));
}

static void write_broadcast(struct onnx_writer *writer)
{
    static const struct {
        const char *type;
        bool reverse;
    } kinds[] = {[BROADCAST_ADD] = {"Add", false},
                 [BROADCAST_SUBTRACT] = {"Sub", false},
                 [BROADCAST_SUBTRACT_REVERSE] = {"Sub", true},
                 [BROADCAST_MULTIPLY] = {"Mul", false},
                 [BROADCAST_DIVIDE] = {"Div", false},
                 [BROADCAST_DIVIDE_REVERSE] = {"Div", true}};
    const struct broadcast_attributes *of = &writer->node->attributes.broadcast;
    onnx_name a = onnx_reshape(writer, onnx_read(writer, 0),
                               (int64_t[]){of->outer, of->middle, of->inner}, 3),
              b = onnx_read(writer, 1);

    if (writer->graph->tensors[writer->node->input[1]].batched)
        b = onnx_reshape(writer, b, (int64_t[]){1, of->middle, 1}, 3);
    else
        b = onnx_apply(writer, "Reshape", b, onnx_ints(writer, (int64_t[]){of->middle, 1}, 2),
                       NULL);
    a = onnx_apply(writer, kinds[of->kind].type, kinds[of->kind].reverse ? b : a,
                   kinds[of->kind].reverse ? a : b, NULL);
    onnx_give(writer, 0, onnx_reshape_as(writer, a, output_shape(writer)));
}

/* [B,C,H,W] -> [B,HW,C] */
static void write_image_tokens(struct onnx_writer *writer)
{
    const struct graph_shape *y = output_shape(writer);
    onnx_name steps =
        onnx_reshape(writer, onnx_read(writer, 0), (int64_t[]){y->extent[2], y->extent[1]}, 2);

    onnx_give(writer, 0, onnx_transpose(writer, steps, (int64_t[]){0, 2, 1}, 3));
}

static void write_token_image(struct onnx_writer *writer)
{
    onnx_name y = onnx_transpose(writer, onnx_read(writer, 0), (int64_t[]){0, 2, 1}, 3);

    onnx_give(writer, 0, onnx_reshape_as(writer, y, output_shape(writer)));
}

onnx_write_function onnx_move_writer(enum graph_op op)
{
    static const onnx_write_function writers[OP_COUNT] = {
        [OP_RESHAPE] = write_reshape,
        [OP_PERMUTE] = write_permute,
        [OP_CONCATENATE] = write_concatenate,
        [OP_SPLIT] = write_split,
        [OP_SLICE] = write_slice,
        [OP_BROADCAST] = write_broadcast,
        [OP_IMAGE_TOKENS] = write_image_tokens,
        [OP_TOKEN_IMAGE] = write_token_image,
    };

    return writers[op];
}
