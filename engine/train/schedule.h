/* schedule.h: the learning rate of every optimizer step, a pure function of the step, so that a
 * resumed run needs nothing but the step to go on. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"

#include <stdint.h>

enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_COSINE, SCHEDULE_STEP, SCHEDULE_LINEAR };

DECLARE_STRING_TABLE(schedule_kind, enum schedule_kind);

struct schedule_config {
    enum schedule_kind kind;
    double learning_rate; /* the peak, reached when the warm-up ends */
    int64_t warmup_steps; /* 0: none */
    double minimum;       /* cosine, linear: the last learning rate */
    int64_t every_steps;  /* step: multiply by `factor` after so many steps */
    double factor;        /* step: at every cut */
    int64_t total_steps;  /* cosine, linear: the step at which they end, warm-up included */
};

/* Checks the ranges; -EINVAL with a sentence. */
int schedule_check(const struct schedule_config *config, struct error *error);

/* The learning rate of optimizer step `step`, which counts from 1. */
double schedule_learning_rate(const struct schedule_config *config, int64_t step);
