/* product.h: products of matrices. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

/* A matrix by strides: elements from one number to the next of its row, and of its column. */
struct product_operand {
    VkDeviceAddress at;
    int64_t row_stride, column_stride;
    int64_t batch_stride; /* from one product to the next */
};

/* c = alpha a b + bias + beta d for a [m, k], b [k, n]; c and d lie alike. */
struct product {
    int64_t m, n, k, batch; /* batch 0 counts as 1 */
    struct product_operand a, b;
    VkDeviceAddress bias; /* a number for each column of c; 0: none */
    VkDeviceAddress c;
    int64_t c_row_stride, c_batch_stride;
    VkDeviceAddress d;   /* which may be c; 0: none */
    float alpha, beta;   /* alpha 0 counts as 1 */
    uint32_t activation; /* of the result: 1 + enum activation_kind; 0: none */
};
int record_product(struct recorder *recorder, const struct product *product, struct error *error);

/* Into how many parts of equal length the sum along K of a product [m, k] [k, n] is divided, so
 * that a small result of a long sum keeps a large GPU busy. It depends on the extents alone, and so
 * do the bits. */
int64_t product_parts(int64_t m, int64_t n, int64_t k);
/* The same product, without a batch, bias or factors, by that many parts, where there is room for
 * their sums: parts m n numbers. c has no gaps; d is c or 0. */
int record_product_by_parts(struct recorder *recorder, const struct product *product,
                            VkDeviceAddress room, struct error *error);
