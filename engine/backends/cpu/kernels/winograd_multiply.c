/* winograd_multiply.c: the matrix products of winograd.h. ROWS × PANELS vectors of sums stay in
 * registers over the whole length of a product. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

/* The registers hold 24 sums (12 without AVX-512), the vectors that multiply them, and one number
 * repeated over a vector. With fewer sums the multipliers would wait for each other's results. */
enum { PANELS = 2, ROWS = REGISTERS == 32 ? 12 : 6, TRANSPOSED_ROWS = VECTOR / 2 };
enum { SECOND_CACHE = 2 }; /* the locality argument of __builtin_prefetch */

/* sum[r][n] += x[r * x_step] times vector n of `factor`, whose vectors are `panel` floats apart. */
static ALWAYS_INLINE void add_products(const int rows, const int panels, const float *x,
                                       const int x_step, const float *factor, int64_t panel,
                                       vector (*sum)[PANELS])
{
    vector f[PANELS];

#pragma GCC unroll 2
    for (int n = 0; n < panels; n++)
        f[n] = *(const vector *)(factor + n * panel);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            sum[r][n] += x[r * x_step] * f[n];
}

/* Multiplies `rows` rows of x by `panels` blocks of the output channels. x is [block][row][VECTOR]
 * with x_block floats from block to block; weight is [block][channel][VECTOR], y is
 * [block][row][VECTOR]. Meanwhile it prefetches as many weights from `ahead` on into the
 * second-level cache. Those are the weights of the next blocks, which the processor would not
 * prefetch. With 128 channels the products reach 83% of the multipliers' rate, and 65% without
 * it. */
static ALWAYS_INLINE void multiply_rows(const int rows, const int panels, const float *x,
                                        int64_t x_block, int64_t channels, const float *weight,
                                        int64_t weight_panel, const float *ahead, float *y,
                                        int64_t y_panel)
{
    vector sum[ROWS][PANELS];

#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            sum[r][n] = (vector){0};
    for (int64_t block = 0; block < channels; block += VECTOR, x += x_block)
#pragma GCC unroll 1
        for (int k = 0; k < VECTOR; k++, weight += VECTOR, ahead += VECTOR) {
            __builtin_prefetch(ahead, 0, SECOND_CACHE);
            add_products(rows, panels, x + k, VECTOR, weight, weight_panel, sum);
        }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            *(vector *)(y + n * y_panel + r * VECTOR) = sum[r][n];
}

/* `next`: the weights of the next call, which are prefetched. */
static ALWAYS_INLINE void multiply_panels(const int panels, const struct winograd_product *p,
                                          const float *x, const float *weight, const float *next,
                                          float *y)
{
    const int64_t x_block = p->tiles * VECTOR, weight_panel = p->channels * VECTOR;
    const int64_t y_panel = p->tiles * VECTOR, channels = p->channels;
    int64_t t = 0;

    for (; t + ROWS <= p->tiles; t += ROWS) {
        int64_t panel = t / ROWS; /* only the first rounds prefetch a panel each */

        multiply_rows(ROWS, panels, x + t * VECTOR, x_block, channels, weight, weight_panel,
                      panel < PANELS ? next + panel * weight_panel : weight, y + t * VECTOR,
                      y_panel);
    }
    for (; t + 8 <= p->tiles && ROWS > 8; t += 8)
        multiply_rows(8 < ROWS ? 8 : 1, panels, x + t * VECTOR, x_block, channels, weight,
                      weight_panel, weight, y + t * VECTOR, y_panel);
    for (; t + 4 <= p->tiles; t += 4)
        multiply_rows(4, panels, x + t * VECTOR, x_block, channels, weight, weight_panel, weight,
                      y + t * VECTOR, y_panel);
    for (; t < p->tiles; t++)
        multiply_rows(1, panels, x + t * VECTOR, x_block, channels, weight, weight_panel, weight,
                      y + t * VECTOR, y_panel);
}

void KERNEL_NAME(winograd_multiply)(const struct winograd_product *product, const float *x,
                                    const float *weight, float *y)
{
    const int64_t panels = PANELS * VECTOR;

    for (int64_t f = product->first_frequency; f < product->end_frequency; f++) {
        const float *xf = x + f * product->x_stride, *wf = weight + f * product->weight_stride;
        const float *last = f + 1 < product->end_frequency ? wf + product->weight_stride : wf;
        float *yf = y + f * product->y_stride;
        int64_t o = 0;

        for (; o + panels <= product->out_channels; o += panels) {
            const float *next = o + 2 * panels <= product->out_channels
                                    ? wf + (o + panels) * product->channels
                                    : last;

            multiply_panels(PANELS, product, xf, wf + o * product->channels, next,
                            yf + o * product->tiles);
        }
        if (o < product->out_channels)
            multiply_panels(1, product, xf, wf + o * product->channels, last,
                            yf + o * product->tiles);
    }
}

/* Multiplies TRANSPOSED_ROWS channels of x by `panels` blocks of y, summed over `tiles` rows of
 * both. */
static ALWAYS_INLINE void multiply_transposed(const int panels, int64_t tiles, const float *x,
                                              const float *y, int64_t y_panel, bool accumulate,
                                              float *result, int64_t result_panel)
{
    const float *next = result + TRANSPOSED_ROWS * VECTOR;
    vector sum[TRANSPOSED_ROWS][PANELS];
    int64_t t = 0;

#pragma GCC unroll 8
    for (int r = 0; r < TRANSPOSED_ROWS; r++)
#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            sum[r][n] = accumulate ? *(const vector *)(result + n * result_panel + r * VECTOR)
                                   : (vector){0};
    for (; t < tiles && t < TRANSPOSED_ROWS; t++) { /* prefetches the next rows of the result */
        __builtin_prefetch(next + t * VECTOR, 1, SECOND_CACHE);
        __builtin_prefetch(next + t * VECTOR + result_panel, 1, SECOND_CACHE);
        add_products(TRANSPOSED_ROWS, panels, x + t * VECTOR, 1, y + t * VECTOR, y_panel, sum);
    }
#pragma GCC unroll 2
    for (; t < tiles; t++)
        add_products(TRANSPOSED_ROWS, panels, x + t * VECTOR, 1, y + t * VECTOR, y_panel, sum);
#pragma GCC unroll 8
    for (int r = 0; r < TRANSPOSED_ROWS; r++)
#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            *(vector *)(result + n * result_panel + r * VECTOR) = sum[r][n];
}

void KERNEL_NAME(winograd_multiply_transposed)(const struct winograd_product *product,
                                               const float *x, const float *y, bool accumulate,
                                               float *dweight)
{
    const int64_t tiles = product->tiles, panel = tiles * VECTOR;
    const int64_t result_panel = product->channels * VECTOR;

    for (int64_t f = product->first_frequency; f < product->end_frequency; f++) {
        const float *xf = x + f * product->x_stride, *yf = y + f * product->y_stride;
        float *result = dweight + f * product->weight_stride;

        for (int64_t o = 0; o < product->out_channels; o += PANELS * VECTOR)
            for (int64_t c = 0; c < product->channels; c += TRANSPOSED_ROWS) {
                const float *xc = xf + c / VECTOR * panel + c % VECTOR;
                float *place = result + o * product->channels + c * VECTOR;

                if (o + PANELS * VECTOR <= product->out_channels)
                    multiply_transposed(PANELS, tiles, xc, yf + o * tiles, panel, accumulate, place,
                                        result_panel);
                else
                    multiply_transposed(1, tiles, xc, yf + o * tiles, panel, accumulate, place,
                                        result_panel);
            }
    }
}
