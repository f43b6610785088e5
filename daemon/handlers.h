/* handlers.h: the handlers of io.traind's methods, one file per group; server_methods.c lists them.
 */
#pragma once

#include "daemon/server.h"

void handle_ping(struct call *call);            /* handlers_service.c */
void handle_devices(struct call *call);         /* handlers_service.c */
void handle_drain(struct call *call);           /* handlers_drain.c */
void handle_undrain(struct call *call);         /* handlers_drain.c */
void handle_submit(struct call *call);          /* handlers_submit.c */
void handle_submit_many(struct call *call);     /* handlers_submit.c */
void handle_list(struct call *call);            /* handlers_jobs.c */
void handle_queue(struct call *call);           /* handlers_queue.c */
void handle_show(struct call *call);            /* handlers_jobs.c */
void handle_cancel(struct call *call);          /* handlers_jobs.c */
void handle_explain(struct call *call);         /* handlers_explain.c */
void handle_predict(struct call *call);         /* handlers_explain.c */
void handle_changes(struct call *call);         /* handlers_changes.c */
void handle_remove(struct call *call);          /* handlers_disk.c */
void handle_disk_usage(struct call *call);      /* handlers_disk.c */
void handle_hold(struct call *call);            /* handlers_graph.c */
void handle_release(struct call *call);         /* handlers_graph.c */
void handle_pause(struct call *call);           /* handlers_move.c */
void handle_resume(struct call *call);          /* handlers_move.c */
void handle_requeue(struct call *call);         /* handlers_move.c */
void handle_move(struct call *call);            /* handlers_move.c */
void handle_set_group(struct call *call);       /* handlers_graph.c */
void handle_groups(struct call *call);          /* handlers_graph.c */
void handle_submit_sweep(struct call *call);    /* handlers_sweep.c */
void handle_show_sweep(struct call *call);      /* handlers_sweep.c */
void handle_cancel_sweep(struct call *call);    /* handlers_sweep.c */
void handle_hold_sweep(struct call *call);      /* handlers_sweep.c */
void handle_release_sweep(struct call *call);   /* handlers_sweep.c */
void handle_sweeps(struct call *call);          /* handlers_sweep.c */
void handle_watch(struct call *call);           /* handlers_watch.c */
void handle_metrics(struct call *call);         /* handlers_metrics.c */
void handle_logs(struct call *call);            /* handlers_logs.c */
void handle_profile(struct call *call);         /* handlers_profile.c */
void handle_checkpoints(struct call *call);     /* handlers_checkpoints.c */
void handle_read_checkpoint(struct call *call); /* handlers_checkpoints.c */

/* Ends the call with QuotaExceeded when its user may not have `count` jobs more; handlers_submit.c.
 */
bool call_exceeds_quota(struct call *call, int64_t count);
/* The same for what they would wait for, all together. */
bool call_exceeds_dependencies(struct call *call, int64_t count);
/* The highest priority that its user may give to a job. */
int64_t call_priority_max(const struct call *call);
