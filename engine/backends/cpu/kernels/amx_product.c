/* amx_product.c: see amx_product.h. The packed weights of a vector, 16 steps, are a tile as they
 * lie. What is left of the depth has tiles of its own, which are smaller. */
#include "engine/backends/cpu/kernels/amx_product.h"

#if !defined(__AVX512F__)

void KERNEL_NAME(amx_end_tiles)(const struct amx_tiles *tiles)
{
    (void)tiles;
}

/* Never called: only processors of the highest level have AMX. */
void KERNEL_NAME(amx_multiply_bfloat16)(struct amx_tiles *tiles, int64_t rows, int vectors,
                                        const uint16_t *a, int64_t a_row, const uint16_t *b,
                                        int64_t steps, float *sums)
{
    (void)tiles, (void)rows, (void)vectors, (void)a, (void)a_row, (void)b, (void)steps, (void)sums;
}

#else
#include "engine/backends/cpu/kernels/amx.h"

enum {
    ROW_BYTES = 64,
    TILE_STEPS = 16, /* of the depth */
    VECTOR_BYTES = AMX_LANES * 4,
    SUMS_ROW = AMX_VECTORS_MAX * VECTOR_BYTES /* a sum has four bytes, too */
};

/* Configures the tiles: 0 to 3 are the sums, 4 and 5 are a and b, 6 and 7 what is left of them. */
__attribute__((target("amx-tile"))) static void begin_tiles(struct amx_tiles *tiles, int64_t rows,
                                                            int64_t left)
{
    struct tile_configuration configuration = {.palette = 1};

    if (tiles->rows == rows && tiles->steps_left == left)
        return;
    *tiles = (struct amx_tiles){rows, left};
    for (int i = 0; i < 6; i++) {
        configuration.row_bytes[i] = ROW_BYTES;
        configuration.rows[i] = i < 5 ? (uint8_t)rows : TILE_STEPS;
    }
    if (left) {
        configuration.row_bytes[6] = (uint16_t)(4 * left);
        configuration.rows[6] = (uint8_t)rows;
        configuration.row_bytes[7] = ROW_BYTES;
        configuration.rows[7] = (uint8_t)left;
    }
    MEMORY_IS_WRITTEN();
    _tile_loadconfig(&configuration);
}

__attribute__((target("amx-tile"))) void KERNEL_NAME(amx_end_tiles)(const struct amx_tiles *tiles)
{
    if (tiles->rows)
        _tile_release();
}

/* Adds the products of tile `of_a`, which is loaded, and the vectors' tiles to the sums. */
#define ADD_PRODUCTS(dot_product, of_a, of_b)              \
    do {                                                   \
        _tile_loadd(of_b, b, next);                        \
        dot_product(0, of_a, of_b);                        \
        if (vectors > 1) {                                 \
            _tile_loadd(of_b, b + VECTOR_BYTES, next);     \
            dot_product(1, of_a, of_b);                    \
        }                                                  \
        if (vectors > 2) {                                 \
            _tile_loadd(of_b, b + 2 * VECTOR_BYTES, next); \
            dot_product(2, of_a, of_b);                    \
        }                                                  \
        if (vectors > 3) {                                 \
            _tile_loadd(of_b, b + 3 * VECTOR_BYTES, next); \
            dot_product(3, of_a, of_b);                    \
        }                                                  \
    } while (0)

/* The body of the functions below, by the instruction that multiplies two tiles. */
#define MULTIPLY(dot_product)                                                            \
    do {                                                                                 \
        const int64_t left = steps % TILE_STEPS, next = (int64_t)vectors * VECTOR_BYTES; \
        const char *a = (const char *)a_rows, *b = (const char *)weights;                \
        char *to = (char *)sums;                                                         \
                                                                                         \
        begin_tiles(tiles, rows, left);                                                  \
        _tile_zero(0);                                                                   \
        _tile_zero(1);                                                                   \
        _tile_zero(2);                                                                   \
        _tile_zero(3);                                                                   \
        MEMORY_IS_WRITTEN();                                                             \
        for (int64_t step = TILE_STEPS; step <= steps; step += TILE_STEPS) {             \
            _tile_loadd(4, a, a_row);                                                    \
            ADD_PRODUCTS(dot_product, 4, 5);                                             \
            a += ROW_BYTES;                                                              \
            b += TILE_STEPS * next;                                                      \
        }                                                                                \
        if (left) {                                                                      \
            _tile_loadd(6, a, a_row);                                                    \
            ADD_PRODUCTS(dot_product, 6, 7);                                             \
        }                                                                                \
        _tile_stored(0, to, SUMS_ROW);                                                   \
        if (vectors > 1)                                                                 \
            _tile_stored(1, to + VECTOR_BYTES, SUMS_ROW);                                \
        if (vectors > 2)                                                                 \
            _tile_stored(2, to + 2 * VECTOR_BYTES, SUMS_ROW);                            \
        if (vectors > 3)                                                                 \
            _tile_stored(3, to + 3 * VECTOR_BYTES, SUMS_ROW);                            \
        MEMORY_IS_WRITTEN();                                                             \
    } while (0)

__attribute__((target("amx-tile,amx-int8"))) void
KERNEL_NAME(amx_multiply_int8)(struct amx_tiles *tiles, int64_t rows, int vectors,
                               const uint8_t *a_rows, int64_t a_row, const int8_t *weights,
                               int64_t steps, int32_t *sums)
{
    MULTIPLY(_tile_dpbusd);
}

__attribute__((target("amx-tile,amx-bf16"))) void
KERNEL_NAME(amx_multiply_bfloat16)(struct amx_tiles *tiles, int64_t rows, int vectors,
                                   const uint16_t *a_rows, int64_t a_row, const uint16_t *weights,
                                   int64_t steps, float *sums)
{
    MULTIPLY(_tile_dpbf16ps);
}

#endif
