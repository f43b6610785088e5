/* loader.h: the batches of one view of a data set, epoch after epoch, prepared ahead by threads.
 *
 * Batch k of an epoch is a pure function of (view, augmentation, seed, epoch, k), so the number of
 * threads changes nothing but the time. With 0 threads loader_next() gathers in the caller: no
 * thread, no lock, best for small batches. Slots lie in memory that the caller hands in (part of
 * the plan's staging bytes); after loader_create() nothing allocates. All calls come from one
 * thread. */
#pragma once

#include "base/error.h"
#include "engine/data/augmentation.h"
#include "engine/data/class_balance.h"
#include "engine/data/dataset.h"
#include "engine/data/length_buckets.h"
#include "engine/data/sampler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOADER_ALIGNMENT = 64, /* of the memory handed in, and of every batch in it */
    LOADER_HELD_MAX = 2,   /* batches that the caller may hold at once */
    LOADER_THREADS_MAX = 64
};

struct loader;

struct loader_config {
    struct dataset_view view;                          /* the set outlives the loader */
    const struct dataset_normalisation *normalisation; /* likewise; NULL for text */
    int64_t batch;                                     /* samples; the last one may be shorter */
    /* batches of an update, over whose samples the weights of the loss are divided; 0: 1 */
    int64_t accumulate;
    bool drop_last; /* leave the shorter last batch out of each epoch */
    /* false: the view's order (validation, test). A text that is read in streams is not shuffled,
     * but begins at a place that is drawn for the epoch */
    bool shuffle;
    /* With shuffle: epochs draw equal shares of the classes. Not with buckets. Outlives the loader;
     * NULL: each sample occurs once */
    const struct class_balance *balance;
    /* Lengths of whole batches of sequences; count 0: one. Without shuffling the samples are then
     * in the order of their buckets. The shorter last batch of a shuffled epoch is not sorted, so
     * that any sample may be in it */
    struct length_buckets buckets;
    uint64_t seed; /* of the shuffle */
    int threads;   /* 0: the caller gathers */
    /* NULL: samples stay as they are; outlives the loader */
    const struct augmentation *augmentation;
};

/* The samples of an epoch. */
static inline int64_t loader_epoch_samples(const struct loader_config *config)
{
    return config->view.count - (config->drop_last ? config->view.count % config->batch : 0);
}

/* Fills order[0..view.count) with the places in the view of a shuffled epoch. */
static inline void loader_draw_order(const struct loader_config *config, uint32_t epoch,
                                     uint32_t *order)
{
    if (config->balance)
        class_balance_draw(config->balance, config->seed, epoch, order, config->view.count);
    else
        sampler_permute(config->seed, epoch, order, (uint32_t)config->view.count);
}

/* Where in the view the sample at `position` of an epoch is. `order`: of loader_draw_order(), if
 * shuffling */
static inline int64_t loader_place(const struct loader_config *config, const uint32_t *order,
                                   int64_t position)
{
    if (config->view.dataset->streams)
        return dataset_stream_place(config->view.count, config->batch, position);
    return order ? (int64_t)order[position] : position;
}

struct loader_batch {
    const void *samples;     /* float32 [count][shape…] or int32 [count][context] */
    const void *targets;     /* int32 [count], float32 [count][target_width], or float32
                            [count][classes] when the augmentation is soft */
    const int32_t *lengths;  /* of the samples; NULL: the set has none */
    const uint32_t *indices; /* of the samples in the set */
    int64_t steps;           /* of each row; 0: all, as in the set */
    int64_t count;           /* 0: the epoch is over */
    int64_t position;        /* of the first sample within the epoch */
};

/* The number of threads that pays off for batches of `batch_bytes` bytes of samples, if
 * `idle_cores` cores have no other work. */
int loader_threads_default(size_t batch_bytes, int idle_cores);

/* Bytes of memory that loader_create() wants: LOADER_HELD_MAX + 2 * threads slots (samples,
 * targets, indices, the augmentation's scratch), and the epoch's order (4 bytes a sample) when
 * shuffling or sorting by length. */
size_t loader_memory_bytes(const struct loader_config *config);
/* Bytes of a sample's labels or values in a batch: as augmented, not as in the set. */
size_t loader_target_bytes(const struct loader_config *config);

/* `memory` is aligned to LOADER_ALIGNMENT, has loader_memory_bytes() and outlives the loader.
 * -EINVAL for a bad configuration, -EAGAIN when a thread cannot be started. */
int loader_create(const struct loader_config *config, void *memory, struct loader **loader,
                  struct error *error);
/* Ends the threads and waits for them; held batches become invalid. NULL is allowed. */
void loader_free(struct loader *loader);

/* The next loader_next() gives the batch that begins at sample `position` of `epoch` (a multiple of
 * the batch, or the end). Batches held become invalid. May be called at any time; what was prepared
 * ahead is dropped. -ERROR_STALE_FILE when a mapped file has changed. */
int loader_begin_epoch(struct loader *loader, uint32_t epoch, int64_t position,
                       struct error *error);

/* The next batch, valid until it is released; `count` is 0 at the end of the epoch. -EBUSY when
 * LOADER_HELD_MAX batches are held; else the failure of the thread that prepared it, once the
 * batches before it have been given. */
int loader_next(struct loader *loader, struct loader_batch *batch, struct error *error);

/* Gives the oldest batch held back. */
void loader_release(struct loader *loader);

int64_t loader_batches_per_epoch(const struct loader *loader);
