/* int8_amx.c: see int8_amx.h. The packed weights of a vector, 16 steps of four, are a tile as they
 * lie. What is left of the depth has tiles of its own, which are smaller. */
#include "engine/backends/cpu/kernels/int8_amx.h"

#if !defined(__AVX512F__)

void KERNEL_NAME(int8_end_tiles)(const struct int8_tiles *tiles)
{
    (void)tiles;
}

#else
#include "engine/backends/cpu/kernels/amx.h"

enum {
    ROW_BYTES = 64,
    TILE_STEPS = 16, /* of the depth */
    VECTOR_BYTES = INT8_LANES * 4,
    SUMS_ROW = INT8_VECTORS_MAX * INT8_LANES * (int)sizeof(int32_t)
};

/* Configures the tiles: 0 to 3 are the sums, 4 and 5 are a and b, 6 and 7 what is left of them. */
__attribute__((target("amx-tile"))) static void begin_tiles(struct int8_tiles *tiles, int64_t rows,
                                                            int64_t left)
{
    struct tile_configuration configuration = {.palette = 1};

    if (tiles->rows == rows && tiles->steps_left == left)
        return;
    *tiles = (struct int8_tiles){rows, left};
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

__attribute__((target("amx-tile"))) void KERNEL_NAME(int8_end_tiles)(const struct int8_tiles *tiles)
{
    if (tiles->rows)
        _tile_release();
}

/* Adds the products of tile `of_a`, which is loaded, and the vectors' tiles to the sums. */
#define ADD_PRODUCTS(of_a, of_b)                           \
    do {                                                   \
        _tile_loadd(of_b, b, next);                        \
        _tile_dpbusd(0, of_a, of_b);                       \
        if (vectors > 1) {                                 \
            _tile_loadd(of_b, b + VECTOR_BYTES, next);     \
            _tile_dpbusd(1, of_a, of_b);                   \
        }                                                  \
        if (vectors > 2) {                                 \
            _tile_loadd(of_b, b + 2 * VECTOR_BYTES, next); \
            _tile_dpbusd(2, of_a, of_b);                   \
        }                                                  \
        if (vectors > 3) {                                 \
            _tile_loadd(of_b, b + 3 * VECTOR_BYTES, next); \
            _tile_dpbusd(3, of_a, of_b);                   \
        }                                                  \
    } while (0)

__attribute__((target("amx-tile,amx-int8"))) void
KERNEL_NAME(int8_multiply_amx)(struct int8_tiles *tiles, int64_t rows, int vectors,
                               const uint8_t *a, int64_t a_row, const int8_t *b, int64_t steps,
                               int32_t *sums)
{
    const int64_t left = steps % TILE_STEPS, next = (int64_t)vectors * VECTOR_BYTES;

    begin_tiles(tiles, rows, left);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    MEMORY_IS_WRITTEN();
    for (int64_t step = TILE_STEPS; step <= steps; step += TILE_STEPS) {
        _tile_loadd(4, a, a_row);
        ADD_PRODUCTS(4, 5);
        a += ROW_BYTES;
        b += TILE_STEPS * next;
    }
    if (left) {
        _tile_loadd(6, a, a_row);
        ADD_PRODUCTS(6, 7);
    }
    _tile_stored(0, sums, SUMS_ROW);
    if (vectors > 1)
        _tile_stored(1, sums + INT8_LANES, SUMS_ROW);
    if (vectors > 2)
        _tile_stored(2, sums + 2 * INT8_LANES, SUMS_ROW);
    if (vectors > 3)
        _tile_stored(3, sums + 3 * INT8_LANES, SUMS_ROW);
    MEMORY_IS_WRITTEN();
}

#endif
