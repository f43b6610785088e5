/* update_rule.c: see update_rule.h. */
#include "engine/backends/update_rule.h"

#include "engine/backends/backend.h"
#include "engine/graph/optimizer.h"

/* How each optimizer updates a parameter. */
static const struct update_rule {
    enum update_formula formula;
    enum update_count_rule counts; /* NAdam's momentum changes each step: the host does all of it */
    bool dampens; /* the momentum takes 1 - dampening of the gradient; Nesterov's form needs it */
} rules[] = {
    [OPTIMIZER_SGD] = {FORMULA_SGD, COUNT_FIRST, true},
    [OPTIMIZER_ADAM] = {FORMULA_ADAM, COUNT_BIAS, false},
    [OPTIMIZER_ADAMW] = {FORMULA_ADAM, COUNT_BIAS, false},
    [OPTIMIZER_RMSPROP] = {FORMULA_RMSPROP, COUNT_NOTHING, false},
    [OPTIMIZER_LION] = {FORMULA_LION, COUNT_NOTHING, false},
    [OPTIMIZER_ADAGRAD] = {FORMULA_ADAGRAD, COUNT_DECAY, false},
    [OPTIMIZER_ADADELTA] = {FORMULA_ADADELTA, COUNT_NOTHING, false},
    [OPTIMIZER_NADAM] = {FORMULA_ADAM, COUNT_NOTHING, false},
    [OPTIMIZER_MUON] = {FORMULA_WHOLE, COUNT_NOTHING, false},
    [OPTIMIZER_ADAMAX] = {FORMULA_ADAMAX, COUNT_BIAS, false},
    [OPTIMIZER_LAMB] = {FORMULA_WHOLE, COUNT_BIAS, false},
    [OPTIMIZER_AMSGRAD] = {FORMULA_AMSGRAD, COUNT_BIAS, false},
    [OPTIMIZER_SCHEDULE_FREE_ADAMW] = {FORMULA_SCHEDULE_FREE, COUNT_ROOT, false},
};

/* A kind without a row has FORMULA_NONE. */
static struct update_rule rule_of(enum optimizer_kind kind)
{
    return (size_t)kind < sizeof rules / sizeof *rules ? rules[kind] : (struct update_rule){0};
}

enum update_formula update_formula_of(enum optimizer_kind kind)
{
    return rule_of(kind).formula;
}

static void momentum_coefficients(const struct optimizer_config *config, double lr, double beta1,
                                  int64_t step, double product, float *c)
{
    double mu = optimizer_of(config)->momentum(config, beta1, step);
    double next = optimizer_of(config)->momentum(config, beta1, step + 1);

    c[COEFFICIENT_OWN] = (float)(lr * (1.0 - mu) / (1.0 - product));
    c[COEFFICIENT_RATE] = (float)(lr * next / (1.0 - product * next));
}

/* Of the step d: y += share (z - y) + own d; z -= rate d, where y decays by way of d. */
static void schedule_free_coefficients(const struct optimizer_config *config, float rate,
                                       double beta1, float share, float *c)
{
    c[COEFFICIENT_DECAY] = (float)config->weight_decay;
    c[COEFFICIENT_TAKE] = share;
    c[COEFFICIENT_OWN] = (float)((double)rate * (beta1 * (1.0 - (double)share) - 1.0));
}

void update_coefficients(const struct optimizer_group *group, const struct step_scalars *step,
                         float c[UPDATE_COEFFICIENTS])
{
    const struct optimizer_config *config = &group->config;
    bool has_betas = optimizer_of(config)->has_betas, apart = optimizer_decays_apart(config);
    double own = step->cycle_momentum ? step->momentum
                 : has_betas          ? config->beta1
                                      : config->momentum;
    float rate = (float)(step->learning_rate * group->learning_rate_scale);
    int64_t count = step->step - step->skipped;
    double second = has_betas ? config->beta2 : config->alpha, lr = rate;
    struct update_rule rule = rule_of(config->kind);
    const struct update_count_terms terms = {
        own, rule.counts == COUNT_DECAY ? config->learning_rate_decay : config->beta2};

    c[COEFFICIENT_RATE] = rate;
    c[COEFFICIENT_SHRINK] = apart ? (float)(1.0 - lr * config->weight_decay) : 1.0f;
    c[COEFFICIENT_DECAY] = apart ? 0.0f : (float)config->weight_decay;
    c[COEFFICIENT_KEEP] = (float)own;
    c[COEFFICIENT_TAKE] = (float)(1.0 - (rule.dampens ? config->dampening : own));
    c[COEFFICIENT_KEEP2] = (float)second;
    c[COEFFICIENT_TAKE2] = (float)(1.0 - second);
    c[COEFFICIENT_EPSILON] = (float)config->epsilon;
    c[COEFFICIENT_ROOT] = (float)sqrt(1.0 - pow(config->beta2, (double)count));
    c[COEFFICIENT_OWN] = rule.dampens                            ? (float)own
                         : optimizer_of(config)->scales_by_norms ? rate
                                                                 : 0.0f;
    c[COEFFICIENT_NESTEROV] = config->nesterov;
    c[COEFFICIENT_MOMENTUM] = config->momentum != 0;
    c[COEFFICIENT_COUNT] = (float)rule.counts;
    memcpy(&c[COEFFICIENT_DOUBLES], &terms, sizeof terms);
    if (optimizer_of(config)->momentum)
        momentum_coefficients(config, lr, own, count, step->momentum_product, c);
    if (rule.formula == FORMULA_SCHEDULE_FREE)
        schedule_free_coefficients(config, rate, own, step->average_share, c);
    if (!step->scales_itself) /* otherwise the device knows how many updates there were */
        update_coefficients_count(count, c);
}
