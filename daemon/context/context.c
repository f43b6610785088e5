/* context.c: see context.h. */
#include "daemon/context/context.h"

void daemon_give_up(struct daemon *daemon, const struct error *error)
{
    if (daemon->failure.code == 0)
        daemon->failure = *error;
    uv_stop(daemon->loop);
}
