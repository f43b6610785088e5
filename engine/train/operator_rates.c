/* operator_rates.c: see operator_rates.h. */
#include "engine/train/operator_rates.h"

#include "base/cleanup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char operator_kind_beside[] = "beside";

void operator_rates_release(struct operator_rates *rates)
{
    free(rates->entries);
    *rates = (struct operator_rates){0};
}

/* ---- how much two calls differ ---- */

/* Two calls count as one if their extents differ by less than this many octaves. */
#define ALIKE 0.1
/* How many octaves a differing word stands for: METHOD is how the device computes the operator,
 * DETAIL what it does along with it. */
#define METHOD 4.0
#define DETAIL 1.5
/* A weight is the density of a normal distribution with this deviation, in octaves. */
#define BANDWIDTH 1.2
/* The ridge: limits slopes if there are few measurements, as if this much had been seen of each. */
#define RIDGE 1.0

/* The length of the word at the beginning of the text. */
static size_t word_length(const char *text)
{
    return strcspn(text, " ");
}

static const char *next_word(const char *text)
{
    size_t length = word_length(text);

    return text + length + (text[length] == ' ');
}

static bool same_word(const char *a, const char *b)
{
    return word_length(a) == word_length(b) && strncmp(a, b, word_length(a)) == 0;
}

/* The distance, in octaves, between the words behind the operator's name. */
static double kind_distance(const char *a, const char *b)
{
    double distance = 0, penalty = METHOD;

    for (a = next_word(a), b = next_word(b); *a || *b; a = next_word(a), b = next_word(b)) {
        distance += same_word(a, b) ? 0 : penalty;
        penalty = DETAIL;
    }
    return distance;
}

static double distance_squared(const struct operator_call *a, const struct operator_call *b)
{
    double words = kind_distance(a->kind, b->kind), sum = words * words;

    for (int i = 0; i < OPERATOR_EXTENTS; i++) {
        double octaves = log2(a->extents[i] / b->extents[i]);

        sum += octaves * octaves;
    }
    return sum;
}

/* ---- the table ---- */

static int grow(struct operator_rates *rates, struct error *error)
{
    int capacity = rates->capacity ? 2 * rates->capacity : 64;
    struct operator_rate *grown =
        realloc(rates->entries, (size_t)capacity * sizeof *rates->entries);

    if (!grown)
        return error_set_errno(error, -ENOMEM, "cannot keep the rates of operators");
    rates->entries = grown;
    rates->capacity = capacity;
    return 0;
}

int operator_rates_add(struct operator_rates *rates, const struct operator_rate *entry,
                       struct error *error)
{
    int r;

    if (!(entry->call.work > 0) || !(entry->seconds > 0))
        return 0;
    for (int i = 0; i < rates->count; i++) {
        const struct operator_call *there = &rates->entries[i].call;

        if (strcmp(there->kind, entry->call.kind) == 0 &&
            distance_squared(there, &entry->call) < ALIKE * ALIKE)
            return 0;
    }
    if (rates->count == rates->capacity && (r = grow(rates, error)) < 0)
        return r;
    rates->entries[rates->count++] = *entry;
    return 0;
}

struct operator_call operator_call_beside(double seconds, double nodes, int lanes)
{
    /* seconds in nanoseconds: extents are at least 1 */
    struct operator_call call = {.extents = {lanes, 1 + seconds * 1e9, 1, nodes}, .work = seconds};

    snprintf(call.kind, sizeof call.kind, "%s", operator_kind_beside);
    return call;
}

int operator_rates_add_profile(struct operator_rates *rates, const struct profile *profile,
                               struct error *error)
{
    const struct graph *graph = profile->graph;
    AUTO_FREE struct profile_sum *nodes = NULL;
    struct profile_totals totals;
    double working = 0;
    int r = profile_sum_up(profile, &totals, error), busy = 0;

    nodes = totals.nodes;
    if (r < 0 || profile->run_count == 0)
        return r;
    for (int32_t i = 0; r == 0 && i < graph->node_count; i++) {
        struct node_description description;
        struct operator_rate entry;
        double repetitions;

        session_describe_node(profile->session, graph, i, &description);
        operator_call_describe(graph, i, &description, &entry.call, &repetitions);
        if (repetitions == 0 || nodes[i].nanoseconds == 0)
            continue;
        entry.seconds = (double)nodes[i].nanoseconds * 1e-9 / totals.lanes / profile->run_count;
        working += entry.seconds;
        busy++;
        entry.seconds /= repetitions;
        r = operator_rates_add(rates, &entry, error);
    }
    if (r == 0) {
        struct operator_rate beside = {
            .call = operator_call_beside(working, busy, totals.lanes),
            .seconds = (double)totals.nanoseconds * 1e-9 / profile->run_count - working};

        r = operator_rates_add(rates, &beside, error);
    }
    return r;
}

/* ---- predictions ---- */

/* Sums over the calls of one operator, weighted by how near they are to another call: of the
 * logarithm of seconds by work, and of the differences of the extents' logarithms. */
struct moments {
    double weight, rate, extents[OPERATOR_EXTENTS];
    double products[OPERATOR_EXTENTS][OPERATOR_EXTENTS], with_rate[OPERATOR_EXTENTS];
};

static void moments_add(struct moments *moments, const struct operator_rate *entry,
                        const struct operator_call *call, double weight)
{
    double rate = log(entry->seconds / entry->call.work), octaves[OPERATOR_EXTENTS];

    moments->weight += weight;
    moments->rate += weight * rate;
    for (int i = 0; i < OPERATOR_EXTENTS; i++) {
        octaves[i] = log2(entry->call.extents[i] / call->extents[i]);
        moments->extents[i] += weight * octaves[i];
        moments->with_rate[i] += weight * octaves[i] * rate;
        for (int k = 0; k <= i; k++)
            moments->products[i][k] += weight * octaves[i] * octaves[k];
    }
}

/* Solves a x = b in place by Cholesky's factorisation. a is symmetric and positive definite; its
 * lower half is given. */
static void solve(double a[OPERATOR_EXTENTS][OPERATOR_EXTENTS], double b[OPERATOR_EXTENTS])
{
    for (int i = 0; i < OPERATOR_EXTENTS; i++) {
        for (int k = 0; k <= i; k++) {
            for (int m = 0; m < k; m++)
                a[i][k] -= a[i][m] * a[k][m];
            a[i][k] = i == k ? sqrt(a[i][i]) : a[i][k] / a[k][k];
        }
        for (int k = 0; k < i; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (int i = OPERATOR_EXTENTS; i-- > 0;) {
        for (int k = i + 1; k < OPERATOR_EXTENTS; k++)
            b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
}

/* Fits a plane to the calls near the other call (local linear regression, with a ridge), and
 * returns its value there. */
static double fitted_rate(struct moments *moments)
{
    double slopes[OPERATOR_EXTENTS], rate = moments->rate / moments->weight;

    for (int i = 0; i < OPERATOR_EXTENTS; i++) {
        slopes[i] = moments->with_rate[i] - moments->extents[i] * rate;
        for (int k = 0; k <= i; k++)
            moments->products[i][k] -= moments->extents[i] * moments->extents[k] / moments->weight;
        moments->products[i][i] += RIDGE;
    }
    solve(moments->products, slopes);
    for (int i = 0; i < OPERATOR_EXTENTS; i++)
        rate -= slopes[i] * moments->extents[i] / moments->weight;
    return rate;
}

double operator_rates_seconds(const struct operator_rates *rates, const struct operator_call *call)
{
    struct moments moments = {0};
    double nearest = INFINITY;

    if (!(call->work > 0))
        return 0;
    for (int i = 0; i < rates->count; i++)
        if (same_word(rates->entries[i].call.kind, call->kind))
            nearest = fmin(nearest, distance_squared(&rates->entries[i].call, call));
    for (int i = 0; i < rates->count; i++) {
        const struct operator_rate *entry = &rates->entries[i];

        if (same_word(entry->call.kind, call->kind))
            moments_add(&moments, entry, call,
                        exp((nearest - distance_squared(&entry->call, call)) /
                            (2 * BANDWIDTH * BANDWIDTH)));
    }
    return moments.weight > 0 ? exp(fitted_rate(&moments)) * call->work : -1;
}
