/* adadelta.c: torch.optim.Adadelta. */
#include "engine/graph/optimizer.h"

const struct optimizer optimizer_adadelta = {
    .title = "Adadelta",
    .states = {"second_moment", "step_moment"},
    .operations = 14,
};
