/* lamb.c: LAMB: You et al. 2020, arXiv:1904.00962, algorithm 2, with the norm itself as its phi. */
#include "engine/graph/optimizer.h"

const struct optimizer optimizer_lamb = {
    .title = "LAMB",
    .states = {"first_moment", "second_moment"},
    .operations = 20, /* the direction is computed twice: for its norm, and to move along it */
    .has_betas = true,
    .scales_by_norms = true,
};
