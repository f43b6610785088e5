/* schedule.h: the learning rate of every optimizer step. It is a function of the step, and for the
 * plateau schedule of its stored state, so a resumed run needs nothing else. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "engine/train/plateau.h"
#include "proto/schedule_kinds.h"

#include <stdbool.h>
#include <stdint.h>

enum schedule_kind {
#define KIND(upper, lower, ...) SCHEDULE_##upper,
    SCHEDULE_KINDS(KIND)
#undef KIND
};

DECLARE_STRING_TABLE(schedule_kind, enum schedule_kind);

enum { SCHEDULE_MILESTONES_MAX = 32 };

/* All steps but total_steps are counted from the end of the warm-up. */
struct schedule_config {
    enum schedule_kind kind;
    double learning_rate; /* the peak, reached when the warm-up ends */
    int64_t warmup_steps; /* 0: none */
    /* cosine, linear, polynomial: the final learning rate; exponential: the first one */
    double minimum;
    int64_t every_steps; /* step: multiply by `factor` every `every_steps` steps */
    /* multi_step: multiply by `factor` at these steps, in ascending order */
    int64_t milestones[SCHEDULE_MILESTONES_MAX];
    int milestone_count;
    double factor; /* step, multi_step: at every cut */
    double power;  /* polynomial */
    /* cosine, linear, polynomial, one_cycle, exponential: the last step, including the warm-up */
    int64_t total_steps;

    /* one_cycle; each comment begins with PyTorch's name */
    double rise;             /* pct_start: share of the steps in which the learning rate rises */
    double start_divisor;    /* div_factor: it starts at the peak divided by this */
    double end_divisor;      /* final_div_factor: and ends at the start divided by this */
    bool anneals_linearly;   /* anneal_strategy: else along a cosine */
    bool cycle_momentum;     /* the momentum falls and rises against the learning rate */
    double lowest_momentum;  /* base_momentum */
    double highest_momentum; /* max_momentum */

    struct plateau_config plateau;
};

/* Whether the schedule can move the momentum against the learning rate. */
bool schedule_moves_momentum(enum schedule_kind kind);
/* Whether the run is a test of learning rates, the steps of which are reported one by one. */
bool schedule_is_test(enum schedule_kind kind);
/* Checks the ranges; -EINVAL with a sentence. */
int schedule_check(const struct schedule_config *config, struct error *error);

/* The learning rate of optimizer step `step`, which counts from 1. `plateau` is the state of the
 * plateau schedule, NULL for all others. */
double schedule_learning_rate(const struct schedule_config *config, const struct plateau *plateau,
                              int64_t step);
/* The decay of the weights' moving averages at update `step`: 0 (a copy) at the first update, as in
 * torch.optim.swa_utils.AveragedModel, then `decay`. With `warmup` it is at most 1 - step^(-2/3),
 * as in timm's ModelEmaV3 with its defaults. */
double schedule_average_decay(double decay, bool warmup, int64_t step);

/* What a step counts in the mean over all steps so far, weighted by the squares of their learning
 * rates, of a constant schedule with its warm-up: the c of Schedule-Free optimizers
 * (arXiv:2405.15682). */
double schedule_share(const struct schedule_config *config, int64_t step);

/* The momentum (or first beta) of the step, if config->cycle_momentum. */
double schedule_momentum(const struct schedule_config *config, int64_t step);
