/* evaluation.h: runs a session's present weights over one set. */
#pragma once

#include "base/error.h"
#include "engine/train/feed.h"
#include "engine/train/session.h"

#include <stdatomic.h>

/* Called after each batch, whose output session_read_output() gives. 0 or a negative errno. Samples
 * and targets are NULL where only the device has the batch. */
typedef int (*evaluation_sink)(void *context, struct session *session,
                               const struct loader_batch *batch, struct error *error);

/* Runs one pass over the feed's set, at most `most` batches per launch, and sums up in `metrics`.
 * `sink` and `stop` may be NULL. With a sink each launch has one batch. If `*stop` is not 0, the
 * pass ends between two launches with -EINTR. */
int evaluation_run(struct session *session, struct feed *feed, int most, evaluation_sink sink,
                   void *context, const atomic_int *stop, struct step_metrics *metrics,
                   struct error *error);
