/* convolutions.h: finds the fastest method for each convolution of a model on a device. It measures
 * each layer in a network of that layer alone. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

enum { CONVOLUTION_DIRECTIONS = 3 }; /* forward, the gradient by the data, by the weights */

struct convolution_shape {
    int64_t batch, channels, height, width, out_channels;
    struct conv_attributes attributes;
    bool bias;
    bool samples;       /* x is the model's input, whose gradient is not computed */
    int parts;          /* parts of the model's work: graph_parts() of backend.h */
    bool slices_differ; /* graph_slices_differ() of backend.h, of the model */
    char methods[CONVOLUTION_METHODS_MAX]; /* convolution_methods() of backend.h */
};

/* Letter and seconds of each method. Each part of the work counts with its fastest run, and the
 * seconds are those of the slowest thread. INFINITY: the method was so slow that its measurement
 * was cut short. */
struct convolution_times {
    int count;
    struct {
        char letter;
        double seconds[CONVOLUTION_DIRECTIONS];
    } ways[CONVOLUTION_METHODS_MAX];
    char together[CONVOLUTION_DIRECTIONS + 1]; /* the letters of the fastest combination */
};

/* Whether the backend has several methods and can measure them. */
bool convolutions_have_choice(const struct backend *backend);
/* Takes some hundredths of a second to a second. Of a large layer it measures a part of the batch,
 * the image or the channels, divided into as many parts as the model's work. Afterwards programs
 * are divided by their amount of work: device_divide() of backend.h. */
int convolution_measure(const struct backend *backend, struct backend_device *device,
                        const struct convolution_shape *shape, struct convolution_times *times,
                        struct error *error);

/* Gives the times of a layer: measures them, or finds those of an earlier measurement. After a
 * failure the device chooses the layer's methods. */
typedef int convolution_times_function(void *context, const struct convolution_shape *shape,
                                       struct convolution_times *times);

/* Writes the choice for the convolutions of the graph's forward part: a text for
 * device_choose_convolutions() of backend.h, "" if all is left to the device. */
void convolutions_choose(const struct backend *backend, struct backend_device *device,
                         const struct graph *graph, convolution_times_function *times,
                         void *context, char choice[CONVOLUTION_CHOICES_MAX]);
