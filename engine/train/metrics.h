/* metrics.h: what is measured of a model over a whole validation or test set
 * (proto/metric_kinds.h). Those of classes are scikit-learn's, with its defaults, or with more than
 * two classes average="macro" and multi_class="ovr". So are MSE, RMSE, MAE and R2, with several
 * values the mean over them; those of a table's standardised values are in the units of the file,
 * the loss is not. */
#pragma once

#include "base/error.h"
#include "engine/data/loader.h"
#include "engine/train/class_metrics.h"
#include "engine/train/label_metrics.h"
#include "engine/train/metric_kinds.h"
#include "engine/train/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics_config {
    const struct dataset *dataset; /* the training set: the task and the number of classes */
    struct metric_heads heads;     /* each has a loss of its own, which is always measured */
    metric_set kinds;              /* that may be asked for */
    int64_t batch, count;          /* the most samples of a batch, and of a set */
    bool confusion;                /* metrics_confusion() is wanted */
};

/* Outputs that are read batch by batch, and what follows from them. */
struct metrics;

/* Host memory that metrics_create() takes, and qsort(). */
size_t metrics_host_bytes(const struct metrics_config *config);
/* `*metrics` stays NULL where no kind reads outputs. -ENOMEM. */
int metrics_create(const struct metrics_config *config, struct metrics **metrics,
                   struct error *error);
void metrics_free(struct metrics *metrics); /* NULL allowed */

/* Begins the evaluation of another set, of which `kinds` are wanted. */
void metrics_begin(struct metrics *metrics, metric_set kinds);
/* Adds a sample: the logits of its classes, or its values. */
void metrics_add_class(struct metrics *metrics, const float *logits, int32_t label);
void metrics_add_values(struct metrics *metrics, const float *output, const float *target);
void metrics_add_heads(struct metrics *metrics, const float *logits, const int32_t *labels);
void metrics_add_embedding(struct metrics *metrics, const float *embedding, int32_t label);
/* Reads the output of the session's latest evaluation, of a batch of the view. */
int metrics_add(struct metrics *metrics, struct session *session, const struct dataset_view *view,
                const struct loader_batch *batch, struct error *error);
/* The metric after the whole set; NAN: it is not defined for the set (AUC where a class has no
 * sample), or was not wanted. `metrics` NULL: only `sums` are known. */
double metrics_value(const struct metrics *metrics, enum metric_kind kind,
                     const struct step_metrics *sums);

/* How many values were measured; `metrics` NULL: none. */
int64_t metrics_value_count(const struct metrics *metrics);
/* The same of one of them: mse, rmse, mae or r2. */
double metrics_value_of(const struct metrics *metrics, int64_t target, enum metric_kind kind);

/* Those of several labels that are 0 or 1; NULL: the set has none. */
struct label_metrics *metrics_labels(const struct metrics *metrics);
/* Counts of the classes so far; they are the metrics' own. */
struct class_counts metrics_counts(const struct metrics *metrics);
/* The confusion matrix, [labels][predictions]; NULL: it was not wanted. */
const int64_t *metrics_confusion(const struct metrics *metrics);

/* ---- the loss of each head ---- */

struct metric_mean {
    double mean, error; /* and the mean's standard error */
    /* "test_blue_loss", "test_blue_loss_error"; they live as long as `metrics` */
    const char *name, *error_name;
};
/* How many heads there are; `metrics` NULL: none. */
int metrics_head_count(const struct metrics *metrics);
struct metric_mean metrics_head_loss(struct metrics *metrics, enum metric_subset subset, int head);
