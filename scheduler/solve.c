/* solve.c: see solve.h. */
#include "scheduler/solve.h"

#include "scheduler/solve_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- single devices: augmenting paths over the pools ----------------------------------------- */

/* The best way to put one more item into a pool. Either `item` enters from outside, or `item` moves
 * over from the pool `from`, where a path one step shorter puts another item in its place. */
struct path_step {
    double gain;
    int from; /* a pool; -1: the item enters; -2: the step of the layer before holds */
    int item; /* -1: there is no such path */
    int option;
};

static double chosen_value(const struct solve_item *item)
{
    return item->chosen < 0 ? 0 : item->options[item->chosen].value;
}

/* First layer: for each pool, the best item that has no place yet. */
static void find_entering(const struct solve_problem *problem, struct path_step *steps)
{
    for (int pool = 0; pool < problem->pool_count; pool++)
        steps[pool] = (struct path_step){.from = -1, .item = -1};
    for (size_t i = 0; i < problem->item_count; i++) {
        const struct solve_item *item = &problem->items[i];

        for (int o = 0; item->chosen < 0 && o < item->option_count; o++) {
            struct path_step *step = &steps[item->options[o].parts[0].pool];

            if (item->options[o].value > step->gain)
                *step = (struct path_step){item->options[o].value, -1, (int)i, o};
        }
    }
}

/* Fills exchange[from * pools + to]: the best item to move from one pool to the other. */
static void find_exchanges(const struct solve_problem *problem, struct path_step *exchange)
{
    int pools = problem->pool_count;

    for (int i = 0; i < pools * pools; i++)
        exchange[i].item = -1;
    for (size_t i = 0; i < problem->item_count; i++) {
        const struct solve_item *item = &problem->items[i];
        int from = item->chosen < 0 ? -1 : item->options[item->chosen].parts[0].pool;

        for (int o = 0; from >= 0 && o < item->option_count; o++) {
            int to = item->options[o].parts[0].pool;
            struct path_step *step = &exchange[from * pools + to];
            double gain = item->options[o].value - chosen_value(item);

            if (to != from && (step->item < 0 || gain > step->gain))
                *step = (struct path_step){gain, from, (int)i, o};
        }
    }
}

/* Extends the paths by one step per layer. An improvement within rounding does not count, or paths
 * would form cycles. Returns the number of layers. */
static int extend_paths(int pools, struct path_step *layers, const struct path_step *exchange)
{
    int layer = 1;

    for (bool improved = true; improved && layer < pools; layer++) {
        const struct path_step *before = layers + (size_t)(layer - 1) * (size_t)pools;
        struct path_step *now = layers + (size_t)layer * (size_t)pools;

        improved = false;
        for (int to = 0; to < pools; to++) {
            now[to] = before[to];
            now[to].from = -2; /* the step of the layer before holds */
            for (int from = 0; from < pools; from++) {
                const struct path_step *step = &exchange[from * pools + to];
                double gain = before[from].gain + step->gain;

                if (from == to || step->item < 0 || before[from].item < 0 ||
                    gain <= now[to].gain * (1 + 1e-12))
                    continue;
                now[to] = (struct path_step){gain, from, step->item, step->option};
                improved = true;
            }
        }
    }
    return layer;
}

static void apply_path(const struct solve_problem *problem, const struct path_step *layers,
                       int layer, int pool)
{
    while (layer >= 0) {
        const struct path_step *step =
            &layers[(size_t)layer * (size_t)problem->pool_count + (size_t)pool];

        layer--;
        if (step->from == -2)
            continue;
        problem->items[step->item].chosen = step->option;
        if (step->from == -1)
            return;
        pool = step->from;
    }
}

struct paths {
    struct path_step *exchange; /* of each pair of pools */
    struct path_step *layers;   /* extend_paths() makes no more than there are pools */
    int *free_devices;          /* of each pool */
};

static struct paths take_paths(struct workspace *workspace, size_t pools)
{
    struct paths paths;

    paths.exchange = workspace_take(workspace, pools * pools, sizeof *paths.exchange);
    paths.layers = workspace_take(workspace, pools * (pools + 1), sizeof *paths.layers);
    paths.free_devices = workspace_take(workspace, pools, sizeof *paths.free_devices);
    return paths;
}

static size_t paths_workspace_size(int pool_count)
{
    struct workspace counted = {0};

    take_paths(&counted, (size_t)pool_count);
    return counted.taken;
}

static void solve_assignment(const struct solve_problem *problem, struct workspace workspace)
{
    size_t pools = (size_t)problem->pool_count;
    struct paths paths = take_paths(&workspace, pools);

    memcpy(paths.free_devices, problem->capacity, pools * sizeof *paths.free_devices);
    for (;;) {
        const struct path_step *last;
        int layer, best = -1;

        find_entering(problem, paths.layers);
        find_exchanges(problem, paths.exchange);
        layer = extend_paths(problem->pool_count, paths.layers, paths.exchange) - 1;
        last = paths.layers + (size_t)layer * pools;
        for (int pool = 0; pool < problem->pool_count; pool++)
            if (paths.free_devices[pool] > 0 && last[pool].item >= 0 && last[pool].gain > 0 &&
                (best < 0 || last[pool].gain > last[best].gain))
                best = pool;
        if (best < 0)
            return;
        apply_path(problem, paths.layers, layer, best);
        paths.free_devices[best]--;
    }
}

/* ---- choice of the method -------------------------------------------------------------------- */

static size_t count_options(const struct solve_problem *problem)
{
    size_t count = 0;

    for (size_t i = 0; i < problem->item_count; i++)
        count += (size_t)problem->items[i].option_count;
    return count;
}

static bool only_single(const struct solve_problem *problem)
{
    for (size_t i = 0; i < problem->item_count; i++)
        if (problem->items[i].size != 1)
            return false;
    return true;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The memory of each method grows with its arguments, so the largest problem's give a bound. */
size_t solve_workspace_size(size_t item_count, int pool_count, int device_count)
{
    return larger(paths_workspace_size(pool_count),
                  larger(knapsack_workspace_size_max(item_count, device_count),
                         exchange_workspace_size(item_count, pool_count)));
}

void solve(const struct solve_problem *problem, struct workspace workspace, bool *exact)
{
    size_t states, left = workspace_left(&workspace);

    *exact = true;
    for (size_t i = 0; i < problem->item_count; i++)
        problem->items[i].chosen = -1;
    if (only_single(problem) && paths_workspace_size(problem->pool_count) <= left) {
        solve_assignment(problem, workspace);
        return;
    }
    states = knapsack_states(problem, count_options(problem));
    if (states && knapsack_workspace_size(states, problem->item_count) <= left) {
        solve_knapsack(problem, states, workspace);
        return;
    }
    *exact = false;
    if (exchange_workspace_size(problem->item_count, problem->pool_count) <= left)
        solve_by_exchange(problem, workspace);
}
