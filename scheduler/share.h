/* share.h: how the time to the last end is best divided.
 *
 * Where all that counts is when the last job ends, no job is worth more than another: the rest of
 * the time is to be divided so that all of them fit into it. With t_ij the seconds that job i has
 * left on type j, of which it needs k_i of the M_j devices, the seconds x_ij that it is to spend
 * there are those of
 *
 *   min T,  sum_j x_ij / t_ij = 1,  sum_j x_ij <= T  for each job,
 *           sum_i k_i x_ij <= T M_j  for each type,
 *
 * by which jobs of one device, stopped and moved at will, do all end at T (Lawler and Labetoulle,
 * On preemptive scheduling of unrelated parallel processors by linear programming, J. ACM 25,
 * 1978). A job that takes longer than T on its best type goes there for good, and the others are
 * divided as if it had ended at T: then they end as soon as they can, and what was thought of their
 * lengths may turn out wrong.
 *
 * x_ij / T is the job's share. It falls while the job runs and rises while it waits, so that who
 * has the largest shares runs (as in Narayanan et al., Heterogeneity-aware cluster scheduling
 * policies, OSDI 2020, but without rounds).
 *
 * Solved by columns made when they are needed (Dantzig and Wolfe, Decomposition principle for
 * linear programs, Operations Research 8, 1960): at prices for the types every job goes where it is
 * cheapest, which is a column; a simplex of as many rows as there are types makes prices of
 * columns. That is O(jobs x types) a step, of which few tens are taken; and again where jobs take
 * longer than T, with T of the first time as their limit. */
#pragma once

#include "scheduler/policy.h"

/* `seconds`: t_ij of each job of the snapshot on each type, INFINITY where it cannot run; out: the
 * shares. Returns T, 0 where no job can run. */
double share_out(const struct policy_snapshot *snapshot, double *seconds);
