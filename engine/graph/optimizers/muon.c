/* muon.c: Muon: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/, as
 * torch.optim.Muon. */
#include "engine/graph/optimizer.h"

#include <math.h>

/* The three products of each Newton-Schulz iteration. */
static double matrix_operations(const struct optimizer_config *config, double rows, double columns)
{
    double small = rows < columns ? rows : columns, large = rows < columns ? columns : rows;

    return config->iterations * 2 * small * small * (2 * large + small);
}

double optimizer_muon_rate_scale(const struct optimizer_config *config, double rows, double columns)
{
    if (config->match_adamw)
        return 0.2 * sqrt(fmax(rows, columns));
    return sqrt(fmax(1, rows / columns));
}

const struct optimizer optimizer_muon = {
    .title = "Muon",
    .states = {"momentum"},
    .operations = 8,
    .matrix_operations = matrix_operations,
    .updates_matrices = true,
    .decays_apart = true,
};
