/* optimizer.c: cases of updates: every optimizer, clipping, accumulation, loss scale, averages. */
#include "tests/cuda/cases.h"

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define MLP(...) \
    .batch = 24, .sample = {40}, .rank = 1, .layers = {LINEAR(48), __VA_ARGS__, LINEAR(10)}
#define OPTIMIZER(text, ...)                                                             \
    {                                                                                    \
        .name = "optimizer " text, MLP(LAYER(RELU)), .steps = 4, .types = FLOAT32_ALONE, \
        .optimizer = {                                                                   \
            __VA_ARGS__                                                                  \
        }                                                                                \
    }
#define ADAM_LIKE(which) .kind = which, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8

static const struct test_case cases[] = {
    OPTIMIZER("SGD", .kind = OPTIMIZER_SGD, .weight_decay = 0.01),
    OPTIMIZER("SGD, momentum", .kind = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 5e-4),
    OPTIMIZER("SGD, Nesterov", .kind = OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true),
    OPTIMIZER("SGD, dampening", .kind = OPTIMIZER_SGD, .momentum = 0.9, .dampening = 0.3),
    OPTIMIZER("Adam", ADAM_LIKE(OPTIMIZER_ADAM), .weight_decay = 0.01),
    OPTIMIZER("AdamW", ADAM_LIKE(OPTIMIZER_ADAMW), .weight_decay = 0.01),
    OPTIMIZER("NAdam", ADAM_LIKE(OPTIMIZER_NADAM), .momentum_decay = 0.004),
    OPTIMIZER("NAdam, decoupled", ADAM_LIKE(OPTIMIZER_NADAM), .momentum_decay = 0.004,
              .weight_decay = 0.01, .decoupled_weight_decay = true),
    OPTIMIZER("RMSprop", .kind = OPTIMIZER_RMSPROP, .alpha = 0.99, .epsilon = 1e-8),
    OPTIMIZER("RMSprop, momentum", .kind = OPTIMIZER_RMSPROP, .alpha = 0.99, .epsilon = 1e-8,
              .momentum = 0.5),
    OPTIMIZER("Lion", .kind = OPTIMIZER_LION, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.01),
    OPTIMIZER("Adagrad", .kind = OPTIMIZER_ADAGRAD, .epsilon = 1e-10, .learning_rate_decay = 0.1,
              .initial_square_sum = 0.1),
    OPTIMIZER("Adadelta", .kind = OPTIMIZER_ADADELTA, .alpha = 0.9, .epsilon = 1e-6),
    {.name = "gradients clipped by norm",
     MLP(LAYER(RELU)),
     SGD,
     .steps = 3,
     .types = FLOAT32_ALONE,
     .clip_norm = 0.1f},
    {.name = "gradients clipped by value",
     MLP(LAYER(RELU)),
     SGD,
     .steps = 3,
     .types = FLOAT32_ALONE,
     .clip_value = 0.001f},
    {.name = "gradients accumulated",
     MLP(LAYER(DROPOUT)),
     SGD,
     .steps = 2,
     .types = FLOAT32_ALONE,
     .accumulate = true},
    {.name = "loss scaled",
     MLP(LAYER(RELU)),
     SGD,
     .steps = 2,
     .types = FLOAT32_ALONE,
     .loss_scale = 1024},
    {.name = "moving averages",
     .batch = 24,
     .sample = {40},
     .rank = 1,
     .layers = {LINEAR_PLAIN(48), LAYER(BATCH_NORM), LINEAR(10)},
     SGD,
     .steps = 3,
     .average = true},
    {.name = "optimizer of images, SGD",
     .batch = 8,
     .sample = {3, 8, 8},
     .rank = 3,
     .layers = {CONV(16, 3, 1, 1), LAYER(BATCH_NORM), LAYER(SILU), LAYER(FLATTEN), LINEAR(10)},
     .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4},
     .types = FLOAT32_ALONE,
     .steps = 3,
     .average = true},
    {.name = "optimizer of images, AdamW",
     .batch = 8,
     .sample = {3, 8, 8},
     .rank = 3,
     .layers = {CONV(16, 3, 1, 1), LAYER(SILU), LAYER(FLATTEN), LINEAR(10)},
     .optimizer = {ADAM_LIKE(OPTIMIZER_ADAMW), .weight_decay = 0.01},
     .types = FLOAT32_ALONE,
     .steps = 3},
};

const struct case_table optimizer_cases = {cases, sizeof cases / sizeof *cases};
