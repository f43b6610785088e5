/* optimizer.h: the descriptor of each optimizer, which a file of engine/graph/optimizers/ defines.
 * The graph's update part, the costs, the training loop and the backends ask the descriptor. The
 * backends have the formulas; proto/optimizer_kinds.h has the names and defaults of a
 * specification. */
#pragma once

#include "engine/graph/graph.h"

enum { OPTIMIZER_STATES_MAX = 3 };

struct optimizer {
    const char *title; /* its name in sentences */
    /* Names of the states that it keeps for each parameter, in the order of the node's inputs. A
     * state "momentum" follows if momentum_is_state is set and the settings have a momentum. */
    const char *states[OPTIMIZER_STATES_MAX];
    bool momentum_is_state;
    /* The initial value of the states; NULL: 0. */
    double (*first_state)(const struct optimizer_config *config);
    /* Floating-point operations of an update per parameter, without weight decay. Those of momentum
     * and of Nesterov's momentum are added if the settings have them. */
    double operations, momentum_operations, nesterov_operations;
    /* Floating-point operations of the matrix products for one parameter; NULL: none. */
    double (*matrix_operations)(const struct optimizer_config *config, double rows, double columns);
    bool updates_matrices; /* it updates only matrices, by matrix products */
    bool scales_by_norms;  /* a step's length follows from norms of the whole parameter */
    bool has_betas;        /* beta1 is its momentum, beta2 the decay of its second average */
    /* Its first state is averaged over the steps, and that mean is the model: what is evaluated and
     * exported (graph_add_averages()). The parameter is where gradients are taken. */
    bool averages_itself;
    bool decays_apart; /* weight decay shrinks the weights instead of joining the gradient */
    /* The momentum of step `step` (from 1); the update needs the product over all steps. `beta1` is
     * that of the step. NULL: the momentum is the same in all steps. */
    double (*momentum)(const struct optimizer_config *config, double beta1, int64_t step);
    /* Fails if settings exclude each other; NULL: none do. */
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
/* Floating-point operations of one update of rows * columns parameters. Only an optimizer that
 * updates matrices distinguishes rows from columns. */
double optimizer_flops(const struct optimizer_config *config, double rows, double columns);
/* Whether weight decay shrinks the weights (decoupled) with these settings. */
bool optimizer_decays_apart(const struct optimizer_config *config);
/* The factor of Muon's learning rate for a matrix. */
double optimizer_muon_rate_scale(const struct optimizer_config *config, double rows,
                                 double columns);
/* Whether no node before this one updates a parameter. */
bool graph_update_is_first(const struct graph *graph, int32_t node);
/* Whether the node updates a matrix by matrix products. */
bool graph_node_updates_matrix(const struct graph *graph, const struct graph_node *node);
/* Whether the node updates a parameter by norms of all of it. */
bool graph_node_scales_by_norms(const struct graph *graph, const struct graph_node *node);
/* Whether the node's update needs the whole parameter: one of both. */
bool graph_node_updates_whole(const struct graph *graph, const struct graph_node *node);
