/* watches.h: notifies those who follow jobs or devices of changes. Everything runs on the loop. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum watch_event { WATCH_CHANGED, WATCH_PROGRESSED, WATCH_MEASURED };

struct watch {
    const int64_t *ids; /* ascending; borrowed while the watch is registered */
    size_t count;
    bool every; /* gets the events of all jobs; `ids` and the index are unused */
    /* May unregister its own watch and register others. */
    void (*notify)(struct watch *watch, size_t index, enum watch_event event);
    struct watch *next, *previous;
};

/* All zero: there is no watch. */
struct watches {
    struct watch *first;
};

void watch_register(struct watches *watches, struct watch *watch);
void watch_unregister(struct watches *watches, struct watch *watch);

/* A change of the job's row, or the new row itself, is durable. */
void watches_job_changed(struct watches *watches, int64_t id);
/* All jobs from `first` to `last`, which may be many, have changed. */
void watches_jobs_changed(struct watches *watches, int64_t first, int64_t last);
/* The job's progress, which is kept in memory, has changed. */
void watches_job_progressed(struct watches *watches, int64_t id);
/* Metric rows of the job are durable. */
void watches_job_measured(struct watches *watches, int64_t id);
/* Something that the method Devices reports has changed, for example a booking or a device's
 * health. */
void watches_devices_changed(struct watches *watches);
