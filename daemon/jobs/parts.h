/* parts.h: struct jobs: what the files of this room share. Each part is a pointer whose struct only
 * the file behind it looks into, unless its header shows it. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/work/job_table.h"

#include <stdbool.h>
#include <stdint.h>

struct jobs {
    struct daemon *daemon;
    void (*ready)(struct daemon *daemon); /* the server accepts calls from then on */
    bool loaded, stopping;
    bool busy;        /* there was a job since the last time that none was left */
    int64_t last_job; /* the highest id seen */

    struct job_table *table;
    struct job_classes *classes; /* job_class.h: jobs that may be placed */
    struct workload_table *workloads;
    struct predictions_table *predictions;
    struct calibrations *calibrations;
    struct job_needs_table *needs;
    struct job_users *users;

    struct job_graph *graph;
    struct groups *groups;
    struct sweeps *sweeps;
    struct history *history;
    struct details_reads *details_reads; /* details.h */
    struct transitions *transitions;     /* transition.h */

    struct planning_turns *planning_turns;
    struct recent_plans *recent_plans;
    struct calibrator *calibrator; /* NULL: nothing is measured */

    struct dispatch *dispatch;
    struct decider *decider; /* decide.h */
    struct jobs_snapshot *snapshot;
    struct forecast *forecast;
    struct headroom *headroom;

    struct resume_reads *resume_reads; /* start.h */
    struct job_logs *logs;
    struct notice *notices; /* that run */
    struct notify_queue *notify_queue;
};
