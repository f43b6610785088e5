/* planning_turns.h: which jobs are being planned, and which one is next. */
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
    bool running; /* the plan was looked up and not found, so the run is needed */
    int64_t *waiting;
    size_t waiting_count;
};

void planning_turns_start(struct jobs *jobs);
void planning_turns_free(struct jobs *jobs);
/* Queues the job to be planned. 0 or -ENOMEM. */
int planning_turns_queue(struct jobs *jobs, struct job *job);
/* The job that is to be planned next; it stays in its queue. NULL: no job may be planned now. */
struct job *planning_turns_next(struct jobs *jobs);

/* The job of the user that is next among theirs, even if it may not be planned now. NULL: none. */
struct job *planning_turns_first(const struct jobs *jobs, uid_t uid);

/* All places for runs, including free ones. */
struct planning *planning_turns_runs(const struct jobs *jobs, size_t *count);
/* Whether a run is under way. */
bool planning_turns_are_under_way(const struct jobs *jobs);
/* The run of that job, or with job 0 a free place. NULL: there is none. */
struct planning *planning_turns_find(struct jobs *jobs, int64_t job);
/* Frees the place of a run for whose result no job waits. */
void planning_turns_release(struct planning *planning);
/* Frees the place of a run and queues the jobs that waited for its plan. */
void planning_turns_wake(struct jobs *jobs, struct planning *planning);
/* The job was cancelled: a run that has not begun frees its place. */
void planning_turns_forget(struct jobs *jobs, int64_t job);
