/* waiting.h: says in a sentence what a queued job waits for. */
#pragma once

#include "daemon/types/job_types.h"
#include "scheduler/policy.h"

struct job;
struct jobs;

enum wait_reason jobs_wait_reason_of(enum policy_verdict verdict);
/* Why the job waits. `index` is the job in the latest decision, or another job of its class there.
 * WAIT_NONE: it starts, or no device can ever take it, as the sentence then says. */
enum wait_reason jobs_explain_waiting(const struct jobs *jobs, const struct job *job, size_t index,
                                      char *text, size_t size);
/* For a job that no device can take now: whether a lost device could take it, so that the job waits
 * for that device. `text` receives the sentence. */
bool jobs_explain_lost(const struct jobs *jobs, const struct job *job, char *text, size_t size);
