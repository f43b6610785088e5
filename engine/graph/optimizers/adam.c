/* adam.c: torch.optim.Adam, also with amsgrad=True (Reddi, Kale and Kumar 2018), torch.optim.AdamW
 * and torch.optim.Adamax (Kingma and Ba 2015, arXiv:1412.6980, section 7.1). */
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

const struct optimizer optimizer_amsgrad = {
    .title = "AMSGrad",
    .states = {"first_moment", "second_moment", "largest_moment"},
    .operations = 13,
    .has_betas = true,
};

const struct optimizer optimizer_adamax = {
    .title = "Adamax",
    .states = {"first_moment", "largest_gradient"},
    .operations = 9,
    .has_betas = true,
};
