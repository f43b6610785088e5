/* handlers.h: the handlers of io.traind's methods, one file per group; table.c lists them.
 */
#pragma once

#include "daemon/server/server.h"

void handle_ping(struct call *call);            /* service.c */
void handle_devices(struct call *call);         /* service.c */
void handle_drain(struct call *call);           /* drain.c */
void handle_undrain(struct call *call);         /* drain.c */
void handle_submit(struct call *call);          /* submit.c */
void handle_submit_many(struct call *call);     /* submit.c */
void handle_list(struct call *call);            /* jobs/jobs.c */
void handle_queue(struct call *call);           /* queue.c */
void handle_show(struct call *call);            /* jobs/jobs.c */
void handle_cancel(struct call *call);          /* jobs/jobs.c */
void handle_explain(struct call *call);         /* explain.c */
void handle_predict(struct call *call);         /* explain.c */
void handle_changes(struct call *call);         /* changes.c */
void handle_remove(struct call *call);          /* disk.c */
void handle_disk_usage(struct call *call);      /* disk.c */
void handle_hold(struct call *call);            /* graph.c */
void handle_release(struct call *call);         /* graph.c */
void handle_pause(struct call *call);           /* move.c */
void handle_resume(struct call *call);          /* move.c */
void handle_requeue(struct call *call);         /* move.c */
void handle_move(struct call *call);            /* move.c */
void handle_set_group(struct call *call);       /* graph.c */
void handle_groups(struct call *call);          /* graph.c */
void handle_submit_sweep(struct call *call);    /* sweep.c */
void handle_show_sweep(struct call *call);      /* sweep.c */
void handle_cancel_sweep(struct call *call);    /* sweep.c */
void handle_hold_sweep(struct call *call);      /* sweep.c */
void handle_release_sweep(struct call *call);   /* sweep.c */
void handle_sweeps(struct call *call);          /* sweep.c */
void handle_watch(struct call *call);           /* watch.c */
void handle_metrics(struct call *call);         /* metrics.c */
void handle_logs(struct call *call);            /* logs.c */
void handle_profile(struct call *call);         /* profile.c */
void handle_checkpoints(struct call *call);     /* checkpoints.c */
void handle_read_checkpoint(struct call *call); /* checkpoints.c */

/* Ends the call with QuotaExceeded when its user may not have `count` jobs more; submit.c.
 */
bool call_exceeds_quota(struct call *call, int64_t count);
/* The same for what they would wait for, all together. */
bool call_exceeds_dependencies(struct call *call, int64_t count);
/* The highest priority that its user may give to a job. */
int64_t call_priority_max(const struct call *call);
