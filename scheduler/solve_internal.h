/* solve_internal.h: the ways of solve() for items of several devices. */
#pragma once

#include "scheduler/solve.h"

/* States of the dynamic programme: the product of (capacity + 1) over the pools that anybody wants;
 * 0 when they are beyond SOLVE_STATES_MAX, or beyond SOLVE_WORK_MAX times options or items. */
size_t knapsack_states(const struct solve_problem *problem, size_t option_count);
/* Bytes for so many states and items. */
size_t knapsack_workspace_size(size_t states, size_t item_count);
/* Bytes for any problem of so many items, and devices in its pools, that has knapsack_states(). */
size_t knapsack_workspace_size_max(size_t item_count, int device_count);
void solve_knapsack(const struct solve_problem *problem, size_t states, struct workspace workspace);

size_t exchange_workspace_size(size_t item_count, int pool_count);
void solve_by_exchange(const struct solve_problem *problem, struct workspace workspace);
