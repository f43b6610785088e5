/* update_rule.h: how each optimizer updates a parameter on devices whose kernels update number by
 * number: by which formula, and with which coefficients. The host computes these once for all
 * numbers, in double, as engine/backends/cpu/kernels/optimizer.c does. C and CUDA C++: where the
 * device adapts the loss scale, it alone knows how many updates counted. */
#pragma once

#include "engine/graph/graph.h"
#include "engine/graph/loss_scale.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The formula of one number. */
enum update_formula {
    FORMULA_NONE, /* there is none for the optimizer */
    FORMULA_SGD,
    FORMULA_ADAM,
    FORMULA_RMSPROP,
    FORMULA_LION,
    FORMULA_ADAGRAD,
    FORMULA_ADADELTA,
    FORMULA_ADAMAX,
    FORMULA_AMSGRAD,
    FORMULA_SCHEDULE_FREE,
    FORMULA_WHOLE /* it needs the whole parameter at once: Muon, LAMB */
};

/* The indices of a group's coefficients. */
enum {
    COEFFICIENT_RATE,   /* of the step, with the bias correction */
    COEFFICIENT_SHRINK, /* decoupled decay: the parameter is multiplied by it */
    COEFFICIENT_DECAY,  /* coupled decay: it times the parameter is added to the gradient */
    COEFFICIENT_KEEP,   /* the factor of the first state */
    COEFFICIENT_TAKE,   /* the factor of what is added to it; Schedule-Free: the mean's share */
    COEFFICIENT_KEEP2,  /* the factor of the second state */
    COEFFICIENT_TAKE2,
    COEFFICIENT_EPSILON,
    COEFFICIENT_ROOT, /* the correction of the second moment, under the root */
    /* SGD: the momentum; NAdam: the rate of the gradient itself; Schedule-Free: that of the step */
    COEFFICIENT_OWN,
    COEFFICIENT_NESTEROV, /* not 0: yes; Schedule-Free: it is the first update */
    COEFFICIENT_MOMENTUM, /* not 0: SGD and RMSprop have a buffer */
    COEFFICIENT_COUNT,    /* enum update_count_rule */
    COEFFICIENT_DOUBLES,  /* two doubles: struct update_count_terms */
    UPDATE_COEFFICIENTS = COEFFICIENT_DOUBLES + 4
};

/* How an optimizer's coefficients depend on the number of updates. */
enum update_count_rule {
    COUNT_NOTHING,
    COUNT_FIRST, /* the first update takes the gradient as it is */
    COUNT_ROOT, /* the bias of the second average, whose decay is the second term, is corrected, and
                    the first update is told */
    COUNT_BIAS, /* the biases of two moving averages, whose decays are the terms, are corrected */
    COUNT_DECAY /* the rate decays: rate / (1 + (count - 1) second) */
};

/* The terms of a group, stored behind its coefficients. */
struct update_count_terms {
    double first, second;
};
#ifndef __cplusplus
_Static_assert(COEFFICIENT_DOUBLES * sizeof(float) + sizeof(struct update_count_terms) ==
                   sizeof(float[UPDATE_COEFFICIENTS]),
               "the doubles fill what is left");
#endif

/* Applies the group's rule. `count`: the number of updates, including this one. */
LOSS_SCALE_FUNCTION void update_coefficients_count(int64_t count, float *c)
{
    struct update_count_terms terms;

    memcpy(&terms, &c[COEFFICIENT_DOUBLES], sizeof terms);
    switch ((enum update_count_rule)c[COEFFICIENT_COUNT]) {
    case COUNT_FIRST:
        c[COEFFICIENT_KEEP] = count == 1 ? 0.0f : c[COEFFICIENT_KEEP];
        c[COEFFICIENT_TAKE] = count == 1 ? 1.0f : c[COEFFICIENT_TAKE];
        break;
    case COUNT_ROOT:
        c[COEFFICIENT_ROOT] = (float)sqrt(1.0 - pow(terms.second, (double)count));
        c[COEFFICIENT_NESTEROV] = count == 1;
        break;
    case COUNT_BIAS:
        c[COEFFICIENT_RATE] =
            (float)((double)c[COEFFICIENT_RATE] / (1.0 - pow(terms.first, (double)count)));
        c[COEFFICIENT_ROOT] = (float)sqrt(1.0 - pow(terms.second, (double)count));
        break;
    case COUNT_DECAY:
        c[COEFFICIENT_RATE] =
            (float)((double)c[COEFFICIENT_RATE] / (1.0 + (double)(count - 1) * terms.second));
        break;
    case COUNT_NOTHING:
        break;
    }
}

struct step_scalars;

#ifdef __cplusplus
extern "C" {
#endif
/* FORMULA_NONE: the optimizer has none here. */
enum update_formula update_formula_of(enum optimizer_kind kind);
/* Fills in the group's coefficients of a step. If the device keeps the loss scale itself
 * (scales_itself), it has yet to call update_coefficients_count(). */
void update_coefficients(const struct optimizer_group *group, const struct step_scalars *step,
                         float c[UPDATE_COEFFICIENTS]);
#ifdef __cplusplus
}
#endif
