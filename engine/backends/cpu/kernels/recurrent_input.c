/* recurrent_input.c: the product of a recurrent layer's input; see recurrent.h. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/recurrent_product.h"

#include <string.h>

void KERNEL_NAME(recurrent_pack_input)(const float *weights, int64_t gates, int64_t hidden,
                                       int64_t depth, int64_t first, int64_t end, float *packed)
{
    for (int64_t panel = first; panel < end; panel++)
        pack_panel(weights, gates, hidden, depth, panel, packed);
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

void KERNEL_NAME(recurrent_input)(const struct recurrent_input *product, int64_t rows)
{
    int64_t hidden = product->hidden, panel_weights = product->depth * product->gates * VECTOR;
    _Alignas(64) float sums[ROWS * VECTORS * VECTOR];

    for (int64_t panel = 0; panel * VECTOR < hidden; panel++)
        for (int64_t row = 0, count; row < rows; row += count) {
            float *y = product->y.start + panel * product->y.panel + row * product->y.row;
            int64_t units = minimum(VECTOR, hidden - panel * VECTOR);

            count = tile_rows(row, rows);
            multiply_rows(count, (int)product->gates, product->x.start + row * product->x.row,
                          product->x.row, product->weights + panel * panel_weights, product->depth,
                          sums);
            for (int64_t r = 0; r < count; r++, y += product->y.row)
                if (units == VECTOR)
                    finish_row(product, sums + r * VECTORS * VECTOR, panel * VECTOR, VECTOR, y);
                else
                    finish_row(product, sums + r * VECTORS * VECTOR, panel * VECTOR, units, y);
        }
}
