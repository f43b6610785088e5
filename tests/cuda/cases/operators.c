/* operators.c: a table of cases, which compare_operators runs and judges. They are activations,
 * batch norm of features, dropout, sums and embeddings. */
#include "engine/graph/forward.h"
#include "tests/cuda/cases.h"

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define MLP(...) \
    .batch = 24, .sample = {40}, .rank = 1, .layers = {LINEAR(48), __VA_ARGS__, LINEAR(10)}
/* A bias before a batch norm has no effect. Its gradient consists of rounding errors, which cannot
 * be compared. */
#define MLP_NORM(...)                       \
    .batch = 24, .sample = {40}, .rank = 1, \
    .layers = {LINEAR_PLAIN(48), LAYER(BATCH_NORM), __VA_ARGS__}
#define ACTIVATION(text, kind)                            \
    {                                                     \
        .name = "activation " text, MLP(LAYER(kind)), SGD \
    }
#define EMBEDDED(text, rows, length, width)                                          \
    {                                                                                \
        .name = text, .batch = rows, .sample = {length}, .rank = 1, .indices = true, \
        .layers = {{CASE_EMBEDDING, width, false, {{0}}},                            \
                   LAYER(FLATTEN),                                                   \
                   LINEAR(16),                                                       \
                   LAYER(TANH),                                                      \
                   LINEAR(7)},                                                       \
        SGD                                                                          \
    }

/* 300 outputs are more than a block has threads. `...`: of struct test_case. */
#define LOSS(text, outputs, ...)                                               \
    {                                                                          \
        .name = "loss " text, .batch = 23, .sample = {40}, .rank = 1,          \
        .layers = {LINEAR(48), LAYER(TANH), LINEAR(outputs)}, SGD, __VA_ARGS__ \
    }
/* In smaller types, rounding chooses other triplets. A bias of the embedding moves all samples
 * alike, so it changes no distance: its gradient would consist of rounding errors, which cannot be
 * compared. */
#define TRIPLETS(text, rows, outputs, which, ...)                                                \
    {                                                                                            \
        .name = "loss " text, .batch = rows, .sample = {40}, .rank = 1,                          \
        .layers = {LINEAR(48), LAYER(TANH), LINEAR_PLAIN(outputs)}, SGD, .loss = CASE_TRIPLETS,  \
        .triplet_loss = {.mining = (which), .margin = 0.5f}, .types = FLOAT32_ALONE, __VA_ARGS__ \
    }
#define VALUES(...) .loss = CASE_VALUES, .value_loss = {__VA_ARGS__}

static int32_t build_leaky_relu(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 48, true);
    x = graph_leaky_relu(graph, x, "1", 0.1f);
    return graph_linear(graph, x, "2", 10, true);
}

static int32_t build_elu(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 48, true);
    x = graph_elu(graph, x, "1", 0.7f);
    return graph_linear(graph, x, "2", 10, true);
}

static const struct test_case cases[] = {
    ACTIVATION("ReLU", RELU),
    ACTIVATION("SiLU", SILU),
    ACTIVATION("GELU", GELU),
    ACTIVATION("tanh", TANH),
    ACTIVATION("sigmoid", SIGMOID),
    ACTIVATION("hardswish", HARDSWISH),
    ACTIVATION("hardsigmoid", HARDSIGMOID),
    ACTIVATION("ReLU6", RELU6),
    ACTIVATION("GELU with tanh", GELU_TANH),
    ACTIVATION("mish", MISH),
    ACTIVATION("softplus", SOFTPLUS),
    {.name = "ELU", .batch = 24, .sample = {40}, .rank = 1, .build = build_elu, SGD},
    {.name = "leaky ReLU", .batch = 24, .sample = {40}, .rank = 1, .build = build_leaky_relu, SGD},
    {.name = "activation of 1 number",
     .batch = 1,
     .sample = {1},
     .rank = 1,
     .loss = CASE_MSE,
     .layers = {LAYER(GELU)},
     SGD},
    {.name = "activation of 1000003 numbers",
     .batch = 1,
     .sample = {1000003},
     .rank = 1,
     .loss = CASE_MSE,
     .layers = {LAYER(SILU)},
     SGD},
    {.name = "batch norm of features", MLP_NORM(LINEAR(10)), SGD, .steps = 3},
    {.name = "batch norm of features, evaluation", MLP_NORM(LINEAR(10)), .evaluation = true},
    {.name = "batch norm of features and ReLU", MLP_NORM(LAYER(RELU), LINEAR(10)), SGD},
    {.name = "batch norm of features, recomputed",
     MLP_NORM(LAYER(SILU), LINEAR(10)),
     SGD,
     .recompute = RECOMPUTE_SELECTIVE},
    {.name = "dropout", MLP(LAYER(DROPOUT)), SGD, .steps = 2},
    {.name = "stochastic depth", MLP(LAYER(STOCHASTIC_DEPTH)), SGD, .steps = 2},
    {.name = "sum of branches", MLP(LAYER(TANH), LAYER(ADD)), SGD},
    /* where a loss has a kink, rounding to 16 bits would move numbers over it */
    LOSS("mae", 7, VALUES(.kind = VALUE_LOSS_MAE), .types = FLOAT32_ALONE),
    LOSS("mae of 300", 300, VALUES(.kind = VALUE_LOSS_MAE), .types = FLOAT32_ALONE),
    LOSS("huber", 7, VALUES(.kind = VALUE_LOSS_HUBER, .parameter = 0.3f)),
    LOSS("smooth L1", 300, VALUES(.kind = VALUE_LOSS_SMOOTH_L1, .parameter = 0.3f)),
    LOSS("quantile", 1, VALUES(.kind = VALUE_LOSS_QUANTILE, .parameter = 0.9f),
         .types = FLOAT32_ALONE),
    LOSS("three quantiles of two values", 6,
         VALUES(.kind = VALUE_LOSS_QUANTILES, .count = 3, .numbers = {0.1f, 0.5f, 0.9f}),
         .types = FLOAT32_ALONE),
    LOSS("binary cross entropy", 7, VALUES(.kind = VALUE_LOSS_BINARY)),
    LOSS("binary cross entropy, one weight", 300,
         VALUES(.kind = VALUE_LOSS_BINARY, .count = 1, .numbers = {3})),
    LOSS("binary cross entropy, weights", 3,
         VALUES(.kind = VALUE_LOSS_BINARY, .count = 3, .numbers = {0.5f, 2, 7})),
    LOSS("cosine", 7, VALUES(.kind = VALUE_LOSS_COSINE)),
    LOSS("cosine of 300", 300, VALUES(.kind = VALUE_LOSS_COSINE)),
    LOSS("huber, accumulated", 7, VALUES(.kind = VALUE_LOSS_HUBER, .parameter = 0.3f),
         .accumulate = true, .steps = 2, .types = FLOAT32_ALONE),
    LOSS("binary cross entropy, evaluation", 7, VALUES(.kind = VALUE_LOSS_BINARY),
         .evaluation = true),
    LOSS("focal", 5, .loss = CASE_FOCAL),
    LOSS("focal of 300", 300, .loss = CASE_FOCAL),
    LOSS("focal, evaluation", 5, .loss = CASE_FOCAL, .evaluation = true),
    LOSS("ordinal", 5, .loss = CASE_ORDINAL),
    LOSS("ordinal of two classes", 2, .loss = CASE_ORDINAL),
    LOSS("ordinal of 70 classes", 70, .loss = CASE_ORDINAL),
    LOSS("ordinal, evaluation", 5, .loss = CASE_ORDINAL, .evaluation = true),
    TRIPLETS("hard triplets", 23, 5, TRIPLETS_HARD),
    TRIPLETS("semi-hard triplets", 23, 5, TRIPLETS_SEMI_HARD),
    TRIPLETS("all triplets", 23, 5, TRIPLETS_ALL),
    TRIPLETS("all triplets of 300", 23, 300, TRIPLETS_ALL),
    TRIPLETS("hard triplets of 600 samples", 600, 8, TRIPLETS_HARD),
    TRIPLETS("semi-hard triplets of 280 samples", 280, 64, TRIPLETS_SEMI_HARD),
    TRIPLETS("all triplets of 600 samples", 600, 8, TRIPLETS_ALL),
    TRIPLETS("all triplets of one sample", 1, 8, TRIPLETS_ALL),
    TRIPLETS("all triplets, evaluation", 23, 8, TRIPLETS_ALL, .evaluation = true),
    EMBEDDED("embedding, 6 of 16, width 24", 6, 16, 24),
    EMBEDDED("embedding, 64 of 8, width 5", 64, 8, 5),
    EMBEDDED("embedding, 512 of 3, width 64", 512, 3, 64),
    {.name = "embedding of a sequence",
     .batch = 6,
     .sample = {9},
     .rank = 1,
     .indices = true,
     .layers = {{CASE_EMBEDDING, 16, false, {{0}}}, LINEAR(12), LAYER(FLATTEN), LINEAR(7)},
     SGD},
};

const struct case_table operator_cases = {cases, sizeof cases / sizeof *cases};
