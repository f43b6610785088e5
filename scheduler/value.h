/* value.h: what it is worth to run a job somewhere.
 *
 *   (1 + c k n / M)  *  t_best / (t + h restart)  *  (1 + wait / B)^b  *  (share / usage)^g
 *
 * B: seconds to the job's end on its best type; k: devices it needs; t: seconds to its end there;
 * n: jobs that have more work left, B k, and half of those with as much; M: devices of the machine;
 * restart counts where the job would move or resume; a, b, c, g, h: struct policy_settings.
 *
 * The first factor is what a second of this job's work costs all jobs: the job itself is a second
 * later, and those that longer work makes come after it share k seconds of M devices. (So it is the
 * derivative of the sum of completion times, were the shortest always first; without a queue it is
 * 1, and devices go to whom they suit best; with a long one it is Smith's rule by rank.) It was
 * found to do better than the power law k (B k)^-0.3 on all public traces: docs/placement.md,
 * "Figures". With c = 0 the first factor is that power, k (B k)^-a. The second factor prefers a
 * device that suits the job, the third what has waited long for its length, the fourth users that
 * had less than their share.
 *
 * With a preference the second factor is instead
 *   (1 + p / t) / 2  *  t / (t + h restart)  on what the job prefers, p: t on the best of it,
 *   t_best / t / 2   *  t / (t + h restart)  elsewhere:
 * any device that it prefers is worth more than any other, unless it would move and that does not
 * pay; and it does not take devices from those who gain more.
 *
 * For the makespan the first two factors are instead, T and x: share.h,
 *   k  (x / T  +  d o  +  (0.02 + 3 s M / (K k)) B / T  t_best / t)  *  t / (t + h restart)
 * and k times a tenth more where the job is already. s: standard deviation of what is left of the
 * job, as a part of it, d: deviation of log(t), o: optimism, K: devices that all jobs want
 * together. A speed that is not known yet is soon found out, and wrong ones cost hours: so a type
 * is tried before the shares of others are met. What may turn out far longer than expected goes
 * early, while the others can still fill the machine; left to the end, it would run on alone. As
 * long as far more devices are wanted than there are, the shares matter more; in the end, this.
 * With a preference the first factor is k.
 *
 * n is an expectation where lengths are not known: what has run for A is longer than what has run
 * for A' with a probability of 1 / (1 + (A' / A)^(1/2)), the prior of steps_left() made softer. */
#pragma once

#include "scheduler/policy.h"
#include "scheduler/workspace.h"

/* What of a job's value does not depend on where it goes. */
struct job_value {
    double best_seconds;      /* B; INFINITY: no type can take it */
    double preferred_seconds; /* on the best type that has devices it prefers; INFINITY: none, or no
                               * preference */
    int best_type;            /* where it is that; POLICY_NONE */
    double work;              /* B k */
    double base;              /* the value with t = t_best and no restart */
    double restart;       /* hysteresis * restart_seconds: added to t where the job does not stay */
    const double *shares; /* of the time to the last end, on each type; NULL: not the makespan */
    double part;          /* of that time that the job would take on its best type */
    double room;          /* devices of the machine for each that any job wants */
};

/* Seconds to the end on that type as the policy believes them: less than the estimate where it is
 * uncertain, so that a type that may be the faster one gets tried. */
double value_seconds(const struct policy_settings *settings,
                     const struct policy_estimate *estimate);

/* (share / usage)^g for each user, within 1/16 and 16, into factors[user_count]. */
void value_user_factors(const struct policy_snapshot *snapshot, double *factors);

/* Whether a type has enough devices for a job at all, and of those that it prefers. */
struct type_fit {
    bool fits, preferred;
};

/* All but the first factor. `fits`: one for each type. */
struct job_value value_of_job(const struct policy_snapshot *snapshot, const struct policy_job *job,
                              const struct type_fit *fits, const double *user_factors);

/* Bytes of workspace for value_add_congestion(). */
size_t value_congestion_size(const struct policy_snapshot *snapshot);

/* Multiplies the first factor into the values of all jobs of the snapshot. */
void value_add_congestion(const struct policy_snapshot *snapshot, struct job_value *values,
                          struct workspace workspace);

/* Whether the job has a preference and the device is among what it prefers. */
static inline bool job_prefers(const struct policy_job *job, int device)
{
    return job->preferred && policy_mask_has(job->preferred, device);
}

/* The value of the job on devices of `type`; `preferred`: job_prefers() all of them. */
double value_on_type(const struct policy_snapshot *snapshot, const struct policy_job *job,
                     const struct job_value *value, int type, bool preferred, bool stays);
