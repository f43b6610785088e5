/* operators.c: a table of cases, which compare_operators runs and judges. They are activations,
 * batch norm of features, dropout, sums and embeddings. */
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
