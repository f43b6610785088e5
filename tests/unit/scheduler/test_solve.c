/* test_solve.c: the exact algorithms of solve() compared with trying all combinations, and the
 * promises of the inexact one. */
#include "base/philox.h"
#include "scheduler/solve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ITEMS_MAX = 7, OPTIONS_MAX = 4, POOLS = 3 };

struct case_ {
    struct solve_option options[ITEMS_MAX * OPTIONS_MAX];
    struct solve_item items[ITEMS_MAX];
    int capacity[POOLS];
    struct solve_problem problem;
};

static int draw_below(uint64_t seed, int *count, int limit)
{
    uint64_t index = (uint64_t)(*count)++;

    return (int)(philox_draw(seed, philox_stream(PHILOX_TEST, 5), index).word[0] % (uint32_t)limit);
}

static void make_case(struct case_ *this, uint64_t seed, int size_max)
{
    int draws = 0;

    memset(this, 0, sizeof *this);
    for (int p = 0; p < POOLS; p++)
        this->capacity[p] = draw_below(seed, &draws, 4);
    for (int i = 0; i < ITEMS_MAX; i++) {
        struct solve_option *options = &this->options[i * OPTIONS_MAX];
        int size = 1 + draw_below(seed, &draws, size_max), count = 0;

        for (int p = 0; p < POOLS; p++) {
            if (draw_below(seed, &draws, 4) == 0)
                continue;
            /* few different values, so that ties are frequent */
            options[count] = (struct solve_option){.value = 1 + draw_below(seed, &draws, 9),
                                                   .part_count = 1,
                                                   .parts = {{(uint16_t)p, (uint16_t)size}}};
            if (size > 1 && p + 1 < POOLS && draw_below(seed, &draws, 2)) {
                options[count].part_count = 2;
                options[count].parts[0].count = 1;
                options[count].parts[1] =
                    (struct solve_part){(uint16_t)(p + 1), (uint16_t)(size - 1)};
            }
            count++;
        }
        this->items[i] =
            (struct solve_item){.options = options, .option_count = count, .size = size};
    }
    this->problem = (struct solve_problem){.items = this->items,
                                           .item_count = ITEMS_MAX,
                                           .capacity = this->capacity,
                                           .pool_count = POOLS};
}

/* The largest sum from item `index` on, found by trying all combinations. */
static double best_by_trying(const struct case_ *this, int index, int *free_devices)
{
    double best, value;

    if (index == ITEMS_MAX)
        return 0;
    best = best_by_trying(this, index + 1, free_devices);
    for (int o = 0; o < this->items[index].option_count; o++) {
        const struct solve_option *option = &this->items[index].options[o];
        bool fits = true;

        for (int p = 0; p < option->part_count; p++)
            fits &= free_devices[option->parts[p].pool] >= option->parts[p].count;
        if (!fits)
            continue;
        for (int p = 0; p < option->part_count; p++)
            free_devices[option->parts[p].pool] -= option->parts[p].count;
        value = option->value + best_by_trying(this, index + 1, free_devices);
        for (int p = 0; p < option->part_count; p++)
            free_devices[option->parts[p].pool] += option->parts[p].count;
        if (value > best)
            best = value;
    }
    return best;
}

/* The sum of the chosen options; fails if they use more than there is. */
static double chosen_sum(const struct case_ *this)
{
    int left[POOLS];
    double sum = 0;

    memcpy(left, this->capacity, sizeof left);
    for (int i = 0; i < ITEMS_MAX; i++) {
        const struct solve_option *option;

        if (this->items[i].chosen < 0)
            continue;
        option = &this->items[i].options[this->items[i].chosen];
        sum += option->value;
        for (int p = 0; p < option->part_count; p++)
            left[option->parts[p].pool] -= option->parts[p].count;
    }
    for (int p = 0; p < POOLS; p++)
        assert_true(left[p] >= 0);
    return sum;
}

static void check_exact(int size_max)
{
    static char memory[1 << 20];
    size_t size = solve_workspace_size(ITEMS_MAX, POOLS, 3 * POOLS);

    assert_true(size <= sizeof memory);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct case_ this;
        bool exact;
        double best;

        make_case(&this, seed, size_max);
        best = best_by_trying(&this, 0, this.capacity);
        memset(memory, (int)seed, size);
        solve(&this.problem, (struct workspace){memory, size, 0}, &exact);
        assert_true(exact);
        if (chosen_sum(&this) != best)
            fail_msg("seed %d: %g instead of %g", (int)seed, chosen_sum(&this), best);
    }
}

static void assignment_is_exact(void **state)
{
    (void)state;
    check_exact(1);
}

static void knapsack_is_exact(void **state)
{
    (void)state;
    check_exact(3);
}

/* With more states than the dynamic programme takes, the result is feasible and no worse than a
 * greedy one. */
static void large_problems_are_approached(void **state)
{
    enum { LARGE = 60, LARGE_POOLS = 20 };
    struct solve_option options[LARGE * 2];
    struct solve_item items[LARGE];
    int capacity[LARGE_POOLS], left[LARGE_POOLS], draws = 0;
    struct solve_problem problem = {items, LARGE, capacity, LARGE_POOLS};
    size_t size = solve_workspace_size(LARGE, LARGE_POOLS, LARGE_POOLS * 2);
    char *memory = malloc(size);
    double sum = 0, greedy = 0;
    bool exact;

    (void)state;
    for (int p = 0; p < LARGE_POOLS; p++)
        capacity[p] = left[p] = 2;
    for (int i = 0; i < LARGE; i++) {
        for (int o = 0; o < 2; o++)
            options[i * 2 + o] =
                (struct solve_option){.value = 1 + draw_below(7, &draws, 1000),
                                      .part_count = 1,
                                      .parts = {{(uint16_t)draw_below(7, &draws, LARGE_POOLS), 2}}};
        items[i] = (struct solve_item){.options = &options[i * 2], .option_count = 2, .size = 2};
    }
    solve(&problem, (struct workspace){memory, size, 0}, &exact);
    assert_false(exact);
    for (int i = 0; i < LARGE; i++)
        for (int o = 0; o < 2; o++)
            if (left[options[i * 2 + o].parts[0].pool] == 2) {
                left[options[i * 2 + o].parts[0].pool] = 0;
                greedy += options[i * 2 + o].value;
                break;
            }
    for (int p = 0; p < LARGE_POOLS; p++)
        left[p] = 2;
    for (int i = 0; i < LARGE; i++)
        if (items[i].chosen >= 0) {
            sum += items[i].options[items[i].chosen].value;
            left[items[i].options[items[i].chosen].parts[0].pool] -= 2;
        }
    for (int p = 0; p < LARGE_POOLS; p++)
        assert_true(left[p] >= 0);
    assert_true(sum > greedy);
    free(memory);
}

/* With too little memory the result is not exact; without memory there is none. */
static void too_little_memory(void **state)
{
    struct case_ this;
    _Alignas(16) char memory[1024];
    bool exact;

    (void)state;
    make_case(&this, 3, 3);
    this.capacity[0] = this.capacity[1] = this.capacity[2] = 3;
    solve(&this.problem, (struct workspace){memory, sizeof memory, 0}, &exact);
    assert_false(exact);
    assert_true(chosen_sum(&this) > 0);
    solve(&this.problem, (struct workspace){memory, 64, 0}, &exact);
    assert_false(exact);
    assert_true(chosen_sum(&this) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignment_is_exact),
        cmocka_unit_test(knapsack_is_exact),
        cmocka_unit_test(large_problems_are_approached),
        cmocka_unit_test(too_little_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
