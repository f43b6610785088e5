/* evaluation.c: see evaluation.h. */
#include "engine/train/evaluation.h"

#include <errno.h>

/* Runs the next batches; the first one has `*samples` samples. Returns 1 if there were none. */
static int run_batches(struct feed *feed, int most, int64_t *samples, struct error *error)
{
    struct backend_step steps[BACKEND_STEPS_MAX];
    int count, r = feed_fetch(feed, samples, error);

    if (r < 0 || *samples == 0)
        return r < 0 ? r : 1;
    count = feed_round(most < feed_steps_max(feed) ? most : feed_steps_max(feed));
    for (int k = 0; k < count; k++)
        steps[k] = (struct backend_step){.scalars = {.step = 1, .gradient_scale = 1},
                                         .phases = PROGRAM_FORWARD};
    return feed_run(feed, false, steps, count, error);
}

int evaluation_run(struct session *session, struct feed *feed, int most, evaluation_sink sink,
                   void *context, const atomic_int *stop, struct step_metrics *metrics,
                   struct error *error)
{
    struct loader_batch batch = {.count = 0};
    int r = feed_begin_epoch(feed, 0, 0, error);

    if (r == 0)
        r = session_clear_states(session, false, error);
    session_reset_metrics(session, false);
    while (r == 0) {
        if (stop && atomic_load_explicit(stop, memory_order_relaxed)) {
            r = error_set(error, -EINTR, "the evaluation was interrupted");
            break;
        }
        r = run_batches(feed, sink ? 1 : most, &batch.count, error);
        if (r == 0 && sink)
            r = sink(context, session, feed_batch(feed) ? feed_batch(feed) : &batch, error);
        batch.position += batch.count;
    }
    feed_end_epoch(feed);
    session_read_metrics(session, false, metrics);
    return r < 0 ? r : 0;
}
