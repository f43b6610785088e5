/* placement.h: where the job at the head of the queue starts, or why it waits: a pure function of a
 * snapshot of the devices, without clock, input/output or allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLACEMENT_REASON_MAX = 256 };

struct placement_device {
    const char *name;            /* "cpu", "cuda:0" */
    const char *kind;            /* "cpu", "cuda" */
    uint64_t memory_capacity;    /* bytes that jobs may use in all */
    uint64_t memory_booked;      /* bytes promised to the jobs that are on it */
    uint64_t memory_outside;     /* bytes that others hold, as measured */
    double high_watermark_ratio; /* part of the capacity that may be filled; 0: no limit */
    int slots, slots_used;
    bool draining, lost;
};

struct placement_need {
    uint64_t memory; /* bytes, 0: not known */
    /* Kinds or names of devices that the job accepts; a count of 0 accepts every one. */
    const char *const *allowed;
    size_t allowed_count;
    const char *preferred; /* kind or name, NULL: none */
};

enum placement_verdict {
    PLACEMENT_START,
    PLACEMENT_WAIT_SLOT,
    PLACEMENT_WAIT_MEMORY,
    PLACEMENT_WAIT_DRAINING,
    PLACEMENT_IMPOSSIBLE /* not on this machine, whatever ends */
};

struct placement {
    enum placement_verdict verdict;
    size_t device;                     /* index, for PLACEMENT_START */
    char reason[PLACEMENT_REASON_MAX]; /* one sentence for a person, in every case */
};

/* Whether the job accepts the device. */
bool placement_allows(const struct placement_need *need, const struct placement_device *device);

/* Picks among the devices that the job accepts the preferred one, else the one with the most free
 * memory, where booked + outside + need <= high_watermark_ratio * capacity and a slot is free. When
 * there is none, says what the job waits for: the obstacle nearest to going away. */
struct placement placement_decide(const struct placement_need *need,
                                  const struct placement_device *devices, size_t count);
