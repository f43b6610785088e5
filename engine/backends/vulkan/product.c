/* product.c: see product.h. A product of one shape can have tiles of several shapes. Large ones
 * read less for each number that they calculate, and small ones are more workgroups and need fewer
 * registers; so where there are several, the fastest is taken (ways.h). */
#include "engine/backends/vulkan/product.h"

#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/sums.h"
#include "engine/backends/vulkan/ways.h"

#include <stdio.h>

enum {
    PRODUCT_SIDE = 16, /* invocations along each axis of a tile: product.comp */
    PRODUCT_WORKGROUP = PRODUCT_SIDE * PRODUCT_SIDE,
    MATRICES_DEPTH = 32, /* of a piece along K for cooperative matrices, at least */
    TILES_WANTED = 128   /* as many keep a large GPU busy */
};

/* The tile of a workgroup, and how much of the sums it takes at once. */
struct tile {
    uint32_t m, n, k;
};

/* The largest tiles of 4 x 4 numbers for an invocation. */
static const struct tile square = {64, 64, 16};
/* These have 8 x 8 and 8 x 4 numbers. Their pieces of K are shorter, so that they fit into 16 KiB
 * of shared memory, which every device has. */
static const struct tile large[] = {{128, 128, 8}, {128, 64, 8}, {64, 128, 8}};
/* Where tiles are few, smaller ones let more of a GPU work; pieces are longer, as each costs the
 * time that memory takes to answer. */
static const struct tile small[] = {{32, 64, 32}, {32, 32, 32}, {16, 32, 64}};
/* Pieces for cooperative matrices are half as large, and are loaded by eights. */
static const struct tile small_matrices[] = {{32, 64, 64}, {32, 32, 128}, {16, 32, 128}};

static uint32_t tile_extent(int64_t extent)
{
    uint32_t tile = 4 * PRODUCT_SIDE;

    while (tile > PRODUCT_SIDE && extent <= tile / 2)
        tile /= 2;
    return tile;
}

static int64_t count_tiles(const struct product *product, const struct tile *tile)
{
    return (product->m + tile->m - 1) / tile->m * ((product->n + tile->n - 1) / tile->n);
}

/* Lists the tiles for a product: first that which is taken without a measurement. That is not
 * larger than the result needs: what lies outside is computed, too. */
static int list_tiles(const struct recorder *recorder, const struct product *product,
                      struct tile tiles[WAYS_MAX])
{
    const bool matrices = matrices_of(recorder, product->a.at, product->b.at);
    const int64_t batch = product->batch ? product->batch : 1;
    int count = 1;

    tiles[0] = (struct tile){tile_extent(product->m), tile_extent(product->n), square.k};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (tiles[0].m == square.m && tiles[0].n == square.n && product->m > large[i].m / 2 &&
            product->n > large[i].n / 2)
            tiles[count++] = large[i];
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (count_tiles(product, &tiles[0]) * batch < TILES_WANTED && small[i].m <= tiles[0].m &&
            small[i].n <= tiles[0].n)
            tiles[count++] = matrices ? small_matrices[i] : small[i];
    for (int i = 0; matrices && i < count; i++)
        if (tiles[i].k < MATRICES_DEPTH)
            tiles[i].k = MATRICES_DEPTH;
    return count;
}

/* Whether eight neighbours of an operand, a matrix of so many rows and columns, can be read at
 * once: they lie side by side, and begin at multiples of 16 bytes. */
static bool has_eights(const struct product_operand *operand, bool along_row, int64_t rows,
                       int64_t columns)
{
    enum { EIGHT = 8, ALIGNMENT = 16 };
    const int64_t along = along_row ? operand->row_stride : operand->column_stride;
    const int64_t across = along_row ? operand->column_stride : operand->row_stride;

    return along == 1 && (along_row ? columns : rows) % EIGHT == 0 && across % EIGHT == 0 &&
           operand->batch_stride % EIGHT == 0 &&
           (operand->at & ~(VkDeviceAddress)ADDRESS_OF_HALVES) % ALIGNMENT == 0;
}

static uint32_t flags_of_eights(const struct product *product,
                                const struct vulkan_matrices *matrices)
{
    const struct product_operand *a = &product->a, *b = &product->b;

    if (!matrices_take_eights(matrices))
        return 0;
    return (has_eights(a, a->row_stride == 1, product->m, product->k) ? PRODUCT_A_EIGHTS : 0) |
           (has_eights(b, b->row_stride == 1, product->k, product->n) ? PRODUCT_B_EIGHTS : 0);
}

static uint32_t flags_of(const struct product *product)
{
    return (product->a.row_stride == 1 ? PRODUCT_A_ALONG_K : 0) |
           (product->b.row_stride != 1 ? PRODUCT_B_ALONG_K : 0) |
           (product->bias ? PRODUCT_BIAS : 0) | (product->d ? PRODUCT_ADDEND : 0) |
           (product->k > PRODUCT_FOLD ? PRODUCT_FOLDS : 0);
}

static int launch(struct recorder *recorder, const struct product *product, const struct tile *tile,
                  struct error *error)
{
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
    const struct vulkan_matrices *matrices = matrices_of(recorder, product->a.at, product->b.at);
    struct launch launch = {.shader = SHADER_product,
                            .matrices = matrices,
                            .constants = {PRODUCT_WORKGROUP, tile->m, tile->n, tile->k,
                                          flags_of(product), product->activation},
                            .constant_count = 6,
                            .push = &push,
                            .push_bytes = offsetof(__typeof__(push), beta) + sizeof push.beta,
                            .addresses = 5,
                            .groups = {(product->n + tile->n - 1) / tile->n,
                                       (product->m + tile->m - 1) / tile->m, product->batch}};

    if (matrices) {
        launch.constants[0] = matrices_divide(matrices, tile->m, tile->n, launch.waves);
        launch.constants[4] |= flags_of_eights(product, matrices);
    }
    return record_launch(recorder, &launch, error);
}

/* ---- the choice of a tile -------------------------------------------------------------------- */

/* A product, and the tiles that it can have. */
struct tiled_product {
    const struct product *product;
    struct tile tiles[WAYS_MAX];
};

static int record_by_tile(struct recorder *recorder, const void *work, int way, struct error *error)
{
    const struct tiled_product *tiled = work;

    return launch(recorder, tiled->product, &tiled->tiles[way], error);
}

/* What decides how fast a tile is. */
static void write_key(const struct recorder *recorder, const void *work, char key[CHOICES_KEY_MAX])
{
    const struct product *product = ((const struct tiled_product *)work)->product;
    const unsigned halves = (product->a.at & ADDRESS_OF_HALVES ? 1 : 0) |
                            (product->b.at & ADDRESS_OF_HALVES ? 2 : 0) |
                            (product->c & ADDRESS_OF_HALVES ? 4 : 0);

    const struct vulkan_matrices *matrices = matrices_of(recorder, product->a.at, product->b.at);
    char by[32] = "";

    if (matrices)
        snprintf(by, sizeof by, ",matrices%u",
                 flags_of_eights(product, matrices) / PRODUCT_A_EIGHTS);
    snprintf(key, CHOICES_KEY_MAX, "%lldx%lldx%lld,%lld,%u,%s-%u%s", (long long)product->m,
             (long long)product->n, (long long)product->k, (long long)product->batch,
             flags_of(product) & (PRODUCT_A_ALONG_K | PRODUCT_B_ALONG_K),
             halves ? tensor_type_to_string(recorder->program->graph->compute_type) : "float32",
             halves, by);
}

int record_product(struct recorder *recorder, const struct product *product, struct error *error)
{
    struct tiled_product tiled = {.product = product};
    struct ways ways = {.work = &tiled,
                        .record = record_by_tile,
                        .write_key = write_key,
                        .count = list_tiles(recorder, product, tiled.tiles)};

    for (int i = 0; i < ways.count; i++)
        snprintf(ways.names[i], sizeof ways.names[i], "%ux%u", tiled.tiles[i].m, tiled.tiles[i].n);
    return record_fastest(recorder, &ways, error);
}

/* ---- parts of a long sum --------------------------------------------------------------------- */

int64_t product_parts(int64_t m, int64_t n, int64_t k)
{
    /* as many tiles as keep a large GPU busy, where each is as large as four of these */
    enum { WANTED = 4 * TILES_WANTED };
    const int64_t wanted = WANTED / count_tiles(&(struct product){.m = m, .n = n}, &square);
    int64_t parts = 1;

    while (2 * parts <= wanted && k % (2 * parts) == 0 && k / (2 * parts) >= PRODUCT_FOLD)
        parts *= 2;
    return parts;
}

int record_product_by_parts(struct recorder *recorder, const struct product *product,
                            VkDeviceAddress room, struct error *error)
{
    const int64_t parts = product_parts(product->m, product->n, product->k);
    struct product part = *product;
    int r;

    if (parts == 1)
        return record_product(recorder, product, error);
    part.batch = parts;
    part.k = product->k / parts;
    part.a.batch_stride = part.k * part.a.row_stride;
    part.b.batch_stride = part.k * part.b.column_stride;
    part.c = room;
    part.c_row_stride = product->n;
    part.c_batch_stride = product->m * product->n;
    part.d = 0;
    r = record_product(recorder, &part, error);
    if (r < 0)
        return r;
    record_barrier(recorder);
    return record_sum_parts(recorder, room, parts, product->m * product->n, product->c,
                            product->d != 0, error);
}
