/* optimizer_kinds.h: the optimizers that a specification may name. The schema, its help, the
 * documentation and enum optimizer_kind are made from this list. engine/graph/optimizers/
 * implements them. */
#pragma once

/* Columns: OPTIMIZER_<upper> of enum optimizer_kind; the name in specifications and messages;
 * then the optimizer's keys of train.optimizer (proto/job_spec_schema_train.c), each with its
 * default as JSON. NULL: the default in the key's own row. A key that no row names belongs to
 * all optimizers. */
/* clang-format off */
#define OPTIMIZER_KINDS(OPTIMIZER)                                                                \
    OPTIMIZER(SGD, sgd, {"lr", "0.1"}, {"weight_decay", "0"}, {"momentum", "0"},                  \
              {"nesterov", "false"}, {"dampening", "0"})                                          \
    OPTIMIZER(ADAM, adam, {"lr", "1e-3"}, {"weight_decay", "0"}, {"betas", "[0.9, 0.999]"},       \
              {"eps", "1e-8"})                                                                    \
    OPTIMIZER(ADAMW, adamw, {"lr", "1e-3"}, {"weight_decay", "0.01"}, {"betas", "[0.9, 0.999]"},  \
              {"eps", "1e-8"})                                                                    \
    OPTIMIZER(RMSPROP, rmsprop, {"lr", "1e-3"}, {"weight_decay", "0"}, {"momentum", "0"},         \
              {"eps", "1e-8"}, {"alpha", "0.99"})                                                 \
    OPTIMIZER(LION, lion, {"lr", "1e-4"}, {"weight_decay", "0"}, {"betas", "[0.9, 0.99]"})        \
    OPTIMIZER(ADAGRAD, adagrad, {"lr", "0.01"}, {"weight_decay", "0"}, {"eps", "1e-10"},          \
              {"lr_decay", "0"}, {"initial_accumulator_value", "0"})                              \
    OPTIMIZER(ADADELTA, adadelta, {"lr", "1"}, {"weight_decay", "0"}, {"eps", "1e-6"},            \
              {"rho", "0.9"})                                                                     \
    OPTIMIZER(NADAM, nadam, {"lr", "2e-3"}, {"weight_decay", "0"},                                \
              {"decoupled_weight_decay", "false"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"},    \
              {"momentum_decay", "4e-3"})                                                         \
    OPTIMIZER(MUON, muon, {"lr", "1e-3"}, {"weight_decay", "0.1"}, {"momentum", "0.95"},          \
              {"nesterov", "true"}, {"eps", "1e-7"}, {"ns_steps", "5"},                           \
              {"adjust_lr", "\"original\""}, {"adamw", "{}"})                                     \
    OPTIMIZER(ADAMAX, adamax, {"lr", "2e-3"}, {"weight_decay", "0"}, {"betas", "[0.9, 0.999]"},   \
              {"eps", "1e-8"})                                                                    \
    OPTIMIZER(AMSGRAD, amsgrad, {"lr", "1e-3"}, {"weight_decay", "0"},                            \
              {"decoupled_weight_decay", "false"}, {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"})    \
    OPTIMIZER(SCHEDULE_FREE_ADAMW, schedule_free_adamw, {"lr", "2.5e-3"}, {"weight_decay", "0"},  \
              {"betas", "[0.9, 0.999]"}, {"eps", "1e-8"})                                         \
    OPTIMIZER(LAMB, lamb, {"lr", "1e-3"}, {"weight_decay", "0.01"}, {"betas", "[0.9, 0.999]"},    \
              {"eps", "1e-6"})
/* clang-format on */
