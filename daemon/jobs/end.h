/* end.h: what follows the end of an attempt: the job is done, failed, or queued again. */
#pragma once

#include "daemon/work/job_rules.h"

struct attempt;
struct job;

/* No process of the attempt remains; everything that it wrote is stored (struct attempt_events). */
void job_attempt_gone(struct attempt *attempt);
void job_attempt_ended(struct attempt *attempt);
/* What the exit record and the spool say, for attempt_judge(). */
struct attempt_end job_describe_end(const struct attempt *attempt, const struct job *job);
/* What follows when its shim could not be started, or was killed before it started
 * anything: a few more tries, and as many as it takes where that was the machine's state.
 * `what` begins the reason. */
struct attempt_verdict job_judge_launch(struct job *job, const struct attempt *attempt,
                                        const char *what);
