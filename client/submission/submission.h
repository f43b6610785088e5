/* submission.h: submits specifications, for `submit`, `run` and `resubmit`. */
#pragma once

#include "client/command_line/invocation.h"
#include "client/submission/snapshot.h"
#include "client/submission/spec_input.h"
#include "client/submission/spec_options.h"

/* clang-format off */
/* The options of each command that submits. The command applies them by spec_options_apply(),
 * spec_input_complete(), graph_input_add() and snapshot_add(). */
#define SUBMISSION_OPTIONS \
    SPEC_OPTIONS, \
    SPEC_INPUT_OPTION_SET, \
    {"after", 'a', "JOB[,JOB…]", "Start once these jobs are done; repeatable", COMPLETE_JOBS}, \
    {"after-any", 0, "JOB[,JOB…]", "Start once these jobs have ended, however; repeatable", COMPLETE_JOBS}, \
    {"hold", 0, NULL, "Wait until `trainctl release`", COMPLETE_NOTHING}, \
    {"at", 0, "TIME", "Start at this time or later: +2h, 03:00, \"tomorrow 03:00\", 2027-01-01T03:00", COMPLETE_NOTHING}, \
    {"every", 0, "CALENDAR", "Make a job at each of these times: daily, \"Mon..Fri 03:00\", \"*:0/15\" (systemd.time)", COMPLETE_NOTHING}, \
    SNAPSHOT_OPTION, \
    {"group", 'g', "NAME", "Count against the limit of a group: `trainctl group set`", COMPLETE_NOTHING}, \
    SPEC_INPUT_OPTION_ENV, \
    {"wait", 'w', NULL, "Wait until the job has ended; its end decides the exit status", COMPLETE_NOTHING}, \
    {"follow", 'f', NULL, "Wait, and show progress meanwhile; Ctrl-C detaches, the job goes on", COMPLETE_NOTHING}
/* clang-format on */

/* Sends the array `specs` in batches below the size limit of a message, and prints the jobs'
 * numbers. Then waits for the jobs if the options ask for it. Sends nothing if a data file is
 * missing. */
enum exit_status submission_send(struct invocation *invocation, struct json_object *specs);
/* Sends a sweep of each specification. It does not check for data files, because a sweep may change
 * their names. */
enum exit_status submission_send_sweeps(struct invocation *invocation, struct json_object *specs,
                                        struct json_object *sweep);
