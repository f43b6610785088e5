/* onednn_convolution_int8.c: convolutions of integers of 8 bits by oneDNN's primitives (VNNI, AMX).
 * Factors and zero points are part of a primitive: as arguments of a call they would make it up to
 * three times as slow, where oneDNN has that at all. */
#include "engine/backends/cpu/onednn_internal.h"

#include <stdlib.h>

struct onednn_int8_convolution {
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
};

int onednn_int8_is_exact(void)
{
#if defined(__x86_64__)
    return onednn_has_instructions(dnnl_cpu_isa_avx512_core_vnni) ||
           onednn_has_instructions(dnnl_cpu_isa_avx2_vnni);
#else
    return 1;
#endif
}

void onednn_layout_plain_int8(const int64_t extent[5], struct onednn_layout *layout)
{
    dnnl_memory_desc_t descriptor = extent[0] > 1
                                        ? onednn_layout_describe(5, extent, dnnl_goihw)
                                        : onednn_layout_describe(4, extent + 1, dnnl_oihw);

    descriptor.data_type = dnnl_s8;
    onednn_layout_set(layout, &descriptor);
}

static dnnl_memory_desc_t describe_images(int64_t samples, int64_t channels, int64_t height,
                                          int64_t width, dnnl_data_type_t type)
{
    dnnl_memory_desc_t descriptor =
        onednn_layout_describe(4, (int64_t[]){samples, channels, height, width}, dnnl_nhwc);

    descriptor.data_type = type;
    return descriptor;
}

/* The sum with what y holds, then ReLU. */
static dnnl_status_t set_operations(const struct onednn_int8_shape *shape,
                                    dnnl_primitive_attr_t attributes)
{
    dnnl_post_ops_t operations = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&operations);

    if (!status && shape->sum > 0)
        status = dnnl_post_ops_append_sum(operations, shape->sum);
    if (!status && shape->relu)
        status = dnnl_post_ops_append_eltwise(operations, 1, dnnl_eltwise_relu, 0, 0);
    if (!status)
        status = dnnl_primitive_attr_set_post_ops(attributes, operations);
    if (operations)
        dnnl_post_ops_destroy(operations);
    return status;
}

static dnnl_status_t create_attributes(const struct onednn_int8_shape *shape, const float *scale,
                                       dnnl_primitive_attr_t *attributes)
{
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);

    if (!status)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (!status)
        status =
            dnnl_primitive_attr_set_output_scales(*attributes, shape->out_channels, 1 << 1, scale);
    if (!status && shape->zero)
        status = dnnl_primitive_attr_set_zero_points(*attributes, DNNL_ARG_SRC, 1, 0, &shape->zero);
    return status ? status : set_operations(shape, *attributes);
}

static dnnl_status_t describe(struct onednn *onednn, const struct onednn_int8_shape *shape,
                              const struct onednn_layout *layout, dnnl_primitive_attr_t attributes,
                              dnnl_primitive_desc_t *descriptor)
{
    int64_t o = shape->out_channels, i = shape->channels, g = shape->groups;
    const int64_t *k = shape->kernel;
    dnnl_memory_desc_t x = describe_images(shape->samples, i, shape->height, shape->width, dnnl_u8),
                       y = describe_images(shape->samples, o, shape->out_height, shape->out_width,
                                           shape->gives_floats ? dnnl_f32 : dnnl_u8),
                       bias = onednn_layout_describe(1, &o, dnnl_a), weights;
    dnnl_dims_t stride = {shape->stride[0], shape->stride[1]},
                dilation = {shape->dilation[0] - 1, shape->dilation[1] - 1},
                padding = {shape->padding[0], shape->padding[1]},
                padding_end = {shape->padding_end[0], shape->padding_end[1]};
    dnnl_convolution_desc_t operation;
    dnnl_status_t status;

    weights = g > 1 ? onednn_layout_describe(5, (int64_t[]){g, o / g, i / g, k[0], k[1]},
                                             dnnl_format_tag_any)
                    : onednn_layout_describe(4, (int64_t[]){o, i, k[0], k[1]}, dnnl_format_tag_any);
    weights.data_type = dnnl_s8;
    if (layout)
        weights = *onednn_layout_descriptor(layout);
    status = dnnl_dilated_convolution_forward_desc_init(
        &operation, dnnl_forward_inference, dnnl_convolution_direct, &x, &weights, &bias, &y,
        stride, dilation, padding, padding_end);
    if (status)
        return status;
    return onednn_descriptor_create(onednn, &operation, attributes, NULL, descriptor);
}

int onednn_int8_create(struct onednn *onednn, const struct onednn_int8_shape *shape,
                       const float *scale, const struct onednn_layout *layout,
                       struct onednn_int8_convolution **convolution, struct error *error)
{
    struct onednn_int8_convolution *made = calloc(1, sizeof *made);
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a convolution");
    status = create_attributes(shape, scale, &attributes);
    if (!status)
        status = describe(onednn, shape, layout, attributes, &made->descriptor);
    if (!status)
        status = dnnl_primitive_create(&made->primitive, made->descriptor);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    if (status) {
        onednn_int8_free(made);
        return onednn_fail(error, status, "cannot create a convolution of integers");
    }
    *convolution = made;
    return 0;
}

void onednn_int8_free(struct onednn_int8_convolution *convolution)
{
    if (!convolution)
        return;
    if (convolution->primitive)
        dnnl_primitive_destroy(convolution->primitive);
    if (convolution->descriptor)
        dnnl_primitive_desc_destroy(convolution->descriptor);
    free(convolution);
}

static const dnnl_memory_desc_t *query(const struct onednn_int8_convolution *convolution,
                                       dnnl_query_t what, int index)
{
    return dnnl_primitive_desc_query_md(convolution->descriptor, what, index);
}

void onednn_int8_weights_layout(const struct onednn_int8_convolution *convolution,
                                struct onednn_layout *layout)
{
    onednn_layout_set(layout, query(convolution, dnnl_query_weights_md, 0));
}

size_t onednn_int8_scratch_bytes(const struct onednn_int8_convolution *convolution)
{
    return onednn_scratch_bytes(query(convolution, dnnl_query_scratchpad_md, 0), 0);
}

int onednn_int8_bind(struct onednn *onednn, const struct onednn_int8_convolution *convolution,
                     const void *x, const void *weights, const void *bias, const void *y,
                     void *scratch, struct onednn_call **call, struct error *error)
{
    struct onednn_call *made = onednn_call_create(onednn, convolution->primitive);
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a convolution's arguments");
    status = onednn_call_add(made, DNNL_ARG_SRC, query(convolution, dnnl_query_src_md, 0), x);
    if (!status)
        status = onednn_call_add(made, DNNL_ARG_WEIGHTS,
                                 query(convolution, dnnl_query_weights_md, 0), weights);
    if (!status)
        status = onednn_call_add(made, DNNL_ARG_BIAS, query(convolution, dnnl_query_weights_md, 1),
                                 bias);
    if (!status)
        status = onednn_call_add(made, DNNL_ARG_DST, query(convolution, dnnl_query_dst_md, 0), y);
    if (!status)
        status = onednn_call_add_scratch(made, query(convolution, dnnl_query_scratchpad_md, 0), 0,
                                         scratch);
    if (status) {
        onednn_call_free(made);
        return onednn_fail(error, status, "cannot bind a convolution to its memory");
    }
    *call = made;
    return 0;
}
