/* nadam.c: torch.optim.NAdam: Dozat 2016 with torch's schedule of the momentum. */
#include "engine/graph/optimizer.h"

#include <math.h>

/* beta1 (1 - 0.96^(step momentum_decay) / 2) */
static double momentum(const struct optimizer_config *config, double beta1, int64_t step)
{
    return beta1 * (1 - 0.5 * pow(0.96, (double)step * config->momentum_decay));
}

const struct optimizer optimizer_nadam = {
    .title = "NAdam",
    .states = {"first_moment", "second_moment"},
    .operations = 15,
    .has_betas = true,
    .momentum = momentum,
};
