/* convolution.c: a table of cases, which compare_operators runs and judges. They are convolutions:
 * the first one of a network, whose samples have a gradient, too; one inside, whose operands and
 * results are stored in the type; and those that are fused with operators behind them. */
#include "tests/cuda/cases.h"

#define SGD .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9}
#define IMAGES(count, channels, height, width) \
    .batch = count, .sample = {channels, height, width}, .rank = 3
#define HEAD LAYER(FLATTEN), LINEAR(10)
#define FIRST(text, count, channels, height, width, ...)                \
    {                                                                   \
        .name = "conv2d " text, IMAGES(count, channels, height, width), \
        .layers = {__VA_ARGS__, HEAD}, SGD                              \
    }
#define INSIDE(text, count, channels, height, width, ...)           \
    {                                                               \
        .name = "conv2d " text, IMAGES(count, 3, height, width),    \
        .layers = {CONV(channels, 1, 1, 0), __VA_ARGS__, HEAD}, SGD \
    }
#define WINDOWED(channels, ...)                  \
    {                                            \
        CASE_CONV2D, channels, true, __VA_ARGS__ \
    }
#define DILATED(k, d0, d1, p0, p1)                                                                 \
    {                                                                                              \
        .kernel = {k, k}, .stride = {1, 1}, .padding = {p0, p1}, .dilation = {d0, d1}, .groups = 1 \
    }

#define STRIDED_DILATED(kh, kw, sh, sw, ph, pw, dh, dw)                                    \
    {                                                                                      \
        .kernel = {kh, kw}, .stride = {sh, sw}, .padding = {ph, pw}, .dilation = {dh, dw}, \
        .groups = 1                                                                        \
    }

static const struct test_case cases[] = {
    FIRST("3 -> 16, 8x8, batch 2", 2, 3, 8, 8, CONV(16, 3, 1, 1)),
    FIRST("3 -> 64, 32x32", 16, 3, 32, 32, CONV(64, 3, 1, 1)),
    FIRST("1 -> 8, 28x28", 5, 1, 28, 28, CONV_BIAS(8, 3, 1, 1)),
    FIRST("3 -> 5, 7x9, odd", 3, 3, 7, 9, CONV_BIAS(5, 3, 1, 1)),
    FIRST("of one pixel", 4, 6, 1, 1, CONV_BIAS(8, 1, 1, 0)),
    FIRST("of one pixel, beside the image", 4, 6, 1, 1, CONV_BIAS(8, 1, 3, 1)),
    INSIDE("of one pixel, ReLU", 40, 24, 1, 1, CONV_BIAS(48, 1, 1, 0), LAYER(RELU),
           CONV_BIAS(16, 1, 1, 0), LAYER(SIGMOID)),
    INSIDE("16 -> 24, 9x7, odd", 4, 16, 9, 7, CONV(24, 3, 1, 1)),
    INSIDE("5 -> 7, channels odd", 3, 5, 10, 10, CONV_BIAS(7, 3, 1, 1)),
    INSIDE("33 -> 17, channels odd", 2, 33, 6, 6, CONV(17, 3, 1, 1)),
    INSIDE("64 -> 64, 32x32, batch 1", 1, 64, 32, 32, CONV(64, 3, 1, 1)),
    INSIDE("64 -> 64, 32x32, batch 64", 64, 64, 32, 32, CONV(64, 3, 1, 1)),
    INSIDE("64 -> 128, 5x32, batch 3", 3, 64, 5, 32, CONV_BIAS(128, 3, 1, 1)),
    INSIDE("128 -> 64, 3x32, batch 1", 1, 128, 3, 32, CONV(64, 3, 1, 1)),
    INSIDE("64 -> 64, 1x32, batch 2", 2, 64, 1, 32, CONV(64, 3, 1, 1)),
    INSIDE("64 -> 128, stride 2", 8, 64, 16, 16, CONV(128, 3, 2, 1)),
    INSIDE("64 -> 128, stride 2, odd image", 3, 64, 15, 13, CONV(128, 3, 2, 1)),
    INSIDE("64 -> 128, 1x1, stride 2", 8, 64, 16, 16, CONV(128, 1, 2, 0)),
    INSIDE("48 -> 80, 1x1", 8, 48, 8, 8, CONV(80, 1, 1, 0)),
    INSIDE("512 -> 512, 4x4", 32, 512, 4, 4, CONV(512, 3, 1, 1)),
    INSIDE("without padding", 6, 16, 11, 11, CONV_BIAS(16, 3, 1, 0)),
    INSIDE("5x5", 6, 16, 12, 12, CONV(32, 5, 1, 2)),
    INSIDE("7x7, stride 2", 4, 8, 20, 20, CONV(16, 7, 2, 3)),
    INSIDE("1x5", 4, 8, 9, 12, WINDOWED(12, WINDOW(1, 5, 1, 1, 0, 2))),
    INSIDE("5x3, stride 1x2, padding 0x2", 4, 8, 12, 9, WINDOWED(12, WINDOW(5, 3, 1, 2, 0, 2))),
    INSIDE("2x2, even", 4, 8, 8, 8, CONV_BIAS(8, 2, 1, 0)),
    INSIDE("dilation 2", 4, 16, 12, 12, WINDOWED(16, DILATED(3, 2, 2, 2, 2))),
    INSIDE("dilation 1x3", 4, 8, 12, 12, WINDOWED(8, DILATED(3, 1, 3, 1, 3))),
    INSIDE("3x4, stride 2x3, dilation 3x2", 3, 8, 17, 19,
           WINDOWED(12, STRIDED_DILATED(3, 4, 2, 3, 4, 5, 3, 2))),
    INSIDE("5x4, stride 4x6, dilation 2x4", 3, 8, 19, 31,
           WINDOWED(12, STRIDED_DILATED(5, 4, 4, 6, 1, 2, 2, 4))),
    INSIDE("2x2, stride 3", 3, 8, 11, 10, CONV_BIAS(8, 2, 3, 0)),
    INSIDE("padding larger than the kernel", 3, 8, 5, 6, CONV_BIAS(8, 3, 1, 5)),
    INSIDE("129 -> 130, 20x20", 4, 129, 20, 20, CONV_BIAS(130, 3, 1, 1)),
    INSIDE("3 groups, 24 -> 18, stride 2", 3, 24, 9, 9, CONV_GROUPS(18, 3, 2, 1, 3)),
    INSIDE("2 groups", 4, 16, 10, 10, CONV_GROUPS(24, 3, 1, 1, 2)),
    INSIDE("4 groups, 8 -> 12", 3, 8, 9, 9, CONV_GROUPS(12, 3, 2, 1, 4)),
    INSIDE("a factor of each channel", 4, 16, 10, 10, CONV_GROUPS(16, 1, 1, 0, 16)),
    INSIDE("depthwise, 7x7", 3, 24, 9, 11, CONV_GROUPS(24, 7, 1, 3, 24)),
    INSIDE("depthwise 3x3", 4, 24, 14, 14, CONV_GROUPS(24, 3, 1, 1, 24)),
    INSIDE("depthwise 3x3, stride 2", 4, 24, 15, 15, CONV_GROUPS(24, 3, 2, 1, 24)),
    INSIDE("depthwise 5x5", 4, 40, 9, 11, CONV_GROUPS(40, 5, 1, 2, 40)),
    INSIDE("depthwise 5x5, stride 2", 4, 40, 10, 10, CONV_GROUPS(40, 5, 2, 2, 40)),
    INSIDE("depthwise 3x3 of 2x2", 6, 16, 2, 2, CONV_GROUPS(16, 3, 1, 1, 16)),
    INSIDE("depthwise 5x5 of one pixel", 6, 16, 1, 1, CONV_GROUPS(16, 5, 1, 2, 16)),
    INSIDE("depthwise 5x5, stride 2, 33x18", 2, 72, 33, 18, CONV_GROUPS(72, 5, 2, 2, 72)),
    INSIDE("depthwise 7x7", 2, 16, 12, 12, CONV_GROUPS(16, 7, 1, 3, 16)),
    INSIDE("depthwise, two for each", 3, 12, 8, 8, CONV_GROUPS(24, 3, 1, 1, 12)),
    INSIDE("depthwise, odd channels", 3, 13, 8, 8, CONV_GROUPS(13, 3, 1, 1, 13)),
    INSIDE("and ReLU", 6, 32, 8, 8, CONV_BIAS(32, 3, 1, 1), LAYER(RELU)),
    INSIDE("and SiLU", 6, 16, 8, 8, CONV_BIAS(16, 3, 1, 1), LAYER(SILU)),
    INSIDE("batch norm and ReLU", 8, 32, 8, 8, CONV(48, 3, 1, 1), LAYER(BATCH_NORM), LAYER(RELU)),
    {.name = "conv2d batch norm, hardswish",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(16, 1, 1, 0), CONV(24, 3, 1, 1), LAYER(BATCH_NORM), LAYER(HARDSWISH), HEAD},
     SGD,
     .seed = 113}, /* so that no sum is rounded to 3 or -3 */
    {.name = "conv2d batch norm, hardswish, conv2d",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(16, 1, 1, 0), CONV(24, 3, 1, 1), LAYER(BATCH_NORM), LAYER(HARDSWISH),
                CONV(8, 1, 1, 0), HEAD},
     SGD,
     .seed = 113},
    {.name = "conv2d, batch norm, accumulated",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV(16, 3, 1, 1), LAYER(BATCH_NORM), LAYER(SILU), CONV_BIAS(16, 3, 1, 1), HEAD},
     SGD,
     .steps = 2,
     .accumulate = true},
    {.name = "conv2d 64 -> 64, 4x32, accumulated",
     IMAGES(4, 3, 4, 32),
     .layers = {CONV(64, 1, 1, 0), LAYER(SILU), CONV_BIAS(64, 3, 1, 1), HEAD},
     SGD,
     .steps = 2,
     .accumulate = true},
    {.name = "conv2d in evaluation",
     IMAGES(7, 3, 12, 12),
     .layers = {CONV_BIAS(24, 3, 1, 1), LAYER(RELU), CONV(16, 3, 2, 1), HEAD},
     .evaluation = true},
    {.name = "conv2d, batch norm, evaluation",
     IMAGES(7, 3, 12, 12),
     .layers = {CONV(24, 3, 1, 1), LAYER(BATCH_NORM), LAYER(RELU), HEAD},
     .evaluation = true},
    {.name = "conv2d, momentum of 3 steps",
     IMAGES(8, 3, 8, 8),
     .layers = {CONV_BIAS(16, 3, 1, 1), LAYER(GELU), CONV(8, 3, 2, 1), HEAD},
     SGD,
     .steps = 3},
};

const struct case_table convolution_cases = {cases, sizeof cases / sizeof *cases};
