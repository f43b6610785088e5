/* sharing_leftovers.h: the folders of sharing services (sharing_services.h) that an earlier daemon
 * left, and whose services have ended. A start finds and removes them. */
#pragma once

#include "daemon/context/context.h"

struct sharing_leftovers;

/* Finds them when the daemon starts, on a storage thread. The caller owns `*found`; NULL: there are
 * none. */
void sharing_leftovers_find(const char *state_directory, struct sharing_leftovers **found);
void sharing_leftovers_free(struct sharing_leftovers *leftovers);
/* Takes the folders over and removes one after the other on the thread pool. Call it once the jobs
 * are in memory: users own the folders' contents and may make this take long. */
void sharing_leftovers_remove(struct daemon *daemon, struct sharing_leftovers *leftovers);
