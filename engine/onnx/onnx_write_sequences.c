/* onnx_write_sequences.c: layers of sequences as nodes of ONNX: attention, recurrent layers, steps
 * behind the end of a sequence, and what is taken of all steps. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_writer.h"

#include <math.h>

static const struct graph_shape *shape_of(const struct onnx_writer *writer, int32_t tensor)
{
    return &writer->graph->tensors[tensor].shape;
}

static const struct graph_shape *input_shape(const struct onnx_writer *writer)
{
    return shape_of(writer, writer->node->input[0]);
}

static bool has_input(const struct onnx_writer *writer, int place)
{
    return place < writer->node->input_count && writer->node->input[place] >= 0;
}

/* ---- lengths --------------------------------------------------------------------------------- */

static onnx_name column_of(struct onnx_writer *writer, onnx_name vector)
{
    return onnx_apply(writer, "Reshape", vector, onnx_ints(writer, (int64_t[]){-1, 1}, 2), NULL);
}

static onnx_name cast(struct onnx_writer *writer, onnx_name value, enum onnx_type type)
{
    onnx_name result = onnx_apply(writer, "Cast", value, NULL);

    onnx_set_int(writer, onnx_latest(writer), "to", type);
    return result;
}

static onnx_name whole_number(struct onnx_writer *writer, int32_t value)
{
    return onnx_constant(writer,
                         onnx_writer_text(writer, "%s/%d", writer->node->name, writer->serial++),
                         ONNX_INT32, NULL, 0, &value, sizeof value);
}

/* Whether each of `steps` steps lies before the end of its sequence: bool [B,steps]. */
static onnx_name is_there(struct onnx_writer *writer, onnx_name lengths, int64_t steps)
{
    return onnx_apply(writer, "Less", onnx_range(writer, steps), column_of(writer, lengths), NULL);
}

/* The number of the last step with another symbol, and 1: the largest (t + 1) of those. */
static void write_sequence_lengths(struct onnx_writer *writer)
{
    onnx_name padding = whole_number(writer, writer->node->attributes.padding_symbol),
              one = whole_number(writer, 1), other, number;

    other = onnx_apply(writer, "Equal", onnx_read(writer, 0), padding, NULL);
    other = cast(writer, onnx_apply(writer, "Not", other, NULL), ONNX_INT32);
    number =
        onnx_apply(writer, "Add", onnx_range(writer, input_shape(writer)->extent[1]), one, NULL);
    number = onnx_apply(writer, "Mul", other, number, NULL);
    number = onnx_apply(writer, "ReduceMax", number, NULL);
    onnx_set_ints(writer, onnx_latest(writer), "axes", (int64_t[]){1}, 1);
    onnx_set_int(writer, onnx_latest(writer), "keepdims", 0);
    onnx_give(writer, 0, onnx_apply(writer, "Max", number, one, NULL));
}

static void write_window_lengths(struct onnx_writer *writer)
{
    const struct window_lengths *windows = &writer->node->attributes.windows;
    onnx_name y = onnx_apply(writer, "Add", onnx_read(writer, 0),
                             whole_number(writer, (int32_t)windows->more), NULL);

    y = onnx_apply(writer, "Div", y, whole_number(writer, (int32_t)windows->stride), NULL);
    onnx_give(writer, 0, onnx_apply(writer, "Max", y, whole_number(writer, 1), NULL));
}

/* A mask [B,T] as bool [B,T,1]. */
static onnx_name step_mask(struct onnx_writer *writer, onnx_name mask)
{
    return onnx_reshape(writer, mask, (int64_t[]){input_shape(writer)->extent[1], 1}, 2);
}

/* x where the mask [B,T] is true, else `other`. */
static onnx_name masked(struct onnx_writer *writer, onnx_name mask, float other)
{
    return onnx_apply(writer, "Where", step_mask(writer, mask), onnx_read(writer, 0),
                      onnx_float(writer, other), NULL);
}

static void write_mask_steps(struct onnx_writer *writer)
{
    onnx_name mask = is_there(writer, onnx_read(writer, 1), input_shape(writer)->extent[1]);

    onnx_give(writer, 0, masked(writer, mask, 0));
}

/* ---- one vector for each sequence ------------------------------------------------------------ */

static onnx_name sum_over_steps(struct onnx_writer *writer, onnx_name x)
{
    onnx_name y = onnx_apply(writer, "ReduceSum", x, onnx_ints(writer, (int64_t[]){1}, 1), NULL);

    onnx_set_int(writer, onnx_latest(writer), "keepdims", 0);
    return y;
}

static void write_last_step(struct onnx_writer *writer)
{
    int64_t steps = input_shape(writer)->extent[1];
    bool first = writer->node->attributes.recurrent.reverse;
    onnx_name y;

    if (has_input(writer, 1) && !first) {
        y = onnx_apply(writer, "Sub", onnx_read(writer, 1), whole_number(writer, 1), NULL);
        y = onnx_apply(writer, "Equal", onnx_range(writer, steps), column_of(writer, y), NULL);
        y = sum_over_steps(writer, masked(writer, y, 0));
    } else {
        int64_t step = first ? 0 : steps - 1;

        y = onnx_apply(
            writer, "Gather", onnx_read(writer, 0),
            onnx_constant(writer,
                          onnx_writer_text(writer, "%s/%d", writer->node->name, writer->serial++),
                          ONNX_INT64, NULL, 0, &step, sizeof step),
            NULL);
        onnx_set_int(writer, onnx_latest(writer), "axis", 1);
    }
    onnx_give(writer, 0, y);
}

static void write_mean_over_time(struct onnx_writer *writer)
{
    int64_t steps = input_shape(writer)->extent[1];
    onnx_name y;

    if (has_input(writer, 1)) {
        onnx_name count = cast(writer, column_of(writer, onnx_read(writer, 1)), ONNX_FLOAT);

        y = masked(writer, is_there(writer, onnx_read(writer, 1), steps), 0);
        y = onnx_apply(writer, "Div", sum_over_steps(writer, y), count, NULL);
    } else {
        y = onnx_apply(writer, "ReduceMean", onnx_read(writer, 0), NULL);
        onnx_set_ints(writer, onnx_latest(writer), "axes", (int64_t[]){1}, 1);
        onnx_set_int(writer, onnx_latest(writer), "keepdims", 0);
    }
    onnx_give(writer, 0, y);
}

static void write_max_over_time(struct onnx_writer *writer)
{
    onnx_name x = onnx_read(writer, 0);

    if (has_input(writer, 1))
        x = masked(writer, is_there(writer, onnx_read(writer, 1), input_shape(writer)->extent[1]),
                   -INFINITY);
    onnx_give(writer, 0, onnx_apply(writer, "ReduceMax", x, NULL));
    onnx_set_ints(writer, onnx_latest(writer), "axes", (int64_t[]){1}, 1);
    onnx_set_int(writer, onnx_latest(writer), "keepdims", 0);
}

/* ---- transformers ---------------------------------------------------------------------------- */

/* 0 where a step attends to another, else -infinity: [T,T]. */
static onnx_name causal_mask(struct onnx_writer *writer, int64_t steps)
{
    float *values = onnx_writer_memory(writer, (size_t)(steps * steps) * sizeof *values);

    for (int64_t i = 0; i < steps; i++)
        for (int64_t k = i + 1; k < steps; k++)
            values[i * steps + k] = -INFINITY;
    return onnx_floats(writer, values, (int64_t[]){steps, steps}, 2);
}

static void write_attention(struct onnx_writer *writer)
{
    static const int64_t heads_first[] = {0, 2, 1, 3}, keys_turned[] = {0, 2, 3, 1};
    int64_t heads = writer->node->attributes.attention.heads,
            steps = input_shape(writer)->extent[1], all = input_shape(writer)->extent[2] / 3,
            width = all / heads, widths[] = {all, all, all}, axis = 2;
    const onnx_name inputs[] = {onnx_read(writer, 0), onnx_ints(writer, widths, 3)};
    Onnx__Node *parts = onnx_append(writer, "Split", inputs, 2, 3);
    onnx_name head[3], y;

    onnx_set_int(writer, parts, "axis", axis);
    for (int i = 0; i < 3; i++)
        head[i] = onnx_transpose(
            writer, onnx_reshape(writer, parts->output[i], (int64_t[]){steps, heads, width}, 3),
            i == 1 ? keys_turned : heads_first, 4);
    y = onnx_apply(writer, "MatMul", head[0], head[1], NULL);
    y = onnx_apply(writer, "Mul", y, onnx_float(writer, 1 / sqrtf((float)width)), NULL);
    if (writer->node->attributes.attention.causal)
        y = onnx_apply(writer, "Add", y, causal_mask(writer, steps), NULL);
    if (has_input(writer, 1)) {
        onnx_name mask = is_there(writer, onnx_read(writer, 1), steps);

        y = onnx_apply(writer, "Where", onnx_reshape(writer, mask, (int64_t[]){1, 1, steps}, 3), y,
                       onnx_float(writer, -INFINITY), NULL);
    }
    y = onnx_apply(writer, "Softmax", y, NULL);
    onnx_set_int(writer, onnx_latest(writer), "axis", -1);
    y = onnx_transpose(writer, onnx_apply(writer, "MatMul", y, head[2], NULL), heads_first, 4);
    onnx_give(writer, 0, onnx_reshape(writer, y, (int64_t[]){steps, all}, 2));
}

/* Cosines, or sines, of [T, 3 heads, 1, half]; values are not turned. */
static onnx_name angles(struct onnx_writer *writer, int64_t steps, int64_t heads, int64_t half,
                        double (*function)(double))
{
    const int64_t extents[] = {steps, 3 * heads, 1, half};
    float *values = onnx_writer_memory(writer, (size_t)(steps * 3 * heads * half) * sizeof *values);

    for (int64_t t = 0; t < steps; t++)
        for (int64_t h = 0; h < 3 * heads; h++)
            for (int64_t i = 0; i < half; i++) {
                double angle = (double)t / pow((double)writer->node->attributes.rotary.base,
                                               (double)i / (double)half);

                values[(t * 3 * heads + h) * half + i] = (float)function(h < 2 * heads ? angle : 0);
            }
    return onnx_floats(writer, values, extents, 4);
}

static void write_rotary(struct onnx_writer *writer)
{
    int64_t heads = writer->node->attributes.rotary.heads, steps = input_shape(writer)->extent[1],
            half = input_shape(writer)->extent[2] / 3 / heads / 2;
    onnx_name cosine = angles(writer, steps, heads, half, cos),
              sine = angles(writer, steps, heads, half, sin), sides[2];
    const onnx_name inputs[] = {
        onnx_reshape(writer, onnx_read(writer, 0), (int64_t[]){steps, 3 * heads, 2, half}, 4),
        onnx_ints(writer, (int64_t[]){1, 1}, 2)};
    Onnx__Node *parts = onnx_append(writer, "Split", inputs, 2, 2);
    onnx_name a = parts->output[0], b = parts->output[1], y;

    onnx_set_int(writer, parts, "axis", 3);
    sides[0] = onnx_apply(writer, "Sub", onnx_apply(writer, "Mul", a, cosine, NULL),
                          onnx_apply(writer, "Mul", b, sine, NULL), NULL);
    sides[1] = onnx_apply(writer, "Add", onnx_apply(writer, "Mul", b, cosine, NULL),
                          onnx_apply(writer, "Mul", a, sine, NULL), NULL);
    y = onnx_append(writer, "Concat", sides, 2, 1)->output[0];
    onnx_set_int(writer, onnx_latest(writer), "axis", 3);
    onnx_give(writer, 0, onnx_reshape_as(writer, y, input_shape(writer)));
}

static void write_add_positions(struct onnx_writer *writer)
{
    const struct graph_shape *x = input_shape(writer);
    onnx_name table =
        onnx_apply(writer, "Reshape", onnx_read(writer, 1),
                   onnx_ints(writer, (int64_t[]){x->extent[1], x->extent[2]}, 2), NULL);

    onnx_give(writer, 0, onnx_apply(writer, "Add", onnx_read(writer, 0), table, NULL));
}

static void write_prepend_token(struct onnx_writer *writer)
{
    int64_t width = input_shape(writer)->extent[2];
    onnx_name batch = onnx_apply(writer, "Shape", onnx_read(writer, 0), NULL), sides[2], all[2];

    onnx_set_int(writer, onnx_latest(writer), "end", 1);
    sides[0] = batch;
    sides[1] = onnx_ints(writer, (int64_t[]){1, width}, 2);
    batch = onnx_append(writer, "Concat", sides, 2, 1)->output[0];
    onnx_set_int(writer, onnx_latest(writer), "axis", 0);
    all[0] = onnx_apply(writer, "Reshape", onnx_read(writer, 1),
                        onnx_ints(writer, (int64_t[]){1, 1, width}, 3), NULL);
    all[0] = onnx_apply(writer, "Expand", all[0], batch, NULL);
    all[1] = onnx_read(writer, 0);
    onnx_give(writer, 0, onnx_append(writer, "Concat", all, 2, 1)->output[0]);
    onnx_set_int(writer, onnx_latest(writer), "axis", 1);
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* The gates' rows of a matrix or vector in ONNX's order (i o f c, z r h), which traind has as i f g
 * o and r z n. */
static float *reorder(struct onnx_writer *writer, int32_t tensor, float *to)
{
    static const int places[2][4] = {[RECURRENT_LSTM] = {0, 3, 1, 2}, [RECURRENT_GRU] = {1, 0, 2}};
    enum recurrent_cell cell = writer->node->attributes.recurrent.cell;
    int gates = recurrent_cell_gates(cell);
    int64_t part = graph_shape_elements(shape_of(writer, tensor)) / gates;
    const float *from = onnx_numbers(writer, tensor);

    for (int g = 0; g < gates; g++)
        for (int64_t i = 0; i < part; i++)
            *to++ = from[places[cell][g] * part + i];
    return to;
}

static onnx_name gate_weights(struct onnx_writer *writer, int32_t tensor)
{
    const struct graph_shape *shape = shape_of(writer, tensor);
    float *values =
        onnx_writer_memory(writer, (size_t)graph_shape_elements(shape) * sizeof *values);

    reorder(writer, tensor, values);
    return onnx_floats(writer, values, (int64_t[]){1, shape->extent[0], shape->extent[1]}, 3);
}

static void write_recurrent(struct onnx_writer *writer)
{
    const struct graph_node *node = writer->node,
                            *linear = &writer->graph
                                           ->nodes[writer->graph->tensors[node->input[0]].producer];
    int64_t rows = shape_of(writer, node->input[1])->extent[0],
            hidden = shape_of(writer, node->input[1])->extent[1];
    float *bias = onnx_writer_memory(writer, 2 * (size_t)rows * sizeof *bias);
    bool lstm = node->attributes.recurrent.cell == RECURRENT_LSTM;
    onnx_name inputs[5];
    Onnx__Node *layer;

    if (linear->input_count > 2 && linear->input[2] >= 0)
        reorder(writer, linear->input[2], bias);
    reorder(writer, node->input[2], bias + rows);
    inputs[0] =
        onnx_transpose(writer, onnx_value(writer, linear->input[0]), (int64_t[]){1, 0, 2}, 3);
    inputs[1] = gate_weights(writer, linear->input[1]);
    inputs[2] = gate_weights(writer, node->input[1]);
    inputs[3] = onnx_floats(writer, bias, (int64_t[]){1, 2 * rows}, 2);
    inputs[4] = onnx_read(writer, 3);
    layer = onnx_append(writer, lstm ? "LSTM" : "GRU", inputs, has_input(writer, 3) ? 5 : 4, 1);
    onnx_set_int(writer, layer, "hidden_size", hidden);
    onnx_set_text(writer, layer, "direction",
                  node->attributes.recurrent.reverse ? "reverse" : "forward");
    if (!lstm)
        onnx_set_int(writer, layer, "linear_before_reset", 1);
    /* [T,1,B,H] -> [B,T,H] */
    inputs[0] =
        onnx_apply(writer, "Squeeze", layer->output[0], onnx_ints(writer, (int64_t[]){1}, 1), NULL);
    onnx_give(writer, 0, onnx_transpose(writer, inputs[0], (int64_t[]){1, 0, 2}, 3));
}

onnx_write_function onnx_sequence_writer(enum graph_op op)
{
    static const onnx_write_function writers[OP_COUNT] = {
        [OP_SEQUENCE_LENGTHS] = write_sequence_lengths,
        [OP_WINDOW_LENGTHS] = write_window_lengths,
        [OP_MASK_STEPS] = write_mask_steps,
        [OP_LAST_STEP] = write_last_step,
        [OP_MEAN_OVER_TIME] = write_mean_over_time,
        [OP_MAX_OVER_TIME] = write_max_over_time,
        [OP_ATTENTION] = write_attention,
        [OP_ROTARY] = write_rotary,
        [OP_ADD_POSITIONS] = write_add_positions,
        [OP_PREPEND_TOKEN] = write_prepend_token,
        [OP_RECURRENT] = write_recurrent,
        [OP_RECURRENT_INT8] = write_recurrent,
    };

    return writers[op];
}
