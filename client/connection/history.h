/* history.h: asks the daemon for the history of devices and of the queue, for the commands that
 * have the option --history. */
#pragma once

#include "client/connection/connection.h"

/* The option, for tables of options. */
#define HISTORY_OPTION(help)                            \
    {                                                   \
        "history", 0, "[=SPAN]", help, COMPLETE_NOTHING \
    }

/* Reads the value of --history: the last hour without one. `*seconds` is 0 where the option was not
 * given. */
enum exit_status history_option_read(const struct invocation *invocation, double *seconds);

/* Asks for the last `seconds` of a device; NULL: of the queue. The reply has as many points as the
 * screen has dots. The caller releases it. */
enum exit_status history_ask(struct invocation *invocation, const char *device, double seconds,
                             struct varlink_reply *reply);
