/* search.h: what a search over the trials of a sweep is told: which metric counts, when trials are
 * compared, and how many go on. search_rules.h decides by it.
 *
 *   {"search": {"algorithm": "asha", "metric": "validation_accuracy", "mode": "max",
 *               "max_epochs": 16, "grace_period": 1, "reduction_factor": 4,
 *               "sampler": "random", "trials": 64, "seed": 1,
 *               "space": {"train.optimizer.lr": {"log_uniform": [1e-4, 0.1]}, …}}} */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "proto/job_spec.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

enum search_algorithm {
    SEARCH_ASHA,       /* asynchronous successive halving: L. Li et al., "A System for Massively
                        * Parallel Hyperparameter Tuning" (MLSys 2020) */
    SEARCH_HALVING,    /* successive halving: K. Jamieson and A. Talwalkar, "Non-stochastic Best Arm
                        * Identification and Hyperparameter Optimization" (AISTATS 2016) */
    SEARCH_MEDIAN,     /* the median stopping rule: D. Golovin et al., "Google Vizier" (KDD 2017) */
    SEARCH_POPULATION, /* population based training: M. Jaderberg et al. (arXiv:1711.09846) */
    SEARCH_NONE        /* every trial runs to its end */
};
DECLARE_STRING_TABLE(search_algorithm, enum search_algorithm);

enum search_sampler { SAMPLER_RANDOM, SAMPLER_GRID, SAMPLER_SOBOL, SAMPLER_TPE };
DECLARE_STRING_TABLE(search_sampler, enum search_sampler);

enum {
    SEARCH_METRIC_MAX = 129,
    SEARCH_TRIALS_MAX = 10000,
    SEARCH_RUNGS_MAX = 10000,
    SEARCH_RESULTS_MAX = 100000 /* of all trials: each is a row, and judged in memory */
};

struct search {
    enum search_algorithm algorithm;
    enum search_sampler sampler;
    char metric[SEARCH_METRIC_MAX];
    bool falls;      /* a lower value is better */
    bool by_steps;   /* rungs are steps, not epochs */
    double most;     /* epochs or steps of a whole trial; 0: not known */
    double grace;    /* of the first rung; of the median rule: before any trial is stopped */
    double interval; /* between two rungs, of the algorithms that do not multiply */
    double reduction;
    int64_t least_trials; /* the median of fewer stops nobody */
    double quantile, resampling;
    bool stops_only; /* trials cannot pause: those below a rung's cut are stopped at once */
    int64_t trials;  /* 0: all points of the grid, not counted yet */
    uint64_t seed;
    bool scramble;
};

/* Reads the member `search` of a sweep. -EINVAL with a sentence; `fault` names the path in the
 * sweep. */
int search_read(struct json_object *object, struct search *search, struct job_spec_fault *fault,
                struct error *error);

/* Checks the search against the specification `spec` of its trials. What it does not say follows
 * from that and is added to `object`, from which search_read() reads it again: mode, max_epochs,
 * and an interval that keeps within SEARCH_RESULTS_MAX, and SEARCH_RUNGS_MAX of each trial. One
 * that is said and does not is refused.
 * `spec` gets what the trials need: their length, and the search's metric as checkpoint.best. */
int search_complete(struct json_object *object, struct json_object *spec, int64_t trials,
                    struct job_spec_fault *fault, struct error *error);

/* Whether trials by this specification save their state, so that they can wait and go on. */
bool search_trials_pause(struct json_object *spec);

/* How many rungs a trial passes, the last one at its end. Where nobody knows, as many as
 * SEARCH_RUNGS_MAX and SEARCH_RESULTS_MAX allow. */
uint32_t search_rungs(const struct search *search);
/* The epoch or step of a rung. */
double search_rung_at(const struct search *search, uint32_t rung);

/* "epoch" or "step". */
const char *search_unit(const struct search *search);
