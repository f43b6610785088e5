/* onnx_images.c: nodes over windows of images and signals, and such that change their size. */
#include "engine/onnx/onnx_tensors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* Reads kernel, strides, dilations and padding of `axes` axes, which become the last of two. */
static int window_read(struct onnx_import *import, const struct onnx_value *x, int axes,
                       struct conv_attributes *window)
{
    static const char *const names[] = {"kernel_shape", "strides", "dilations", "pads"};
    int64_t numbers[4][4];
    int count[4], shift = 2 - axes;
    char text[16];
    const char *pads;

    *window = (struct conv_attributes){
        .stride = {1, 1}, .dilation = {1, 1}, .kernel = {1, 1}, .groups = 1};
    for (int i = 0; i < 4; i++) {
        int wanted = i == 3 ? 2 * axes : axes;

        count[i] = onnx_integers(import, names[i], -1, numbers[i], 4);
        if (import->error.code)
            return import->error.code;
        if (count[i] >= 0 && count[i] != wanted)
            return onnx_fail(import, "%s has %d numbers, not %d", names[i], count[i], wanted);
        for (int k = 0; k < count[i]; k++)
            if (numbers[i][k] < 0 || numbers[i][k] > INT_MAX / 4)
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
            window->padding[shift + k] = (int)numbers[3][k];
        if (count[3] > 0 && numbers[3][k] != numbers[3][axes + k])
            return onnx_missing(import, "another padding at the end than at the beginning"),
                   -ENOTSUP;
    }
    pads = onnx_attribute_text(import, "auto_pad", "NOTSET", text, sizeof text);
    if (strncmp(pads, "SAME", 4) == 0)
        for (int k = 0; k < axes; k++) {
            int axis = shift + k, size = (window->kernel[axis] - 1) * window->dilation[axis] + 1;
            int64_t in = x->extent[2 + k], stride = window->stride[axis];
            int64_t room = stride > 0 ? ((in + stride - 1) / stride - 1) * stride + size - in : 0;

            if (room % 2 && room > 0)
                return onnx_missing(import, "another padding at the end than at the beginning"),
                       -ENOTSUP;
            window->padding[axis] = room > 0 ? (int)(room / 2) : 0;
        }
    return 0;
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
        if (shape->extent[2 + k] > INT_MAX / 4)
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

    if (tensor >= 0 && axes == 1)
        import->graph->tensors[tensor].dropped_axis = 2;
    graph_bind_parameter(import->graph, "weight", tensor);
}

static int append_conv(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), weight = *onnx_input(import, 1);
    struct graph_shape shape = {.rank = 4};
    struct conv_attributes window;
    int axes, code;
    int32_t tensor;

    if (x.kind != ONNX_TENSOR || weight.kind != ONNX_CONSTANT || x.rank != weight.rank)
        return onnx_missing(import, "its weights must be constant, and of the input's dimensions");
    tensor = onnx_images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    code = window_read(import, &x, axes, &window);
    if (code)
        return code;
    if (kernels_read(import, &x, &weight, axes, &window, &shape))
        return import->error.code;
    bind_kernels(import, &weight, &shape, axes);
    tensor = graph_conv2d(import->graph, tensor, onnx_weight_layer(import, &weight).text,
                          shape.extent[0], &window,
                          onnx_bind_bias(import, onnx_input(import, 2), shape.extent[0]));
    return onnx_image_done(import, tensor, axes);
}

static int append_conv_transpose(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0), weight = *onnx_input(import, 1);
    int64_t more[2] = {0}, channels;
    struct graph_shape shape = {.rank = 4};
    struct conv_attributes window;
    int axes, code, count, padding[2] = {0};
    char text[16];
    int32_t tensor;

    if (x.kind != ONNX_TENSOR || weight.kind != ONNX_CONSTANT || x.rank != weight.rank)
        return onnx_missing(import, "its weights must be constant, and of the input's dimensions");
    if (onnx_attribute(import->node, "output_shape") ||
        strcmp(onnx_attribute_text(import, "auto_pad", "NOTSET", text, sizeof text), "NOTSET") != 0)
        return onnx_missing(import, "with output_shape or auto_pad");
    tensor = onnx_images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    code = window_read(import, &x, axes, &window);
    if (code)
        return code;
    if (kernels_read(import, &x, &weight, axes, &window, &shape))
        return import->error.code;
    count = onnx_integers(import, "output_padding", -1, more, axes);
    for (int k = 0; k < count; k++) {
        if (more[k] < 0 || more[k] > INT_MAX / 4)
            return onnx_fail(import, "output_padding has an impossible number");
        padding[2 - axes + k] = (int)more[k];
    }
    if (import->error.code ||
        __builtin_mul_overflow(shape.extent[1], (int64_t)window.groups, &channels))
        return onnx_fail(import, "it has too many channels");
    bind_kernels(import, &weight, &shape, axes);
    tensor = graph_conv_transpose2d(import->graph, tensor, onnx_weight_layer(import, &weight).text,
                                    channels, &window, padding,
                                    onnx_bind_bias(import, onnx_input(import, 2), channels));
    return onnx_image_done(import, tensor, axes);
}

static int append_pool(struct onnx_import *import)
{
    bool maximum = strcmp(import->node->proto->op_type, "MaxPool") == 0;
    struct onnx_value x = *onnx_input(import, 0);
    struct conv_attributes window;
    int axes, code;
    int32_t tensor;

    if (x.kind != ONNX_TENSOR || import->node->output_count > 1)
        return onnx_missing(import, "with indices");
    tensor = onnx_images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    code = window_read(import, &x, axes, &window);
    if (code)
        return code;
    for (int k = 0; k < axes; k++) {
        int axis = 2 - axes + k;
        int64_t rest = x.extent[2 + axis] + 2 * window.padding[axis] - window.kernel[axis];

        if (onnx_attribute_int(import, "ceil_mode", 0) && window.stride[axis] > 0 &&
            rest % window.stride[axis])
            return onnx_missing(import, "ceil_mode where the windows do not divide the image");
    }
    if (window.dilation[0] != 1 || window.dilation[1] != 1)
        return onnx_missing(import, "dilation");
    if (!maximum && (window.padding[0] || window.padding[1]) &&
        !onnx_attribute_int(import, "count_include_pad", 0))
        return onnx_missing(import, "padding that does not count");
    tensor = (maximum ? graph_max_pool2d : graph_average_pool2d)(import->graph, tensor,
                                                                 import->node->name, &window);
    return onnx_image_done(import, tensor, axes);
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
static bool resize_mode_of(struct onnx_import *import, const struct resize *resize,
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
            (strcmp(place, "pytorch_half_pixel") == 0 && resize->height > 1 && resize->width > 1));
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
        double extent = scaled ? floor((double)x->extent[r] * factor) : (double)extents[r];

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
    if (!resize_mode_of(import, &resize, &resize.mode))
        return onnx_missing(import, "other than PyTorch's nearest and bilinear");
    tensor = onnx_images_of(import, &x, &axes);
    if (tensor < 0)
        return tensor;
    return onnx_image_done(
        import, graph_resize2d(import->graph, tensor, import->node->name, &resize), axes);
}

/* ---- the largest number ---- */

/* Of each channel. A window has at most 256 positions: of larger images, of rows and then of these.
 */
static int32_t largest_pixel(struct onnx_import *import, int32_t tensor)
{
    const int64_t *extent = import->graph->tensors[tensor].shape.extent;
    int64_t height = extent[2], width = extent[3];

    if (height * width > 256 && height > 1 && width > 1)
        tensor = graph_adaptive_max_pool2d(import->graph, tensor,
                                           onnx_layer_name(import, ".rows").text, height, 1);
    return graph_adaptive_max_pool2d(import->graph, tensor, import->node->name, 1, 1);
}

static int append_global_max_pool(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int32_t tensor;
    int axes;

    tensor = onnx_images_of(import, &x, &axes);
    return tensor < 0 ? tensor : onnx_image_done(import, largest_pixel(import, tensor), axes);
}

static int append_reduce_max(struct onnx_import *import)
{
    struct onnx_value x = *onnx_input(import, 0);
    int64_t extent[ONNX_RANK_MAX];
    unsigned reduced;
    int rank = onnx_reduced_axes(import, &x, &reduced, extent);
    int32_t tensor;

    if (rank < 0)
        return import->error.code;
    if (x.rank == 4 && reduced == 0xc) {
        tensor = onnx_image(import, &x);
        tensor = tensor < 0 ? tensor : largest_pixel(import, tensor);
    } else if (x.rank == 3 && reduced == 0x2 && x.extent[0] == ONNX_BATCH) {
        tensor = onnx_shaped(import, &x, 2, x.extent + 1);
        tensor = tensor < 0 ? tensor
                            : graph_max_over_time(import->graph, tensor, -1, import->node->name);
    } else {
        return onnx_missing(import, "over other than the pixels of images or the steps of "
                                    "sequences");
    }
    return tensor < 0 ? tensor : onnx_done(import, onnx_tensor_value(tensor, rank, extent));
}

const struct onnx_operator_entry onnx_image_operators[] = {
    {"ConvTranspose", append_conv_transpose, false},
    {"Resize", append_resize, false},
    {"GlobalMaxPool", append_global_max_pool, false},
    {"ReduceMax", append_reduce_max, false},
    {"Conv", append_conv, false},
    {"MaxPool", append_pool, false},
    {"AveragePool", append_pool, false},
    {"GlobalAveragePool", append_global_average_pool, false},
    {NULL, NULL, false},
};
