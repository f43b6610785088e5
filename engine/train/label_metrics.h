/* label_metrics.h: metrics of a set whose samples have several labels each, which are 0 or 1
 * (multi-label classification). They are scikit-learn's of indicator matrices [samples, labels]: a
 * label is predicted where its logit is above 0, its probability above one half. */
#pragma once

#include "base/error.h"
#include "engine/train/class_metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct label_metrics;

/* Host memory of a set of at most `capacity` samples. `scores`: AUC and average precision are
 * wanted, which keep all probabilities. */
size_t label_metrics_bytes(int64_t labels, int64_t capacity, bool scores);
/* -ENOMEM. */
int label_metrics_create(int64_t labels, int64_t capacity, bool scores,
                         struct label_metrics **metrics, struct error *error);
void label_metrics_free(struct label_metrics *metrics); /* NULL allowed */

/* Begins another set. */
void label_metrics_begin(struct label_metrics *metrics);
/* Adds a sample: a logit and a target (0 or 1) for each label. */
void label_metrics_add(struct label_metrics *metrics, const float *logits, const float *targets);

/* How often each label was predicted, given, and both; they are the metrics' own. */
struct class_counts label_metrics_counts(const struct label_metrics *metrics);
/* The mean over the labels (CLASS_USUAL, CLASS_MACRO), over all labels of all samples
 * (CLASS_MICRO), or by how many samples have the label. */
double label_metrics_rate(const struct label_metrics *metrics, enum class_rate rate,
                          enum class_average average);
/* The share of the samples whose labels are all right. */
double label_metrics_subset_accuracy(const struct label_metrics *metrics);
/* Of one label. NAN: no sample has the label, or all have it; or a prediction is not a number. */
double label_metrics_auc(struct label_metrics *metrics, int64_t label);
double label_metrics_average_precision(struct label_metrics *metrics, int64_t label);
/* The mean of one of these over the labels. */
double label_metrics_mean(struct label_metrics *metrics,
                          double (*measure)(struct label_metrics *metrics, int64_t label));
