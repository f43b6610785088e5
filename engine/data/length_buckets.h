/* length_buckets.h: a few lengths that batches of sequences are padded to, instead of one. A batch
 * whose sequences are all short is padded to a short length and takes less time.
 *
 * As in the samplers of torchtext (BucketIterator) and Hugging Face (LengthGroupedSampler), an
 * epoch has batches of sequences of similar lengths, in random order. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"

#include <stdint.h>

enum { LENGTH_BUCKETS_MAX = 8 };

struct length_buckets {
    int count; /* 0: all batches are as long as the set's samples */
    /* steps of a batch, ascending; the last is the length of the set's samples */
    int64_t steps[LENGTH_BUCKETS_MAX];
};

/* Chooses at most `wanted` lengths (1 to LENGTH_BUCKETS_MAX) with which the samples of `view` have
 * the fewest steps in all, padding included. Each but the last is that of at least `least` samples.
 * With fewer than two lengths the count is 0. -ENOMEM. */
int length_buckets_choose(const struct dataset_view *view, int wanted, int64_t least,
                          struct length_buckets *buckets, struct error *error);

/* The number of the bucket for a sample of `length` steps. */
int length_buckets_find(const struct length_buckets *buckets, int64_t length);

/* The share of the view's samples that belongs to each bucket. */
void length_buckets_shares(const struct length_buckets *buckets, const struct dataset_view *view,
                           double shares[LENGTH_BUCKETS_MAX]);

/* Sorts order[0..count), places in the view, by bucket, the shortest first; O(count), in place. */
void length_buckets_sort(const struct length_buckets *buckets, const struct dataset_view *view,
                         uint32_t *order, int64_t count);
