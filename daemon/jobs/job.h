/* job.h: the life of one job in memory: it is made, queued, made to wait, cancelled, forgotten. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/job_table.h"

/* Makes a job and adds it to the table of jobs; it is in no queue yet. NULL: no memory, or its
 * needs are no JSON. */
struct job *job_new(struct jobs *jobs, const struct job_submission *submission);
void job_free(struct jobs *jobs, struct job *job);
/* Ends the job's pause between two tries, if it is in one. */
void job_stop_backoff(struct job *job);
/* Removes an ended job from all queues and tables, and frees it. */
void job_forget(struct jobs *jobs, struct job *job);
/* Marks a job whose end is decided although its processes are still there. */
void job_mark_ended(struct jobs *jobs, struct job *job);
/* Records in memory and in the store why a queued job waits now. */
void job_set_waiting(struct jobs *jobs, struct job *job, enum wait_reason wait_reason,
                     const char *reason, const char *decision);
/* Takes the job out of the queue or the class that it waits in. */
void job_dequeue(struct jobs *jobs, struct job *job);
/* Queues the job after `delay` seconds, at once for 0. */
void job_queue_after(struct jobs *jobs, struct job *job, double delay);
/* Puts a job that may be placed into a class anew, because more is known about its command now.
 * Until then all commands without known runs shared classes. */
void job_queue_anew(struct jobs *jobs, int64_t id);
/* When the job's pause between two tries ends, in seconds since the epoch; 0: it is in none. */
double job_backoff_end(const struct job *job);
/* Takes the job out of every queue, its group and its pause; job_queue_after() queues it again. */
void job_take_from_queues(struct jobs *jobs, struct job *job);
/* Cancels a job that has not ended. A caller that knows only the id uses jobs_cancel(). */
void job_cancel(struct jobs *jobs, struct job *job, const char *reason, jobs_done done, void *data);
/* Fails a queued job that can never run. `decision` is the decision that found no device, as JSON
 * text; NULL: none was made. */
void job_fail(struct jobs *jobs, struct job *job, const char *reason, const char *decision);
