/* planning_turns.h: which jobs are being planned, and whose is next. */
#pragma once

#include "daemon/types/job_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct job;
struct jobs;

/* A planning run and the jobs with the same plan that wait for its result. */
struct planning {
    int64_t job; /* 0: free */
    uid_t uid;
    char digest[JOB_DIGEST_SIZE];
    bool running; /* it has been decided that it must run */
    int64_t *waiting;
    size_t waiting_count;
};

void planning_turns_start(struct jobs *jobs);
void planning_turns_free(struct jobs *jobs);
/* The job waits for its turn to be planned. 0 or -ENOMEM. */
int planning_turns_queue(struct jobs *jobs, struct job *job);
/* The job whose turn it is, still in its queue; NULL: nobody's. */
struct job *planning_turns_next(struct jobs *jobs);

/* All runs, free ones among them. */
struct planning *planning_turns_runs(const struct jobs *jobs, size_t *count);
/* Whether one of them is not free. */
bool planning_turns_are_under_way(const struct jobs *jobs);
/* The run of that job; of 0: a free one. NULL: there is none. */
struct planning *planning_turns_find(struct jobs *jobs, int64_t job);
/* It is free; nobody waits for its result. */
void planning_turns_release(struct planning *planning);
/* It is free, and those who waited for its plan look again. */
void planning_turns_wake(struct jobs *jobs, struct planning *planning);
/* The job was cancelled: nothing waits for its plan any more. */
void planning_turns_forget(struct jobs *jobs, int64_t job);
