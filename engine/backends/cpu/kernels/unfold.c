/* unfold.c: copies pixels into the operands of unfold.h, and results back into images. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector_lanes.h"

/* Whether `count` channels from `channel` on lie side by side. */
static ALWAYS_INLINE bool lie_together(const int64_t *channel, int64_t count)
{
    return channel[count - 1] - channel[0] == count - 1;
}

void KERNEL_NAME(unfold_pixels)(int64_t rows, const float *const *pixel, int64_t channels,
                                const int64_t *channel, float *packed)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *from = pixel[r];
        float *to = packed + r;

        if (!from)
            for (int64_t c = 0; c < channels; c++)
                to[c * rows] = 0;
        else
            for (int64_t c = 0; c < channels; c++)
                to[c * rows] = from[channel[c]];
    }
}

void KERNEL_NAME(unfold_channels)(int64_t pixels, const float *const *pixel, int64_t rows,
                                  const int64_t *channel, float *packed)
{
    bool together = lie_together(channel, rows);

    for (int64_t p = 0; p < pixels; p++, packed += rows) {
        const float *from = pixel[p] + (together ? channel[0] : 0);

        if (together)
            for (int64_t r = 0; r < rows; r++)
                packed[r] = from[r];
        else
            for (int64_t r = 0; r < rows; r++)
                packed[r] = from[channel[r]];
    }
}

void KERNEL_NAME(unfold_vectors)(int64_t pixels, const float *const *pixel, int64_t channels,
                                 const int64_t *channel, float *packed, int64_t stride)
{
    for (int64_t c = 0; c < channels; c += VECTOR, packed += stride) {
        int64_t lanes = channels - c < VECTOR ? channels - c : VECTOR;
        bool together = lie_together(channel + c, lanes);

        for (int64_t p = 0; p < pixels; p++) {
            vector value = {0};

            if (together)
                value = lanes_load(pixel[p] + channel[c], (int)lanes);
            else
                for (int64_t i = 0; i < lanes; i++)
                    value[i] = pixel[p][channel[c + i]];
            lanes_store(packed + p * VECTOR, value, VECTOR);
        }
    }
}

void KERNEL_NAME(unfold_store)(int64_t pixels, float *const *pixel, int64_t channels,
                               const int64_t *channel, const float *result, int64_t stride,
                               const float *bias, bool relu)
{
    for (int64_t c = 0; c < channels; c += VECTOR, result += VECTOR) {
        int lanes = channels - c < VECTOR ? (int)(channels - c) : VECTOR;
        bool together = lie_together(channel + c, lanes);
        vector addend = {0};

        if (bias)
            addend = lanes_load(bias + c, lanes);
        for (int64_t p = 0; p < pixels; p++) {
            vector value = lanes_load(result + p * stride, VECTOR) + addend;

            if (relu)
                value = lanes_select(value < 0, (vector){0}, value); /* NaN stays */
            if (together)
                lanes_store(pixel[p] + channel[c], value, lanes);
            else
                for (int i = 0; i < lanes; i++)
                    pixel[p][channel[c + i]] = value[i];
        }
    }
}
