/* convnet.c: see convnet.h. */
#include "engine/models/convnet.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct layer_name layer_name(const char *format, ...)
{
    struct layer_name name;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(name.text, sizeof name.text, format, arguments);
    va_end(arguments);
    return name;
}

int64_t convnet_channels(double channels, double width)
{
    enum { DIVISOR = 8 };
    double wanted = channels * width;
    int64_t rounded = (int64_t)(wanted + DIVISOR / 2) / DIVISOR * DIVISOR;

    rounded = rounded < DIVISOR ? DIVISOR : rounded;
    return (double)rounded < 0.9 * wanted ? rounded + DIVISOR : rounded;
}

int32_t convnet_convolution(struct graph *graph, int32_t x, const char *name,
                            const struct convnet_window *window)
{
    const int kernel = window->kernel, padding = kernel / 2;
    const struct conv_attributes attributes = {.kernel = {kernel, kernel},
                                               .stride = {window->stride, window->stride},
                                               .padding = {padding, padding},
                                               .dilation = {1, 1},
                                               .groups = window->groups};
    const double fan_out = (double)window->channels * kernel * kernel;

    x = graph_conv2d(graph, x, name, window->channels, &attributes, false);
    graph_set_initializer(
        graph, layer_name("%s.weight", name).text,
        (struct initializer){.kind = INITIALIZER_NORMAL, .bound = (float)sqrt(2 / fan_out)});
    return x;
}
