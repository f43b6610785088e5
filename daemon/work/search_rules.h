/* search_rules.h: which trials of a search go on, wait or stop, as pure functions of what their
 * metrics were at the rungs. */
#pragma once

#include "daemon/work/search.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The metric of a trial when it came to a rung. */
struct search_result {
    uint32_t trial, rung;
    double resource; /* the epoch or step of the measurement, at or behind the rung's */
    double value;    /* NAN counts as the worst */
    bool passed;     /* it was decided that the trial goes on from here */
};

struct search_trial {
    uint32_t results;   /* at rungs 0 … results - 1 */
    size_t last;        /* the index of the last of them */
    bool exists, ended; /* the trial has become a job; that has ended */
    bool failed; /* it has ended before its end, and not by the search: it counts as the worst */
    bool done;   /* it has run to its end */
};

/* What is known of all trials. */
struct search_table {
    struct search search;
    struct search_trial *trials; /* owned */
    size_t trial_count;
    bool complete;                 /* no more trials become jobs */
    struct search_result *results; /* owned; in the order in which they came */
    size_t count, capacity;
};

void search_table_init(struct search_table *table, const struct search *search, size_t trials);
void search_table_release(struct search_table *table);

/* Adds a result; the trial has none at that rung. */
void search_table_add(struct search_table *table, const struct search_result *result);
/* The trial's result at the rung; NULL: it has none. */
struct search_result *search_table_find(const struct search_table *table, uint32_t trial,
                                        uint32_t rung);

/* Whether value `a` is better than `b`. */
bool search_is_better(const struct search *search, double a, double b);
/* Indices of the trials that have a result, the best first: those of higher rungs go before those
 * of lower ones, and those that failed come last. `order` has room for all trials; returns how
 * many. */
size_t search_rank(const struct search_table *table, uint32_t *order);

enum search_action {
    SEARCH_NOTHING, /* it has ended, or runs on to its next rung */
    SEARCH_PASS,    /* it goes on from its last rung */
    SEARCH_WAIT,    /* it pauses at its last rung until more trials have come there */
    SEARCH_STOP,    /* it ends at its last rung */
    SEARCH_EXPLOIT, /* it goes on with the checkpoint of trial `donor` and changed values */
    SEARCH_FINISH   /* it has come to the last rung, and goes on to its end */
};

struct search_verdict {
    enum search_action action;
    uint32_t rung, donor;
    double cut; /* the worst value that goes on from this rung, or the median; NAN: not known */
};

/* Judges every trial by its last result. `verdicts` has room for all trials. The order in which
 * results came decides between equal values. */
void search_judge(const struct search_table *table, struct search_verdict *verdicts);

/* Writes "stopped early by the search at epoch 3: validation_accuracy 0.71, the rung's cut is
 * 0.78". */
void search_describe_stop(const struct search_table *table, uint32_t trial,
                          const struct search_verdict *verdict, char *text, size_t size);
