/* product.c: see product.h. A product of one shape can have tiles of several shapes. Large ones
 * read less for each number that they calculate, and small ones are more workgroups and need fewer
 * registers; so where there are several, the fastest is found by a measurement when a program is
 * bound (bind.c), and kept in a file. The result has the same bits with each. */
#include "engine/backends/vulkan/product.h"

#include "base/clock.h"
#include "engine/backends/vulkan/matrices.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    PRODUCT_SIDE = 16, /* invocations along each axis of a tile: product.comp */
    PRODUCT_WORKGROUP = PRODUCT_SIDE * PRODUCT_SIDE,
    MATRICES_DEPTH = 32, /* of a piece along K for cooperative matrices */
    TILES_MAX = 4        /* that a product can have */
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

static uint32_t tile_extent(int64_t extent)
{
    uint32_t tile = 4 * PRODUCT_SIDE;

    while (tile > PRODUCT_SIDE && extent <= tile / 2)
        tile /= 2;
    return tile;
}

/* Lists the tiles for a product: first that which is taken without a measurement. That is not
 * larger than the result needs: what lies outside is computed, too. */
static int list_tiles(const struct recorder *recorder, const struct product *product,
                      struct tile tiles[TILES_MAX])
{
    const bool matrices = matrices_of(recorder, product->a.at, product->b.at);
    int count = 1;

    tiles[0] = (struct tile){tile_extent(product->m), tile_extent(product->n), square.k};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (tiles[0].m == square.m && tiles[0].n == square.n && product->m > large[i].m / 2 &&
            product->n > large[i].n / 2)
            tiles[count++] = large[i];
    for (int i = 0; matrices && i < count; i++)
        tiles[i].k = MATRICES_DEPTH;
    return count;
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
    struct launch launch = {
        .shader = SHADER_product,
        .matrices = matrices,
        .constants = {PRODUCT_WORKGROUP, tile->m, tile->n, tile->k, flags_of(product)},
        .constant_count = 5,
        .push = &push,
        .push_bytes = offsetof(__typeof__(push), beta) + sizeof push.beta,
        .addresses = 5,
        .groups = {(product->n + tile->n - 1) / tile->n, (product->m + tile->m - 1) / tile->m,
                   product->batch}};

    if (matrices)
        launch.constants[0] = matrices_divide(matrices, tile->m, tile->n, launch.waves);
    return record_launch(recorder, &launch, error);
}

/* ---- the choice of a tile -------------------------------------------------------------------- */

/* What decides how fast a tile is. */
static void write_key(const struct recorder *recorder, const struct product *product,
                      char key[CHOICES_KEY_MAX])
{
    const unsigned halves = (product->a.at & ADDRESS_OF_HALVES ? 1 : 0) |
                            (product->b.at & ADDRESS_OF_HALVES ? 2 : 0) |
                            (product->c & ADDRESS_OF_HALVES ? 4 : 0);

    snprintf(key, CHOICES_KEY_MAX, "%lldx%lldx%lld,%lld,%u,%s-%u%s", (long long)product->m,
             (long long)product->n, (long long)product->k, (long long)product->batch,
             flags_of(product) & (PRODUCT_A_ALONG_K | PRODUCT_B_ALONG_K),
             halves ? tensor_type_to_string(recorder->program->graph->compute_type) : "float32",
             halves, matrices_of(recorder, product->a.at, product->b.at) ? ",matrices" : "");
}

/* The number of the tile that a text names; -1: it names none of these. */
static int find_tile(const struct tile *tiles, int count, const char *text)
{
    for (int i = 0; text && i < count; i++) {
        char name[CHOICES_TEXT_MAX];

        snprintf(name, sizeof name, "%ux%u", tiles[i].m, tiles[i].n);
        if (strcmp(name, text) == 0)
            return i;
    }
    return -1;
}

/* Runs a product so many times. Receives the seconds until they have ended. */
static int time_tile(struct recorder *recorder, const struct product *product,
                     const struct tile *tile, int runs, double *seconds, struct error *error)
{
    struct recorder own = {.program = recorder->program};
    struct backend_device *device = recorder->program->device;
    int r = queue_begin(device, false, &own.commands, error);

    if (r < 0)
        return r;
    for (int i = 0; r == 0 && i < runs; i++) {
        r = launch(&own, product, tile, error);
        queue_barrier(device, own.commands); /* as between the nodes of a step */
    }
    if (r < 0) {
        queue_discard(device, own.commands);
        return r;
    }
    *seconds = clock_monotonic();
    r = queue_finish(device, own.commands, error);
    *seconds = clock_monotonic() - *seconds;
    return r;
}

/* The seconds of one run, the least of several measurements: each of so many runs that what it
 * takes to submit them counts little. INFINITY: a first look says that it is more than `most`. */
static int measure_tile(struct recorder *recorder, const struct product *product,
                        const struct tile *tile, double most, double *least, struct error *error)
{
    enum { RUNS_MAX = 64, TIMES = 3 };
    const double wanted = 0.002;
    double seconds = 0;
    int runs, r = time_tile(recorder, product, tile, 1, &seconds, error); /* compiles it, too */

    if (r == 0)
        r = time_tile(recorder, product, tile, 1, &seconds, error);
    *least = INFINITY;
    if (r < 0 || seconds > most)
        return r;
    runs = seconds > wanted ? 1 : RUNS_MAX * seconds < wanted ? RUNS_MAX : (int)(wanted / seconds);
    for (int i = 0; r == 0 && i < TIMES; i++) {
        r = time_tile(recorder, product, tile, runs, &seconds, error);
        *least = fmin(*least, seconds / runs);
    }
    return r;
}

static int choose_fastest(struct recorder *recorder, const struct product *product,
                          const struct tile *tiles, int count, int *best, struct error *error)
{
    /* a tile is left out if it takes `slow` times as long as the best, and `host` seconds more */
    const double slow = 2, host = 50e-6;
    double least = INFINITY, seconds;
    int r = 0;

    for (int i = 0; r == 0 && i < count; i++) {
        r = measure_tile(recorder, product, &tiles[i], slow * least + host, &seconds, error);
        if (r == 0 && seconds < least) {
            least = seconds;
            *best = i;
        }
    }
    return r;
}

static int choose_tile(struct recorder *recorder, const struct product *product, struct tile *tile,
                       struct error *error)
{
    struct backend_device *device = recorder->program->device;
    char key[CHOICES_KEY_MAX], text[CHOICES_TEXT_MAX];
    struct tile tiles[TILES_MAX];
    int count = list_tiles(recorder, product, tiles), best, r = 0;

    *tile = tiles[0];
    if (count == 1)
        return 0;
    best = find_tile(tiles, count, device->tile);
    if (best < 0 && device->measures) {
        write_key(recorder, product, key);
        best = find_tile(tiles, count, choice_table_find(device->choices, key));
    }
    if (best < 0 && device->measures && recorder->rehearses) {
        r = choose_fastest(recorder, product, tiles, count, &best, error);
        if (r < 0)
            return r;
        snprintf(text, sizeof text, "%ux%u", tiles[best].m, tiles[best].n);
        best = find_tile(tiles, count, choice_table_add(device->choices, key, text));
    }
    if (best >= 0)
        *tile = tiles[best];
    return 0;
}

int record_product(struct recorder *recorder, const struct product *product, struct error *error)
{
    struct tile tile;
    int r = choose_tile(recorder, product, &tile, error);

    return r < 0 ? r : launch(recorder, product, &tile, error);
}
