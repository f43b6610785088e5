/* convnet.h: what the builders of torchvision's convolutional networks share, and those of networks
 * over sequences. */
#pragma once

#include "engine/models/builders.h"

/* The name of a layer or a part of it, printed; one too long fails when its tensors are made. */
struct layer_name {
    char text[GRAPH_NAME_MAX];
};
struct layer_name layer_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `channels` times `width`, rounded to the nearest multiple of 8, at least 8, and up where that
 * would lose more than a tenth: _make_divisible() of torchvision/models/_utils.py. */
int64_t convnet_channels(double channels, double width);

/* A convolution without bias whose padding keeps the image at stride 1, then batch norm. */
struct convnet_unit {
    int64_t channels; /* of the result */
    int kernel, stride;
    int64_t groups;
    float epsilon, momentum; /* batch norm */
};
int32_t convnet_unit(struct graph *graph, int32_t x, const char *convolution, const char *norm,
                     const struct convnet_unit *unit);
/* The same with an activation: torchvision.ops.Conv2dNormActivation ("<name>.0", ".1", ".2"). */
int32_t convnet_activated_unit(struct graph *graph, int32_t x, const char *name,
                               const struct convnet_unit *unit, enum activation_kind activation);

/* Squeeze-and-excite (Hu, Shen and Sun 2017, arXiv:1709.01507): x times
 * scale(fc2(activation(fc1(mean of each channel)))); torchvision.ops.SqueezeExcitation. */
struct squeeze_excite {
    int64_t channels; /* between fc1 and fc2 */
    enum activation_kind activation, scale;
};
int32_t convnet_squeeze_excite(struct graph *graph, int32_t x, const char *name,
                               const struct squeeze_excite *config);

/* Steps [B,T,F], or what graph_flatten() takes, to one row for each sequence. `lengths` (-1: all
 * are T) say which steps have a part in mean and maximum. */
int32_t pool_steps(struct graph *graph, int32_t x, int32_t lengths, enum model_pooling pooling);

/* Once all is built: weights of convolutions start as kaiming_normal_(mode="fan_out") has them
 * (He, Zhang, Ren and Sun 2015, arXiv:1502.01852), their biases as zeros, as torchvision's models
 * begin. */
void convnet_initialize(struct graph *graph);

/* The end of a model's Python (struct model_python): the first convolution of torchvision's
 * networks of inverted residuals, for images with any number of channels. */
#define CONVNET_PYTHON_STEM                                                                       \
    "    stem = model.features[0][0]\n"                                                           \
    "    model.features[0][0] = nn.Conv2d($channels, stem.out_channels, 3, stride=$stem_stride, " \
    "padding=1, "                                                                                 \
    "bias=False)\n"                                                                               \
    "    return model\n"
