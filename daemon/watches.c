/* watches.c: tells those who follow a job that it changed. */
#include "daemon/watches.h"

#include <stdlib.h>

void watch_register(struct daemon *daemon, struct watch *watch)
{
    watch->previous = NULL;
    watch->next = daemon->watches;
    if (watch->next)
        watch->next->previous = watch;
    daemon->watches = watch;
}

void watch_unregister(struct daemon *daemon, struct watch *watch)
{
    if (watch->previous)
        watch->previous->next = watch->next;
    else
        daemon->watches = watch->next;
    if (watch->next)
        watch->next->previous = watch->previous;
}

static int compare_ids(const void *first, const void *second)
{
    int64_t a = *(const int64_t *)first, b = *(const int64_t *)second;

    return (a > b) - (a < b);
}

static void tell(struct daemon *daemon, int64_t id, enum watch_event event)
{
    for (struct watch *watch = daemon->watches, *next; watch; watch = next) {
        const int64_t *found =
            watch->every ? NULL
                         : bsearch(&id, watch->ids, watch->count, sizeof *watch->ids, compare_ids);

        next = watch->next;
        if (watch->every)
            watch->notify(watch, 0, event);
        else if (found)
            watch->notify(watch, (size_t)(found - watch->ids), event);
    }
}

void daemon_job_changed(struct daemon *daemon, int64_t id)
{
    tell(daemon, id, WATCH_CHANGED);
}

void daemon_job_progressed(struct daemon *daemon, int64_t id)
{
    tell(daemon, id, WATCH_PROGRESSED);
}

void daemon_devices_changed(struct daemon *daemon)
{
    tell(daemon, 0, WATCH_CHANGED); /* no job has this number */
}

void daemon_job_measured(struct daemon *daemon, int64_t id)
{
    tell(daemon, id, WATCH_MEASURED);
}

void daemon_jobs_changed(struct daemon *daemon, int64_t first, int64_t last)
{
    for (int64_t id = first; id <= last && daemon->watches; id++)
        tell(daemon, id, WATCH_CHANGED);
}
