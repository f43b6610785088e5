/* command_history.h: what earlier runs of the same command (job_spec_command_digest()) of the same
 * user tell of its next one: how much memory it takes and how long, by type of device. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The end of one attempt. */
struct command_run {
    bool completed;     /* else it tells of memory alone */
    bool out_of_memory; /* it would have taken more */
    bool resumed;       /* not the job's first attempt */
    double seconds;     /* of all attempts of the job together, where it completed */
    double cpu_seconds; /* of processor time in this attempt, over `attempt_seconds` */
    double attempt_seconds;
    uint64_t memory, device_memory; /* bytes at most, 0: not known */
    double utilisation;             /* part of a GPU that it kept busy, 0: not measured */
    bool held_none;                 /* of the memory of a GPU, as far as the driver saw */
};

/* On one type of device. */
struct command_history {
    int64_t runs;                   /* completed */
    double seconds, squares;        /* mean, and sum of the squared differences from it */
    double cores;                   /* mean of those kept busy */
    uint64_t memory, device_memory; /* bytes at most, 0: not known */
    double utilisation;             /* part of the GPU kept busy, the last measured, 0: not known */
    bool held_none;                 /* the last run held no memory of its GPU */
};

/* Takes in one more. */
void command_history_add(struct command_history *history, const struct command_run *run);

/* What to book for a peak that was seen: a margin above it, 0 for 0. */
uint64_t command_history_booking(uint64_t peak);

/* Standard deviation of log(seconds), for lengths that are taken to be
 * log-normal; 0 for one run. */
double command_history_deviation(const struct command_history *history);

enum { COMMAND_HISTORY_TYPES_MAX = 16, COMMAND_HISTORY_TYPE_NAME_MAX = 192 };

/* On the type of device of that name. */
struct command_history_row {
    char device_type[COMMAND_HISTORY_TYPE_NAME_MAX];
    struct command_history history;
};
