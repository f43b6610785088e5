/* quota.c: see quota.h; and Limits. */
#include "daemon/methods/quota.h"

#include "daemon/jobs/jobs.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/methods/methods.h"

static struct quota_claim *claims;

void quota_claim_begin(struct quota_claim *claim, uid_t uid, int64_t count)
{
    *claim = (struct quota_claim){.next = claims, .uid = uid, .count = count};
    claims = claim;
}

void quota_claim_end(struct quota_claim *claim)
{
    for (struct quota_claim **link = &claims; *link; link = &(*link)->next)
        if (*link == claim) {
            *link = claim->next;
            break;
        }
}

/* The number of the user's live jobs, submitted jobs and points to come. */
static int64_t jobs_of_user(const struct daemon *daemon, uid_t uid)
{
    int64_t count =
        (int64_t)jobs_count_of_user(daemon, uid) + sweeps_unexpanded_of_user(daemon, uid);

    for (const struct quota_claim *claim = claims; claim; claim = claim->next)
        if (claim->uid == uid)
            count += claim->count;
    return count;
}

bool quota_exceeded(struct call *call, int64_t count)
{
    int64_t limit = call->daemon->config.jobs_per_user;

    if (call->peer.admin || jobs_of_user(call->daemon, call->peer.uid) + count <= limit)
        return false;
    call_fail(call, "QuotaExceeded", NULL,
              "a user may have %lld jobs that have not ended (JobsPerUser); wait for some to end "
              "or cancel them",
              (long long)limit);
    return true;
}

bool quota_dependencies_exceeded(struct call *call, int64_t count)
{
    int64_t limit = call->daemon->config.dependencies_per_user;
    int64_t sum = jobs_dependencies_of_user(call->daemon, call->peer.uid) + count;

    for (const struct quota_claim *claim = claims; claim; claim = claim->next)
        if (claim->uid == call->peer.uid)
            sum += claim->dependencies;
    if (count == 0 || call->peer.admin || sum <= limit)
        return false;
    call_fail(call, "QuotaExceeded", NULL,
              "the jobs of a user may wait for %lld others in all (DependenciesPerUser); wait for "
              "some to end, or let a job wait for a whole sweep",
              (long long)limit);
    return true;
}

int64_t quota_priority_max(const struct call *call)
{
    return call->peer.admin ? INT64_MAX : call->daemon->config.priority_max;
}

/* ---- Limits: from memory alone --------------------------------------------------------------- */

static struct json_object *limit_or_null(bool binds, int64_t limit)
{
    return binds ? json_object_new_int64(limit) : NULL;
}

static void handle_limits(struct call *call)
{
    const struct config *config = &call->daemon->config;
    struct json_object *reply = json_object_new_object();
    bool binds = !call->peer.admin;

    json_set_int(reply, "jobs", jobs_of_user(call->daemon, call->peer.uid));
    json_set(reply, "jobs_max", limit_or_null(binds, config->jobs_per_user));
    json_set_int(reply, "dependencies", jobs_dependencies_of_user(call->daemon, call->peer.uid));
    json_set(reply, "dependencies_max", limit_or_null(binds, config->dependencies_per_user));
    json_set(reply, "devices_max",
             limit_or_null(config->devices_per_user > 0, config->devices_per_user));
    json_set(reply, "priority_max", limit_or_null(binds, config->priority_max));
    json_set_double(reply, "shell_idle", config->shell_idle_seconds);
    json_set_string(reply, "data_folder", *config->data_folder ? config->data_folder : NULL);
    json_set(reply, "snapshot_bytes_max",
             limit_or_null(config->bytes_per_snapshot > 0, (int64_t)config->bytes_per_snapshot));
    call_reply(call, reply);
}

/* Strangers see nothing. */
METHOD(Limits, handle_limits, ACCESS_ANYBODY, METHOD_SHORT);
