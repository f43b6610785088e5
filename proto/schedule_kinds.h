/* schedule_kinds.h: the learning-rate schedules that a specification may name: one list, from which
 * the schema, its help, the documentation and enum schedule_kind follow. What each does stands in
 * engine/train/schedule.c. */
#pragma once

/* enum schedule_kind has SCHEDULE_<upper>; a specification and messages say <lower>. Then come the
 * keys of train.schedule (proto/job_spec_schema_train.c) that it has, each with its default as
 * JSON; NULL: the key's own, or none. A key that no row names belongs to all. */
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
             {"cooldown", NULL})
/* clang-format on */
