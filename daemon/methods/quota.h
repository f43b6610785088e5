/* quota.h: what a user may have and ask for ([Access]); administrators may have anything. */
#pragma once

#include "daemon/server/server.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Jobs on their way from a submission to the table of jobs, which count already. The loop's. */
struct quota_claim {
    struct quota_claim *next;
    uid_t uid;
    int64_t count;
};
void quota_claim_begin(struct quota_claim *claim, uid_t uid, int64_t count);
void quota_claim_end(struct quota_claim *claim);

/* Ends the call with QuotaExceeded when its user may not have `count` jobs more. */
bool quota_exceeded(struct call *call, int64_t count);
/* The same for what they would wait for, all together. */
bool quota_dependencies_exceeded(struct call *call, int64_t count);
/* The highest priority that its user may give to a job. */
int64_t quota_priority_max(const struct call *call);
