/* inverted_residual.h: the block of MobileNet and EfficientNet (Sandler et al. 2018,
 * arXiv:1801.04381), as torchvision's InvertedResidual and MBConv have it. */
#pragma once

#include "engine/models/convnet.h"

struct inverted_residual {
    int64_t expanded; /* channels of the depthwise convolution */
    int64_t channels; /* of the result */
    int kernel, stride;
    enum activation_kind activation;
    struct squeeze_excite squeeze_excite; /* channels 0: none */
    float epsilon, momentum;              /* batch norm */
    float drop_probability;               /* of the block in a sample: stochastic depth */
};

/* [expand to `expanded` by 1x1] [depthwise] [squeeze-and-excite] [project to `channels` by 1x1],
 * then stochastic depth and the sum with x where shapes agree. The parts are "<name>.block.<i>". */
int32_t inverted_residual_append(struct graph *graph, int32_t x, const char *name,
                                 const struct inverted_residual *block);
