/* job.h: one live job: made, queued, kept waiting, cancelled, forgotten. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/job_table.h"

struct job *job_new(struct jobs *jobs, const struct job_submission *submission);
void job_free(struct jobs *jobs, struct job *job);
/* It makes no pause between two tries any more. */
void job_stop_backoff(struct job *job);
/* Takes an ended job out of everything and frees it. */
void job_forget(struct jobs *jobs, struct job *job);
/* Its end is stored; only its processes are still to go. */
void job_mark_ended(struct jobs *jobs, struct job *job);
/* Sees to it that the entry and the store learn of a queued job's present reason to wait. */
void job_set_waiting(struct jobs *jobs, struct job *job, enum wait_reason wait_reason,
                     const char *reason, const char *decision);
/* Takes it out of whatever it waits in. */
void job_dequeue(struct jobs *jobs, struct job *job);
/* Queued again after `delay` seconds; at once for 0. */
void job_queue_after(struct jobs *jobs, struct job *job, double delay);
/* If it may be placed, it is placed as one of whose kind more is known now: commands of which
 * nothing is known are of one kind for the decision. */
void job_queue_anew(struct jobs *jobs, int64_t id);
/* When its pause between two tries is over, seconds since the epoch; 0: it makes none. */
double job_backoff_end(const struct job *job);
/* Out of whatever it waits in; queued again by job_queue_after(). */
void job_take_from_queues(struct jobs *jobs, struct job *job);
/* Ends a job that has not ended; jobs_cancel() is for who knows its id only. */
void job_cancel(struct jobs *jobs, struct job *job, const char *reason, jobs_done done, void *data);
/* A queued job that never can run; `decision`: the JSON text of the one that found no device, NULL
 * where none was made. */
void job_fail(struct jobs *jobs, struct job *job, const char *reason, const char *decision);
