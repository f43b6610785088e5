/* table_bins.c: see table_bins.h. */
#include "engine/data/table_bins.h"

#include "base/philox.h"

#include <math.h>
#include <stdlib.h>

enum {
    SAMPLE_MAX = 8192,   /* numbers that are kept of a column: 1,000 for each of 8 bins */
    NUMBERS_PER_BIN = 10 /* that a bin has at least, of the numbers that are kept */
};

/* How far the features at both ends go beyond their bins, in widths of the bin. A number far
 * outside of what was trained on would otherwise make a feature of any size. */
static const double BEYOND_MAX = 3;

/* Vitter's algorithm R (1985, "Random sampling with a reservoir"): each number so far is kept with
 * the same probability. Numbers that return with a period do not mislead it. The same column has
 * the same bins for each seed of a job. */
int table_sample_add(struct table_sample *sample, double value, struct error *error)
{
    uint64_t seen = (uint64_t)sample->seen++, place;
    struct philox words;

    if (seen >= SAMPLE_MAX) {
        words = philox_draw(0, philox_stream(PHILOX_BINS, 0), seen);
        place = ((uint64_t)words.word[1] << 32 | words.word[0]) % (seen + 1);
        if (place < SAMPLE_MAX)
            sample->values[place] = value;
        return 0;
    }
    if (sample->count == sample->capacity) {
        int32_t capacity = sample->capacity ? 2 * sample->capacity : 16;
        double *grown = reallocarray(sample->values, (size_t)capacity, sizeof *grown);

        if (!grown)
            return error_no_memory(error, "the numbers of a column");
        sample->values = grown;
        sample->capacity = capacity;
    }
    sample->values[sample->count++] = value;
    return 0;
}

void table_sample_release(struct table_sample *sample)
{
    free(sample->values);
    *sample = (struct table_sample){0};
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The quantile by linear interpolation, as numpy's by default; `values` ascend. */
static double quantile(const double *values, int32_t count, double part)
{
    double place = part * (count - 1);
    int32_t below = (int32_t)place;

    if (below >= count - 1)
        return values[count - 1];
    return values[below] + (place - below) * (values[below + 1] - values[below]);
}

static int32_t count_different(const double *values, int32_t count, int32_t most)
{
    int32_t different = count > 0;

    for (int32_t i = 1; i < count && different < most; i++)
        different += values[i] != values[i - 1];
    return different;
}

int table_bins_find(struct table_sample *sample, int bins, double **edges, int32_t *count,
                    struct error *error)
{
    int32_t most = sample->count / NUMBERS_PER_BIN, different;
    double *made;

    *edges = NULL;
    *count = 0;
    if (sample->count)
        qsort(sample->values, (size_t)sample->count, sizeof *sample->values, compare_numbers);
    different = count_different(sample->values, sample->count, bins + 1);
    most = most < 2 ? 2 : most;
    bins = bins < most ? bins : most;
    bins = bins < different - 1 ? bins : different - 1;
    if (bins < 2)
        return 0;
    made = calloc((size_t)bins + 1, sizeof *made);
    if (!made)
        return error_no_memory(error, "the bins of a column");
    for (int i = 0; i <= bins; i++) {
        double edge = quantile(sample->values, sample->count, (double)i / bins);

        if (*count == 0 || edge > made[*count - 1])
            made[(*count)++] = edge;
    }
    if (*count >= 3) {
        *edges = made;
        return 0;
    }
    free(made);
    *count = 0;
    return 0;
}

void table_bins_encode(const double *edges, int32_t count, double value, float *features)
{
    for (int32_t i = 0; i + 1 < count; i++) {
        double part = (value - edges[i]) / (edges[i + 1] - edges[i]);

        part = fmax(part, i == 0 ? -BEYOND_MAX : 0);
        part = fmin(part, i + 2 == count ? 1 + BEYOND_MAX : 1);
        features[i] = (float)part;
    }
}
