/* onnx_write_int8.c: integers of 8 bits as nodes of ONNX, in the form QDQ: tensors and weights are
 * quantized and dequantized, and between them stand the operators of floats. Runtimes compute such
 * a group in integers. A batch norm is folded into the weights' factors, which keep their integers:
 * a factor below 0 turns their signs. */
#include "engine/onnx/onnx_writer.h"

#include <math.h>
#include <string.h>

/* Places of a convolution's inputs: OP_CONV2D_INT8 in operator_list.h. */
enum { X, WEIGHT, BIAS, SCALE, NORM_WEIGHT, NORM_BIAS, NORM_MEAN, NORM_VARIANCE, ADDEND };

static onnx_name convert(struct onnx_writer *writer, const char *type, onnx_name x,
                         struct quantization quantization)
{
    const uint8_t zero = (uint8_t)quantization.zero;
    onnx_name scale = onnx_float(writer, quantization.scale);
    onnx_name point = onnx_constant(writer, onnx_writer_text(writer, "%s_zero", scale), ONNX_UINT8,
                                    NULL, 0, &zero, sizeof zero);

    return onnx_apply(writer, type, x, scale, point, NULL);
}

static void write_quantize(struct onnx_writer *writer)
{
    onnx_give(writer, 0,
              convert(writer, "QuantizeLinear", onnx_read(writer, 0),
                      writer->node->attributes.quantization));
}

static void write_dequantize(struct onnx_writer *writer)
{
    onnx_give(writer, 0,
              convert(writer, "DequantizeLinear", onnx_read(writer, 0),
                      writer->node->attributes.quantization));
}

/* The numbers of an input; NULL: it has none. */
static const float *numbers(struct onnx_writer *writer, int place)
{
    return writer->node->input[place] < 0 ? NULL : onnx_numbers(writer, writer->node->input[place]);
}

/* Of biases, in units of the sums: room remains for the products below INT32_MAX. */
static const double units_max = 1 << 30;

/* The factor and the shift of each channel behind the products. `times` multiplies the weights'
 * integers: 1, or -1 where the factor is below 0. Where the shift would not fit 32 bits in units of
 * the sums, as behind a batch norm of weight 0, the factor is larger, and `times` nearer to 0. */
struct folded {
    float *scale, *shift, *times; /* [channels] */
};

static struct folded fold(struct onnx_writer *writer, int64_t channels)
{
    const struct conv_int8_attributes *a = &writer->node->attributes.conv_int8;
    const float *scale = numbers(writer, SCALE), *bias = numbers(writer, BIAS),
                *weight = numbers(writer, NORM_WEIGHT), *beta = numbers(writer, NORM_BIAS),
                *mean = numbers(writer, NORM_MEAN), *variance = numbers(writer, NORM_VARIANCE);
    struct folded folded = {.scale = onnx_writer_memory(writer, (size_t)channels * sizeof(float)),
                            .shift = onnx_writer_memory(writer, (size_t)channels * sizeof(float)),
                            .times = onnx_writer_memory(writer, (size_t)channels * sizeof(float))};

    for (int64_t c = 0; c < channels; c++) {
        float factor = variance ? weight[c] / sqrtf(variance[c] + a->epsilon) : 1, least;

        folded.shift[c] =
            (beta ? beta[c] : 0) + factor * ((bias ? bias[c] : 0) - (mean ? mean[c] : 0));
        folded.times[c] = factor < 0 ? -1 : 1;
        folded.scale[c] = fmaxf(fabsf(factor) * scale[c], 1e-30f);
        least = (float)(fabs((double)folded.shift[c]) / ((double)a->x.scale * units_max));
        if (folded.scale[c] < least) {
            folded.times[c] *= folded.scale[c] / least;
            folded.scale[c] = least;
        }
    }
    return folded;
}

/* Integers [channels, …] that are dequantized along axis 0. */
static onnx_name dequantize_rows(struct onnx_writer *writer, onnx_name values, const float *scale,
                                 enum onnx_type type, int64_t channels)
{
    size_t bytes = (size_t)channels * (type == ONNX_INT32 ? sizeof(int32_t) : sizeof(int8_t));
    onnx_name factors = onnx_floats(writer, scale, &channels, 1);
    onnx_name zeros = onnx_constant(writer, onnx_writer_text(writer, "%s_zero", factors), type,
                                    &channels, 1, onnx_writer_memory(writer, bytes), bytes);
    onnx_name result = onnx_apply(writer, "DequantizeLinear", values, factors, zeros, NULL);

    onnx_set_int(writer, onnx_latest(writer), "axis", 0);
    return result;
}

static onnx_name weights(struct onnx_writer *writer, const struct folded *folded)
{
    const struct graph_tensor *from = &writer->graph->tensors[writer->node->input[WEIGHT]];
    int64_t channels = from->shape.extent[0], count = graph_shape_elements(&from->shape);
    int8_t *values = onnx_writer_memory(writer, (size_t)count);
    onnx_name name;
    int r = writer->config->read_int8(writer->config->context, from, values, writer->error);

    if (r < 0 && !writer->result)
        writer->result = r;
    for (int64_t i = 0; i < count; i++)
        values[i] = (int8_t)rintf((float)values[i] * folded->times[i / (count / channels)]);
    name = onnx_constant(writer, onnx_parameter_name(writer, writer->node->input[WEIGHT]),
                         ONNX_INT8, from->shape.extent, from->shape.rank, values, (size_t)count);
    return dequantize_rows(writer, name, folded->scale, ONNX_INT8, channels);
}

/* int32, in units of the sums, as runtimes add it. */
static onnx_name biases(struct onnx_writer *writer, const struct folded *folded, int64_t channels)
{
    float x = writer->node->attributes.conv_int8.x.scale,
          *scale = onnx_writer_memory(writer, (size_t)channels * sizeof *scale);
    int32_t *values = onnx_writer_memory(writer, (size_t)channels * sizeof *values);
    onnx_name name = onnx_writer_text(writer, "%s" ONNX_FOLDED_BIAS, writer->node->name);

    for (int64_t c = 0; c < channels; c++) {
        double units;

        scale[c] = x * folded->scale[c];
        units = (double)folded->shift[c] / (double)scale[c];
        values[c] = (int32_t)fmax(fmin(rint(units), INT32_MAX), INT32_MIN);
    }
    name = onnx_constant(writer, name, ONNX_INT32, &channels, 1, values,
                         (size_t)channels * sizeof *values);
    return dequantize_rows(writer, name, scale, ONNX_INT32, channels);
}

static void write_convolution(struct onnx_writer *writer)
{
    const struct conv_int8_attributes *a = &writer->node->attributes.conv_int8;
    int32_t output = writer->node->output[0];
    int64_t channels = writer->graph->tensors[output].shape.extent[1];
    struct folded folded = fold(writer, channels);
    const onnx_name inputs[] = {convert(writer, "DequantizeLinear", onnx_read(writer, X), a->x),
                                weights(writer, &folded), biases(writer, &folded, channels)};
    Onnx__Node *node = onnx_append(writer, "Conv", inputs, 3, 1);
    onnx_name y = node->output[0];

    onnx_set_window(writer, node, true);
    if (writer->node->input[ADDEND] >= 0)
        y = onnx_apply(writer, "Add", y,
                       convert(writer, "DequantizeLinear", onnx_read(writer, ADDEND), a->addend),
                       NULL);
    if (a->relu)
        y = onnx_apply(writer, "Relu", y, NULL);
    if (writer->graph->tensors[output].type == TENSOR_UINT8)
        y = convert(writer, "QuantizeLinear", y, a->y);
    onnx_give(writer, 0, y);
}

onnx_write_function onnx_int8_writer(enum graph_op op)
{
    static const onnx_write_function writers[OP_COUNT] = {
        [OP_QUANTIZE] = write_quantize,
        [OP_DEQUANTIZE] = write_dequantize,
        [OP_CONV2D_INT8] = write_convolution,
    };

    return writers[op];
}
