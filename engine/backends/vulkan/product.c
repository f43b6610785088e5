/* product.c: see product.h. */
#include "engine/backends/vulkan/product.h"

enum { PRODUCT_SIDE = 16 }; /* invocations along each axis of a tile: product.comp */

/* The tile of a workgroup. Not larger than the result needs: what lies outside is computed, too. */
struct tile {
    uint32_t m, n, k;
};

static uint32_t tile_extent(int64_t extent)
{
    uint32_t tile = 4 * PRODUCT_SIDE;

    while (tile > PRODUCT_SIDE && extent <= tile / 2)
        tile /= 2;
    return tile;
}

static struct tile choose_tile(const struct product *product)
{
    return (struct tile){tile_extent(product->m), tile_extent(product->n), PRODUCT_SIDE};
}

int record_product(struct recorder *recorder, const struct product *product, struct error *error)
{
    const struct tile tile = choose_tile(product);
    const struct {
        VkDeviceAddress a, b, bias, c, d;
        uint32_t m, n, k, a_m, a_k, b_k, b_n, c_m, a_batch, b_batch, c_batch;
        float alpha, beta;
    } push = {.a = product->a.at,
              .b = product->b.at,
              .bias = product->bias,
              .c = product->c,
              .d = product->d,
              .m = (uint32_t)product->m,
              .n = (uint32_t)product->n,
              .k = (uint32_t)product->k,
              .a_m = (uint32_t)product->a.column_stride,
              .a_k = (uint32_t)product->a.row_stride,
              .b_k = (uint32_t)product->b.column_stride,
              .b_n = (uint32_t)product->b.row_stride,
              .c_m = (uint32_t)product->c_row_stride,
              .a_batch = (uint32_t)product->a.batch_stride,
              .b_batch = (uint32_t)product->b.batch_stride,
              .c_batch = (uint32_t)product->c_batch_stride,
              .alpha = product->alpha != 0 ? product->alpha : 1,
              .beta = product->beta};
    const struct launch launch = {.shader = SHADER_product,
                                  .constants = {PRODUCT_SIDE * PRODUCT_SIDE, tile.m, tile.n, tile.k,
                                                product->a.row_stride == 1,
                                                product->b.row_stride != 1, product->bias != 0,
                                                product->d != 0},
                                  .constant_count = 8,
                                  .push = &push,
                                  .push_bytes = offsetof(__typeof__(push), beta) + sizeof push.beta,
                                  .addresses = 5,
                                  .groups = {(product->n + tile.n - 1) / tile.n,
                                             (product->m + tile.m - 1) / tile.m, product->batch}};

    return record_launch(recorder, &launch, error);
}
