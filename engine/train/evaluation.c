/* evaluation.c: see evaluation.h. */
#include "engine/train/evaluation.h"

#include <errno.h>

int evaluation_run(struct session *session, struct loader *loader, evaluation_sink sink,
                   void *context, const atomic_int *stop, struct step_metrics *metrics,
                   struct error *error)
{
    int held = 0;
    int r = loader_begin_epoch(loader, 0, 0, error);

    session_reset_metrics(session, false);
    while (r == 0) {
        struct loader_batch batch;

        if (stop && atomic_load_explicit(stop, memory_order_relaxed)) {
            r = error_set(error, -EINTR, "the evaluation was interrupted");
            break;
        }
        r = loader_next(loader, &batch, error);
        if (r < 0 || batch.count == 0)
            break;
        r = session_evaluate(
            session, &(struct session_batch){batch.count, batch.samples, batch.targets}, error);
        if (r == 0 && sink)
            r = sink(context, session, &batch, error);
        if (++held == LOADER_HELD_MAX) {
            loader_release(loader);
            held--;
        }
    }
    while (held-- > 0)
        loader_release(loader);
    session_read_metrics(session, false, metrics);
    return r;
}
