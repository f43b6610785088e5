/* split.h: divides a set into the part that a model learns from and the part that validates it. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"
#include "proto/split_rules.h"

#include <stdint.h>

/* The rules of proto/split_rules.h: DATASET_SPLIT_RANDOM, … */
enum dataset_split_rule {
#define RULE(upper, lower, ...) DATASET_SPLIT_##upper,
    SPLIT_RULES(RULE)
#undef RULE
};
const char *dataset_split_rule_to_string(enum dataset_split_rule rule);
int dataset_split_rule_from_string(const char *name); /* -1 when unknown */

struct dataset_split_config {
    double fraction; /* of the samples that validate; 0: none */
    uint64_t seed;
    enum dataset_split_rule rule;
    /* The samples are cut into `folds` parts (0: they are not), of which part `fold` validates. Of
     * ORDER the training part is what comes before it, and the first part never validates */
    int folds, fold;
};

/* A training and a validation part; of COLUMN also a test part. */
struct dataset_split {
    struct dataset_view train, validation; /* validation.count is 0 without a fraction and folds */
    struct dataset_view test;              /* count 0: there is none */
    uint32_t *indices;                     /* owned: the lists, each ascending; NULL for text */
};

/* Splits off round(fraction * count) samples, or a fold of them; each part has one at least unless
 * fraction is 0.
 *
 * Samples that do not depend on each other are chosen by the rule, with draws of (seed,
 * PHILOX_SPLIT). For GROUP, COLUMN and an order by a column the set has split_keys. Whole groups
 * come as close to the fraction as their sizes let them.
 *
 * Text is cut in two at one place and its tail becomes the validation part: neighbouring samples
 * overlap in all but one symbol, so that samples chosen at random would lie within the text trained
 * on. Where all symbols of a text have labels, an epoch of training is windows end to end from a
 * place that is drawn for it, in random order: each symbol is a label about once. Time series are
 * cut at one row: the validation part predicts those from there on, the training part those before,
 * and samples that predict both are left out. For both, rule and folds stay at their defaults.
 *
 * -EINVAL for a fraction outside [0, 1), a set too small, or a rule that does not fit the set. */
int dataset_split(const struct dataset *dataset, const struct dataset_split_config *config,
                  struct dataset_split *split, struct error *error);
/* The validation part becomes the test part, and round(fraction * count) of the training part, at
 * least one, validate instead: a model that is chosen by them is then tested on others. They are
 * drawn by (seed, PHILOX_SPLIT). Only of samples that do not depend on each other. -EINVAL if fewer
 * than two samples train, -ENOMEM. */
int dataset_split_hold_out(struct dataset_split *split, double fraction, uint64_t seed,
                           struct error *error);
void dataset_split_release(struct dataset_split *split);
