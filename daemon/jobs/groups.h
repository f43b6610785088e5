/* groups.h: groups of jobs with a limit of how many run at once; see graph.h. A user's groups are
 * his own: the same name of two users is two groups. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct job;
struct job_group;
struct jobs;

void groups_start(struct jobs *jobs);
void groups_free(struct jobs *jobs);

/* NULL: there is none, unless `make`. */
struct job_group *group_find(struct jobs *jobs, uid_t uid, const char *name, bool make);
/* After a restart: a job that runs already has a place whatever the limit; NULL: one waits. */
void group_restore(struct job_group *group, struct job *runs);
/* Whether the job has a place in its group; else it waits there. */
bool group_enter(struct jobs *jobs, struct job *job);
/* Its place, if it has one, is free. */
void group_leave(struct jobs *jobs, struct job *job);
/* Gives places away that have become free. */
void groups_settle(struct jobs *jobs);
/* What the job waits for in its group as of now, as a sentence; false: it does not wait there. */
bool job_group_explain(const struct job *job, char *text, size_t size);
