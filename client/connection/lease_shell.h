/* lease_shell.h: the job's end of a lease: a shell on a terminal of its own, which ends on time,
 * when nothing happens for long, and when the person's end hangs up. */
#pragma once

#include "client/command_line/invocation.h"

struct lease_terms {
    const char *name;     /* the address of the person's end: lease_listen() */
    double seconds;       /* how long it lasts */
    double idle_seconds;  /* how long it may lie idle; 0: as long as it lasts */
    char *const *command; /* ends with NULL */
};

/* Returns when the shell has ended. -1 with a sentence if it could not begin. */
int lease_shell_run(struct invocation *invocation, const struct lease_terms *terms,
                    struct error *error);
