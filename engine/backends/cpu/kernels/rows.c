/* rows.c: embedding, dropout, and copies between the layouts of images. */
#include "base/philox.h"
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

void KERNEL_NAME(embedding_forward)(const int32_t *restrict index, const float *restrict weight,
                                    float *restrict y, int64_t count, int64_t width,
                                    int64_t vocabulary)
{
    for (int64_t i = 0; i < count; i++) {
        bool known = index[i] >= 0 && index[i] < vocabulary;
        const float *row = known ? weight + index[i] * width : weight;

        for (int64_t k = 0; k < width; k++)
            y[i * width + k] = known ? row[k] : NAN;
    }
}

void KERNEL_NAME(embedding_backward)(const int32_t *restrict index, const float *restrict dy,
                                     float *restrict dweight, int64_t count, int64_t width,
                                     int64_t first, int64_t end)
{
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < first || index[i] >= end)
            continue;
        float *row = dweight + index[i] * width;
        for (int64_t k = 0; k < width; k++)
            row[k] += dy[i * width + k];
    }
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* The mask of one batch. Word e % 4 of draw e / 4 decides about element (or row) e. It is kept if
 * the word's 24 high bits, as an integer, reach probability · 2^24, rounded up. */
struct draws {
    uint64_t seed, stream, base;
    uint32_t threshold;
    float scale;
};

static struct draws draws_begin(const struct dropout_mask *mask)
{
    return (struct draws){.seed = mask->seed,
                          .stream = philox_stream(PHILOX_DROPOUT, mask->stream),
                          .base = (uint64_t)mask->batch << 32,
                          .threshold = (uint32_t)ceil((double)mask->probability * 0x1p24),
                          .scale = 1.0f / (1.0f - mask->probability)};
}

static float draw_factor(const struct draws *draws, int64_t element)
{
    struct philox bits =
        philox_draw(draws->seed, draws->stream, draws->base + (uint64_t)element / 4);

    return bits.word[element % 4] >> 8 >= draws->threshold ? draws->scale : 0.0f;
}

enum {
    GROUPS = 16
}; /* draws that are computed side by side, so that the compiler vectorises them */

/* Computes the factors of the 4 * GROUPS elements from `element` on, a multiple of 4. This is
 * philox_draw() over arrays. */
static void draw_factors(const struct draws *draws, int64_t element, float factor[4 * GROUPS])
{
    uint32_t w0[GROUPS], w1[GROUPS], w2[GROUPS], w3[GROUPS];
    uint32_t key0 = (uint32_t)draws->seed, key1 = (uint32_t)(draws->seed >> 32);
    uint64_t index = draws->base + (uint64_t)element / 4;

    for (int g = 0; g < GROUPS; g++) {
        w0[g] = (uint32_t)(index + (uint64_t)g);
        w1[g] = (uint32_t)((index + (uint64_t)g) >> 32);
        w2[g] = (uint32_t)draws->stream;
        w3[g] = (uint32_t)(draws->stream >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int g = 0; g < GROUPS; g++) {
            uint64_t product0 = (uint64_t)0xD2511F53u * w0[g];
            uint64_t product1 = (uint64_t)0xCD9E8D57u * w2[g];

            w0[g] = (uint32_t)(product1 >> 32) ^ w1[g] ^ key0;
            w1[g] = (uint32_t)product1;
            w2[g] = (uint32_t)(product0 >> 32) ^ w3[g] ^ key1;
            w3[g] = (uint32_t)product0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int g = 0; g < GROUPS; g++) {
        factor[4 * g] = w0[g] >> 8 >= draws->threshold ? draws->scale : 0.0f;
        factor[4 * g + 1] = w1[g] >> 8 >= draws->threshold ? draws->scale : 0.0f;
        factor[4 * g + 2] = w2[g] >> 8 >= draws->threshold ? draws->scale : 0.0f;
        factor[4 * g + 3] = w3[g] >> 8 >= draws->threshold ? draws->scale : 0.0f;
    }
}

void KERNEL_NAME(dropout)(const struct dropout_mask *mask, const float *x, float *y, int64_t first,
                          int64_t count)
{
    struct draws draws = draws_begin(mask);
    int64_t i = 0;

    for (; i < count && (first + i) % 4; i++)
        y[i] = x[i] * draw_factor(&draws, first + i);
    for (; i + 4 * GROUPS <= count; i += 4 * GROUPS) {
        float factor[4 * GROUPS];

        draw_factors(&draws, first + i, factor);
#pragma GCC ivdep
        for (int k = 0; k < 4 * GROUPS; k++)
            y[i + k] = x[i + k] * factor[k];
    }
    for (; i < count; i++)
        y[i] = x[i] * draw_factor(&draws, first + i);
}

void KERNEL_NAME(dropout_blocked)(const struct dropout_mask *mask, const float *x, float *y,
                                  const struct image_layout *layout, int64_t first_sample)
{
    struct draws draws = draws_begin(mask);
    const int64_t block = layout->block, pixels = layout->pixels;

    for (int64_t row = 0; row < layout->samples * layout->channels; row++) {
        int64_t channel = row % layout->channels, sample = row / layout->channels;
        int64_t piece = sample * (layout->channels / block) + channel / block;
        int64_t place = piece * pixels * block + channel % block;
        int64_t element = ((first_sample + sample) * layout->channels + channel) * pixels;
        int64_t p = 0;

        for (; p < pixels && (element + p) % 4; p++)
            y[place + p * block] = x[place + p * block] * draw_factor(&draws, element + p);
        for (; p < pixels; p += 4 * GROUPS) {
            int64_t length = pixels - p < 4 * GROUPS ? pixels - p : 4 * GROUPS;
            float factor[4 * GROUPS];

            draw_factors(&draws, element + p, factor);
            for (int64_t k = 0; k < length; k++)
                y[place + (p + k) * block] = x[place + (p + k) * block] * factor[k];
        }
    }
}

void KERNEL_NAME(dropout_rows)(const struct dropout_mask *mask, const float *x, float *y,
                               int64_t first, int64_t rows, int64_t row_elements)
{
    struct draws draws = draws_begin(mask);

    for (int64_t r = 0; r < rows; r++) {
        float factor = draw_factor(&draws, first + r);
#pragma GCC ivdep
        for (int64_t i = r * row_elements; i < (r + 1) * row_elements; i++)
            y[i] = x[i] * factor;
    }
}

/* ---- layouts --------------------------------------------------------------------------------- */

void KERNEL_NAME(blocks_to_plain)(const float *restrict x, float *restrict y,
                                  const struct image_layout *layout)
{
    const int64_t block = layout->block, pixels = layout->pixels;

    for (int64_t piece = 0; piece < layout->samples * layout->channels / block; piece++) {
        const float *from = x + piece * block * pixels;
        float *to = y + piece * block * pixels;

        for (int64_t c = 0; c < block; c++)
            for (int64_t p = 0; p < pixels; p++)
                to[c * pixels + p] = from[p * block + c];
    }
}

void KERNEL_NAME(plain_to_blocks)(const float *restrict x, float *restrict y,
                                  const struct image_layout *layout)
{
    const int64_t block = layout->block, pixels = layout->pixels;

    for (int64_t piece = 0; piece < layout->samples * layout->channels / block; piece++) {
        const float *from = x + piece * block * pixels;
        float *to = y + piece * block * pixels;

        for (int64_t p = 0; p < pixels; p++)
            for (int64_t c = 0; c < block; c++)
                to[p * block + c] = from[c * pixels + p];
    }
}
