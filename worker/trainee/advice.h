/* advice.h: which measurements of a training lead to which advice: bottleneck, cause, remedy and
 * gain. Pure functions without I/O; measurement.h measures, worker_advise.c puts both together. */
#pragma once

#include "base/string_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what time goes into ---- */

enum advice_bottleneck {
    ADVICE_DATA,       /* the training waits for batches */
    ADVICE_LAUNCH,     /* operators begin, threads wait for each other */
    ADVICE_MEMORY,     /* operators that move bytes */
    ADVICE_ARITHMETIC, /* operators that calculate */
    ADVICE_EVALUATION,
    ADVICE_CHECKPOINTS,
    ADVICE_BOTTLENECKS
};
DECLARE_STRING_TABLE(advice_bottleneck, enum advice_bottleneck);

/* Seconds, or shares of 1, of each. */
struct advice_time {
    double part[ADVICE_BOTTLENECKS];
};

/* Adds an operator of a profile: `seconds` of `calls` calls, of which each takes `kernel_seconds`
 * at least, whatever its work (struct calibration). `is_arithmetic`: what bounds it. */
void advice_time_add(struct advice_time *time, double seconds, double calls, double kernel_seconds,
                     bool is_arithmetic);
/* The largest part. */
enum advice_bottleneck advice_time_largest(const struct advice_time *time);

/* ---- what a sample costs ---- */

/* How often a run evaluates and writes checkpoints. */
struct advice_rhythm {
    double epoch_samples, step_samples, run_samples;
    int64_t evaluate_steps, evaluate_epochs;     /* one of them is 0 */
    int64_t checkpoint_steps, checkpoint_epochs; /* both 0: by time */
    double checkpoint_seconds;                   /* 0: not by time */
};

/* In seconds. */
struct advice_costs {
    double step;       /* of training, for each sample, with waiting for data */
    double evaluation; /* of one evaluation; 0: there is no validation set */
    double checkpoint; /* of writing one */
    /* of evaluations behind which one is written, as the weights are the best; and of how many that
     * is known, 0: it stays as it is */
    double best_share, best_evaluations;
};

/* Samples of training between two evaluations, at most those of the whole run. */
double advice_evaluation_samples(const struct advice_rhythm *rhythm);

/* The same share of all evaluations of a run that makes so many. Of further ones, the n-th is the
 * best with a probability of 1 / n, as if they only differed by chance (Renyi 1962, on records). */
double advice_best_share(const struct advice_costs *costs, double evaluations);

/* Seconds for each sample: all, and the parts of evaluation and checkpoints. A checkpoint behind an
 * evaluation counts as a checkpoint. */
struct advice_cost {
    double all, evaluation, checkpoints;
    double best; /* of `checkpoints`, those of the best weights */
};
struct advice_cost advice_cost_of(const struct advice_costs *costs,
                                  const struct advice_rhythm *rhythm);

/* ---- what could be changed ---- */

enum advice_kind {
    ADVICE_BATCH,
    ADVICE_ACCUMULATE,
    ADVICE_PRECISION,
    ADVICE_RECOMPUTE,
    ADVICE_DETERMINISTIC,
    ADVICE_LENGTH_BUCKETS,
    ADVICE_LOADER_THREADS,
    ADVICE_THREADS,
    ADVICE_AUGMENT,
    ADVICE_WIDTH,
    ADVICE_EVALUATE,
    ADVICE_CHECKPOINT,
    ADVICE_KINDS
};
DECLARE_STRING_TABLE(advice_kind, enum advice_kind);

/* Repeated measurements of the same. Other work makes one slower, never faster: so the fastest
 * tells what the training takes by itself, and the one after it how well that is known. All zero:
 * none was taken yet. */
struct advice_times {
    double fastest, second;
    int count;
};
/* Leaves out NAN, a measurement that failed. */
void advice_times_add(struct advice_times *times, double seconds);
/* The fastest; NAN: there is none. */
double advice_times_step(const struct advice_times *times);
/* By how much the second is slower, as a part of the fastest; 0: there is no second. */
double advice_times_noise(const struct advice_times *times);

/* A change and what it was measured to cost. */
struct advice_option {
    enum advice_kind kind;
    double step; /* seconds of training for a sample with it; NAN: not measured */
    struct advice_rhythm rhythm;
    double noise; /* of `step`, as in struct advice_base */
};

/* What the specification costs as it is. */
struct advice_base {
    struct advice_costs costs;
    struct advice_rhythm rhythm;
    double noise; /* of `costs.step`: advice_times_noise() */
    /* the part of a step's time in which the training waits for data that it prepares itself;
     * INFINITY: loader threads prepare them, and take time from it unseen */
    double data_share;
};

/* The longest interval of evaluations, or of checkpoints, that there needs to be: the shortest one
 * of round numbers at which they take ADVICE_PART of the time or less, at most the whole run.
 * False: they take no more now. */
#define ADVICE_PART 0.05
bool advice_evaluate_seldom(const struct advice_base *base, struct advice_rhythm *rhythm);
bool advice_checkpoint_seldom(const struct advice_base *base, struct advice_rhythm *rhythm);

/* Both at once, where checkpoints alone cannot get fewer: each evaluation at the end of an epoch
 * writes one if the weights are the best. `kind`: what takes more of the two. */
bool advice_both_seldom(const struct advice_base *base, struct advice_rhythm *rhythm,
                        enum advice_kind *kind);

struct advice_finding {
    int option;   /* its index */
    double gain;  /* how many times as many samples a second: cost before by cost after */
    double saved; /* the part of the time that is saved: 1 - 1 / gain */
    double worth; /* by which findings are sorted: the gain, see advice_find() */
};

/* The part by which a change must shorten the time at least to be named. */
#define ADVICE_GAIN_MIN 0.05
/* The same beside such a noise of the specification as it is. */
double advice_least_saved(double noise);

/* The changes that pay, the best first, at most one of each kind; returns their number. A change
 * pays if it saves ADVICE_GAIN_MIN even if the specification as it is were faster by its noise,
 * and the change slower by its own. Rarer evaluations and checkpoints pay if they save
 * ADVICE_GAIN_MIN beside steps that are slower by twice the noise. Of a kind's options, in
 * ascending order, the first one is taken that gains nearly as much as the best of them. A change
 * after which the model learns otherwise (advice_changes_learning()) counts as the root of its
 * gain: its learning rate has to be found anew, and it may need more epochs. What prepares data
 * otherwise saves no more than data_share. */
int advice_find(const struct advice_base *base, const struct advice_option *options, int count,
                struct advice_finding findings[ADVICE_KINDS]);

/* Whether the run makes other updates after such a change, apart from rounding and order. */
bool advice_changes_learning(enum advice_kind kind);

/* The learning rate to begin with when the batch grows by `factor`: in proportion for SGD (Goyal
 * and others 2017, arXiv:1706.02677), by the root of the factor for optimizers that divide by the
 * gradients' size (Malladi and others 2022, arXiv:2205.10092). */
double advice_learning_rate(double learning_rate, double factor, bool is_sgd);
