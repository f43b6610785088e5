/* table.c: the table of descriptors, by enum optimizer_kind, and the functions that follow from
 * it. */
#include "engine/graph/optimizer.h"

#define DESCRIPTOR(upper, lower, ...) [OPTIMIZER_##upper] = &optimizer_##lower,
static const struct optimizer *const optimizers[] = {OPTIMIZER_KINDS(DESCRIPTOR)};
#undef DESCRIPTOR

#define NAME(upper, lower, ...) [OPTIMIZER_##upper] = #lower,
static const char *const optimizer_kind_names[] = {OPTIMIZER_KINDS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(optimizer_kind, enum optimizer_kind, optimizer_kind_names)

const struct optimizer *optimizer_of(const struct optimizer_config *config)
{
    return optimizers[config->kind];
}

int optimizer_states(const struct optimizer_config *config,
                     const char *states[OPTIMIZER_STATES_MAX])
{
    const struct optimizer *optimizer = optimizer_of(config);
    int count = 0;

    while (count < OPTIMIZER_STATES_MAX && optimizer->states[count]) {
        states[count] = optimizer->states[count];
        count++;
    }
    if (optimizer->momentum_is_state && config->momentum != 0)
        states[count++] = "momentum";
    return count;
}

double optimizer_flops(const struct optimizer_config *config, double rows, double columns)
{
    const struct optimizer *optimizer = optimizer_of(config);
    double each = optimizer->operations + (config->weight_decay != 0 ? 2 : 0) +
                  (config->momentum != 0 ? optimizer->momentum_operations : 0) +
                  (config->nesterov ? optimizer->nesterov_operations : 0);

    return rows * columns * each +
           (optimizer->matrix_operations ? optimizer->matrix_operations(config, rows, columns) : 0);
}

bool optimizer_decays_apart(const struct optimizer_config *config)
{
    return optimizer_of(config)->decays_apart || config->decoupled_weight_decay;
}
