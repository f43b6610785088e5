/* lion.c: Lion: Chen et al. 2023, arXiv:2302.06675. */
#include "engine/graph/optimizer.h"

const struct optimizer optimizer_lion = {
    .title = "Lion",
    .states = {"momentum"},
    .operations = 8,
    .has_betas = true,
    .decays_apart = true,
};
