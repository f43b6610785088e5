/* length_buckets.c: see length_buckets.h. */
#include "engine/data/length_buckets.h"

#include "base/cleanup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Lengths among which the buckets are chosen; where samples have more, some are left out. */
enum { CANDIDATES_MAX = 512 };

struct candidates {
    int count;
    int64_t steps[CANDIDATES_MAX + 1];   /* ascending; steps[0] is 0 */
    int64_t samples[CANDIDATES_MAX + 1]; /* that are at most as long */
};

static int64_t length_of(const struct dataset_view *view, int64_t place)
{
    return dataset_sample_length(view->dataset, dataset_view_index(view, place));
}

/* ---- choosing ---- */

/* Lists the lengths that occur, and that of the set's samples last. */
static int candidates_list(const struct dataset_view *view, struct candidates *candidates,
                           struct error *error)
{
    int64_t longest = view->dataset->shape[0], distinct = 0, met = 0, samples = 0;
    AUTO_FREE int64_t *counts = calloc((size_t)longest + 1, sizeof *counts);

    if (!counts)
        return error_set_errno(error, -ENOMEM, "cannot count the lengths of the sequences");
    for (int64_t i = 0; i < view->count; i++)
        counts[length_of(view, i)]++;
    for (int64_t length = 1; length < longest; length++)
        distinct += counts[length] > 0;
    *candidates = (struct candidates){.count = 1};
    for (int64_t length = 1; length <= longest; length++) {
        int64_t before = met * (CANDIDATES_MAX - 1) / (distinct + 1);

        samples += counts[length];
        met += counts[length] > 0 && length < longest;
        /* every one of them, or evenly spread ones if there are more */
        if (length < longest &&
            (!counts[length] || (distinct >= CANDIDATES_MAX - 1 &&
                                 met * (CANDIDATES_MAX - 1) / (distinct + 1) == before)))
            continue;
        candidates->steps[candidates->count] = length;
        candidates->samples[candidates->count++] = samples;
    }
    return 0;
}

/* cost[k][j]: the fewest steps of all samples up to candidate j in k + 1 buckets, the last of which
 * is j; from[k][j] is the bucket before it. */
struct division {
    double cost[LENGTH_BUCKETS_MAX][CANDIDATES_MAX + 1];
    int from[LENGTH_BUCKETS_MAX][CANDIDATES_MAX + 1];
};

static void divide(const struct candidates *candidates, int wanted, int64_t least,
                   struct division *division)
{
    int last = candidates->count - 1;

    for (int k = 0; k < wanted; k++)
        for (int j = 1; j <= last; j++) {
            division->cost[k][j] = HUGE_VAL;
            for (int i = 0; i < (k ? j : 1); i++) {
                int64_t samples = candidates->samples[j] - candidates->samples[i];
                double before = k == 0 ? 0 : i == 0 ? HUGE_VAL : division->cost[k - 1][i];
                double cost = before + (double)samples * (double)candidates->steps[j];

                if ((samples < least && j < last) || !(cost < division->cost[k][j]))
                    continue;
                division->cost[k][j] = cost;
                division->from[k][j] = i;
            }
        }
}

int length_buckets_choose(const struct dataset_view *view, int wanted, int64_t least,
                          struct length_buckets *buckets, struct error *error)
{
    AUTO_FREE struct candidates *candidates = malloc(sizeof *candidates);
    AUTO_FREE struct division *division = calloc(1, sizeof *division);
    int r, best = 0, at;

    *buckets = (struct length_buckets){0};
    if (!candidates || !division)
        return error_set_errno(error, -ENOMEM, "cannot choose lengths for the batches");
    r = candidates_list(view, candidates, error);
    if (r < 0)
        return r;
    divide(candidates, wanted, least, division);
    at = candidates->count - 1;
    for (int k = 1; k < wanted; k++)
        if (division->cost[k][at] < division->cost[best][at])
            best = k;
    if (best == 0)
        return 0;
    buckets->count = best + 1;
    for (int k = best; k >= 0; k--) {
        buckets->steps[k] = candidates->steps[at];
        at = division->from[k][at];
    }
    return 0;
}

/* ---- using them ---- */

int length_buckets_find(const struct length_buckets *buckets, int64_t length)
{
    int found = 0;

    while (found < buckets->count - 1 && buckets->steps[found] < length)
        found++;
    return found;
}

void length_buckets_shares(const struct length_buckets *buckets, const struct dataset_view *view,
                           double shares[LENGTH_BUCKETS_MAX])
{
    int64_t counts[LENGTH_BUCKETS_MAX] = {0};

    for (int64_t i = 0; i < view->count; i++)
        counts[length_buckets_find(buckets, length_of(view, i))]++;
    for (int b = 0; b < LENGTH_BUCKETS_MAX; b++)
        shares[b] = view->count ? (double)counts[b] / (double)view->count : 0;
}

/* The "American flag" sort of McIlroy, Bostic and McIlroy 1993: counts each bucket, then swaps each
 * element to its bucket's next free place. */
void length_buckets_sort(const struct length_buckets *buckets, const struct dataset_view *view,
                         uint32_t *order, int64_t count)
{
    int64_t next[LENGTH_BUCKETS_MAX] = {0}, end[LENGTH_BUCKETS_MAX], first = 0;

    for (int64_t i = 0; i < count; i++)
        next[length_buckets_find(buckets, length_of(view, order[i]))]++;
    for (int b = 0; b < buckets->count; b++) {
        end[b] = first + next[b];
        next[b] = first;
        first = end[b];
    }
    for (int b = 0; b < buckets->count; b++)
        while (next[b] < end[b]) {
            uint32_t place = order[next[b]];
            int own = length_buckets_find(buckets, length_of(view, place));

            order[next[b]] = order[next[own]];
            order[next[own]++] = place;
        }
}
