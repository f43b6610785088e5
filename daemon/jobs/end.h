/* end.h: handles the end of an attempt: the job is done, fails, pauses, or is queued again. */
#pragma once

#include "daemon/work/job_rules.h"

struct attempt;
struct job;

/* The events `gone` and `ended` of struct attempt_events: no process of the attempt remains, and
 * everything that it wrote is stored. */
void job_attempt_gone(struct attempt *attempt);
void job_attempt_ended(struct attempt *attempt);
/* Describes the attempt's end to attempt_judge() from its exit record and its spool. */
struct attempt_end job_describe_end(const struct attempt *attempt, const struct job *job);
/* Says what follows if the attempt's shim could not be started, or was killed before it started the
 * trainee. The start is tried a few more times; if the state of the machine is to blame, it is
 * tried until it succeeds. `what` begins the reason. */
struct attempt_verdict job_judge_launch(struct job *job, const struct attempt *attempt,
                                        const char *what);
