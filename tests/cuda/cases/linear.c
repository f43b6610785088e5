/* linear.c: a table of cases, which compare_operators runs and judges. They are linear layers and
 * losses. */
#include "tests/cuda/cases.h"

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define VECTORS(rows, features) .batch = rows, .sample = {features}, .rank = 1
#define PRODUCT(text, rows, features, ...)                                            \
    {                                                                                 \
        .name = "linear " text, VECTORS(rows, features), .layers = {__VA_ARGS__}, SGD \
    }
/* the same product between two others, so that its operand and result are stored in the type */
#define INNER(text, rows, features, ...)                                                          \
    {                                                                                             \
        .name = "linear " text, VECTORS(rows, 12), .layers = {LINEAR(features), __VA_ARGS__}, SGD \
    }

static const struct test_case cases[] = {
    {.name = "linear 1x1 -> 1", VECTORS(1, 1), .loss = CASE_MSE, .layers = {LINEAR(1)}, SGD},
    PRODUCT("7x13 -> 5", 7, 13, LINEAR(5)),
    PRODUCT("without bias, 33x17 -> 3", 33, 17, LINEAR_PLAIN(3)),
    PRODUCT("1x784 -> 10", 1, 784, LINEAR(10)),
    PRODUCT("128x784 -> 256 -> 10", 128, 784, LINEAR(256), LINEAR(10)),
    PRODUCT("512x1024 -> 1000", 512, 1024, LINEAR(1000)),
    PRODUCT("512x4096 -> 10", 512, 4096, LINEAR(10)),
    PRODUCT("33x4100 -> 16", 33, 4100, LINEAR(16)),
    PRODUCT("2048x64 -> 12", 2048, 64, LINEAR(12)),
    PRODUCT("96x3072 -> 512 -> 10", 96, 3072, LINEAR(512), LINEAR(10)),
    INNER("24x40 -> 48 -> 10", 24, 40, LINEAR(48), LINEAR(10)),
    INNER("odd, 31x33 -> 35 -> 3", 31, 33, LINEAR(35), LINEAR(3)),
    INNER("without bias, 8x16 -> 24 -> 10", 8, 16, LINEAR_PLAIN(24), LINEAR(10)),
    INNER("large, 1024x512 -> 2048 -> 64", 1024, 512, LINEAR(2048), LINEAR(64)),
    INNER("and ReLU", 64, 96, LINEAR(80), LAYER(RELU), LINEAR(10)),
    INNER("and GELU", 64, 96, LINEAR(80), LAYER(GELU), LINEAR(10)),
    INNER("and ReLU without bias", 40, 32, LINEAR_PLAIN(72), LAYER(RELU), LINEAR(10)),
    {.name = "linear deep, AdamW",
     VECTORS(100, 60),
     .layers = {LINEAR(50), LAYER(GELU), LINEAR(40), LAYER(SILU), LINEAR(30), LAYER(TANH),
                LINEAR(7)},
     .optimizer = {.kind = OPTIMIZER_ADAMW,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .epsilon = 1e-4,
                   .weight_decay = 0.01},
     .types = FLOAT32_ALONE,
     .steps = 3},
    {.name = "linear 128x784 -> 256, ReLU -> 10, 3 steps",
     VECTORS(128, 784),
     .layers = {LINEAR(256), LAYER(RELU), LINEAR(10)},
     SGD,
     .steps = 3},
    {.name = "linear, ReLU, clipped by norm",
     VECTORS(40, 31),
     .layers = {LINEAR(33), LAYER(RELU), LINEAR(10)},
     SGD,
     .clip_norm = 0.1f,
     .steps = 2},
    {.name = "linear of four layers, mean squared error",
     VECTORS(20, 24),
     .layers = {LINEAR(24), LAYER(TANH), LINEAR(24), LAYER(TANH), LINEAR(24), LAYER(TANH),
                LINEAR(24)},
     SGD,
     .loss = CASE_MSE},
    {.name = "linear of a sequence",
     .batch = 6,
     .sample = {5, 20},
     .rank = 2,
     .layers = {LINEAR(16), LINEAR(24), LAYER(FLATTEN), LINEAR(7)},
     SGD},
    {.name = "linear, accumulated",
     VECTORS(24, 40),
     .layers = {LINEAR(48), LAYER(TANH), LINEAR(10)},
     SGD,
     .steps = 2,
     .accumulate = true},
    {.name = "linear in evaluation",
     VECTORS(50, 30),
     .layers = {LINEAR(64), LAYER(RELU), LINEAR(10)},
     .evaluation = true},
    {.name = "cross entropy of 2 classes", VECTORS(300, 8), .layers = {LINEAR(2)}, SGD},
    {.name = "cross entropy of 1000 classes", VECTORS(9, 20), .layers = {LINEAR(1000)}, SGD},
    {.name = "cross entropy of 70000 rows", VECTORS(70000, 4), .layers = {LINEAR(3)}, SGD},
    {.name = "cross entropy, probabilities",
     VECTORS(24, 40),
     .loss = CASE_SOFT,
     .layers = {LINEAR(48), LAYER(TANH), LINEAR(10)},
     SGD},
    {.name = "cross entropy, probabilities of 1000",
     VECTORS(17, 12),
     .loss = CASE_SOFT,
     .layers = {LINEAR(1000)},
     SGD},
    {.name = "mean squared error",
     VECTORS(24, 40),
     .loss = CASE_MSE,
     .layers = {LINEAR(48), LAYER(TANH), LINEAR(10)},
     SGD},
    {.name = "mean squared error of one value",
     VECTORS(100, 40),
     .loss = CASE_MSE,
     .layers = {LINEAR(48), LAYER(TANH), LINEAR(1)},
     SGD},
};

const struct case_table linear_cases = {cases, sizeof cases / sizeof *cases};
