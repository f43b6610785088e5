/* job_users.h: the users that have had jobs since the daemon started: how many live jobs they have,
 * how many open dependencies, and which fair share of the devices. */
#pragma once

#include "base/error.h"
#include "scheduler/policy.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attempt;
struct jobs;

void job_users_start(struct jobs *jobs);
/* Reads the configured shares. A mistake in them is an error with a sentence. */
int job_users_read_shares(struct jobs *jobs, struct error *error);
void job_users_free(struct jobs *jobs);

/* Change the number of the user's live jobs, and of the open dependencies of these. */
void job_users_count(struct jobs *jobs, uid_t uid, int change);
void job_users_count_unmet(struct jobs *jobs, uid_t uid, int64_t change);
/* Charges the user for the attempt's time on its devices, once its processes are gone. */
void job_users_charge(struct jobs *jobs, const struct attempt *attempt);

/* Users have indices from 0; an unknown user has POLICY_NONE. */
size_t job_users_number(const struct jobs *jobs);
int job_users_index(const struct jobs *jobs, uid_t uid);
/* The user with that index as the policy sees it. */
struct policy_user job_users_policy(const struct jobs *jobs, size_t index);
