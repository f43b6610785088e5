/* optimizer.h: what the engine knows of each optimizer: one descriptor in a file of
 * engine/graph/optimizers/ each. The graph's update part, costs, the loop and the backends ask the
 * descriptor; the formulas are the backends'. A specification's names and defaults stand in
 * proto/optimizer_kinds.h. */
#pragma once

#include "engine/graph/graph.h"

enum { OPTIMIZER_STATES_MAX = 2 };

struct optimizer {
    const char *title; /* its name in sentences */
    /* Names of the states that it keeps for each parameter, in the order of the node's inputs;
     * "momentum" follows where momentum_is_state and the settings have one. */
    const char *states[OPTIMIZER_STATES_MAX];
    bool momentum_is_state;
    /* What the states begin with; NULL: 0. */
    double (*first_state)(const struct optimizer_config *config);
    /* Floating-point operations of an update per parameter, weight decay aside; those of momentum
     * and of Nesterov's are added where the settings have them. */
    double operations, momentum_operations, nesterov_operations;
    /* Those of the products of a whole matrix; NULL: none. */
    double (*matrix_operations)(const struct optimizer_config *config, double rows, double columns);
    bool updates_matrices; /* alone, by products of matrices */
    bool has_betas;        /* beta1 is its momentum, beta2 the decay of its second average */
    bool decays_apart;     /* weight decay shrinks the weights instead of joining the gradient */
    /* The momentum of step `step` (from 1), whose products the update needs; `beta1` is that of the
     * step. NULL: the same in all steps. */
    double (*momentum)(const struct optimizer_config *config, double beta1, int64_t step);
    /* Checks settings that exclude each other; NULL: there are none. */
    int (*check)(const struct optimizer_config *config, struct error *error);
};

/* One for each line of OPTIMIZER_KINDS: optimizer_sgd, … */
#define DECLARE_OPTIMIZER(upper, lower, ...) extern const struct optimizer optimizer_##lower;
OPTIMIZER_KINDS(DECLARE_OPTIMIZER)
#undef DECLARE_OPTIMIZER

/* The descriptor of the settings' optimizer. */
const struct optimizer *optimizer_of(const struct optimizer_config *config);
/* The names of the states that the settings need; returns how many. */
int optimizer_states(const struct optimizer_config *config,
                     const char *states[OPTIMIZER_STATES_MAX]);
/* Floating-point operations of one update of so many parameters; only what updates matrices tells
 * rows from columns. */
double optimizer_flops(const struct optimizer_config *config, double rows, double columns);
/* Whether weight decay shrinks the weights by these settings. */
bool optimizer_decays_apart(const struct optimizer_config *config);
/* Whether the node is the update of a matrix by products of matrices. */
bool graph_node_updates_matrix(const struct graph *graph, const struct graph_node *node);
