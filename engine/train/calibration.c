/* calibration.c: see calibration.h. Each graph runs several times under a profile of one step, and
 * the fastest run counts: other work of the machine can only slow a run down. */
#include "engine/train/calibration.h"

#include "base/clock.h"
#include "engine/graph/forward.h"
#include "engine/models/models.h"
#include "engine/train/calibration_chains.h"
#include "engine/train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MIN = 3, RUNS_MAX = 200, CHAIN_LENGTH = 32, LABEL_CLASSES = 10, VOCABULARY = 64 };
static const double round_seconds = 0.03;

/* ---- running a session for a while ---- */

/* A graph to run. Its samples are float32 or characters; its targets are labels or float32. */
struct sample {
    session_build_function build;
    void *context;
    int64_t batch;
    bool training;
    enum tensor_type compute_type;
    struct optimizer_config optimizer;
};

/* `take` gets the profile of each run that was faster than the runs before. */
struct taker {
    int (*take)(void *context, const struct profile *profile, struct error *error);
    void *context;
};

/* Fills a batch with samples between -0.5 and 0.5, and labels of all classes. */
static struct session_batch fill_batch(struct session *session)
{
    const struct graph *graph = session_graph(session);
    float *samples = session_staging(session);
    void *targets = (char *)samples + session_input_bytes(graph, graph->input);
    int64_t count = graph_shape_elements(&graph->tensors[graph->input].shape);

    for (int64_t i = 0; i < count; i++)
        if (graph->tensors[graph->input].type == TENSOR_INT32)
            ((int32_t *)(void *)samples)[i] = (int32_t)(i * 7919 % VOCABULARY);
        else
            samples[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    for (int64_t i = 0; graph->tensors[graph->target].type == TENSOR_INT32 && i < graph->batch; i++)
        ((int32_t *)targets)[i] = (int32_t)(i * 31 % LABEL_CLASSES);
    return (struct session_batch){.count = graph->batch, .samples = samples, .targets = targets};
}

static int run_once(struct session *session, const struct sample *sample,
                    const struct session_batch *batch, struct profile *profile, struct error *error)
{
    /* with a learning rate of 0 the weights stay in their range */
    static const struct step_scalars scalars = {
        .step = 1, .batch = 1, .gradient_scale = 1, .momentum_product = 0.9};
    int r;

    profile_forget(profile);
    profile_batch_begin(profile, batch->count);
    r = sample->training ? session_step(session, batch, PROGRAM_STEP, &scalars, error)
                         : session_evaluate(session, batch, error);
    profile_batch_end(profile);
    return r;
}

static int run_for_a_while(struct session *session, const struct sample *sample,
                           const struct taker *taker, struct error *error)
{
    struct session_batch batch = fill_batch(session);
    struct profile *profile = NULL;
    int64_t best = INT64_MAX;
    double begin = clock_monotonic();
    int r = profile_create(session, 1, &profile, error);

    for (int i = 0; r == 0 && i < RUNS_MAX; i++) {
        int64_t took;

        if (i >= RUNS_MIN && clock_monotonic() - begin > round_seconds)
            break;
        r = run_once(session, sample, &batch, profile, error);
        took = profile->runs[0].end - profile->runs[0].begin;
        if (r == 0 && took < best) {
            best = took;
            r = taker->take(taker->context, profile, error);
        }
    }
    profile_free(profile);
    return r;
}

/* How many bytes of samples and targets the session's caller has to hold, which a plan tells. */
static int staging_bytes(const struct session_config *config, size_t *bytes, struct error *error)
{
    struct session *session = NULL;
    int r = session_prepare(config, &session, error);

    if (r == 0) {
        const struct graph *graph = session_graph(session);

        *bytes =
            session_input_bytes(graph, graph->input) + session_input_bytes(graph, graph->target);
    }
    session_free(session);
    return r;
}

static int measure(const struct backend *backend, struct backend_device *device,
                   const struct sample *sample, const struct taker *taker, struct error *error)
{
    struct session_config config = {.backend = backend,
                                    .device = device,
                                    .build = sample->build,
                                    .build_context = sample->context,
                                    .optimizer = sample->optimizer,
                                    .compute_type = sample->compute_type};
    struct session *session = NULL;
    int r;

    *(sample->training ? config.training_batches : config.evaluation_batches) = sample->batch;
    r = staging_bytes(&config, &config.staging_bytes, error);
    if (r == 0)
        r = session_prepare(&config, &session, error);
    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0)
        r = run_for_a_while(session, sample, taker, error);
    session_free(session);
    return r;
}

/* ---- one operator ---- */

/* A graph around one operator. Only the time of that operator counts. */
struct probe {
    enum graph_op op;
    int64_t width, features; /* for build_probe() */
    double seconds, flops, bytes;
};

static int take_probe(void *context, const struct profile *profile, struct error *error)
{
    struct probe *probe = context;
    struct profile_totals totals;
    int r = profile_sum_up(profile, &totals, error);

    for (int32_t i = 0; r == 0 && i < profile->graph->node_count; i++) {
        const struct graph_node *node = &profile->graph->nodes[i];
        struct cost cost = graph_node_cost(profile->graph, node);
        double seconds = (double)totals.nodes[i].nanoseconds * 1e-9 / totals.lanes;

        if (node->op != probe->op || (probe->seconds > 0 && seconds >= probe->seconds))
            continue;
        probe->seconds = seconds;
        probe->flops = cost.flops;
        probe->bytes = cost.bytes;
    }
    free(totals.nodes);
    return r;
}

static int finish_with_loss(struct graph *graph, int32_t tensor, struct error *error)
{
    graph_mse(graph, tensor);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* Builds an activation behind which a linear layer stands. Without that layer's work, the backend
 * would not divide the graph among the threads. */
static int build_probe(void *context, struct graph *graph, struct error *error)
{
    const struct probe *probe = context;
    int32_t x = graph_input(graph, TENSOR_FLOAT32, &probe->width, 1);

    x = graph_activation(graph, x, "0", ACTIVATION_RELU);
    x = graph_linear(graph, x, "1", probe->features, false);
    return finish_with_loss(graph, x, error);
}

static int build_chain(void *context, struct graph *graph, struct error *error)
{
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){16}, 1);

    (void)context;
    for (int i = 0; i < CHAIN_LENGTH; i++) {
        char name[16];

        snprintf(name, sizeof name, "%d", i);
        x = graph_linear(graph, x, name, 16, false);
    }
    return finish_with_loss(graph, x, error);
}

/* The work of a forward pass, in operations, from which the backend divides it among eight
 * tasks. */
static const double divided_flops = 256e6;

static int measure_bandwidths(const struct backend *backend, struct backend_device *device,
                              struct calibration *calibration, struct error *error)
{
    static const int64_t widths[CALIBRATION_BANDWIDTHS] = {512, 4096, 32768, 65536};
    int r = 0;

    for (int i = 0; r == 0 && i < CALIBRATION_BANDWIDTHS; i++) {
        enum { BATCH = 128 };
        struct probe probe = {.op = OP_ACTIVATION, .width = widths[i]};
        struct sample sample = {.build = build_probe, .context = &probe, .batch = BATCH};
        struct taker taker = {take_probe, &probe};

        probe.features = (int64_t)(divided_flops / (2.0 * BATCH * (double)widths[i]));
        r = measure(backend, device, &sample, &taker, error);
        if (r == 0)
            calibration->bandwidths[i] =
                (struct bandwidth){probe.bytes, probe.bytes / probe.seconds};
    }
    return r;
}

static int measure_products(const struct backend *backend, struct backend_device *device,
                            unsigned types, struct calibration *calibration, struct error *error)
{
    enum { SIDE = 1024 };
    int r = 0;

    for (int type = 0; r == 0 && type < CALIBRATION_TYPES; type++) {
        struct probe probe = {.op = OP_LINEAR, .width = SIDE, .features = SIDE};
        struct sample sample = {.build = build_probe,
                                .context = &probe,
                                .batch = SIDE,
                                .compute_type = (enum tensor_type)type};
        struct taker taker = {take_probe, &probe};

        if (!(types >> type & 1))
            continue;
        r = measure(backend, device, &sample, &taker, error);
        if (r == 0)
            calibration->flops_per_second[type] = probe.flops / probe.seconds;
    }
    return r;
}

static int measure_kernel(const struct backend *backend, struct backend_device *device,
                          struct calibration *calibration, struct error *error)
{
    struct probe probe = {.op = OP_LINEAR};
    struct sample sample = {.build = build_chain, .batch = 1};
    struct taker taker = {take_probe, &probe};
    int r = measure(backend, device, &sample, &taker, error);

    calibration->kernel_seconds = probe.seconds;
    return r;
}

/* ---- models ---- */

enum { SAMPLE_LAYERS = 3 };

/* Small models of all families, whose layers differ in size, so that layers of other models
 * resemble some of them. Images are squares of `side`. */
static const struct model_sample {
    enum model_kind kind;
    int64_t batch;
    int64_t features, side;        /* inputs, channels of the images, or characters of a text */
    int64_t widths[SAMPLE_LAYERS]; /* of linear layers, convolutions, or a character */
    int64_t hidden; /* widths of the linear layers behind convolutions and embeddings */
    int kernel;
    enum activation_kind activation;
    bool batch_norm, dropout;
    double width;
    enum optimizer_kind optimizer;
    bool low; /* measured in the low-precision types, too */
} samples[] = {
    {MODEL_MLP, 64, 64, .widths = {128}, .optimizer = OPTIMIZER_ADAM, .low = true},
    {MODEL_MLP, 16, 20, .widths = {32, 64}, .activation = ACTIVATION_TANH},
    {MODEL_MLP, 128, 784, .widths = {256}, .optimizer = OPTIMIZER_ADAM, .low = true},
    {MODEL_MLP, 24, 256, .widths = {512, 48, 240}, .activation = ACTIVATION_GELU,
     .batch_norm = true, .optimizer = OPTIMIZER_ADAMW, .low = true},
    {MODEL_MLP, 128, 1024, .widths = {1024, 1024}, .dropout = true, .optimizer = OPTIMIZER_ADAM,
     .low = true},
    {MODEL_MLP, 192, 100, .widths = {1200, 400}, .batch_norm = true, .dropout = true,
     .optimizer = OPTIMIZER_ADAMW},
    {MODEL_MLP, 32, 1800, .widths = {192, 1800}, .activation = ACTIVATION_TANH, .low = true,
     .optimizer = OPTIMIZER_ADAM},
    {MODEL_MLP, 256, 40, .widths = {96, 800, 64}, .activation = ACTIVATION_GELU, .low = true},
    {MODEL_CHAR_MLP, 128, 16, .widths = {24}, .hidden = 256, .activation = ACTIVATION_TANH,
     .optimizer = OPTIMIZER_ADAM, .low = true},
    {MODEL_CHAR_MLP, 32, 32, .widths = {56}, .hidden = 96, .activation = ACTIVATION_TANH,
     .optimizer = OPTIMIZER_ADAMW},
    {MODEL_CNN, 64, 1, 28, {32, 64}, 128, 3, .optimizer = OPTIMIZER_ADAM, .low = true},
    {MODEL_CNN, 16, 3, 32, {28, 100}, 64, 5, .batch_norm = true, .optimizer = OPTIMIZER_ADAMW},
    {MODEL_CNN, 128, 3, 16, {12, 40}, 300, .kernel = 3},
    {MODEL_CNN, 32, 1, 48, {64}, 48, 5, .low = true, .optimizer = OPTIMIZER_ADAM},
    {MODEL_CNN, 16, 3, 32, {20, 36, 120}, 100, 3, .batch_norm = true},
    {MODEL_CNN, 160, 1, 28, {16, 32}, 64, 3, .batch_norm = true},
    {MODEL_CNN, 64, 3, 16, {48, 24, 80}, 32, 5, .optimizer = OPTIMIZER_ADAM},
    {MODEL_CNN, 24, 1, 32, {100, 8, 32}, 200, 3, .optimizer = OPTIMIZER_ADAM},
    {MODEL_CNN, 48, 3, 48, {8, 76}, 64, .kernel = 3},
    {MODEL_RESNET18, 8, 3, 40, .width = 0.5, .low = true},
    {MODEL_RESNET18, 32, 3, 16, .width = 0.25},
    {MODEL_RESNET18, 8, 3, 16, .width = 1},
    {MODEL_RESNET18, 48, 3, 16, .width = 0.5, .low = true},
    {MODEL_MOBILENET_V3_SMALL, 64, 3, 32, .width = 1},
    {MODEL_MOBILENET_V3_SMALL, 16, 3, 64, .width = 0.5},
    {MODEL_EFFICIENTNET_B0, 16, 3, 48, .width = 0.5},
    {MODEL_EFFICIENTNET_B0, 8, 3, 48, .width = 1},
};

static int build_model(void *context, struct graph *graph, struct error *error)
{
    const struct model_sample *model = context;
    bool text = model_traits(model->kind) & MODEL_READS_TEXT;
    bool images = model_traits(model->kind) & MODEL_READS_IMAGES;
    struct model_data data = {.type = text ? TENSOR_INT32 : TENSOR_FLOAT32,
                              .sample_shape = {model->features, model->side, model->side},
                              .rank = images ? 3 : 1,
                              .vocabulary = text ? VOCABULARY : 0,
                              .outputs = text ? VOCABULARY : LABEL_CLASSES};
    struct model_config config = {.kind = model->kind,
                                  .hidden = model->hidden ? &model->hidden : model->widths,
                                  .hidden_count = 1,
                                  .channels = model->widths,
                                  .kernel = model->kernel,
                                  .activation = model->activation,
                                  .batch_norm = model->batch_norm,
                                  .dropout = model->dropout ? 0.1f : 0,
                                  .embedding = model->widths[0],
                                  .width = model->width,
                                  .stem_stride = 2};
    int layers = 0;

    while (layers < SAMPLE_LAYERS && model->widths[layers])
        layers++;
    *(images ? &config.channel_count : &config.hidden_count) = text ? 1 : layers;
    if (images && !layers) /* only models with images have them */
        config.dropout = config.stochastic_depth = 0.2f;
    return model_build(&config, &data, graph, error);
}

/* Takes the rates of a step that was faster than the ones before. */
static int take_rates(void *context, const struct profile *profile, struct error *error)
{
    operator_rates_release(context);
    return operator_rates_add_profile(context, profile, error);
}

/* Measures one model, whose products have the given type. */
static int measure_model(const struct backend *backend, struct backend_device *device,
                         const struct model_sample *model, enum tensor_type type,
                         struct operator_rates *rates, struct error *error)
{
    struct operator_rates own = {0};
    struct model_sample copy = *model;
    struct sample sample = {.build = build_model,
                            .context = &copy,
                            .batch = model->batch,
                            .training = true,
                            .compute_type = type,
                            .optimizer = {.kind = model->optimizer,
                                          .momentum = 0.9,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = 1e-8}};
    struct taker taker = {take_rates, &own};
    int r = measure(backend, device, &sample, &taker, error);

    for (int i = 0; r == 0 && i < own.count; i++)
        r = operator_rates_add(rates, &own.entries[i], error);
    operator_rates_release(&own);
    return r;
}

static int measure_models(const struct backend *backend, struct backend_device *device,
                          unsigned types, struct calibration *calibration, struct error *error)
{
    int r = 0;

    for (int type = 0; type < CALIBRATION_TYPES; type++)
        for (size_t i = 0; r == 0 && i < sizeof samples / sizeof *samples; i++)
            if (types >> type & 1 && (type == TENSOR_FLOAT32 || samples[i].low))
                r = measure_model(backend, device, &samples[i], (enum tensor_type)type,
                                  &calibration->rates, error);
    return r;
}

/* Sizes that keep a GPU busy. Each tensor takes at most a part of its memory (0: no limit).
 * Products have as many weights as the chain has links. */
static struct calibration_sizes sizes_for(uint64_t memory_bytes)
{
    enum { PRODUCT_MIN = 64, ACTIVATION_MIN = 8 };
    struct calibration_sizes sizes = {
        .product = 4096, .images = 256, .channels = 128, .side = 32, .activation = 32768};
    uint64_t most = memory_bytes ? memory_bytes / 16 / sizeof(float) : UINT64_MAX;

    while (sizes.product > PRODUCT_MIN && (uint64_t)(sizes.product * sizes.product) > most / 16)
        sizes.product /= 2;
    while (sizes.images > 1 &&
           (uint64_t)(sizes.images * sizes.channels * sizes.side * sizes.side) > most)
        sizes.images /= 2;
    while (sizes.activation > ACTIVATION_MIN && (uint64_t)(sizes.product * sizes.activation) > most)
        sizes.activation /= 2;
    return sizes;
}

static int measure_gpu(const struct backend *backend, struct backend_device *device,
                       const struct backend_device_info *info, struct calibration *calibration,
                       struct error *error)
{
    struct calibration_sizes sizes = sizes_for(info->memory_bytes);

    return calibration_measure_chains(backend, device, info->compute_types, &sizes, calibration,
                                      error);
}

int calibration_measure(const struct backend *backend, struct backend_device *device,
                        struct calibration *calibration, struct error *error)
{
    struct backend_device_info info;
    unsigned types;
    int r;

    *calibration = (struct calibration){0};
    backend->device_describe(device, &info);
    if (info.owns_memory)
        return measure_gpu(backend, device, &info, calibration, error);
    types = 1u << TENSOR_FLOAT32 | info.fast_linear_types | info.fast_convolution_types;
    r = measure_products(backend, device, types, calibration, error);
    if (r == 0)
        r = measure_bandwidths(backend, device, calibration, error);
    if (r == 0)
        r = measure_kernel(backend, device, calibration, error);
    if (r == 0)
        r = measure_models(backend, device, types, calibration, error);
    if (r < 0)
        calibration_release(calibration);
    return r;
}

void calibration_release(struct calibration *calibration)
{
    operator_rates_release(&calibration->rates);
}
