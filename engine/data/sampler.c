/* sampler.c: draws the order of an epoch. */
#include "engine/data/sampler.h"

#include "base/philox.h"

void sampler_permute_stream(uint64_t seed, uint64_t stream, uint32_t *order, uint32_t count)
{
    struct philox words = {{0}};

    for (uint32_t i = 0; i < count; i++) {
        /* the "inside-out" shuffle; each draw of 128 bits serves two positions */
        if (i % 2 == 0)
            words = philox_draw(seed, stream, i / 2);
        uint32_t other = sampler_draw_below(&words.word[i % 2 * 2], i + 1);
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
        int64_t other = sampler_draw_below(words.word, (uint32_t)i + 1);

        if (other != i)
            swap_batches(order + i * batch, order + other * batch, batch);
    }
}
