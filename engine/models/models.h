/* models.h: a model configuration becomes the forward part of a graph and its loss. Parameters and
 * statistics have the names, the order and the shapes of the state_dict of the PyTorch model that
 * it corresponds to: torch.nn.Sequential for chains of layers, torchvision.models for the others.
 */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "engine/graph/graph.h"
#include "engine/onnx/onnx.h"
#include "proto/model_kinds.h"
#include "proto/model_layers.h"

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_LAYERS_MAX = 4096 };

/* Batch norm is BatchNorm1d or BatchNorm2d, as the input has it; squeeze_excite is
 * torchvision.ops.SqueezeExcitation: "<i>.fc1", "<i>.fc2". */
enum model_layer_kind {
#define KIND(upper, lower) LAYER_##upper,
    MODEL_LAYERS(KIND)
#undef KIND
};

/* Layers that read each other, and whose results are the output: the last one's, or those that
 * `outputs` names, one behind another. The arrays stay the caller's. */
struct model_layer_list {
    const struct model_layer *layers;
    int count;
    const char *const *outputs;
    int output_count;
};

/* Each kind uses its own fields: proto/model_layers.h says which, and what they mean. */
struct model_layer {
    enum model_layer_kind kind;
    const char *name; /* within its list; NULL: its number */
    /* names of the layers that it reads, "input" for what the list reads; none: the one before */
    const char *const *inputs;
    int input_count;
    /* residual: the layers, then perhaps the projection; branches: each */
    const struct model_layer_list *lists;
    int list_count;
    /* convolutions, pools, group norm's groups; a pool's stride 0 is its kernel */
    struct conv_attributes window;
    int output_padding[2], size[2];
#define WHOLE(name, ...) int64_t name;
#define NUMBER(name, ...) float name;
#define SWITCH(name, ...) bool name;
#define WORD(name, ...) const char *name;
#define WINDOW(name, ...)
    MODEL_LAYER_KEYS(WHOLE, NUMBER, SWITCH, WORD, WINDOW)
#undef WHOLE
#undef NUMBER
#undef SWITCH
#undef WORD
#undef WINDOW
};

enum model_kind {
#define KIND(upper, lower, ...) MODEL_##upper,
    MODEL_KINDS(KIND)
#undef KIND
};

/* How a transformer is told the place of a symbol, and what a classifier of patches reads. */
enum model_positions { POSITIONS_LEARNED, POSITIONS_ROTARY };
enum model_pool { POOL_TOKEN, POOL_MEAN };
/* What the last layer of a recurrent network reads of a sequence. */
enum model_readout { READOUT_LAST, READOUT_MEAN };
/* What a network over sequences makes of its last layer's steps for the layer that scores. */
enum model_pooling { POOLING_MEAN, POOLING_MAX, POOLING_FLATTEN };
enum model_norm { MODEL_RMS_NORM, MODEL_LAYER_NORM };
/* Whether one operator adds a residual and normalises. AUTO: where the device has it. */
enum model_add_norm { MODEL_ADD_NORM_AUTO, MODEL_ADD_NORM_FUSED, MODEL_ADD_NORM_UNFUSED };

/* MODEL_MLP:      [flatten] (linear [batch_norm] activation [dropout])*, linear
 * MODEL_CNN:      (conv2d [batch_norm] activation max_pool2d(2))*, flatten,
 *                 (linear [batch_norm] activation [dropout])*, linear
 * MODEL_CHAR_MLP: embedding, flatten, (linear activation)*, linear: Bengio, Ducharme, Vincent and
 *                 Jauvin, "A neural probabilistic language model", JMLR 3 (2003)
 * MODEL_GPT:      Radford et al., "Language models are unsupervised multitask learners" (2019):
 *                 a decoder with normalisation before attention and before the network, whose
 *                 output is tied to its embedding. It scores the symbol after each of the context.
 *                 Names and initial weights of https://github.com/karpathy/nanoGPT.
 * MODEL_VIT:      Dosovitskiy et al., "An image is worth 16x16 words" (2020), arXiv:2010.11929, as
 *                 torchvision's VisionTransformer; with POOL_MEAN without its class token.
 * MODEL_LSTM, MODEL_GRU: [embedding], torch.nn.LSTM or torch.nn.GRU, linear. Of a text it scores
 *                 the symbol after each.
 * MODEL_LAYERS, MODEL_GRAPH: the given layers; the output must be as long as the data has it.
 * MODEL_RESNET18: He, Zhang, Ren and Sun, "Deep residual learning for image recognition" (2015),
 *                 arXiv:1512.03385, with the stem that is usual for images of 32x32: a convolution
 *                 of 3x3 with stride 1 and no pool. torchvision's names, for which the model is
 *                 resnet18() with `conv1 = Conv2d(3, 64, 3, padding=1, bias=False)` and
 *                 `maxpool = Identity()`.
 * MODEL_MOBILENET_V3_SMALL: Howard et al., "Searching for MobileNetV3" (2019), arXiv:1905.02244.
 * MODEL_EFFICIENTNET_B0: Tan and Le, "EfficientNet" (2019), arXiv:1905.11946. Both are made for
 *                 images of 224x224, which they make 32 times smaller: a stem_stride of 1 halves
 * that.
 * MODEL_TEXT_CNN: embedding, (conv relu maximum over time) for each kernel side by side,
 *                 (dropout linear relu)*, dropout, linear
 * MODEL_DNA_CNN:  embedding, (conv [batch_norm] relu max_pool(2) dropout)*, flatten, maximum or
 *                 mean over time, (dropout linear relu)*, dropout, linear; no dropout behind the
 *                 last pool itself
 * MODEL_CADUCEUS: embedding of one or both strands, (norm, bidirectional Mamba, added to its
 *                 operand)*, norm, flatten, maximum or mean over time, dropout, linear
 * MODEL_ONNX:     a file of another program's (engine/onnx/).
 * The arrays and the model stay the caller's. */
struct model_config {
    enum model_kind kind;
    const int64_t *hidden; /* mlp, cnn, char_mlp: features of the hidden linear layers */
    int hidden_count;
    const int64_t *channels; /* cnn: of each convolution */
    int channel_count;
    int kernel;             /* cnn: odd or even; padding is kernel / 2 */
    const int64_t *kernels; /* text_cnn: one for each branch; dna_cnn: of each convolution, the last
                               one for all that follow */
    int kernel_count;
    int64_t filters;            /* text_cnn: channels of each branch */
    enum model_pooling pooling; /* dna_cnn, caduceus */
    float head_dropout;         /* caduceus: before the last layer */
    enum activation_kind activation;
    bool batch_norm;   /* mlp, cnn, dna_cnn */
    float dropout;     /* mlp, cnn: after each hidden activation; mobilenet_v3_small,
                          efficientnet_b0: before the last layer; 0 is none */
    int64_t embedding; /* char_mlp, gpt, vit: width of a symbol's or patch's vector */
    int depth, heads;  /* gpt, vit: of blocks, and of each one's attention */
    double mlp_ratio;  /* gpt, vit: features between a block's linear layers, in `embedding` */
    enum model_positions positions; /* gpt */
    int patch;                      /* vit: side in pixels */
    enum model_pool pool;           /* vit */
    int64_t hidden_size;            /* lstm, gru: units of each direction */
    int num_layers;                 /* lstm, gru */
    bool bidirectional;             /* lstm, gru */
    enum model_readout readout;     /* lstm, gru */
    bool carry_state;               /* lstm, gru: struct recurrent_layer */
    /* caduceus, beside `depth`: states of each channel, inner channels for each of `embedding`;
     * `kernel` is that of its causal convolutions */
    int states, expand;
    float epsilon; /* of the norms */
    enum model_norm norm;
    enum model_add_norm add_norm;
    bool reverse_complement; /* both strands of DNA */
    struct model_layer_list layers;
    struct onnx_model *onnx;
    bool draws_weights; /* onnx: not those of the file */
    /* of the convolutional networks from resnet18 on */
    double width;    /* multiplies every number of channels (convnet_channels()), above 0 */
    int stem_stride; /* mobilenet_v3_small, efficientnet_b0: of the first convolution, 1 or 2 */
    float stochastic_depth; /* efficientnet_b0: probability of dropping the last block, 0 is none */
};

/* The losses of values follow each other, MSE first and then those of enum value_loss. */
enum model_loss {
    LOSS_CROSS_ENTROPY,
    LOSS_FOCAL,
    LOSS_ORDINAL,
    LOSS_HEADS,
    LOSS_TRIPLET, /* of embeddings and classes */
    LOSS_MSE,
    LOSS_MAE,
    LOSS_HUBER,
    LOSS_QUANTILE,
    LOSS_BINARY,
    LOSS_COSINE,
    LOSS_SMOOTH_L1,
    LOSS_QUANTILES, /* several: `quantile` with a list */
    LOSS_SOFT       /* cross entropy with probabilities of the classes as targets */
};
static inline bool model_loss_is_of_values(enum model_loss loss)
{
    return loss >= LOSS_MSE;
}

/* What the model must fit. */
struct model_data {
    enum tensor_type type; /* TENSOR_FLOAT32, or TENSOR_INT32 for indices (characters) */
    int64_t sample_shape[GRAPH_RANK_MAX - 1];
    int rank;           /* of a sample */
    int64_t vocabulary; /* distinct indices, 0 for float32 samples */
    bool has_lengths;   /* of sequences of numbers, an input beside the samples */
    bool padded;        /* the vocabulary's last index fills up the end of short sequences */
    bool nucleotides;   /* the indices are those of A C G T N and perhaps of a padding */
    int64_t outputs;    /* classes, or values per sample for MSE, or numbers of an embedding; of the
                           last, 0: as many as the model gives */
    enum model_loss loss;
    bool no_loss;         /* the graph ends with the outputs: for predictions, without targets */
    float loss_parameter; /* focal: gamma; huber: delta; smooth_l1: beta; quantile: the quantile */
    /* quantiles: which; binary: weights of the labels (struct value_loss_config); may be NULL */
    const float *loss_numbers;
    int loss_number_count;
    struct triplet_loss_config triplet; /* LOSS_TRIPLET */
    const struct loss_head *heads;      /* LOSS_HEADS: whose classes are the outputs */
    int head_count;
    bool soft_targets; /* cross entropy: the targets are probabilities of the classes while
                          training (label smoothing, MixUp), and labels in evaluation */
};

/* A layer of the kind with PyTorch's defaults: bias, stride 1 (pools: the kernel), no padding,
 * dilation and groups 1, kernel 1 (pools: 2), epsilon 1e-5, momentum 0.1, probability 0.5. */
struct model_layer model_layer_default(enum model_layer_kind kind);
/* A layer as Python code. In `module` braces stand for what the layer has:
 *
 *   {inputs} {outputs}  extents of its tensor "weight": the second times groups, and the first;
 *                       "{fc1.inputs}" reads "fc1.weight"
 *   {bias}              ", bias=False" if it has no tensor "bias"
 *   {dimensions}        "2d" if its input has height and width, else "1d"
 *   {key}               the value of a NUMBER or WINDOW key (proto/model_layers.h)
 *   {key=usual}         ", key=value", or nothing if the value is `usual`
 *   {lists}             the lists of layers that it has, as modules
 *   {join}              the axis along which branches are joined; 0: they are added
 */
struct model_layer_python {
    const char *imports; /* lines of imports or definitions that `module` needs; NULL: none */
    const char *module;  /* "nn.Dropout({probability})" */
    bool flattens;       /* the result has no height and width */
};
const struct model_layer_python *model_layer_python(enum model_layer_kind kind);
/* Lines of Python that define Graph: modules by name, with the names that each reads. */
extern const char model_graph_python[];
/* The value of a WHOLE or NUMBER key; NAN if the key is none. */
double model_layer_number(const struct model_layer *layer, const char *key);
/* The value of a WORD key; NULL if the key is none. */
const char *model_layer_word(const struct model_layer *layer, const char *key);
/* Writes the values of a WINDOW key and returns their number (2 or 1); 0 if the key is none. */
int model_layer_window(const struct model_layer *layer, const char *key, int values[2]);

/* Appends input, layers, target and loss to `graph`, which is fresh from graph_init(): its batch
 * and training flag decide. -EINVAL with a sentence that names the layer and the shapes when layers
 * and data do not fit; the graph is then only good for graph_release(). */
int model_build(const struct model_config *config, const struct model_data *data,
                struct graph *graph, struct error *error);
/* How many numbers a model whose layers say it (layers, graph, onnx) makes of a sample, for
 * LOSS_TRIPLET. Returns 0, or what model_build() does. */
int model_count_outputs(const struct model_config *config, const struct model_data *data,
                        int64_t *outputs, struct error *error);

/* What the model reads: a set of enum model_trait. */
unsigned model_traits(enum model_kind kind);
/* Python for a model that is no chain: the imports, and the body of a function that returns the
 * module, in which "$outputs", "$channels" (of the images) and "$" with the name of a number of
 * struct model_config stand for them. A line "?key|…" is written only if the key is neither 0 nor
 * false, "?!key|…" if it is, "?key=text|…" if it is that; several conditions must all hold. Lines
 * between "?key{" and "?}" are written likewise. NULL: it is a chain. */
struct model_python {
    const char *imports, *body;
};
const struct model_python *model_python(enum model_kind kind);

/* The layers of a model that is made of them (mlp, cnn, char_mlp, layers, graph), fitted to the
 * data: without names, layer i is module i of torch.nn.Sequential. The caller frees them; NULL and
 * 0 for other models. */
int model_layers(const struct model_config *config, const struct model_data *data,
                 struct model_layer **layers, int *count, struct error *error);

DECLARE_STRING_TABLE(model_kind, enum model_kind);
DECLARE_STRING_TABLE(model_layer_kind, enum model_layer_kind);
DECLARE_STRING_TABLE(model_loss, enum model_loss);
DECLARE_STRING_TABLE(model_positions, enum model_positions);
DECLARE_STRING_TABLE(model_pool, enum model_pool);
DECLARE_STRING_TABLE(model_pooling, enum model_pooling);
DECLARE_STRING_TABLE(model_readout, enum model_readout);
DECLARE_STRING_TABLE(model_norm, enum model_norm);
DECLARE_STRING_TABLE(model_add_norm, enum model_add_norm);
