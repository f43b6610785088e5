/* transformer.c: cases of layer norm and RMS norm, attention, positions, tokens, parameters that
 * serve several layers, the loss over tokens, and one vector for all steps. */
#include "engine/graph/forward.h"
#include "tests/cuda/cases.h"

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define SEQUENCES(rows, steps, width) .batch = rows, .sample = {steps, width}, .rank = 2
#define TOKENS(rows, steps) .batch = rows, .sample = {steps}, .rank = 1, .indices = true

/* ---- layer norm and RMS norm ---- */

static int32_t norm_of(struct graph *graph, int32_t x, int64_t width, bool centred, bool bias)
{
    x = graph_linear(graph, x, "0", width, true);
    x = centred ? graph_layer_norm(graph, x, "1", 1e-5f, bias)
                : graph_rms_norm(graph, x, "1", 1e-5f);
    return graph_linear(graph, x, "2", 10, true);
}

static int32_t build_layer_norm(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 48, true, true);
}

static int32_t build_layer_norm_odd(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 45, true, false);
}

static int32_t build_layer_norm_wide(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 1032, true, true);
}

static int32_t build_layer_norm_1000(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 1000, true, true);
}

static int32_t build_rms_norm_600(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 600, false, false);
}

static int32_t build_rms_norm(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 264, false, false);
}

/* Two branches, each normalised with the sum of those before. */
static int32_t residual_norms(struct graph *graph, int32_t x, int64_t width, bool centred)
{
    int32_t residual = graph_linear(graph, x, "0", width, true), sum;

    x = graph_activation(graph, residual, "1", ACTIVATION_TANH);
    x = centred ? graph_add_layer_norm(graph, x, residual, "2", 1e-5f, true, &sum)
                : graph_add_rms_norm(graph, x, residual, "2", 1e-5f, &sum);
    x = graph_linear(graph, x, "3", width, true);
    x = centred ? graph_add_layer_norm(graph, x, sum, "4", 1e-5f, true, NULL)
                : graph_add_rms_norm(graph, x, sum, "4", 1e-5f, NULL);
    return graph_mean_over_time(graph, graph_linear(graph, x, "5", 10, true), -1, "6");
}

static int32_t build_add_layer_norm(struct graph *graph, int32_t x)
{
    return residual_norms(graph, x, 40, true);
}

static int32_t build_add_rms_norm(struct graph *graph, int32_t x)
{
    return residual_norms(graph, x, 40, false);
}

static int32_t build_add_layer_norm_384(struct graph *graph, int32_t x)
{
    return residual_norms(graph, x, 384, true);
}

/* ---- attention ---- */

struct attention_case {
    int heads, width;
    bool causal, lengths, rotary;
};

static int32_t attend(struct graph *graph, int32_t x, struct attention_case of)
{
    int32_t lengths = of.lengths ? graph_lengths(graph) : -1;

    x = graph_linear(graph, x, "0", 3 * (int64_t)of.heads * of.width, true);
    if (of.rotary)
        x = graph_rotary(graph, x, "rotary", of.heads, 10000);
    x = graph_attention(graph, x, "1", of.heads, of.causal, lengths);
    x = graph_linear(graph, x, "2", 12, true);
    x = of.lengths  ? graph_mean_over_time(graph, x, lengths, "3")
        : of.causal ? graph_first_step(graph, x, "3")
                    : graph_mean_over_time(graph, x, -1, "3");
    return graph_linear(graph, x, "4", 10, true);
}

#define ATTENTION(name, ...)                                           \
    static int32_t build_##name(struct graph *graph, int32_t x)        \
    {                                                                  \
        return attend(graph, x, (struct attention_case){__VA_ARGS__}); \
    }
ATTENTION(attention_8, .heads = 3, .width = 8)
ATTENTION(attention_32, .heads = 2, .width = 32)
ATTENTION(attention_64, .heads = 2, .width = 64)
ATTENTION(attention_128, .heads = 1, .width = 128)
ATTENTION(attention_5, .heads = 2, .width = 5)
ATTENTION(attention_24, .heads = 2, .width = 24)
ATTENTION(attention_72, .heads = 1, .width = 72)
ATTENTION(attention_lengths, .heads = 2, .width = 16, .lengths = true)
ATTENTION(attention_causal_lengths, .heads = 2, .width = 32, .causal = true, .lengths = true)
ATTENTION(attention_rotary, .heads = 2, .width = 16, .rotary = true)

/* Every step counts, so that it matters which steps each one sees. */
static int32_t causal(struct graph *graph, int32_t x, int heads, int width)
{
    x = graph_linear(graph, x, "0", 3 * (int64_t)heads * width, true);
    x = graph_attention(graph, x, "1", heads, true, -1);
    return graph_linear(graph, x, "2", 10, true);
}

static int32_t build_causal_16(struct graph *graph, int32_t x)
{
    return causal(graph, x, 2, 16);
}

static int32_t build_causal_64(struct graph *graph, int32_t x)
{
    return causal(graph, x, 1, 64);
}

static int32_t build_causal_7(struct graph *graph, int32_t x)
{
    return causal(graph, x, 3, 7);
}

/* ---- tokens ---- */

static int32_t position_parameter(struct graph *graph, int64_t steps, int64_t width)
{
    const struct graph_shape shape = {.rank = 2, .extent = {steps, width}};

    return graph_parameter(graph, "positions", &shape,
                           (struct initializer){.kind = INITIALIZER_NORMAL, .bound = 0.5f});
}

/* The beginning and the end of a ViT. */
static int32_t patches(struct graph *graph, int32_t x, bool token)
{
    const struct conv_attributes window = WINDOW(4, 4, 4, 4, 0, 0);
    const struct graph_shape one = {.rank = 1, .extent = {24}};
    int32_t parameter = -1;

    if (token)
        parameter =
            graph_parameter(graph, "token", &one, (struct initializer){.kind = INITIALIZER_ONES});
    x = graph_conv2d(graph, x, "0", 24, &window, true);
    x = graph_image_tokens(graph, x, "1");
    if (token)
        x = graph_prepend_token(graph, x, "2", parameter);
    x = graph_add_positions(graph, x, "3", position_parameter(graph, token ? 13 : 12, 24));
    x = graph_linear(graph, x, "4", 24, true);
    return graph_linear(
        graph, token ? graph_first_step(graph, x, "5") : graph_mean_over_time(graph, x, -1, "5"),
        "6", 10, true);
}

static int32_t build_patches(struct graph *graph, int32_t x)
{
    return patches(graph, x, false);
}

static int32_t build_patches_token(struct graph *graph, int32_t x)
{
    return patches(graph, x, true);
}

/* Pixels are tokens as they lie. */
static int32_t build_pixels(struct graph *graph, int32_t x)
{
    const struct graph_shape one = {.rank = 1, .extent = {24}};
    int32_t token =
        graph_parameter(graph, "token", &one, (struct initializer){.kind = INITIALIZER_ONES});

    x = graph_linear(graph, graph_image_tokens(graph, x, "0"), "1", 24, true);
    x = graph_prepend_token(graph, x, "2", token);
    x = graph_add_positions(graph, x, "3", position_parameter(graph, 13, 24));
    x = graph_mean_over_time(graph, graph_linear(graph, x, "4", 24, true), -1, "5");
    return graph_linear(graph, x, "6", 10, true);
}

/* Tokens as an image, and back. */
static int32_t build_token_image(struct graph *graph, int32_t x)
{
    const struct conv_attributes window = WINDOW(1, 3, 1, 1, 0, 1);

    x = graph_linear(graph, x, "0", 16, true);
    x = graph_conv2d(graph, graph_token_image(graph, x, "1"), "2", 16, &window, true);
    x = graph_linear(graph, graph_image_tokens(graph, x, "3"), "4", 12, true);
    return graph_mean_over_time(graph, x, -1, "5");
}

/* Each symbol predicts the next one; the output's weights are the embedding's. */
static int32_t build_tied(struct graph *graph, int32_t x)
{
    x = graph_embedding(graph, x, "table", CASE_VOCABULARY, 24);
    x = graph_add_positions(graph, x, "add",
                            position_parameter(graph, graph->tensors[x].shape.extent[1], 24));
    x = graph_linear(graph, x, "0", 24, true);
    return graph_linear_shared(graph, x, "1", graph_find_tensor(graph, "table.weight"), -1);
}

/* One layer twice, with its bias. */
static int32_t build_repeated(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 24, true);
    x = graph_activation(graph, x, "1", ACTIVATION_TANH);
    x = graph_linear(graph, x, "2", 24, true);
    x = graph_activation(graph, x, "3", ACTIVATION_TANH);
    x = graph_linear_shared(graph, x, "4", graph_find_tensor(graph, "2.weight"),
                            graph_find_tensor(graph, "2.bias"));
    return graph_linear(graph, x, "5", 10, true);
}

/* ---- one vector for all steps ---- */

static int32_t build_last_step(struct graph *graph, int32_t x)
{
    int32_t lengths = graph_lengths(graph);

    x = graph_linear(graph, x, "0", 24, true);
    return graph_linear(graph, graph_last_step(graph, x, lengths, "1", false), "2", 10, true);
}

static int32_t build_first_step(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 24, true);
    return graph_linear(graph, graph_last_step(graph, x, -1, "1", true), "2", 10, true);
}

static int32_t build_mean_over_time(struct graph *graph, int32_t x)
{
    int32_t lengths = graph_lengths(graph);

    x = graph_linear(graph, x, "0", 24, true);
    return graph_linear(graph, graph_mean_over_time(graph, x, lengths, "1"), "2", 10, true);
}

/* ---- a whole block ---- */

static int32_t build_block(struct graph *graph, int32_t x)
{
    int32_t residual, y;

    x = graph_embedding(graph, x, "table", CASE_VOCABULARY, 32);
    residual = x;
    y = graph_layer_norm(graph, x, "norm1", 1e-5f, true);
    y = graph_linear(graph, y, "qkv", 96, true);
    y = graph_attention(graph, graph_rotary(graph, y, "rotary", 2, 10000), "attention", 2, true,
                        -1);
    y = graph_dropout(graph, graph_linear(graph, y, "out", 32, true), "drop", 0.2f);
    y = graph_add_layer_norm(graph, y, residual, "norm2", 1e-5f, true, &residual);
    y = graph_activation(graph, graph_linear(graph, y, "up", 64, true), "gelu", ACTIVATION_GELU);
    y = graph_linear(graph, y, "down", 32, true);
    y = graph_add_layer_norm(graph, y, residual, "norm3", 1e-5f, true, NULL);
    return graph_linear_shared(graph, y, "head", graph_find_tensor(graph, "table.weight"), -1);
}

static int32_t build_rms_norm_3(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 3, false, false);
}

static int32_t build_rms_norm_4099(struct graph *graph, int32_t x)
{
    return norm_of(graph, x, 4099, false, false);
}

ATTENTION(attention_1, .heads = 3, .width = 1, .causal = true)
ATTENTION(attention_120, .heads = 1, .width = 120, .lengths = true)

/* A vocabulary of `symbols`, of which CASE_VOCABULARY occur, and as many classes. */
static int32_t symbols_of(struct graph *graph, int32_t x, int64_t symbols, int64_t width)
{
    x = graph_embedding(graph, x, "0", symbols, width);
    return graph_linear(graph, x, "1", symbols, true);
}

static int32_t build_symbols_65(struct graph *graph, int32_t x)
{
    return symbols_of(graph, x, 65, 3);
}

static int32_t build_symbols_65_wide(struct graph *graph, int32_t x)
{
    return symbols_of(graph, x, 65, 257);
}

static int32_t build_symbols_50000(struct graph *graph, int32_t x)
{
    return symbols_of(graph, x, 50000, 3);
}

/* A large table, of which few rows are read often. */
static int32_t build_symbols_1100(struct graph *graph, int32_t x)
{
    x = graph_embedding(graph, x, "0", 1100, 6);
    return graph_linear(graph, graph_mean_over_time(graph, x, -1, "1"), "2", 10, true);
}

/* The angles of late steps are large numbers. */
static int32_t build_rotary(struct graph *graph, int32_t x)
{
    x = graph_linear(graph, x, "0", 3 * 2 * 34, true);
    x = graph_rotary(graph, x, "1", 2, 500);
    x = graph_activation(graph, x, "2", ACTIVATION_TANH);
    return graph_linear(graph, graph_mean_over_time(graph, x, -1, "3"), "4", 10, true);
}

static const struct test_case cases[] = {
    /* more rows, tiles of attention, or samples than a device has workgroups along an axis */
    {.name = "RMS norm of 3, 70,000 rows",
     .batch = 70000,
     .sample = {3},
     .rank = 1,
     .build = build_rms_norm_3,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "attention, causal, 11,000 samples",
     SEQUENCES(11000, 3, 5),
     .build = build_attention_1,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "1,100 symbols, parts",
     TOKENS(90, 100),
     .build = build_symbols_1100,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "rotary, 5,000 steps",
     SEQUENCES(2, 5000, 3),
     .build = build_rotary,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "RMS norm of 3", .batch = 5, .sample = {3}, .rank = 1, .build = build_rms_norm_3, SGD},
    {.name = "RMS norm of 4099", SEQUENCES(1, 3, 3), .build = build_rms_norm_4099, SGD},
    {.name = "attention, one step", SEQUENCES(1, 1, 5), .build = build_attention_32, SGD},
    {.name = "attention, causal, 3 heads of 1",
     SEQUENCES(2, 3, 5),
     .build = build_attention_1,
     SGD},
    {.name = "attention, a head of 120, lengths",
     SEQUENCES(3, 67, 5),
     .build = build_attention_120,
     SGD},
    {.name = "65 symbols, one step", TOKENS(3, 1), .build = build_symbols_65, SGD},
    {.name = "65 symbols, parts", TOKENS(19, 101), .build = build_symbols_65, SGD},
    {.name = "65 symbols of 257, parts, accumulated",
     TOKENS(11, 101),
     .build = build_symbols_65_wide,
     .accumulate = true,
     SGD},
    {.name = "50,000 symbols",
     TOKENS(2, 5),
     .build = build_symbols_50000,
     .types = FLOAT32_ALONE,
     SGD},
    {.name = "layer norm", .batch = 24, .sample = {40}, .rank = 1, .build = build_layer_norm, SGD},
    {.name = "layer norm of 45", SEQUENCES(5, 9, 40), .build = build_layer_norm_odd, SGD},
    {.name = "layer norm of 1032",
     .batch = 300,
     .sample = {40},
     .rank = 1,
     .build = build_layer_norm_wide,
     SGD},
    {.name = "layer norm of 1000",
     .batch = 300,
     .sample = {40},
     .rank = 1,
     .build = build_layer_norm_1000,
     SGD},
    {.name = "RMS norm of 600",
     .batch = 67,
     .sample = {40},
     .rank = 1,
     .build = build_rms_norm_600,
     SGD},
    {.name = "layer norm of sums of 384, accumulated",
     SEQUENCES(7, 11, 20),
     .build = build_add_layer_norm_384,
     .accumulate = true,
     SGD},
    {.name = "layer norm, evaluation",
     .batch = 24,
     .sample = {40},
     .rank = 1,
     .build = build_layer_norm,
     .evaluation = true},
    {.name = "layer norm, recomputed",
     .batch = 24,
     .sample = {40},
     .rank = 1,
     .build = build_layer_norm,
     .recompute = RECOMPUTE_SELECTIVE,
     SGD},
    {.name = "RMS norm", .batch = 24, .sample = {40}, .rank = 1, .build = build_rms_norm, SGD},
    {.name = "layer norm of sums", SEQUENCES(6, 11, 20), .build = build_add_layer_norm, SGD},
    {.name = "RMS norm of sums, accumulated",
     SEQUENCES(6, 11, 20),
     .build = build_add_rms_norm,
     .accumulate = true,
     SGD},
    {.name = "attention, 3 heads of 8", SEQUENCES(4, 7, 20), .build = build_attention_8, SGD},
    {.name = "attention, 2 heads of 32", SEQUENCES(3, 65, 20), .build = build_attention_32, SGD},
    {.name = "attention, 2 heads of 64", SEQUENCES(2, 130, 20), .build = build_attention_64, SGD},
    {.name = "attention, a head of 128", SEQUENCES(2, 70, 20), .build = build_attention_128, SGD},
    {.name = "attention, 2 heads of 5", SEQUENCES(3, 40, 20), .build = build_attention_5, SGD},
    {.name = "attention, 2 heads of 24", SEQUENCES(3, 40, 20), .build = build_attention_24, SGD},
    /* around what a block for each head holds: 256 steps, and 128 of wider heads */
    {.name = "attention, 255 steps", SEQUENCES(2, 255, 20), .build = build_attention_64, SGD},
    {.name = "attention, 256 steps", SEQUENCES(2, 256, 20), .build = build_attention_64, SGD},
    {.name = "attention, 257 steps", SEQUENCES(2, 257, 20), .build = build_attention_64, SGD},
    {.name = "attention, causal, 255 steps", SEQUENCES(2, 255, 20), .build = build_causal_16, SGD},
    {.name = "attention, causal, 256 steps", SEQUENCES(2, 256, 20), .build = build_causal_64, SGD},
    {.name = "attention, causal, 257 steps", SEQUENCES(2, 257, 20), .build = build_causal_64, SGD},
    {.name = "attention, a head of 128, 127 steps",
     SEQUENCES(2, 127, 20),
     .build = build_attention_128,
     SGD},
    {.name = "attention, a head of 128, 128 steps",
     SEQUENCES(2, 128, 20),
     .build = build_attention_128,
     SGD},
    {.name = "attention, a head of 128, 129 steps",
     SEQUENCES(2, 129, 20),
     .build = build_attention_128,
     SGD},
    {.name = "attention, a head of 72", SEQUENCES(3, 40, 20), .build = build_attention_72, SGD},
    {.name = "attention, lengths", SEQUENCES(5, 70, 20), .build = build_attention_lengths, SGD},
    {.name = "attention, causal, lengths",
     SEQUENCES(5, 70, 20),
     .build = build_attention_causal_lengths,
     SGD},
    {.name = "attention, rotary", SEQUENCES(17, 20, 20), .build = build_attention_rotary, SGD},
    {.name = "attention, evaluation",
     SEQUENCES(3, 40, 20),
     .build = build_attention_24,
     .evaluation = true},
    {.name = "attention, causal, 2 heads of 16",
     SEQUENCES(3, 70, 20),
     .build = build_causal_16,
     SGD},
    {.name = "attention, causal, a head of 64",
     SEQUENCES(2, 200, 20),
     .build = build_causal_64,
     SGD},
    {.name = "attention, causal, 3 heads of 7", SEQUENCES(2, 50, 20), .build = build_causal_7, SGD},
    {.name = "pixels as tokens",
     .batch = 6,
     .sample = {5, 4, 3},
     .rank = 3,
     .build = build_pixels,
     SGD},
    {.name = "patches of images",
     .batch = 6,
     .sample = {3, 12, 16},
     .rank = 3,
     .build = build_patches,
     SGD},
    {.name = "patches of images and a token",
     .batch = 6,
     .sample = {3, 12, 16},
     .rank = 3,
     .build = build_patches_token,
     SGD},
    {.name = "tokens as an image", SEQUENCES(6, 9, 20), .build = build_token_image, SGD},
    {.name = "tied embedding", TOKENS(6, 13), .build = build_tied, SGD, .steps = 2},
    {.name = "tied embedding, accumulated",
     TOKENS(6, 13),
     .build = build_tied,
     .accumulate = true,
     SGD},
    {.name = "a linear layer twice",
     .batch = 24,
     .sample = {40},
     .rank = 1,
     .build = build_repeated,
     .steps = 2,
     SGD},
    {.name = "last step", SEQUENCES(6, 9, 20), .build = build_last_step, SGD},
    {.name = "first step", SEQUENCES(6, 9, 20), .build = build_first_step, SGD},
    {.name = "mean over time", SEQUENCES(6, 21, 20), .build = build_mean_over_time, SGD},
    /* what the rounding of many layers adds up to, compare_trajectories compares */
    {.name = "transformer block",
     TOKENS(4, 33),
     .build = build_block,
     .types = FLOAT32_ALONE,
     .steps = 2,
     SGD},
};

const struct case_table transformer_cases = {cases, sizeof cases / sizeof *cases};
