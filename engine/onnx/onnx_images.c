/* onnx_images.c: nodes over windows of images and signals, and such that change their size. */
#include "engine/graph/forward.h"
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { WINDOW_MAX = INT_MAX / 4 }; /* extents and steps of a window */

/* What is padded before and behind each axis of an image beyond the padding that is the same at
 * both ends. */
struct margins {
    int64_t before[4], behind[4];
};

static bool has_margins(const struct margins *margins)
{
    return margins->before[2] || margins->before[3] || margins->behind[2] || margins->behind[3];
}

/* Divides a padding into what is the same at both ends, and the rest. */
static void padding_set(struct conv_attributes *window, struct margins *margins, int axis,
                        int64_t before, int64_t behind)
{
    int64_t both = before < behind ? before : behind;

    window->padding[axis] = (int)both;
    margins->before[2 + axis] = before - both;
    margins->behind[2 + axis] = behind - both;
}

/* The padding of auto_pad "SAME_UPPER" and "SAME_LOWER": the image is as large as the input by the
 * stride. */
static int padding_same(struct onnx_import *import, const struct onnx_value *x, int axes,
                        bool lower, struct conv_attributes *window, struct margins *margins)
{
    for (int axis = 2 - axes; axis < 2; axis++) {
        int64_t size = (int64_t)(window->kernel[axis] - 1) * window->dilation[axis] + 1;
        int64_t in = x->extent[2 + axis], stride = window->stride[axis];
        int64_t room = stride > 0 ? ((in + stride - 1) / stride - 1) * stride + size - in : 0;

        if (size > WINDOW_MAX)
            return onnx_fail(import, "its window is too large");
        room = room > 0 ? room : 0;
        padding_set(window, margins, axis, lower ? room - room / 2 : room / 2,
                    lower ? room / 2 : room - room / 2);
    }
    return 0;
}

/* Reads kernel, strides, dilations and padding of `axes` axes, which become the last of two, of the
 * image x. `window->kernel` is what stands for a kernel_shape that is left out. */
static int window_read(struct onnx_import *import, const struct onnx_value *x, int axes,
                       struct conv_attributes *window, struct margins *margins)
{
    static const char *const names[] = {"kernel_shape", "strides", "dilations", "pads"};
    int64_t numbers[4][4];
    int count[4], shift = 2 - axes;
    char text[16];
    const char *pads;

    *margins = (struct margins){0};
    for (int i = 0; i < 4; i++) {
        int wanted = i == 3 ? 2 * axes : axes;

        count[i] = onnx_integers(import, names[i], -1, numbers[i], 4);
        if (import->error.code)
            return import->error.code;
        if (count[i] >= 0 && count[i] != wanted)
            return onnx_fail(import, "%s has %d numbers, not %d", names[i], count[i], wanted);
        for (int k = 0; k < count[i]; k++)
            if (numbers[i][k] < 0 || numbers[i][k] > WINDOW_MAX)
                return onnx_fail(import, "%s has an impossible number", names[i]);
    }
    for (int k = 0; k < axes; k++) {
        if (count[0] > 0)
            window->kernel[shift + k] = (int)numbers[0][k];
        if (count[1] > 0)
            window->stride[shift + k] = (int)numbers[1][k];
        if (count[2] > 0)
            window->dilation[shift + k] = (int)numbers[2][k];
        if (count[3] > 0)
            padding_set(window, margins, shift + k, numbers[3][k], numbers[3][axes + k]);
    }
    pads = onnx_attribute_text(import, "auto_pad", "NOTSET", text, sizeof text);
    return strncmp(pads, "SAME", 4) == 0
               ? padding_same(import, x, axes, strcmp(pads, "SAME_LOWER") == 0, window, margins)
               : 0;
}

/* Pads the image by the margins, in a mode of Pad. */
static int32_t margins_add(struct onnx_import *import, struct onnx_value *x,
                           const struct margins *margins, const char *mode)
{
    if (!has_margins(margins))
        return x->tensor;
    if (onnx_pad(import, x, mode, margins->before, margins->behind))
        return -ENOTSUP;
    return onnx_image(import, x);
}

int32_t onnx_images_of(struct onnx_import *import, struct onnx_value *x, int *axes)
{
    *axes = x->rank - 2;
    if (x->rank == 3) {
        int64_t extent[4] = {x->extent[0], x->extent[1], 1, x->extent[2]};

        if (!onnx_atoms_reshape(&x->atoms, 4, extent))
            return onnx_missing(import, "%s", ""), -ENOTSUP;
        x->rank = 4;
        memcpy(x->extent, extent, sizeof extent);
    } else if (x->rank != 4) {
        return onnx_missing(import, "of %d dimensions; 3 and 4 are known", x->rank), -ENOTSUP;
    }
    return onnx_image(import, x);
}

struct onnx_value onnx_image_value(const struct onnx_import *import, int32_t tensor, int axes)
{
    const int64_t *have = import->graph->tensors[tensor].shape.extent;
    const int64_t extent[4] = {ONNX_BATCH, have[1], axes == 1 ? have[3] : have[2], have[3]};

    return onnx_tensor_value(tensor, axes + 2, extent);
}

int onnx_image_done(struct onnx_import *import, int32_t tensor, int axes)
{
    if (tensor < 0)
        return tensor;
    return onnx_done(import, onnx_image_value(import, tensor, axes));
}

/* The groups, and the shape of the weights as those of images. */
static int kernels_read(struct onnx_import *import, const struct onnx_value *x,
                        const struct onnx_value *weight, int axes, struct conv_attributes *window,
                        struct graph_shape *shape)
{
    int64_t groups = onnx_attribute_int(import, "group", 1);

    if (groups < 1 || groups > x->extent[1])
        return onnx_fail(import, "%lld groups of %lld channels", (long long)groups,
                         (long long)x->extent[1]);
    window->groups = (int)groups;
    *shape = (struct graph_shape){.rank = 4,
                                  .extent = {weight->extent[0], weight->extent[1],
                                             axes == 1 ? 1 : weight->extent[2],
                                             weight->extent[axes + 1]}};
    for (int k = 0; k < 2; k++) {
        if (shape->extent[2 + k] > WINDOW_MAX)
            return onnx_fail(import, "its window is too large");
        window->kernel[k] = (int)shape->extent[2 + k];
    }
    return 0;
}

/* Makes the weights those of the next layer. Of signals they have no axis for the row. */
static void bind_kernels(struct onnx_import *import, const struct onnx_value *weight,
                         const struct graph_shape *shape, int axes)
{
    int32_t tensor = onnx_weight(import, weight, shape, false);

    if (tensor >= 0 && axes == 1) {
        struct graph_tensor *kernels = &import->graph->tensors[tensor];

        kernels->dropped_axis = 2;
        if (kernels->shape.rank == 3) /* the node that computes its norm has read it before */
            kernels->shape = *shape;
    }
    graph_bind_parameter(import->graph, "weight", tensor);
}

/* A convolution of images or signals, or the transposed of one, as far as both are the same. */
struct convolution {
    struct onnx_value x, weight;
    struct graph_shape shape; /* of the weights */
    struct conv_attributes window;
    struct margins margins;
    int axes;
    int32_t tensor; /* the images */
};

static int convolution_read(struct onnx_import *import, struct convolution *conv)
{
    static const struct conv_attributes usual = {.stride = {1, 1}, .dilation = {1, 1}};
    struct onnx_value *x = &conv->x, *weight = &conv->weight;
    int code;

    conv->window = usual;
    *x = *onnx_input(import, 0);
    *weight = *onnx_input(import, 1);
    if (x->kind != ONNX_TENSOR || weight->kind != ONNX_CONSTANT || x->rank != weight->rank ||
        onnx_input(import, 2)->kind == ONNX_TENSOR)
        return onnx_missing(import, "its weights must be constant, and of the input's dimensions"),
               -ENOTSUP;
    conv->tensor = onnx_images_of(import, x, &conv->axes);
    if (conv->tensor < 0)
        return conv->tensor;
    code = kernels_read(import, x, weight, conv->axes, &conv->window, &conv->shape);
    if (code == 0)
        code = window_read(import, x, conv->axes, &conv->window, &conv->margins);
    for (int k = 0; k < 2 && code == 0; k++)
        if (conv->window.kernel[k] != conv->shape.extent[2 + k])
            return onnx_fail(import, "kernel_shape is not that of its weights");
    return code;
}

static int append_conv(struct onnx_import *import)
{
    struct convolution conv;
    int code = convolution_read(import, &conv);
    int32_t tensor;

    if (code)
        return code;
    tensor = margins_add(import, &conv.x, &conv.margins, "constant");
    if (tensor < 0)
        return tensor;
    bind_kernels(import, &conv.weight, &conv.shape, conv.axes);
    tensor = graph_conv2d(import->graph, tensor, onnx_weight_layer(import, &conv.weight).text,
                          conv.shape.extent[0], &conv.window,
                          onnx_bind_bias(import, onnx_input(import, 2), conv.shape.extent[0]));
    return onnx_image_done(import, tensor, conv.axes);
}

static int append_conv_transpose(struct onnx_import *import)
{
    int64_t more[2] = {0}, channels;
    struct convolution conv;
    int code, count, padding[2] = {0};
    char text[16];
    int32_t tensor;

    if (onnx_attribute(import->node, "output_shape") ||
        strcmp(onnx_attribute_text(import, "auto_pad", "NOTSET", text, sizeof text), "NOTSET") != 0)
        return onnx_missing(import, "with output_shape or auto_pad");
    code = convolution_read(import, &conv);
    if (code)
        return code;
    if (has_margins(&conv.margins))
        return onnx_missing(import, "another padding at the end than at the beginning");
    count = onnx_integers(import, "output_padding", -1, more, conv.axes);
    for (int k = 0; k < count; k++) {
        if (more[k] < 0 || more[k] > WINDOW_MAX)
            return onnx_fail(import, "output_padding has an impossible number");
        padding[2 - conv.axes + k] = (int)more[k];
    }
    if (import->error.code ||
        __builtin_mul_overflow(conv.shape.extent[1], (int64_t)conv.window.groups, &channels))
        return onnx_fail(import, "it has too many channels");
    bind_kernels(import, &conv.weight, &conv.shape, conv.axes);
    tensor = graph_conv_transpose2d(
        import->graph, conv.tensor, onnx_weight_layer(import, &conv.weight).text, channels,
        &conv.window, padding, onnx_bind_bias(import, onnx_input(import, 2), channels));
    return onnx_image_done(import, tensor, conv.axes);
}

/* ---- pools ---- */

/* With ceil_mode another window begins where the others leave something of the image; the margin
 * behind makes room for it. */
static void pool_round_up(const struct onnx_value *x, const struct conv_attributes *window,
                          struct margins *margins, int axis)
{
    int64_t stride = window->stride[axis];
    int64_t begin = x->extent[2 + axis] + window->padding[axis] + margins->before[2 + axis];
    int64_t room = begin + window->padding[axis] + margins->behind[2 + axis] - window->kernel[axis];
    int64_t windows;

    if (stride < 1 || room < 0)
        return;
    windows = (room + stride - 1) / stride + 1;
    if ((windows - 1) * stride < begin && (windows - 1) * stride > room)
        margins->behind[2 + axis] += (windows - 1) * stride - room;
}

/* Factors that make the mean over a window that of the numbers that count, of an axis. Returns
 * whether one is not 1. */
static bool mean_factors(struct onnx_import *import, const struct conv_attributes *window, int axis,
                         int64_t before, int64_t counted, int64_t count, double **factors)
{
    bool differ = false;

    *factors = onnx_allocate(import, (size_t)count + 1, sizeof **factors);
    for (int64_t i = 0; *factors && i < count; i++) {
        int64_t first = i * window->stride[axis] - before, end = first + window->kernel[axis];

        first = first < 0 ? 0 : first;
        end = end > counted ? counted : end;
        (*factors)[i] = end > first ? (double)window->kernel[axis] / (double)(end - first) : 0;
        differ |= (*factors)[i] != 1;
    }
    return differ;
}

/* Divides means over windows by how many of their numbers count. */
static int mean_correct(struct onnx_import *import, const struct onnx_value *x,
                        const struct conv_attributes *window, const struct margins *ends,
                        int32_t tensor, int axes)
{
    bool includes = onnx_attribute_int(import, "count_include_pad", 0), differ = false;
    struct onnx_value y = onnx_image_value(import, tensor, axes), factor;
    const int64_t *extent = import->graph->tensors[tensor].shape.extent;
    double *factors[2];
    void *numbers;

    for (int axis = 0; axis < 2; axis++) {
        int64_t before = ends->before[2 + axis], behind = ends->behind[2 + axis];

        differ |= mean_factors(import, window, axis, before + (includes ? -before : 0),
                               x->extent[2 + axis] + (includes ? before + behind : 0),
                               extent[2 + axis], &factors[axis]);
    }
    if (!differ || import->error.code)
        return onnx_image_done(import, tensor, axes);
    factor =
        onnx_constant_new(import, ONNX_FLOAT, axes, axes == 2 ? extent + 2 : extent + 3, &numbers);
    for (int64_t i = 0; numbers && i < extent[2] * extent[3]; i++)
        ((double *)numbers)[i] = factors[0][i / extent[3]] * factors[1][i % extent[3]];
    return numbers ? onnx_combine(import, &y, &factor, BROADCAST_MULTIPLY) : import->error.code;
}

static int append_pool(struct onnx_import *import)
{
    bool maximum = strcmp(import->node->proto->op_type, "MaxPool") == 0;
    struct onnx_value x = *onnx_input(import, 0), padded;
    struct margins margins, ends;
    struct conv_attributes window = {
        .stride = {1, 1}, .dilation = {1, 1}, .kernel = {1, 1}, .groups = 1};
    int axes, code;
    int32_t tensor;

    if (x.kind != ONNX_TENSOR || onnx_more_is_read(import))
        return onnx_missing(import, "with indices");
    if (!onnx_attribute(import->node, "kernel_shape"))
        return onnx_fail(import, "it has no kernel_shape");
    x.tensor = onnx_images_of(import, &x, &axes);
    if (x.tensor < 0)
        return x.tensor;
    code = window_read(import, &x, axes, &window, &margins);
    if (code)
        return code;
    if (window.dilation[0] != 1 || window.dilation[1] != 1)
        return onnx_missing(import, "dilation");
    ends = margins;
    for (int axis = 0; axis < 2; axis++) {
        ends.before[2 + axis] += window.padding[axis];
        ends.behind[2 + axis] += window.padding[axis];
        if (axis >= 2 - axes && onnx_attribute_int(import, "ceil_mode", 0))
            pool_round_up(&x, &window, &margins, axis);
    }
    /* the pixels next to it repeat in the margin, and are no larger than themselves */
    padded = x;
    tensor = margins_add(import, &padded, &margins, maximum ? "edge" : "constant");
    if (tensor < 0)
        return tensor;
    tensor = (maximum ? graph_max_pool2d : graph_average_pool2d)(
        import->graph, tensor, onnx_layer_name(import, "").text, &window);
    if (tensor < 0 || maximum)
        return tensor < 0 ? tensor : onnx_image_done(import, tensor, axes);
    return mean_correct(import, &x, &window, &ends, tensor, axes);
}

static int append_global_average_pool(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int32_t tensor;
    int axes;

    tensor = onnx_images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    return onnx_image_done(
        import, graph_global_average_pool2d(import->graph, tensor, import->node->name), axes);
}

/* ---- other sizes ---- */

/* Which of the engine's ways to resize it is; false: none of them. */
static bool resize_mode_of(struct onnx_import *import, const struct resize *resize, int axes,
                           enum resize_mode *mode)
{
    char how[16], where[32], nearest[32];
    bool whole = resize->scale[0] >= 1 && resize->scale[1] >= 1 &&
                 resize->scale[0] == floor(resize->scale[0]) &&
                 resize->scale[1] == floor(resize->scale[1]);
    const char *kind = onnx_attribute_text(import, "mode", "nearest", how, sizeof how);
    const char *place = onnx_attribute_text(import, "coordinate_transformation_mode", "half_pixel",
                                            where, sizeof where);
    const char *rounding =
        onnx_attribute_text(import, "nearest_mode", "round_prefer_floor", nearest, sizeof nearest);

    if (strcmp(kind, "nearest") == 0) {
        *mode = RESIZE_NEAREST;
        /* images that are multiplied by whole numbers: every rule repeats pixels */
        return (strcmp(place, "asymmetric") == 0 && strcmp(rounding, "floor") == 0) ||
               (strcmp(place, "half_pixel") == 0 && strncmp(rounding, "round", 5) == 0 && whole);
    }
    *mode = strcmp(place, "align_corners") == 0 ? RESIZE_BILINEAR_CORNERS : RESIZE_BILINEAR;
    return strcmp(kind, "linear") == 0 &&
           (*mode == RESIZE_BILINEAR_CORNERS || strcmp(place, "half_pixel") == 0 ||
            (strcmp(place, "pytorch_half_pixel") == 0 && (axes == 1 || resize->height > 1) &&
             resize->width > 1));
}

/* The size that inputs 2 (factors) or 3 (extents) give the axes of images. */
static int resize_size(struct onnx_import *import, const struct onnx_value *x,
                       struct resize *resize)
{
    const struct onnx_value *scales = onnx_input(import, 2);
    int64_t extents[ONNX_RANK_MAX];
    int count =
        onnx_has_input(import, 3) ? onnx_integers(import, "sizes", 3, extents, ONNX_RANK_MAX) : 0;
    bool scaled = count < 1;

    if (import->error.code)
        return import->error.code;
    if (scaled && (scales->kind != ONNX_CONSTANT || onnx_value_elements(scales) != x->rank))
        return onnx_missing(import, "with other than a factor or a size for each axis"), -ENOTSUP;
    if (!scaled && count != x->rank)
        return onnx_missing(import, "of some axes"), -ENOTSUP;
    for (int r = 0; r < x->rank; r++) {
        double factor = scaled ? onnx_number(scales, r) : 0;
        double extent = scaled ? (double)floorf((float)x->extent[r] * (float)factor)
                               : (double)extents[r]; /* as runtimes round */

        if (r < 2 && (scaled ? factor != 1 : r == 1 && extents[r] != x->extent[r]))
            return onnx_missing(import, "of the batch or the channels"), -ENOTSUP;
        if (r >= 2 && !(extent >= 1 && extent <= RESIZE_EXTENT_MAX))
            return onnx_fail(import, "axis %d would have %g numbers; 1 to %d are possible", r,
                             extent, (int)RESIZE_EXTENT_MAX);
        if (r < 2)
            continue;
        *(r == x->rank - 1 ? &resize->width : &resize->height) = (int64_t)extent;
        resize->scale[r == x->rank - 1] =
            scaled ? factor : extent / (double)(x->extent[r] ? x->extent[r] : 1);
    }
    if (!scaled && !(resize->scale[0] == floor(resize->scale[0]) &&
                     resize->scale[1] == floor(resize->scale[1])))
        resize->scale[0] = resize->scale[1] = 0;
    return 0;
}

static int append_resize(struct onnx_import *import)
{
    struct resize resize = {.height = 1, .scale = {1, 1}};
    struct onnx_value x = *onnx_input(import, 0);
    char text[16];
    int axes, code;
    int32_t tensor;

    if (x.kind != ONNX_TENSOR || x.rank < 3 || x.rank > 4)
        return onnx_missing(import, "of other than images");
    if (onnx_attribute(import->node, "axes") || onnx_attribute_int(import, "antialias", 0) ||
        strcmp(
            onnx_attribute_text(import, "keep_aspect_ratio_policy", "stretch", text, sizeof text),
            "stretch") != 0)
        return onnx_missing(import, "with axes, antialias or keep_aspect_ratio_policy");
    code = resize_size(import, &x, &resize);
    if (code)
        return code;
    if (!resize_mode_of(import, &resize, x.rank - 2, &resize.mode))
        return onnx_missing(import, "other than PyTorch's nearest and bilinear");
    tensor = onnx_images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    return onnx_image_done(
        import, graph_resize2d(import->graph, tensor, import->node->name, &resize), axes);
}

static int append_global_max_pool(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int32_t tensor;
    int axes;

    tensor = onnx_images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    return onnx_image_done(
        import, graph_adaptive_max_pool2d(import->graph, tensor, import->node->name, 1, 1), axes);
}

const struct onnx_operator_entry onnx_image_operators[] = {
    {"ConvTranspose", append_conv_transpose, 3, 0},
    {"Resize", append_resize, 4, 0},
    {"GlobalMaxPool", append_global_max_pool, 1, 0},
    {"Conv", append_conv, 3, 0},
    {"MaxPool", append_pool, 1, 0},
    {"AveragePool", append_pool, 1, 0},
    {"GlobalAveragePool", append_global_average_pool, 1, 0},
    {NULL, NULL, 0, 0},
};
