/* model_layers.h: the layers that a user's own model ("layers") may have, and their keys. The
 * schema, its help, the documentation, struct model_layer and its reader are made from these two
 * lists. engine/models/layers.c builds the layers. */
#pragma once

/* Columns: LAYER_<upper> of enum model_layer_kind; the name in specifications and messages. The
 * activations must be contiguous and in the order of enum activation_kind. */
#define MODEL_LAYERS(LAYER)                                 \
    LAYER(LINEAR, linear)                                   \
    LAYER(CONV1D, conv1d)                                   \
    LAYER(CONV2D, conv2d)                                   \
    LAYER(CONV_TRANSPOSE1D, conv_transpose1d)               \
    LAYER(CONV_TRANSPOSE2D, conv_transpose2d)               \
    LAYER(BATCH_NORM, batch_norm)                           \
    LAYER(GROUP_NORM, group_norm)                           \
    LAYER(LAYER_NORM, layer_norm)                           \
    LAYER(LAYER_NORM2D, layer_norm2d)                       \
    LAYER(LAYER_SCALE, layer_scale)                         \
    LAYER(RMS_NORM, rms_norm)                               \
    LAYER(RELU, relu)                                       \
    LAYER(SILU, silu)                                       \
    LAYER(GELU, gelu)                                       \
    LAYER(TANH, tanh)                                       \
    LAYER(SIGMOID, sigmoid)                                 \
    LAYER(HARDSWISH, hardswish)                             \
    LAYER(HARDSIGMOID, hardsigmoid)                         \
    LAYER(RELU6, relu6)                                     \
    LAYER(GELU_TANH, gelu_tanh)                             \
    LAYER(MISH, mish)                                       \
    LAYER(SOFTPLUS, softplus)                               \
    LAYER(LEAKY_RELU, leaky_relu)                           \
    LAYER(ELU, elu)                                         \
    LAYER(MAX_POOL1D, max_pool1d)                           \
    LAYER(MAX_POOL2D, max_pool2d)                           \
    LAYER(AVERAGE_POOL1D, average_pool1d)                   \
    LAYER(AVERAGE_POOL2D, average_pool2d)                   \
    LAYER(ADAPTIVE_MAX_POOL1D, adaptive_max_pool1d)         \
    LAYER(ADAPTIVE_MAX_POOL2D, adaptive_max_pool2d)         \
    LAYER(ADAPTIVE_AVERAGE_POOL1D, adaptive_average_pool1d) \
    LAYER(ADAPTIVE_AVERAGE_POOL2D, adaptive_average_pool2d) \
    LAYER(GLOBAL_AVERAGE_POOL2D, global_average_pool2d)     \
    LAYER(UPSAMPLE, upsample)                               \
    LAYER(FLATTEN, flatten)                                 \
    LAYER(TRANSPOSE, transpose)                             \
    LAYER(EMBEDDING, embedding)                             \
    LAYER(DROPOUT, dropout)                                 \
    LAYER(DROPOUT1D, dropout1d)                             \
    LAYER(DROPOUT2D, dropout2d)                             \
    LAYER(STOCHASTIC_DEPTH, stochastic_depth)               \
    LAYER(SQUEEZE_EXCITE, squeeze_excite)                   \
    LAYER(ADD, add)                                         \
    LAYER(CONCAT, concat)                                   \
    LAYER(RESIDUAL, residual)                               \
    LAYER(BRANCHES, branches)

/* The layers that have a window. */
#define MODEL_CONVOLUTIONS "conv1d conv2d conv_transpose1d conv_transpose2d"
#define MODEL_WINDOWS MODEL_CONVOLUTIONS " max_pool1d max_pool2d average_pool1d average_pool2d"
#define MODEL_ADAPTIVE_POOLS                                           \
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_average_pool1d " \
    "adaptive_average_pool2d"

/* Keys of layers. WHOLE, NUMBER, SWITCH and WORD give struct model_layer a member of the key's name
 * (int64_t, float, bool, text), whose initial value is the second argument. WINDOW is a part of the
 * member `window`, or a member that models.h names; its second argument is the key's type in the
 * schema. Then follow members of struct job_spec_key. */
/* clang-format off */
#define MODEL_LAYER_KEYS(WHOLE, NUMBER, SWITCH, WORD, WINDOW)                                     \
    WHOLE(features, 0, .minimum = 1, .maximum = WIDTH_MAX, .required = true,                      \
          .variants = "linear", .help = "Outputs of the layer")                                   \
    WHOLE(channels, 0, .minimum = 1, .maximum = 65536, .required = true,                          \
          .variants = MODEL_CONVOLUTIONS,                                                         \
          .help = "Output channels")                                                              \
    WINDOW(kernel, JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX, .required = true,          \
           .variants = MODEL_WINDOWS, .unit = "pixels",                                           \
           .help = "Side of the window, or its height and width")                                 \
    WINDOW(stride, JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX,                            \
           .variants = MODEL_WINDOWS,                                                             \
           .fallbacks = FALLBACKS({"conv1d", "1"}, {"conv2d", "1"}, {"conv_transpose1d", "1"},    \
                                  {"conv_transpose2d", "1"}), .unit = "pixels",                   \
           .help = "Step of the window. When absent, for a pool: the kernel's size")              \
    WINDOW(padding, JOB_SPEC_PAIR, .minimum = 0, .maximum = KERNEL_MAX,                           \
           .variants = MODEL_WINDOWS, .fallback = "0", .unit = "pixels",                          \
           .help = "Border of zeros on each side")                                                \
    WINDOW(output_padding, JOB_SPEC_PAIR, .minimum = 0, .maximum = KERNEL_MAX,                    \
           .variants = "conv_transpose1d conv_transpose2d", .fallback = "0", .unit = "pixels",    \
           .help = "Rows and columns that are added to the result")                               \
    WINDOW(size, JOB_SPEC_PAIR, .minimum = 1, .maximum = 65536, .required = true,                 \
           .variants = MODEL_ADAPTIVE_POOLS, .unit = "pixels",                                    \
           .help = "Side of the result, or its height and width")                                 \
    NUMBER(scale, 2.0f, .from = 0, .to = 64, .above_from = true, .variants = "upsample",          \
           .fallback = "2", .help = "Multiplies height and width, or the length")                 \
    WORD(mode, "nearest", .choices = CHOICES("nearest", "linear", "bilinear"),                    \
         .variants = "upsample", .fallback = "\"nearest\"",                                       \
         .help = "How points between pixels are found; linear is for sequences")                  \
    WINDOW(dilation, JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX,                          \
           .variants = MODEL_CONVOLUTIONS, .fallback = "1", .unit = "pixels", .help = "Distance between the window's points")     \
    WINDOW(groups, JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536,                              \
           .variants = MODEL_CONVOLUTIONS " group_norm",                                          \
           .fallback = "1", .help = "Number of groups of channels; each output sees one group only")          \
    SWITCH(bias, true, .variants = "linear layer_norm " MODEL_CONVOLUTIONS, .fallback = "true",                \
           .help = "Whether a learnt bias is added")                                              \
    NUMBER(epsilon, 1e-5f, .from = 0, .to = 1, .above_from = true,                                \
           .variants = "batch_norm group_norm layer_norm layer_norm2d rms_norm", .fallback = "1e-5",                      \
           .help = "Added to the variance, by rms_norm to the mean square")                       \
    NUMBER(momentum, 0.1f, .from = 0, .to = 1, .variants = "batch_norm", .fallback = "0.1",       \
           .help = "Weight of the newest batch in the running statistics")                        \
    WHOLE(vocabulary, 0, .minimum = 2, .maximum = WIDTH_MAX, .variants = "embedding",             \
          .help = "Number of symbols. When absent: taken from the data")                          \
    WHOLE(width, 0, .minimum = 1, .maximum = 65536, .required = true, .variants = "embedding",    \
          .help = "Length of the vector of one symbol")                                           \
    NUMBER(probability, 0.5f, .from = 0, .to = 1, .below_to = true, .required = true,             \
           .variants = "dropout dropout1d dropout2d stochastic_depth",                                                \
           .help = "Share of the values, channels or samples that are dropped during training")    \
    WHOLE(axis, 1, .minimum = 1, .maximum = 3, .variants = "concat branches", .fallback = "1",    \
          .help = "Axis along which the inputs stand side by side; the batch is axis 0")          \
    WORD(join, "add", .choices = CHOICES("add", "concat"), .variants = "branches",                \
         .fallback = "\"add\"", .help = "What is made of the branches' results")                  \
    NUMBER(negative_slope, 0.01f, .from = -100, .to = 100, .variants = "leaky_relu",              \
           .fallback = "0.01", .help = "Factor of numbers below zero")                            \
    NUMBER(alpha, 1.0f, .from = -100, .to = 100, .variants = "elu", .fallback = "1",              \
           .help = "Factor of e^x - 1 below zero")                                                \
    NUMBER(initial, 1e-6f, .from = -1000, .to = 1000, .variants = "layer_scale",                  \
           .fallback = "1e-6", .help = "What the learnt factor of each channel begins with")      \
    WHOLE(squeeze, 0, .minimum = 1, .maximum = 65536, .required = true,                           \
          .variants = "squeeze_excite", .help = "Channels between the two convolutions")
/* clang-format on */
