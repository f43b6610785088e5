/* onednn_convolution.c: computes convolutions and their gradients by oneDNN's primitives. */
#include "engine/backends/cpu/onednn_internal.h"

#include <stdlib.h>
#include <string.h>

/* With fewer channels, Winograd's transforms cost more than its products save. */
enum { WINOGRAD_CHANNELS_MIN = 64 };

struct onednn_convolution {
    enum onednn_direction direction;
    bool has_bias;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
    size_t packing;
};

static dnnl_memory_desc_t describe_images(int64_t samples, int64_t channels, int64_t height,
                                          int64_t width, enum onednn_images order)
{
    static const dnnl_format_tag_t tags[] = {[ONEDNN_NCHW] = dnnl_nchw,
                                             [ONEDNN_NCHW8C] = dnnl_nChw8c,
                                             [ONEDNN_NCHW16C] = dnnl_nChw16c,
                                             [ONEDNN_NHWC] = dnnl_nhwc};

    return onednn_layout_describe(4, (int64_t[]){samples, channels, height, width}, tags[order]);
}

void onednn_layout_images(int64_t samples, int64_t channels, int64_t height, int64_t width,
                          enum onednn_images order, struct onednn_layout *layout)
{
    dnnl_memory_desc_t descriptor = describe_images(samples, channels, height, width, order);

    onednn_layout_set(layout, &descriptor);
}

struct convolution_request {
    dnnl_memory_desc_t x, y, weights, bias;
    const dnnl_memory_desc_t *optional_bias;
    dnnl_dims_t stride, padding, dilation;
    dnnl_primitive_attr_t attributes; /* of the direction that is asked for */
    dnnl_primitive_attr_t plain_attributes;
};

static void describe_convolution(enum onednn_direction direction,
                                 const struct onednn_convolution_shape *shape,
                                 const struct onednn_layout *weights,
                                 struct convolution_request *request)
{
    int64_t o = shape->out_channels, i = shape->channels, g = shape->groups;
    const int64_t *k = shape->kernel;

    memset(request, 0, sizeof(*request));
    request->x = describe_images(shape->samples, i, shape->height, shape->width, shape->order_x);
    request->y =
        describe_images(shape->samples, o, shape->out_height, shape->out_width, shape->order_y);
    if (weights)
        request->weights = *onednn_layout_descriptor(weights);
    else if (g > 1)
        request->weights = onednn_layout_describe(5, (int64_t[]){g, o / g, i / g, k[0], k[1]},
                                                  dnnl_format_tag_any);
    else
        request->weights =
            onednn_layout_describe(4, (int64_t[]){o, i, k[0], k[1]}, dnnl_format_tag_any);
    if (shape->bfloat16) {
        if (direction != ONEDNN_BACKWARD_DATA)
            request->x.data_type = dnnl_bf16;
        if (direction != ONEDNN_BACKWARD_WEIGHTS)
            request->weights.data_type = dnnl_bf16;
        if (direction != ONEDNN_FORWARD)
            request->y.data_type = dnnl_bf16;
    }
    request->bias = onednn_layout_describe(1, &o, dnnl_a);
    request->optional_bias = shape->bias ? &request->bias : NULL;
    for (int d = 0; d < 2; d++) {
        request->stride[d] = shape->stride[d];
        request->padding[d] = shape->padding[d];
        request->dilation[d] = shape->dilation[d] - 1; /* oneDNN counts the gaps between taps */
    }
}

static dnnl_status_t describe_forward(struct onednn *onednn,
                                      const struct convolution_request *request,
                                      dnnl_alg_kind_t algorithm, dnnl_primitive_attr_t attributes,
                                      dnnl_primitive_desc_t *descriptor)
{
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &operation, dnnl_forward_training, algorithm, &request->x, &request->weights,
        request->optional_bias, &request->y, request->stride, request->dilation, request->padding,
        request->padding);

    if (status)
        return status;
    return onednn_descriptor_create(onednn, &operation, attributes, NULL, descriptor);
}

static dnnl_status_t describe_backward(struct onednn *onednn, enum onednn_direction direction,
                                       const struct convolution_request *request,
                                       dnnl_alg_kind_t algorithm, dnnl_primitive_desc_t *descriptor)
{
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t hint = NULL;
    struct convolution_request free_weights = *request;
    dnnl_status_t status;

    /* The hint has to exist, but must not force a layout of its own on the weights. */
    free_weights.weights =
        onednn_layout_describe(request->weights.ndims, request->weights.dims, dnnl_format_tag_any);
    if (request->y.data_type == dnnl_bf16)
        free_weights.x.data_type = free_weights.weights.data_type = dnnl_bf16;
    status = describe_forward(onednn, &free_weights, algorithm, request->plain_attributes, &hint);
    if (!status && direction == ONEDNN_BACKWARD_DATA)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            &operation, algorithm, &request->x, &request->weights, &request->y, request->stride,
            request->dilation, request->padding, request->padding);
    else if (!status)
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            &operation, algorithm, &request->x, &request->weights, request->optional_bias,
            &request->y, request->stride, request->dilation, request->padding, request->padding);
    if (!status)
        status =
            onednn_descriptor_create(onednn, &operation, request->attributes, hint, descriptor);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return status;
}

static dnnl_status_t describe_direction(struct onednn *onednn, enum onednn_direction direction,
                                        const struct convolution_request *request,
                                        dnnl_alg_kind_t algorithm,
                                        dnnl_primitive_desc_t *descriptor)
{
    if (direction == ONEDNN_FORWARD)
        return describe_forward(onednn, request, algorithm, request->attributes, descriptor);
    return describe_backward(onednn, direction, request, algorithm, descriptor);
}

/* Whether Winograd's algorithm is allowed. Compared with float64, Winograd F(4,3) is as accurate as
 * the direct form. oneDNN has it for AVX-512 only; elsewhere it declines, and the direct form is
 * used. */
static bool winograd_pays(const struct onednn_convolution_shape *shape)
{
    return shape->kernel[0] == 3 && shape->kernel[1] == 3 && shape->stride[0] == 1 &&
           shape->stride[1] == 1 && shape->dilation[0] == 1 && shape->dilation[1] == 1 &&
           shape->groups == 1 && !shape->bfloat16 && shape->order_x == ONEDNN_NCHW16C &&
           shape->order_y == ONEDNN_NCHW16C && shape->channels >= WINOGRAD_CHANNELS_MIN &&
           shape->out_channels >= WINOGRAD_CHANNELS_MIN;
}

static dnnl_status_t create_convolution_attributes(enum onednn_direction direction,
                                                   const struct onednn_convolution_shape *shape,
                                                   struct convolution_request *request)
{
    dnnl_status_t status = onednn_attributes_create(
        false, shape->relu && direction == ONEDNN_FORWARD, &request->attributes);

    return status ? status : onednn_attributes_create(false, false, &request->plain_attributes);
}

static void free_convolution_attributes(struct convolution_request *request)
{
    if (request->attributes)
        dnnl_primitive_attr_destroy(request->attributes);
    if (request->plain_attributes)
        dnnl_primitive_attr_destroy(request->plain_attributes);
}

/* Whether each tap of the kernel meets a pixel of x for some pixel of y. */
static bool all_taps_see_pixels(const struct onednn_convolution_shape *shape)
{
    const int64_t in[] = {shape->height, shape->width},
                  out[] = {shape->out_height, shape->out_width};

    for (int d = 0; d < 2; d++)
        for (int64_t tap = 0; tap < shape->kernel[d]; tap++) {
            bool sees = false;

            for (int64_t y = 0; y < out[d] && !sees; y++) {
                int64_t x = y * shape->stride[d] - shape->padding[d] + tap * shape->dilation[d];

                sees = x >= 0 && x < in[d];
            }
            if (!sees)
                return false;
        }
    return true;
}

/* Whether oneDNN 2.6 computes the convolution correctly in bfloat16. "jit_bf16" does not write the
 * gradient of weights whose taps meet padding alone. "jit_bf16_1x1" multiplies pairs of channels:
 * for channels-last images it drops the last one of an odd number. */
static bool is_right(const_dnnl_primitive_desc_t descriptor, enum onednn_direction direction,
                     const struct onednn_convolution_shape *shape)
{
    static const char single_pixel[] = "jit_bf16_1x1";
    int64_t summed = direction == ONEDNN_FORWARD         ? shape->channels
                     : direction == ONEDNN_BACKWARD_DATA ? shape->out_channels
                                                         : 0;

    if (!shape->bfloat16)
        return true;
    if (direction == ONEDNN_BACKWARD_WEIGHTS && !all_taps_see_pixels(shape))
        return false;
    return summed % 2 == 0 ||
           strncmp(onednn_implementation(descriptor), single_pixel, strlen(single_pixel)) != 0;
}

int onednn_convolution_exists(struct onednn *onednn, enum onednn_direction direction,
                              const struct onednn_convolution_shape *shape)
{
    struct convolution_request request;
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_status_t status;
    bool exists;

    describe_convolution(direction, shape, NULL, &request);
    status = create_convolution_attributes(direction, shape, &request);
    if (!status)
        status =
            describe_direction(onednn, direction, &request, dnnl_convolution_direct, &descriptor);
    exists = !status && strncmp(onednn_implementation(descriptor), "ref", 3) != 0 &&
             is_right(descriptor, direction, shape);
    if (descriptor)
        dnnl_primitive_desc_destroy(descriptor);
    free_convolution_attributes(&request);
    return exists;
}

int onednn_convolution_create(struct onednn *onednn, enum onednn_direction direction,
                              const struct onednn_convolution_shape *shape,
                              const struct onednn_layout *weights,
                              struct onednn_convolution **convolution, struct error *error)
{
    struct onednn_convolution *made = calloc(1, sizeof(*made));
    struct convolution_request request;
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a convolution");
    describe_convolution(direction, shape, weights, &request);
    made->direction = direction;
    made->has_bias = shape->bias && direction != ONEDNN_BACKWARD_DATA;
    status = create_convolution_attributes(direction, shape, &request);
    if (!status) {
        status = dnnl_unimplemented;
        if (winograd_pays(shape))
            status = describe_direction(onednn, direction, &request, dnnl_convolution_winograd,
                                        &made->descriptor);
        if (status)
            status = describe_direction(onednn, direction, &request, dnnl_convolution_direct,
                                        &made->descriptor);
    }
    if (!status)
        status = dnnl_primitive_create(&made->primitive, made->descriptor);
    free_convolution_attributes(&request);
    if (status) {
        onednn_convolution_free(made);
        return onednn_fail(error, status, "cannot create a convolution");
    }
    made->packing = onednn_packing_bytes(onednn, made->descriptor, made->primitive);
    *convolution = made;
    return 0;
}

void onednn_convolution_free(struct onednn_convolution *convolution)
{
    if (!convolution)
        return;
    if (convolution->primitive)
        dnnl_primitive_destroy(convolution->primitive);
    if (convolution->descriptor)
        dnnl_primitive_desc_destroy(convolution->descriptor);
    free(convolution);
}

static const dnnl_memory_desc_t *query(const struct onednn_convolution *convolution,
                                       dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(convolution->descriptor, what, 0);
}

static const dnnl_memory_desc_t *weights_descriptor(const struct onednn_convolution *convolution)
{
    return query(convolution, convolution->direction == ONEDNN_BACKWARD_WEIGHTS
                                  ? dnnl_query_diff_weights_md
                                  : dnnl_query_weights_md);
}

void onednn_convolution_weights_layout(const struct onednn_convolution *convolution,
                                       struct onednn_layout *layout)
{
    onednn_layout_set(layout, weights_descriptor(convolution));
}

const char *onednn_convolution_implementation(const struct onednn_convolution *convolution)
{
    return onednn_implementation(convolution->descriptor);
}

int onednn_convolution_is_reference(const struct onednn_convolution *convolution)
{
    return strncmp(onednn_convolution_implementation(convolution), "ref", 3) == 0;
}

size_t onednn_convolution_scratch_bytes(const struct onednn_convolution *convolution)
{
    return onednn_scratch_bytes(query(convolution, dnnl_query_scratchpad_md), convolution->packing);
}

int onednn_convolution_bind(struct onednn *onednn, const struct onednn_convolution *convolution,
                            const void *x, const void *weights, const void *bias, const void *y,
                            void *scratch, struct onednn_call **call, struct error *error)
{
    static const struct {
        int x, weights, bias, y;
        dnnl_query_t query_x, query_y;
    } names[] = {
        [ONEDNN_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                            dnnl_query_src_md, dnnl_query_dst_md},
        [ONEDNN_BACKWARD_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
                                  DNNL_ARG_DIFF_DST, dnnl_query_diff_src_md,
                                  dnnl_query_diff_dst_md},
        [ONEDNN_BACKWARD_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS,
                                     DNNL_ARG_DIFF_DST, dnnl_query_src_md, dnnl_query_diff_dst_md},
    };
    enum onednn_direction direction = convolution->direction;
    struct onednn_call *made = onednn_call_create(onednn, convolution->primitive);
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a convolution's arguments");
    status =
        onednn_call_add(made, names[direction].x, query(convolution, names[direction].query_x), x);
    made->source = 0;
    if (!status)
        status = onednn_call_add(made, names[direction].weights, weights_descriptor(convolution),
                                 weights);
    if (!status)
        status = onednn_call_add(made, names[direction].y,
                                 query(convolution, names[direction].query_y), y);
    if (!status && convolution->has_bias)
        status = onednn_call_add(made, names[direction].bias,
                                 dnnl_primitive_desc_query_md(convolution->descriptor,
                                                              direction == ONEDNN_FORWARD
                                                                  ? dnnl_query_weights_md
                                                                  : dnnl_query_diff_weights_md,
                                                              1),
                                 bias);
    if (!status)
        status = onednn_call_add_scratch(made, query(convolution, dnnl_query_scratchpad_md),
                                         convolution->packing, scratch);
    if (status) {
        onednn_call_free(made);
        return onednn_fail(error, status, "cannot bind a convolution to its memory");
    }
    *call = made;
    return 0;
}
