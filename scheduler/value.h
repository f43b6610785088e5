/* value.h: what it is worth to run a job somewhere.
 *
 *   k (B k)^-a  *  t_best / (t + h restart)  *  (1 + wait / B)^b  *  (share / usage)^g
 *
 * B: seconds to the job's end on its best type; k: devices it needs; t: seconds to its end there;
 * restart counts where the job would move or resume; a, b, g, h: struct policy_settings.
 * The first factor prefers short work per device (a = 1 is Smith's rule, a = -1 longest first), the second
 * a device that suits the job, the third what has waited long for its length, the fourth users
 * that had less than their share. Form and exponents were simulated on public traces:
 * docs/placement.md, "Figures". */
#pragma once

#include "scheduler/policy.h"

/* What of a job's value does not depend on where it goes. */
struct job_value {
    double best_seconds; /* B; INFINITY: no type can take it */
    double base;         /* the value with t = t_best and no restart */
    double restart;      /* hysteresis * restart_seconds: added to t where the job does not stay */
};

/* Seconds to the end on that type as the policy believes them: less than the estimate where it is
 * uncertain, so that a type that may be the faster one gets tried. */
double value_seconds(const struct policy_settings *settings, const struct policy_estimate *estimate);

/* (share / usage)^g for each user, within 1/16 and 16, into factors[user_count]. */
void value_user_factors(const struct policy_snapshot *snapshot, double *factors);

/* `fits[type]`: whether the type has enough devices for the job at all. */
struct job_value value_of_job(const struct policy_snapshot *snapshot, const struct policy_job *job,
                              const bool *fits, const double *user_factors);

/* The value of the job on `type`. */
double value_on_type(const struct policy_snapshot *snapshot, const struct policy_job *job,
                     const struct job_value *value, int type, bool stays);
