/* waiting.h: what a queued job waits for, as a sentence. */
#pragma once

#include "daemon/types/job_types.h"
#include "scheduler/policy.h"

struct job;
struct jobs;

enum wait_reason jobs_wait_reason_of(enum policy_verdict verdict);
/* Why the job, which is `index` of the latest decision or of that one's class, waits. WAIT_NONE: it
 * starts, or no device can ever take it, as the sentence says. */
enum wait_reason jobs_explain_waiting(const struct jobs *jobs, const struct job *job, size_t index,
                                      char *text, size_t size);
/* Of a job that no device can take as they are: true where one that is lost could, were it there,
 * so that the job waits for it; `text`: the sentence that says so. */
bool jobs_explain_lost(const struct jobs *jobs, const struct job *job, char *text, size_t size);
