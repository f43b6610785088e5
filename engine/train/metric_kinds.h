/* metric_kinds.h: the metrics by name (proto/metric_kinds.h), and which of them are measured of
 * which set. metrics.h computes them. */
#pragma once

#include "base/string_table.h"
#include "engine/data/dataset.h"
#include "engine/graph/loss_head.h"
#include "proto/metric_kinds.h"

#include <stdbool.h>
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

static inline metric_set metric_bit(enum metric_kind kind)
{
    return (metric_set)1 << kind;
}

/* The sets that metrics are measured of. */
enum metric_subset { METRIC_VALIDATION, METRIC_TEST, METRIC_LAST_TEST, METRIC_SUBSETS };
/* "validation_f1"; it lives for ever. */
const char *metric_name(enum metric_subset subset, enum metric_kind kind);
/* The kind whose name follows "train_" or "validation_"; -1: `name` is no such metric. */
int metric_of_name(const char *name);
/* Whether the kind has one of the traits (enum metric_trait). */
bool metric_has(enum metric_kind kind, unsigned trait);

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

/* The most bytes of the name of a head's loss, with NUL. */
enum { METRIC_HEAD_NAME_MAX = 48 };
/* The head whose loss on the validation set has that name; -1: none has. */
int metric_head_of_name(const struct metric_heads *heads, const char *name);

/* The trait of the task that the set is for: METRIC_OF_CLASSES, _VALUES, _LABELS, _TEXT, _HEADS or
 * _EMBEDDINGS. */
unsigned metric_task(const struct dataset *dataset, const struct metric_heads *heads);
/* The metrics that have one of the traits: with that of a task, all of the task. */
metric_set metrics_of_trait(unsigned trait);
/* Those of the task that need nothing but the sums that the device keeps: they cost no time. */
metric_set metrics_of_sums(unsigned task);
/* What is measured where nothing is asked for. Metrics of outputs that are read make evaluations of
 * small models slower. So the validation set of more than two classes, or of embeddings, has none,
 * and the test set, which is evaluated once, has those that need little memory. */
metric_set metrics_usual(const struct dataset *dataset, unsigned task, enum metric_subset subset);
