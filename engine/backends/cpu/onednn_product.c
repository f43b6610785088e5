/* onednn_product.c: computes products of matrices by oneDNN; see onednn.h. */
#include "engine/backends/cpu/onednn_internal.h"

#include <stdlib.h>
#include <string.h>

struct onednn_product {
    struct onednn_product_shape shape;
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
    size_t packing;
};

static dnnl_memory_desc_t describe(int64_t rows, int64_t columns, bool transposed, bool bfloat16)
{
    dnnl_memory_desc_t descriptor;
    dnnl_dims_t extents = {rows, columns};

    memset(&descriptor, 0, sizeof(descriptor));
    dnnl_memory_desc_init_by_tag(&descriptor, 2, extents, bfloat16 ? dnnl_bf16 : dnnl_f32,
                                 transposed ? dnnl_ba : dnnl_ab);
    return descriptor;
}

int onednn_product_create(struct onednn *onednn, const struct onednn_product_shape *shape,
                          struct onednn_product **product, struct error *error)
{
    struct onednn_product *made = calloc(1, sizeof(*made));
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_matmul_desc_t operation;
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a product");
    made->shape = *shape;
    made->a = describe(shape->rows, shape->depth, shape->a_transposed, shape->bfloat16);
    made->b = describe(shape->depth, shape->columns, shape->b_transposed, shape->bfloat16);
    made->c = describe(shape->rows, shape->columns, false, false);
    made->bias = describe(1, shape->columns, false, false);
    status = onednn_attributes_create(shape->accumulate, shape->relu, &attributes);
    if (!status)
        status = dnnl_matmul_desc_init(&operation, &made->a, &made->b,
                                       shape->bias ? &made->bias : NULL, &made->c);
    if (!status)
        status = dnnl_primitive_desc_create(&made->descriptor, (const_dnnl_op_desc_t)&operation,
                                            attributes, onednn->engine, NULL);
    if (!status)
        status = dnnl_primitive_create(&made->primitive, made->descriptor);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    if (status) {
        onednn_product_free(made);
        return onednn_fail(error, status, "cannot create a product of matrices");
    }
    made->packing = onednn_packing_bytes(onednn, made->descriptor, made->primitive);
    *product = made;
    return 0;
}

void onednn_product_free(struct onednn_product *product)
{
    if (!product)
        return;
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    if (product->descriptor)
        dnnl_primitive_desc_destroy(product->descriptor);
    free(product);
}

static const dnnl_memory_desc_t *scratch_descriptor(const struct onednn_product *product)
{
    return dnnl_primitive_desc_query_md(product->descriptor, dnnl_query_scratchpad_md, 0);
}

size_t onednn_product_scratch_bytes(const struct onednn_product *product)
{
    return onednn_scratch_bytes(scratch_descriptor(product), product->packing);
}

int onednn_product_bind(struct onednn *onednn, const struct onednn_product *product, const void *a,
                        const void *b, const void *bias, void *c, void *scratch,
                        struct onednn_call **call, struct error *error)
{
    struct onednn_call *made = onednn_call_create(onednn, product->primitive);
    dnnl_status_t status;

    if (!made)
        return error_no_memory(error, "a product's arguments");
    made->source = a ? 1 : 0;
    status = onednn_call_add(made, DNNL_ARG_SRC, &product->a, a);
    if (!status)
        status = onednn_call_add(made, DNNL_ARG_WEIGHTS, &product->b, b);
    if (!status)
        status = onednn_call_add(made, DNNL_ARG_DST, &product->c, c);
    if (!status && product->shape.bias)
        status = onednn_call_add(made, DNNL_ARG_BIAS, &product->bias, bias);
    if (!status)
        status =
            onednn_call_add_scratch(made, scratch_descriptor(product), product->packing, scratch);
    if (status) {
        onednn_call_free(made);
        return onednn_fail(error, status, "cannot bind a product to its memory");
    }
    *call = made;
    return 0;
}
