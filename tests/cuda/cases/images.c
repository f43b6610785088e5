/* images.c: a table of cases, which compare_operators runs and judges. They are normalisation,
 * pools and other operators on images. A convolution of 1x1 stands before them and a linear layer
 * behind, so the tensors between are stored in the type. */
#include "engine/graph/forward.h"
#include "tests/cuda/cases.h"

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define IMAGES(count, channels, height, width) \
    .batch = count, .sample = {channels, height, width}, .rank = 3
#define HEAD LAYER(FLATTEN), LINEAR(10)
#define BEHIND(text, count, channels, height, width, ...)           \
    {                                                               \
        .name = text, IMAGES(count, 3, height, width),              \
        .layers = {CONV(channels, 1, 1, 0), __VA_ARGS__, HEAD}, SGD \
    }
/* behind products of rounded numbers, another pixel may be the maximum */
#define EXACT(text, count, channels, height, width, ...)                                    \
    {                                                                                       \
        .name = text, IMAGES(count, 3, height, width),                                      \
        .layers = {CONV(channels, 1, 1, 0), __VA_ARGS__, HEAD}, SGD, .types = FLOAT32_ALONE \
    }
#define ALONE(text, count, channels, height, width, ...)                                         \
    {                                                                                            \
        .name = text, IMAGES(count, channels, height, width), .layers = {__VA_ARGS__, HEAD}, SGD \
    }

/* A batch norm that training leaves as it is, between a convolution that learns and an
 * activation. */
static int32_t frozen_norm(struct graph *graph, int32_t x, int channels, enum activation_kind kind)
{
    static const char *const frozen[] = {"1"};
    static const struct conv_attributes conv = SQUARE(1, 1, 0);

    graph->frozen = frozen;
    graph->frozen_count = sizeof frozen / sizeof *frozen;
    x = graph_conv2d(graph, x, "0", channels, &conv, true);
    x = graph_batch_norm(graph, x, "1", 1e-5f, 0.1f);
    x = graph_activation(graph, x, "2", kind);
    return graph_linear(graph, graph_flatten(graph, x, "3"), "4", 10, true);
}

static int32_t build_frozen_16(struct graph *graph, int32_t x)
{
    return frozen_norm(graph, x, 16, ACTIVATION_RELU);
}

static int32_t build_frozen_13(struct graph *graph, int32_t x)
{
    return frozen_norm(graph, x, 13, ACTIVATION_SILU);
}

static int32_t build_frozen_1000(struct graph *graph, int32_t x)
{
    return frozen_norm(graph, x, 1000, ACTIVATION_GELU);
}

/* Two of them behind one another, around a sum. */
static int32_t build_frozen_block(struct graph *graph, int32_t x)
{
    static const char *const frozen[] = {"1", "3"};
    static const struct conv_attributes conv = SQUARE(3, 1, 1);
    int32_t y;

    graph->frozen = frozen;
    graph->frozen_count = sizeof frozen / sizeof *frozen;
    x = graph_conv2d(graph, x, "0", 24, &conv, false);
    x = graph_activation(graph, graph_batch_norm(graph, x, "1", 1e-5f, 0.1f), "1", ACTIVATION_SILU);
    y = graph_conv2d(graph, x, "2", 24, &conv, false);
    y = graph_add(graph, x, graph_batch_norm(graph, y, "3", 1e-5f, 0.1f), "4");
    y = graph_activation(graph, y, "4", ACTIVATION_SILU);
    return graph_linear(graph, graph_flatten(graph, y, "5"), "6", 10, true);
}

/* Of features: two dimensions. */
static int32_t build_frozen_features(struct graph *graph, int32_t x)
{
    static const char *const frozen[] = {"1"};

    graph->frozen = frozen;
    graph->frozen_count = sizeof frozen / sizeof *frozen;
    x = graph_linear(graph, graph_flatten(graph, x, "0"), "0", 37, true);
    x = graph_activation(graph, graph_batch_norm(graph, x, "1", 1e-5f, 0.1f), "1", ACTIVATION_TANH);
    return graph_linear(graph, x, "2", 10, true);
}

/* Behind the first of two layers there is an activation; that of the second makes the factors. */
static int32_t squeeze_excite(struct graph *graph, int32_t x, int channels, int squeezed,
                              enum activation_kind kind, enum activation_kind gate)
{
    static const struct conv_attributes conv = SQUARE(1, 1, 0);
    int32_t y;

    x = graph_conv2d(graph, x, "0", channels, &conv, true);
    y = graph_global_average_pool2d(graph, x, "1");
    y = graph_activation(graph, graph_conv2d(graph, y, "2", squeezed, &conv, true), "2", kind);
    y = graph_activation(graph, graph_conv2d(graph, y, "3", channels, &conv, true), "3", gate);
    x = graph_channel_scale(graph, x, y, "4");
    return graph_linear(graph, graph_flatten(graph, x, "5"), "5", 10, true);
}

static int32_t build_sigmoid_gate(struct graph *graph, int32_t x)
{
    return squeeze_excite(graph, x, 24, 6, ACTIVATION_SILU, ACTIVATION_SIGMOID);
}

static int32_t build_silu_gate(struct graph *graph, int32_t x)
{
    return squeeze_excite(graph, x, 13, 6, ACTIVATION_SILU, ACTIVATION_SILU);
}

static int32_t build_tanh_gate(struct graph *graph, int32_t x)
{
    return squeeze_excite(graph, x, 3, 6, ACTIVATION_SILU, ACTIVATION_TANH);
}

static int32_t build_relu_gate(struct graph *graph, int32_t x)
{
    return squeeze_excite(graph, x, 24, 6, ACTIVATION_SILU, ACTIVATION_RELU);
}

/* More channels than a block has threads. */
static int32_t build_wide_gate(struct graph *graph, int32_t x)
{
    return squeeze_excite(graph, x, 1040, 70, ACTIVATION_RELU, ACTIVATION_HARDSIGMOID);
}

static int32_t build_wide_odd_gate(struct graph *graph, int32_t x)
{
    return squeeze_excite(graph, x, 1029, 3, ACTIVATION_RELU, ACTIVATION_SIGMOID);
}

/* A batch norm that stands before the scale reads what the block makes, because the sum behind it
 * becomes its own work. */
static int32_t build_added_gate(struct graph *graph, int32_t x)
{
    static const struct conv_attributes conv = SQUARE(1, 1, 0);
    int32_t y, z, small;

    x = graph_conv2d(graph, x, "0", 24, &conv, true);
    y = graph_global_average_pool2d(graph, x, "1");
    y = graph_activation(graph, graph_conv2d(graph, y, "2", 6, &conv, true), "2", ACTIVATION_RELU);
    y = graph_activation(graph, graph_conv2d(graph, y, "3", 24, &conv, true), "3",
                         ACTIVATION_SIGMOID);
    small = graph_global_average_pool2d(graph, graph_conv2d(graph, x, "4", 24, &conv, false), "5");
    z = graph_batch_norm(graph, small, "6", 1e-5f, 0.1f);
    x = graph_channel_scale(graph, x, y, "7");
    x = graph_channel_scale(graph, x, graph_add(graph, z, y, "8"), "9");
    return graph_linear(graph, graph_flatten(graph, x, "10"), "10", 10, true);
}

/* Of a linear layer's gradient nothing is kept where the layer is frozen. */
static int32_t build_frozen_gate(struct graph *graph, int32_t x)
{
    static const char *const frozen[] = {"2", "3"};

    graph->frozen = frozen;
    graph->frozen_count = sizeof frozen / sizeof *frozen;
    return squeeze_excite(graph, x, 24, 6, ACTIVATION_RELU, ACTIVATION_SIGMOID);
}

static const struct test_case cases[] = {
    ALONE("batch norm of samples", 6, 5, 7, 3, LAYER(BATCH_NORM)),
    ALONE("batch norm, 64 channels of 32x32", 32, 64, 32, 32, LAYER(BATCH_NORM)),
    BEHIND("batch norm, 16 of 8x8", 8, 16, 8, 8, LAYER(BATCH_NORM)),
    BEHIND("batch norm, 13 of 5x9, odd", 7, 13, 5, 9, LAYER(BATCH_NORM)),
    BEHIND("batch norm, batch 6 of 1x1", 6, 24, 1, 1, LAYER(BATCH_NORM)),
    BEHIND("batch norm, 512 of 4x4", 64, 512, 4, 4, LAYER(BATCH_NORM)),
    BEHIND("batch norm, 1000 of 3x3", 5, 1000, 3, 3, LAYER(BATCH_NORM)),
    BEHIND("batch norm and ReLU", 8, 32, 8, 8, LAYER(BATCH_NORM), LAYER(RELU)),
    BEHIND("batch norm and SiLU", 8, 24, 8, 8, LAYER(BATCH_NORM), LAYER(SILU)),
    BEHIND("batch norm, sum", 8, 16, 8, 8, LAYER(BATCH_NORM), LAYER(ADD)),
    BEHIND("batch norm, sum and ReLU", 8, 16, 8, 8, LAYER(BATCH_NORM), LAYER(ADD), LAYER(RELU)),
    {.name = "batch norm and hardswish",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(24, 1, 1, 0), LAYER(BATCH_NORM), LAYER(HARDSWISH), HEAD},
     SGD,
     .seed = 2}, /* so that nothing is rounded to 3 or -3 */
    BEHIND("batch norm and GELU", 8, 24, 8, 8, LAYER(BATCH_NORM), LAYER(GELU)),
    /* Few channels: adjacent rows count as one, if a power of two divides them. Of one channel, the
     * gradient by a convolution before it would be little more than rounding errors. */
    ALONE("batch norm, 1 channel of 28x12", 32, 1, 28, 12, LAYER(BATCH_NORM)),
    {.name = "batch norm, 1 channel of 5x9, odd",
     IMAGES(13, 1, 5, 9),
     .layers = {LAYER(BATCH_NORM), HEAD},
     SGD,
     .seed = 2}, /* with 0, the terms of the gradient of the bias cancel out */
    ALONE("batch norm, 1 channel, GELU", 32, 1, 28, 12, LAYER(BATCH_NORM), LAYER(GELU)),
    BEHIND("batch norm, 3 channels of 16x16", 32, 3, 16, 16, LAYER(BATCH_NORM)),
    BEHIND("batch norm, 3 channels of 5x9, odd", 7, 3, 5, 9, LAYER(BATCH_NORM)),
    BEHIND("batch norm, 3 channels, ReLU", 32, 3, 16, 16, LAYER(BATCH_NORM), LAYER(RELU)),
    BEHIND("batch norm, 3 channels, sum and ReLU", 6, 3, 8, 8, LAYER(BATCH_NORM), LAYER(ADD),
           LAYER(RELU)),
    ALONE("batch norm, 3 channels, two residual blocks", 8, 3, 16, 16, LAYER(SIGMOID),
          LAYER(BATCH_NORM), LAYER(ADD), LAYER(RELU), LAYER(BATCH_NORM), LAYER(ADD)),
    {.name = "batch norm, 12 channels of 3x5",
     IMAGES(4, 3, 3, 5),
     .layers = {CONV(12, 1, 1, 0), LAYER(BATCH_NORM), LAYER(SILU), HEAD},
     SGD,
     .seed = 2}, /* with 0, a channel has no variance, and its gradient is beyond float16 */
    BEHIND("batch norm, 72 channels of 7x7", 8, 72, 7, 7, LAYER(BATCH_NORM), LAYER(GELU)),
    {.name = "batch norm, 3 channels, accumulated",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(3, 1, 1, 0), LAYER(BATCH_NORM), LAYER(RELU), HEAD},
     SGD,
     .accumulate = true},
    {.name = "batch norm, 3 channels, 3 steps",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(3, 1, 1, 0), LAYER(BATCH_NORM), LAYER(SILU), HEAD},
     SGD,
     .steps = 3},
    /* two branches add up a gradient, which passes through ReLU to a batch norm and to a branch */
    {.name = "two residual blocks",
     IMAGES(8, 24, 8, 8),
     .layers = {LAYER(SIGMOID), LAYER(BATCH_NORM), LAYER(ADD), LAYER(RELU), LAYER(BATCH_NORM),
                LAYER(ADD), HEAD},
     SGD,
     /* with 0, the terms of a bias's gradient nearly cancel, so that only rounding errors remain */
     .seed = 5},
    ALONE("two residual blocks, 13 channels", 8, 13, 8, 8, LAYER(SIGMOID), LAYER(BATCH_NORM),
          LAYER(ADD), LAYER(RELU), LAYER(BATCH_NORM), LAYER(ADD)),
    ALONE("batch norm and ReLU before a residual block", 8, 24, 8, 8, LAYER(BATCH_NORM),
          LAYER(RELU), LAYER(SIGMOID), LAYER(ADD)),
    {.name = "batch norm and ReLU, accumulated",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(32, 1, 1, 0), LAYER(BATCH_NORM), LAYER(RELU), HEAD},
     SGD,
     .accumulate = true},
    {.name = "residual block, evaluation",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(16, 1, 1, 0), LAYER(BATCH_NORM), LAYER(ADD), LAYER(RELU), HEAD},
     .evaluation = true},
    {.name = "batch norm, recomputed",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(16, 1, 1, 0), LAYER(BATCH_NORM), LAYER(SILU), HEAD},
     SGD,
     .recompute = RECOMPUTE_SELECTIVE},
    {.name = "batch norm of images, evaluation",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(16, 1, 1, 0), LAYER(BATCH_NORM), LAYER(RELU), HEAD},
     .evaluation = true},
    {.name = "batch norm of images, 3 steps",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(16, 1, 1, 0), LAYER(BATCH_NORM), HEAD},
     SGD,
     .steps = 3},
    {.name = "batch norm, frozen", IMAGES(8, 3, 8, 8), .build = build_frozen_16, SGD},
    {.name = "batch norm, frozen, odd", IMAGES(7, 3, 5, 9), .build = build_frozen_13, SGD},
    {.name = "batch norm, frozen, 1000 of 3x3",
     IMAGES(5, 3, 3, 3),
     .build = build_frozen_1000,
     SGD},
    {.name = "batch norm, frozen, of features",
     IMAGES(9, 3, 4, 4),
     .build = build_frozen_features,
     SGD},
    {.name = "batch norm, frozen, 3 steps, average",
     IMAGES(8, 3, 8, 8),
     .build = build_frozen_16,
     SGD,
     .steps = 3,
     .average = true},
    {.name = "batch norm, frozen, a residual block",
     IMAGES(8, 3, 8, 8),
     .build = build_frozen_block,
     SGD},
    {.name = "batch norm, frozen, a residual block, recomputed",
     IMAGES(8, 3, 8, 8),
     .build = build_frozen_block,
     SGD,
     .recompute = RECOMPUTE_SELECTIVE},
    {.name = "batch norm, frozen, accumulated",
     IMAGES(8, 3, 8, 8),
     .build = build_frozen_16,
     SGD,
     .accumulate = true},
    ALONE("max pool 2 of samples", 5, 6, 8, 8, MAX_POOL(2, 2, 0)),
    BEHIND("max pool 2", 5, 16, 8, 8, MAX_POOL(2, 2, 0)),
    BEHIND("max pool 3, stride 2, padding 1", 5, 16, 11, 9, MAX_POOL(3, 2, 1)),
    BEHIND("max pool 3, stride 1", 5, 7, 10, 10, MAX_POOL(3, 1, 1)),
    BEHIND("max pool of what does not fit", 3, 8, 7, 7, MAX_POOL(2, 2, 0)),
    BEHIND("max pool 3x2, stride 2x1", 3, 8, 9, 8,
           {CASE_MAX_POOL2D, 0, false, WINDOW(3, 2, 2, 1, 1, 0)}),
    EXACT("with bias, ReLU and max pool 2", 5, 16, 8, 8, CONV_BIAS(24, 3, 1, 1), LAYER(RELU),
          MAX_POOL(2, 2, 0)),
    EXACT("ReLU and max pool 2", 5, 16, 8, 8, CONV(24, 3, 1, 1), LAYER(RELU), MAX_POOL(2, 2, 0)),
    EXACT("with bias, ReLU and max pool 3, stride 2", 4, 8, 11, 9, CONV_BIAS(16, 3, 1, 1),
          LAYER(RELU), MAX_POOL(3, 2, 1)),
    EXACT("with bias, ReLU and max pool, odd", 3, 7, 9, 7, CONV_BIAS(13, 3, 1, 1), LAYER(RELU),
          MAX_POOL(2, 2, 0)),
    {.name = "with bias, ReLU and max pool, accumulated",
     IMAGES(4, 3, 8, 8),
     .layers = {CONV(8, 1, 1, 0), CONV_BIAS(16, 3, 1, 1), LAYER(RELU), MAX_POOL(2, 2, 0), HEAD},
     SGD,
     .steps = 2,
     .accumulate = true,
     .types = FLOAT32_ALONE},
    {.name = "with bias, ReLU and max pool, recomputed",
     IMAGES(4, 3, 8, 8),
     .layers = {CONV(8, 1, 1, 0), CONV_BIAS(16, 3, 1, 1), LAYER(RELU), MAX_POOL(2, 2, 0), HEAD},
     SGD,
     .recompute = RECOMPUTE_SELECTIVE,
     .types = FLOAT32_ALONE},
    {.name = "with bias, ReLU and max pool, evaluation",
     IMAGES(4, 3, 8, 8),
     .layers = {CONV(8, 1, 1, 0), CONV_BIAS(16, 3, 1, 1), LAYER(RELU), MAX_POOL(2, 2, 0), HEAD},
     .evaluation = true,
     .types = FLOAT32_ALONE},
    BEHIND("with bias and ReLU, odd", 3, 7, 9, 7, CONV_BIAS(13, 3, 1, 1), LAYER(RELU)),
    BEHIND("with bias and SiLU, odd", 3, 7, 9, 7, CONV_BIAS(13, 3, 1, 1), LAYER(SILU)),
    BEHIND("with bias, tanh and ReLU", 4, 8, 8, 8, CONV_BIAS(16, 3, 1, 1), LAYER(TANH),
           LAYER(RELU)),
    BEHIND("with bias, ReLU and sum", 4, 16, 8, 8, CONV_BIAS(16, 3, 1, 1), LAYER(RELU), LAYER(ADD)),
    BEHIND("average pool 2", 5, 16, 8, 8, AVERAGE_POOL(2, 2, 0)),
    BEHIND("average pool 3, stride 2, padding 1", 5, 16, 11, 9, AVERAGE_POOL(3, 2, 1)),
    BEHIND("average pool 3, stride 1", 5, 7, 10, 10, AVERAGE_POOL(3, 1, 1)),
    BEHIND("global average pool", 6, 24, 7, 7, LAYER(GLOBAL_AVERAGE_POOL2D)),
    BEHIND("global average pool, 512 of 4x4", 64, 512, 4, 4, LAYER(GLOBAL_AVERAGE_POOL2D)),
    BEHIND("global average pool, 24 of 20x20", 3, 24, 20, 20, LAYER(GLOBAL_AVERAGE_POOL2D)),
    BEHIND("global average pool, 70400 channels", 2200, 32, 2, 2, LAYER(GLOBAL_AVERAGE_POOL2D)),
    BEHIND("channel scale of 20x20", 3, 24, 20, 20, LAYER(CHANNEL_SCALE)),
    BEHIND("channel scale of 2x2", 9, 40, 2, 2, LAYER(CHANNEL_SCALE)),
    BEHIND("batch norm, SiLU, channel scale", 6, 16, 8, 8, LAYER(BATCH_NORM), LAYER(SILU),
           LAYER(CHANNEL_SCALE)),
    BEHIND("channel scale", 6, 16, 7, 7, LAYER(CHANNEL_SCALE)),
    BEHIND("channel scale, odd", 3, 13, 5, 5, LAYER(CHANNEL_SCALE)),
    {.name = "squeeze and excite", IMAGES(6, 3, 9, 9), .build = build_sigmoid_gate, SGD},
    {.name = "squeeze and excite, evaluation",
     IMAGES(6, 3, 9, 9),
     .build = build_sigmoid_gate,
     .evaluation = true},
    {.name = "squeeze and excite, recomputed",
     IMAGES(6, 3, 9, 9),
     .build = build_silu_gate,
     SGD,
     .recompute = RECOMPUTE_SELECTIVE},
    {.name = "squeeze and excite by SiLU, 13 channels",
     IMAGES(5, 3, 20, 20),
     .build = build_silu_gate,
     SGD,
     /* with 0, the terms of a bias's gradient nearly cancel, so that only rounding errors remain */
     .seed = 2},
    {.name = "squeeze and excite by tanh, 3 channels",
     IMAGES(32, 3, 16, 16),
     .build = build_tanh_gate,
     SGD},
    {.name = "squeeze and excite by ReLU", IMAGES(6, 3, 4, 4), .build = build_relu_gate, SGD},
    {.name = "squeeze and excite, wide", IMAGES(3, 3, 5, 4), .build = build_wide_gate, SGD},
    {.name = "squeeze and excite, wide and odd",
     IMAGES(3, 3, 2, 2),
     .build = build_wide_odd_gate,
     SGD},
    {.name = "squeeze and excite, frozen", IMAGES(6, 3, 9, 9), .build = build_frozen_gate, SGD},
    {.name = "squeeze and excite, factors added to a batch norm",
     IMAGES(32, 3, 4, 4),
     .build = build_added_gate,
     /* the batch norm divides by how little averages differ, which enlarges what 16 bits round */
     .types = FLOAT32_ALONE,
     SGD},
    BEHIND("dropout of images", 6, 16, 8, 8, LAYER(DROPOUT)),
    BEHIND("stochastic depth of images", 16, 16, 8, 8, LAYER(STOCHASTIC_DEPTH), LAYER(ADD)),
    BEHIND("sum of images", 6, 16, 8, 8, LAYER(TANH), LAYER(ADD)),
    BEHIND("sigmoid of images", 6, 13, 5, 7, LAYER(SIGMOID)),
    BEHIND("pools and flatten", 6, 12, 12, 12, MAX_POOL(2, 2, 0), AVERAGE_POOL(2, 2, 0)),
    BEHIND("flatten few channels of many pixels", 3, 5, 20, 23, LAYER(TANH)),
    BEHIND("flatten many channels of few pixels", 3, 75, 3, 7, LAYER(TANH)),
    BEHIND("flatten many channels of many pixels", 3, 40, 7, 9, LAYER(TANH)),
};

const struct case_table image_cases = {cases, sizeof cases / sizeof *cases};
