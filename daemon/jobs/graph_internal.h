/* graph_internal.h: what graph.c (holds, dependencies), groups.c (limits) and
 * graph_load.c (after a restart) share. */
#pragma once

#include "daemon/jobs/graph.h"

struct job_group {
    uid_t uid;
    int64_t limit; /* of jobs at once; GROUP_UNLIMITED */
    struct job **admitted;
    size_t admitted_count, admitted_capacity;
    struct job_queue waiting;
    struct job_group *next; /* all groups, in the order of their first use */
    bool pending;           /* a place may have become free */
    char name[];
};
enum { GROUP_UNLIMITED = -1 };

struct job_links {
    struct dependency *unmet; /* owned */
    size_t unmet_count;
    int64_t *dependents; /* owned: ids of jobs that wait for this one */
    size_t dependent_count;
    struct job_group *group; /* or NULL */
    struct sweep_run *sweep; /* or NULL */
    size_t admitted_index;
    bool held, admitted;
    bool blocked; /* in no queue because of a hold or a dependency */
};

/* The end of a job that others wait for. */
struct graph_end {
    struct graph_end *next;
    int64_t job;
    enum job_state state;
    size_t count;
    int64_t dependents[];
};

/* A job that waits for one that is not in memory (yet, or not any more), or for a sweep. */
struct graph_orphan {
    int64_t dependent, on_job;
    enum dependency_condition condition;
    bool asked; /* the store said that it has not ended */
    bool again; /* while it is asked: what it says may be out of date by then */
};

struct job_graph {
    struct jobs *jobs;
    uv_timer_t timer; /* runs graph_settle() in the loop's next turn */
    struct graph_end *first_end, **last_end;
    struct graph_orphan *orphans;
    size_t orphan_count;
    struct graph_question *question; /* the store is being asked; NULL: it is not */
    struct job_group *groups;
    void *groups_by_name; /* tsearch(3) */
};

struct job_links *
job_links_of(struct job *job); /* made when it has none; ends for want of memory */
/* What is due: ends told to those who wait for them, places of groups given away. */
void graph_settle_soon(struct job_graph *graph);
void graph_wait_for(struct job_graph *graph, int64_t on_job, enum dependency_condition condition,
                    int64_t dependent);
void graph_tell(struct jobs *jobs, int64_t dependent, int64_t on_job, enum job_state state);
/* After it went through job_graph_admits(): the row says what it waits for now. */
void graph_let_go(struct jobs *jobs, struct job *job);

/* groups.c */
struct job_group *group_find(struct job_graph *graph, uid_t uid, const char *name, bool make);
void group_admit(struct job_group *group, struct job *job);
bool group_enter(struct jobs *jobs, struct job *job);
void group_leave(struct jobs *jobs, struct job *job);
void groups_settle(struct job_graph *graph);
void groups_free(struct job_graph *graph);
