/* watches.c: see watches.h. */
#include "daemon/events/watches.h"

#include <stdlib.h>

void watch_register(struct watches *watches, struct watch *watch)
{
    watch->previous = NULL;
    watch->next = watches->first;
    if (watch->next)
        watch->next->previous = watch;
    watches->first = watch;
}

void watch_unregister(struct watches *watches, struct watch *watch)
{
    if (watch->previous)
        watch->previous->next = watch->next;
    else
        watches->first = watch->next;
    if (watch->next)
        watch->next->previous = watch->previous;
}

static int compare_ids(const void *first, const void *second)
{
    int64_t a = *(const int64_t *)first, b = *(const int64_t *)second;

    return (a > b) - (a < b);
}

static void tell(struct watches *watches, int64_t id, enum watch_event event)
{
    for (struct watch *watch = watches->first, *next; watch; watch = next) {
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

void watches_job_changed(struct watches *watches, int64_t id)
{
    tell(watches, id, WATCH_CHANGED);
}

void watches_job_progressed(struct watches *watches, int64_t id)
{
    tell(watches, id, WATCH_PROGRESSED);
}

void watches_devices_changed(struct watches *watches)
{
    tell(watches, 0, WATCH_CHANGED); /* no job has this number */
}

void watches_job_measured(struct watches *watches, int64_t id)
{
    tell(watches, id, WATCH_MEASURED);
}

void watches_jobs_changed(struct watches *watches, int64_t first, int64_t last)
{
    for (int64_t id = first; id <= last && watches->first; id++)
        tell(watches, id, WATCH_CHANGED);
}
