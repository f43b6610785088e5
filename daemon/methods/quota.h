/* quota.h: the limits of a user's jobs and requests ([Access]). Administrators have no limits. */
#pragma once

#include "daemon/server/server.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Submitted jobs that are not in the table of jobs yet; the quota counts them already. Used on the
 * loop only. */
struct quota_claim {
    struct quota_claim *next;
    uid_t uid;
    int64_t count;
    int64_t dependencies; /* 0 until they are known */
};
void quota_claim_begin(struct quota_claim *claim, uid_t uid, int64_t count);
void quota_claim_end(struct quota_claim *claim);

/* If the call's user may not have `count` more jobs, ends the call with QuotaExceeded and returns
 * true. */
bool quota_exceeded(struct call *call, int64_t count);
/* The same for `count` more dependencies. */
bool quota_dependencies_exceeded(struct call *call, int64_t count);
/* The highest priority that the call's user may give to a job. */
int64_t quota_priority_max(const struct call *call);
