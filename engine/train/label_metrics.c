/* label_metrics.c: see label_metrics.h. */
#include "engine/train/label_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct label_metrics {
    int64_t labels, capacity, count;
    int64_t *predicted, *labelled, *matching; /* [labels] each; one block, owned */
    int64_t exact;                            /* samples whose labels are all right */
    /* [labels][capacity], owned; NULL: no scores are wanted */
    double *probabilities;
    uint8_t *given;
    struct class_score *scores; /* [capacity], owned: those of one label */
};

size_t label_metrics_bytes(int64_t labels, int64_t capacity, bool scores)
{
    size_t bytes = sizeof(struct label_metrics) + 3 * (size_t)labels * sizeof(int64_t);

    if (scores) /* and what qsort() takes */
        bytes += (size_t)capacity * ((size_t)labels * (sizeof(double) + sizeof(uint8_t)) +
                                     2 * sizeof(struct class_score));
    return bytes;
}

int label_metrics_create(int64_t labels, int64_t capacity, bool scores,
                         struct label_metrics **metrics, struct error *error)
{
    size_t count = (size_t)capacity, width = (size_t)labels;
    struct label_metrics *made = *metrics = calloc(1, sizeof *made);

    if (!made)
        return error_no_memory(error, "the metrics of labels");
    made->labels = labels;
    made->capacity = capacity;
    made->predicted = calloc(3 * width, sizeof *made->predicted);
    if (made->predicted) {
        made->labelled = made->predicted + width;
        made->matching = made->labelled + width;
    }
    if (scores) {
        made->probabilities = calloc(count, width * sizeof *made->probabilities);
        made->given = calloc(count, width);
        made->scores = calloc(count, sizeof *made->scores);
    }
    if (!made->predicted || (scores && (!made->probabilities || !made->given || !made->scores)))
        return error_no_memory(error, "the labels of %lld samples", (long long)capacity);
    return 0;
}

void label_metrics_free(struct label_metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->predicted);
    free(metrics->probabilities);
    free(metrics->given);
    free(metrics->scores);
    free(metrics);
}

void label_metrics_begin(struct label_metrics *metrics)
{
    metrics->count = metrics->exact = 0;
    memset(metrics->predicted, 0, 3 * (size_t)metrics->labels * sizeof *metrics->predicted);
}

void label_metrics_add(struct label_metrics *metrics, const float *logits, const float *targets)
{
    bool exact = true;

    for (int64_t k = 0; k < metrics->labels; k++) {
        bool predicted = logits[k] > 0, given = targets[k] > 0;
        int64_t at = k * metrics->capacity + metrics->count;

        metrics->predicted[k] += predicted;
        metrics->labelled[k] += given;
        metrics->matching[k] += predicted && given;
        exact &= predicted == given;
        if (!metrics->probabilities)
            continue;
        metrics->probabilities[at] = 1 / (1 + exp(-(double)logits[k]));
        metrics->given[at] = given;
    }
    metrics->exact += exact;
    metrics->count++;
}

struct class_counts label_metrics_counts(const struct label_metrics *metrics)
{
    return (struct class_counts){.classes = metrics->labels,
                                 .count = metrics->count,
                                 .predicted = metrics->predicted,
                                 .labelled = metrics->labelled,
                                 .matching = metrics->matching};
}

double label_metrics_rate(const struct label_metrics *metrics, enum class_rate rate,
                          enum class_average average)
{
    const struct class_counts counts = label_metrics_counts(metrics);
    int64_t predicted = 0, labelled = 0, matching = 0;
    double sum = 0, weights = 0;

    for (int64_t k = 0; k < counts.classes; k++) {
        double weight = average == CLASS_WEIGHTED ? (double)counts.labelled[k] : 1;

        sum += weight * class_rate(&counts, rate, k);
        weights += weight;
        predicted += counts.predicted[k];
        labelled += counts.labelled[k];
        matching += counts.matching[k];
    }
    if (average == CLASS_MICRO)
        return class_rate(&(struct class_counts){.classes = 1,
                                                 .predicted = &predicted,
                                                 .labelled = &labelled,
                                                 .matching = &matching},
                          rate, 0);
    return weights > 0 ? sum / weights : 0;
}

double label_metrics_subset_accuracy(const struct label_metrics *metrics)
{
    return (double)metrics->exact / (double)metrics->count;
}

/* A metric of the sorted scores of one label. */
static double measure_label(struct label_metrics *metrics, int64_t label,
                            double (*measure)(const struct class_score *, int64_t, int64_t))
{
    const double *probabilities = metrics->probabilities + label * metrics->capacity;
    const uint8_t *given = metrics->given + label * metrics->capacity;

    for (int64_t i = 0; i < metrics->count; i++) {
        metrics->scores[i] = (struct class_score){probabilities[i], given[i]};
        if (isnan(probabilities[i]))
            return NAN;
    }
    class_scores_sort(metrics->scores, metrics->count);
    return measure(metrics->scores, metrics->count, metrics->labelled[label]);
}

double label_metrics_auc(struct label_metrics *metrics, int64_t label)
{
    return measure_label(metrics, label, class_auc);
}

double label_metrics_average_precision(struct label_metrics *metrics, int64_t label)
{
    return measure_label(metrics, label, class_average_precision);
}

double label_metrics_mean(struct label_metrics *metrics,
                          double (*measure)(struct label_metrics *metrics, int64_t label))
{
    double sum = 0;

    for (int64_t k = 0; k < metrics->labels; k++)
        sum += measure(metrics, k);
    return sum / (double)metrics->labels;
}
