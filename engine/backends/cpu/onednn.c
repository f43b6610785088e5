/* onednn.c: see onednn.h. Written for the C interface of oneDNN 2.x: an operation descriptor and
 * attributes give a primitive descriptor, that gives a primitive, which runs on memory objects. */
#include "base/cleanup.h"
#include "engine/backends/cpu/call_pool.h"
#include "engine/backends/cpu/onednn_internal.h"

#include <errno.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(dnnl_memory_desc_t) <= ONEDNN_LAYOUT_BYTES, "layout too small");

/* Below this Winograd's transforms cost more than its products save. */
enum { WINOGRAD_CHANNELS_MIN = 64 };

struct onednn_convolution {
    enum onednn_direction direction;
    bool has_bias;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
    size_t packing;
};

struct onednn_reorder {
    dnnl_memory_desc_t from, to;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
};

static const char *status_text(dnnl_status_t status)
{
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented";
    default:
        return "run-time failure";
    }
}

int onednn_fail(struct error *error, dnnl_status_t status, const char *what)
{
    int code = status == dnnl_out_of_memory   ? -ENOMEM
               : status == dnnl_unimplemented ? -ENOTSUP
                                              : -EIO;

    return error_set(error, code, "oneDNN: %s: %s", what, status_text(status));
}

int onednn_open(int threads, struct onednn **onednn, struct error *error)
{
    struct onednn *library = calloc(1, sizeof(*library));
    dnnl_status_t status;

    if (!library || !(library->streams = calloc((size_t)threads, sizeof(*library->streams)))) {
        onednn_close(library);
        return error_set(error, -ENOMEM, "no memory for oneDNN's streams");
    }
    status = dnnl_engine_create(&library->engine, dnnl_cpu, 0);
    while (!status && library->thread_count < threads) {
        status = dnnl_stream_create(&library->streams[library->thread_count], library->engine,
                                    dnnl_stream_default_flags);
        library->thread_count += !status;
    }
    if (status) {
        onednn_close(library);
        return onednn_fail(error, status, "cannot create an engine");
    }
    *onednn = library;
    return 0;
}

void onednn_close(struct onednn *onednn)
{
    if (!onednn)
        return;
    for (int i = 0; i < onednn->thread_count; i++)
        dnnl_stream_destroy(onednn->streams[i]);
    free(onednn->streams);
    if (onednn->engine)
        dnnl_engine_destroy(onednn->engine);
    free(onednn);
}

void onednn_thread_begin(void)
{
    omp_set_num_threads(1);
}

void onednn_trim(void)
{
    int capacity;

    if (dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success) {
        dnnl_set_primitive_cache_capacity(0);
        dnnl_set_primitive_cache_capacity(capacity);
    }
}

void onednn_version(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();

    snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

const char *onednn_implementation(const_dnnl_primitive_desc_t descriptor)
{
    const char *name = "";

    dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &name);
    return name;
}

/* Values of dnnl_cpu_isa_t are sets of bits: what an instruction set includes. */
static bool has_instructions(dnnl_cpu_isa_t wanted)
{
    return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

enum onednn_bfloat16 onednn_bfloat16(void)
{
    return has_instructions(dnnl_cpu_isa_avx512_core_bf16) ? ONEDNN_BFLOAT16_FAST
           : has_instructions(dnnl_cpu_isa_avx512_core)    ? ONEDNN_BFLOAT16_SLOW
                                                           : ONEDNN_BFLOAT16_NONE;
}

const char *onednn_bfloat16_features(void)
{
    return has_instructions(dnnl_cpu_isa_avx512_core_amx)    ? "avx512_bf16 amx_bf16"
           : has_instructions(dnnl_cpu_isa_avx512_core_bf16) ? "avx512_bf16"
                                                             : "";
}

/* ---- layouts ----------------------------------------------------------------------------------
 */

static const dnnl_memory_desc_t *layout_descriptor(const struct onednn_layout *layout)
{
    return (const dnnl_memory_desc_t *)(const void *)layout->descriptor;
}

static void layout_set(struct onednn_layout *layout, const dnnl_memory_desc_t *descriptor)
{
    memset(layout, 0, sizeof(*layout));
    memcpy(layout->descriptor, descriptor, sizeof(*descriptor));
}

static dnnl_memory_desc_t describe(int rank, const int64_t *extent, dnnl_format_tag_t tag)
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
    const dnnl_memory_desc_t *from = layout_descriptor(like);
    dnnl_memory_desc_t descriptor = describe(from->ndims, from->dims, tags[from->ndims]);

    layout_set(plain, &descriptor);
}

void onednn_layout_depthwise(int64_t channels, const int64_t kernel[2], int64_t block,
                             struct onednn_layout *layout)
{
    dnnl_format_tag_t tag = block == 16         ? dnnl_Goihw16g
                            : block == 8        ? dnnl_Goihw8g
                            : block == channels ? dnnl_hwigo
                                                : dnnl_goihw;
    dnnl_memory_desc_t descriptor =
        describe(5, (int64_t[]){channels, 1, 1, kernel[0], kernel[1]}, tag);

    layout_set(layout, &descriptor);
}

void onednn_layout_blocked_weights(const int64_t extent[4], int block, struct onednn_layout *layout)
{
    dnnl_memory_desc_t descriptor =
        describe(4, extent, block == 16 ? dnnl_OIhw16i16o : dnnl_OIhw8i8o);

    layout_set(layout, &descriptor);
}

void onednn_layout_spatial_first(const int64_t extent[4], struct onednn_layout *layout)
{
    dnnl_dims_t extents = {extent[0], extent[1], extent[2], extent[3]};
    dnnl_dims_t strides = {extent[1], 1, extent[3] * extent[0] * extent[1], extent[0] * extent[1]};
    dnnl_memory_desc_t descriptor;

    memset(&descriptor, 0, sizeof(descriptor));
    dnnl_memory_desc_init_by_strides(&descriptor, 4, extents, dnnl_f32, strides);
    layout_set(layout, &descriptor);
}

size_t onednn_layout_bytes(const struct onednn_layout *layout)
{
    return dnnl_memory_desc_get_size(layout_descriptor(layout));
}

int onednn_layout_equal(const struct onednn_layout *a, const struct onednn_layout *b)
{
    return dnnl_memory_desc_equal(layout_descriptor(a), layout_descriptor(b));
}

/* ---- convolution ------------------------------------------------------------------------------
 */

static dnnl_memory_desc_t describe_images(int64_t samples, int64_t channels, int64_t height,
                                          int64_t width, enum onednn_images order)
{
    static const dnnl_format_tag_t tags[] = {[ONEDNN_NCHW] = dnnl_nchw,
                                             [ONEDNN_NCHW8C] = dnnl_nChw8c,
                                             [ONEDNN_NCHW16C] = dnnl_nChw16c,
                                             [ONEDNN_NHWC] = dnnl_nhwc};

    return describe(4, (int64_t[]){samples, channels, height, width}, tags[order]);
}

struct convolution_request {
    dnnl_memory_desc_t x, y, weights, bias;
    const dnnl_memory_desc_t *optional_bias;
    dnnl_dims_t stride, padding, dilation;
    dnnl_primitive_attr_t attributes; /* of the direction asked for */
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
        request->weights = *layout_descriptor(weights);
    else if (g > 1)
        request->weights =
            describe(5, (int64_t[]){g, o / g, i / g, k[0], k[1]}, dnnl_format_tag_any);
    else
        request->weights = describe(4, (int64_t[]){o, i, k[0], k[1]}, dnnl_format_tag_any);
    if (shape->bfloat16) {
        if (direction != ONEDNN_BACKWARD_DATA)
            request->x.data_type = dnnl_bf16;
        if (direction != ONEDNN_BACKWARD_WEIGHTS)
            request->weights.data_type = dnnl_bf16;
        if (direction != ONEDNN_FORWARD)
            request->y.data_type = dnnl_bf16;
    }
    request->bias = describe(1, &o, dnnl_a);
    request->optional_bias = shape->bias ? &request->bias : NULL;
    for (int d = 0; d < 2; d++) {
        request->stride[d] = shape->stride[d];
        request->padding[d] = shape->padding[d];
        request->dilation[d] = shape->dilation[d] - 1; /* oneDNN counts the gaps */
    }
}

dnnl_status_t onednn_attributes_create(bool sum, bool relu, dnnl_primitive_attr_t *attributes)
{
    dnnl_post_ops_t operations = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);

    if (!status)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (status || (!sum && !relu))
        return status;
    status = dnnl_post_ops_create(&operations);
    if (!status && sum)
        status = dnnl_post_ops_append_sum(operations, 1);
    if (!status && relu)
        status = dnnl_post_ops_append_eltwise(operations, 1, dnnl_eltwise_relu, 0, 0);
    if (!status)
        status = dnnl_primitive_attr_set_post_ops(*attributes, operations);
    if (operations)
        dnnl_post_ops_destroy(operations);
    return status;
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
    return dnnl_primitive_desc_create(descriptor, (const_dnnl_op_desc_t)&operation, attributes,
                                      onednn->engine, NULL);
}

static dnnl_status_t describe_backward(struct onednn *onednn, enum onednn_direction direction,
                                       const struct convolution_request *request,
                                       dnnl_alg_kind_t algorithm, dnnl_primitive_desc_t *descriptor)
{
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t hint = NULL;
    struct convolution_request free_weights = *request;
    dnnl_status_t status;

    /* The hint only has to exist; its own choice of weights must not be forced. */
    free_weights.weights =
        describe(request->weights.ndims, request->weights.dims, dnnl_format_tag_any);
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
        status = dnnl_primitive_desc_create(descriptor, (const_dnnl_op_desc_t)&operation,
                                            request->attributes, onednn->engine, hint);
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

/* Winograd F(4,3) needs its error, but not its accuracy, excused: against float64 it is as exact as
 * the direct form. It exists for AVX-512 only; elsewhere oneDNN declines and direct is taken. */
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
    exists = !status && strncmp(onednn_implementation(descriptor), "ref", 3) != 0;
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
        return error_set(error, -ENOMEM, "no memory for a convolution");
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
    layout_set(layout, weights_descriptor(convolution));
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

/* ---- reorder ----------------------------------------------------------------------------------
 */

int onednn_reorder_create(struct onednn *onednn, const struct onednn_layout *from,
                          const struct onednn_layout *to, struct onednn_reorder **reorder,
                          struct error *error)
{
    struct onednn_reorder *made = calloc(1, sizeof(*made));
    dnnl_status_t status;

    if (!made)
        return error_set(error, -ENOMEM, "no memory for a reorder");
    made->from = *layout_descriptor(from);
    made->to = *layout_descriptor(to);
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

/* ---- calls ------------------------------------------------------------------------------------
 */

dnnl_status_t onednn_call_add(struct onednn_call *call, int name,
                              const dnnl_memory_desc_t *descriptor, const void *data)
{
    dnnl_exec_arg_t *argument = &call->arguments[call->count];
    dnnl_status_t status =
        dnnl_memory_create(&argument->memory, descriptor, call->onednn->engine, (void *)data);

    if (!status) {
        argument->arg = name;
        call->count++;
    }
    return status;
}

struct onednn_call *onednn_call_create(struct onednn *onednn, const_dnnl_primitive_t primitive)
{
    struct onednn_call *call = calloc(1, sizeof(*call));

    if (call) {
        call->onednn = onednn;
        call->primitive = primitive;
        call->source = -1;
    }
    return call;
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
        return error_set(error, -ENOMEM, "no memory for a convolution's arguments");
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

int onednn_reorder_bind(struct onednn *onednn, const struct onednn_reorder *reorder,
                        const void *from, void *to, struct onednn_call **call, struct error *error)
{
    struct onednn_call *made = onednn_call_create(onednn, reorder->primitive);
    dnnl_status_t status;

    if (!made)
        return error_set(error, -ENOMEM, "no memory for a reorder's arguments");
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

void onednn_call_set_source(struct onednn_call *call, const void *source)
{
    dnnl_memory_set_data_handle(call->arguments[call->source].memory, (void *)source);
}

int onednn_call_run(const struct onednn_call *call, int thread)
{
    dnnl_status_t status;

    call_pool_enter(thread, call->packing, call->packing_bytes);
    status = dnnl_primitive_execute(call->primitive, call->onednn->streams[thread], call->count,
                                    call->arguments);
    call_pool_leave();
    return status == dnnl_success ? 0 : -EIO;
}

void onednn_call_free(struct onednn_call *call)
{
    if (!call)
        return;
    for (int i = 0; i < call->count; i++)
        dnnl_memory_destroy(call->arguments[i].memory);
    free(call);
}
