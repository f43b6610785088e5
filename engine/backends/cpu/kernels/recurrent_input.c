/* recurrent_input.c: the product of a recurrent layer's input; see recurrent.h. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/recurrent_bfloat16.h"
#include "engine/backends/cpu/kernels/recurrent_product.h"

#include <string.h>

void KERNEL_NAME(recurrent_pack_input)(const float *weights, int64_t gates, int64_t hidden,
                                       int64_t depth, int64_t first, int64_t end, float *packed)
{
    for (int64_t panel = first; panel < end; panel++)
        pack_panel(weights, gates, hidden, depth, panel, packed);
}

/* Transposes pairs of numbers, which have the size of a float. */
static void pack_panel_bfloat16(const uint16_t *weights, int64_t gates, int64_t hidden,
                                int64_t depth, int64_t panel, uint16_t *packed)
{
    int64_t unit = panel * AMX_LANES, units = minimum(AMX_LANES, hidden - unit);
    int64_t next = gates * 2 * AMX_LANES;

    packed += panel * depth / 2 * next;
    if (units < AMX_LANES)
        memset(packed, 0, (size_t)(depth / 2 * next) * sizeof *packed);
    for (int64_t gate = 0; gate < gates; gate++)
        KERNEL_NAME(matrix_transpose_to)
    ((const float *)(const void *)(weights + (gate * hidden + unit) * depth), depth / 2, units,
     depth / 2, (float *)(void *)(packed + gate * 2 * AMX_LANES), next / 2);
}

void KERNEL_NAME(recurrent_pack_input_bfloat16)(const uint16_t *weights, int64_t gates,
                                                int64_t hidden, int64_t depth, int64_t first,
                                                int64_t end, uint16_t *packed)
{
    for (int64_t panel = first; panel < end; panel++)
        pack_panel_bfloat16(weights, gates, hidden, depth, panel, packed);
}

/* Adds the bias to the sums of a row, and stores them. */
static ALWAYS_INLINE void finish_row(const struct recurrent_input *product, const float *sums,
                                     int64_t unit, const int64_t units, float *y)
{
    for (int64_t gate = 0; gate < product->gates; gate++, y += product->y.gate) {
        const float *bias = product->bias ? product->bias + gate * product->hidden + unit : NULL;
        float values[VECTOR];

        for (int64_t u = 0; u < units; u++)
            values[u] = sums[gate * VECTOR + u] + (bias ? bias[u] : 0.0f);
        memcpy(y, values, (size_t)units * sizeof(*y));
    }
}

/* The sums of some rows and a panel. */
static void multiply_input(const struct recurrent_input *product, int64_t panel, int64_t row,
                           int64_t rows, float *sums, struct amx_tiles *tiles)
{
    int64_t depth = product->depth, weights = panel * depth * product->gates * VECTOR;
    int64_t place = row * product->x.row;

    if (!product->bfloat16_x) {
        multiply_rows(rows, (int)product->gates, product->x.start + place, product->x.row,
                      product->weights + weights, depth, sums);
        return;
    }
    KERNEL_NAME(amx_multiply_bfloat16)
    (tiles, rows, (int)product->gates, product->bfloat16_x + place,
     product->x.row * (int64_t)sizeof *product->bfloat16_x, product->bfloat16_weights + weights,
     depth / 2, sums);
}

void KERNEL_NAME(recurrent_input)(const struct recurrent_input *product, int64_t rows)
{
    int64_t hidden = product->hidden;
    _Alignas(64) float sums[SUM_ROWS * VECTORS * VECTOR];
    struct amx_tiles tiles = {0};

    for (int64_t panel = 0; panel * VECTOR < hidden; panel++)
        for (int64_t row = 0, count; row < rows; row += count) {
            float *y = product->y.start + panel * product->y.panel + row * product->y.row;
            int64_t units = minimum(VECTOR, hidden - panel * VECTOR);

            count = rows_together(product->bfloat16_x != NULL, row, rows);
            multiply_input(product, panel, row, count, sums, &tiles);
            for (int64_t r = 0; r < count; r++, y += product->y.row)
                if (units == VECTOR)
                    finish_row(product, sums + r * VECTORS * VECTOR, panel * VECTOR, VECTOR, y);
                else
                    finish_row(product, sums + r * VECTORS * VECTOR, panel * VECTOR, units, y);
        }
    KERNEL_NAME(amx_end_tiles)(&tiles);
}
