/* solve.h: which options of which jobs together are worth most, where pools of devices are limited.
 *
 * A pool is a set of devices that no job can tell apart. An item (a job) takes one of its options
 * or none; an option takes devices from one pool, or from a few of one type.
 *
 * Items of one device each are an assignment problem: solved exactly by longest augmenting paths on
 * the graph of pools (a path moves items from pool to pool and brings one in), in O(devices x
 * (items x pools + pools^3)). With larger items it is a knapsack with a dimension for each pool:
 * solved exactly by a dynamic programme over the devices in use of each pool, where that takes no
 * more than SOLVE_STATES_MAX states and SOLVE_WORK_MAX steps; else by the best of value per device,
 * improved by exchanges. */
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
    int option_count, size; /* devices that each option takes */
    int chosen;             /* out: index of an option, -1: none */
};

struct solve_problem {
    struct solve_item *items;
    size_t item_count;
    const int *capacity; /* devices of each pool */
    int pool_count;
};

/* Bytes of workspace for any problem of so many items, pools, and devices in them, or less. */
size_t solve_workspace_size(size_t item_count, int pool_count, int device_count);

/* Fills in `chosen` of all items; earlier items win ties. `exact` says whether the sum is the
 * largest possible. With less workspace than solve_workspace_size() says, the way that fits in it
 * is taken: exchanges in place of an exact one, and where there is none for these, nobody is
 * chosen. */
void solve(const struct solve_problem *problem, struct workspace workspace, bool *exact);
