/* class_metrics.h: metrics of classes that follow from counts and from sorted scores, as
 * scikit-learn computes them. metrics.h gathers what they need. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Over the samples of a set: how many there are, and for each class how many were predicted as it,
 * have its label, and both. */
struct class_counts {
    int64_t classes, count;
    const int64_t *predicted, *labelled, *matching;
};

enum class_rate { CLASS_PRECISION, CLASS_RECALL, CLASS_F1 };
/* USUAL: of class 1 if there are two, else MACRO. */
enum class_average { CLASS_USUAL, CLASS_MACRO, CLASS_MICRO, CLASS_WEIGHTED };

/* Of one class; 0 where it divides by 0. */
double class_rate(const struct class_counts *counts, enum class_rate rate, int64_t class);
/* Means leave out classes that are neither labels nor predictions. */
double class_rate_average(const struct class_counts *counts, enum class_rate rate,
                          enum class_average average);
/* Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient",
 * Computational Biology and Chemistry 28(5-6). 0 if there is only one class. */
double class_mcc(const struct class_counts *counts);
/* The mean recall of the classes that are labels. */
double class_balanced_accuracy(const struct class_counts *counts);

/* The probability that a sample is of a class, and whether it is. */
struct class_score {
    double probability;
    bool positive;
};

/* Sorts by probability, the smallest first. */
void class_scores_sort(struct class_score *scores, int64_t count);

/* Of scores in ascending order, `positives` of which are positive. */
/* The area under the ROC curve, from the ranks of the positive samples; equal probabilities get
 * their mean rank: Hanley and McNeil 1982, "The meaning and use of the area under a ROC curve",
 * Radiology 143(1). NAN where all or none are positive. */
double class_auc(const struct class_score *scores, int64_t count, int64_t positives);
/* The mean of the precisions at each threshold, weighted by the recall that it adds. 0 where none
 * is positive. */
double class_average_precision(const struct class_score *scores, int64_t count, int64_t positives);

/* Whether one of a sample's outputs is no finite number: then classes have no probabilities. */
bool class_outputs_are_undefined(const float *outputs, int64_t count);

/* How many classes have a higher score than the label's; of equal scores the class with the higher
 * number comes first. */
int64_t class_rank(const float *scores, int64_t classes, int64_t label);

/* The differences between how sure a model is and how often it is right: Guo, Pleiss, Sun and
 * Weinberger 2017, "On calibration of modern neural networks", arXiv:1706.04599, with its 15 bins
 * of equal width. */
enum { CLASS_BINS = 15 };
struct class_bins {
    double confidence[CLASS_BINS], correct[CLASS_BINS]; /* sums */
};
void class_bins_add(struct class_bins *bins, double confidence, bool correct);
/* The expected calibration error over `count` samples. */
double class_calibration_error(const struct class_bins *bins, int64_t count);
