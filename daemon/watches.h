/* watches.h: who wants to hear when a job changes. The three calls of daemon.h (daemon_job_changed
 * and its sisters) land here. Everything runs on the loop. */
#pragma once

#include "daemon/daemon.h"

#include <stddef.h>

enum watch_event { WATCH_CHANGED, WATCH_PROGRESSED, WATCH_MEASURED };

struct watch {
    const int64_t *ids; /* ascending; lent, valid while the watch is registered */
    size_t count;
    bool every; /* hears of all jobs, whatever `ids`; the index means nothing then */
    /* May unregister its own watch, and register others. */
    void (*notify)(struct watch *watch, size_t index, enum watch_event event);
    struct watch *next, *previous;
};

/* All jobs of these ids, which may be many, have changed. */
void daemon_jobs_changed(struct daemon *daemon, int64_t first, int64_t last);

void watch_register(struct daemon *daemon, struct watch *watch);
void watch_unregister(struct daemon *daemon, struct watch *watch);
