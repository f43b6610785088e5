/* submission.h: specifications become jobs; what `submit`, `run` and `resubmit` share. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
/* The options of each command that submits. */
#define SUBMISSION_OPTIONS \
    SPEC_INPUT_OPTION_SET, \
    {"after", 'a', "JOB[,JOB…]", "Start once these jobs are done; repeatable", COMPLETE_JOBS}, \
    {"after-any", 0, "JOB[,JOB…]", "Start once these jobs have ended, however; repeatable", COMPLETE_JOBS}, \
    {"hold", 0, NULL, "Wait until `trainctl release`", COMPLETE_NOTHING}, \
    {"group", 'g', "NAME", "Count against the limit of a group: `trainctl group set`", COMPLETE_NOTHING}, \
    {"env", 'e', "NAME[=VALUE]", "Give the job a variable of the environment; repeatable", COMPLETE_NOTHING}, \
    {"wait", 'w', NULL, "Wait until the job has ended; its end decides the exit status", COMPLETE_NOTHING}, \
    {"follow", 'f', NULL, "Wait, and show progress meanwhile; Ctrl-C detaches, the job goes on", COMPLETE_NOTHING}
/* clang-format on */

/* Sends the array `specs`, in batches below the limit of a message; says what was accepted; then
 * waits for the jobs when the options say so. None is sent where a file of data is not there. */
enum exit_status submission_send(struct invocation *invocation, struct json_object *specs);
/* Sends a sweep of each of the specifications; files of data are not looked for: a sweep may name
 * others. */
enum exit_status submission_send_sweeps(struct invocation *invocation, struct json_object *specs,
                                        struct json_object *sweep);
