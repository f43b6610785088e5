/* graph.h: the static training graph: tensors and nodes in execution order, built forward by the
 * graph_*() operators, extended by graph_differentiate() and graph_add_optimizer(). Its shapes are
 * PyTorch's (row-major, NCHW); a backend chooses the physical layout.
 *
 * A builder need not check every call: the first failure is kept in graph->error, later calls do
 * nothing and return a negative id, and graph_differentiate() or graph_finish() reports it. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "engine/graph/operator_list.h"
#include "proto/optimizer_kinds.h"

#include <stdbool.h>
#include <stdint.h>

enum { GRAPH_RANK_MAX = 5, GRAPH_INPUTS_MAX = 12, GRAPH_OUTPUTS_MAX = 8, GRAPH_NAME_MAX = 256 };
enum { GRAPH_BOUND_MAX = 4 };

enum tensor_type {
    TENSOR_FLOAT32,
    TENSOR_BFLOAT16,
    TENSOR_FLOAT16,
    /* compute type only, no tensor has it: products round the mantissa of float32 to 10 bits */
    TENSOR_TF32,
    TENSOR_INT32,
    TENSOR_UINT8,
    TENSOR_INT8 /* weights: graph_quantize() */
};

enum tensor_role {
    TENSOR_INPUT,     /* filled before a step: samples, labels */
    TENSOR_PARAMETER, /* learnt; persistent */
    TENSOR_STATISTIC, /* running mean and variance; persistent, part of the exported weights */
    TENSOR_GRADIENT,  /* gradient of a parameter; lives from its backward node to the update */
    TENSOR_OPTIMIZER, /* state that the optimizer keeps for a parameter; persistent */
    TENSOR_AVERAGE,   /* moving average of a parameter or statistic; persistent */
    TENSOR_STATE,     /* what a batch leaves to the next: carried state; persistent */
    TENSOR_ACTIVATION /* all others: forward values and their gradients */
};

struct graph_shape {
    int rank;
    int64_t extent[GRAPH_RANK_MAX];
};

/* How the initial values of a parameter or statistic are drawn. Uniform draws lie in [-bound,
 * bound). */
enum initializer_kind {
    INITIALIZER_ZEROS,
    INITIALIZER_ONES,
    INITIALIZER_CONSTANT,
    INITIALIZER_UNIFORM,
    INITIALIZER_NORMAL,
    INITIALIZER_LOG_COUNT,   /* log 1, log 2, … along the last axis */
    INITIALIZER_STEP_LOGITS, /* softplus of it is a step size, log-uniform from 0.001 to 0.1 */
    INITIALIZER_GIVEN,       /* `values` has them */
    INITIALIZER_BY_LAYER     /* as the layer draws it that binds it; without one, GIVEN */
};
/* Values from elsewhere, such as a file of weights. */
struct initial_values {
    /* Writes the elements from `first` to before `end` (row-major) to `to`. Several threads may
     * call it. */
    void (*read)(const struct initial_values *values, int64_t first, int64_t end, float *to);
    const struct weight_layout *layout; /* where they stand in that file; NULL: as in the graph */
    bool computed;                      /* of constants: no file of weights needs them */
    bool fixed;                         /* no training changes them */
};
struct initializer {
    enum initializer_kind kind;
    float bound; /* UNIFORM: the bound; NORMAL: the standard deviation; CONSTANT: the value */
    const struct initial_values *values; /* GIVEN, BY_LAYER; must outlive the graph */
};

struct graph_tensor {
    char name[GRAPH_NAME_MAX]; /* PyTorch's state_dict name for parameters and statistics */
    enum tensor_type type;
    enum tensor_role role;
    struct graph_shape shape;
    bool batched;        /* extent[0] is the batch; the elements of one sample are contiguous */
    bool frozen;         /* PARAMETER: training leaves it as it is */
    bool rounds_to_int8; /* PARAMETER: products read what graph_round_weights() makes of it */
    int dropped_axis;    /* an axis of extent 1 that files leave out, as PyTorch does; 0: none */
    int32_t parameter; /* GRADIENT, OPTIMIZER, AVERAGE, and the gradient of a frozen parameter: the
                          tensor it belongs to, else -1 */
    int32_t producer;  /* node that writes it first, -1 for inputs and persistent tensors */
    struct initializer initializer;
};

enum graph_phase { GRAPH_FORWARD, GRAPH_BACKWARD, GRAPH_UPDATE };

enum graph_op {
#define NUMBER(upper, lower) OP_##upper,
    GRAPH_OPERATORS(NUMBER)
#undef NUMBER
        OP_COUNT
};

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

/* The optimizers; semantics are PyTorch's (torch.optim). Each has a descriptor (optimizer.h). */
enum optimizer_kind {
#define KIND(upper, lower, ...) OPTIMIZER_##upper,
    OPTIMIZER_KINDS(KIND)
#undef KIND
};
/* Settings are double, as in PyTorch: 1 - 0.999f differs from 0.001 by a relative error above
 * 1e-5. */
struct optimizer_config {
    enum optimizer_kind kind;
    double momentum;  /* SGD, RMSprop, Muon */
    bool nesterov;    /* SGD, Muon */
    double dampening; /* SGD */
    /* added to the gradient (coupled); AdamW, Lion, Muon and optionally NAdam shrink the weights
     * instead (decoupled) */
    double weight_decay;
    bool decoupled_weight_decay; /* NAdam */
    double beta1, beta2;         /* Adam, AdamW, NAdam, Lion */
    double epsilon;              /* added to the square root; Adadelta: added to its radicand */
    double alpha;                /* RMSprop's smoothing constant, Adadelta's rho */
    double learning_rate_decay;  /* Adagrad */
    double initial_square_sum;   /* Adagrad: torch's initial_accumulator_value */
    double momentum_decay;       /* NAdam */
    int iterations;              /* Muon: iterations of Newton-Schulz */
    bool match_adamw;            /* Muon: steps as large as AdamW's (torch's match_rms_adamw) */
};

/* The kinds of parameters that an optimizer group takes. */
enum parameter_kinds {
    PARAMETERS_ALL,
    PARAMETERS_WEIGHTS, /* those of two or more dimensions: weights of layers, embeddings */
    PARAMETERS_VECTORS, /* the others: biases, scale and shift of normalisations */
    PARAMETERS_HIDDEN   /* weights of linear layers, except the layer that makes the output */
};

/* Parameters that are updated with the same settings. */
struct optimizer_group {
    enum parameter_kinds kinds;
    /* shell patterns for names ("*.bias"); one match is enough. NULL: all names */
    const char *const *patterns;
    int pattern_count;
    double learning_rate_scale; /* multiplies the step's learning rate */
    struct optimizer_config config;
};

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

struct graph_node {
    enum graph_op op;
    enum graph_phase phase;
    bool recomputed;                 /* repeats a node of the forward part: graph_recompute() */
    char name[GRAPH_NAME_MAX];       /* name of its layer */
    int32_t input[GRAPH_INPUTS_MAX]; /* tensor ids, -1 where absent */
    int32_t output[GRAPH_OUTPUTS_MAX];
    int input_count, output_count;
    /* set of 1 << number of an output: the node adds to what that tensor holds. It is the gradient
     * of a parameter that several layers use, and another node has written it before. */
    unsigned adds;
    union {
        struct conv_attributes conv; /* convolution and pooling */
        struct conv_int8_attributes conv_int8;
        struct quantization quantization; /* quantize, dequantize */
        enum activation_kind activation;
        float negative_slope; /* leaky ReLU */
        float elu_alpha;
        struct {
            float epsilon, momentum;
            bool training;
        } batch_norm;
        struct {
            float probability;
            uint32_t dropout_stream;
            bool rows;
        } dropout;
        float row_norm_epsilon; /* layer norm, RMS norm */
        struct {
            int groups;
            float epsilon;
        } group_norm;
        struct {
            enum resize_mode mode;
            float step[2]; /* pixels of the operand from one of the result to the next */
        } resize;
        struct {
            int heads;
            bool causal;
        } attention;
        struct {
            int heads;
            float base; /* of the angles' geometric series */
        } rotary;
        struct {
            enum recurrent_cell cell;
            bool reverse; /* reads from the last step to the first; last_step: of such a layer */
        } recurrent;
        struct time_attributes time;
        struct complement_attributes complement;
        int32_t padding_symbol; /* sequence lengths */
        struct window_lengths windows;
        float focal_gamma;
        struct triplet_loss_config triplet;
        int64_t slice_first;
        struct {
            float scale, offset;
        } affine;
        struct broadcast_attributes broadcast;
        struct function_attributes function;
        struct take_attributes take;
        struct axis_sum_attributes axis_sum;
        struct permute_attributes permute;
        struct batch_product_attributes batch_product;
        int optimizer_group; /* of graph->groups */
        bool copies;         /* moving average: follows its value at once */
    } attributes;
};

struct graph {
    struct graph_tensor *tensors; /* owned */
    struct graph_node *nodes;     /* owned, in execution order */
    int32_t tensor_count, node_count;
    int32_t tensor_capacity, node_capacity;
    int64_t batch; /* extent[0] of every batched tensor */
    /* rows of the state that is carried, at least `batch`: those of the largest batch that shares
     * it. graph_init() sets it to the batch */
    int64_t streams;
    /* set before the model is built: steps of the sequences; 0: those of the data's samples */
    int64_t steps;
    bool training;
    /* set before the model is built: patterns (graph_name_matches()) of parameters that training
     * leaves as they are; lent. A batch norm whose weight and bias are among them normalises with
     * its running statistics and leaves them, too */
    const char *const *frozen;
    int frozen_count;
    /* set before planning: gradients keep their values after a run, so that the next run may add to
     * them; they are planned like persistent tensors */
    bool accumulate;
    /* set before graph_differentiate(): the samples get a gradient too */
    bool wants_input_gradient;
    /* set before program_prepare(): a backend may use algorithms whose results differ from run to
     * run, because they sum in any order */
    bool nondeterministic;
    /* set before program_prepare(): each update rounds the parameters to compute_type, so that
     * nothing has their other bits */
    bool rounds_parameters;
    enum tensor_type compute_type; /* type of the operands of products: graph_lower_precision() */
    /* settings of the OP_OPTIMIZER nodes; owned. Their `patterns` are not kept */
    struct optimizer_group *groups;
    int group_count;
    struct loss_head heads[GRAPH_HEADS_MAX]; /* of OP_HEAD_LOSSES */
    int head_count;
    struct value_loss_config value_loss; /* of OP_VALUE_LOSS */
    int32_t input;                       /* the samples, -1 until graph_input() */
    int32_t lengths;        /* of the sequences: int32 [B]; -1 unless graph_lengths() */
    int32_t target;         /* labels or targets, -1 until a loss is added */
    int32_t output;         /* logits or prediction; readable after a run */
    int32_t input_gradient; /* of the samples, -1 unless wanted */
    /* parameters that the next layer takes: graph_bind_parameter() */
    struct {
        const char *suffix;
        int32_t tensor;
    } bound[GRAPH_BOUND_MAX];
    int bound_count;
    struct error error;
};

/* `training` decides how dropout and batch norm behave. The caller releases the graph with
 * graph_release(). */
void graph_init(struct graph *graph, int64_t batch, bool training);
void graph_release(struct graph *graph);

/* Forward operators: each appends a node and returns the id of its result, or a negative errno.
 * `name` is the layer's: it prefixes the names of its tensors ("3" gives the parameters "3.weight"
 * and "3.bias") and appears in messages. If shapes do not agree, the error names the layer and the
 * shapes. Initial weights are drawn as PyTorch draws them. */
int32_t graph_input(struct graph *graph, enum tensor_type type, const int64_t *sample_shape,
                    int rank);
/* The lengths of the sequences, an input beside the samples: each 1 to the number of steps. */
int32_t graph_lengths(struct graph *graph);
int32_t graph_linear(struct graph *graph, int32_t input, const char *name, int64_t features,
                     bool bias);
/* The same with parameters that the graph has already: weight[O,I] and bias[O] (-1: none). Others
 * may use them, too: an output may be tied to an embedding (Press and Wolf 2016,
 * arXiv:1608.05859). */
int32_t graph_linear_shared(struct graph *graph, int32_t input, const char *name, int32_t weight,
                            int32_t bias);
int32_t graph_conv2d(struct graph *graph, int32_t input, const char *name, int64_t channels,
                     const struct conv_attributes *attributes, bool bias);
/* Pools take a padding of at most half the kernel; dilation and groups must be 1. */
int32_t graph_max_pool2d(struct graph *graph, int32_t input, const char *name,
                         const struct conv_attributes *attributes);
int32_t graph_average_pool2d(struct graph *graph, int32_t input, const char *name,
                             const struct conv_attributes *attributes);
/* The mean, or the largest number, of windows that divide the image into height x width parts as
 * equal as possible; neighbours may share a row or column. */
int32_t graph_adaptive_average_pool2d(struct graph *graph, int32_t input, const char *name,
                                      int64_t height, int64_t width);
int32_t graph_adaptive_max_pool2d(struct graph *graph, int32_t input, const char *name,
                                  int64_t height, int64_t width);
/* The parameters are "<name>.weight" [C,channels/groups,kh,kw] and "<name>.bias". output_padding is
 * added to the height and width of the result, which several sizes of a convolution's operand
 * share. */
int32_t graph_conv_transpose2d(struct graph *graph, int32_t input, const char *name,
                               int64_t channels, const struct conv_attributes *attributes,
                               const int output_padding[2], bool bias);
int32_t graph_resize2d(struct graph *graph, int32_t input, const char *name,
                       const struct resize *resize);
/* The same for sequences [B,C,L] -> [B,C',L'], by what the attributes say of axis 1. `scale` is
 * that of struct resize. */
int32_t graph_conv1d(struct graph *graph, int32_t input, const char *name, int64_t channels,
                     const struct conv_attributes *attributes, bool bias);
int32_t graph_conv_transpose1d(struct graph *graph, int32_t input, const char *name,
                               int64_t channels, const struct conv_attributes *attributes,
                               int output_padding, bool bias);
int32_t graph_max_pool1d(struct graph *graph, int32_t input, const char *name,
                         const struct conv_attributes *attributes);
int32_t graph_average_pool1d(struct graph *graph, int32_t input, const char *name,
                             const struct conv_attributes *attributes);
int32_t graph_adaptive_average_pool1d(struct graph *graph, int32_t input, const char *name,
                                      int64_t length);
int32_t graph_adaptive_max_pool1d(struct graph *graph, int32_t input, const char *name,
                                  int64_t length);
int32_t graph_resize1d(struct graph *graph, int32_t input, const char *name, int64_t length,
                       double scale, enum resize_mode mode);
/* The mean of each channel: [B,C,H,W] -> [B,C,1,1]. */
int32_t graph_global_average_pool2d(struct graph *graph, int32_t input, const char *name);
int32_t graph_batch_norm(struct graph *graph, int32_t input, const char *name, float epsilon,
                         float momentum);
/* Normalises the channels of each sample [B,C,...] in groups. */
int32_t graph_group_norm(struct graph *graph, int32_t input, const char *name, int groups,
                         float epsilon);
/* Normalise the last dimension, the row. `bias`: the layer has one. */
int32_t graph_layer_norm(struct graph *graph, int32_t input, const char *name, float epsilon,
                         bool bias);
int32_t graph_rms_norm(struct graph *graph, int32_t input, const char *name, float epsilon);
/* The same of input + residual; `sum` receives that tensor, for the next residual. */
int32_t graph_add_layer_norm(struct graph *graph, int32_t input, int32_t residual, const char *name,
                             float epsilon, bool bias, int32_t *sum);
int32_t graph_add_rms_norm(struct graph *graph, int32_t input, int32_t residual, const char *name,
                           float epsilon, int32_t *sum);
/* Attention among the steps of a sequence. `input` is [B,T,3D]: of each step the query, the key and
 * the value, in each of which the heads lie side by side. `lengths`: an int32 input [B] with the
 * steps of each sequence that may be attended to, or -1 for all. */
int32_t graph_attention(struct graph *graph, int32_t input, const char *name, int heads,
                        bool causal, int32_t lengths);
/* Rotary positions (Su et al. 2021, arXiv:2104.09864) for such an input: of each head's query and
 * key, number i of the first half and number i of the second half are turned by the angle
 * step / base^(2i / width). */
int32_t graph_rotary(struct graph *graph, int32_t input, const char *name, int heads, float base);
/* A parameter of that whole name, for the layers below. */
int32_t graph_parameter(struct graph *graph, const char *name, const struct graph_shape *shape,
                        struct initializer initializer);
/* A parameter of that whole name, or a statistic, whose first values are given. */
int32_t graph_given_parameter(struct graph *graph, const char *name, bool statistic,
                              const struct graph_shape *shape, struct initializer initializer);
/* Makes the next layer that has a parameter "<layer>.<suffix>" take this tensor instead of a new
 * one. Its shape must be what the layer wants. `suffix` must outlive that layer's call. */
void graph_bind_parameter(struct graph *graph, const char *suffix, int32_t tensor);
/* Adds a parameter of T x D numbers to each sequence [B,T,D]. */
int32_t graph_add_positions(struct graph *graph, int32_t input, const char *name,
                            int32_t positions);
/* Pixels as steps: [B,C,H,W] -> [B,HW,C]. */
int32_t graph_image_tokens(struct graph *graph, int32_t input, const char *name);
/* Steps as the only row of pixels of an image: [B,T,D] -> [B,D,1,T]. */
int32_t graph_token_image(struct graph *graph, int32_t input, const char *name);
/* The same of steps that are the pixels of images, row by row: [B,HW,C] -> [B,C,H,W]. */
int32_t graph_tokens_to_image(struct graph *graph, int32_t input, const char *name, int64_t height,
                              int64_t width);
/* Puts a parameter of D numbers before each sequence: [B,T,D] -> [B,1+T,D]. */
int32_t graph_prepend_token(struct graph *graph, int32_t input, const char *name, int32_t token);
int32_t graph_activation(struct graph *graph, int32_t input, const char *name,
                         enum activation_kind kind);
int32_t graph_leaky_relu(struct graph *graph, int32_t input, const char *name,
                         float negative_slope);
int32_t graph_elu(struct graph *graph, int32_t input, const char *name, float alpha);
int32_t graph_embedding(struct graph *graph, int32_t input, const char *name, int64_t vocabulary,
                        int64_t width);
/* Returns `input` itself when the graph is not for training or `probability` is 0. */
int32_t graph_dropout(struct graph *graph, int32_t input, const char *name, float probability);
/* Drops whole samples (Huang et al. 2016, arXiv:1603.09382; torchvision's StochasticDepth in mode
 * "row"). Returns `input` itself in the same cases as graph_dropout(). */
int32_t graph_stochastic_depth(struct graph *graph, int32_t input, const char *name,
                               float probability);
/* Drops whole channels of samples [B,C,...]. Returns `input` itself in the same cases. */
int32_t graph_channel_dropout(struct graph *graph, int32_t input, const char *name,
                              float probability);
int32_t graph_add(struct graph *graph, int32_t a, int32_t b, const char *name);
/* Multiplies each channel of the images in `input` by its number in `scale`. */
int32_t graph_channel_scale(struct graph *graph, int32_t input, int32_t scale, const char *name);
/* Reshapes to [B, all other extents multiplied]. Returns `input` itself if it has that shape. */
int32_t graph_flatten(struct graph *graph, int32_t input, const char *name);
/* The same numbers of each sample, row-major, in another shape of `rank` extents. Returns `input`
 * itself if it has that shape. */
int32_t graph_reshape(struct graph *graph, int32_t input, const char *name, const int64_t *sample,
                      int rank);
/* One direction of layer `number` of an LSTM or GRU: [B,T,F] -> [B,T,hidden]. Parameters have
 * torch's names: "<name>.weight_ih_l0", "<name>.bias_hh_l1_reverse". `lengths`: a tensor, or -1 if
 * all sequences are as long as the batch. */
struct recurrent_layer {
    enum recurrent_cell cell;
    int64_t hidden;
    int number;
    bool reverse;
    /* It begins with the state that the batch before left, not with 0, and no gradient passes from
     * batch to batch. Not with lengths */
    bool carries_state;
};
int32_t graph_recurrent(struct graph *graph, int32_t input, int32_t lengths, const char *name,
                        const struct recurrent_layer *layer);
/* Places of h0 and c0 among its node's inputs, where state is carried; and of the weights' scale,
 * where they are int8. */
enum { RECURRENT_H0 = 4, RECURRENT_C0, RECURRENT_SCALE };
/* The results of a recurrent layer; -1: it has none. */
struct recurrent_results {
    int32_t y, gates, cells, last_h, last_c;
};
struct recurrent_results graph_recurrent_results(const struct graph_node *node);
/* Makes recurrent layers that carry state leave it to the next batch: appends the OP_CARRY_STATE
 * behind the forward part or, in a graph for training, behind the backward part, which reads the
 * state before the first step. After graph_recompute(). */
int graph_carry_states(struct graph *graph, struct error *error);
/* Gates of the cell, by which the rows of its weights are multiplied. */
int recurrent_cell_gates(enum recurrent_cell cell);
/* [B,T] int32 -> [B] int32: the lengths of sequences of symbols that `padding` fills up. */
int32_t graph_sequence_lengths(struct graph *graph, int32_t input, const char *name,
                               int32_t padding);
/* The lengths that sequences of such lengths have behind convolutions and pools. */
int32_t graph_window_lengths(struct graph *graph, int32_t lengths, const char *name,
                             const struct window_lengths *windows);
/* [B,T,F]: what lies behind the end of each sequence becomes 0. */
int32_t graph_mask_steps(struct graph *graph, int32_t input, int32_t lengths, const char *name);
/* [B,T,F] -> [B,F]: the last step of each sequence; with `reverse` the first one, at which a layer
 * that reads backwards ends. */
int32_t graph_last_step(struct graph *graph, int32_t input, int32_t lengths, const char *name,
                        bool reverse);
/* [B,T,F] -> [B,F]: the first step. */
int32_t graph_first_step(struct graph *graph, int32_t input, const char *name);
/* [B,T,F] -> [B,F]: the mean over the steps of each sequence, without its padding. */
int32_t graph_mean_over_time(struct graph *graph, int32_t input, int32_t lengths, const char *name);
/* The largest number of each feature: [B,T,F] -> [B,F]. `lengths` (-1: all are T) is an int32
 * tensor with the length of each sequence, 1 to T; the padding behind it does not count. */
int32_t graph_max_over_time(struct graph *graph, int32_t input, int32_t lengths, const char *name);
/* Tensors side by side along their last axis, images along their channels; their other extents must
 * agree. At most GRAPH_OUTPUTS_MAX. */
int32_t graph_concatenate(struct graph *graph, const int32_t *inputs, int count, const char *name);
/* The parts of such a tensor, of these widths, into `outputs`. 0 or a negative errno. */
int graph_split(struct graph *graph, int32_t input, const int64_t *widths, int count,
                int32_t *outputs, const char *name);
/* Columns `first` to before first + count of rows: [B,F] -> [B,count], or [B,T,F]. */
int32_t graph_slice(struct graph *graph, int32_t input, int64_t first, int64_t count,
                    const char *name);
/* The axes of each sample in another order: a tensor of rank 2 or 3 -> [B,F], F being the last of
 * the axes that `permute` orders, or with more than one axis before it [B,T,F]. */
int32_t graph_permute(struct graph *graph, int32_t input, const struct permute_attributes *permute,
                      const char *name);
/* scale x + offset */
int32_t graph_affine(struct graph *graph, int32_t input, float scale, float offset,
                     const char *name);
/* Combines a with b, which has fewer elements or as many (struct broadcast_attributes). a has rank
 * 2 or 3, or any rank if b has as many elements. */
int32_t graph_broadcast(struct graph *graph, int32_t a, int32_t b,
                        const struct broadcast_attributes *broadcast, const char *name);
/* A function of each number. */
int32_t graph_function(struct graph *graph, int32_t input,
                       const struct function_attributes *function, const char *name);
/* Rows of a tensor of rank 2 or 3, or of a parameter, by their numbers in `map` (struct
 * take_attributes): [B,outer to inner]. */
int32_t graph_take(struct graph *graph, int32_t input, int32_t map,
                   const struct take_attributes *take, const char *name);
/* How many numbers the map of such rows has; fills the part of it that the gradient reads, from the
 * `to` numbers that stand at its beginning. */
int64_t take_map_elements(const struct take_attributes *take);
void take_map_invert(const struct take_attributes *take, double *map);
/* Sums over an axis of a tensor of rank 2 or 3 (struct axis_sum_attributes): [B,outer inner]. */
int32_t graph_axis_sum(struct graph *graph, int32_t input, const struct axis_sum_attributes *sum,
                       const char *name);
/* The softmax of each row. */
int32_t graph_softmax(struct graph *graph, int32_t input, const char *name);
/* Products of matrices of which a sample of a and b has `groups` each; both have rank 2 or 3. */
int32_t graph_batch_product(struct graph *graph, int32_t a, int32_t b,
                            const struct batch_product_attributes *product, const char *name);
/* Numbers of nucleotides and behind them those of the reverse complement: [B,T] -> [B,2T].
 * complement[i] is the symbol that pairs with symbol i; a number outside of `symbols` stays. */
int32_t graph_both_strands(struct graph *graph, int32_t input, const uint8_t *complement,
                           int symbols, const char *name);
/* The parameters are "<name>.weight" [D,1,kernel] and "<name>.bias" [D]. */
enum { CAUSAL_KERNEL_MAX = 16 };
struct causal_conv {
    int kernel, sequences; /* struct time_attributes */
    bool reverse, silu;
};
int32_t graph_causal_conv1d(struct graph *graph, int32_t input, const char *name,
                            const struct causal_conv *conv);
/* The parameters are "<name>.A_log" [D,N] and "<name>.D" [D]. delta is what softplus is applied to.
 * z may be -1: no gate. */
enum { SCAN_CHUNK = 32 };
struct scan_inputs {
    int32_t u, delta, b, c, z;
    int sequences; /* struct time_attributes */
    bool reverse;
};
int32_t graph_selective_scan(struct graph *graph, const struct scan_inputs *scan, const char *name);

/* Replaces the initializer of a parameter, whose id graph_find_tensor() gives; the default is that
 * of PyTorch's layer. */
int graph_set_initializer(struct graph *graph, int32_t parameter, struct initializer initializer);

/* Append the loss that ends the forward part, and make the target input: labels, probabilities of
 * the classes (soft), or values (MSE). */
int32_t graph_cross_entropy(struct graph *graph, int32_t logits);
int32_t graph_soft_cross_entropy(struct graph *graph, int32_t logits);
int32_t graph_mse(struct graph *graph, int32_t prediction);
/* Of several quantiles, prediction[B, F quantiles] has those of a value side by side. */
int32_t graph_value_loss(struct graph *graph, int32_t prediction,
                         const struct value_loss_config *config);
/* Of one label for each row [B,C]; gamma 0 is the cross entropy. */
int32_t graph_focal_loss(struct graph *graph, int32_t logits, float gamma);
/* Of one label for each row [B,C], whose classes are in order. */
int32_t graph_ordinal_loss(struct graph *graph, int32_t logits);
/* Of one label for each row [B,F], the embedding of a sample. */
int32_t graph_triplet_loss(struct graph *graph, int32_t embeddings,
                           const struct triplet_loss_config *config);
/* Appends the sum of the losses of the heads, at most GRAPH_HEADS_MAX, and its target. */
int32_t graph_head_losses(struct graph *graph, int32_t logits, const struct loss_head *heads,
                          int count);

/* Appends the backward nodes for every parameter, in reverse order of the forward nodes. The
 * gradients of a tensor that is used more than once are added. Needs a loss and a graph for
 * training. */
int graph_differentiate(struct graph *graph, struct error *error);
/* The forward results that the backward part computes again instead of keeping them: that saves
 * memory and costs time. Results have the same bits in every case. */
enum recompute_kind {
    RECOMPUTE_NONE,
    /* results that cheap operators make from kept ones: normalisations, activations, dropout,
     * pools; no product and no sum of branches */
    RECOMPUTE_SELECTIVE,
    /* the forward part is cut into `segments` parts with about equal bytes of activations; only
     * tensors between parts and those of the last part are kept */
    RECOMPUTE_SEGMENTS
};
struct recompute_config {
    enum recompute_kind kind;
    int segments; /* RECOMPUTE_SEGMENTS: at least 1, which keeps all */
};
/* Inserts repetitions of forward nodes into the backward part, before their first use. A repetition
 * neither moves running statistics nor counts a loss. Call it after graph_differentiate() and
 * before graph_lower_precision() and graph_add_optimizer(). */
int graph_recompute(struct graph *graph, const struct recompute_config *config,
                    struct error *error);
/* Makes linear layers and convolutions, forward and backward, multiply numbers of `type` (float32,
 * bfloat16, float16, tf32) and add the products in float32. torch.autocast lowers the same classes.
 * One OP_CAST rounds each operand (samples, weights, gradients of results) for all products that
 * read it; with tf32 the products round by themselves. All other tensors stay float32: biases,
 * results, statistics, losses, parameters and their gradients. Call it before graph_add_optimizer()
 * and, in a graph for training, after graph_differentiate(). */
int graph_lower_precision(struct graph *graph, enum tensor_type type, struct error *error);
/* Makes layers of a float32 graph for evaluation multiply integers of 8 bits, as the text says:
 *
 * "dynamic": linear and recurrent layers. They quantize their input while they run, each row by its
 * own range.
 * "static" and behind it a line "LEAST MOST NAME" for each range that graph_observe() asks for:
 * convolutions, with the batch norm, sum and ReLU behind them. What they read has one scale and
 * zero point for the whole tensor. Linear and recurrent layers become dynamic ones.
 *
 * Each weight becomes an int8 tensor, and gets a parameter "<weight>_scale" with a factor for each
 * of its rows: int8 times factor is the weight. A weight that other operators read too, such as a
 * tied embedding, stays float32, and so do the layers that read it; so does one whose sums may
 * exceed 32 bits. After graph_carry_states().
 * -EINVAL if no layer can be quantized, or a range is missing. */
int graph_quantize(struct graph *graph, const char *text, struct error *error);
/* The prefix of the states, [2] each, in which graph_observe() keeps ranges. The rest is the name
 * of the range. */
#define GRAPH_RANGE_PREFIX "range of "
/* The scale and zero point by which the range, and 0, are 0 … 255 (PyTorch's MinMaxObserver). */
struct quantization graph_quantization_of_range(const float range[2]);
/* Quantization-aware training: append a node that rounds x as uint8 of a range would hold it, with
 * the state "range of NAME" (OP_FAKE_QUANTIZE), or each row by its own range
 * (OP_FAKE_QUANTIZE_ROWS). */
int32_t graph_fake_quantize(struct graph *graph, int32_t input, const char *name);
int32_t graph_fake_quantize_rows(struct graph *graph, int32_t input, const char *name);
/* Rounds what graph_quantize() with "static" would make integers: an OP_FAKE_QUANTIZE behind each
 * tensor that convolutions read as such, with the name of its range; rows before linear layers; and
 * it marks these layers' weights for graph_round_weights(). A batch norm behind a convolution needs
 * no care: its factor for a channel multiplies the scale of that row of the weight and leaves the
 * integers. Behind the loss and before graph_differentiate(). -EINVAL if there is no such layer. */
int graph_make_quantization_aware(struct graph *graph, struct error *error);
/* Lets products read marked weights rounded, row by row. After graph_differentiate() and
 * graph_recompute(), before graph_lower_precision(). Nothing to do without marks. */
int graph_round_weights(struct graph *graph, struct error *error);
/* Inserts an OP_OBSERVE for each tensor that static quantization makes uint8. -EINVAL if there is
 * none: the model has no convolution that can be quantized. */
int graph_observe(struct graph *graph, struct error *error);
/* Appends one OP_OPTIMIZER per parameter and its state tensors ("<parameter>.momentum",
 * "….first_moment", "….second_moment"), which start at zero. After graph_differentiate(). */
int graph_add_optimizer(struct graph *graph, const struct optimizer_config *config,
                        struct error *error);
/* The same with settings by group: the first group that takes a parameter updates it. -EINVAL with
 * a sentence if no group takes a parameter, or a pattern matches no parameter's name. */
int graph_add_optimizer_groups(struct graph *graph, const struct optimizer_group *groups, int count,
                               struct error *error);
/* Multiplies the learning rates of parameters by `decay` once for each depth that lies behind
 * theirs, as timm's param_groups_layer_decay() does. A depth begins with the first weight of a
 * block, which is what precedes the first number in the names of its parameters ("blocks.3"),
 * number included. Names without a number that follow each other are one block. Layers of vectors
 * alone, such as norms, belong to the depth before them. After graph_add_optimizer(). -EINVAL with
 * a sentence if the model has one depth. */
int graph_decay_layers(struct graph *graph, double decay, struct error *error);
/* Reports the first failure and checks the invariants: every input is produced before its use, the
 * phases are in order, and no two persistent tensors have the same name. */
int graph_finish(struct graph *graph, struct error *error);

/* Appends a moving average "<name>.average" of every parameter and statistic and the
 * OP_MOVING_AVERAGE that follows each update. After graph_add_optimizer(). */
int graph_add_averages(struct graph *graph, struct error *error);
/* Makes a graph for evaluation read those averages in place of the parameters and statistics: it
 * gives these the averages' names, by which the graphs of a session share storage. */
int graph_read_averages(struct graph *graph, struct error *error);

/* Whether the node is a convolution of 3x3 with stride and dilation 1 and one group, or one of its
 * gradients. Two algorithms compute it (Winograd's and the definition), which round differently. */
bool graph_node_is_dense_3x3(const struct graph_node *node);
/* Whether the node is a batch norm that computes its moments, or one that is given them. */
bool graph_node_is_batch_norm(const struct graph_node *node);
/* The first node from `from` on that reads the tensor, or -1. */
int32_t graph_next_reader(const struct graph *graph, int32_t tensor, int32_t from);
/* The only node that reads the tensor; -1 if several or none do, or if it is also read from outside
 * the graph. */
int32_t graph_single_reader(const struct graph *graph, int32_t tensor);
/* The batch norm whose gradient `backward` computes from the same x, provided that an activation of
 * `kind` follows it directly, of which the backward part keeps `saved`; else -1. */
int32_t graph_batch_norm_behind(const struct graph *graph, const struct graph_node *backward,
                                enum activation_kind kind, int32_t saved);
/* Whether another tensor may take over the storage of this gradient: the backward part makes it in
 * storage of its own, and only one node reads it. */
bool graph_gradient_can_be_overwritten(const struct graph *graph, int32_t gradient);
/* Whether the name matches a shell pattern ("*.bias"), or lies below a module that does: "layer1"
 * matches "layer1.0.conv1.weight". */
bool graph_name_matches(const char *pattern, const char *name);
bool graph_name_matches_any(const char *const *patterns, int count, const char *name);
/* Lists the names of the graph's parameters, cut to `size`. Returns `output`. */
const char *graph_list_parameters(const struct graph *graph, char *output, size_t size);
/* Fails if one of the patterns matches no parameter; `what` begins the sentence. */
int graph_check_patterns(const struct graph *graph, const char *what, const char *const *patterns,
                         int count, struct error *error);
/* Fails if a pattern of graph->frozen matches no parameter, or they match all. After the model is
 * built. */
int graph_check_frozen(const struct graph *graph, struct error *error);
/* The gradient of a parameter, or -1. */
int32_t graph_gradient_of(const struct graph *graph, int32_t parameter);
/* The tensor of that name, or -1. */
int32_t graph_find_tensor(const struct graph *graph, const char *name);
/* Whether the tensor keeps its value from run to run: a parameter, statistic, average, optimizer
 * state, carried state, or a gradient that accumulates. Graphs over the same model share it by
 * name. */
bool graph_tensor_is_persistent(const struct graph *graph, int32_t tensor);
/* Draws the initial values of a persistent tensor (float32, row-major) from Philox with `seed`. The
 * values depend only on the seed and on how many parameters precede the tensor, so every graph of a
 * model draws the same. */
void graph_initial_values(const struct graph *graph, int32_t tensor, uint64_t seed, float *values);
/* The same for the elements from `first` (a multiple of 4) to before `end`, which it writes at
 * their places in `values`. Several threads may draw parts of one tensor. */
void graph_initial_part(const struct graph *graph, int32_t tensor, uint64_t seed, int64_t first,
                        int64_t end, float *values);

int64_t graph_shape_elements(const struct graph_shape *shape);
/* Whether the model computes the tensor's numbers, and training does not change them: whatever a
 * file has for them, its own are used. Weights of int8 are not: their factors are in the file. */
bool graph_tensor_is_constant(const struct graph_tensor *tensor);
/* The tensor's shape as files have it: without `dropped_axis`. */
struct graph_shape graph_shape_in_files(const struct graph_tensor *tensor);
bool graph_shape_equal(const struct graph_shape *a, const struct graph_shape *b);
/* "128x3x32x32" */
char *graph_shape_format(const struct graph_shape *shape, char *output, unsigned size);
unsigned tensor_type_bytes(enum tensor_type type);
/* Rounds float32 values to bfloat16 or float16 in place, to the nearest, ties to even; for other
 * types it does nothing. */
void tensor_type_round(enum tensor_type type, float *values, int64_t count);

DECLARE_STRING_TABLE(graph_op, enum graph_op);
DECLARE_STRING_TABLE(graph_phase, enum graph_phase);
DECLARE_STRING_TABLE(tensor_type, enum tensor_type);
DECLARE_STRING_TABLE(tensor_role, enum tensor_role);
DECLARE_STRING_TABLE(recompute_kind, enum recompute_kind);
DECLARE_STRING_TABLE(optimizer_kind, enum optimizer_kind);
DECLARE_STRING_TABLE(activation_kind, enum activation_kind);
DECLARE_STRING_TABLE(resize_mode, enum resize_mode);
DECLARE_STRING_TABLE(number_function, enum number_function);
DECLARE_STRING_TABLE(value_loss, enum value_loss);
DECLARE_STRING_TABLE(triplet_mining, enum triplet_mining);
DECLARE_STRING_TABLE(recurrent_cell, enum recurrent_cell);
