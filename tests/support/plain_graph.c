/* plain_graph.c: see plain_graph.h. */
#include "tests/support/plain_graph.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plain_graph_init(struct plain_graph *plain, const struct graph *graph)
{
    plain->graph = graph;
    plain->rounds = plain->ambiguous = false;
    plain->values = calloc((size_t)graph->tensor_count, sizeof *plain->values);
    for (int32_t i = 0; i < graph->tensor_count; i++)
        plain->values[i] =
            calloc((size_t)graph_shape_elements(&graph->tensors[i].shape), sizeof(double));
}

void plain_graph_release(struct plain_graph *plain)
{
    for (int32_t i = 0; i < plain->graph->tensor_count; i++)
        free(plain->values[i]);
    free(plain->values);
}

static double *in(const struct plain_graph *plain, const struct graph_node *node, int number)
{
    bool there = number < node->input_count && node->input[number] >= 0;

    return there ? plain->values[node->input[number]] : NULL;
}

static double *out(const struct plain_graph *plain, const struct graph_node *node, int number)
{
    bool there = number < node->output_count && node->output[number] >= 0;

    return there ? plain->values[node->output[number]] : NULL;
}

/* If two numbers differ by less than this share of the largest one near them, float32 may order
 * them differently. */
static const double closeness = 1e-5;

static const int64_t *extent(const struct plain_graph *plain, int32_t tensor)
{
    return plain->graph->tensors[tensor].shape.extent;
}

static int64_t count(const struct plain_graph *plain, int32_t tensor)
{
    return graph_shape_elements(&plain->graph->tensors[tensor].shape);
}

static void clear(const struct plain_graph *plain, const struct graph_node *node)
{
    for (int i = 0; i < node->output_count; i++)
        if (node->output[i] >= 0)
            memset(plain->values[node->output[i]], 0,
                   (size_t)count(plain, node->output[i]) * sizeof(double));
}

/* ---- windows ---- */

/* One pixel of x that a pixel of y reads, for a channel of x and one of y. */
struct tap {
    int64_t sample, channel, out_channel, input, output, place;
};

typedef void tap_function(void *context, const struct tap *tap);

/* Visits all taps of the window over images x and y. `dense`: combines every channel of a group
 * with every other one; else each channel with itself. */
static void window_visit(const struct conv_attributes *a, const int64_t *x, const int64_t *y,
                         bool dense, tap_function *function, void *context)
{
    int64_t inputs = dense ? x[1] / a->groups : 1, outputs = dense ? y[1] / a->groups : 1;

    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t o = 0; o < y[1]; o++)
            for (int64_t i = 0; i < inputs; i++)
                for (int64_t p = 0; p < y[2] * y[3]; p++)
                    for (int64_t k = 0; k < a->kernel[0] * a->kernel[1]; k++) {
                        int64_t h = p / y[3] * a->stride[0] - a->padding[0] +
                                    k / a->kernel[1] * a->dilation[0];
                        int64_t w = p % y[3] * a->stride[1] - a->padding[1] +
                                    k % a->kernel[1] * a->dilation[1];
                        int64_t c = dense ? o / outputs * inputs + i : o;

                        if (h < 0 || h >= x[2] || w < 0 || w >= x[3])
                            continue;
                        function(
                            context,
                            &(struct tap){
                                .sample = n,
                                .channel = c,
                                .out_channel = o,
                                .input = ((n * x[1] + c) * x[2] + h) * x[3] + w,
                                .output = (n * y[1] + o) * y[2] * y[3] + p,
                                .place = dense ? (o * inputs + i) * a->kernel[0] * a->kernel[1] + k
                                               : k});
                    }
}

struct products {
    const double *a, *b;
    double *sum;
    enum { SUM_OUTPUT, SUM_INPUT, SUM_WEIGHTS } what;
};

static void add_product(void *context, const struct tap *tap)
{
    struct products *products = context;

    if (products->what == SUM_OUTPUT) /* x weights */
        products->sum[tap->output] += products->a[tap->input] * products->b[tap->place];
    else if (products->what == SUM_INPUT) /* dy weights */
        products->sum[tap->input] += products->a[tap->output] * products->b[tap->place];
    else /* x dy */
        products->sum[tap->place] += products->a[tap->input] * products->b[tap->output];
}

static void convolve(const struct plain_graph *plain, const struct graph_node *node)
{
    const struct conv_attributes *a = &node->attributes.conv;
    struct products products = {in(plain, node, 0), in(plain, node, 1), out(plain, node, 0),
                                SUM_OUTPUT};
    int32_t x = node->input[0], y = node->output[0];

    if (node->op == OP_CONV2D_BACKWARD_DATA) {
        x = node->output[0];
        y = node->input[0];
        products.what = SUM_INPUT;
    } else if (node->op == OP_CONV2D_BACKWARD_WEIGHTS) {
        y = node->input[1];
        products.what = SUM_WEIGHTS;
    }
    window_visit(a, extent(plain, x), extent(plain, y), true, add_product, &products);
    const int64_t *shape = extent(plain, y);
    int64_t pixels = shape[2] * shape[3];
    const double *bias = in(plain, node, 2);
    double *dbias = out(plain, node, 1);

    for (int64_t i = 0; i < count(plain, y); i++) {
        if (node->op == OP_CONV2D && bias)
            products.sum[i] += bias[i / pixels % shape[1]];
        if (node->op == OP_CONV2D_BACKWARD_WEIGHTS && dbias)
            dbias[i / pixels % shape[1]] += products.b[i];
    }
}

struct pooling {
    const double *from, *position;
    double *to, *arg;
    double scale;
    bool close; /* two numbers are nearly equal, but not both 0 from a ReLU */
};

static void pool_maximum(void *context, const struct tap *tap)
{
    struct pooling *pooling = context;
    double difference = fabs(pooling->from[tap->input] - pooling->to[tap->output]);

    pooling->close |= difference > 0 && difference < closeness;
    if (pooling->from[tap->input] > pooling->to[tap->output]) {
        pooling->to[tap->output] = pooling->from[tap->input];
        if (pooling->arg)
            pooling->arg[tap->output] = (double)tap->place;
    }
}

static void pool_maximum_backward(void *context, const struct tap *tap)
{
    struct pooling *pooling = context;

    if (pooling->position[tap->output] == (double)tap->place)
        pooling->to[tap->input] += pooling->from[tap->output];
}

static void pool_average(void *context, const struct tap *tap)
{
    struct pooling *pooling = context;

    pooling->to[tap->output] += pooling->from[tap->input] * pooling->scale;
}

static void pool_average_backward(void *context, const struct tap *tap)
{
    struct pooling *pooling = context;

    pooling->to[tap->input] += pooling->from[tap->output] * pooling->scale;
}

static void pool(struct plain_graph *plain, const struct graph_node *node, tap_function *function,
                 bool backward)
{
    struct conv_attributes a = node->attributes.conv;
    struct pooling pooling = {.from = in(plain, node, 0),
                              .position = in(plain, node, 1),
                              .to = out(plain, node, 0),
                              .arg = out(plain, node, 1),
                              .scale = 1.0 / (a.kernel[0] * a.kernel[1])};
    int32_t x = backward ? node->output[0] : node->input[0];
    int32_t y = backward ? node->input[0] : node->output[0];

    a.dilation[0] = a.dilation[1] = a.groups = 1;
    for (int64_t i = 0; node->op == OP_MAX_POOL2D && i < count(plain, y); i++)
        pooling.to[i] = -INFINITY;
    window_visit(&a, extent(plain, x), extent(plain, y), false, function, &pooling);
    plain->ambiguous |= pooling.close;
}

/* ---- the others ---- */

static void multiply(const struct plain_graph *plain, const struct graph_node *node)
{
    const double *a = in(plain, node, 0), *b = in(plain, node, 1), *bias = in(plain, node, 2);
    double *result = out(plain, node, 0), *dbias = out(plain, node, 1);
    int32_t weights = node->op == OP_LINEAR_BACKWARD_WEIGHTS ? node->output[0] : node->input[1];
    int64_t rows = plain->graph->batch;
    int64_t outputs = extent(plain, weights)[0], inputs = extent(plain, weights)[1];

    for (int64_t n = 0; n < rows; n++)
        for (int64_t o = 0; o < outputs; o++) {
            if (node->op == OP_LINEAR && bias)
                result[n * outputs + o] += bias[o];
            if (node->op == OP_LINEAR_BACKWARD_WEIGHTS && dbias)
                dbias[o] += b[n * outputs + o];
            for (int64_t i = 0; i < inputs; i++)
                if (node->op == OP_LINEAR)
                    result[n * outputs + o] += a[n * inputs + i] * b[o * inputs + i];
                else if (node->op == OP_LINEAR_BACKWARD_DATA)
                    result[n * inputs + i] += a[n * outputs + o] * b[o * inputs + i];
                else
                    result[o * inputs + i] += a[n * inputs + i] * b[n * outputs + o];
        }
}

static void activate(struct plain_graph *plain, const struct graph_node *node)
{
    const double *a = in(plain, node, 0), *saved = in(plain, node, 1);
    double *y = out(plain, node, 0);

    for (int64_t i = 0; i < count(plain, node->output[0]); i++)
        switch (node->attributes.activation) {
        case ACTIVATION_RELU:
            y[i] = saved ? a[i] * (saved[i] > 0) : fmax(a[i], 0);
            plain->ambiguous |= !saved && fabs(a[i]) < closeness && a[i] != 0;
            break;
        case ACTIVATION_TANH:
            y[i] = saved ? a[i] * (1 - saved[i] * saved[i]) : tanh(a[i]);
            break;
        case ACTIVATION_SILU: {
            double x = saved ? saved[i] : a[i], s = 1 / (1 + exp(-x));

            y[i] = saved ? a[i] * s * (1 + x * (1 - s)) : x * s;
            break;
        }
        default:
            fprintf(stderr, "plain_graph: no %s\n",
                    activation_kind_to_string(node->attributes.activation));
            exit(1);
        }
}

/* For a channel: the sums over all samples and pixels of a, and of a b (of a a if b is NULL). */
static void channel_sums(const int64_t *shape, int64_t channel, const double *a, const double *b,
                         double sums[2])
{
    int64_t pixels = shape[2] * shape[3];

    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < shape[0] * pixels; i++) {
        int64_t at = (i / pixels * shape[1] + channel) * pixels + i % pixels;

        sums[0] += a[at];
        sums[1] += a[at] * (b ? b[at] : a[at]);
    }
}

static void normalise(const struct plain_graph *plain, const struct graph_node *node)
{
    const double *x = in(plain, node, 0), *weight = in(plain, node, 1), *bias = in(plain, node, 2);
    double *running[2] = {in(plain, node, 3), in(plain, node, 4)};
    double *y = out(plain, node, 0), *mean = out(plain, node, 1), *inverse = out(plain, node, 2);
    const int64_t *shape = extent(plain, node->input[0]);
    int64_t pixels = shape[2] * shape[3];
    double elements = (double)(shape[0] * pixels), momentum = node->attributes.batch_norm.momentum;
    double epsilon = node->attributes.batch_norm.epsilon;

    for (int64_t c = 0; c < shape[1]; c++) {
        double sums[2], centre = running[0][c], factor = 1 / sqrt(running[1][c] + epsilon);

        if (node->attributes.batch_norm.training) {
            double variance = 0;

            channel_sums(shape, c, x, NULL, sums);
            centre = sums[0] / elements;
            for (int64_t i = 0; i < shape[0] * pixels; i++)
                variance += pow(x[(i / pixels * shape[1] + c) * pixels + i % pixels] - centre, 2) /
                            elements;
            factor = 1 / sqrt(variance + epsilon);
            mean[c] = centre;
            inverse[c] = factor;
            running[0][c] += momentum * (centre - running[0][c]);
            running[1][c] += momentum * (variance * elements / (elements - 1) - running[1][c]);
        }
        for (int64_t i = 0; i < shape[0] * pixels; i++) {
            int64_t at = (i / pixels * shape[1] + c) * pixels + i % pixels;

            y[at] = (x[at] - centre) * factor * weight[c] + bias[c];
        }
    }
}

static void normalise_backward(const struct plain_graph *plain, const struct graph_node *node)
{
    const double *x = in(plain, node, 0), *dy = in(plain, node, 1), *weight = in(plain, node, 2);
    const double *mean = in(plain, node, 3), *inverse = in(plain, node, 4);
    double *dx = out(plain, node, 0), *dweight = out(plain, node, 1), *dbias = out(plain, node, 2);
    const int64_t *shape = extent(plain, node->input[0]);
    int64_t pixels = shape[2] * shape[3];
    double elements = (double)(shape[0] * pixels);

    for (int64_t c = 0; c < shape[1]; c++) {
        double sums[2];

        channel_sums(shape, c, dy, x, sums);
        dbias[c] = sums[0];
        dweight[c] = (sums[1] - mean[c] * sums[0]) * inverse[c];
        for (int64_t i = 0; dx && i < shape[0] * pixels; i++) {
            int64_t at = (i / pixels * shape[1] + c) * pixels + i % pixels;
            double normal = (x[at] - mean[c]) * inverse[c];

            dx[at] = weight[c] * inverse[c] *
                     (dy[at] - dbias[c] / elements - normal * dweight[c] / elements);
        }
    }
}

static double round_to(enum tensor_type type, double value)
{
    float single = (float)value;
    uint32_t bits;

    if (type == TENSOR_FLOAT16)
        return (double)(_Float16)single;
    if (type != TENSOR_BFLOAT16 || !isfinite(single))
        return single;
    memcpy(&bits, &single, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&single, &bits, sizeof bits);
    return single;
}

static void elementwise(const struct plain_graph *plain, const struct graph_node *node)
{
    const double *a = in(plain, node, 0), *b = in(plain, node, 1);
    double *y = out(plain, node, 0);
    int64_t elements = count(plain, node->input[0]);

    if (node->op == OP_MSE)
        return; /* the loss is no tensor */
    for (int64_t i = 0; i < elements; i++)
        if (node->op == OP_MSE_BACKWARD)
            y[i] = 2 * (a[i] - b[i]) / (double)elements;
        else if (node->op == OP_ADD)
            y[i] = a[i] + b[i];
        else if (node->op == OP_CAST)
            y[i] = round_to(plain->graph->tensors[node->output[0]].type, a[i]);
        else
            y[i] = a[i];
}

static void node_run(struct plain_graph *plain, const struct graph_node *node)
{
    clear(plain, node);
    switch (node->op) {
    case OP_CONV2D:
    case OP_CONV2D_BACKWARD_DATA:
    case OP_CONV2D_BACKWARD_WEIGHTS:
        convolve(plain, node);
        break;
    case OP_LINEAR:
    case OP_LINEAR_BACKWARD_DATA:
    case OP_LINEAR_BACKWARD_WEIGHTS:
        multiply(plain, node);
        break;
    case OP_MAX_POOL2D:
        pool(plain, node, pool_maximum, false);
        break;
    case OP_MAX_POOL2D_BACKWARD:
        pool(plain, node, pool_maximum_backward, true);
        break;
    case OP_AVERAGE_POOL2D:
        pool(plain, node, pool_average, false);
        break;
    case OP_AVERAGE_POOL2D_BACKWARD:
        pool(plain, node, pool_average_backward, true);
        break;
    case OP_BATCH_NORM:
        normalise(plain, node);
        break;
    case OP_BATCH_NORM_BACKWARD:
        normalise_backward(plain, node);
        break;
    case OP_ACTIVATION:
    case OP_ACTIVATION_BACKWARD:
        activate(plain, node);
        break;
    case OP_RESHAPE:
    case OP_ADD:
    case OP_CAST:
    case OP_MSE:
    case OP_MSE_BACKWARD:
        elementwise(plain, node);
        break;
    default:
        fprintf(stderr, "plain_graph: no %s\n", graph_op_to_string(node->op));
        exit(1);
    }
}

static void round_results(const struct plain_graph *plain, const struct graph_node *node)
{
    for (int k = 0; k < node->output_count; k++)
        for (int64_t i = 0; node->output[k] >= 0 && i < count(plain, node->output[k]); i++)
            out(plain, node, k)[i] = (float)out(plain, node, k)[i];
}

void plain_graph_run(struct plain_graph *plain)
{
    for (int32_t i = 0; i < plain->graph->node_count; i++) {
        if (plain->graph->nodes[i].phase == GRAPH_UPDATE)
            continue;
        node_run(plain, &plain->graph->nodes[i]);
        if (plain->rounds)
            round_results(plain, &plain->graph->nodes[i]);
    }
}
