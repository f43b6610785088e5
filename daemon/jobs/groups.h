/* groups.h: groups of jobs; each may limit how many of its jobs run at once (graph.h). Every user
 * has groups of their own: two users' groups with the same name are two groups. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct job;
struct job_group;
struct jobs;

void groups_start(struct jobs *jobs);
void groups_free(struct jobs *jobs);

/* The user's group of that name. If there is none, it is made if `make` is set; else the result is
 * NULL. */
struct job_group *group_find(struct jobs *jobs, uid_t uid, const char *name, bool make);
/* After a restart: gives the job `runs` a place, because it runs already, whatever the limit is.
 * NULL: a job of the group waits. */
void group_restore(struct job_group *group, struct job *runs);
/* Asks for a place in the job's group. False: there is none, and the job waits in the group. */
bool group_enter(struct jobs *jobs, struct job *job);
/* Frees the job's place in its group, if it has one. */
void group_leave(struct jobs *jobs, struct job *job);
/* Gives free places to the jobs that wait for them. */
void groups_settle(struct jobs *jobs);
/* Says in a sentence what the job waits for in its group now. False: it does not wait there. */
bool job_group_explain(const struct job *job, char *text, size_t size);
