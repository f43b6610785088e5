/* solve_exchange.c: the heuristic of solve.h for problems that are too large for the dynamic
 * programme. First it takes options in the order of their value per device, as long as they fit.
 * Then it makes exchanges while the sum grows: an option comes in, items of the least value per
 * device make room, and items without a place take what is free. */
#include "scheduler/solve_internal.h"

#include <stdlib.h>
#include <string.h>

enum { EXCHANGE_ROUNDS = 4 };

struct exchange {
    const struct solve_problem *problem;
    int *free_devices; /* of each pool */
    int *trial_chosen, *trial_free;
    int *order;      /* items, the most valuable per device first */
    double *density; /* that value per device, of each item */
    int *chosen;     /* the option that each item has so far */
};

static struct exchange take_exchange(struct workspace *workspace, size_t item_count,
                                     size_t pool_count)
{
    struct exchange exchange = {0};

    exchange.free_devices = workspace_take(workspace, pool_count, sizeof *exchange.free_devices);
    exchange.trial_free = workspace_take(workspace, pool_count, sizeof *exchange.trial_free);
    exchange.order = workspace_take(workspace, item_count, sizeof *exchange.order);
    exchange.trial_chosen = workspace_take(workspace, item_count, sizeof *exchange.trial_chosen);
    exchange.chosen = workspace_take(workspace, item_count, sizeof *exchange.chosen);
    exchange.density = workspace_take(workspace, item_count, sizeof *exchange.density);
    return exchange;
}

size_t exchange_workspace_size(size_t item_count, int pool_count)
{
    struct workspace counted = {0};

    take_exchange(&counted, item_count, (size_t)pool_count);
    return counted.taken;
}

static bool option_fits(const struct solve_option *option, const int *free_devices)
{
    for (int p = 0; p < option->part_count; p++)
        if (free_devices[option->parts[p].pool] < option->parts[p].count)
            return false;
    return true;
}

static void option_book(const struct solve_option *option, int *free_devices, int sign)
{
    for (int p = 0; p < option->part_count; p++)
        free_devices[option->parts[p].pool] -= sign * option->parts[p].count;
}

static int compare_densities(const void *a, const void *b, void *densities)
{
    const double *density = densities;
    int left = *(const int *)a, right = *(const int *)b;

    if (density[left] != density[right])
        return density[left] > density[right] ? -1 : 1;
    return left - right;
}

/* Gives every item without a place its best option that fits. Returns the sum of values gained. */
static double fill_free(const struct exchange *exchange, int *chosen, int *free_devices)
{
    double won = 0;

    for (size_t i = 0; i < exchange->problem->item_count; i++) {
        int index = exchange->order[i], best = -1;
        const struct solve_item *item = &exchange->problem->items[index];

        for (int o = 0; chosen[index] < 0 && o < item->option_count; o++)
            if (option_fits(&item->options[o], free_devices) &&
                (best < 0 || item->options[o].value > item->options[best].value))
                best = o;
        if (best < 0)
            continue;
        chosen[index] = best;
        option_book(&item->options[best], free_devices, 1);
        won += item->options[best].value;
    }
    return won;
}

static bool option_touches(const struct solve_option *option, const struct solve_option *other)
{
    for (int a = 0; a < option->part_count; a++)
        for (int b = 0; b < other->part_count; b++)
            if (option->parts[a].pool == other->parts[b].pool)
                return true;
    return false;
}

/* Chooses option `o` for the item in a copy, and pushes out the least valuable items there. Keeps
 * the copy if the sum of values grew. */
static bool try_exchange(const struct exchange *exchange, int *chosen, int index, int o)
{
    const struct solve_problem *problem = exchange->problem;
    const struct solve_option *option = &problem->items[index].options[o];
    double won = option->value;

    memcpy(exchange->trial_chosen, chosen, problem->item_count * sizeof *chosen);
    memcpy(exchange->trial_free, exchange->free_devices, (size_t)problem->pool_count * sizeof(int));
    if (chosen[index] >= 0) {
        option_book(&problem->items[index].options[chosen[index]], exchange->trial_free, -1);
        won -= problem->items[index].options[chosen[index]].value;
    }
    exchange->trial_chosen[index] = -1;
    for (size_t i = problem->item_count; i-- > 0 && !option_fits(option, exchange->trial_free);) {
        int other = exchange->order[i], taken = exchange->trial_chosen[other];

        if (taken < 0 || !option_touches(option, &problem->items[other].options[taken]))
            continue;
        option_book(&problem->items[other].options[taken], exchange->trial_free, -1);
        won -= problem->items[other].options[taken].value;
        exchange->trial_chosen[other] = -1;
    }
    if (!option_fits(option, exchange->trial_free))
        return false;
    exchange->trial_chosen[index] = o;
    option_book(option, exchange->trial_free, 1);
    won += fill_free(exchange, exchange->trial_chosen, exchange->trial_free);
    if (won <= option->value * 1e-9)
        return false;
    memcpy(chosen, exchange->trial_chosen, problem->item_count * sizeof *chosen);
    memcpy(exchange->free_devices, exchange->trial_free, (size_t)problem->pool_count * sizeof(int));
    return true;
}

static void order_items(const struct solve_problem *problem, int *order, double *density)
{
    for (size_t i = 0; i < problem->item_count; i++) {
        const struct solve_item *item = &problem->items[i];

        order[i] = (int)i;
        density[i] = 0;
        for (int o = 0; o < item->option_count; o++)
            if (item->options[o].value / item->size > density[i])
                density[i] = item->options[o].value / item->size;
    }
    qsort_r(order, problem->item_count, sizeof *order, compare_densities, density);
}

void solve_by_exchange(const struct solve_problem *problem, struct workspace workspace)
{
    size_t count = problem->item_count, pools = (size_t)problem->pool_count;
    struct exchange exchange = take_exchange(&workspace, count, pools);
    bool improved = true;

    exchange.problem = problem;
    memcpy(exchange.free_devices, problem->capacity, pools * sizeof(int));
    order_items(problem, exchange.order, exchange.density);
    for (size_t i = 0; i < count; i++)
        exchange.chosen[i] = -1;
    fill_free(&exchange, exchange.chosen, exchange.free_devices);
    for (int round = 0; round < EXCHANGE_ROUNDS && improved; round++) {
        improved = false;
        for (size_t i = 0; i < count; i++)
            for (int o = 0; o < problem->items[exchange.order[i]].option_count; o++)
                if (exchange.chosen[exchange.order[i]] != o &&
                    try_exchange(&exchange, exchange.chosen, exchange.order[i], o))
                    improved = true;
    }
    for (size_t i = 0; i < count; i++)
        problem->items[i].chosen = exchange.chosen[i];
}
