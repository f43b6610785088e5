/* feed.h: the batches of one set on their way into a session's programs: through a loader and the
 * plan's staging bytes, one by one, or out of the device's own memory, several to one launch. Both
 * ways give the same batches. */
#pragma once

#include "base/error.h"
#include "engine/data/loader.h"
#include "engine/train/session.h"

#include <stdint.h>

struct feed;

struct feed_config {
    struct session *session;     /* outlives the feed */
    struct loader_config loader; /* what comes in which order */
    void *memory;                /* for the loader: loader_create() */
    /* Which of the session's data the batches are made of, and the first of its orders that is
     * theirs: feed_orders() of them. Negative: a loader prepares them. */
    int data;
    int64_t first_order;
};

/* Orders that the device keeps for such batches: of the present epoch and of the next one. */
int64_t feed_orders(const struct loader_config *loader);
/* Memory that feed_create() takes, beside config->memory. */
size_t feed_host_bytes(const struct feed_config *config);

/* The errors of loader_create(); -ENOMEM. */
int feed_create(const struct feed_config *config, struct feed **feed, struct error *error);
void feed_free(struct feed *feed); /* NULL allowed */

/* loader_begin_epoch() */
int feed_begin_epoch(struct feed *feed, uint32_t epoch, int64_t position, struct error *error);
/* Prepares an epoch while the present one's last steps are still at work, so that its beginning
 * takes less. Optional. */
int feed_prepare_epoch(struct feed *feed, uint32_t epoch, struct error *error);

/* How many samples the next batch has, 0 at the epoch's end; waits for it. */
int feed_fetch(struct feed *feed, int64_t *count, struct error *error);
/* The most batches of one feed_run() now: of as many samples as the one that was fetched. */
int feed_steps_max(const struct feed *feed);
/* The largest power of 2 up to `count`: launches of few different lengths are few to capture. */
int feed_round(int64_t count);
/* Runs the training program, or the evaluation program, on the next `count` batches, which have as
 * many samples as the one that was fetched. The steps' `batch` is filled in. */
int feed_run(struct feed *feed, bool training, struct backend_step *steps, int count,
             struct error *error);
/* The batch of the latest feed_run(), until the next one; NULL when it lies on the device alone. */
const struct loader_batch *feed_batch(const struct feed *feed);
/* The epoch is left: nothing of it is read any longer by the session's next run. */
void feed_end_epoch(struct feed *feed);
