/* job_spec_schema_model.c: the keys of a specification's `model`; see job_spec_schema.c. */
#include "proto/job_spec_schema_table.h"
#include "proto/model_kinds.h"
#include "proto/model_layers.h"

enum { KERNEL_MAX = 255, LAYERS_MAX = 4096, DEPTH_MAX = 256 };

#define NAME(upper, lower, ...) #lower,
#define ROW(upper, lower, traits, ...) VARIANT(#lower, traits, __VA_ARGS__),
#define WHOLE_ROW(name, usual, ...) {#name, JOB_SPEC_INTEGER, __VA_ARGS__},
#define NUMBER_ROW(name, usual, ...) {#name, JOB_SPEC_NUMBER, __VA_ARGS__},
#define SWITCH_ROW(name, usual, ...) {#name, JOB_SPEC_BOOLEAN, __VA_ARGS__},
#define WORD_ROW(name, usual, ...) {#name, JOB_SPEC_CHOICE, __VA_ARGS__},
#define WINDOW_ROW(name, type, ...) {#name, type, __VA_ARGS__},
static const char *const layer_types[] = {MODEL_LAYERS(NAME) NULL};
static const struct job_spec_section layer_section;
static const struct job_spec_key layer_keys[] = {
    {"name", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 47,
     .help = "Name of the layer, for the inputs of others. When absent: its number"},
    {"inputs", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 8,
     .help = "Names of the layers that it reads; \"input\" are the samples. When absent: the layer "
             "before it"},
    {"layers", JOB_SPEC_OBJECTS, .section = &layer_section, .count_minimum = 1,
     .count_maximum = LAYERS_MAX, .required = true, .variants = "residual",
     .help = "Layers to whose result their input is added"},
    {"projection", JOB_SPEC_OBJECTS, .section = &layer_section, .count_minimum = 1,
     .count_maximum = LAYERS_MAX, .variants = "residual",
     .help = "Layers through which the input goes before it is added"},
    {"branches", JOB_SPEC_OBJECT_LISTS, .section = &layer_section, .count_minimum = 1,
     .count_maximum = 8, .required = true, .variants = "branches",
     .help = "Lists of layers that read the same input; an empty list is the input itself"},
    {"type", JOB_SPEC_CHOICE, .required = true, .choices = layer_types,
     .help = "Kind of the layer"},
    MODEL_LAYER_KEYS(WHOLE_ROW, NUMBER_ROW, SWITCH_ROW, WORD_ROW, WINDOW_ROW)};
SECTION(layer, "type");

static const struct job_spec_key head_keys[] = {
    {"name", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 16, .required = true,
     .help = "Names its metrics: validation_NAME_loss, test_NAME_loss"},
    {"classes", JOB_SPEC_INTEGER, .minimum = 2, .maximum = WIDTH_MAX, .required = true,
     .help = "Number of its classes"},
    {"labels", JOB_SPEC_INTEGER, .minimum = 1, .maximum = WIDTH_MAX, .fallback = "1",
     .help = "How many labels of a sample are its; the heads share the labels in their order"},
    {"loss", JOB_SPEC_CHOICE, .choices = CHOICES("cross_entropy", "binary_cross_entropy"),
     .fallback = "\"cross_entropy\"",
     .help = "cross_entropy: of a softmax over the classes, the mean over the labels; "
             "binary_cross_entropy: of whether a class is among the labels, the mean over the "
             "classes"},
    {"weight", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true, .fallback = "1",
     .help = "Factor of its loss in the sum that is trained"},
};
SECTION(head, NULL);

static const char *const model_names[] = {MODEL_KINDS(NAME) NULL};
static const struct job_spec_variant model_variants[] = {MODEL_KINDS(ROW) VARIANTS_END};
static const struct job_spec_key model_keys[] = {
    {"name", JOB_SPEC_CHOICE, .required = true, .choices = model_names,
     .help = "Built-in model, or layers for your own list of layers; model may also be that list "
             "itself"},
    {"classes", JOB_SPEC_INTEGER, .minimum = 2, .maximum = WIDTH_MAX,
     .help = "Number of classes. When absent: taken from the data"},
    {"context", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .unit = "symbols",
     .help = "Length of the text before the symbol that is predicted"},
    {"embedding", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .fallback = "24",
     .help = "Length of the vector that represents one symbol or patch"},
    {"depth", JOB_SPEC_INTEGER, .minimum = 1, .maximum = DEPTH_MAX,
     .help = "Number of blocks, each of attention and a network of two linear layers"},
    {"heads", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1024,
     .help = "Heads of each attention; they divide the embedding"},
    {"mlp_ratio", JOB_SPEC_NUMBER, .from = 0, .to = 64, .above_from = true, .fallback = "4",
     .help = "Width between the two linear layers of a block, as a multiple of the embedding"},
    {"positions", JOB_SPEC_CHOICE, .choices = CHOICES("learned", "rotary"),
     .fallback = "\"learned\"",
     .help = "How a symbol's place is told: by a learned vector for each, or by turning queries "
             "and keys (rotary)"},
    {"patch", JOB_SPEC_INTEGER, .minimum = 1, .maximum = KERNEL_MAX, .fallback = "4",
     .unit = "pixels", .help = "Side of the squares that an image is cut into"},
    {"pool", JOB_SPEC_CHOICE, .choices = CHOICES("token", "mean"), .fallback = "\"token\"",
     .help = "What the class is told from: a class token that stands before the patches, or the "
             "mean of the patches"},
    {"channels", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = 65536, .count_minimum = 1,
     .count_maximum = 32, .fallback = "[32, 64]",
     .help = "Channels of each convolution; a maximum pool of 2 follows each"},
    {"kernels", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = KERNEL_MAX, .count_minimum = 1,
     .count_maximum = 32, .unit = "symbols",
     .help = "Widths of the convolutions: side by side (text_cnn), or one after another (dna_cnn; "
             "the last one is that of all that follow)"},
    {"filters", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .fallback = "100",
     .help = "Channels of the convolutions of each width"},
    {"states", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 256, .fallback = "16",
     .help = "States that each inner channel keeps from step to step"},
    {"expand", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 16, .fallback = "2",
     .help = "Inner channels of a block for each of embedding"},
    {"norm", JOB_SPEC_CHOICE, .choices = CHOICES("rms_norm", "layer_norm"),
     .fallback = "\"rms_norm\"", .help = "Normalisation before each block"},
    {"add_norm", JOB_SPEC_CHOICE, .choices = CHOICES("auto", "fused", "unfused"),
     .fallback = "\"auto\"",
     .help = "Whether one operator adds a block's result to its operand and normalises the sum. "
             "auto: where the device has it, which the plan says"},
    {"epsilon", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .fallback = "1e-5",
     .help = "Added to what the normalisations divide by"},
    {"reverse_complement", JOB_SPEC_BOOLEAN, .fallback = "true",
     .help = "Read both strands of DNA with the same weights; the result is that of either. Needs "
             "nucleotides"},
    {"pooling", JOB_SPEC_CHOICE, .choices = CHOICES("flatten", "max", "mean"),
     .help = "What follows the last convolution or block: flatten keeps all positions, for signals "
             "at fixed places; max and mean take the maximum or the mean over them"},
    {"kernel", JOB_SPEC_INTEGER, .minimum = 1, .maximum = KERNEL_MAX, .fallback = "3",
     .help = "Side of the convolutions' window in pixels; of caduceus the steps that a causal "
             "convolution sees, at most 16"},
    {"hidden", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = WIDTH_MAX, .count_minimum = 0,
     .count_maximum = 64, .fallback = "[128]", .help = "Width of each hidden linear layer"},
    {"activation", JOB_SPEC_CHOICE, .choices = ACTIVATIONS,
     .help = "Function after each hidden layer"},
    {"batch_norm", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Batch normalisation before each activation"},
    {"hidden_size", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .fallback = "256",
     .help = "Units of each recurrent layer, in each direction"},
    {"num_layers", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 64, .fallback = "1",
     .help = "Recurrent layers, one behind the other"},
    {"bidirectional", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Every recurrent layer reads the sequence in both directions"},
    {"readout", JOB_SPEC_CHOICE, .choices = CHOICES("last", "mean"), .fallback = "\"last\"",
     .help = "What is predicted from: what the recurrent layers give when they have read the whole "
             "sequence, or the mean over its steps. Of a text each symbol is predicted from those "
             "before it, whatever this says"},
    {"carry_state", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help =
         "Of a text: each row of a batch goes on where that row of the batch before ended, in the "
         "text and with the state of the recurrent layers (truncated back-propagation through "
         "time). The state is 0 at the beginning of an epoch and of an evaluation"},
    {"dropout", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true,
     .help =
         "Share of the hidden values that are dropped during training: after each hidden layer, "
         "before the last layer, or between recurrent layers"},
    {"head_dropout", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .fallback = "0",
     .help = "Share of the values that are dropped during training before the last layer"},
    {"stochastic_depth", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .fallback = "0.2",
     .help = "Share of the samples that skip the last block during training; earlier blocks have "
             "smaller shares"},
    {"stem_stride", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 2, .fallback = "2", .unit = "pixels",
     .help = "Stride of the first convolution; 1 keeps more detail of small images (32x32)"},
    {"width", JOB_SPEC_NUMBER, .from = 0, .to = 16, .above_from = true, .fallback = "1",
     .help = "Multiplies the numbers of channels, which are rounded to multiples of 8"},
    {"layers", JOB_SPEC_OBJECTS, .section = &layer_section, .count_minimum = 1,
     .count_maximum = LAYERS_MAX, .required = true, .help = "The layers in order"},
    {"nodes", JOB_SPEC_OBJECTS, .section = &layer_section, .count_minimum = 1,
     .count_maximum = LAYERS_MAX, .required = true,
     .help = "The layers of a graph, in any order; their inputs name what they read"},
    {"outputs", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 8,
     .help = "Names of the nodes that give the output; several follow each other, as output_heads "
             "has them. When absent: the last node"},
    {"onnx", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = 4096, .required = true,
     .help = "File of a model in the ONNX format; model may be {\"onnx\": FILE} alone"},
    {"weights", JOB_SPEC_CHOICE, .choices = CHOICES("file", "drawn"), .fallback = "\"file\"",
     .help = "Whether training begins with the file's weights, or with drawn ones"},
    {"loss", JOB_SPEC_CHOICE,
     .choices = CHOICES("cross_entropy", "focal", "ordinal", "mse", "mae", "huber", "smooth_l1",
                        "quantile", "binary_cross_entropy", "soft_cross_entropy", "cosine",
                        "triplet", "output_heads"),
     .fallback = "\"cross_entropy\"",
     .help =
         "cross_entropy and focal for classes; ordinal for classes in order; mse (mean squared "
         "error), mae, huber, smooth_l1, quantile and cosine for values; binary_cross_entropy for "
         "several values that are 0 or 1; soft_cross_entropy for values that are the probabilities "
         "of classes; triplet for embeddings that are near each other where the classes are the "
         "same; output_heads for the sum of their losses"},
    {"focal_gamma", JOB_SPEC_NUMBER, .from = 0, .to = 100,
     .help = "The loss focal counts a sample by (1 - p)^focal_gamma, where p is the probability of "
             "its class. When absent: 2"},
    {"embedding_size", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .unit = "numbers",
     .help =
         "Numbers that the loss triplet makes of a sample: the model's outputs. When absent: as "
         "many as the last layer of a list, the outputs of a graph or an ONNX file give; of "
         "other models 64"},
    {"triplet_margin", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true,
     .help = "By how much farther a sample of another class must be than one of the own, by the "
             "Euclidean distance, that the loss triplet be 0. When absent: 1"},
    {"triplet_mining", JOB_SPEC_CHOICE, .choices = CHOICES("hard", "semi_hard", "all"),
     .help = "Which triplets of a batch count: hard, of each sample the farthest of its class and "
             "the nearest of others; semi_hard, of each pair the nearest of others that is "
             "farther; all, those whose loss is not 0. When absent: semi_hard"},
    {"huber_delta", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true,
     .help = "The loss huber is quadratic up to this difference. When absent: 1"},
    {"smooth_l1_beta", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true,
     .help = "The loss smooth_l1 is quadratic up to this difference. When absent: 1"},
    {"pos_weight", JOB_SPEC_NUMBERS, .from = 0, .to = 1e6, .above_from = true, .count_minimum = 1,
     .count_maximum = 256,
     .help = "How many times the loss binary_cross_entropy counts a label that is 1: one number, "
             "or one for each label. When absent: once"},
    {"quantile", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .below_to = true,
     .help =
         "What the loss quantile predicts: 0.9 is exceeded once in ten times. When absent: 0.5"},
    {"quantiles", JOB_SPEC_NUMBERS, .from = 0, .to = 1, .above_from = true, .below_to = true,
     .count_minimum = 2, .count_maximum = 16,
     .help = "Several quantiles that the loss quantile predicts of each value, instead of one"},
    {"output_heads", JOB_SPEC_OBJECTS, .section = &head_section, .count_minimum = 1,
     .count_maximum = 8,
     .help = "Parts of the output, each with a loss of its own, for samples with several labels"},
};
const struct job_spec_section job_spec_model_section = {
    model_keys, sizeof model_keys / sizeof *model_keys, "name", model_variants};
