/* table.c: see table.h. */
#include "daemon/methods/table.h"

#include "daemon/methods/handlers.h"

/* Beside the access: what a stranger, who is neither owner nor admin, sees of others' jobs by it.
 */
static const struct method methods[] = {
    {"Ping", handle_ping, ACCESS_ANYBODY,
     METHOD_SHORT}, /* nothing but how many decisions there were */
    {"Submit", handle_submit, ACCESS_ANYBODY, METHOD_SHORT}, /* of a job in `after` its state */
    {"SubmitMany", handle_submit_many, ACCESS_ANYBODY, METHOD_SHORT},   /* as Submit */
    {"SubmitSweep", handle_submit_sweep, ACCESS_ANYBODY, METHOD_SHORT}, /* as Submit */
    {"Sweeps", handle_sweeps, ACCESS_ANYBODY, METHOD_LONG}, /* whose, how many points, since when */
    {"ShowSweep", handle_show_sweep, ACCESS_SWEEP_OWNER, METHOD_LONG},
    {"CancelSweep", handle_cancel_sweep, ACCESS_SWEEP_OWNER, METHOD_SHORT},
    {"HoldSweep", handle_hold_sweep, ACCESS_SWEEP_OWNER, METHOD_SHORT},
    {"ReleaseSweep", handle_release_sweep, ACCESS_SWEEP_OWNER, METHOD_SHORT},
    {"List", handle_list, ACCESS_ANYBODY, METHOD_LONG},   /* job_view_hide() */
    {"Queue", handle_queue, ACCESS_ANYBODY, METHOD_LONG}, /* how many come before one's own */
    {"Changes", handle_changes, ACCESS_ANYBODY,
     METHOD_STREAM}, /* that something has changed, not what */
    {"Devices", handle_devices, ACCESS_ANYBODY,
     METHOD_LONG}, /* numbers of jobs and bytes; of other programs whose, and bytes */
    {"Drain", handle_drain, ACCESS_ADMIN, METHOD_SHORT},
    {"Undrain", handle_undrain, ACCESS_ADMIN, METHOD_SHORT},
    {"Predict", handle_predict, ACCESS_ANYBODY, METHOD_LONG}, /* when devices are free */
    {"Show", handle_show, ACCESS_OWNER, METHOD_LONG},
    {"Explain", handle_explain, ACCESS_OWNER, METHOD_LONG},
    {"Cancel", handle_cancel, ACCESS_OWNER, METHOD_SHORT},
    {"Remove", handle_remove, ACCESS_OWNER, METHOD_LONG},
    {"DiskUsage", handle_disk_usage, ACCESS_ANYBODY, METHOD_ALONE}, /* of the caller's jobs */
    {"Hold", handle_hold, ACCESS_OWNER, METHOD_SHORT},
    {"Release", handle_release, ACCESS_OWNER, METHOD_SHORT},
    {"Pause", handle_pause, ACCESS_OWNER, METHOD_SHORT},
    {"Resume", handle_resume, ACCESS_OWNER, METHOD_SHORT},
    {"Requeue", handle_requeue, ACCESS_OWNER, METHOD_SHORT},
    {"Move", handle_move, ACCESS_OWNER, METHOD_SHORT},
    {"SetGroup", handle_set_group, ACCESS_ANYBODY,
     METHOD_SHORT}, /* nothing: groups are one's own */
    {"Groups", handle_groups, ACCESS_ANYBODY,
     METHOD_LONG}, /* nothing: one's own; an admin's: all */
    {"Watch", handle_watch, ACCESS_OWNER, METHOD_STREAM},
    {"Metrics", handle_metrics, ACCESS_OWNER, METHOD_STREAM},
    {"Logs", handle_logs, ACCESS_OWNER, METHOD_STREAM},
    {"Profile", handle_profile, ACCESS_OWNER, METHOD_LONG},
    {"Checkpoints", handle_checkpoints, ACCESS_OWNER, METHOD_LONG},
    {"ReadCheckpoint", handle_read_checkpoint, ACCESS_OWNER, METHOD_STREAM},
};

const struct method_table method_table = {methods, sizeof methods / sizeof *methods};
