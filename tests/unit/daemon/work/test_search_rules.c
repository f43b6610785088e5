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

/* ---- what a search is told ------------------------------------------------------------------- */

static struct json_object *parse(const char *text)
{
    struct json_object *object = NULL;

    if (json_parse(text, strlen(text), &object, NULL) < 0)
        fail_msg("%s", text);
    return object;
}

static void bad_searches_are_refused(void **state)
{
    static const struct {
        const char *members, *words;
    } cases[] = {
        {"\"trials\":2", "search.metric: it must name the metric"},
        {"\"metric\":\"a\"", "search.trials: how many"},
        {"\"metric\":\"a\",\"trials\":0", "search.trials"},
        {"\"metric\":\"a\",\"trials\":1e9", "search.trials"},
        {"\"metric\":\"a\",\"trials\":2,\"reduction_factor\":1", "from 2 to 1000"},
        {"\"metric\":\"a\",\"trials\":2,\"max_epochs\":4,\"grace_period\":4", "below max_epochs"},
        {"\"metric\":\"a\",\"trials\":2,\"max_epochs\":4,\"max_steps\":4", "either"},
        {"\"metric\":\"a\",\"trials\":2,\"mode\":\"up\"", "search.mode: it is min"},
        {"\"metric\":\"a\",\"trials\":2,\"sampler\":\"bayes\"", "random, grid, sobol, tpe"},
        {"\"metric\":\"a\",\"trials\":2,\"algorithm\":7", "asha"},
        {"\"metric\":\"a\",\"trials\":2,\"interval\":1", "asha has no such key"},
        {"\"metric\":\"a\",\"trials\":2,\"grace\":1", "there is no such key; a search has"},
        {"\"metric\":\"a\",\"trials\":2,\"sampler\":\"grid\"", "leave it out"},
        {"\"metric\":\"a\",\"trials\":2,\"seed\":-1", "search.seed"},
        {"\"metric\":\"a\",\"trials\":2,\"scramble\":1", "search.scramble"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *object = NULL;
        struct job_spec_fault fault = {0};
        struct search search;
        struct error error = {0};
        char text[256];

        snprintf(text, sizeof text, "{%s}", cases[i].members);
        object = parse(text);
        assert_int_equal(search_read(object, &search, &fault, &error), -EINVAL);
        if (!strstr(error.text, cases[i].words))
            fail_msg("%s: %s", text, error.text);
        assert_true(strncmp(fault.path, "sweep.search", 12) == 0);
    }
}

#define NATIVE                                                                               \
    "{\"model\":{\"name\":\"mlp\"},\"data\":{\"train\":{\"format\":\"csv\",\"path\":\"x\"}," \
    "\"validation_fraction\":0.1},\"train\":{%s}%s}"

static int complete(const char *search_text, const char *spec_text, struct json_object **search,
                    struct json_object **spec, struct error *error)
{
    json_object_put(*search);
    json_object_put(*spec);
    *search = parse(search_text);
    *spec = parse(spec_text);
    return search_complete(*search, *spec, json_get_int(*search, "trials", 0), NULL, error);
}

static void native_trials_complete_a_search(void **state)
{
    JSON_AUTO struct json_object *search = NULL, *spec = NULL;
    struct error error = {0};
    char text[512];

    (void)state;
    snprintf(text, sizeof text, NATIVE, "\"epochs\":9", "");
    assert_int_equal(
        complete("{\"metric\":\"validation_loss\",\"trials\":2}", text, &search, &spec, &error), 0);
    assert_string_equal(json_get_string(search, "mode", ""), "min");
    assert_int_equal(json_get_int(search, "max_epochs", 0), 9);
    assert_string_equal(json_get_string(json_get(spec, "checkpoint"), "best", ""),
                        "validation_loss");
    snprintf(text, sizeof text, NATIVE, "", "");
    assert_int_equal(complete("{\"metric\":\"validation_accuracy\",\"trials\":2,\"max_steps\":60,"
                              "\"grace_period\":5}",
                              text, &search, &spec, &error),
                     0);
    assert_string_equal(json_get_string(search, "mode", ""), "max");
    assert_int_equal(json_get_int(json_get(spec, "train"), "max_steps", 0), 60);
    assert_string_equal(json_get_string(json_get(spec, "train"), "evaluate_every", ""), "5 steps");
    assert_int_equal(
        complete("{\"metric\":\"validation_acuracy\",\"trials\":2}", text, &search, &spec, &error),
        -EINVAL);
    assert_non_null(strstr(error.text, "search.metric"));
    assert_non_null(strstr(error.text, "validation_accuracy")); /* the nearest */
    snprintf(text, sizeof text, NATIVE, "\"epochs\":9", "");
    assert_int_equal(complete("{\"metric\":\"validation_loss\",\"trials\":2,\"max_epochs\":8}",
                              text, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "train.epochs is 9"));
    snprintf(text, sizeof text, NATIVE, "", ",\"checkpoint\":{\"best\":\"validation_accuracy\"}");
    assert_int_equal(
        complete("{\"metric\":\"validation_loss\",\"trials\":2}", text, &search, &spec, &error),
        -EINVAL);
    assert_non_null(strstr(error.text, "checkpoint.best"));
}

static void commands_say_more(void **state)
{
    static const char plain[] = "{\"command\":[\"x\"]}";
    static const char saves[] = "{\"command\":[\"x\"],\"preemptible\":true}";
    JSON_AUTO struct json_object *search = NULL, *spec = NULL;
    struct error error = {0};

    (void)state;
    assert_int_equal(complete("{\"metric\":\"a\",\"trials\":2}", plain, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "search.mode"));
    assert_int_equal(
        complete("{\"metric\":\"a\",\"trials\":2,\"mode\":\"min\"}", plain, &search, &spec, &error),
        -EINVAL);
    assert_non_null(strstr(error.text, "max_epochs"));
    assert_int_equal(complete("{\"metric\":\"a\",\"trials\":2,\"mode\":\"min\",\"max_steps\":9,"
                              "\"algorithm\":\"successive_halving\"}",
                              plain, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "preemptible"));
    assert_int_equal(complete("{\"metric\":\"a\",\"trials\":2,\"mode\":\"min\",\"max_steps\":9,"
                              "\"algorithm\":\"successive_halving\"}",
                              saves, &search, &spec, &error),
                     0);
    assert_true(search_trials_pause(spec));
}

static void results_are_bounded(void **state)
{
    static const char saves[] = "{\"command\":[\"x\"],\"preemptible\":true}";
#define LONG "\"metric\":\"a\",\"mode\":\"min\",\"max_steps\":9991,\"trials\":2000"
    JSON_AUTO struct json_object *search = NULL, *spec = NULL;
    struct search unknown = {.algorithm = SEARCH_MEDIAN, .interval = 1, .trials = 2000};
    struct error error = {0};
    char text[512];

    (void)state;
    assert_int_equal(complete("{\"algorithm\":\"pbt\",\"space\":{\"environment.Q\":[1,2]}," LONG
                              "}",
                              saves, &search, &spec, &error),
                     0);
    assert_int_equal(json_get_int(search, "interval", 0), 200);
    assert_int_equal(complete("{\"algorithm\":\"none\",\"interval\":199," LONG "}", saves, &search,
                              &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "an interval of 200 or more"));
    assert_int_equal(complete("{\"algorithm\":\"none\",\"interval\":200," LONG "}", saves, &search,
                              &spec, &error),
                     0);
    assert_int_equal(complete("{\"algorithm\":\"none\"," LONG "}", saves, &search, &spec, &error),
                     0);
    assert_int_equal(json_get_int(search, "interval", 0), 200);
    assert_int_equal(complete("{\"metric\":\"a\",\"mode\":\"min\",\"max_steps\":1000000,"
                              "\"trials\":10000}",
                              saves, &search, &spec, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "search.grace_period"));
    snprintf(text, sizeof text, NATIVE, "\"epochs\":1000", "");
    assert_int_equal(complete("{\"algorithm\":\"median\",\"metric\":\"validation_loss\","
                              "\"trials\":1000}",
                              text, &search, &spec, &error),
                     0);
    assert_int_equal(json_get_int(search, "interval", 0), 10);
    assert_int_equal(complete("{\"algorithm\":\"none\",\"metric\":\"validation_loss\","
                              "\"trials\":1000,\"max_steps\":10000}",
                              "{\"model\":{\"name\":\"mlp\"},\"data\":{\"train\":{\"format\":"
                              "\"csv\",\"path\":\"x\"},\"validation_fraction\":0.1}}",
                              &search, &spec, &error),
                     0);
    assert_string_equal(json_get_string(json_get(spec, "train"), "evaluate_every", ""),
                        "100 steps");
    assert_int_equal(search_rungs(&unknown), 50);
#undef LONG
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
        cmocka_unit_test(results_are_bounded),
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
        cmocka_unit_test(bad_searches_are_refused),
        cmocka_unit_test(native_trials_complete_a_search),
        cmocka_unit_test(commands_say_more),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
