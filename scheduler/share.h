/* share.h: divides the devices' time among the jobs so that the last of them ends early.
 *
 * If only the end of the last job counts (the makespan), no job is worth more than another. The
 * remaining time is divided so that all jobs fit into it. Job i has t_ij seconds left on type j,
 * and needs k_i of the M_j devices of that type. The seconds x_ij that it should spend there solve
 *
 *   min T,  sum_j x_ij / t_ij = 1,  sum_j x_ij <= T  for each job,
 *           sum_i k_i x_ij <= T M_j  for each type,
 *
 * Jobs of one device each that may be stopped and moved at will then all end at T (Lawler and
 * Labetoulle, On preemptive scheduling of unrelated parallel processors by linear programming, J.
 * ACM 25, 1978). A job that takes longer than T on its best type stays on that type. The others are
 * divided as if it ended at T, so that they end early too: predicted lengths may be wrong.
 *
 * x_ij / T is the job's share. It falls while the job runs and rises while the job waits. The jobs
 * with the largest shares run (as in Narayanan et al., Heterogeneity-aware cluster scheduling
 * policies, OSDI 2020, but without rounds).
 *
 * The solver generates columns when they are needed (Dantzig and Wolfe, Decomposition principle for
 * linear programs, Operations Research 8, 1960). Given a price for each type, every job goes to its
 * cheapest type, which makes a column. A simplex method with one row for each type turns columns
 * into new prices. A step costs O(jobs x types), and some tens of steps suffice. If a job takes
 * longer than T, the programme is solved once more with the first T as that job's limit. */
#pragma once

#include "scheduler/policy.h"

/* `seconds` holds t_ij for each job of the snapshot and each type, INFINITY if it cannot run there.
 * It is overwritten with the shares. Returns T, or 0 if no job can run. */
double share_out(const struct policy_snapshot *snapshot, double *seconds);
