/* attributes.h: what the operators of a training graph are set to: the parts of a node's
 * `attributes` (graph.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum activation_kind {
    ACTIVATION_RELU,
    ACTIVATION_SILU,
    ACTIVATION_GELU, /* exact: x * Phi(x) with erf, PyTorch's default */
    ACTIVATION_TANH,
    ACTIVATION_SIGMOID,
    ACTIVATION_HARDSWISH,   /* x min(max(x + 3, 0), 6) / 6: Howard et al. 2019, arXiv:1905.02244 */
    ACTIVATION_HARDSIGMOID, /* min(max(x + 3, 0), 6) / 6 */
    ACTIVATION_RELU6,       /* min(max(x, 0), 6) */
    ACTIVATION_GELU_TANH,   /* x (1 + tanh(√(2/π) (x + 0.044715 x^3))) / 2: torch's
                               approximate="tanh" */
    ACTIVATION_MISH,        /* x tanh(log(1 + e^x)): Misra 2019, arXiv:1908.08681 */
    ACTIVATION_SOFTPLUS     /* log(1 + e^x) */
};

/* What a recurrent layer keeps from step to step, and how. */
enum recurrent_cell { RECURRENT_LSTM, RECURRENT_GRU };

/* Losses of values, each the mean over all of them: of the absolute differences; of their squares
 * / 2 up to `delta` and straight beyond; of the differences by which a quantile is missed; of the
 * binary cross entropy of the prediction's sigmoid. COSINE: 1 - the cosine of each sample's two
 * rows. SMOOTH_L1: HUBER divided by its delta. QUANTILES: of each value several, side by side. */
enum value_loss {
    VALUE_LOSS_MAE,
    VALUE_LOSS_HUBER,
    VALUE_LOSS_QUANTILE,
    VALUE_LOSS_BINARY,
    VALUE_LOSS_COSINE,
    VALUE_LOSS_SMOOTH_L1,
    VALUE_LOSS_QUANTILES
};

enum { LOSS_NUMBERS_MAX = 256 };

/* What a loss of values is set to. */
struct value_loss_config {
    enum value_loss kind;
    float parameter; /* huber: delta; smooth_l1: beta; quantile: the quantile */
    /* quantiles: which; binary: the weight of the 1 of each label, or one for all labels */
    int count; /* 0: none, at most LOSS_NUMBERS_MAX */
    float numbers[LOSS_NUMBERS_MAX];
};

/* Which triplets of a batch the triplet loss counts (operators/triplet_loss.c). */
enum triplet_mining { TRIPLETS_HARD, TRIPLETS_ALL, TRIPLETS_SEMI_HARD };

struct triplet_loss_config {
    enum triplet_mining mining;
    float margin; /* above 0 */
};

/* What the triplet loss keeps of an anchor for its gradient: for each sample of the batch the
 * derivative of the anchor's sum of losses by their distance, divided by it; for each the distance;
 * and how many losses the sum has. */
static inline int64_t triplet_row(int64_t batch)
{
    return 2 * batch + 1;
}

enum { GRAPH_HEADS_MAX = 8 };

/* A part of a model's output with a loss of its own. The heads' logits follow each other in the
 * output, their labels in the target. */
struct loss_head {
    int classes, labels; /* how many logits and labels are its */
    /* The loss of a sample: the mean over the classes of the binary cross entropy of whether the
     * class is among the labels (torch's BCEWithLogitsLoss). Else the mean over the labels of the
     * softmax cross entropy. */
    bool binary;
    float weight; /* of its loss in the sum */
};

struct conv_attributes {
    int stride[2], padding[2], dilation[2], kernel[2];
    int groups;
};

/* Affine quantization to 0 … 255: a number is scale (value - zero). */
struct quantization {
    float scale;
    int32_t zero;
};

/* A convolution of integers with what follows it. */
struct conv_int8_attributes {
    struct conv_attributes conv; /* first: passes read attributes.conv */
    struct quantization x, y, addend;
    bool relu;
    float epsilon; /* of the batch norm */
};

/* How an image is made larger or smaller: PyTorch's interpolate() with its modes "nearest" and
 * "bilinear", the latter with align_corners, too. */
enum resize_mode { RESIZE_NEAREST, RESIZE_BILINEAR, RESIZE_BILINEAR_CORNERS };
struct resize {
    int64_t height, width; /* of the result */
    /* what the extents were multiplied with, if that says where its points lie; 0: the extents */
    double scale[2];
    enum resize_mode mode;
};
enum { RESIZE_EXTENT_MAX = 65536 };

/* Operators that walk along time. */
struct time_attributes {
    int sequences; /* of equal length, one behind another */
    bool reverse;  /* from the end of each */
    bool silu;     /* convolution: is applied to the result */
};

/* How many steps a sequence has behind convolutions and pools: (steps + more) / stride. */
struct window_lengths {
    int64_t more, stride;
};

/* of[i] is the symbol that pairs with symbol i. */
enum { COMPLEMENT_SYMBOLS_MAX = 32 };
struct complement_attributes {
    uint8_t of[COMPLEMENT_SYMBOLS_MAX], symbols;
};

/* What an OP_BROADCAST computes of a and b. */
enum broadcast_kind {
    BROADCAST_ADD,
    BROADCAST_SUBTRACT,         /* a - b */
    BROADCAST_SUBTRACT_REVERSE, /* b - a */
    BROADCAST_MULTIPLY,
    BROADCAST_DIVIDE,        /* a / b */
    BROADCAST_DIVIDE_REVERSE /* b / a */
};
struct broadcast_attributes {
    enum broadcast_kind kind;
    int64_t outer, middle, inner; /* extents of a sample of a; b has `middle` elements */
};

/* What an OP_FUNCTION computes of each number. */
enum number_function {
    FUNCTION_EXP,
    FUNCTION_LOG,
    FUNCTION_SQRT,
    FUNCTION_RECIPROCAL,
    FUNCTION_SIN,
    FUNCTION_COS,
    FUNCTION_ERF,
    FUNCTION_POWER /* x to the power of `exponent` */
};
struct function_attributes {
    enum number_function kind;
    float exponent;
};

/* What an OP_TAKE reads: a sample is `outer` times `from` rows of `inner` numbers; of these rows
 * the result has `to`. Its map is a statistic of 2 to + from + 1 whole numbers, which float32 holds
 * exactly up to TAKE_ROWS_MAX: first the row that each row of the result takes (-1: 0). Then, for
 * the gradient, which rows took row j: those that stand at the places first[j] to before
 * first[j + 1] of a list, which begins behind the from + 1 numbers of `first`. */
enum { TAKE_ROWS_MAX = 1 << 24 };
struct take_attributes {
    int64_t outer, from, to, inner;
};

/* A sample is `outer` times `middle` rows of `inner` numbers; the sum over `middle` is multiplied
 * by `factor`. */
struct axis_sum_attributes {
    int64_t outer, middle, inner;
    float factor;
};

/* A sample as `rank` axes; axis i of the result is axis order[i]. */
enum { PERMUTE_RANK_MAX = 8 };
struct permute_attributes {
    int rank, order[PERMUTE_RANK_MAX];
    int64_t extent[PERMUTE_RANK_MAX];
};

/* y = a b for a [rows, depth], b [depth, columns]; a transposed one is stored the other way. */
struct batch_product_attributes {
    int64_t groups, rows, columns, depth;
    bool transpose_a, transpose_b;
};
