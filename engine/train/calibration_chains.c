/* calibration_chains.c: calibrates a device that does not tell how long each node takes. It times a
 * short chain of one operator and a longer one. The difference is the time of the additional
 * operators. The fastest of several rounds counts.
 *
 * It finds the speeds of large products, convolutions and activations, and of the smallest kernel,
 * for a roofline model (prediction.c). It does not find the times of a model's own operators. */
#include "engine/train/calibration_chains.h"

#include "engine/graph/cost.h"
#include "engine/graph/forward.h"
#include "engine/train/session.h"

#include <errno.h>
#include <stdio.h>

enum { SHORT_CHAIN = 4, ROUNDS = 4, RUNS_MAX = 1000, WARM_UP = 2 };
static const double round_seconds = 0.02;

/* `repeated` is appended `length` times. A layer before it makes its input of a few numbers, and
 * one behind it makes one number of its output. The host writes each batch, so batches have to be
 * small. */
struct chain {
    int32_t (*begin)(const struct chain *chain, struct graph *graph, int32_t x);
    int32_t (*repeated)(const struct chain *chain, struct graph *graph, int32_t x,
                        const char *name);
    int64_t batch, width, side; /* `width`: features, or channels of images of side × side pixels */
    int length, longer;         /* `longer`: of the longer of the two chains */
    enum tensor_type type;
    enum graph_op op; /* the repeated operator */
};

/* The time and the work of one of the repeated nodes. */
struct link {
    double seconds, flops, bytes;
};

static int32_t begin_features(const struct chain *chain, struct graph *graph, int32_t x)
{
    return graph_linear(graph, x, "begin", chain->width, false);
}

static const struct conv_attributes window_of_3 = {
    .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};

static int32_t begin_image(const struct chain *chain, struct graph *graph, int32_t x)
{
    return graph_conv2d(graph, x, "begin", chain->width, &window_of_3, false);
}

static int32_t repeat_linear(const struct chain *chain, struct graph *graph, int32_t x,
                             const char *name)
{
    return graph_linear(graph, x, name, chain->width, false);
}

static int32_t repeat_convolution(const struct chain *chain, struct graph *graph, int32_t x,
                                  const char *name)
{
    return graph_conv2d(graph, x, name, chain->width, &window_of_3, false);
}

static int32_t repeat_activation(const struct chain *chain, struct graph *graph, int32_t x,
                                 const char *name)
{
    (void)chain;
    return graph_activation(graph, x, name, ACTIVATION_TANH);
}

static int build_chain(void *context, struct graph *graph, struct error *error)
{
    const struct chain *chain = context;
    int64_t shape[] = {chain->side ? 1 : 8, chain->side, chain->side};
    int32_t x = graph_input(graph, TENSOR_FLOAT32, shape, chain->side ? 3 : 1);

    x = chain->begin(chain, graph, x);
    for (int i = 0; i < chain->length; i++) {
        char name[16];

        snprintf(name, sizeof name, "%d", i);
        x = chain->repeated(chain, graph, x, name);
    }
    if (chain->side)
        x = graph_flatten(graph, graph_global_average_pool2d(graph, x, "pool"), "flat");
    x = graph_linear(graph, x, "end", 1, false);
    graph_mse(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* ---- running ---- */

/* Fills in samples between -0.5 and 0.5. The targets stay 0. */
static struct session_batch fill_batch(struct session *session, const struct graph *graph)
{
    float *samples = session_staging(session);
    int64_t count = graph_shape_elements(&graph->tensors[graph->input].shape);

    for (int64_t i = 0; i < count; i++)
        samples[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    return (struct session_batch){.count = graph->batch,
                                  .samples = samples,
                                  .targets =
                                      (char *)samples + session_input_bytes(graph, graph->input)};
}

/* Measures the seconds of one of `runs` runs, until the device has finished the last one. */
static int time_round(struct session *session, const struct session_batch *batch, int runs,
                      double *seconds, struct error *error)
{
    double begin = session_seconds(session);
    struct step_metrics ignored;
    int r = 0;

    for (int i = 0; r == 0 && i < runs; i++)
        r = session_evaluate(session, batch, error);
    session_read_metrics(session, false, &ignored); /* waits for the device */
    *seconds = (session_seconds(session) - begin) / runs;
    return r;
}

static int time_runs(struct session *session, const struct graph *graph, double *best,
                     struct error *error)
{
    struct session_batch batch = fill_batch(session, graph);
    double seconds;
    int runs = WARM_UP, r = time_round(session, &batch, runs, &seconds, error);

    *best = 0;
    for (int i = 0; r == 0 && i <= ROUNDS; i++) {
        r = time_round(session, &batch, runs, &seconds, error);
        if (i > 0 && (*best == 0 || seconds < *best)) /* the first tells how many to make */
            *best = seconds;
        runs = (int)(round_seconds / (seconds > 1e-9 ? seconds : 1e-9));
        runs = runs < 1 ? 1 : runs > RUNS_MAX ? RUNS_MAX : runs;
    }
    return r;
}

static int prepare_chain(const struct backend *backend, struct backend_device *device,
                         struct chain *chain, struct session **session, struct error *error)
{
    struct session_config config = {.backend = backend,
                                    .device = device,
                                    .build = build_chain,
                                    .build_context = chain,
                                    .compute_type = chain->type,
                                    .evaluation_batches = {chain->batch}};
    struct session *planned = NULL;
    int r = session_prepare(&config, &planned, error);

    if (r == 0) {
        const struct graph *graph = session_graph(planned);

        config.staging_bytes =
            session_input_bytes(graph, graph->input) + session_input_bytes(graph, graph->target);
    }
    session_free(planned);
    return r == 0 ? session_prepare(&config, session, error) : r;
}

static int time_chain(const struct backend *backend, struct backend_device *device,
                      struct chain *chain, double *seconds, struct link *link, struct error *error)
{
    struct session *session = NULL;
    int r = prepare_chain(backend, device, chain, &session, error);

    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0) {
        const struct graph *graph = session_graph(session);

        for (int32_t i = 0; i < graph->node_count; i++) {
            struct cost cost = graph_node_cost(graph, &graph->nodes[i]);

            if (graph->nodes[i].op != chain->op || cost.flops < link->flops)
                continue;
            link->flops = cost.flops;
            link->bytes = cost.bytes;
        }
        r = time_runs(session, graph, seconds, error);
    }
    session_free(session);
    return r;
}

static int measure_link(const struct backend *backend, struct backend_device *device,
                        struct chain chain, struct link *link, struct error *error)
{
    double short_seconds = 0, long_seconds = 0;
    int r;

    *link = (struct link){0};
    chain.length = SHORT_CHAIN;
    r = time_chain(backend, device, &chain, &short_seconds, link, error);
    chain.length = chain.longer;
    if (r == 0)
        r = time_chain(backend, device, &chain, &long_seconds, link, error);
    link->seconds = (long_seconds - short_seconds) / (chain.longer - SHORT_CHAIN);
    if (r == 0 && !(link->seconds > 0)) /* the difference was lost in other work of the machine */
        link->seconds = long_seconds / chain.longer;
    if (r == 0 && !(link->seconds > 0))
        return error_set(error, -EIO, "%d times %s took no time at all", chain.longer,
                         graph_op_to_string(chain.op));
    return r;
}

/* ---- what is measured ---- */

static int measure_products(const struct backend *backend, struct backend_device *device,
                            unsigned types, const struct calibration_sizes *sizes,
                            struct calibration *calibration, struct error *error)
{
    struct chain linear = {.begin = begin_features,
                           .repeated = repeat_linear,
                           .batch = sizes->product,
                           .width = sizes->product,
                           .longer = 12,
                           .op = OP_LINEAR};
    struct chain convolution = {.begin = begin_image,
                                .repeated = repeat_convolution,
                                .batch = sizes->images,
                                .width = sizes->channels,
                                .side = sizes->side,
                                .longer = 12,
                                .op = OP_CONV2D};
    struct link link;
    int r = 0;

    for (int type = 0; r == 0 && type < CALIBRATION_TYPES; type++) {
        if (!(types >> type & 1))
            continue;
        linear.type = convolution.type = (enum tensor_type)type;
        r = measure_link(backend, device, linear, &link, error);
        if (r == 0)
            calibration->flops_per_second[type] = link.flops / link.seconds;
        if (r == 0)
            r = measure_link(backend, device, convolution, &link, error);
        if (r == 0)
            calibration->convolution_flops_per_second[type] = link.flops / link.seconds;
    }
    return r;
}

static int measure_bandwidths(const struct backend *backend, struct backend_device *device,
                              const struct calibration_sizes *sizes,
                              struct calibration *calibration, struct error *error)
{
    int64_t width = sizes->activation;
    int r = 0;

    for (int i = CALIBRATION_BANDWIDTHS - 1; r == 0 && i >= 0; i--, width /= 8) {
        struct chain chain = {.begin = begin_features,
                              .repeated = repeat_activation,
                              .batch = sizes->product,
                              .width = width > 1 ? width : 1,
                              .longer = 20,
                              .op = OP_ACTIVATION};
        struct link link;

        r = measure_link(backend, device, chain, &link, error);
        if (r == 0)
            calibration->bandwidths[i] = (struct bandwidth){link.bytes, link.bytes / link.seconds};
    }
    return r;
}

static int measure_kernel(const struct backend *backend, struct backend_device *device,
                          struct calibration *calibration, struct error *error)
{
    struct chain chain = {.begin = begin_features,
                          .repeated = repeat_activation,
                          .batch = 16,
                          .width = 16,
                          .longer = 68,
                          .op = OP_ACTIVATION};
    struct link link;
    int r = measure_link(backend, device, chain, &link, error);

    calibration->kernel_seconds = link.seconds;
    return r;
}

int calibration_measure_chains(const struct backend *backend, struct backend_device *device,
                               unsigned types, const struct calibration_sizes *sizes,
                               struct calibration *calibration, struct error *error)
{
    int r = measure_products(backend, device, types, sizes, calibration, error);

    if (r == 0)
        r = measure_bandwidths(backend, device, sizes, calibration, error);
    if (r == 0)
        r = measure_kernel(backend, device, calibration, error);
    return r;
}
