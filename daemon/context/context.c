/* context.c: see context.h. */
#include "daemon/context/context.h"

#include "base/log.h"

#include <stdlib.h>

void daemon_give_up(struct daemon *daemon, const struct error *error)
{
    if (daemon->failure.code == 0)
        daemon->failure = *error;
    uv_stop(daemon->loop);
}

void daemon_queue_work(struct daemon *daemon, uv_work_t *request, uv_work_cb work,
                       uv_after_work_cb after)
{
    int result = uv_queue_work(daemon->loop, request, work, after);

    if (result < 0) {
        log_error("work cannot be given to a thread, a mistake of traind: %s", uv_strerror(result));
        abort();
    }
}
