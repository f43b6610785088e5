/* convolutions.h: the ways to do the convolutions of a model, and which are the fastest on a
 * device: measured layer by layer, with a network of that one layer. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

enum { CONVOLUTION_DIRECTIONS = 3 }; /* forward, the gradient by the data, by the weights */

struct convolution_shape {
    int64_t batch, channels, height, width, out_channels;
    struct conv_attributes attributes;
    bool bias;
    bool samples; /* x is the model's input, of which there is no gradient */
    int parts;    /* of the model's work: graph_parts() of backend.h */
    char methods[CONVOLUTION_METHODS_MAX]; /* convolution_methods() of backend.h */
};

/* Of each way its letter and seconds, those of the thread that takes longest, of the least that
 * each part of the work took; INFINITY: so much slower than another that it was not measured to the
 * end. */
struct convolution_times {
    int count;
    struct {
        char letter;
        double seconds[CONVOLUTION_DIRECTIONS];
    } ways[CONVOLUTION_METHODS_MAX];
    char together[CONVOLUTION_DIRECTIONS + 1]; /* the letters that are the fastest together */
};

/* Whether the device has several ways, and can be measured. */
bool convolutions_have_choice(const struct backend *backend);
/* Some hundredths of a second to a second. Where the layer is large, a part of its batch and of
 * its images stands for it, in as many parts as the model. Programs that are prepared afterwards
 * are divided by their work: device_divide() of backend.h. */
int convolution_measure(const struct backend *backend, struct backend_device *device,
                        const struct convolution_shape *shape, struct convolution_times *times,
                        struct error *error);

/* Where times come from: measured, or kept from an earlier measurement. A failure leaves the layer
 * to the device. */
typedef int convolution_times_function(void *context, const struct convolution_shape *shape,
                                       struct convolution_times *times);

/* Writes the choice for the convolutions of the graph's forward part, "" where all of it is the
 * device's own: device_choose_convolutions() of backend.h. */
void convolutions_choose(const struct backend *backend, struct backend_device *device,
                         const struct graph *graph, convolution_times_function *times,
                         void *context, char choice[CONVOLUTION_CHOICES_MAX]);
