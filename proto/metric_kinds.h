/* metric_kinds.h: the metrics of a validation or test set. The names that a specification may
 * watch, its help and checks, and enum metric_kind are made from this list. engine/train/metrics.c
 * computes them. */
#pragma once

/* The tasks to which a metric applies, and its properties. */
enum metric_trait {
    METRIC_OF_CLASSES = 1,  /* a class is predicted for each sample */
    METRIC_OF_VALUES = 2,   /* numbers are predicted: mean squared error */
    METRIC_OF_TEXT = 4,     /* the next symbol is predicted */
    METRIC_OF_HEADS = 8,    /* several labels are predicted */
    METRIC_FALLS = 16,      /* it improves when it falls */
    METRIC_READS = 32,      /* it is computed from the outputs of every sample */
    METRIC_ASKED = 64,      /* it is measured where it is asked for alone */
    METRIC_SCORES = 128,    /* all probabilities of the set are kept for it */
    METRIC_OF_LABELS = 256, /* several labels of a sample are predicted, each of which is 0 or 1 */
    METRIC_OF_EMBEDDINGS = 512 /* samples of a class become embeddings near each other */
};

/* The name of a head's loss, beside these metrics; a format with the head's name. */
#define METRIC_OF_HEAD "validation_%s_loss"

/* Columns: METRIC_<upper> of enum metric_kind; the name, which follows "validation_", "test_" and
 * "last_test_"; the traits; what it is, for help. */
/* clang-format off */
#define METRIC_KINDS(METRIC)                                                                      \
    METRIC(LOSS, loss,                                                                            \
           METRIC_OF_CLASSES | METRIC_OF_VALUES | METRIC_OF_TEXT | METRIC_OF_HEADS |              \
               METRIC_OF_LABELS | METRIC_OF_EMBEDDINGS | METRIC_FALLS,                            \
           "the loss that is trained")                                                            \
    METRIC(ACCURACY, accuracy, METRIC_OF_CLASSES | METRIC_OF_TEXT,                                \
           "share of the samples whose class, or symbol, is the most probable one")               \
    METRIC(F1, f1, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS,                                              \
           "harmonic mean of precision and recall of class 1, or with more than two classes the " \
           "mean over the classes")                                                               \
    METRIC(MCC, mcc, METRIC_OF_CLASSES | METRIC_READS, "Matthews' correlation coefficient")       \
    METRIC(AUC, auc, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_SCORES,                                            \
           "area under the ROC curve, with more than two classes the mean of one against the "    \
           "rest")                                                                                \
    METRIC(AVERAGE_PRECISION, average_precision,                                                  \
           METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_SCORES | METRIC_ASKED,                       \
           "area under the curve of precision over recall, with more than two classes the mean")  \
    METRIC(BALANCED_ACCURACY, balanced_accuracy, METRIC_OF_CLASSES | METRIC_READS | METRIC_ASKED, \
           "mean recall of the classes")                                                          \
    METRIC(LOG_LOSS, log_loss, METRIC_OF_CLASSES | METRIC_READS | METRIC_ASKED | METRIC_FALLS,    \
           "cross entropy of the labels, without smoothing or weights")                           \
    METRIC(CALIBRATION_ERROR, calibration_error,                                                  \
           METRIC_OF_CLASSES | METRIC_READS | METRIC_ASKED | METRIC_FALLS,                        \
           "how far the probabilities of the predicted classes are from how often they are right")\
    METRIC(TOP_3_ACCURACY, top_3_accuracy, METRIC_OF_CLASSES | METRIC_READS | METRIC_ASKED,       \
           "share of the samples whose class is among the 3 likeliest")                           \
    METRIC(TOP_5_ACCURACY, top_5_accuracy, METRIC_OF_CLASSES | METRIC_READS | METRIC_ASKED,       \
           "share of the samples whose class is among the 5 likeliest")                           \
    METRIC(PRECISION, precision, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's predictions that are right, of class 1, or with more than two classes the mean over the classes") \
    METRIC(PRECISION_MACRO, precision_macro, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's predictions that are right, the mean over the classes") \
    METRIC(PRECISION_MICRO, precision_micro, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's predictions that are right, over all samples") \
    METRIC(PRECISION_WEIGHTED, precision_weighted, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's predictions that are right, the mean over the classes by their samples") \
    METRIC(RECALL, recall, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's samples that are found, of class 1, or with more than two classes the mean over the classes") \
    METRIC(RECALL_MACRO, recall_macro, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's samples that are found, the mean over the classes") \
    METRIC(RECALL_MICRO, recall_micro, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's samples that are found, over all samples") \
    METRIC(RECALL_WEIGHTED, recall_weighted, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "share of a class's samples that are found, the mean over the classes by their samples") \
    METRIC(F1_MACRO, f1_macro, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "harmonic mean of precision and recall, the mean over the classes") \
    METRIC(F1_MICRO, f1_micro, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "harmonic mean of precision and recall, over all samples") \
    METRIC(F1_WEIGHTED, f1_weighted, METRIC_OF_CLASSES | METRIC_OF_LABELS | METRIC_READS | METRIC_ASKED, \
           "harmonic mean of precision and recall, the mean over the classes by their samples") \
    METRIC(SUBSET_ACCURACY, subset_accuracy, METRIC_OF_LABELS | METRIC_READS,                     \
           "share of the samples whose labels are all predicted rightly")                         \
    METRIC(PRECISION_AT_1, precision_at_1, METRIC_OF_EMBEDDINGS | METRIC_READS,                   \
           "share of the samples whose nearest other sample of the set has their class")          \
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
