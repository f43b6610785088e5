/* c_functions.c: see c_functions.h. The functions are plain loops of C99 over samples [C,H,W] or
 * [F], with the names and the order of arguments that c_source.c writes calls of. */
#include "worker/trainee/c_functions.h"

#include <stddef.h>

static const char linear[] =
    "static void linear(const float *x, const float *weight, const float *bias, float *y,\n"
    "                   int rows, int in, int out)\n"
    "{\n"
    "    for (int r = 0; r < rows; r++)\n"
    "        for (int o = 0; o < out; o++) {\n"
    "            float sum = bias ? bias[o] : 0;\n"
    "\n"
    "            for (int i = 0; i < in; i++)\n"
    "                sum += x[r * in + i] * weight[o * in + i];\n"
    "            y[r * out + o] = sum;\n"
    "        }\n"
    "}\n";

/* s: [C,H,W] of x and y, kernel, stride, padding, dilation, groups */
static const char convolution[] =
    "static void conv2d(const float *x, const float *weight, const float *bias, float *y,\n"
    "                   const int *s)\n"
    "{\n"
    "    const int in = s[0] / s[14], out = s[3] / s[14];\n"
    "\n"
    "    for (int o = 0; o < s[3]; o++)\n"
    "        for (int row = 0; row < s[4]; row++)\n"
    "            for (int column = 0; column < s[5]; column++) {\n"
    "                float sum = bias ? bias[o] : 0;\n"
    "\n"
    "                for (int i = 0; i < in; i++)\n"
    "                    for (int a = 0; a < s[6]; a++)\n"
    "                        for (int b = 0; b < s[7]; b++) {\n"
    "                            int h = row * s[8] - s[10] + a * s[12];\n"
    "                            int w = column * s[9] - s[11] + b * s[13];\n"
    "\n"
    "                            if (h >= 0 && h < s[1] && w >= 0 && w < s[2])\n"
    "                                sum += x[((o / out * in + i) * s[1] + h) * s[2] + w] *\n"
    "                                       weight[((o * in + i) * s[6] + a) * s[7] + b];\n"
    "                        }\n"
    "                y[(o * s[4] + row) * s[5] + column] = sum;\n"
    "            }\n"
    "}\n";

static const char max_pool[] =
    "static void max_pool2d(const float *x, float *y, const int *s)\n"
    "{\n"
    "    for (int c = 0; c < s[3]; c++)\n"
    "        for (int row = 0; row < s[4]; row++)\n"
    "            for (int column = 0; column < s[5]; column++) {\n"
    "                float most = -INFINITY;\n"
    "\n"
    "                for (int a = 0; a < s[6]; a++)\n"
    "                    for (int b = 0; b < s[7]; b++) {\n"
    "                        int h = row * s[8] - s[10] + a, w = column * s[9] - s[11] + b;\n"
    "\n"
    "                        if (h >= 0 && h < s[1] && w >= 0 && w < s[2])\n"
    "                            most = fmaxf(most, x[(c * s[1] + h) * s[2] + w]);\n"
    "                    }\n"
    "                y[(c * s[4] + row) * s[5] + column] = most;\n"
    "            }\n"
    "}\n";

/* Padding counts as zeros. */
static const char average_pool[] =
    "static void average_pool2d(const float *x, float *y, const int *s)\n"
    "{\n"
    "    for (int c = 0; c < s[3]; c++)\n"
    "        for (int row = 0; row < s[4]; row++)\n"
    "            for (int column = 0; column < s[5]; column++) {\n"
    "                float sum = 0;\n"
    "\n"
    "                for (int a = 0; a < s[6]; a++)\n"
    "                    for (int b = 0; b < s[7]; b++) {\n"
    "                        int h = row * s[8] - s[10] + a, w = column * s[9] - s[11] + b;\n"
    "\n"
    "                        if (h >= 0 && h < s[1] && w >= 0 && w < s[2])\n"
    "                            sum += x[(c * s[1] + h) * s[2] + w];\n"
    "                    }\n"
    "                y[(c * s[4] + row) * s[5] + column] = sum / (float)(s[6] * s[7]);\n"
    "            }\n"
    "}\n";

static const char adaptive_average[] =
    "static void adaptive_average_pool2d(const float *x, float *y, const int *s)\n"
    "{\n"
    "    for (int c = 0; c < s[3]; c++)\n"
    "        for (int row = 0; row < s[4]; row++)\n"
    "            for (int column = 0; column < s[5]; column++) {\n"
    "                int top = row * s[1] / s[4], bottom = ((row + 1) * s[1] + s[4] - 1) / s[4];\n"
    "                int left = column * s[2] / s[5];\n"
    "                int right = ((column + 1) * s[2] + s[5] - 1) / s[5];\n"
    "                float sum = 0;\n"
    "\n"
    "                for (int h = top; h < bottom; h++)\n"
    "                    for (int w = left; w < right; w++)\n"
    "                        sum += x[(c * s[1] + h) * s[2] + w];\n"
    "                y[(c * s[4] + row) * s[5] + column] =\n"
    "                    sum / (float)((bottom - top) * (right - left));\n"
    "            }\n"
    "}\n";

static const char batch_norm[] =
    "static void batch_norm(const float *x, const float *scale, const float *shift, float *y,\n"
    "                       int channels, int pixels)\n"
    "{\n"
    "    for (int c = 0; c < channels; c++)\n"
    "        for (int i = 0; i < pixels; i++)\n"
    "            y[c * pixels + i] = x[c * pixels + i] * scale[c] + shift[c];\n"
    "}\n";

static const char layer_norm[] =
    "static void layer_norm(const float *x, const float *weight, const float *bias, float *y,\n"
    "                       int rows, int width, float epsilon)\n"
    "{\n"
    "    for (int r = 0; r < rows; r++, x += width, y += width) {\n"
    "        float mean = 0, variance = 0;\n"
    "\n"
    "        for (int i = 0; i < width; i++)\n"
    "            mean += x[i] / (float)width;\n"
    "        for (int i = 0; i < width; i++)\n"
    "            variance += (x[i] - mean) * (x[i] - mean) / (float)width;\n"
    "        for (int i = 0; i < width; i++)\n"
    "            y[i] = (x[i] - mean) / sqrtf(variance + epsilon) * weight[i] +\n"
    "                   (bias ? bias[i] : 0);\n"
    "    }\n"
    "}\n";

static const char add[] = "static void add(const float *a, const float *b, float *y, int count)\n"
                          "{\n"
                          "    for (int i = 0; i < count; i++)\n"
                          "        y[i] = a[i] + b[i];\n"
                          "}\n";

static const char channel_scale[] =
    "static void channel_scale(const float *x, const float *scale, float *y, int channels,\n"
    "                          int pixels)\n"
    "{\n"
    "    for (int c = 0; c < channels; c++)\n"
    "        for (int i = 0; i < pixels; i++)\n"
    "            y[c * pixels + i] = x[c * pixels + i] * scale[c];\n"
    "}\n";

static const char image_tokens[] =
    "static void image_tokens(const float *x, float *y, int rows, int columns)\n"
    "{\n"
    "    for (int c = 0; c < columns; c++)\n"
    "        for (int r = 0; r < rows; r++)\n"
    "            y[c * rows + r] = x[r * columns + c];\n"
    "}\n";

static const char token_image[] =
    "static void token_image(const float *x, float *y, int rows, int columns)\n"
    "{\n"
    "    for (int c = 0; c < columns; c++)\n"
    "        for (int r = 0; r < rows; r++)\n"
    "            y[c * rows + r] = x[r * columns + c];\n"
    "}\n";

/* Rows of `width` numbers, of which the whole has `all`. */
static const char concatenate[] =
    "static void concatenate(const float *x, float *y, int rows, int width, int all)\n"
    "{\n"
    "    for (int r = 0; r < rows; r++)\n"
    "        for (int i = 0; i < width; i++)\n"
    "            y[r * all + i] = x[r * width + i];\n"
    "}\n";

static const char softmax[] = "static void softmax(const float *x, float *y, int rows, int width)\n"
                              "{\n"
                              "    for (int r = 0; r < rows; r++, x += width, y += width) {\n"
                              "        float most = -INFINITY, sum = 0;\n"
                              "\n"
                              "        for (int i = 0; i < width; i++)\n"
                              "            most = fmaxf(most, x[i]);\n"
                              "        for (int i = 0; i < width; i++)\n"
                              "            sum += y[i] = expf(x[i] - most);\n"
                              "        for (int i = 0; i < width; i++)\n"
                              "            y[i] /= sum;\n"
                              "    }\n"
                              "}\n";

static const char leaky_relu[] =
    "static void leaky_relu(const float *x, float *y, int count, float slope)\n"
    "{\n"
    "    for (int i = 0; i < count; i++)\n"
    "        y[i] = x[i] > 0 ? x[i] : slope * x[i];\n"
    "}\n";

static const char elu[] = "static void elu(const float *x, float *y, int count, float alpha)\n"
                          "{\n"
                          "    for (int i = 0; i < count; i++)\n"
                          "        y[i] = x[i] > 0 ? x[i] : alpha * expm1f(x[i]);\n"
                          "}\n";

static const char affine[] =
    "static void affine(const float *x, float *y, int count, float scale, float offset)\n"
    "{\n"
    "    for (int i = 0; i < count; i++)\n"
    "        y[i] = scale * x[i] + offset;\n"
    "}\n";

const char *c_function_of(enum graph_op op)
{
    static const char *const functions[OP_COUNT] = {
        [OP_LINEAR] = linear,
        [OP_CONV2D] = convolution,
        [OP_MAX_POOL2D] = max_pool,
        [OP_AVERAGE_POOL2D] = average_pool,
        [OP_ADAPTIVE_AVERAGE_POOL2D] = adaptive_average,
        [OP_BATCH_NORM] = batch_norm,
        [OP_LAYER_NORM] = layer_norm,
        [OP_ADD] = add,
        [OP_CHANNEL_SCALE] = channel_scale,
        [OP_CONCATENATE] = concatenate,
        [OP_IMAGE_TOKENS] = image_tokens,
        [OP_TOKEN_IMAGE] = token_image,
        [OP_SOFTMAX] = softmax,
        [OP_LEAKY_RELU] = leaky_relu,
        [OP_ELU] = elu,
        [OP_AFFINE] = affine,
        [OP_ACTIVATION] = "", /* one for each kind: c_activation_of() */
        [OP_RESHAPE] = "",    /* nothing to do */
    };

    return functions[op];
}

const char *c_activation_of(enum activation_kind kind)
{
    static const char *const formulas[] = {
        [ACTIVATION_RELU] = "x > 0 ? x : 0",
        [ACTIVATION_SILU] = "x / (1 + expf(-x))",
        [ACTIVATION_GELU] = "0.5f * x * (1 + erff(x * 0.70710678f))",
        [ACTIVATION_TANH] = "tanhf(x)",
        [ACTIVATION_SIGMOID] = "1 / (1 + expf(-x))",
        [ACTIVATION_HARDSWISH] = "x * fminf(fmaxf(x + 3, 0), 6) / 6",
        [ACTIVATION_HARDSIGMOID] = "fminf(fmaxf(x + 3, 0), 6) / 6",
        [ACTIVATION_RELU6] = "fminf(fmaxf(x, 0), 6)",
        [ACTIVATION_GELU_TANH] =
            "0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)))",
        [ACTIVATION_MISH] = "x * tanhf(fmaxf(x, 0) + log1pf(expf(-fabsf(x))))",
        [ACTIVATION_SOFTPLUS] = "fmaxf(x, 0) + log1pf(expf(-fabsf(x)))",
    };

    return formulas[kind];
}
