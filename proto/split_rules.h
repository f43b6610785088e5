/* split_rules.h: how the samples of the validation part may be chosen. The schema, its help, the
 * documentation and enum dataset_split_rule are made from this list. engine/data/split_rows.c
 * follows the rules. */
#pragma once

#define SPLIT_FOLD_KEY "data.split.fold" /* the part of a cross-validation that validates */
enum { SPLIT_FOLDS_MAX = 1000 };

/* Columns: DATASET_SPLIT_<upper> of enum dataset_split_rule; the name in specifications and
 * messages; a short description. */
#define SPLIT_RULES(RULE)                                                                \
    RULE(RANDOM, random, "any samples")                                                  \
    RULE(STRATIFIED, stratified, "each class has the same share in both parts")          \
    RULE(ORDER, order, "the last samples, or those that are the latest by the column")   \
    RULE(GROUP, group, "samples that have the same text in the column stay in one part") \
    RULE(COLUMN, column, "the column names the part of each sample")
