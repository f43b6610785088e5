/* worker_precision.c: see worker_precision.h. */
#include "worker/trainee/worker_precision.h"

#include "base/log.h"
#include "base/sha256.h"
#include "engine/graph/cost.h"
#include "engine/train/operator_call.h"
#include "worker/trainee/worker_kept.h"

#include <stdio.h>
#include <string.h>

static const char kind[] = "precisions";

/* Larger batches are measured as BATCH_MAX. A batch whose step would exceed flops_max, about a
 * second of one core, is measured with fewer samples. */
enum { BATCH_MAX = 64, BATCH_MIN = 2, VERSION = 1 };
static const double flops_max = 2e10;

static bool is_auto(const struct worker_setup *setup)
{
    return strcmp(setup->spec.precision, "auto") == 0;
}

static double count_samples(const struct worker_setup *setup)
{
    const struct training_config *config = &setup->spec.training;
    double batches = config->steps ? (double)config->steps * (double)config->accumulate : 0;
    double samples = batches * (double)(config->batch ? config->batch : BATCH_MAX);
    double epochs = (double)config->epochs * (double)setup->split.train.count;

    return config->epochs && (!config->steps || epochs < samples) ? epochs : samples;
}

static double count_flops(const struct graph *graph)
{
    struct graph_cost cost;

    graph_cost_measure(graph, &cost);
    return 3 * graph_cost_total(&cost, 1u << GRAPH_FORWARD).flops;
}

/* A digest that is equal for models with equal steps. */
static void describe_model(const struct graph *graph, int64_t batch, char key[SHA256_HEX_SIZE])
{
    const struct node_description any_device = {.tasks = 1, .lanes = 1};
    char line[OPERATOR_KIND_MAX + 256];
    struct sha256 hash;

    sha256_begin(&hash);
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct operator_call call;
        double repetitions;
        int length;

        operator_call_describe(graph, i, &any_device, &call, &repetitions);
        length = snprintf(line, sizeof line, "%s %g %g %g %g %g %lld\n", call.kind, call.extents[0],
                          call.extents[1], call.extents[2], call.extents[3], call.work,
                          (long long)batch);
        sha256_add(&hash, line, (size_t)length);
    }
    sha256_end(&hash, key);
}

static void read_times(struct json_object *kept, struct precision_times *times)
{
    for (int type = 0; type < TENSOR_INT32; type++)
        times->seconds[type] =
            json_get_double(kept, tensor_type_to_string((enum tensor_type)type), 0);
}

static struct json_object *times_json(const struct precision_times *times)
{
    struct json_object *json = json_object_new_object();

    for (int type = 0; type < TENSOR_INT32; type++)
        if (times->seconds[type] > 0)
            json_set_double(json, tensor_type_to_string((enum tensor_type)type),
                            times->seconds[type]);
    return json;
}

/* Measures the relevant times that are not known yet. False: measuring failed. */
static bool complete_times(struct worker_setup *setup, double samples,
                           struct precision_times *times, bool *measured)
{
    const struct training_config *config = &setup->spec.training;
    const struct session_config session = {.backend = setup->backend,
                                           .device = setup->device,
                                           .build = worker_setup_build,
                                           .build_context = setup,
                                           .optimizer = config->optimizer,
                                           .groups = config->groups,
                                           .group_count = config->group_count};
    struct error error = {0};
    int type;

    while ((type = precision_next(&setup->precision, times, samples)) >= 0) {
        if (precision_measure(&session, times->batch, (enum tensor_type)type, &times->seconds[type],
                              &error) < 0) {
            log_warning("the model could not be measured in %s: %s",
                        tensor_type_to_string((enum tensor_type)type), error.text);
            return false;
        }
        *measured = true;
    }
    return true;
}

static struct json_object *read_kept(const struct worker_setup *setup)
{
    struct json_object *kept = worker_kept_read(kind, VERSION, &setup->device_info);

    return kept ? kept : worker_kept_begin(VERSION, &setup->device_info);
}

/* Adds the model's times to what the cache has by now: others may have measured meanwhile. */
static void keep_times(const struct worker_setup *setup, const char *key,
                       const struct precision_times *times)
{
    JSON_AUTO struct json_object *kept = read_kept(setup);
    char path[PATH_MAX];

    json_set(kept, key, times_json(times));
    worker_kept_write(kind, &setup->device_info, kept, path);
}

/* Decides between the candidates. */
static void measure(struct worker_setup *setup, const struct graph *model)
{
    int64_t wanted = setup->spec.training.batch;
    struct precision_times times = {.batch = wanted && wanted < BATCH_MAX ? wanted : BATCH_MAX};
    double flops = count_flops(model) / (double)model->batch, samples = count_samples(setup);
    JSON_AUTO struct json_object *kept = NULL;
    char key[SHA256_HEX_SIZE];
    bool measured = false;

    while (times.batch > BATCH_MIN && flops * (double)times.batch > flops_max)
        times.batch /= 2;
    if (times.batch < BATCH_MIN)
        times.batch = BATCH_MIN;
    describe_model(model, times.batch, key);
    kept = read_kept(setup);
    read_times(json_get(kept, key), &times);
    if (!complete_times(setup, samples, &times, &measured)) {
        setup->precision =
            (struct precision){.reason = "auto: a smaller type could not be measured"};
        return;
    }
    setup->ran_steps = measured;
    if (measured)
        keep_times(setup, key, &times);
    precision_compare(&setup->device_info, &times, samples, &setup->precision);
}

/* Sets the type if the device has it; else returns false. */
static bool take(const char *name, const char *reason, struct worker_setup *setup)
{
    int type = tensor_type_from_string(name);

    if (type < 0 || !(setup->device_info.compute_types >> type & 1))
        return false;
    setup->precision = (struct precision){.type = (enum tensor_type)type};
    snprintf(setup->precision.reason, sizeof setup->precision.reason, "%s", reason);
    return true;
}

/* Takes the precision from --choices: the run's memory is booked for it. */
static bool take_choice(const struct worker_options *options, struct worker_setup *setup)
{
    JSON_AUTO struct json_object *choices = NULL;
    const char *name;

    if (!options->choices ||
        json_parse(options->choices, strlen(options->choices), &choices, NULL) < 0)
        return false;
    name = json_get_string(choices, "precision", NULL);
    return name && take(name, "auto: what the plan has measured", setup);
}

int worker_precision_choose(const struct worker_options *options, bool evaluates,
                            struct worker_setup *setup, struct error *error)
{
    struct error ignored = {0};
    struct graph model;
    int r;

    /* Planning reports errors in building the model. The graph is one for training, with two
     * samples, which batch norm needs. */
    graph_init(&model, 2, true);
    if (worker_setup_build(setup, &model, &ignored) < 0)
        model.node_count = 0;
    r = precision_choose(setup->spec.precision, setup->spec.training.rounds_parameters, &model,
                         &setup->device_info, &setup->precision, error);
    if (r == 0 && setup->precision.candidates && !evaluates && !take_choice(options, setup))
        measure(setup, &model);
    graph_release(&model);
    setup->spec.training.compute_type = setup->precision.type;
    return r;
}

void worker_precision_adopt(const struct checkpoint_state *checkpoint, bool evaluates,
                            struct worker_setup *setup)
{
    size_t length = strlen(checkpoint->precision_model);

    if (!is_auto(setup) || !checkpoint->precision[0] ||
        (!evaluates &&
         (!length || strncmp(checkpoint->precision_model, setup->device_info.model, length) != 0)))
        return;
    if (take(checkpoint->precision, "auto: what the checkpoint was trained in", setup))
        setup->spec.training.compute_type = setup->precision.type;
}
