/* watches.h: who wants to hear when a job or a device changes, and who is told. Everything runs on
 * the loop. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum watch_event { WATCH_CHANGED, WATCH_PROGRESSED, WATCH_MEASURED };

struct watch {
    const int64_t *ids; /* ascending; lent, valid while the watch is registered */
    size_t count;
    bool every; /* hears of all jobs, whatever `ids`; the index means nothing then */
    /* May unregister its own watch, and register others. */
    void (*notify)(struct watch *watch, size_t index, enum watch_event event);
    struct watch *next, *previous;
};

/* All zero: nobody watches. */
struct watches {
    struct watch *first;
};

void watch_register(struct watches *watches, struct watch *watch);
void watch_unregister(struct watches *watches, struct watch *watch);

/* A transition or another column of the job's row is durable, or the row itself. */
void watches_job_changed(struct watches *watches, int64_t id);
/* All jobs of these ids, which may be many, have changed. */
void watches_jobs_changed(struct watches *watches, int64_t first, int64_t last);
/* The job's progress in memory is another. */
void watches_job_progressed(struct watches *watches, int64_t id);
/* Metric rows of the job are durable. */
void watches_job_measured(struct watches *watches, int64_t id);
/* Something that the method Devices tells has changed: a booking, a device's health. */
void watches_devices_changed(struct watches *watches);
