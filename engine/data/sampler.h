/* sampler.h: the order in which an epoch visits the samples: a permutation that is a pure function
 * of (seed, epoch), so that a run is resumed in mid-epoch from its epoch and position alone. */
#pragma once

#include <stdint.h>

/* A number in [0, bound), uniform to within 2^-32, of two words of a draw: the high half of the
 * 64-bit draw times the bound (Lemire 2019). */
static inline uint32_t sampler_draw_below(const uint32_t words[2], uint32_t bound)
{
    uint64_t draw = (uint64_t)words[0] << 32 | words[1];

    return (uint32_t)((unsigned __int128)draw * bound >> 64);
}

/* Fills order[0..count) with a uniformly drawn permutation of 0..count-1: Fisher-Yates (Durstenfeld
 * 1964) with Philox draws keyed by `seed` in the stream PHILOX_SHUFFLE of `epoch`. O(count), about
 * 5 ns a sample, once an epoch. */
void sampler_permute(uint64_t seed, uint32_t epoch, uint32_t *order, uint32_t count);

/* The same with any stream (philox_stream()). */
void sampler_permute_stream(uint64_t seed, uint64_t stream, uint32_t *order, uint32_t count);

/* Puts batches of `batch` samples, order[0..batches * batch), into an order that is drawn likewise
 * (PHILOX_BATCH_ORDER); what is in a batch stays. */
void sampler_permute_batches(uint64_t seed, uint32_t epoch, int64_t batch, int64_t batches,
                             uint32_t *order);
