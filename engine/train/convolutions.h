/* convolutions.h: how long the two ways to do a convolution of 3x3 take on a device, measured with
 * a network of this one layer. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

struct convolution_shape {
    int64_t batch, channels, height, width, out_channels;
    int padding[2];
    bool bias;
    bool has_choice; /* the device knows two ways: else there is nothing to measure */
};

enum { CONVOLUTION_DIRECTIONS = 3 }; /* forward, the gradient by the data, by the weights */

/* Seconds of all parts of the work together, the least that each took. */
struct convolution_times {
    double chosen[CONVOLUTION_DIRECTIONS]; /* as the device thinks best */
    double direct[CONVOLUTION_DIRECTIONS];
};

/* Whether the device has two ways, and can be measured. */
bool convolutions_have_choice(const struct backend *backend);
/* The layers of the graph's forward part that the choice counts, in order; returns how many, at
 * most `most`. */
int convolutions_list(const struct backend *backend, struct backend_device *device,
                      const struct graph *graph, struct convolution_shape *shapes, int most);
/* Some milliseconds to a second. */
int convolution_measure(const struct backend *backend, struct backend_device *device,
                        const struct convolution_shape *shape, struct convolution_times *times,
                        struct error *error);
