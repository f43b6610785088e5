/* onednn_layout.c: describes the layouts of tensors in oneDNN's terms, and copies tensors from one
 * layout to another. */
#include "engine/backends/cpu/onednn_internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(dnnl_memory_desc_t) <= ONEDNN_LAYOUT_BYTES, "layout too small");

struct onednn_reorder {
    dnnl_memory_desc_t from, to;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
};

const dnnl_memory_desc_t *onednn_layout_descriptor(const struct onednn_layout *layout)
{
    return (const dnnl_memory_desc_t *)(const void *)layout->descriptor;
}

void onednn_layout_set(struct onednn_layout *layout, const dnnl_memory_desc_t *descriptor)
{
    memset(layout, 0, sizeof(*layout));
    memcpy(layout->descriptor, descriptor, sizeof(*descriptor));
}

dnnl_memory_desc_t onednn_layout_describe(int rank, const int64_t *extent, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t descriptor;
    dnnl_dims_t extents = {0};

    for (int i = 0; i < rank; i++)
        extents[i] = extent[i];
    memset(&descriptor, 0, sizeof(descriptor));
    dnnl_memory_desc_init_by_tag(&descriptor, rank, extents, dnnl_f32, tag);
    return descriptor;
}

void onednn_layout_plain_like(const struct onednn_layout *like, struct onednn_layout *plain)
{
    static const dnnl_format_tag_t tags[] = {dnnl_a,   dnnl_a,    dnnl_ab,
                                             dnnl_abc, dnnl_abcd, dnnl_abcde};
    const dnnl_memory_desc_t *from = onednn_layout_descriptor(like);
    dnnl_memory_desc_t descriptor =
        onednn_layout_describe(from->ndims, from->dims, tags[from->ndims]);

    onednn_layout_set(plain, &descriptor);
}

void onednn_layout_plain_weights(const int64_t extent[5], struct onednn_layout *layout)
{
    bool grouped = extent[0] > 1;
    dnnl_memory_desc_t descriptor = onednn_layout_describe(
        grouped ? 5 : 4, grouped ? extent : extent + 1, grouped ? dnnl_goihw : dnnl_oihw);

    onednn_layout_set(layout, &descriptor);
}

int64_t onednn_layout_extent(const struct onednn_layout *layout, int axis)
{
    return onednn_layout_descriptor(layout)->dims[axis];
}

int onednn_layout_part(const struct onednn_layout *whole, int axis, int64_t first, int64_t count,
                       struct onednn_layout *part)
{
    const dnnl_memory_desc_t *from = onednn_layout_descriptor(whole);
    dnnl_dims_t extents, offsets = {0};
    dnnl_memory_desc_t descriptor;

    memcpy(extents, from->dims, sizeof(extents));
    extents[axis] = count;
    offsets[axis] = first;
    if (dnnl_memory_desc_init_submemory(&descriptor, from, extents, offsets))
        return -ERROR_UNSUPPORTED;
    onednn_layout_set(part, &descriptor);
    return 0;
}

int onednn_layout_lies_within(const struct onednn_layout *layout, const struct onednn_layout *part,
                              size_t *offset)
{
    dnnl_memory_desc_t at_start = *onednn_layout_descriptor(part);

    *offset = (size_t)at_start.offset0 * sizeof(float);
    at_start.offset0 = 0;
    return dnnl_memory_desc_equal(onednn_layout_descriptor(layout), &at_start);
}

void onednn_layout_depthwise(int64_t channels, const int64_t kernel[2], int64_t block,
                             struct onednn_layout *layout)
{
    dnnl_format_tag_t tag = block == 16         ? dnnl_Goihw16g
                            : block == 8        ? dnnl_Goihw8g
                            : block == channels ? dnnl_hwigo
                                                : dnnl_goihw;
    /* A single channel forms no groups: the weights of such convolutions have four dimensions in
     * oneDNN, which has no reorder between four and five. */
    dnnl_memory_desc_t descriptor =
        channels == 1
            ? onednn_layout_describe(4, (int64_t[]){1, 1, kernel[0], kernel[1]}, dnnl_oihw)
            : onednn_layout_describe(5, (int64_t[]){channels, 1, 1, kernel[0], kernel[1]}, tag);

    onednn_layout_set(layout, &descriptor);
}

void onednn_layout_blocked_weights(const int64_t extent[4], int block, struct onednn_layout *layout)
{
    dnnl_memory_desc_t descriptor =
        onednn_layout_describe(4, extent, block == 16 ? dnnl_OIhw16i16o : dnnl_OIhw8i8o);

    onednn_layout_set(layout, &descriptor);
}

void onednn_layout_vectors_of_weights(const int64_t extent[4], int lanes,
                                      struct onednn_layout *layout)
{
    dnnl_memory_desc_t descriptor =
        onednn_layout_describe(4, extent, lanes == 16 ? dnnl_Ohwi16o : dnnl_Ohwi8o);

    onednn_layout_set(layout, &descriptor);
}

void onednn_layout_spatial_first(const int64_t extent[4], struct onednn_layout *layout)
{
    dnnl_dims_t extents = {extent[0], extent[1], extent[2], extent[3]};
    dnnl_dims_t strides = {extent[1], 1, extent[3] * extent[0] * extent[1], extent[0] * extent[1]};
    dnnl_memory_desc_t descriptor;

    memset(&descriptor, 0, sizeof(descriptor));
    dnnl_memory_desc_init_by_strides(&descriptor, 4, extents, dnnl_f32, strides);
    onednn_layout_set(layout, &descriptor);
}

size_t onednn_layout_bytes(const struct onednn_layout *layout)
{
    return dnnl_memory_desc_get_size(onednn_layout_descriptor(layout));
}

int onednn_layout_equal(const struct onednn_layout *a, const struct onednn_layout *b)
{
    return dnnl_memory_desc_equal(onednn_layout_descriptor(a), onednn_layout_descriptor(b));
}

/* ---- reorder --------------------------------------------------------------------------------- */

int onednn_reorder_create(struct onednn *onednn, const struct onednn_layout *from,
                          const struct onednn_layout *to, struct onednn_reorder **reorder,
                          struct error *error)
{
    struct onednn_reorder *made = calloc(1, sizeof(*made));
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a reorder");
    made->from = *onednn_layout_descriptor(from);
    made->to = *onednn_layout_descriptor(to);
    status = dnnl_reorder_primitive_desc_create(&made->descriptor, &made->from, onednn->engine,
                                                &made->to, onednn->engine, NULL);
    if (!status)
        status = dnnl_primitive_create(&made->primitive, made->descriptor);
    if (status) {
        onednn_reorder_free(made);
        return onednn_fail(error, status, "cannot create a reorder");
    }
    *reorder = made;
    return 0;
}

void onednn_reorder_free(struct onednn_reorder *reorder)
{
    if (!reorder)
        return;
    if (reorder->primitive)
        dnnl_primitive_destroy(reorder->primitive);
    if (reorder->descriptor)
        dnnl_primitive_desc_destroy(reorder->descriptor);
    free(reorder);
}

int onednn_reorder_bind(struct onednn *onednn, const struct onednn_reorder *reorder,
                        const void *from, void *to, struct onednn_call **call, struct error *error)
{
    struct onednn_call *made = onednn_call_create(onednn, reorder->primitive);
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a reorder's arguments");
    status = onednn_call_add(made, DNNL_ARG_FROM, &reorder->from, from);
    made->source = 0;
    if (!status)
        status = onednn_call_add(made, DNNL_ARG_TO, &reorder->to, to);
    if (status) {
        onednn_call_free(made);
        return onednn_fail(error, status, "cannot bind a reorder to its memory");
    }
    *call = made;
    return 0;
}
