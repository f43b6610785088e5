/* schedule_kinds.h: the learning-rate schedules that a specification may name. The schema, its
 * help, the documentation and enum schedule_kind are made from this list. engine/train/schedule.c
 * implements them. */
#pragma once

/* Columns: SCHEDULE_<upper> of enum schedule_kind; the name in specifications and messages; then
 * the schedule's keys of train.schedule (proto/job_spec_schema_train.c), each with its default as
 * JSON. NULL: the default in the key's own row, if any. A key that no row names belongs to all
 * schedules. */
/* clang-format off */
#define SCHEDULE_KINDS(SCHEDULE)                                                                  \
    SCHEDULE(CONSTANT, constant, {NULL, NULL})                                                    \
    SCHEDULE(COSINE, cosine, {"min_lr", NULL})                                                    \
    SCHEDULE(STEP, step, {"step_epochs", NULL}, {"gamma", NULL})                                  \
    SCHEDULE(MULTI_STEP, multi_step, {"milestones", NULL}, {"gamma", NULL})                       \
    SCHEDULE(LINEAR, linear, {"min_lr", NULL})                                                    \
    SCHEDULE(POLYNOMIAL, polynomial, {"min_lr", NULL}, {"power", NULL})                           \
    SCHEDULE(ONE_CYCLE, one_cycle, {"pct_start", NULL}, {"div_factor", NULL},                     \
             {"final_div_factor", NULL}, {"anneal", NULL}, {"cycle_momentum", NULL},              \
             {"base_momentum", NULL}, {"max_momentum", NULL})                                     \
    SCHEDULE(PLATEAU, plateau, {"min_lr", NULL}, {"metric", NULL}, {"factor", NULL},              \
             {"patience", NULL}, {"threshold", NULL}, {"threshold_mode", NULL},                   \
             {"cooldown", NULL})                                                                  \
    SCHEDULE(EXPONENTIAL, exponential, {"min_lr", NULL})
/* clang-format on */
