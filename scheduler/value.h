/* value.h: the value of running a job on a type of device.
 *
 *   (1 + c k n / M)  *  t_best / (t + h restart)  *  (1 + wait / B)^b  *  (share / usage)^g
 *
 * B: seconds to the job's end on its best type; k: devices that it needs; t: seconds to its end on
 * this type; n: the number of jobs with more work left (B k), plus half of those with as much; M:
 * devices of the machine; restart: its cost if the job would move or resume, else 0; a, b, c, g, h:
 * struct policy_settings.
 *
 * The first factor is what one second of this job's work costs all jobs. The job itself ends a
 * second later, and the n jobs with more work, which come after it, share k seconds of M devices.
 * (This is the derivative of the sum of completion times under shortest-first order. Without a
 * queue the factor is 1, and devices go to the jobs that they suit best. With a long queue it is
 * Smith's rule by rank.) On all public traces it does better than the power law k (B k)^-0.3:
 * docs/placement.md, "Figures". With c = 0 the first factor is that power law, k (B k)^-a. The
 * second factor prefers a device that suits the job. The third prefers a job that has waited long
 * for its length, the fourth a user who had less than a fair share.
 *
 * If the job prefers some devices, the second factor is instead
 *   (1 + p / t) / 2  *  t / (t + h restart)  on what the job prefers, p: t on the best of it,
 *   t_best / t / 2   *  t / (t + h restart)  elsewhere:
 * A preferred device is worth more than any other, unless the job would have to move and the move
 * does not pay. The job still takes no device from a job that gains more from it.
 *
 * To minimise the makespan, the first two factors are instead (T and x: share.h)
 *   k  (x / T  +  d o  +  (0.02 + 3 s M / (K k)) B / T  t_best / t)  *  t / (t + h restart)
 * plus a tenth of k where the job already runs. s: standard deviation of the remaining time, as a
 * part of it; d: deviation of log(t); o: optimism; K: devices that all jobs want together. The term
 * d o tries an unmeasured type early: one run measures its speed, and a wrong prediction costs
 * hours. The term with s starts jobs of uncertain length early, while other jobs can still fill the
 * machine; at the end such a job would run on alone. While far more devices are wanted than there
 * are, the shares dominate; towards the end, the uncertainty does. If the job prefers some devices,
 * the first factor is k.
 *
 * If lengths are unknown, n is an expectation. A job that has run for A is longer than one that has
 * run for A' with probability 1 / (1 + (A' / A)^(1/2)), which is a softer prior than
 * steps_left()'s. */
#pragma once

#include "scheduler/policy.h"
#include "scheduler/workspace.h"

/* The part of a job's value that does not depend on the type of device. */
struct job_value {
    double best_seconds;      /* B; INFINITY: no type can take it */
    double preferred_seconds; /* on the best type among the devices that it prefers; INFINITY: no
                               * such type, or no preference */
    int best_type;            /* the type of best_seconds; POLICY_NONE: none */
    double work;              /* B k */
    double base;              /* the value with t = t_best and no restart */
    double restart;       /* hysteresis * restart_seconds: added to t if the job does not stay */
    const double *shares; /* x / T on each type; NULL: the makespan is not minimised */
    double part;          /* B / T */
    double room;          /* M / K */
    const double *floors; /* the least value on each type, of a job that was put first; else NULL */
};

/* Seconds to the job's end on the type, as the policy assumes them. They are less than an uncertain
 * estimate, so that a type that may be faster is tried. */
double value_seconds(const struct policy_settings *settings,
                     const struct policy_estimate *estimate);

/* Writes (share / usage)^g of each user, between 1/16 and 16, to factors[user_count]. */
void value_user_factors(const struct policy_snapshot *snapshot, double *factors);

/* Whether a type has enough devices for a job, and enough of those that the job prefers. */
struct type_fit {
    bool fits, preferred;
};

/* Computes all factors but the first. `fits`: one for each type. */
struct job_value value_of_job(const struct policy_snapshot *snapshot, const struct policy_job *job,
                              const struct type_fit *fits, const double *user_factors);

/* Bytes of workspace for value_add_congestion() and value_put_first(). */
size_t value_congestion_size(const struct policy_snapshot *snapshot);

/* Multiplies the values of all jobs of the snapshot by the first factor. */
void value_add_congestion(const struct policy_snapshot *snapshot, struct job_value *values,
                          struct workspace workspace);

/* How many jobs of the snapshot were put first. */
size_t value_first_count(const struct policy_snapshot *snapshot);

/* Raises the values of waiting jobs that were put first. On each type of device such a job is worth
 * a little more, for its size, than the best of its user's other waiting jobs of its priority that
 * were not put first, or earlier. So a user gains no device from others by that: the best of one's
 * jobs decides how one's first job fares against theirs. `floors`: room for a number for each type
 * and job that was put first; it is used as long as the values are. */
void value_put_first(const struct policy_snapshot *snapshot, struct job_value *values,
                     double *floors, struct workspace workspace);

/* Whether the job prefers the device; false if it has no preference. */
static inline bool job_prefers(const struct policy_job *job, int device)
{
    return job->preferred && policy_mask_has(job->preferred, device);
}

/* The value of the job on devices of `type`. `preferred`: the job prefers all of these devices. */
double value_on_type(const struct policy_snapshot *snapshot, const struct policy_job *job,
                     const struct job_value *value, int type, bool preferred, bool stays);
