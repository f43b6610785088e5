/* model_layers.h: the layers that a model of one's own may have, and their keys: two lists, from
 * which the schema of specifications, --help, the documentation, struct model_layer and its reading
 * follow. What a layer does stands in engine/models/layers.c. */
#pragma once

/* enum model_layer_kind has LAYER_<upper>; a specification and messages say <lower>. The
 * activations stand together, in the order of enum activation_kind. */
#define MODEL_LAYERS(LAYER)                             \
    LAYER(LINEAR, linear)                               \
    LAYER(CONV2D, conv2d)                               \
    LAYER(BATCH_NORM, batch_norm)                       \
    LAYER(RELU, relu)                                   \
    LAYER(SILU, silu)                                   \
    LAYER(GELU, gelu)                                   \
    LAYER(TANH, tanh)                                   \
    LAYER(SIGMOID, sigmoid)                             \
    LAYER(HARDSWISH, hardswish)                         \
    LAYER(HARDSIGMOID, hardsigmoid)                     \
    LAYER(LEAKY_RELU, leaky_relu)                       \
    LAYER(MAX_POOL2D, max_pool2d)                       \
    LAYER(AVERAGE_POOL2D, average_pool2d)               \
    LAYER(GLOBAL_AVERAGE_POOL2D, global_average_pool2d) \
    LAYER(FLATTEN, flatten)                             \
    LAYER(EMBEDDING, embedding)                         \
    LAYER(DROPOUT, dropout)                             \
    LAYER(SQUEEZE_EXCITE, squeeze_excite)

/* Keys of layers. Of the first three kinds the layer has a member of the key's name, which begins
 * with the second argument: WHOLE int64_t, NUMBER float, SWITCH bool. WINDOW: a part of the member
 * `window`, and its type in the schema. Then follow the members of struct job_spec_key. */
/* clang-format off */
#define MODEL_LAYER_KEYS(WHOLE, NUMBER, SWITCH, WINDOW)                                           \
    WHOLE(features, 0, .minimum = 1, .maximum = WIDTH_MAX, .required = true,                      \
          .variants = "linear", .help = "Outputs of the layer")                                   \
    WHOLE(channels, 0, .minimum = 1, .maximum = 65536, .required = true, .variants = "conv2d",    \
          .help = "Output channels")                                                              \
    WINDOW(kernel, JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX, .required = true,          \
           .variants = "conv2d max_pool2d average_pool2d", .unit = "pixels",                      \
           .help = "Side of the window, or its height and width")                                 \
    WINDOW(stride, JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX,                            \
           .variants = "conv2d max_pool2d average_pool2d",                                        \
           .fallbacks = FALLBACKS({"conv2d", "1"}), .unit = "pixels",                             \
           .help = "Step of the window; the kernel's size when absent from a pool")               \
    WINDOW(padding, JOB_SPEC_PAIR, .minimum = 0, .maximum = KERNEL_MAX,                           \
           .variants = "conv2d max_pool2d average_pool2d", .fallback = "0", .unit = "pixels",     \
           .help = "Border of zeros on each side")                                                \
    WINDOW(dilation, JOB_SPEC_PAIR, .minimum = 1, .maximum = KERNEL_MAX, .variants = "conv2d",    \
           .fallback = "1", .unit = "pixels", .help = "Distance between the window's points")     \
    WINDOW(groups, JOB_SPEC_INTEGER, .minimum = 1, .maximum = 65536, .variants = "conv2d",        \
           .fallback = "1", .help = "Groups of channels that do not see each other")              \
    SWITCH(bias, true, .variants = "linear conv2d", .fallback = "true",                           \
           .help = "Whether a learnt bias is added")                                              \
    NUMBER(epsilon, 1e-5f, .from = 0, .to = 1, .above_from = true, .variants = "batch_norm",      \
           .fallback = "1e-5", .help = "Added to the variance")                                   \
    NUMBER(momentum, 0.1f, .from = 0, .to = 1, .variants = "batch_norm", .fallback = "0.1",       \
           .help = "Weight of the newest batch in the running statistics")                        \
    WHOLE(vocabulary, 0, .minimum = 2, .maximum = WIDTH_MAX, .variants = "embedding",             \
          .help = "Number of symbols; taken from the data when absent")                           \
    WHOLE(width, 0, .minimum = 1, .maximum = 65536, .required = true, .variants = "embedding",    \
          .help = "Numbers that stand for one symbol")                                            \
    NUMBER(probability, 0.5f, .from = 0, .to = 1, .below_to = true, .required = true,             \
           .variants = "dropout", .help = "Share of the values that are dropped while training")  \
    NUMBER(negative_slope, 0.01f, .from = -100, .to = 100, .variants = "leaky_relu",              \
           .fallback = "0.01", .help = "What numbers below zero are multiplied by")               \
    WHOLE(squeeze, 0, .minimum = 1, .maximum = 65536, .required = true,                           \
          .variants = "squeeze_excite", .help = "Channels between its two convolutions")
/* clang-format on */
