/* test_search_rules.c: which trials of a search go on, against tables worked out by hand. */
#include "daemon/work/search_rules.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TRIALS_MAX = 64 };

static struct search_table table;
static struct search_verdict verdicts[TRIALS_MAX];

static void begin(struct search search, size_t trials)
{
    search_table_release(&table);
    search_table_init(&table, &search, trials);
    for (size_t i = 0; i < trials; i++)
        table.trials[i].exists = true;
    table.complete = true;
}

/* A trial comes to its next rung. */
static void come(uint32_t trial, double value)
{
    struct search_result result = {.trial = trial, .value = value};

    result.rung = table.trials[trial].results;
    result.resource = search_rung_at(&table.search, result.rung);
    search_table_add(&table, &result);
}

static uint32_t best(void)
{
    uint32_t order[TRIALS_MAX];

    assert_true(search_rank(&table, order) > 0);
    return order[0];
}

static enum search_action judge(uint32_t trial)
{
    search_judge(&table, verdicts);
    return verdicts[trial].action;
}

/* Puts the verdicts in effect, and writes a letter for each trial: p(asses), w(aits), s(tops),
 * e(xploits), . (nothing, or it is at its end). */
static const char *apply(void)
{
    static char letters[TRIALS_MAX + 1];

    search_judge(&table, verdicts);
    for (uint32_t i = 0; i < table.trial_count; i++) {
        struct search_result *last = table.trials[i].results
                                         ? search_table_find(&table, i, table.trials[i].results - 1)
                                         : NULL;

        letters[i] = ".pwse."[verdicts[i].action];
        if (verdicts[i].action == SEARCH_PASS || verdicts[i].action == SEARCH_EXPLOIT)
            last->passed = true;
        if (verdicts[i].action == SEARCH_STOP)
            table.trials[i].ended = true;
    }
    letters[table.trial_count] = '\0';
    return letters;
}

static const struct search asha = {
    .algorithm = SEARCH_ASHA, .falls = true, .most = 9, .grace = 1, .reduction = 3};

/* The rungs of the paper's example: n = 9, r = 1, R = 9, eta = 3. */
static void rungs_multiply(void **state)
{
    struct search search = asha;

    (void)state;
    assert_int_equal(search_rungs(&search), 3);
    assert_true(search_rung_at(&search, 0) == 1 && search_rung_at(&search, 1) == 3);
    assert_true(search_rung_at(&search, 2) == 9);
    search.most = 10;
    assert_int_equal(search_rungs(&search), 4);
    assert_true(search_rung_at(&search, 3) == 10);
    search = (struct search){.algorithm = SEARCH_MEDIAN, .most = 5, .interval = 2};
    assert_int_equal(search_rungs(&search), 3);
    assert_true(search_rung_at(&search, 0) == 2 && search_rung_at(&search, 2) == 5);
    search.most = 0;
    assert_int_equal(search_rungs(&search), SEARCH_RUNGS_MAX);
}

/* Asynchronous promotion, one worker: whenever a third of a rung's results can be told, the best
 * third goes on, whoever is still to come. */
static void asha_promotes_without_waiting(void **state)
{
    (void)state;
    begin(asha, 9);
    come(0, 0.8);
    assert_string_equal(apply(), "w........");
    come(1, 0.5);
    assert_string_equal(apply(), "ww.......");
    come(2, 0.6); /* one of three goes on */
    assert_string_equal(apply(), "wpw......");
    come(3, 0.4); /* one of four: the new best takes the place in the third, and goes on, too */
    assert_string_equal(apply(), "w.wp.....");
    come(4, 0.9);
    come(5, 0.7); /* two of six: those that went on already */
    assert_string_equal(apply(), "w.w.ww...");
    come(1, 0.3); /* trials 1 and 3 come to rung 1 */
    come(3, 0.35);
    assert_string_equal(apply(), "wwwwww...");
    come(6, 0.55);
    come(7, 0.95);
    come(8, 0.45); /* three of nine: 3, 8, 1. The rung is full: the others end but for the next */
    assert_string_equal(apply(), "swswsswsp");
    come(8, 0.38); /* one of three: 1 */
    assert_string_equal(apply(), ".p.w..w.s");
    come(1, 0.2); /* at its end */
    assert_string_equal(apply(), "...w..w..");
    table.trials[1].ended = table.trials[1].done = true;
    assert_string_equal(apply(), "...s..s..");
    assert_int_equal(best(), 1);
}

static void asha_ends_with_a_winner(void **state)
{
    (void)state;
    begin(asha, 2); /* a third of two is none */
    come(0, 0.5);
    assert_string_equal(apply(), "w.");
    come(1, NAN);
    assert_string_equal(apply(), "ps");
    come(0, 0.4);
    assert_string_equal(apply(), "p.");

    begin(asha, 4); /* trials that fail keep nobody waiting */
    come(0, 0.5);
    come(1, 0.6);
    table.trials[2].ended = true;
    assert_string_equal(apply(), "ww..");
    table.trials[3].ended = true;
    assert_string_equal(apply(), "pw..");

    begin(asha, 3); /* nor do those that are still to be made, unless the search was cancelled */
    come(0, 0.5);
    table.trials[1].ended = true;
    table.trials[2].exists = false;
    table.complete = false;
    assert_string_equal(apply(), "w..");
    table.complete = true;
    assert_string_equal(apply(), "p..");

    begin(asha, 3); /* nothing is a number */
    for (uint32_t i = 0; i < 3; i++)
        come(i, NAN);
    assert_string_equal(apply(), "sss");
}

/* A leader that dies behind its rung leaves its place to the next one. */
static void the_dead_hold_no_place(void **state)
{
    struct search search = asha;
    uint32_t order[3];

    (void)state;
    search.reduction = 2;
    for (int kind = 0; kind < 3; kind++) {
        search.algorithm = kind == 2 ? SEARCH_HALVING : SEARCH_ASHA;
        search.stops_only = kind == 1;
        begin(search, 3);
        come(0, 0.1);
        assert_string_equal(apply(), kind == 1 ? "p.." : "w..");
        table.trials[0].ended = table.trials[0].failed = true;
        come(1, 0.5);
        come(2, 0.6);
        assert_string_equal(apply(), kind == 1 ? ".ps" : ".pw");
        assert_int_equal(best(), 1);
        assert_int_equal(search_rank(&table, order), 3);
        assert_true(order[0] == 1 && order[2] == 0);
        come(1, 0.7);
        assert_string_equal(apply(), kind == 1 ? ".p." : ".pw");
    }

    begin(search, 2); /* it has come further than all others */
    come(0, 0.1);
    come(0, 0.1);
    table.trials[0].ended = table.trials[0].failed = true;
    come(1, 0.5);
    assert_string_equal(apply(), ".p");
    assert_int_equal(best(), 1);
}

/* A leader that dies once the others were stopped leaves one that can take its place. */
static void the_next_best_stands_by(void **state)
{
    struct search search = asha;

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        search.algorithm = kind ? SEARCH_HALVING : SEARCH_ASHA;
        begin(search, 4);
        for (uint32_t i = 0; i < 4; i++)
            come(i, 0.1 * (i + 1));
        assert_string_equal(apply(), "pwss");
        assert_string_equal(apply(), ".w..");
        come(0, 0.05);
        assert_string_equal(apply(), "pw..");
        table.trials[0].ended = table.trials[0].failed = true;
        assert_string_equal(apply(), ".p..");
        come(1, 0.15);
        assert_string_equal(apply(), ".p..");
    }

    begin(search, 4); /* nobody stands by once a trial is done */
    for (uint32_t i = 0; i < 3; i++)
        come(i, 0.1 * (i + 1));
    table.trials[0].ended = table.trials[0].done = true;
    table.trials[3].ended = true;
    assert_string_equal(apply(), ".ss.");
}

/* Trials that came to their end before they left their device, as a rung had asked them to, go on:
 * nothing else would ever let them. */
static void who_came_to_the_end_goes_on(void **state)
{
    static const enum search_algorithm algorithms[] = {SEARCH_ASHA, SEARCH_HALVING,
                                                       SEARCH_POPULATION};

    (void)state;
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        begin((struct search){.algorithm = algorithms[i],
                              .grace = 1,
                              .reduction = 4,
                              .most = 4,
                              .interval = 3,
                              .quantile = 0.25},
              2);
        assert_int_equal(search_rungs(&table.search), 2);
        come(0, 0.1);
        come(0, 0.1); /* the second trial has measured nothing yet */
        assert_int_equal(judge(0), SEARCH_FINISH);
        search_table_find(&table, 0, 1)->passed = true;
        assert_int_equal(judge(0), SEARCH_NOTHING);
        search_table_find(&table, 0, 1)->passed = false;
        table.trials[0].ended = true;
        assert_int_equal(judge(0), SEARCH_NOTHING);
    }
}

static void equal_values_go_by_arrival(void **state)
{
    (void)state;
    begin(asha, 6);
    for (uint32_t i = 6; i-- > 0;)
        come(i, 0.5);
    assert_string_equal(apply(), "ssswpp");
}

/* Trials that cannot pause: who is below the cut when it comes ends at once. */
static void asha_stops_what_cannot_pause(void **state)
{
    struct search search = asha;
    char text[256];

    (void)state;
    search.stops_only = true;
    search.falls = false;
    strcpy(search.metric, "accuracy");
    begin(search, 6);
    come(0, 0.5);
    assert_string_equal(apply(), "p.....");
    come(1, 0.4);
    search_judge(&table, verdicts);
    search_describe_stop(&table, 1, &verdicts[1], text, sizeof text);
    assert_string_equal(
        text, "stopped early by the search at epoch 1: accuracy 0.4, the rung's cut is 0.5");
    assert_string_equal(apply(), ".s....");
    come(2, 0.6);
    assert_string_equal(apply(), "..p...");
    come(0, 0.7); /* at rung 1 */
    assert_string_equal(apply(), "p.....");
    come(2, 0.65);
    assert_string_equal(apply(), "..s...");
}

/* Successive halving decides when a rung is full; failures take part as the worst. */
static void halving_waits(void **state)
{
    struct search search = asha;

    (void)state;
    search.algorithm = SEARCH_HALVING;
    begin(search, 9);
    for (uint32_t i = 0; i < 7; i++)
        come(i, 0.1 * (i + 1));
    assert_string_equal(apply(), "wwwwwww..");
    table.trials[7].ended = true;
    assert_string_equal(apply(), "wwwwwww..");
    come(8, 0.05);
    assert_string_equal(apply(), "ppwssss.p");
    come(8, 0.3);
    come(1, 0.1);
    assert_string_equal(apply(), ".ww.....w");
    come(0, 0.2);
    assert_string_equal(apply(), "wpw.....s");
}

/* Of five courses the running means up to step 2 are 0.5, 0.6, 0.7, 0.8, 0.9: the median is 0.7. */
static void median_stops_the_worse_half(void **state)
{
    struct search search = {
        .algorithm = SEARCH_MEDIAN, .most = 10, .interval = 1, .grace = 2, .least_trials = 5};

    (void)state;
    begin(search, 7);
    for (uint32_t i = 0; i < 5; i++) {
        come(i, 0.4 + 0.1 * i);
        come(i, 0.6 + 0.1 * i);
    }
    come(5, 0.1); /* before the grace period nobody is stopped */
    assert_string_equal(apply(), "pppppp.");
    come(5, 0.69);
    assert_int_equal(judge(5), SEARCH_STOP);
    assert_true(fabs(verdicts[5].cut - 0.7) < 1e-12);
    assert_string_equal(apply(), ".....s.");
    come(6, 0.7); /* its best value counts, and only what is worse than the median ends */
    come(6, 0.2);
    /* with 5's mean, 0.395, the median of six is 0.65 */
    assert_string_equal(apply(), "......p");
}

static int compare_means(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;

    return (a > b) - (a < b);
}

/* The median of the others' means up to the trial's last rung, by the definition. */
static double median_by_definition(uint32_t trial)
{
    uint32_t rungs = table.trials[trial].results;
    double means[TRIALS_MAX];
    size_t others = 0;

    for (uint32_t i = 0; i < table.trial_count; i++) {
        if (i == trial || table.trials[i].results < rungs)
            continue;
        means[others] = 0;
        for (uint32_t rung = 0; rung < rungs; rung++)
            means[others] += search_table_find(&table, i, rung)->value / rungs;
        others++;
    }
    assert_true(others > 0);
    qsort(means, others, sizeof *means, compare_means);
    return 0.5 * (means[(others - 1) / 2] + means[others / 2]);
}

static void medians_are_those_of_the_definition(void **state)
{
    struct search search = {
        .algorithm = SEARCH_MEDIAN, .most = 100, .interval = 1, .grace = 1, .least_trials = 1};
    uint32_t bits = 1;

    (void)state;
    begin(search, 7);
    for (uint32_t i = 0; i < 2 * table.trial_count; i++)
        come(i % 7, i % 3); /* equal ones, too */
    for (int i = 0; i < 100; i++) {
        uint32_t trial = (bits = bits * 1664525 + 1013904223) >> 8;

        come(trial % 7, (trial >> 8) % 5);
        search_judge(&table, verdicts);
        for (uint32_t t = 0; t < table.trial_count; t++)
            if (verdicts[t].action != SEARCH_NOTHING && !isnan(verdicts[t].cut))
                assert_true(fabs(verdicts[t].cut - median_by_definition(t)) < 1e-9);
    }
}

static void median_needs_others(void **state)
{
    struct search search = {
        .algorithm = SEARCH_MEDIAN, .interval = 1, .grace = 1, .least_trials = 2};

    (void)state;
    begin(search, 3);
    come(0, 0.9);
    come(1, 0.1);
    assert_string_equal(apply(), "pp.");
    come(2, 0.2);
    assert_string_equal(apply(), "..s");
}

/* The worst quarter of eight goes on from trials of the best quarter, once all have come. */
static void population_copies_the_best(void **state)
{
    struct search search = {
        .algorithm = SEARCH_POPULATION, .most = 4, .interval = 2, .quantile = 0.25, .seed = 3};

    (void)state;
    begin(search, 8);
    for (uint32_t i = 0; i < 7; i++)
        come(i, 0.1 * i);
    assert_string_equal(apply(), "wwwwwww.");
    come(7, 0.05);
    search_judge(&table, verdicts);
    assert_true(verdicts[0].donor == 6 || verdicts[0].donor == 5);
    assert_true(verdicts[7].donor == 6 || verdicts[7].donor == 5);
    assert_string_equal(apply(), "eppppppe");
    come(3, 0.9); /* at their end they are judged no more */
    assert_string_equal(apply(), "........");
}

/* Trials that ran on while traind was down give no checkpoints: theirs lie beyond the rung. */
static void population_leaves_out_who_ran_on(void **state)
{
    struct search search = {
        .algorithm = SEARCH_POPULATION, .most = 6, .interval = 2, .quantile = 0.25, .seed = 3};

    (void)state;
    for (uint32_t ahead = 5; ahead < 7; ahead++) {
        begin(search, 8);
        for (uint32_t i = 0; i < 8; i++)
            come(i, 0.1 * i);
        for (uint32_t i = 6; i <= ahead; i++)
            come(i, 0.1 * i);
        come(7, 0.8);
        come(7, 0.9);
        table.trials[7].ended = true;
        search_judge(&table, verdicts);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(verdicts[i].action, ahead == 5 ? SEARCH_EXPLOIT : SEARCH_PASS);
            assert_true(ahead == 6 || verdicts[i].donor == 6);
        }
        assert_string_equal(apply(), ahead == 5 ? "eeppppp." : "ppppppw.");
    }
}

static void nobody_is_judged_without_an_algorithm(void **state)
{
    struct search search = {.algorithm = SEARCH_NONE, .most = 4, .interval = 1};
    uint32_t order[3];

    (void)state;
    begin(search, 3);
    come(0, 0.9);
    come(1, 0.1);
    come(1, 0.2);
    assert_string_equal(apply(), "...");
    assert_int_equal(search_rank(&table, order), 2); /* who came further goes first */
    assert_true(order[0] == 1 && order[1] == 0);
}

static int release(void **state)
{
    (void)state;
    search_table_release(&table);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rungs_multiply),
        cmocka_unit_test(asha_promotes_without_waiting),
        cmocka_unit_test(asha_ends_with_a_winner),
        cmocka_unit_test(the_dead_hold_no_place),
        cmocka_unit_test(the_next_best_stands_by),
        cmocka_unit_test(equal_values_go_by_arrival),
        cmocka_unit_test(asha_stops_what_cannot_pause),
        cmocka_unit_test(halving_waits),
        cmocka_unit_test(median_stops_the_worse_half),
        cmocka_unit_test(medians_are_those_of_the_definition),
        cmocka_unit_test(median_needs_others),
        cmocka_unit_test(who_came_to_the_end_goes_on),
        cmocka_unit_test(population_copies_the_best),
        cmocka_unit_test(population_leaves_out_who_ran_on),
        cmocka_unit_test(nobody_is_judged_without_an_algorithm),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
