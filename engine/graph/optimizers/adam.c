/* adam.c: torch.optim.Adam and torch.optim.AdamW. */
#include "engine/graph/optimizer.h"

const struct optimizer optimizer_adam = {
    .title = "Adam",
    .states = {"first_moment", "second_moment"},
    .operations = 12,
    .has_betas = true,
};

const struct optimizer optimizer_adamw = {
    .title = "AdamW",
    .states = {"first_moment", "second_moment"},
    .operations = 12,
    .has_betas = true,
    .decays_apart = true,
};
