/* solve.h: chooses the options of jobs that together have the largest value, within the devices of
 * each pool.
 *
 * A pool is a set of devices that no job can tell apart. An item (a job) takes one of its options
 * or none. An option takes devices from one pool, or from a few pools of one type.
 *
 * If every item takes one device, this is an assignment problem. Longest augmenting paths on the
 * graph of pools solve it exactly: a path moves items from pool to pool and adds one item. That
 * costs O(devices x (items x pools + pools^3)). Larger items make it a knapsack problem with a
 * dimension for each pool. A dynamic programme over the devices in use solves it exactly within
 * SOLVE_STATES_MAX states and SOLVE_WORK_MAX steps. Beyond them, a greedy choice by value per
 * device is improved by exchanges. */
#pragma once

#include "scheduler/workspace.h"

#include <stdbool.h>

enum {
    SOLVE_PARTS_MAX = 4,
    SOLVE_POOLS_MAX = 513,
    SOLVE_STATES_MAX = 1 << 16,
    SOLVE_WORK_MAX = 1 << 24 /* states x options: some 20 ms */
};

struct solve_part {
    uint16_t pool, count;
};

struct solve_option {
    double value; /* > 0 */
    int16_t type, part_count;
    bool stays;
    struct solve_part parts[SOLVE_PARTS_MAX];
};

struct solve_item {
    const struct solve_option *options;
    int option_count, size; /* `size`: devices that each option takes */
    int chosen;             /* result: index of an option, -1: none */
};

struct solve_problem {
    struct solve_item *items;
    size_t item_count;
    const int *capacity; /* devices of each pool */
    int pool_count;
};

/* Bytes of workspace for any problem with at most these numbers of items, pools, and devices in the
 * pools. */
size_t solve_workspace_size(size_t item_count, int pool_count, int device_count);

/* Fills in `chosen` of all items; earlier items win ties. `exact` says whether the sum is the
 * largest possible. In a workspace that is smaller than solve_workspace_size(), exchanges replace
 * the exact solution. If there is no room for exchanges either, no item is chosen. */
void solve(const struct solve_problem *problem, struct workspace workspace, bool *exact);
