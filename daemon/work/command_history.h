/* command_history.h: predicts how much memory a command takes and how long it runs, by type of
 * device. The predictions come from the same user's earlier runs of the same command
 * (job_spec_command_digest()). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The end of one attempt. */
struct command_run {
    bool completed;     /* false: only its memory is used */
    bool out_of_memory; /* it was killed for memory, so it would have taken more */
    bool resumed;       /* not the job's first attempt */
    double seconds;     /* if it completed: the sum over all attempts of the job */
    double cpu_seconds; /* of processor time in this attempt, over `attempt_seconds` */
    double attempt_seconds;
    uint64_t memory, device_memory; /* bytes at most, 0: not known */
    double utilisation;             /* part of a GPU that it kept busy, 0: not measured */
    bool held_none;                 /* it held no memory of a GPU, as far as the driver reported */
    bool failed_on_host;            /* it failed by itself, on the CPU */
};

/* What is known of a command on one type of device. */
struct command_history {
    int64_t runs;                   /* number of completed runs */
    double seconds, squares;        /* mean, and sum of the squared differences from it */
    double cores;                   /* mean number of cores kept busy */
    uint64_t memory, device_memory; /* bytes at most, 0: not known */
    double utilisation;             /* part of the GPU that the last run kept busy; 0: not known */
    bool held_none;                 /* the last run held no memory of its GPU */
};

/* Whether the run shows that earlier runs that held no memory of a GPU say nothing about the next
 * one: it held some, or it failed on the CPU, perhaps for want of a GPU. */
bool command_run_refutes_held_none(const struct command_run *run);

/* Adds a run to the history. */
void command_history_add(struct command_history *history, const struct command_run *run);

/* The bytes to book for a measured peak: a margin above it; 0 for 0. */
uint64_t command_history_booking(uint64_t peak);

/* Standard deviation of log(seconds), assuming log-normal run times; 0 after a single run. */
double command_history_deviation(const struct command_history *history);

enum { COMMAND_HISTORY_TYPES_MAX = 16, COMMAND_HISTORY_TYPE_NAME_MAX = 192 };

/* The history on the named type of device. */
struct command_history_row {
    char device_type[COMMAND_HISTORY_TYPE_NAME_MAX];
    struct command_history history;
};
