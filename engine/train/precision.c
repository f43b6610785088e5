/* precision.c: see precision.h. */
#include "engine/train/precision.h"

#include "engine/graph/operator.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The types below float32: the faster ones first, and of equally fast ones first that without a
 * loss scale. */
static const enum tensor_type low_types[] = {TENSOR_BFLOAT16, TENSOR_FLOAT16, TENSOR_TF32};
enum { LOW_TYPES = sizeof low_types / sizeof low_types[0] };

/* The types in which every kind of product of the model is faster than in float32. */
static unsigned fast_types(const struct graph *model, const struct backend_device_info *device)
{
    unsigned types = device->compute_types;
    bool products = false;
    bool convolutions = !device->convolutions_are_fast || device->convolutions_are_fast(model);
    unsigned convolution_types = convolutions ? device->fast_convolution_types : 0;

    for (int32_t i = 0; i < model->node_count; i++) {
        const struct graph_operator *descriptor = graph_node_operator(&model->nodes[i]);

        if (descriptor->product != PRODUCT_FORWARD)
            continue;
        types &= descriptor->cost_class == COST_CONVOLUTION ? convolution_types
                                                            : device->fast_linear_types;
        products = true;
    }
    return products ? types : 0;
}

static bool predicts_values(const struct graph *model)
{
    for (int32_t i = 0; i < model->node_count; i++)
        if (graph_node_operator(&model->nodes[i])->predicts_values)
            return true;
    return false;
}

static void choose_candidates(const struct graph *model, const struct backend_device_info *device,
                              struct precision *precision)
{
    precision->type = TENSOR_FLOAT32;
    if (predicts_values(model)) {
        snprintf(precision->reason, sizeof precision->reason,
                 "auto: the model predicts values, which are only as exact as its products");
        return;
    }
    precision->candidates = fast_types(model, device);
    snprintf(precision->reason, sizeof precision->reason,
             "auto: %s (%.80s) has no smaller type that is faster for all of the model's products",
             device->name, device->features);
}

/* ---- measured times ---- */

/* A smaller type must take less than this share of float32's time, so that chance decides nothing.
 * It must also shorten the run by this many seconds: for less, nobody would give up digits. */
static const double clear_share = 0.8, noticed_seconds = 10;

static bool pays(const struct precision_times *times, int type, double samples)
{
    double whole = times->seconds[TENSOR_FLOAT32], low = times->seconds[type];

    return low > 0 && low < clear_share * whole &&
           (whole - low) / (double)times->batch * samples >= noticed_seconds;
}

/* Whether to measure the type. float16 is no faster than bfloat16, and needs a loss scale. */
static bool is_candidate(const struct precision *precision, int type)
{
    return precision->candidates >> type & 1 &&
           (type != TENSOR_FLOAT16 || !(precision->candidates >> TENSOR_BFLOAT16 & 1));
}

int precision_next(const struct precision *precision, const struct precision_times *times,
                   double samples)
{
    if (!(times->seconds[TENSOR_FLOAT32] > 0))
        return precision->candidates ? TENSOR_FLOAT32 : -1;
    if (times->seconds[TENSOR_FLOAT32] / (double)times->batch * samples < noticed_seconds)
        return -1;
    for (int i = 0; i < LOW_TYPES; i++) {
        if (pays(times, low_types[i], samples))
            return -1;
        if (is_candidate(precision, low_types[i]) && !(times->seconds[low_types[i]] > 0))
            return low_types[i];
    }
    return -1;
}

/* Writes "bfloat16 21.3 ms" for the fastest smaller type, or "" if none was measured. */
static void describe_low(const struct precision_times *times, char *text, size_t size)
{
    int best = -1;

    text[0] = '\0';
    for (int i = 0; i < LOW_TYPES; i++)
        if (times->seconds[low_types[i]] > 0 &&
            (best < 0 || times->seconds[low_types[i]] < times->seconds[best]))
            best = low_types[i];
    if (best >= 0)
        snprintf(text, size, "; %s: %.3g ms", tensor_type_to_string((enum tensor_type)best),
                 1e3 * times->seconds[best]);
}

void precision_compare(const struct backend_device_info *device,
                       const struct precision_times *times, double samples,
                       struct precision *precision)
{
    double whole = times->seconds[TENSOR_FLOAT32];
    char low[48];

    precision->candidates = 0;
    precision->type = TENSOR_FLOAT32;
    for (int i = LOW_TYPES; i-- > 0;)
        if (pays(times, low_types[i], samples))
            precision->type = low_types[i];
    describe_low(times, low, sizeof low);
    snprintf(precision->reason, sizeof precision->reason,
             "auto: measured on %.40s, a step of %lld samples takes %.3g ms in float32%s%s",
             device->name, (long long)times->batch, 1e3 * whole, low,
             precision->type != TENSOR_FLOAT32                          ? ""
             : whole / (double)times->batch * samples < noticed_seconds ? ", the whole run seconds"
                                                                        : ", not enough less");
}

/* The number of runs, of which the first warms up. Short runs are repeated more often. */
enum { RUNS_MIN = 4, RUNS_MAX = 50 };
static const double measure_seconds = 0.1;

static int time_steps(struct session *session, int64_t batch, double *seconds, struct error *error)
{
    const struct step_scalars scalars = {
        .step = 1, .batch = 1, .gradient_scale = 1, .momentum_product = 0.9};
    const struct graph *graph = session_graph(session);
    char *staging = session_staging(session);
    size_t sample_bytes = session_input_bytes(graph, graph->input);
    struct session_batch zeros = {
        .count = batch, .samples = staging, .targets = staging + sample_bytes};
    double spent = 0;
    int r = 0;

    memset(staging, 0, sample_bytes + session_input_bytes(graph, graph->target));
    for (int run = 0; r == 0 && run < RUNS_MAX && (run < RUNS_MIN || spent < measure_seconds);
         run++) {
        double begin = session_seconds(session), taken;
        struct step_metrics ignored;

        r = session_step(session, &zeros, PROGRAM_STEP, &scalars, error);
        session_read_metrics(session, true, &ignored); /* waits for the device */
        taken = session_seconds(session) - begin;
        spent += taken;
        if (run <= 1 || taken < *seconds)
            *seconds = taken;
    }
    return r;
}

int precision_measure(const struct session_config *config, int64_t batch, enum tensor_type type,
                      double *seconds, struct error *error)
{
    struct session_config own = *config;
    struct session *session = NULL;
    struct graph graph;
    int r;

    graph_init(&graph, batch, true);
    r = config->build(config->build_context, &graph, error);
    own.compute_type = type;
    own.training_batches[0] = batch;
    if (r == 0)
        own.staging_bytes =
            session_input_bytes(&graph, graph.input) + session_input_bytes(&graph, graph.target);
    graph_release(&graph);
    if (r == 0)
        r = session_prepare(&own, &session, error);
    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0)
        r = time_steps(session, batch, seconds, error);
    session_free(session);
    if (config->backend->device_trim)
        config->backend->device_trim(config->device);
    return r;
}

/* ---- what is wanted ---- */

/* Whether train.precision may name the type here. tf32 may be named anywhere. */
static bool is_valid(const struct backend_device_info *device, enum tensor_type type)
{
    return type == TENSOR_TF32 || device->compute_types & 1u << type;
}

static int refuse(const char *wanted, bool pure, const struct backend_device_info *device,
                  struct error *error)
{
    char valid[128] = "auto, float32";

    for (int i = 0; i < 2 * LOW_TYPES; i++) {
        enum tensor_type type = low_types[i % LOW_TYPES];
        bool with_prefix = i >= LOW_TYPES;
        size_t length = strlen(valid);

        if (is_valid(device, type) &&
            (!with_prefix || (device->rounds_parameters && type != TENSOR_TF32)))
            snprintf(valid + length, sizeof valid - length, ", %s%s", with_prefix ? "pure_" : "",
                     tensor_type_to_string(type));
    }
    return error_set(error, -EINVAL,
                     "train.precision is \"%s%s\", which %s (%s; %s) does not have; valid here: %s",
                     pure ? "pure_" : "", wanted, device->name, device->model, device->features,
                     valid);
}

int precision_choose(const char *wanted, bool pure, const struct graph *model,
                     const struct backend_device_info *device, struct precision *precision,
                     struct error *error)
{
    int type = tensor_type_from_string(wanted);

    *precision = (struct precision){.type = TENSOR_FLOAT32};
    if (strcmp(wanted, "auto") == 0) {
        choose_candidates(model, device, precision);
        return 0;
    }
    if (type == TENSOR_TF32 && !(device->compute_types & 1u << TENSOR_TF32)) {
        precision->type = TENSOR_FLOAT32;
        snprintf(precision->reason, sizeof precision->reason,
                 "%s (%.80s) does not have tf32, of which float32 is the exact form", device->name,
                 device->features);
        return 0;
    }
    if ((type != TENSOR_FLOAT32 && type != TENSOR_BFLOAT16 && type != TENSOR_FLOAT16 &&
         type != TENSOR_TF32) ||
        !(device->compute_types & 1u << type))
        return refuse(wanted, pure, device, error);
    if (pure && !device->rounds_parameters)
        return refuse(wanted, pure, device, error);
    precision->type = (enum tensor_type)type;
    snprintf(precision->reason, sizeof precision->reason, "set in the specification");
    return 0;
}
