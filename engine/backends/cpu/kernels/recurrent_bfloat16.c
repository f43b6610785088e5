/* recurrent_bfloat16.c: the weights and the carried state of recurrent layers in bfloat16
 * (recurrent.h). */
#include "engine/backends/cpu/kernels/recurrent_bfloat16.h"

/* Two vectors of numbers, one of each pair. */
static void pack_pairs(const float *even, const float *odd, int64_t units, uint16_t *packed)
{
    uint16_t rounded[2][AMX_LANES] = {0};

    KERNEL_NAME(convert_bfloat16)(even, rounded[0], units);
    if (odd)
        KERNEL_NAME(convert_bfloat16)(odd, rounded[1], units);
    for (int64_t u = 0; u < AMX_LANES; u++) {
        packed[2 * u] = rounded[0][u];
        packed[2 * u + 1] = rounded[1][u];
    }
}

/* Weights of the units of a gate, whose numbers of the depth lie side by side: pairs of them are
 * transposed, a tile at a time. `next`: numbers from one pair of the depth to the next. */
static void pack_gate(const float *weights, int64_t units, int64_t hidden, uint16_t *packed,
                      int64_t next)
{
    enum { DEPTH = 32 };

    for (int64_t first = 0; first < hidden; first += DEPTH, packed += DEPTH / 2 * next) {
        int64_t depth = minimum(DEPTH, hidden - first);
        _Alignas(64) uint16_t rounded[AMX_LANES][DEPTH] = {0};

        for (int64_t u = 0; u < units; u++)
            KERNEL_NAME(convert_bfloat16)(weights + u * hidden + first, rounded[u], depth);
        KERNEL_NAME(matrix_transpose_to)
        ((const float *)(const void *)rounded, DEPTH / 2, AMX_LANES, (depth + 1) / 2,
         (float *)(void *)packed, next / 2);
    }
}

static void pack_forward_bfloat16(const float *weights, int64_t gates, int64_t hidden,
                                  int64_t panel, uint16_t *packed)
{
    int64_t next = gates * 2 * AMX_LANES, unit = panel * AMX_LANES;

    packed += panel * ((hidden + 1) / 2) * next;
    for (int64_t gate = 0; gate < gates; gate++)
        pack_gate(weights + (gate * hidden + unit) * hidden, minimum(AMX_LANES, hidden - unit),
                  hidden, packed + gate * 2 * AMX_LANES, next);
}

static void pack_backward_bfloat16(const float *weights, int64_t gates, int64_t hidden,
                                   int64_t panel, uint16_t *packed)
{
    int64_t first = panel * VECTORS * AMX_LANES, depth = gates * hidden;

    packed += first * ((depth + 1) / 2 * 2);
    for (int64_t k = 0; k < depth; k += 2)
        for (int64_t unit = first; unit < hidden && unit < first + VECTORS * AMX_LANES;
             unit += AMX_LANES, packed += 2 * AMX_LANES)
            pack_pairs(weights + k * hidden + unit,
                       k + 1 < depth ? weights + (k + 1) * hidden + unit : NULL,
                       minimum(AMX_LANES, hidden - unit), packed);
}

void KERNEL_NAME(recurrent_pack_bfloat16)(const float *weights, int64_t gates, int64_t hidden,
                                          bool backward, int64_t first, int64_t end,
                                          uint16_t *packed)
{
    for (int64_t panel = first; panel < end; panel++)
        (backward ? pack_backward_bfloat16 : pack_forward_bfloat16)(weights, gates, hidden, panel,
                                                                    packed);
}

void KERNEL_NAME(recurrent_round)(const float *x, int64_t rows, int64_t depth, uint16_t *rounded,
                                  int64_t row)
{
    const struct recurrent_bfloat16 to = {.after = rounded, .row = row};

    for (int64_t r = 0; r < rows; r++)
        round_units(&to, r, depth, x + r * depth, 0, depth);
}
