/* solve_internal.h: the ways of solve() for items of several devices. */
#pragma once

#include "scheduler/solve.h"

/* States of the dynamic programme: the product of (capacity + 1) over the pools that anybody wants;
 * 0 when they are beyond SOLVE_STATES_MAX, or beyond SOLVE_WORK_MAX times options. */
size_t knapsack_states(const struct solve_problem *problem, size_t option_count);
size_t knapsack_workspace_size(size_t item_count, size_t option_count, int device_count);
int solve_knapsack(const struct solve_problem *problem, size_t states, struct workspace workspace);

size_t exchange_workspace_size(size_t item_count, int pool_count);
int solve_by_exchange(const struct solve_problem *problem, struct workspace workspace);
