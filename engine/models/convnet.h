/* convnet.h: what the builders of torchvision's convolutional networks share. */
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

/* A convolution without bias whose padding keeps the image at stride 1, its weights drawn as
 * kaiming_normal_(mode="fan_out", nonlinearity="relu") does (He, Zhang, Ren and Sun 2015,
 * arXiv:1502.01852). */
struct convnet_window {
    int64_t channels; /* of the result */
    int kernel, stride;
    int groups;
};
int32_t convnet_convolution(struct graph *graph, int32_t x, const char *name,
                            const struct convnet_window *window);
