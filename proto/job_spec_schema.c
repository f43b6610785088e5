/* job_spec_schema.c: THE table of the job specification: every key with type, range, default, unit
 * and one line of help. job_spec.c checks with it, job_spec_help.c prints it. A key stands here
 * once what it promises is implemented. */
#include "proto/job_spec_schema.h"

#include <stdio.h>
#include <string.h>

#define SECTION(name, variant)                              \
    static const struct job_spec_section name##_section = { \
        name##_keys, sizeof name##_keys / sizeof *name##_keys, variant}
#define CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FALLBACKS(...) ((const struct job_spec_fallback[]){__VA_ARGS__, {NULL, NULL}})
#define ACTIVATIONS CHOICES("relu", "silu", "gelu", "tanh", "sigmoid", "hardswish", "hardsigmoid")
#define METRICS CHOICES("train_loss", "train_accuracy", "validation_loss", "validation_accuracy")

enum { WIDTH_MAX = 1000000, KERNEL_MAX = 255, LAYERS_MAX = 512, PATH_BYTES_MAX = 4095 };

/* ---- model --------------------------------------------------------------------------------- */

static const struct job_spec_key layer_keys[] = {
    {"type", JOB_SPEC_CHOICE, .required = true,
     .choices =
         CHOICES("linear", "conv2d", "batch_norm", "relu", "silu", "gelu", "tanh", "sigmoid",
                 "hardswish", "hardsigmoid", "max_pool2d", "average_pool2d",
                 "global_average_pool2d", "flatten", "embedding", "dropout", "squeeze_excite"),
     .help = "Kind of the layer"},
    {"features", JOB_SPEC_INTEGER, .minimum = 1, .maximum = WIDTH_MAX, .required = true,
     .variants = "linear", .help = "Outputs of the layer"},
    {"channels", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .required = true,
     .variants = "conv2d", .help = "Output channels"},
    {"kernel", JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX, .required = true,
     .variants = "conv2d max_pool2d average_pool2d", .unit = "pixels",
     .help = "Side of the window, or its height and width"},
    {"stride", JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX,
     .variants = "conv2d max_pool2d average_pool2d", .fallbacks = FALLBACKS({"conv2d", "1"}),
     .unit = "pixels", .help = "Step of the window; the kernel's size when absent from a pool"},
    {"padding", JOB_SPEC_PAIR, .minimum = 0, .maximum = KERNEL_MAX,
     .variants = "conv2d max_pool2d average_pool2d", .fallback = "0", .unit = "pixels",
     .help = "Border of zeros on each side"},
    {"dilation", JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX, .variants = "conv2d",
     .fallback = "1", .unit = "pixels", .help = "Distance between the window's points"},
    {"groups", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .variants = "conv2d",
     .fallback = "1", .help = "Groups of channels that do not see each other"},
    {"bias", JOB_SPEC_BOOLEAN, .variants = "linear conv2d", .fallback = "true",
     .help = "Whether a learnt bias is added"},
    {"epsilon", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .variants = "batch_norm",
     .fallback = "1e-5", .help = "Added to the variance"},
    {"momentum", JOB_SPEC_NUMBER, .from = 0, .to = 1, .variants = "batch_norm", .fallback = "0.1",
     .help = "Weight of the newest batch in the running statistics"},
    {"vocabulary", JOB_SPEC_INTEGER, .minimum = 2, .maximum = WIDTH_MAX, .variants = "embedding",
     .help = "Number of symbols; taken from the data when absent"},
    {"width", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .required = true,
     .variants = "embedding", .help = "Numbers that stand for one symbol"},
    {"probability", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .required = true,
     .variants = "dropout", .help = "Share of the values that are dropped while training"},
    {"squeeze", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .required = true,
     .variants = "squeeze_excite", .help = "Channels between its two convolutions"},
};
SECTION(layer, "type");

static const struct job_spec_key model_keys[] = {
    {"name", JOB_SPEC_CHOICE, .required = true,
     .choices = CHOICES("mlp", "cnn", "char_mlp", "resnet18", "mobilenet_v3_small",
                        "efficientnet_b0", "layers"),
     .help = "Built-in model, or layers for a list of your own; a list may also be given as the "
             "model itself"},
    {"classes", JOB_SPEC_INTEGER, .minimum = 2, .maximum = WIDTH_MAX,
     .variants = "mlp cnn resnet18 mobilenet_v3_small efficientnet_b0 layers",
     .help = "Number of classes; taken from the data when absent"},
    {"context", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 4096, .variants = "char_mlp layers",
     .fallbacks = FALLBACKS({"char_mlp", "16"}), .unit = "symbols",
     .help = "Length of the text before the symbol that is predicted"},
    {"embedding", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .variants = "char_mlp",
     .fallback = "24", .help = "Numbers that stand for one symbol"},
    {"channels", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = 65536, .count_minimum = 1,
     .count_maximum = 32, .variants = "cnn", .fallback = "[32, 64]",
     .help = "Channels of each convolution; a 2x2 maximum pool follows each"},
    {"kernel", JOB_SPEC_INTEGER, .minimum = 1, .maximum = KERNEL_MAX, .variants = "cnn",
     .fallback = "3", .unit = "pixels", .help = "Side of the convolutions' window"},
    {"hidden", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = WIDTH_MAX, .count_minimum = 0,
     .count_maximum = 64, .variants = "mlp cnn char_mlp", .fallback = "[128]",
     .help = "Width of each hidden linear layer"},
    {"activation", JOB_SPEC_CHOICE, .choices = ACTIVATIONS, .variants = "mlp cnn char_mlp",
     .fallbacks = FALLBACKS({"mlp", "\"relu\""}, {"cnn", "\"relu\""}, {"char_mlp", "\"tanh\""}),
     .help = "Function after each hidden layer"},
    {"batch_norm", JOB_SPEC_BOOLEAN, .variants = "mlp cnn", .fallback = "false",
     .help = "Batch normalisation before each activation"},
    {"dropout", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true,
     .variants = "mlp cnn mobilenet_v3_small efficientnet_b0",
     .fallbacks = FALLBACKS({"mlp", "0"}, {"cnn", "0"}, {"mobilenet_v3_small", "0.2"},
                            {"efficientnet_b0", "0.2"}),
     .help = "Share of the hidden values that are dropped while training: behind each hidden "
             "layer, or before the last one"},
    {"stochastic_depth", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true,
     .variants = "efficientnet_b0", .fallback = "0.2",
     .help = "Share of the samples that skip the last block while training; less for those before"},
    {"stem_stride", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 2,
     .variants = "mobilenet_v3_small efficientnet_b0", .fallback = "2", .unit = "pixels",
     .help = "Step of the first convolution; 1 keeps more of small images (32x32)"},
    {"width", JOB_SPEC_NUMBER, .from = 0, .to = 16, .above_from = true,
     .variants = "resnet18 mobilenet_v3_small efficientnet_b0", .fallback = "1",
     .help = "Multiplies the numbers of channels, which are rounded to multiples of 8"},
    {"layers", JOB_SPEC_OBJECTS, .section = &layer_section, .count_minimum = 1,
     .count_maximum = LAYERS_MAX, .required = true, .variants = "layers",
     .help = "The layers in order"},
    {"loss", JOB_SPEC_CHOICE, .choices = CHOICES("cross_entropy", "mse"),
     .fallback = "\"cross_entropy\"",
     .help = "cross_entropy for classes, mse (mean squared error) for values"},
};
SECTION(model, "name");

/* ---- data ---------------------------------------------------------------------------------- */

static const struct job_spec_key source_keys[] = {
    {"format", JOB_SPEC_CHOICE, .required = true,
     .choices = CHOICES("idx", "csv", "text", "cifar_binary", "npy", "image_folder", "generate"),
     .help =
         "idx: images and labels as MNIST has them, also .gz; csv: one sample a line; text: "
         "UTF-8; cifar_binary: records of label and 3x32x32 bytes; npy: arrays of NumPy; "
         "image_folder: PNG and JPEG files, a subfolder for each class; generate: what a command "
         "makes; see data.md"},
    {"images", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX, .required = true,
     .variants = "idx", .help = "File of the images; a relative path starts at directory"},
    {"labels", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX, .required = true,
     .variants = "idx npy",
     .help = "File of the labels; of the values to predict with model.loss mse"},
    {"path", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .required = true,
     .variants = "csv text cifar_binary npy image_folder",
     .help = "File, or list of files that are joined; image_folder: the one folder"},
    {"command", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .required = true, .variants = "generate",
     .help = "Program and arguments, in which {first}, {count}, {seed} and {output} are filled in: "
             "it writes count rows of numbers to the file {output}"},
    {"samples", JOB_SPEC_INTEGER, .minimum = 1, .maximum = INT64_C(4294967295), .required = true,
     .variants = "generate", .unit = "samples", .help = "Samples that the command makes in all"},
    {"chunk", JOB_SPEC_INTEGER, .minimum = 1, .maximum = INT64_C(4294967295),
     .variants = "generate", .unit = "samples",
     .help = "Samples that one run of the command makes; a 64th of all when absent"},
    {"values", JOB_SPEC_INTEGER, .minimum = 1, .maximum = WIDTH_MAX, .variants = "generate",
     .fallback = "1", .help = "Numbers to predict, with model.loss mse"},
    {"seed", JOB_SPEC_INTEGER, .minimum = 0, .maximum = INT64_MAX, .variants = "generate",
     .fallback = "0", .help = "What {seed} stands for; data.test needs another one"},
    {"label_column", JOB_SPEC_COLUMN, .minimum = 0, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 255, .variants = "csv", .fallback = "\"last\"",
     .help = "first, last, a number from 0, or the name in the header"},
    {"header", JOB_SPEC_SWITCH, .choices = CHOICES("auto", "yes", "no"), .variants = "csv",
     .fallback = "\"auto\"",
     .help = "Whether the first line names the columns; auto: when no cell of it is a number"},
    {"delimiter", JOB_SPEC_TEXT, .count_minimum = 1, .count_maximum = 1, .variants = "csv",
     .fallback = "\",\"", .help = "Character between cells"},
    {"comment", JOB_SPEC_TEXT, .count_minimum = 0, .count_maximum = 16, .variants = "csv",
     .fallback = "\"#\"", .help = "Lines that begin so are left out; empty: none"},
    {"shape", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = WIDTH_MAX, .count_minimum = 1,
     .count_maximum = 4, .variants = "csv npy generate",
     .help = "Shape of one sample, such as [1, 8, 8] (channels, height, width)"},
    {"layout", JOB_SPEC_CHOICE, .choices = CHOICES("auto", "chw", "hwc"), .variants = "npy",
     .fallback = "\"auto\"",
     .help = "Whether the channels of images come first or last; auto: first, refused where the "
             "shape looks like the other"},
    {"color", JOB_SPEC_CHOICE, .choices = CHOICES("rgb", "grey"), .variants = "image_folder",
     .fallback = "\"rgb\"", .help = "Whether images become 3 channels or 1"},
    {"resize", JOB_SPEC_PAIR, .minimum = 1, .maximum = 4096, .variants = "image_folder",
     .unit = "pixels",
     .help = "Height and width that all images get, bilinear as Pillow's; when absent they must "
             "have one size"},
    {"divide_by", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true, .variants = "csv",
     .fallback = "1", .help = "Every feature is divided by it"},
    {"label_bytes", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 2, .variants = "cifar_binary",
     .fallback = "1", .unit = "bytes",
     .help = "1: CIFAR-10; 2: CIFAR-100, of which the second (fine) label counts"},
};
SECTION(source, "format");

static const struct job_spec_operation augmentations[] = {
    {"random_crop", "PADDING", 1, 1024, true},
    {"horizontal_flip", NULL, 0, 0, false},
    {"cutout", "SIDE", 1, 4096, true},
    {"mixup", "ALPHA", 0.01, 4, false},
    {NULL, NULL, 0, 0, false},
};

static const struct job_spec_key data_keys[] = {
    {"train", JOB_SPEC_OBJECT, .section = &source_section, .required = true,
     .help = "The samples to learn from"},
    {"test", JOB_SPEC_OBJECT, .section = &source_section,
     .help =
         "Samples for the test at the end; keys left out, paths aside, are those of data.train"},
    {"validation_fraction", JOB_SPEC_NUMBER, .from = 0, .to = 0.9, .fallback = "0.1",
     .help = "Share of data.train set aside for validation; of a text, its end"},
    {"normalize", JOB_SPEC_CHOICE, .choices = CHOICES("none", "standard"),
     .fallbacks =
         FALLBACKS({"idx", "\"standard\""}, {"csv", "\"standard\""},
                   {"cifar_binary", "\"standard\""}, {"text", "\"none\""}, {"npy", "\"standard\""},
                   {"image_folder", "\"standard\""}, {"generate", "\"standard\""}),
     .help = "standard: mean 0 and deviation 1 over the training set, for each channel of images "
             "and each column of others"},
    {"augment", JOB_SPEC_OPERATIONS, .operations = augmentations, .count_maximum = 4,
     .variants = "idx csv cifar_binary npy image_folder generate", .fallback = "[]",
     .help = "How training samples are changed, differently in each epoch: random_crop:PADDING, "
             "horizontal_flip and cutout:SIDE of images, mixup:ALPHA of pairs; see data.md"},
    {"label_noise", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true,
     .variants = "idx csv cifar_binary npy image_folder generate", .fallback = "0",
     .help = "Share of the training labels that are replaced by another class, each class equally "
             "likely, the same ones in every epoch"},
    {"loader_threads", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 64,
     .help =
         "Threads that prepare batches ahead; 0: the training thread does; chosen by the size of a "
         "batch and the cores when absent"},
};
SECTION(data, NULL);

/* ---- train --------------------------------------------------------------------------------- */

static const struct job_spec_key group_keys[] = {
    {"match", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 64, .required = true,
     .help = "Shell patterns for names of parameters, such as \"*.bias\" or \"features.*\""},
    {"lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help = "Their learning rate (when absent: the optimizer's); the schedule moves it in "
             "proportion"},
    {"weight_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .help = "Their weight decay (when absent: the optimizer's)"},
};
SECTION(group, NULL);

static const struct job_spec_key adamw_keys[] = {
    {"lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true, .fallback = "1e-3",
     .help = "Learning rate; the schedule moves it in proportion"},
    {"weight_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .fallback = "0.01",
     .help = "Pull of the weights to zero"},
    {"betas", JOB_SPEC_NUMBERS, .from = 0, .to = 1, .below_to = true, .count_minimum = 2,
     .count_maximum = 2, .fallback = "[0.9, 0.999]", .help = "Decay of the running averages"},
    {"eps", JOB_SPEC_NUMBER, .from = 0, .to = 1, .fallback = "1e-8",
     .help = "Added to the root of the second average"},
};
SECTION(adamw, NULL);

static const struct job_spec_key optimizer_keys[] = {
    {"name", JOB_SPEC_CHOICE,
     .choices =
         CHOICES("sgd", "adam", "adamw", "rmsprop", "lion", "adagrad", "adadelta", "nadam", "muon"),
     .fallback = "\"adam\"", .help = "Rule that updates the weights, as in PyTorch"},
    {"lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .above_from = true,
     .fallbacks = FALLBACKS({"sgd", "0.1"}, {"adam", "1e-3"}, {"adamw", "1e-3"},
                            {"rmsprop", "1e-3"}, {"lion", "1e-4"}, {"adagrad", "0.01"},
                            {"adadelta", "1"}, {"nadam", "2e-3"}, {"muon", "1e-3"}),
     .help = "Learning rate"},
    {"momentum", JOB_SPEC_NUMBER, .from = 0, .to = 1, .variants = "sgd rmsprop muon",
     .fallbacks = FALLBACKS({"sgd", "0"}, {"rmsprop", "0"}, {"muon", "0.95"}),
     .help = "Share of the last step kept"},
    {"nesterov", JOB_SPEC_BOOLEAN, .variants = "sgd muon",
     .fallbacks = FALLBACKS({"sgd", "false"}, {"muon", "true"}),
     .help = "Nesterov's momentum; needs momentum and no dampening"},
    {"dampening", JOB_SPEC_NUMBER, .from = 0, .to = 1, .variants = "sgd", .fallback = "0",
     .help = "Share of the gradient left out of the momentum"},
    {"weight_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .fallbacks =
         FALLBACKS({"sgd", "0"}, {"adam", "0"}, {"adamw", "0.01"}, {"rmsprop", "0"}, {"lion", "0"},
                   {"adagrad", "0"}, {"adadelta", "0"}, {"nadam", "0"}, {"muon", "0.1"}),
     .help = "Pull of the weights to zero; apart from the gradient in adamw, lion and muon"},
    {"decoupled_weight_decay", JOB_SPEC_BOOLEAN, .variants = "nadam", .fallback = "false",
     .help = "Whether the pull is apart from the gradient, as in adamw"},
    {"weight_decay_on", JOB_SPEC_CHOICE, .choices = CHOICES("all", "weights"),
     .fallback = "\"all\"",
     .help = "Which parameters weight_decay pulls; weights: not biases and normalisation's scale "
             "and shift"},
    {"betas", JOB_SPEC_NUMBERS, .from = 0, .to = 1, .below_to = true, .count_minimum = 2,
     .count_maximum = 2, .variants = "adam adamw lion nadam",
     .fallbacks = FALLBACKS({"adam", "[0.9, 0.999]"}, {"adamw", "[0.9, 0.999]"},
                            {"lion", "[0.9, 0.99]"}, {"nadam", "[0.9, 0.999]"}),
     .help = "Decay of the running averages"},
    {"eps", JOB_SPEC_NUMBER, .from = 0, .to = 1,
     .variants = "adam adamw rmsprop adagrad adadelta nadam muon",
     .fallbacks =
         FALLBACKS({"adam", "1e-8"}, {"adamw", "1e-8"}, {"rmsprop", "1e-8"}, {"adagrad", "1e-10"},
                   {"adadelta", "1e-6"}, {"nadam", "1e-8"}, {"muon", "1e-7"}),
     .help = "Added to the root of the second average; under it in adadelta; the least norm of "
             "muon's direction"},
    {"alpha", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .variants = "rmsprop",
     .fallback = "0.99", .help = "Decay of the squared gradients' average"},
    {"rho", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .variants = "adadelta",
     .fallback = "0.9", .help = "Decay of the averages of squared gradients and steps"},
    {"lr_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .variants = "adagrad", .fallback = "0",
     .help = "Update t has the learning rate divided by 1 + (t - 1) lr_decay"},
    {"initial_accumulator_value", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .variants = "adagrad",
     .fallback = "0", .help = "What the sum of squared gradients starts from"},
    {"momentum_decay", JOB_SPEC_NUMBER, .from = 0, .to = 1e6, .variants = "nadam",
     .fallback = "4e-3", .help = "How fast the momentum rises to the first of betas"},
    {"ns_steps", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 20, .variants = "muon", .fallback = "5",
     .help = "Newton-Schulz iterations that orthogonalise the direction"},
    {"adjust_lr", JOB_SPEC_CHOICE, .choices = CHOICES("original", "match_rms_adamw"),
     .variants = "muon", .fallback = "\"original\"",
     .help = "Factor of lr by the matrix: root of rows / columns, at least 1; or as large steps as "
             "AdamW's"},
    {"adamw", JOB_SPEC_OBJECT, .section = &adamw_section, .variants = "muon", .fallback = "{}",
     .help = "AdamW for all that muon does not update: it takes the weights of linear layers, the "
             "last one aside"},
    {"groups", JOB_SPEC_OBJECTS, .section = &group_section, .count_minimum = 1, .count_maximum = 64,
     .help = "Parameters with settings of their own; the first group that matches takes one"},
};
SECTION(optimizer, "name");

static const struct job_spec_key schedule_keys[] = {
    {"name", JOB_SPEC_CHOICE,
     .choices = CHOICES("constant", "cosine", "step", "multi_step", "linear", "polynomial",
                        "one_cycle", "plateau"),
     .fallback = "\"constant\"",
     .help = "How the learning rate goes on after the warm-up, as in PyTorch"},
    {"warmup_steps", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000000, .fallback = "0",
     .unit = "steps", .help = "Steps over which the learning rate rises to its value"},
    {"warmup_epochs", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000, .fallback = "0",
     .unit = "epochs", .help = "The same in epochs, instead of warmup_steps"},
    {"min_lr", JOB_SPEC_NUMBER, .from = 0, .to = 1e6,
     .variants = "cosine linear polynomial plateau", .fallback = "0",
     .help = "Learning rate that the run ends at; that no cut goes below"},
    {"step_epochs", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .variants = "step",
     .fallback = "10", .unit = "epochs", .help = "Epochs between two cuts"},
    {"milestones", JOB_SPEC_INTEGERS, .minimum = 1, .maximum = 1000000, .count_minimum = 1,
     .count_maximum = 32, .variants = "multi_step", .required = true, .unit = "epochs",
     .help = "Epochs, from the end of the warm-up, after which the learning rate is cut"},
    {"gamma", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true,
     .variants = "step multi_step", .fallback = "0.1",
     .help = "Factor of the learning rate at each cut"},
    {"power", JOB_SPEC_NUMBER, .from = 0, .to = 100, .above_from = true, .variants = "polynomial",
     .fallback = "1", .help = "Power of the share of the steps that is left"},
    {"pct_start", JOB_SPEC_NUMBER, .from = 0, .to = 1, .variants = "one_cycle", .fallback = "0.3",
     .help = "Share of the steps over which the learning rate rises to lr"},
    {"div_factor", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true,
     .variants = "one_cycle", .fallback = "25",
     .help = "The learning rate starts at lr divided by it"},
    {"final_div_factor", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true,
     .variants = "one_cycle", .fallback = "1e4",
     .help = "and ends at its start divided by this one"},
    {"anneal", JOB_SPEC_CHOICE, .choices = CHOICES("cosine", "linear"), .variants = "one_cycle",
     .fallback = "\"cosine\"", .help = "Form of the rise and the fall"},
    {"cycle_momentum", JOB_SPEC_BOOLEAN, .variants = "one_cycle",
     .help = "Whether momentum, or the first of betas, falls while the learning rate rises and "
             "rises again (when absent: where the optimizer has one)"},
    {"base_momentum", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true,
     .variants = "one_cycle", .fallback = "0.85", .help = "Momentum at the highest learning rate"},
    {"max_momentum", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .variants = "one_cycle",
     .fallback = "0.95", .help = "Momentum at the start and the end"},
    {"metric", JOB_SPEC_CHOICE, .choices = METRICS, .variants = "plateau",
     .fallback = "\"validation_loss\"", .help = "What has to improve"},
    {"factor", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .below_to = true,
     .variants = "plateau", .fallback = "0.1", .help = "Factor of the learning rate at each cut"},
    {"patience", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000, .variants = "plateau",
     .fallback = "10", .unit = "measurements",
     .help = "Evaluations in a row without improvement that are borne; the next one cuts"},
    {"threshold", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .variants = "plateau", .fallback = "1e-4",
     .help = "A smaller improvement counts as none"},
    {"threshold_mode", JOB_SPEC_CHOICE, .choices = CHOICES("rel", "abs"), .variants = "plateau",
     .fallback = "\"rel\"", .help = "rel: threshold is a share of the best value"},
    {"cooldown", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000000, .variants = "plateau",
     .fallback = "0", .unit = "measurements",
     .help = "Evaluations after a cut of which none counts as bad"},
};
SECTION(schedule, "name");

static const struct job_spec_key ema_keys[] = {
    {"decay", JOB_SPEC_NUMBER, .from = 0, .to = 1, .above_from = true, .below_to = true,
     .fallback = "0.999", .help = "Share of the average that an update keeps"},
    {"warmup", JOB_SPEC_BOOLEAN, .fallback = "false",
     .help = "Whether update t keeps at most 1 - t^(-2/3), so that the first weights are forgotten "
             "soon"},
};
SECTION(ema, NULL);

static const struct job_spec_key early_stop_keys[] = {
    {"metric", JOB_SPEC_CHOICE, .choices = METRICS, .fallback = "\"validation_loss\"",
     .help = "What has to improve"},
    {"patience", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .fallback = "10",
     .unit = "measurements",
     .help = "Evaluations in a row without improvement that end the training"},
    {"min_change", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .fallback = "0",
     .help = "A smaller improvement counts as none"},
};
SECTION(early_stop, NULL);

static const struct job_spec_key train_keys[] = {
    {"epochs", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .fallback = "10",
     .unit = "epochs", .help = "Passes over the training set"},
    {"max_steps", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000000000, .unit = "steps",
     .help = "Ends the training after so many updates, if epochs does not end it before"},
    {"batch_size", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .choices = CHOICES("auto"),
     .fallback = "64", .unit = "samples",
     .help = "Samples of one forward and backward pass; auto: as many as fit into memory_limit"},
    {"accumulate", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .fallback = "1",
     .unit = "batches", .help = "Batches whose gradients are averaged into one update"},
    {"label_smoothing", JOB_SPEC_NUMBER, .from = 0, .to = 1, .below_to = true, .fallback = "0",
     .help = "Share of each training target that is spread over all classes, as in PyTorch"},
    {"effective_batch_size", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000000, .unit = "samples",
     .help = "Samples of one update: sets accumulate to its quotient by batch_size, which must "
             "divide it; batch_size auto (the default then) takes the largest divisor that fits"},
    {"recompute", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000,
     .choices = CHOICES("none", "selective", "full", "auto"), .fallback = "\"auto\"",
     .unit = "segments",
     .help = "Activations that are calculated again for the gradients instead of being kept, with "
             "the same results; selective: those of cheap operators; a number: all but those "
             "between so many segments of the model; full: whatever needs the least memory; auto: "
             "none if the batch fits so, else the least work"},
    {"memory_limit", JOB_SPEC_BYTES, .minimum = 1048576, .maximum = INT64_C(1) << 50,
     .unit = "bytes",
     .help = "Memory that the training's process may use; when absent, that of the machine, which "
             "batch_size and recompute then keep to"},
    {"seed", JOB_SPEC_INTEGER, .minimum = 0, .maximum = INT64_MAX, .fallback = "42",
     .help = "Of first weights, order, validation split, dropout, augmentation and label noise"},
    {"optimizer", JOB_SPEC_OBJECT, .section = &optimizer_section, .fallback = "{}",
     .help = "How the weights are updated"},
    {"schedule", JOB_SPEC_OBJECT, .section = &schedule_section, .fallback = "{}",
     .help = "How the learning rate changes"},
    {"evaluate_every", JOB_SPEC_INTERVAL, .counts_only = true, .fallback = "\"1 epoch\"",
     .help = "When the validation set is evaluated, such as \"2 epochs\" or \"500 steps\"; the "
             "run's end is one time more"},
    {"clip_norm", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true,
     .help = "Largest norm of all gradients together; they are scaled down to it"},
    {"clip_value", JOB_SPEC_NUMBER, .from = 0, .to = 1e30, .above_from = true,
     .help = "Largest size of a single gradient, after clip_norm; larger ones are cut to it"},
    {"ema", JOB_SPEC_OBJECT, .section = &ema_section,
     .help = "Keeps a moving average of weights and batch norm's statistics, which is what is "
             "evaluated and exported"},
    {"early_stop", JOB_SPEC_OBJECT, .section = &early_stop_section,
     .help = "Ends the training when a metric no longer improves"},
    {"precision", JOB_SPEC_CHOICE, .choices = CHOICES("auto", "float32", "bfloat16", "float16"),
     .fallback = "\"auto\"",
     .help = "Numbers that linear layers and convolutions multiply, all else is float32; auto: the "
             "one that the device is fastest with for the model; float16 scales the loss"},
    {"profile", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 1000, .unit = "steps",
     .help = "Records where the time of so many steps goes, after a warm-up; `trainctl profile` "
             "shows it; the results are the same bits"},
};
SECTION(train, NULL);

/* ---- the rest ------------------------------------------------------------------------------ */

static const struct job_spec_key retry_keys[] = {
    {"limit", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 100,
     .help = "New attempts after a crash of a native job, from its last checkpoint (when absent: "
             "the daemon's RetryLimit), or after any failure of a command (when absent: none)"},
    {"backoff", JOB_SPEC_DURATION, .from = 0, .to = 86400, .unit = "seconds",
     .help = "Wait before the first new attempt, doubled with each (when absent: the daemon's "
             "RetryBackoff)"},
};
SECTION(retry, NULL);

static const struct job_spec_key device_keys[] = {
    {"prefer", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 64, .fallback = "\"auto\"",
     .help =
         "Device (cuda:0), or kind of device (cpu, cuda, simulated), that is taken where it can "
         "run the job; auto: the one that finishes first"},
    {"allow", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 16,
     .help = "Devices or kinds of device that may be used; when absent all of them, but a command "
             "that names no device_memory only the CPU"},
    {"deny", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 16,
     .help = "Devices or kinds of device that may not be used"},
    {"force", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 64,
     .help = "The one device that the job runs on, or waits for"},
    {"fallback", JOB_SPEC_BOOLEAN, .fallback = "true",
     .help = "Whether the CPU may run what the device cannot"},
    {"threads", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1024, .fallback = "0", .unit = "threads",
     .help = "Threads of the training; 0: as many as the cores booked"},
};
SECTION(device, NULL);

static const struct job_spec_key checkpoint_keys[] = {
    {"every", JOB_SPEC_INTERVAL, .fallback = "\"1 epoch\"",
     .help = "When one is written, such as \"2 epochs\", \"500 steps\" or \"10 min\""},
    {"keep", JOB_SPEC_INTEGER, .minimum = 0, .maximum = 1000, .fallback = "3",
     .help = "How many of the last ones are kept, the best aside"},
    {"best", JOB_SPEC_CHOICE, .choices = METRICS, .fallback = "\"validation_loss\"",
     .null_is_value = true,
     .help = "Metric whose best checkpoint is kept; null: none; train_loss when nothing is set "
             "aside for validation"},
};
SECTION(checkpoint, NULL);

static const struct job_spec_key resources_keys[] = {
    {"cores", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 4096, .unit = "cores",
     .help = "Cores that the command uses (when absent: its share of the machine's, CpuSlots)"},
    {"memory", JOB_SPEC_BYTES, .minimum = 1048576, .maximum = INT64_C(1) << 50, .unit = "bytes",
     .help = "Memory that the command may use (when absent: learnt from its earlier runs)"},
    {"device_memory", JOB_SPEC_BYTES, .minimum = 0, .maximum = INT64_C(1) << 50, .unit = "bytes",
     .help = "Memory of the device that the command may use; it then runs on an accelerator"},
    {"devices", JOB_SPEC_INTEGER, .minimum = 1, .maximum = 16, .fallback = "1",
     .help = "How many devices of one kind the command uses at once"},
    {"time", JOB_SPEC_DURATION, .from = 0, .to = 1e9, .above_from = true, .unit = "seconds",
     .help = "How long the command is expected to take; when absent, what earlier runs took"},
};
SECTION(resources, NULL);

static const struct job_spec_key notify_keys[] = {
    {"end", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .help = "Program and arguments that run when the job has ended, however that was"},
    {"failure", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .help = "The same, when it failed"},
};
SECTION(notify, NULL);

static const struct job_spec_key job_keys[] = {
    {"name", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 128,
     .help = "What lists call the job; the program's name for a command, else \"job\""},
    {"priority", JOB_SPEC_INTEGER, .minimum = -1000, .maximum = 1000, .fallback = "0",
     .help = "Higher ones start first"},
    {"directory", JOB_SPEC_ABSOLUTE_PATH, .count_minimum = 1, .count_maximum = PATH_BYTES_MAX,
     .fallback = "\"/\"",
     .help = "Where the job runs and relative paths start; trainctl puts in the present one"},
    {"environment", JOB_SPEC_VARIABLES, .fallback = "{}", .help = "Environment variables to add"},
    {"retry", JOB_SPEC_OBJECT, .section = &retry_section, .fallback = "{}",
     .help = "What follows a failure"},
    {"after", JOB_SPEC_DEPENDENCIES, .count_maximum = 1000,
     .help =
         "Jobs that must end before this one starts; \"success\" (the default) cancels this one "
         "when they fail. {\"index\": i} is the i-th specification, from 0, of the same "
         "submission"},
    {"hold", JOB_SPEC_BOOLEAN, .help = "Whether it waits until `trainctl release`"},
    {"group", JOB_SPEC_NAME, .count_minimum = 1, .count_maximum = 64,
     .help = "Jobs that share a limit of how many run at once: `trainctl group set`"},
    {"notify", JOB_SPEC_OBJECT, .section = &notify_section,
     .help = "Commands that run as the job's user, without a shell, once the job has ended"},
    {"time_limit", JOB_SPEC_DURATION, .from = 0, .to = 1e9, .above_from = true, .unit = "seconds",
     .help = "Longest run of one attempt, such as \"2 h\""},
    {"command", JOB_SPEC_TEXTS, .count_minimum = 1, .count_maximum = 4096, .list_only = true,
     .required = true, .variants = "command",
     .help = "Program and arguments, instead of model, data and train"},
    {"resources", JOB_SPEC_OBJECT, .section = &resources_section, .variants = "command",
     .fallback = "{}", .help = "What a command needs; a native job's plan knows it"},
    {"preemptible", JOB_SPEC_BOOLEAN, .variants = "command", .fallback = "false",
     .help = "Whether the command saves its state at checkpoint_signal and, started again, goes on "
             "from there, so that it may be moved or make room; true where one of the next two is "
             "given"},
    {"checkpoint_signal", JOB_SPEC_CHOICE,
     .choices = CHOICES("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"),
     .variants = "command",
     .help = "What asks the command to save its state and end, with exit status 75 or by the "
             "signal (when absent: SIGTERM); it goes to the command alone, not to its children"},
    {"checkpoint_grace", JOB_SPEC_DURATION, .from = 0, .to = 86400, .variants = "command",
     .unit = "seconds",
     .help = "How long it may take for that before it is killed (when absent: the daemon's "
             "StopGrace)"},
    {"model", JOB_SPEC_OBJECT, .section = &model_section, .required = true, .variants = "native",
     .help = "What is trained"},
    {"data", JOB_SPEC_OBJECT, .section = &data_section, .required = true, .variants = "native",
     .help = "What it learns from"},
    {"train", JOB_SPEC_OBJECT, .section = &train_section, .variants = "native", .fallback = "{}",
     .help = "How it learns"},
    {"checkpoint", JOB_SPEC_OBJECT, .section = &checkpoint_section, .variants = "native",
     .fallback = "{}", .help = "What is saved on the way"},
    {"device", JOB_SPEC_OBJECT, .section = &device_section, .fallback = "{}",
     .help = "Where it may run"},
};

const struct job_spec_section job_spec_schema = {job_keys, sizeof job_keys / sizeof *job_keys,
                                                 NULL};

/* ---- reading the table --------------------------------------------------------------------- */

const struct job_spec_key *job_spec_key_find(const struct job_spec_section *section,
                                             const char *name)
{
    for (size_t i = 0; i < section->count; i++)
        if (strcmp(section->keys[i].name, name) == 0)
            return &section->keys[i];
    return NULL;
}

bool job_spec_key_applies(const struct job_spec_key *key, const char *variant)
{
    size_t length;

    if (!key->variants)
        return true;
    if (!variant)
        return false;
    length = strlen(variant);
    for (const char *at = key->variants; *at;) {
        size_t word = strcspn(at, " ");

        if (word == length && memcmp(at, variant, length) == 0)
            return true;
        at += word;
        at += *at == ' ';
    }
    return false;
}

const char *job_spec_key_fallback(const struct job_spec_key *key, const char *variant)
{
    for (const struct job_spec_fallback *f = key->fallbacks; f && f->variant; f++)
        if (variant && strcmp(f->variant, variant) == 0)
            return f->json;
    return key->fallback;
}

static void describe_choices(const struct job_spec_key *key, const char *before, char *output,
                             size_t size)
{
    size_t used = (size_t)snprintf(output, size, "%s", before);

    for (size_t i = 0; key->choices[i] && used < size; i++)
        used +=
            (size_t)snprintf(output + used, size - used, "%s%s", i ? ", " : "", key->choices[i]);
}

static void describe_numbers(const struct job_spec_key *key, const char *before, char *output,
                             size_t size)
{
    snprintf(output, size, "%s%s %.10g %s %.10g", before,
             key->above_from ? " greater than"
             : key->below_to ? " of at least"
                             : " from",
             key->from,
             key->below_to     ? "and less than"
             : key->above_from ? "and at most"
                               : "to",
             key->to);
}

/* "random_crop:PADDING (1 to 1024), horizontal_flip" */
static void describe_operations(const struct job_spec_key *key, char *output, size_t size)
{
    size_t used = (size_t)snprintf(output, size, "an array with some of ");

    for (const struct job_spec_operation *o = key->operations; o->name && used < size; o++) {
        const char *comma = o == key->operations ? "" : ", ";

        if (o->argument)
            used += (size_t)snprintf(output + used, size - used, "%s\"%s:%s\" (%s%.10g to %.10g)",
                                     comma, o->name, o->argument,
                                     o->whole ? "an integer from " : "", o->from, o->to);
        else
            used += (size_t)snprintf(output + used, size - used, "%s\"%s\"", comma, o->name);
    }
}

static void describe_list(const struct job_spec_key *key, const char *what, char *output,
                          size_t size)
{
    if (key->count_minimum == key->count_maximum)
        snprintf(output, size, "an array of %zu %s", key->count_minimum, what);
    else
        snprintf(output, size, "an array of %zu to %zu %s", key->count_minimum, key->count_maximum,
                 what);
}

char *job_spec_key_describe(const struct job_spec_key *key, char *output, size_t size)
{
    long long minimum = key->minimum, maximum = key->maximum;
    char what[128];

    switch (key->type) {
    case JOB_SPEC_OBJECT:
        snprintf(output, size, "an object");
        break;
    case JOB_SPEC_OBJECTS:
        describe_list(key, "objects", output, size);
        break;
    case JOB_SPEC_BOOLEAN:
        snprintf(output, size, "true or false");
        break;
    case JOB_SPEC_INTEGER:
        snprintf(what, sizeof what, "an integer from %lld to %lld%s", minimum, maximum,
                 !key->choices     ? ""
                 : key->choices[1] ? " or one of "
                                   : " or ");
        if (key->choices)
            describe_choices(key, what, output, size);
        else
            snprintf(output, size, "%s", what);
        break;
    case JOB_SPEC_NUMBER:
        describe_numbers(key, "a number", output, size);
        break;
    case JOB_SPEC_DURATION:
        describe_numbers(key, "a duration such as \"10 min\" or a number of seconds", output, size);
        break;
    case JOB_SPEC_BYTES:
        snprintf(output, size, "a size such as \"2 GiB\" or a number of bytes from %lld to %lld",
                 minimum, maximum);
        break;
    case JOB_SPEC_CHOICE:
        describe_choices(key, key->choices[1] ? "one of " : "", output, size);
        break;
    case JOB_SPEC_SWITCH:
        describe_choices(key, "true, false or one of ", output, size);
        break;
    case JOB_SPEC_TEXT:
    case JOB_SPEC_NAME:
        if (key->count_minimum == key->count_maximum)
            snprintf(output, size, "a text of one character");
        else
            snprintf(output, size, "a text of %zu to %zu bytes%s", key->count_minimum,
                     key->count_maximum,
                     key->type == JOB_SPEC_NAME ? " without control characters" : "");
        break;
    case JOB_SPEC_ABSOLUTE_PATH:
        snprintf(output, size, "an absolute path (one that begins with /)");
        break;
    case JOB_SPEC_COLUMN:
        snprintf(output, size, "a text, or an integer from %lld to %lld", minimum, maximum);
        break;
    case JOB_SPEC_TEXTS:
        describe_list(key, "texts, the first of them not empty", what, sizeof what);
        snprintf(output, size, "%s%s", key->list_only ? "" : "a text or ", what);
        break;
    case JOB_SPEC_CHOICES:
        describe_choices(key, "an array with some of ", output, size);
        break;
    case JOB_SPEC_INTEGERS:
        snprintf(what, sizeof what, "integers from %lld to %lld", minimum, maximum);
        describe_list(key, what, output, size);
        break;
    case JOB_SPEC_NUMBERS:
        describe_numbers(key, "numbers", what, sizeof what);
        describe_list(key, what, output, size);
        break;
    case JOB_SPEC_PAIR:
        snprintf(output, size, "an integer from %lld to %lld, or an array of two", minimum,
                 maximum);
        break;
    case JOB_SPEC_VARIABLES:
        snprintf(output, size, "an object of texts");
        break;
    case JOB_SPEC_OPERATIONS:
        describe_operations(key, output, size);
        break;
    case JOB_SPEC_DEPENDENCIES:
        snprintf(output, size,
                 "an array of 0 to %zu numbers of jobs or {\"job\": number, \"on\": \"success\" or "
                 "\"end\"}",
                 key->count_maximum);
        break;
    case JOB_SPEC_INTERVAL:
        snprintf(output, size, "%s",
                 key->counts_only
                     ? "a text such as \"2 epochs\" or \"500 steps\""
                     : "a text such as \"2 epochs\", \"500 steps\" or \"10 min\", from one step "
                       "or 1 ms upwards");
        break;
    }
    return output;
}
