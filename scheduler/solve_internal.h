/* solve_internal.h: the two solvers of solve() for items that take several devices. */
#pragma once

#include "scheduler/solve.h"

/* States of the dynamic programme: the product of (capacity + 1) over the pools that
 * some option uses. 0 if they exceed SOLVE_STATES_MAX, or if states x options or items
 * exceed SOLVE_WORK_MAX. */
size_t knapsack_states(const struct solve_problem *problem, size_t option_count);
/* Bytes of workspace for these numbers of states and items. */
size_t knapsack_workspace_size(size_t states, size_t item_count);
/* Bytes of workspace for any problem with these numbers of items and devices whose
 * knapsack_states() are not 0. */
size_t knapsack_workspace_size_max(size_t item_count, int device_count);
void solve_knapsack(const struct solve_problem *problem, size_t states, struct workspace workspace);

size_t exchange_workspace_size(size_t item_count, int pool_count);
void solve_by_exchange(const struct solve_problem *problem, struct workspace workspace);
