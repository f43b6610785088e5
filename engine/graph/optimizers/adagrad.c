/* adagrad.c: torch.optim.Adagrad. */
#include "engine/graph/optimizer.h"

static double first_state(const struct optimizer_config *config)
{
    return config->initial_square_sum;
}

const struct optimizer optimizer_adagrad = {
    .title = "Adagrad",
    .states = {"square_sum"},
    .first_state = first_state,
    .operations = 6,
};
