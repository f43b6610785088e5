/* cases.h: the cases that compare_operators runs on two backends: a short graph, its shapes, its
 * optimizer. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

enum case_layer_kind {
    CASE_END, /* what an initialiser leaves out */
    CASE_LINEAR,
    CASE_CONV2D,
    CASE_MAX_POOL2D,
    CASE_AVERAGE_POOL2D,
    CASE_GLOBAL_AVERAGE_POOL2D,
    CASE_RELU, /* the activations, in the order of enum activation_kind */
    CASE_SILU,
    CASE_GELU,
    CASE_TANH,
    CASE_SIGMOID,
    CASE_HARDSWISH,
    CASE_HARDSIGMOID,
    CASE_RELU6,
    CASE_GELU_TANH,
    CASE_MISH,
    CASE_SOFTPLUS,
    CASE_BATCH_NORM,
    CASE_EMBEDDING,
    CASE_DROPOUT,
    CASE_STOCHASTIC_DEPTH,
    CASE_ADD,           /* adds the result before the last one to the last one */
    CASE_CHANNEL_SCALE, /* x times sigmoid(mean of each channel of x) */
    CASE_FLATTEN
};

struct case_layer {
    enum case_layer_kind kind;
    int size; /* features, channels, width of an embedding */
    bool bias;
    struct conv_attributes window;
};

enum case_loss {
    CASE_CLASSES,
    CASE_SOFT,
    CASE_MSE,
    CASE_HEADS, /* five and four classes */
    CASE_FOCAL,
    CASE_ORDINAL,
    CASE_TRIPLETS, /* triplet_loss */
    CASE_VALUES    /* value_loss */
};
enum { CASE_LAYERS_MAX = 8, CASE_VOCABULARY = 11, CASE_GROUPS_MAX = 256 };
enum { FLOAT32_ALONE = 1 << TENSOR_FLOAT32 };

struct test_case {
    const char *name;
    int64_t batch, sample[3];
    int rank;
    bool indices; /* samples are int32 below CASE_VOCABULARY */
    enum case_loss loss;
    struct value_loss_config value_loss;
    struct triplet_loss_config triplet_loss;
    struct case_layer layers[CASE_LAYERS_MAX];
    /* instead of `layers`: appends operators behind the input, returns the last result */
    int32_t (*build)(struct graph *graph, int32_t input);
    /* a set of 1 << enum tensor_type for products; 0: float32 and the smaller types */
    unsigned types;
    struct optimizer_config optimizer;
    /* groups of the optimizer: with the first one Lion updates vectors, with the last one
     * `optimizer` updates all else; 0: no groups */
    int groups;
    int steps; /* 0: one */
    bool evaluation, average, accumulate;
    bool pure; /* of 16 bits each update rounds the parameters, which is checked */
    float clip_norm, clip_value, loss_scale;
    /* the loss scale begins at 8 and follows overflows, on the device if it can do that */
    bool scale_follows;
    enum recompute_kind recompute;
    uint64_t seed; /* of the draws; it is not 0 if with 0, rounding moves a number over a kink */
};

struct case_table {
    const struct test_case *cases;
    int count;
};

/* Layers, in tables of cases. */
#define LINEAR(features)             \
    {                                \
        CASE_LINEAR, features, true, \
        {                            \
            {                        \
                0                    \
            }                        \
        }                            \
    }
#define LINEAR_PLAIN(features)        \
    {                                 \
        CASE_LINEAR, features, false, \
        {                             \
            {                         \
                0                     \
            }                         \
        }                             \
    }
#define LAYER(kind)            \
    {                          \
        CASE_##kind, 0, false, \
        {                      \
            {                  \
                0              \
            }                  \
        }                      \
    }
#define WINDOW(kh, kw, sh, sw, ph, pw)                                                   \
    {                                                                                    \
        .kernel = {kh, kw}, .stride = {sh, sw}, .padding = {ph, pw}, .dilation = {1, 1}, \
        .groups = 1                                                                      \
    }
#define SQUARE(k, s, p) WINDOW(k, k, s, s, p, p)
#define CONV(channels, k, s, p)                       \
    {                                                 \
        CASE_CONV2D, channels, false, SQUARE(k, s, p) \
    }
#define CONV_BIAS(channels, k, s, p)                 \
    {                                                \
        CASE_CONV2D, channels, true, SQUARE(k, s, p) \
    }
#define CONV_GROUPS(channels, k, s, p, g)                                                          \
    {                                                                                              \
        CASE_CONV2D, channels, false,                                                              \
        {                                                                                          \
            .kernel = {k, k}, .stride = {s, s}, .padding = {p, p}, .dilation = {1, 1}, .groups = g \
        }                                                                                          \
    }
#define MAX_POOL(k, s, p)                          \
    {                                              \
        CASE_MAX_POOL2D, 0, false, SQUARE(k, s, p) \
    }
#define AVERAGE_POOL(k, s, p)                          \
    {                                                  \
        CASE_AVERAGE_POOL2D, 0, false, SQUARE(k, s, p) \
    }
/* The tables of cases that the program runs. */
extern const struct case_table linear_cases, convolution_cases, image_cases, operator_cases,
    optimizer_cases, sequence_cases, transformer_cases, general_cases;

/* The graph of a case, its products in `type`. Fails as the graph's functions do. */
int case_build(const struct test_case *test, enum tensor_type type, struct graph *graph,
               struct error *error);

/* The result of a case. */
struct case_outcome {
    enum { CASE_AGREES, CASE_DIFFERS, CASE_MISSING, CASE_BROKEN } status;
    int compared;
    double worst;   /* the largest normalised mean squared error */
    char what[256]; /* the tensor that has it; why the case is missing or broken */
};

/* The largest normalised mean squared error that counts as agreement. */
double case_limit(enum tensor_type type);
/* The sum of squared differences, divided by the sum of the squares of `want`. NaN: a value is
 * NaN. */
double normalised_error(const float *got, const float *want, int64_t count);
/* Runs the case in float32 on the CPU and in `type` on the backend; errors up to `limit` agree. A
 * node that the backend does not support, or a type, makes it missing. */
void case_run(const struct test_case *test, enum tensor_type type, struct backend_device *cpu,
              const struct backend *backend, struct backend_device *device, double limit,
              struct case_outcome *outcome);
