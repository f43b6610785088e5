/* parts.h: struct jobs, which the files of this room share. Each part is a pointer to a struct that
 * only the part's own file reads, unless the part's header defines it. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/work/job_table.h"

#include <stdbool.h>
#include <stdint.h>

struct jobs {
    struct daemon *daemon;
    void (*ready)(struct daemon *daemon); /* the server accepts calls from then on */
    bool loaded, stopping;
    bool busy;        /* there has been a job since the last time that no job was left */
    int64_t last_job; /* the highest id seen */

    struct job_table *table;
    struct job_classes *classes; /* job_class.h: the jobs that may be placed */
    struct workload_table *workloads;
    struct predictions_table *predictions;
    struct calibrations *calibrations;
    struct suspension_costs *suspension_costs;
    struct job_needs_table *needs;
    struct job_users *users;

    struct job_graph *graph;
    struct groups *groups;
    struct start_times *start_times;
    struct schedules *schedules; /* NULL: not loaded yet */
    struct sweeps *sweeps;
    struct history *history;
    struct details_reads *details_reads; /* details.h */
    struct early_changes *early_changes;
    struct transitions *transitions; /* transition.h */

    struct planning_turns *planning_turns;
    struct recent_plans *recent_plans;
    struct calibrator *calibrator; /* NULL: nothing is measured */

    struct dispatch *dispatch;
    struct decider *decider; /* decide.h */
    struct jobs_snapshot *snapshot;
    struct forecast *forecast;
    struct headroom *headroom;

    struct begin_reads *begin_reads; /* begin_checkpoints.h */
    struct exploit *exploits;        /* search_verdicts.c: a queue, whose first one is under way */
    struct job_logs *logs;
    struct notice *notices; /* the running ones */
    struct notify_queue *notify_queue;
    struct samples *samples;
};
