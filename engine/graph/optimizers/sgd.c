/* sgd.c: stochastic gradient descent, torch.optim.SGD. */
#include "engine/graph/optimizer.h"

#include <errno.h>

static int check(const struct optimizer_config *config, struct error *error)
{
    if (config->nesterov && (config->momentum <= 0 || config->dampening != 0))
        return error_set(error, -EINVAL,
                         "Nesterov momentum needs momentum above 0 and no dampening");
    return 0;
}

const struct optimizer optimizer_sgd = {
    .title = "SGD",
    .momentum_is_state = true,
    .operations = 2,
    .momentum_operations = 2,
    .nesterov_operations = 2,
    .check = check,
};
