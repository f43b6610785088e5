/* class_metrics.c: see class_metrics.h. */
#include "engine/train/class_metrics.h"

#include <math.h>
#include <stdlib.h>

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

double class_rate(const struct class_counts *counts, enum class_rate rate, int64_t class)
{
    double predicted = (double)counts->predicted[class], labelled = (double)counts->labelled[class];
    double matching = (double)counts->matching[class];

    switch (rate) {
    case CLASS_PRECISION:
        return share(matching, predicted);
    case CLASS_RECALL:
        return share(matching, labelled);
    default:
        return share(2 * matching, predicted + labelled);
    }
}

double class_rate_average(const struct class_counts *counts, enum class_rate rate,
                          enum class_average average)
{
    double sum = 0, weights = 0;

    if (average == CLASS_USUAL && counts->classes == 2)
        return class_rate(counts, rate, 1);
    for (int64_t c = 0; c < counts->classes; c++) {
        double labelled = (double)counts->labelled[c];
        double weight =
            average == CLASS_WEIGHTED ? labelled : (counts->predicted[c] || counts->labelled[c]);

        if (average == CLASS_MICRO) { /* every sample has one label and one prediction */
            sum += (double)counts->matching[c];
            weights += labelled;
        } else {
            sum += weight * class_rate(counts, rate, c);
            weights += weight;
        }
    }
    return share(sum, weights);
}

double class_mcc(const struct class_counts *counts)
{
    double count = (double)counts->count, matching = 0, product = 0, predicted = 0, labelled = 0;

    for (int64_t c = 0; c < counts->classes; c++) {
        double p = (double)counts->predicted[c], l = (double)counts->labelled[c];

        matching += (double)counts->matching[c];
        product += p * l;
        predicted += p * p;
        labelled += l * l;
    }
    predicted = count * count - predicted;
    labelled = count * count - labelled;
    return predicted > 0 && labelled > 0
               ? (matching * count - product) / sqrt(predicted) / sqrt(labelled)
               : 0;
}

double class_balanced_accuracy(const struct class_counts *counts)
{
    double sum = 0, met = 0;

    for (int64_t c = 0; c < counts->classes; c++) {
        sum += class_rate(counts, CLASS_RECALL, c);
        met += counts->labelled[c] > 0;
    }
    return share(sum, met);
}

static int compare_scores(const void *a, const void *b)
{
    double x = ((const struct class_score *)a)->probability,
           y = ((const struct class_score *)b)->probability;

    return (x > y) - (x < y);
}

void class_scores_sort(struct class_score *scores, int64_t count)
{
    qsort(scores, (size_t)count, sizeof *scores, compare_scores);
}

double class_auc(const struct class_score *scores, int64_t count, int64_t positives)
{
    double positive = (double)positives, negative = (double)(count - positives), rank_sum = 0;

    for (int64_t first = 0, next; first < count; first = next) {
        int64_t tied = 0;

        for (next = first; next < count && scores[next].probability == scores[first].probability;
             next++)
            tied += scores[next].positive;
        rank_sum += (double)tied * (double)(first + 1 + next) / 2;
    }
    return positive > 0 && negative > 0
               ? (rank_sum - positive * (positive + 1) / 2) / positive / negative
               : NAN;
}

double class_average_precision(const struct class_score *scores, int64_t count, int64_t positives)
{
    int64_t found = 0;
    double sum = 0;

    for (int64_t last = count - 1, next; last >= 0; last = next) {
        int64_t tied = 0;

        for (next = last; next >= 0 && scores[next].probability == scores[last].probability; next--)
            tied += scores[next].positive;
        found += tied;
        sum += (double)tied * ((double)found / (double)(count - 1 - next));
    }
    return share(sum, (double)positives);
}

bool class_outputs_are_undefined(const float *outputs, int64_t count)
{
    bool found = false;

    for (int64_t i = 0; i < count; i++)
        found |= !isfinite(outputs[i]);
    return found;
}

int64_t class_rank(const float *scores, int64_t classes, int64_t label)
{
    int64_t rank = 0;

    for (int64_t c = 0; c < classes; c++)
        rank += scores[c] > scores[label] || (scores[c] == scores[label] && c > label);
    return rank;
}

void class_bins_add(struct class_bins *bins, double confidence, bool correct)
{
    int bin = 0;

    while (bin < CLASS_BINS - 1 && confidence > (bin + 1) * (1.0 / CLASS_BINS))
        bin++;
    bins->confidence[bin] += confidence;
    bins->correct[bin] += correct;
}

double class_calibration_error(const struct class_bins *bins, int64_t count)
{
    double sum = 0;

    for (int i = 0; i < CLASS_BINS; i++)
        sum += fabs(bins->correct[i] - bins->confidence[i]);
    return sum / (double)count;
}
