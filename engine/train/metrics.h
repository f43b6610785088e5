/* metrics.h: what is measured of a model over a whole validation or test set
 * (proto/metric_kinds.h). Those of classes are scikit-learn's, with its defaults, or with more than
 * two classes average="macro" and multi_class="ovr". So are MSE, RMSE, MAE and R2, with several
 * values the mean over them; those of a table's standardised values are in the units of the file,
 * the loss is not. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "engine/data/loader.h"
#include "engine/train/class_metrics.h"
#include "engine/train/label_metrics.h"
#include "engine/train/session.h"
#include "proto/metric_kinds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum metric_kind {
#define KIND(upper, lower, ...) METRIC_##upper,
    METRIC_KINDS(KIND)
#undef KIND
        METRIC_COUNT
};
DECLARE_STRING_TABLE(metric_kind, enum metric_kind);

/* A set of metrics: bit k is metric k. */
typedef uint32_t metric_set;

/* The sets that metrics are measured of. */
enum metric_subset { METRIC_VALIDATION, METRIC_TEST, METRIC_LAST_TEST, METRIC_SUBSETS };
/* "validation_f1"; it lives for ever. */
const char *metric_name(enum metric_subset subset, enum metric_kind kind);
/* The kind whose name follows "train_" or "validation_"; -1: `name` is no such metric. */
int metric_of_name(const char *name);
bool metric_falls(enum metric_kind kind);

/* What the outputs of a model are beside classes or values: the heads of one that has several
 * losses, `count` 0: it has not; `quantiles` of each value side by side, 0: the value itself. The
 * metrics of values are those of quantile number `median`, the nearest to 0.5. `embedding`: how
 * many numbers the embedding of a sample has, 0: it has none. */
struct metric_heads {
    const struct loss_head *heads;
    const char *const *names;
    int count;
    int quantiles, median;
    int64_t embedding;
};

/* The head whose loss on the validation set has that name; -1: none has. */
int metric_head_of_name(const struct metric_heads *heads, const char *name);

/* The trait of the task that the set is for: METRIC_OF_CLASSES, _VALUES, _LABELS, _TEXT, _HEADS or
 * _EMBEDDINGS. */
unsigned metric_task(const struct dataset *dataset, const struct metric_heads *heads);
/* All metrics of the task. */
metric_set metrics_of_task(unsigned task);
/* Those that need nothing but the sums that the device keeps: they cost no time. */
metric_set metrics_of_sums(unsigned task);
/* What is measured where nothing is asked for. Metrics of outputs that are read make evaluations of
 * small models slower. So the validation set of more than two classes, or of embeddings, has none,
 * and the test set, which is evaluated once, has those that need little memory. */
metric_set metrics_usual(const struct dataset *dataset, unsigned task, enum metric_subset subset);

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
