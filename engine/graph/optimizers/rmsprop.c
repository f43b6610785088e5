/* rmsprop.c: torch.optim.RMSprop. */
#include "engine/graph/optimizer.h"

const struct optimizer optimizer_rmsprop = {
    .title = "RMSprop",
    .states = {"second_moment"},
    .momentum_is_state = true,
    .operations = 8,
    .momentum_operations = 2,
};
