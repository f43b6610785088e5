/* sampler.c: draws the order of an epoch. */
#include "engine/data/sampler.h"

#include "base/philox.h"

/* Uniform in [0, bound): the high half of a 64-bit draw times the bound (Lemire 2019). Its bias,
 * below 2^-32 for any 32-bit bound, is not corrected. */
static uint32_t draw_below(uint32_t high, uint32_t low, uint32_t bound)
{
    uint64_t draw = (uint64_t)high << 32 | low;

    return (uint32_t)((unsigned __int128)draw * bound >> 64);
}

void sampler_permute_stream(uint64_t seed, uint64_t stream, uint32_t *order, uint32_t count)
{
    struct philox words = {{0}};

    for (uint32_t i = 0; i < count; i++) {
        /* the "inside-out" shuffle; each draw of 128 bits serves two positions */
        if (i % 2 == 0)
            words = philox_draw(seed, stream, i / 2);
        const uint32_t *pair = &words.word[i % 2 * 2];
        uint32_t other = draw_below(pair[0], pair[1], i + 1);
        if (other != i)
            order[i] = order[other];
        order[other] = i;
    }
}

void sampler_permute(uint64_t seed, uint32_t epoch, uint32_t *order, uint32_t count)
{
    sampler_permute_stream(seed, philox_stream(PHILOX_SHUFFLE, epoch), order, count);
}

static void swap_batches(uint32_t *a, uint32_t *b, int64_t batch)
{
    for (int64_t i = 0; i < batch; i++) {
        uint32_t kept = a[i];

        a[i] = b[i];
        b[i] = kept;
    }
}

void sampler_permute_batches(uint64_t seed, uint32_t epoch, int64_t batch, int64_t batches,
                             uint32_t *order)
{
    for (int64_t i = batches - 1; i > 0; i--) {
        struct philox words =
            philox_draw(seed, philox_stream(PHILOX_BATCH_ORDER, epoch), (uint64_t)i);
        int64_t other = draw_below(words.word[0], words.word[1], (uint32_t)i + 1);

        if (other != i)
            swap_batches(order + i * batch, order + other * batch, batch);
    }
}
