/* graph.h: the static training graph: tensors and nodes in execution order, built forward by the
 * operators of forward.h, extended by graph_differentiate() and graph_add_optimizer(). Its shapes
 * are PyTorch's (row-major, NCHW); a backend chooses the physical layout.
 *
 * A builder need not check every call: the first failure is kept in graph->error, later calls do
 * nothing and return a negative id, and graph_differentiate() or graph_finish() reports it. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "engine/graph/attributes.h"
#include "engine/graph/operator_list.h"
#include "engine/graph/optimizer_config.h"

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
    /* GIVEN, BY_LAYER; of the others, if there are some, the layout. They outlive the graph. */
    const struct initial_values *values;
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

/* What makes the samples of their bytes: (byte - mean) factor, by channel or feature. Lent. */
struct byte_normalisation {
    const float *mean, *factor;
    int64_t groups;
    bool interleaved; /* the groups take turns; false: each has consecutive bytes of a sample */
};

enum graph_phase { GRAPH_FORWARD, GRAPH_BACKWARD, GRAPH_UPDATE };

enum graph_op {
#define NUMBER(upper, lower) OP_##upper,
    GRAPH_OPERATORS(NUMBER)
#undef NUMBER
        OP_COUNT
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
        struct byte_normalisation bytes;  /* linear of bytes */
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
    /* set before program_prepare(): parameters change by tensor_write() alone, so that a backend
     * may keep what it makes of them; and it runs often enough for that to pay */
    bool constant_weights;
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
/* The linear layer that can multiply the samples as bytes: it alone reads them, each as one row,
 * and its weights are its own. -1: there is none, a mean is none of bytes, or the factors differ so
 * much that the integers that stand for the weights would hold the small ones less exactly than
 * float32 does. */
int32_t graph_find_bytes_layer(const struct graph *graph, const struct byte_normalisation *bytes);
/* Makes that layer of a graph for evaluation an OP_LINEAR_BYTES, and the input [B,features] uint8.
 * The layer's name and parameters stay. After the model is built, and before
 * graph_lower_precision(). */
void graph_read_bytes(struct graph *graph, int32_t layer, const struct byte_normalisation *bytes);
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
