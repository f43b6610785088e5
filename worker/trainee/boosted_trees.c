/* boosted_trees.c: see boosted_trees.h. Friedman (Annals of Statistics 2001, "Greedy function
 * approximation: a gradient boosting machine") with second-order leaves and histograms (Ke and
 * others, NIPS 2017, "LightGBM"): a tree grows where a cut gains most. */
#include "worker/trainee/boosted_trees.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The defaults of scikit-learn's HistGradientBoosting. */
enum { ITERATIONS = 100, LEAVES = 31, LEAF_ROWS = 20, BINS = 255, NODES = 2 * LEAVES - 1 };
static const double rate = 0.1, least_hessian = 1e-3;

struct node {
    int32_t feature; /* -1: a leaf */
    float threshold; /* up to it to the left */
    int32_t left, right;
    double value;
};

struct cut {
    double gain; /* 0: there is none */
    int32_t feature, bin;
};

struct leaf {
    int64_t first, count; /* in `order` */
    double gradient, hessian;
    struct cut cut; /* the best one */
    int32_t node;
};

struct boosting {
    const struct boosting_rows *rows;
    const struct boosting_part *train, *test;
    int32_t outputs;           /* 1 of values and of two classes */
    uint8_t *codes;            /* [width, count]: the bins of the training rows */
    float *thresholds;         /* [width, BINS]: the upper ends of bins */
    int32_t *bins;             /* [width] */
    double *fit, *test_fit;    /* [count, outputs]: what is predicted so far */
    float *gradient, *hessian; /* [count] */
    uint32_t *order, *right;   /* [count] */
    float *sorted;             /* [count] */
    struct node tree[NODES];
    struct leaf leaves[LEAVES];
    int32_t node_count, leaf_count;
    double *gains;
};

static void boosting_release(struct boosting *boosting)
{
    free(boosting->codes);
    free(boosting->thresholds);
    free(boosting->bins);
    free(boosting->fit);
    free(boosting->test_fit);
    free(boosting->gradient);
    free(boosting->hessian);
    free(boosting->order);
    free(boosting->right);
    free(boosting->sorted);
}

static int boosting_allocate(struct boosting *boosting, struct error *error)
{
    size_t count = (size_t)boosting->train->count, width = (size_t)boosting->rows->width;

    boosting->codes = calloc(count, width);
    boosting->thresholds = calloc(width * BINS, sizeof *boosting->thresholds);
    boosting->bins = calloc(width, sizeof *boosting->bins);
    boosting->fit = calloc(count * (size_t)boosting->outputs, sizeof *boosting->fit);
    boosting->test_fit =
        calloc((size_t)(boosting->test->count * boosting->outputs), sizeof *boosting->test_fit);
    boosting->gradient = calloc(count, sizeof *boosting->gradient);
    boosting->hessian = calloc(count, sizeof *boosting->hessian);
    boosting->order = calloc(count, sizeof *boosting->order);
    boosting->right = calloc(count, sizeof *boosting->right);
    boosting->sorted = calloc(count, sizeof *boosting->sorted);
    if (boosting->codes && boosting->thresholds && boosting->bins && boosting->fit &&
        boosting->test_fit && boosting->gradient && boosting->hessian && boosting->order &&
        boosting->right && boosting->sorted)
        return 0;
    return error_no_memory(error, "the trees of %lld rows", (long long)boosting->train->count);
}

/* ---- bins ---- */

static float feature_of(const struct boosting *boosting, uint32_t row, int32_t feature)
{
    return boosting->rows->features[(size_t)row * (size_t)boosting->rows->width + (size_t)feature];
}

static int compare_floats(const void *a, const void *b)
{
    float left = *(const float *)a, right = *(const float *)b;

    return (left > right) - (left < right);
}

/* Each different number is a bin, or else bins have equal shares of the rows. */
static void find_thresholds(struct boosting *boosting, int32_t feature)
{
    float *thresholds = boosting->thresholds + (size_t)feature * BINS, *sorted = boosting->sorted;
    int64_t count = boosting->train->count, different = 1;
    int32_t bins = 0;

    for (int64_t i = 0; i < count; i++)
        sorted[i] = feature_of(boosting, boosting->train->rows[i], feature);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_floats);
    for (int64_t i = 1; i < count; i++)
        different += sorted[i] > sorted[i - 1];
    for (int64_t i = 1; i < count && bins < BINS - 1; i++) {
        bool is_due = different <= BINS || i * BINS >= (bins + 1) * count;

        if (is_due && sorted[i] > sorted[i - 1])
            thresholds[bins++] = sorted[i - 1] + (sorted[i] - sorted[i - 1]) / 2;
    }
    thresholds[bins++] = INFINITY;
    boosting->bins[feature] = bins;
}

static uint8_t find_bin(const float *thresholds, int32_t bins, float value)
{
    int32_t low = 0, high = bins - 1;

    while (low < high) {
        int32_t middle = (low + high) / 2;

        if (value <= thresholds[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return (uint8_t)low;
}

static void encode(struct boosting *boosting)
{
    int64_t count = boosting->train->count;

    for (int32_t feature = 0; feature < boosting->rows->width; feature++) {
        find_thresholds(boosting, feature);
        for (int64_t i = 0; i < count; i++)
            boosting->codes[(size_t)feature * (size_t)count + (size_t)i] =
                find_bin(boosting->thresholds + (size_t)feature * BINS, boosting->bins[feature],
                         feature_of(boosting, boosting->train->rows[i], feature));
    }
}

/* ---- a tree ---- */

struct bin {
    double gradient, hessian;
    int64_t count;
};

static double worth(double gradient, double hessian)
{
    return gradient * gradient / hessian;
}

/* Cuts between the bins of a feature. */
static void scan_bins(const struct leaf *leaf, int32_t feature, const struct bin *bins,
                      int32_t count, struct cut *best)
{
    struct bin left = {0};

    for (int32_t i = 0; i + 1 < count; i++) {
        double gradient, hessian, gain;

        left.gradient += bins[i].gradient;
        left.hessian += bins[i].hessian;
        left.count += bins[i].count;
        gradient = leaf->gradient - left.gradient;
        hessian = leaf->hessian - left.hessian;
        if (left.count < LEAF_ROWS || left.hessian < least_hessian)
            continue;
        if (leaf->count - left.count < LEAF_ROWS || hessian < least_hessian)
            break;
        gain = worth(left.gradient, left.hessian) + worth(gradient, hessian) -
               worth(leaf->gradient, leaf->hessian);
        if (gain > best->gain)
            *best = (struct cut){gain, feature, i};
    }
}

/* Sums up the leaf's rows and finds its best cut. */
static void leaf_begin(struct boosting *boosting, struct leaf *leaf)
{
    const uint32_t *order = boosting->order + leaf->first;

    leaf->gradient = leaf->hessian = 0;
    for (int64_t i = 0; i < leaf->count; i++) {
        leaf->gradient += boosting->gradient[order[i]];
        leaf->hessian += boosting->hessian[order[i]];
    }
    leaf->cut = (struct cut){0};
    if (leaf->count < 2 * LEAF_ROWS)
        return;
    for (int32_t feature = 0; feature < boosting->rows->width; feature++) {
        const uint8_t *codes = boosting->codes + (size_t)feature * (size_t)boosting->train->count;
        struct bin bins[BINS];

        memset(bins, 0, (size_t)boosting->bins[feature] * sizeof *bins);
        for (int64_t i = 0; i < leaf->count; i++) {
            struct bin *bin = &bins[codes[order[i]]];

            bin->gradient += boosting->gradient[order[i]];
            bin->hessian += boosting->hessian[order[i]];
            bin->count++;
        }
        scan_bins(leaf, feature, bins, boosting->bins[feature], &leaf->cut);
    }
}

/* Divides the leaf's rows at its cut, in their order; the number of those to the left. */
static int64_t leaf_divide(struct boosting *boosting, const struct leaf *leaf)
{
    const uint8_t *codes =
        boosting->codes + (size_t)leaf->cut.feature * (size_t)boosting->train->count;
    uint32_t *order = boosting->order + leaf->first;
    int64_t left = 0, right = 0;

    for (int64_t i = 0; i < leaf->count; i++) {
        if (codes[order[i]] <= leaf->cut.bin)
            order[left++] = order[i];
        else
            boosting->right[right++] = order[i];
    }
    memcpy(order + left, boosting->right, (size_t)right * sizeof *order);
    return left;
}

static void leaf_cut(struct boosting *boosting, struct leaf *leaf)
{
    struct leaf *right = &boosting->leaves[boosting->leaf_count++];
    struct node *node = &boosting->tree[leaf->node];
    int64_t left = leaf_divide(boosting, leaf);

    boosting->gains[leaf->cut.feature] += leaf->cut.gain;
    node->feature = leaf->cut.feature;
    node->threshold =
        boosting->thresholds[(size_t)leaf->cut.feature * BINS + (size_t)leaf->cut.bin];
    node->left = boosting->node_count++;
    node->right = boosting->node_count++;
    *right = (struct leaf){
        .first = leaf->first + left, .count = leaf->count - left, .node = node->right};
    *leaf = (struct leaf){.first = leaf->first, .count = left, .node = node->left};
    leaf_begin(boosting, leaf);
    leaf_begin(boosting, right);
}

/* Grows a tree for the gradients. */
static void grow(struct boosting *boosting)
{
    boosting->node_count = boosting->leaf_count = 1;
    boosting->leaves[0] = (struct leaf){.count = boosting->train->count};
    for (int64_t i = 0; i < boosting->train->count; i++)
        boosting->order[i] = (uint32_t)i;
    leaf_begin(boosting, &boosting->leaves[0]);
    while (boosting->leaf_count < LEAVES) {
        struct leaf *best = &boosting->leaves[0];

        for (int32_t i = 1; i < boosting->leaf_count; i++)
            if (boosting->leaves[i].cut.gain > best->cut.gain)
                best = &boosting->leaves[i];
        if (!(best->cut.gain > 0))
            break;
        leaf_cut(boosting, best);
    }
    for (int32_t i = 0; i < boosting->leaf_count; i++) {
        struct leaf *leaf = &boosting->leaves[i];

        boosting->tree[leaf->node].feature = -1;
        boosting->tree[leaf->node].value =
            leaf->hessian > 0 ? -rate * leaf->gradient / leaf->hessian : 0;
    }
}

static double tree_value(const struct boosting *boosting, uint32_t row)
{
    const struct node *node = &boosting->tree[0];

    while (node->feature >= 0)
        node =
            &boosting
                 ->tree[feature_of(boosting, row, node->feature) <= node->threshold ? node->left
                                                                                    : node->right];
    return node->value;
}

/* Adds the tree to what output `output` predicts. */
static void add_tree(struct boosting *boosting, int32_t output)
{
    for (int32_t i = 0; i < boosting->leaf_count; i++) {
        const struct leaf *leaf = &boosting->leaves[i];

        for (int64_t k = leaf->first; k < leaf->first + leaf->count; k++)
            boosting->fit[(int64_t)boosting->order[k] * boosting->outputs + output] +=
                boosting->tree[leaf->node].value;
    }
    for (int64_t i = 0; i < boosting->test->count; i++)
        boosting->test_fit[i * boosting->outputs + output] +=
            tree_value(boosting, boosting->test->rows[i]);
}

/* ---- the loss ---- */

/* Begins with the mean, or with the logarithms of the classes' shares. */
static void begin(struct boosting *boosting)
{
    const struct boosting_rows *rows = boosting->rows;

    for (int32_t output = 0; output < boosting->outputs; output++) {
        int32_t class = boosting->outputs == 1 ? 1 : output;
        double sum = 0, share, first;

        for (int64_t i = 0; i < boosting->train->count; i++) {
            uint32_t row = boosting->train->rows[i];

            sum += rows->values ? rows->values[row] : rows->labels[row] == class;
        }
        share = sum / (double)boosting->train->count;
        first = rows->values             ? share
                : boosting->outputs == 1 ? log(fmax(share, 1e-9) / fmax(1 - share, 1e-9))
                                         : log(fmax(share, 1e-9));
        for (int64_t i = 0; i < boosting->train->count; i++)
            boosting->fit[i * boosting->outputs + output] = first;
        for (int64_t i = 0; i < boosting->test->count; i++)
            boosting->test_fit[i * boosting->outputs + output] = first;
    }
}

/* The probability of class `class`. */
static double probability(const double *fit, int32_t outputs, int32_t class)
{
    double highest = fit[0], sum = 0;

    if (outputs == 1)
        return 1 / (1 + exp(class ? -fit[0] : fit[0]));
    for (int32_t i = 1; i < outputs; i++)
        highest = fmax(highest, fit[i]);
    for (int32_t i = 0; i < outputs; i++)
        sum += exp(fit[i] - highest);
    return exp(fit[class] - highest) / sum;
}

/* Gradients of the loss by what an output predicts: those before the iteration's first tree. */
static void differentiate(struct boosting *boosting, const double *fit, int32_t output)
{
    const struct boosting_rows *rows = boosting->rows;
    int32_t class = boosting->outputs == 1 ? 1 : output;

    for (int64_t i = 0; i < boosting->train->count; i++) {
        uint32_t row = boosting->train->rows[i];
        const double *own = fit + i * boosting->outputs;
        double p;

        if (rows->values) {
            boosting->gradient[i] = (float)(own[0] - (double)rows->values[row]);
            boosting->hessian[i] = 1;
            continue;
        }
        p = probability(own, boosting->outputs, class);
        boosting->gradient[i] = (float)(p - (rows->labels[row] == class));
        boosting->hessian[i] = (float)(p * (1 - p));
    }
}

static double accuracy(const struct boosting *boosting)
{
    int64_t right = 0;

    for (int64_t i = 0; i < boosting->test->count; i++) {
        const double *fit = boosting->test_fit + i * boosting->outputs;
        int32_t best = boosting->outputs == 1 && fit[0] > 0;

        for (int32_t class = 1; class < boosting->outputs; class ++)
            if (fit[class] > fit[best])
                best = class;
        right += boosting->rows->labels[boosting->test->rows[i]] == best;
    }
    return (double)right / (double)boosting->test->count;
}

static double squared_error(const struct boosting *boosting)
{
    double sum = 0;

    for (int64_t i = 0; i < boosting->test->count; i++) {
        double wrong =
            (double)boosting->rows->values[boosting->test->rows[i]] - boosting->test_fit[i];

        sum += wrong * wrong;
    }
    return sum / (double)boosting->test->count;
}

static int iterate(struct boosting *boosting, double deadline, struct error *error)
{
    size_t bytes = (size_t)(boosting->train->count * boosting->outputs) * sizeof *boosting->fit;
    AUTO_FREE double *before = malloc(bytes + 1);

    if (!before)
        return error_no_memory(error, "the trees of %lld rows", (long long)boosting->train->count);
    for (int i = 0; i < ITERATIONS; i++) {
        memcpy(before, boosting->fit, bytes);
        for (int32_t output = 0; output < boosting->outputs; output++) {
            if (clock_monotonic() > deadline)
                return error_set(error, -ETIME, "the time is over");
            differentiate(boosting, before, output);
            grow(boosting);
            add_tree(boosting, output);
        }
    }
    return 0;
}

int boosted_trees_score(const struct boosting_rows *rows, const struct boosting_part *train,
                        const struct boosting_part *test, double deadline, double *gains,
                        double *score, struct error *error)
{
    struct boosting boosting = {.rows = rows,
                                .train = train,
                                .test = test,
                                .outputs = rows->values || rows->classes == 2 ? 1 : rows->classes,
                                .gains = gains};
    int r = boosting_allocate(&boosting, error);

    *score = NAN;
    if (r == 0) {
        encode(&boosting);
        begin(&boosting);
        r = iterate(&boosting, deadline, error);
    }
    if (r == 0)
        *score = rows->values ? squared_error(&boosting) : accuracy(&boosting);
    boosting_release(&boosting);
    return r;
}
