/* metric_kinds.h: the metrics of a validation or test set. The names that a specification may
 * watch, its help and checks, and enum metric_kind are made from this list. engine/train/metrics.c
 * computes them. */
#pragma once

/* The tasks to which a metric applies, and its properties. */
enum metric_trait {
    METRIC_OF_CLASSES = 1, /* a class is predicted for each sample */
    METRIC_OF_VALUES = 2,  /* numbers are predicted: mean squared error */
    METRIC_OF_TEXT = 4,    /* the next symbol is predicted */
    METRIC_OF_HEADS = 8,   /* several labels are predicted */
    METRIC_FALLS = 16,     /* it improves when it falls */
    METRIC_READS = 32      /* it is computed from the outputs of every sample */
};

/* The name of a head's loss, beside these metrics; a format with the head's name. */
#define METRIC_OF_HEAD "validation_%s_loss"

/* Columns: METRIC_<upper> of enum metric_kind; the name, which follows "validation_", "test_" and
 * "last_test_"; the traits; what it is, for help. */
/* clang-format off */
#define METRIC_KINDS(METRIC)                                                                      \
    METRIC(LOSS, loss,                                                                            \
           METRIC_OF_CLASSES | METRIC_OF_VALUES | METRIC_OF_TEXT | METRIC_OF_HEADS |              \
               METRIC_FALLS,                                                                      \
           "the loss that is trained")                                                            \
    METRIC(ACCURACY, accuracy, METRIC_OF_CLASSES | METRIC_OF_TEXT,                                \
           "share of the samples whose class, or symbol, is the most probable one")               \
    METRIC(F1, f1, METRIC_OF_CLASSES | METRIC_READS,                                              \
           "harmonic mean of precision and recall of class 1, or with more than two classes the " \
           "mean over the classes")                                                               \
    METRIC(MCC, mcc, METRIC_OF_CLASSES | METRIC_READS, "Matthews' correlation coefficient")       \
    METRIC(AUC, auc, METRIC_OF_CLASSES | METRIC_READS,                                            \
           "area under the ROC curve, with more than two classes the mean of one against the "    \
           "rest")                                                                                \
    METRIC(MSE, mse, METRIC_OF_VALUES | METRIC_FALLS | METRIC_READS, "mean squared error")        \
    METRIC(RMSE, rmse, METRIC_OF_VALUES | METRIC_FALLS | METRIC_READS,                            \
           "root of the mean squared error, with several values the mean of their roots")         \
    METRIC(MAE, mae, METRIC_OF_VALUES | METRIC_FALLS | METRIC_READS, "mean absolute error")       \
    METRIC(R2, r2, METRIC_OF_VALUES | METRIC_READS,                                               \
           "share of the variance that is explained, with several values the mean of theirs")     \
    METRIC(BITS_PER_CHARACTER, bits_per_character, METRIC_OF_TEXT | METRIC_FALLS,                 \
           "the loss divided by log 2")                                                           \
    METRIC(PERPLEXITY, perplexity, METRIC_OF_TEXT | METRIC_FALLS, "the exponential of the loss")
/* clang-format on */
