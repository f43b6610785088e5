/* job_users.h: the users that have had jobs since the start: how many live ones, what these wait
 * for, and their fair share of the devices. */
#pragma once

#include "base/error.h"
#include "scheduler/policy.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attempt;
struct jobs;

void job_users_start(struct jobs *jobs);
/* Of the configuration; a mistake in it fails with a sentence. */
int job_users_read_shares(struct jobs *jobs, struct error *error);
void job_users_free(struct jobs *jobs);

/* So many live jobs more of the user's; so many open dependencies more of these jobs. */
void job_users_count(struct jobs *jobs, uid_t uid, int change);
void job_users_count_unmet(struct jobs *jobs, uid_t uid, int64_t change);
/* The attempt's processes are gone: its user is charged with the time on its devices. */
void job_users_charge(struct jobs *jobs, const struct attempt *attempt);

/* Users have indices from 0; POLICY_NONE: not known. */
size_t job_users_number(const struct jobs *jobs);
int job_users_index(const struct jobs *jobs, uid_t uid);
/* What the policy is told of the user. */
struct policy_user job_users_policy(const struct jobs *jobs, size_t index);
