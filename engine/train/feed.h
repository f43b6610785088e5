/* feed.h: hands the batches of one set to a session's programs. They come from a loader through the
 * plan's staging bytes, one at a time, or from the device's own memory, several per launch. Both
 * ways give the same batches. */
#pragma once

#include "base/error.h"
#include "engine/data/loader.h"
#include "engine/train/session.h"

#include <stdint.h>

struct feed;

struct feed_config {
    struct session *session;     /* outlives the feed */
    struct loader_config loader; /* the samples and their order */
    void *memory;                /* for the loader: loader_create() */
    /* The number of the session's data from which batches are made, and the place of the first of
     * this feed's feed_orders() indices. `data` negative: a loader prepares the batches. */
    int data;
    int64_t first_order;
};

/* The number of sample indices that the device keeps for a feed: those of the present epoch and of
 * the next one. */
int64_t feed_orders(const struct loader_config *loader);
/* Memory that feed_create() takes, beside config->memory. */
size_t feed_host_bytes(const struct feed_config *config);

/* The errors of loader_create(); -ENOMEM. */
int feed_create(const struct feed_config *config, struct feed **feed, struct error *error);
void feed_free(struct feed *feed); /* NULL allowed */

/* loader_begin_epoch() */
int feed_begin_epoch(struct feed *feed, uint32_t epoch, int64_t position, struct error *error);
/* Prepares an epoch while the last steps of the present one still run, so that it begins sooner.
 * Optional. */
int feed_prepare_epoch(struct feed *feed, uint32_t epoch, struct error *error);

/* Waits for the next batch and tells its number of samples, 0 at the epoch's end. */
int feed_fetch(struct feed *feed, int64_t *count, struct error *error);
/* The largest number of batches that feed_run() can take now: those that have as many samples as
 * the fetched one. */
int feed_steps_max(const struct feed *feed);
/* The largest power of 2 up to `count`. The device captures one graph for each length of a launch,
 * so there should be few lengths. */
int feed_round(int64_t count);
/* Runs the training or evaluation program on the next `count` batches, at most feed_steps_max().
 * Fills in the steps' `batch`. */
int feed_run(struct feed *feed, bool training, struct backend_step *steps, int count,
             struct error *error);
/* The batch of the latest feed_run(), valid until the next one; NULL if only the device has it. */
const struct loader_batch *feed_batch(const struct feed *feed);
/* Ends the epoch and releases the batches that the feed holds: no run reads them any more. */
void feed_end_epoch(struct feed *feed);
