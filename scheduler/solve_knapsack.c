/* solve_knapsack.c: the dynamic programme of solve.h.
 *
 * best[s] is the largest sum of values of the items so far if at most s_p devices of each pool p
 * are in use. State s is numbered in mixed radix, the last pool with stride 1. For each state and
 * item, one byte records the chosen option, so that the solution can be traced back. */
#include "scheduler/solve_internal.h"

#include <string.h>

/* The most options of an item that one byte can distinguish, besides "none". */
enum { MARKS_MAX = 254 };

/* The pools that options take devices from, renumbered. */
struct dimensions {
    int count;
    int capacity[SOLVE_POOLS_MAX];
    size_t stride[SOLVE_POOLS_MAX];
    int of_pool[SOLVE_POOLS_MAX];
};

static void find_dimensions(const struct solve_problem *problem, struct dimensions *dimensions)
{
    bool wanted[SOLVE_POOLS_MAX] = {false};

    for (size_t i = 0; i < problem->item_count; i++)
        for (int o = 0; o < problem->items[i].option_count; o++)
            for (int p = 0; p < problem->items[i].options[o].part_count; p++)
                wanted[problem->items[i].options[o].parts[p].pool] = true;
    dimensions->count = 0;
    for (int pool = 0; pool < problem->pool_count; pool++) {
        dimensions->of_pool[pool] = -1;
        if (!wanted[pool] || problem->capacity[pool] == 0)
            continue;
        dimensions->of_pool[pool] = dimensions->count;
        dimensions->capacity[dimensions->count++] = problem->capacity[pool];
    }
    for (size_t stride = 1, d = (size_t)dimensions->count; d-- > 0;) {
        dimensions->stride[d] = stride;
        stride *= (size_t)dimensions->capacity[d] + 1;
    }
}

size_t knapsack_states(const struct solve_problem *problem, size_t option_count)
{
    struct dimensions dimensions;
    size_t states = 1,
           steps = option_count > problem->item_count ? option_count : problem->item_count;

    for (size_t i = 0; i < problem->item_count; i++)
        if (problem->items[i].option_count > MARKS_MAX)
            return 0;
    find_dimensions(problem, &dimensions);
    for (int d = 0; d < dimensions.count; d++) {
        states *= (size_t)dimensions.capacity[d] + 1;
        if (states > SOLVE_STATES_MAX || states * (steps + 1) > SOLVE_WORK_MAX)
            return 0;
    }
    return states;
}

/* The tables of the dynamic programme. */
struct tables {
    double *best, *before; /* of each state, with the present item and without it */
    unsigned char *taken;  /* of each item and state: which option, from 1; 0: none */
};

static struct tables take_tables(struct workspace *workspace, size_t states, size_t item_count)
{
    struct tables tables;

    tables.best = workspace_take(workspace, states, sizeof *tables.best);
    tables.before = workspace_take(workspace, states, sizeof *tables.before);
    tables.taken = workspace_take(workspace, states, item_count);
    return tables;
}

size_t knapsack_workspace_size(size_t states, size_t item_count)
{
    struct workspace counted = {0};

    take_tables(&counted, states, item_count);
    return counted.taken;
}

size_t knapsack_workspace_size_max(size_t item_count, int device_count)
{
    /* a pool of n devices has n + 1 <= 2^n states, so all pools together have at most 2^devices */
    size_t states = device_count < 16 ? (size_t)1 << device_count : SOLVE_STATES_MAX;

    /* states * items is at most SOLVE_WORK_MAX, so fewer states are possible with many items. Each
     * part is bounded separately; both maxima cannot occur together */
    if (item_count > SOLVE_WORK_MAX / states)
        return knapsack_workspace_size(states, 0) + workspace_round(SOLVE_WORK_MAX);
    return knapsack_workspace_size(states, item_count);
}

/* Fills how many devices the option takes of each dimension; false: more than there are. */
static bool spread_option(const struct solve_option *option, const struct dimensions *dimensions,
                          int *use, size_t *offset)
{
    memset(use, 0, (size_t)dimensions->count * sizeof *use);
    *offset = 0;
    for (int p = 0; p < option->part_count; p++) {
        int d = dimensions->of_pool[option->parts[p].pool];

        if (d < 0)
            return false;
        use[d] += option->parts[p].count;
        *offset += option->parts[p].count * dimensions->stride[d];
        if (use[d] > dimensions->capacity[d])
            return false;
    }
    return true;
}

/* Improves states along the last dimension, where they are contiguous. */
static void improve_run(double *restrict best, const double *restrict before,
                        unsigned char *restrict taken, int count, double value, unsigned char mark)
{
    for (int i = 0; i < count; i++) {
        double sum = before[i] + value;
        bool better = sum > best[i];

        best[i] = better ? sum : best[i];
        taken[i] = better ? mark : taken[i];
    }
}

/* Improves all states that include the option's devices. It counts through all dimensions but the
 * last like an odometer. */
static void improve_states(const struct dimensions *dimensions, const int *use, size_t offset,
                           double *best, const double *before, unsigned char *taken, double value,
                           unsigned char mark)
{
    int last = dimensions->count - 1, digit[SOLVE_POOLS_MAX], d;
    size_t at = 0;

    for (d = 0; d < last; d++) {
        digit[d] = use[d];
        at += (size_t)use[d] * dimensions->stride[d];
    }
    at += (size_t)use[last];
    for (;;) {
        improve_run(best + at, before + at - offset, taken + at,
                    dimensions->capacity[last] - use[last] + 1, value, mark);
        for (d = last - 1; d >= 0 && digit[d] == dimensions->capacity[d]; d--) {
            at -= (size_t)(digit[d] - use[d]) * dimensions->stride[d];
            digit[d] = use[d];
        }
        if (d < 0)
            return;
        digit[d]++;
        at += dimensions->stride[d];
    }
}

void solve_knapsack(const struct solve_problem *problem, size_t states, struct workspace workspace)
{
    struct dimensions dimensions;
    int use[SOLVE_POOLS_MAX];
    struct tables tables = take_tables(&workspace, states, problem->item_count);
    size_t offset, state = states - 1;

    find_dimensions(problem, &dimensions);
    if (dimensions.count == 0)
        return;
    memset(tables.best, 0, states * sizeof *tables.best);
    memset(tables.taken, 0, states * problem->item_count);
    for (size_t i = 0; i < problem->item_count; i++) {
        const struct solve_item *item = &problem->items[i];

        memcpy(tables.before, tables.best, states * sizeof *tables.best);
        for (int o = 0; o < item->option_count; o++)
            if (spread_option(&item->options[o], &dimensions, use, &offset))
                improve_states(&dimensions, use, offset, tables.best, tables.before,
                               tables.taken + i * states, item->options[o].value,
                               (unsigned char)(o + 1));
    }
    for (size_t i = problem->item_count; i-- > 0;) {
        struct solve_item *item = &problem->items[i];

        item->chosen = tables.taken[i * states + state] - 1;
        if (item->chosen >= 0 &&
            spread_option(&item->options[item->chosen], &dimensions, use, &offset))
            state -= offset;
    }
}
