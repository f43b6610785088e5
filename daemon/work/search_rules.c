/* search_rules.c: see search_rules.h. */
#include "daemon/work/search_rules.h"

#include "base/memory.h"
#include "base/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void search_table_init(struct search_table *table, const struct search *search, size_t trials)
{
    *table = (struct search_table){.search = *search,
                                   .trials = memory_zero(trials * sizeof *table->trials),
                                   .trial_count = trials};
}

void search_table_release(struct search_table *table)
{
    free(table->trials);
    free(table->results);
    *table = (struct search_table){0};
}

void search_table_add(struct search_table *table, const struct search_result *result)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 64;
        table->results = memory_grow(table->results, table->capacity * sizeof *table->results);
    }
    if (result->rung + 1 > table->trials[result->trial].results) {
        table->trials[result->trial].results = result->rung + 1;
        table->trials[result->trial].last = table->count;
    }
    table->results[table->count++] = *result;
}

struct search_result *search_table_find(const struct search_table *table, uint32_t trial,
                                        uint32_t rung)
{
    if (table->trials[trial].results == rung + 1)
        return &table->results[table->trials[trial].last];
    for (size_t i = table->count; i-- > 0;)
        if (table->results[i].trial == trial && table->results[i].rung == rung)
            return &table->results[i];
    return NULL;
}

/* ---- order ----------------------------------------------------------------------------------- */

bool search_is_better(const struct search *search, double a, double b)
{
    if (isnan(a) || isnan(b))
        return !isnan(a) && isnan(b);
    return search->falls ? a < b : a > b;
}

static int compare_results(const void *first, const void *second, void *data)
{
    const struct search_result *const *a = first, *const *b = second;
    const struct search_table *table = data;
    const struct search *search = &table->search;
    bool a_failed = table->trials[(*a)->trial].failed, b_failed = table->trials[(*b)->trial].failed;

    if (a_failed != b_failed)
        return a_failed ? 1 : -1;
    if (search_is_better(search, (*a)->value, (*b)->value))
        return -1;
    if (search_is_better(search, (*b)->value, (*a)->value))
        return 1;
    return (*a > *b) - (*a < *b); /* the earlier one */
}

static int compare_reached(const void *first, const void *second, void *data)
{
    const struct search_result *const *a = first, *const *b = second;
    const struct search_table *table = data;
    bool equal = table->trials[(*a)->trial].failed == table->trials[(*b)->trial].failed;

    if (equal && (*a)->rung != (*b)->rung)
        return (*a)->rung > (*b)->rung ? -1 : 1;
    return compare_results(first, second, data);
}

size_t search_rank(const struct search_table *table, uint32_t *order)
{
    const struct search_result **last = memory_zero((table->count + 1) * sizeof *last);
    size_t count = 0;

    for (size_t i = 0; i < table->count; i++)
        if (table->results[i].rung + 1 == table->trials[table->results[i].trial].results)
            last[count++] = &table->results[i];
    qsort_r(last, count, sizeof *last, compare_reached, (void *)table);
    for (size_t i = 0; i < count; i++)
        order[i] = last[i]->trial;
    free(last);
    return count;
}

/* ---- rungs ----------------------------------------------------------------------------------- */

/* A rung with its results, the best first. */
struct rung {
    const struct search_result **results; /* of the ladder */
    size_t count, failed;                 /* those that failed come last */
    size_t entered;                       /* trials that came, or will come, or ended on the way */
    bool closed;                          /* no more results can come */
};

/* All results by their rungs. A command may have thousands of rungs, most of which nobody has come
 * to: those are not looked at. */
struct ladder {
    const struct search_result **results; /* owned */
    size_t *first;                        /* owned; of each rung, and one more */
    uint32_t rungs;                       /* to which a trial has come */
};

static void ladder_make(const struct search_table *table, struct ladder *ladder)
{
    size_t *next;

    ladder->rungs = 0;
    for (size_t i = 0; i < table->trial_count; i++)
        if (table->trials[i].results > ladder->rungs)
            ladder->rungs = table->trials[i].results;
    ladder->results = memory_zero((table->count + 1) * sizeof *ladder->results);
    ladder->first = memory_zero(((size_t)ladder->rungs + 1) * sizeof *ladder->first);
    next = memory_zero(((size_t)ladder->rungs + 1) * sizeof *next);
    for (size_t i = 0; i < table->count; i++)
        ladder->first[table->results[i].rung + 1]++;
    for (uint32_t i = 0; i < ladder->rungs; i++) {
        ladder->first[i + 1] += ladder->first[i];
        next[i] = ladder->first[i];
    }
    for (size_t i = 0; i < table->count; i++)
        ladder->results[next[table->results[i].rung]++] = &table->results[i];
    free(next);
}

static void ladder_free(struct ladder *ladder)
{
    free(ladder->results);
    free(ladder->first);
}

/* Takes the results of a rung in the order in which they came. */
static void rung_take(const struct ladder *ladder, uint32_t number, struct rung *rung)
{
    rung->results = ladder->results + ladder->first[number];
    rung->count = ladder->first[number + 1] - ladder->first[number];
}

static void rung_collect(const struct search_table *table, const struct ladder *ladder,
                         uint32_t number, struct rung *rung)
{
    rung_take(ladder, number, rung);
    rung->failed = 0;
    for (size_t i = 0; i < rung->count; i++)
        rung->failed += table->trials[rung->results[i]->trial].failed;
    qsort_r(rung->results, rung->count, sizeof *rung->results, compare_results, (void *)table);
}

/* Whether the trial waits for a verdict on this result. */
static bool result_is_open(const struct search_table *table, const struct search_result *result)
{
    const struct search_trial *trial = &table->trials[result->trial];

    return !trial->ended && !result->passed && trial->results == result->rung + 1;
}

static bool rung_is_settled(const struct search_table *table, const struct rung *rung)
{
    for (size_t i = 0; i < rung->count; i++)
        if (result_is_open(table, rung->results[i]))
            return false;
    return true;
}

/* Whether the trial may still come to the rung that follows `below`, or to the first one if that is
 * NULL. */
static bool trial_may_come(const struct search_table *table, uint32_t trial, uint32_t number)
{
    const struct search_trial *state = &table->trials[trial];

    return !state->ended && state->results <= number && (state->exists || !table->complete);
}

/* Finds out how many trials enter the rung and whether all have come. Those that wait below a
 * closed rung's cut never come. */
static void rung_count(const struct search_table *table, uint32_t number, const struct rung *below,
                       size_t below_passed, struct rung *rung)
{
    rung->closed = !below || below->closed;
    if (!below) {
        rung->entered = table->trial_count;
        for (uint32_t i = 0; i < table->trial_count && rung->closed; i++)
            rung->closed = !trial_may_come(table, i, number);
        return;
    }
    rung->entered = 0;
    for (size_t i = 0; i < below->count; i++) {
        uint32_t trial = below->results[i]->trial;
        bool passes = below->results[i]->passed || i < below_passed ||
                      table->trials[trial].results > number; /* it was faster than the verdict */

        rung->entered += passes;
        if (passes && trial_may_come(table, trial, number))
            rung->closed = false;
    }
}

/* How many of the rung's best go on. */
static size_t rung_passes(const struct search *search, const struct rung *rung)
{
    size_t passes = (size_t)floor((double)rung->count / search->reduction + 1e-9), sound;

    if (search->algorithm == SEARCH_HALVING)
        passes = rung->closed ? (size_t)floor((double)rung->entered / search->reduction + 1e-9) : 0;
    if ((rung->closed || search->stops_only) && passes == 0)
        passes = 1; /* a search ends with a trial that ran to its end */
    sound = rung->count - rung->failed;
    return passes < sound ? passes : sound;
}

static bool one_is_done(const struct search_table *table)
{
    for (size_t i = 0; i < table->trial_count; i++)
        if (table->trials[i].done)
            return true;
    return false;
}

/* A trial ends at the last rung by itself. One that came there before it left its device, as an
 * earlier rung had asked it to, has nothing to wait for any more. */
static void judge_last(const struct search_table *table, uint32_t last,
                       struct search_verdict *verdicts)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct search_result *result = &table->results[i];

        if (result->rung == last && !result->passed && !table->trials[result->trial].ended)
            verdicts[result->trial] = (struct search_verdict){SEARCH_FINISH, last, 0, NAN};
    }
}

/* Where a rung is closed, the best of those that do not go on waits until any trial is done: if
 * those that went on fail, it takes their place. The others are stopped. */
static void rung_judge(const struct search_table *table, uint32_t number, const struct rung *rung,
                       size_t passes, struct search_verdict *verdicts)
{
    bool stops = rung->closed || table->search.stops_only;
    bool keeps_one = !table->search.stops_only && !one_is_done(table);

    for (size_t i = 0; i < rung->count; i++) {
        const struct search_result *result = rung->results[i];
        struct search_verdict *verdict = &verdicts[result->trial];

        if (!result_is_open(table, result))
            continue;
        verdict->rung = number;
        verdict->cut = passes > 0 ? rung->results[passes - 1]->value : NAN;
        verdict->action = SEARCH_WAIT;
        if (i < passes && !isnan(result->value))
            verdict->action = SEARCH_PASS;
        else if (stops && (!keeps_one || isnan(result->value)))
            verdict->action = SEARCH_STOP;
        else if (stops)
            keeps_one = false;
    }
}

/* Asynchronous and synchronous successive halving. */
static void judge_halving(const struct search_table *table, struct search_verdict *verdicts)
{
    uint32_t last = search_rungs(&table->search) - 1;
    struct rung below = {0}, rung = {0};
    size_t below_passed = 0;
    struct ladder ladder;

    ladder_make(table, &ladder);
    for (uint32_t number = 0; number < last && number < ladder.rungs; number++) {
        size_t passes;

        rung_collect(table, &ladder, number, &rung);
        rung_count(table, number, number ? &below : NULL, below_passed, &rung);
        passes = rung_passes(&table->search, &rung);
        rung_judge(table, number, &rung, passes, verdicts);
        below = rung;
        below_passed = passes;
    }
    judge_last(table, last, verdicts);
    ladder_free(&ladder);
}

/* ---- the median stopping rule ---------------------------------------------------------------- */

static int compare_numbers(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;

    return (a > b) - (a < b);
}

/* What a trial has reported up to a rung. */
struct course {
    double sum, best;
    size_t count;
};

static void courses_add(const struct search *search, const struct rung *rung,
                        struct course *courses)
{
    for (size_t i = 0; i < rung->count; i++) {
        double value = rung->results[i]->value;
        struct course *course = &courses[rung->results[i]->trial];

        if (isnan(value))
            continue;
        if (course->count == 0 || search_is_better(search, value, course->best))
            course->best = value;
        course->sum += value;
        course->count++;
    }
}

/* Fills in the mean values of all trials that have come to the rung, ascending. */
static size_t means_fill(const struct rung *rung, const struct course *courses, double *means)
{
    size_t count = 0;

    for (size_t i = 0; i < rung->count; i++) {
        const struct course *course = &courses[rung->results[i]->trial];

        if (course->count > 0)
            means[count++] = course->sum / (double)course->count;
    }
    qsort(means, count, sizeof *means, compare_numbers);
    return count;
}

/* The median of sorted means without the one at `left_out`, which may be behind the last. */
static double median_without(const double *means, size_t others, size_t left_out)
{
    size_t high = others / 2, low = others % 2 ? high : high - 1;

    high += high >= left_out;
    low += low >= left_out;
    return low == high ? means[low] : 0.5 * (means[low] + means[high]);
}

/* Where the value is, or would be, among the sorted ones. */
static size_t place_of(const double *sorted, size_t count, double value)
{
    size_t from = 0;

    while (count > 0) {
        size_t half = count / 2;

        if (sorted[from + half] < value) {
            from += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return from;
}

/* Stops the trial if its best value is worse than the median of the other trials' mean values up to
 * the same rung. Vizier compares with trials that have completed; here, as in Ray Tune, all count
 * that have come as far. */
static void median_judge(const struct search *search, const struct search_result *result,
                         const struct course *course, const double *means, size_t count,
                         struct search_verdict *verdict)
{
    size_t others = course->count > 0 ? count - 1 : count, left_out = count;

    *verdict = (struct search_verdict){SEARCH_PASS, result->rung, 0, NAN};
    if (search_rung_at(search, result->rung) < search->grace ||
        others < (size_t)search->least_trials)
        return;
    if (course->count > 0)
        left_out = place_of(means, count, course->sum / (double)course->count);
    verdict->cut = median_without(means, others, left_out);
    if (course->count == 0 || search_is_better(search, verdict->cut, course->best))
        verdict->action = SEARCH_STOP;
}

static void judge_medians(const struct search_table *table, struct search_verdict *verdicts)
{
    struct course *courses = memory_zero(table->trial_count * sizeof *courses);
    double *means = memory_zero(table->trial_count * sizeof *means);
    uint32_t last = search_rungs(&table->search) - 1;
    struct rung rung = {0};
    struct ladder ladder;

    ladder_make(table, &ladder);
    for (uint32_t number = 0; number < last && number < ladder.rungs; number++) {
        size_t count;

        rung_take(&ladder, number, &rung);
        courses_add(&table->search, &rung, courses);
        if (rung_is_settled(table, &rung))
            continue;
        count = means_fill(&rung, courses, means);
        for (size_t i = 0; i < rung.count; i++)
            if (result_is_open(table, rung.results[i]))
                median_judge(&table->search, rung.results[i], &courses[rung.results[i]->trial],
                             means, count, &verdicts[rung.results[i]->trial]);
    }
    ladder_free(&ladder);
    free(courses);
    free(means);
}

/* ---- population based training --------------------------------------------------------------- */

/* Chooses one of the rung's `best` trials to go on from. Only those count whose newest checkpoint
 * can be that of the rung: a trial that ran on while traind was down has been trained for longer.
 * Returns whether there is one. */
static bool donor_draw(const struct search_table *table, const struct rung *rung, size_t best,
                       uint32_t trial, struct search_verdict *verdict)
{
    uint32_t number = verdict->rung;
    struct philox bits =
        philox_draw(table->search.seed, philox_stream(PHILOX_SEARCH, number), trial);
    size_t count = 0, drawn;

    for (size_t i = 0; i < best; i++)
        count += table->trials[rung->results[i]->trial].results == number + 1;
    if (count == 0)
        return false;
    drawn = bits.word[0] % count;
    for (size_t i = 0; i < best; i++) {
        verdict->donor = rung->results[i]->trial;
        if (table->trials[verdict->donor].results == number + 1 && drawn-- == 0)
            break;
    }
    return true;
}

/* Once all trials have come to a rung, each of the worst goes on from the checkpoint of one of the
 * best. This is the synchronous form of the paper's appendix A.1, so what happens depends on the
 * seed alone. */
static void population_judge(const struct search_table *table, uint32_t number,
                             const struct rung *rung, struct search_verdict *verdicts)
{
    const struct search *search = &table->search;
    size_t exchanged = (size_t)ceil((double)rung->count * search->quantile);

    if (exchanged > rung->count / 2)
        exchanged = rung->count / 2;
    for (size_t i = 0; i < rung->count; i++) {
        const struct search_result *result = rung->results[i];
        struct search_verdict *verdict = &verdicts[result->trial];

        if (!result_is_open(table, result))
            continue;
        *verdict = (struct search_verdict){SEARCH_WAIT, number, 0, NAN};
        if (!rung->closed)
            continue;
        verdict->action = SEARCH_PASS;
        if (i >= rung->count - exchanged &&
            donor_draw(table, rung, exchanged, result->trial, verdict))
            verdict->action = SEARCH_EXPLOIT;
    }
}

static void judge_population(const struct search_table *table, struct search_verdict *verdicts)
{
    uint32_t last = search_rungs(&table->search) - 1;
    struct rung below = {0}, rung = {0};
    struct ladder ladder;

    ladder_make(table, &ladder);
    for (uint32_t number = 0; number < last && number < ladder.rungs; number++) {
        rung_take(&ladder, number, &rung);
        rung_count(table, number, number ? &below : NULL, below.count, &rung);
        if (!rung_is_settled(table, &rung)) { /* most rungs are */
            rung_collect(table, &ladder, number, &rung);
            population_judge(table, number, &rung, verdicts);
        }
        below = rung;
    }
    judge_last(table, last, verdicts);
    ladder_free(&ladder);
}

/* ---- all ------------------------------------------------------------------------------------- */

void search_judge(const struct search_table *table, struct search_verdict *verdicts)
{
    for (size_t i = 0; i < table->trial_count; i++)
        verdicts[i] = (struct search_verdict){.action = SEARCH_NOTHING, .cut = NAN};
    switch (table->search.algorithm) {
    case SEARCH_ASHA:
    case SEARCH_HALVING:
        judge_halving(table, verdicts);
        break;
    case SEARCH_MEDIAN:
        judge_medians(table, verdicts);
        break;
    case SEARCH_POPULATION:
        judge_population(table, verdicts);
        break;
    case SEARCH_NONE:
        break;
    }
}

void search_describe_stop(const struct search_table *table, uint32_t trial,
                          const struct search_verdict *verdict, char *text, size_t size)
{
    const struct search *search = &table->search;
    const struct search_result *result = search_table_find(table, trial, verdict->rung);
    int used = snprintf(text, size, "stopped early by the search at %s %.6g: %s ",
                        search_unit(search), result ? result->resource : 0, search->metric);

    if (result && isnan(result->value))
        used += snprintf(text + used, size - (size_t)used, "is not a number");
    else if (result)
        used += snprintf(text + used, size - (size_t)used, "%.6g", result->value);
    if (!isnan(verdict->cut))
        snprintf(text + used, size - (size_t)used,
                 search->algorithm == SEARCH_MEDIAN
                     ? ", the median of the others' means up to there is %.6g"
                     : ", the rung's cut is %.6g",
                 verdict->cut);
}
