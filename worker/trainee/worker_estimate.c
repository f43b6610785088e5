/* worker_estimate.c: see worker_estimate.h. */
#include "worker/trainee/worker_estimate.h"

#include "base/alignment.h"
#include "base/sha256.h"
#include "engine/data/class_balance.h"
#include "engine/graph/cost.h"
#include "engine/train/operator_call.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_DIGEST_LENGTH = 32 };

/* Labels from 1 on, or with gaps, leave classes that nothing belongs to, where they are the numbers
 * of classes. */
static void warn_of_unused_classes(const struct worker_setup *setup,
                                   struct worker_warnings *warnings)
{
    const struct dataset *train = setup->train;
    enum dataset_format format = train->format;
    int32_t first, unused;

    if (setup->spec.classes || train->is_absent || train->target != DATASET_TARGET_CLASS ||
        train->target_width != 1 || train->class_names ||
        (format != DATASET_NPY && format != DATASET_CSV && format != DATASET_IDX))
        return;
    unused = class_balance_unused(train, &first);
    if (unused)
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "%d of the %d classes have no sample in the training data, such as class %d: "
                 "number the labels from 0 without gaps, or set model.classes if this is meant",
                 unused, train->classes, first);
}

/* Whether the names of classes are numbers that ascend. */
static bool names_are_in_order(const struct dataset *train)
{
    double last = -INFINITY;

    for (int32_t i = 0; i < train->class_count; i++) {
        char *end;
        double value = strtod(train->class_names[i], &end);

        if (end == train->class_names[i] || *end || !(value > last))
            return false;
        last = value;
    }
    return true;
}

/* Names of grades are seldom in the order of their bytes. */
static void warn_of_order(const struct worker_setup *setup, struct worker_warnings *warnings)
{
    const struct dataset *train = setup->train;
    char names[512] = "";
    size_t used = 0;

    if (setup->spec.loss != LOSS_ORDINAL || !train->class_names || names_are_in_order(train))
        return;
    for (int32_t i = 0; i < train->class_count && used + 1 < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%.40s\"", i ? ", " : "",
                                 train->class_names[i]);
    snprintf(
        warnings->text[warnings->count++], WORKER_WARNING_BYTES,
        "model.loss ordinal takes the classes in this order of their names: %s; if another one "
        "is meant, write numbers as the labels",
        names);
}

/* Of values far from 1 that are not standardised little is learnt: the steps are too small for
 * them, or too large. */
static void warn_of_scale(const struct worker_setup *setup, struct worker_warnings *warnings)
{
    const struct dataset *train = setup->train;
    bool has_symbols = dataset_format_has_symbols(train->format);

    if (train->target != DATASET_TARGET_VALUE || train->plain_targets || !train->targets ||
        train->is_absent || train->format == DATASET_TIME_SERIES ||
        setup->normalisation.target_groups)
        return;
    for (int32_t column = 0; column < train->target_width; column++) {
        double squares = 0, size;

        for (int64_t i = 0; i < train->count; i++)
            squares += pow((double)dataset_targets(train, i)[column], 2);
        size = sqrt(squares / (double)train->count);
        if (size == 0 || (size > 0.01 && size < 100))
            continue;
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "the values to predict are about %.1g, and the model sees them as they are, so it "
                 "may learn little: %s",
                 size,
                 has_symbols ? "write them in a unit in which they are about 1"
                             : "set data.normalize to standard, or write them in another unit");
        return;
    }
}

/* Whether float32 has few steps within the deviation of numbers as far from 0 as the mean is. */
static bool has_few_steps(float mean, float factor)
{
    enum { STEPS_LEAST = 64 };

    return fabs((double)mean) * (double)FLT_EPSILON * STEPS_LEAST * (double)factor > 1;
}

/* Numbers such as times in seconds since 1970, of which float32 keeps little. The reader of tables
 * refuses them, because it sees them in double precision. */
static void warn_of_steps(const struct worker_setup *setup, struct worker_warnings *warnings)
{
    const struct dataset *train = setup->train;
    const struct dataset_normalisation *constants = &setup->normalisation;
    int64_t features =
        train->rank == 1 && train->element == DATASET_FLOAT32 ? constants->groups : 0;

    if (train->is_absent || train->format == DATASET_TABLE ||
        constants->kind != DATASET_NORMALISE_STANDARD)
        return;
    for (int64_t i = 0; i < features + constants->target_groups; i++) {
        bool is_target = i >= features;
        int64_t column = is_target ? i - features : i;
        float mean = is_target ? constants->target_mean[column] : constants->mean[column];

        if (!has_few_steps(mean, is_target ? constants->target_factor[column]
                                           : constants->factor[column]))
            continue;
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "%s %lld of the samples is about %.6g and differs by little, of which float32 "
                 "keeps few digits or none: subtract a number from it, such as its mean",
                 is_target ? "value to predict" : "column", (long long)column, (double)mean);
        return;
    }
}

void worker_warnings_find(const struct worker_setup *setup, struct worker_warnings *warnings)
{
    const struct training_config *config = &setup->spec.training;
    int64_t count = setup->split.train.count;

    *warnings = setup->data_warnings;
    if (config->batch > count)
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "train.batch_size is %lld, but the training set has %lld samples: every epoch is "
                 "one step",
                 (long long)config->batch, (long long)count);
    if (setup->spec.loss == LOSS_CROSS_ENTROPY && setup->spec.classes > setup->train->classes &&
        !dataset_format_is_text(setup->train->format))
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "model.classes is %lld, but the highest label of the training set is %d",
                 (long long)setup->spec.classes, setup->train->classes - 1);
    if (config->rounds_parameters)
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "train.precision pure_%s keeps no float32 weights: an update that is smaller than "
                 "1/%d of a weight is lost, so training may stall or end worse than with %s; a "
                 "larger learning rate, or %s, avoids it",
                 setup->spec.precision, strcmp(setup->spec.precision, "bfloat16") == 0 ? 512 : 4096,
                 setup->spec.precision, setup->spec.precision);
    if (config->early_metric && config->evaluate_every_epochs == 1 &&
        config->early_patience >= config->epochs)
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES,
                 "train.early_stop.patience is %lld, train.epochs only %lld: it cannot stop early",
                 (long long)config->early_patience, (long long)config->epochs);
    warn_of_unused_classes(setup, warnings);
    warn_of_order(setup, warnings);
    warn_of_scale(setup, warnings);
    warn_of_steps(setup, warnings);
}

struct json_object *worker_versions_json(const struct backend_device_info *info)
{
    struct json_object *versions = json_object_new_object();
    char copy[sizeof info->versions], *rest = copy;

    snprintf(copy, sizeof copy, "%s", info->versions);
    json_set_string(versions, "traind", TRAIND_VERSION);
    for (char *entry; (entry = strsep(&rest, ","));) {
        char *blank;

        entry += strspn(entry, " ");
        blank = strrchr(entry, ' ');
        if (!blank)
            continue;
        *blank = '\0';
        json_set_string(versions, entry, blank + 1);
    }
    return versions;
}

/* Bytes that a run adds to the process, besides arena, data and host copies, after its programs are
 * bound: pages of libraries first touched by steps and checkpoints, and thread stacks. Measured
 * with MLPs, CNNs, ResNet-18, MobileNetV3-small and EfficientNet-B0. */
static const size_t run_bytes = 1000000;
/* The part of these that remains if steps of the model ran before, to choose its precision. */
static const size_t checkpoint_bytes = 250000;

/* The process's memory besides arena, data and host copies: programs, libraries, and the code that
 * oneDNN generated for this plan. This process holds all of it already after a rehearsal. */
static size_t constant_bytes(const struct worker_setup *setup)
{
    size_t resident = worker_resident_bytes();

    return (resident > setup->data_resident ? resident - setup->data_resident : 0) +
           (setup->ran_steps ? checkpoint_bytes : run_bytes);
}

/* The part of the arena in the process's memory; for a device with its own memory, only the
 * batches. */
static size_t arena_in_process(const struct worker_setup *setup, const struct memory_plan *plan)
{
    return setup->backend->device_memory_used ? plan->class_bytes[MEMORY_STAGING]
                                              : plan->arena_bytes;
}

size_t worker_estimate_process_bytes(const struct worker_setup *setup, struct training *training)
{
    size_t bytes = arena_in_process(setup, session_memory(training_session(training))) +
                   worker_setup_data_bytes(setup) + training_host_bytes(training) +
                   constant_bytes(setup);

    if (setup->spec.training.profile_steps && bytes < WORKER_CALIBRATION_BYTES &&
        worker_calibration_is_due(&setup->device_info, setup->spec.memory_limit))
        return WORKER_CALIBRATION_BYTES; /* before the run */
    return bytes;
}

/* A GPU's memory is allocated in pieces of 2 MiB. The first run loads the code of its kernels: on
 * an H200, 2 MiB for matrix products and 2 MiB for convolutions. If the size of the context and the
 * libraries is not known, it is taken as measured there. */
enum { PIECE = 2 << 20, KERNELS = 4 << 20, CONTEXT_AND_LIBRARIES = 528 << 20 };

size_t worker_estimate_device_bytes(const struct worker_setup *setup, struct training *training)
{
    size_t arena = session_memory(training_session(training))->arena_bytes, used;

    if (!setup->device_info.owns_memory || !setup->backend->device_memory_used)
        return arena;
    used = setup->backend->device_memory_used(setup->device);
    return align_up(arena, PIECE) + (used ? used : CONTEXT_AND_LIBRARIES) + KERNELS;
}

/* Bytes by class. `process`: all that the process will hold. `device`: all that the run will hold
 * on a device with its own memory (0: it has none). */
static struct json_object *memory_json(const struct worker_setup *setup, struct training *training,
                                       size_t process, size_t device)
{
    const struct memory_plan *plan = session_memory(training_session(training));
    struct json_object *json = json_object_new_object();
    size_t data = worker_setup_data_bytes(setup), host = training_host_bytes(training);

    for (int i = 0; i < MEMORY_CLASS_COUNT; i++)
        json_set_int(json, memory_class_to_string((enum memory_class)i),
                     (int64_t)plan->class_bytes[i]);
    json_set_int(json, "arena", (int64_t)plan->arena_bytes);
    json_set_int(json, "data", (int64_t)data);
    json_set_int(json, "host", (int64_t)host);
    json_set_int(json, "constant",
                 (int64_t)(process - arena_in_process(setup, plan) - data - host));
    json_set_int(json, "process", (int64_t)process);
    if (device > plan->arena_bytes) {
        json_set_int(json, "context", (int64_t)(device - plan->arena_bytes));
        json_set_int(json, "device", (int64_t)device);
    }
    return json;
}

/* Whether smaller batches that are accumulated give the same update. */
static bool batches_divide(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph_node_operator(&graph->nodes[i])->joins_samples)
            return false;
    return true;
}

/* ---- graphs of several lengths ---- */

/* The graphs of a session's batches, and the share of the batches that each has. */
struct weighted_graphs {
    const struct graph *graph[LENGTH_BUCKETS_MAX];
    double share[LENGTH_BUCKETS_MAX];
    int count;
};

/* Those of whole batches for training or evaluation; none if there is no whole batch. */
static struct weighted_graphs whole_batches(const struct worker_setup *setup,
                                            struct training *training, bool trains)
{
    const struct training_config *config = &setup->spec.training;
    struct session *session = training_session(training);
    int64_t batch = trains ? session_graph(session)->batch : config->evaluation_batch;
    struct weighted_graphs graphs = {.count = 1, .share = {1}};
    const struct length_buckets *lengths;

    graphs.graph[0] = session_graph_for(session, trains, batch, 0);
    if (!graphs.graph[0])
        return (struct weighted_graphs){0};
    lengths = training_lengths(training, graphs.share);
    if (!lengths->count)
        return graphs;
    graphs.graph[lengths->count - 1] = graphs.graph[0];
    for (int i = 0; i < lengths->count - 1; i++)
        graphs.graph[i] = session_graph_for(session, trains, batch, lengths->steps[i]);
    graphs.count = lengths->count;
    return graphs;
}

static double predict(const struct calibration *speeds, struct training *training,
                      const struct weighted_graphs *graphs, unsigned phases)
{
    double seconds = 0;

    for (int i = 0; i < graphs->count; i++)
        seconds += graphs->share[i] * calibration_predict(speeds, training_session(training),
                                                          graphs->graph[i], phases);
    return seconds;
}

/* Says in words which lengths the batches have. */
static void add_lengths(struct json_object *reasons, const struct training *training)
{
    double shares[LENGTH_BUCKETS_MAX], mean = 0;
    const struct length_buckets *lengths = training_lengths(training, shares);
    char text[256];
    int length;

    if (!lengths->count)
        return;
    length = snprintf(text, sizeof text, "data.length_buckets: batches have ");
    for (int i = 0; i < lengths->count; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld",
                           i == 0                    ? ""
                           : i == lengths->count - 1 ? " or "
                                                     : ", ",
                           (long long)lengths->steps[i]);
        mean += shares[i] * (double)lengths->steps[i];
    }
    snprintf(text + length, sizeof text - (size_t)length, " steps, %.4g in the mean", mean);
    json_object_array_add(reasons, json_object_new_string(text));
}

/* Adds the plan's choices and their reasons. */
static void add_choice(struct json_object *plan, const struct worker_setup *setup,
                       const struct worker_choice *choice, const struct training *training)
{
    struct json_object *reasons = json_object_new_array(), *next = NULL;

    for (int i = 0; i < choice->reason_count; i++)
        json_object_array_add(reasons, json_object_new_string(choice->reasons[i]));
    add_lengths(reasons, training);
    if (choice->found.next_batch) {
        next = json_object_new_object();
        json_set_int(next, "batch_size", choice->found.next_batch);
        json_set_int(next, "memory_bytes", (int64_t)choice->found.next_bytes);
    }
    json_set(plan, "choices", worker_choices_json(setup));
    json_set(plan, "reasons", reasons);
    json_set(plan, "next_batch", next);
    json_set_int(plan, "memory_limit", (int64_t)choice->memory_limit);
    json_set_int(plan, "memory_bytes_without_recompute", (int64_t)choice->found.kept_bytes);
}

/* Adds the seconds of a step, and of the whole run with its evaluations; null without a
 * calibration. Work that another thread does at the same time counts only if it takes longer. */
static int add_prediction(struct json_object *plan, const struct worker_setup *setup,
                          struct training *training, const struct worker_calibration *calibration,
                          struct error *error)
{
    const struct training_config *config = &setup->spec.training;
    const struct weighted_graphs graphs = whole_batches(setup, training, true);
    const struct weighted_graphs evaluation = whole_batches(setup, training, false);
    const struct calibration *speeds = &calibration->speeds;
    double step = NAN, seconds = NAN, data;
    bool overlaps;
    int r = training_measure_data(training, &data, &overlaps, error);

    if (calibration->known) {
        double update = predict(speeds, training, &graphs, PROGRAM_UPDATE);
        double batch = predict(speeds, training, &graphs, PROGRAM_STEP) - update;
        double wait = isnan(data) ? 0 : overlaps ? fmax(data - batch, 0) : data;

        step = update + (double)config->accumulate * (batch + wait);
        seconds = (double)training_total_steps(training) * step;
    }
    if (calibration->known && evaluation.count) {
        double samples =
            (double)setup->split.validation.count * (double)training_total_evaluations(training) +
            (double)worker_setup_test(setup).count;
        double batch = predict(speeds, training, &evaluation, PROGRAM_FORWARD);

        seconds += samples / (double)config->evaluation_batch * batch;
        if (!isnan(data) && !overlaps)
            seconds += samples / (double)config->batch * data;
    }
    json_set_double(plan, "predicted_step_seconds", step); /* null if not finite */
    json_set_double(plan, "predicted_data_seconds", data);
    json_set_double(plan, "predicted_seconds", seconds);
    json_set_string(plan, "predicted_by", calibration->known ? calibration->path : NULL);
    return r;
}

static struct json_object *samples_json(const struct worker_setup *setup)
{
    struct json_object *json = json_object_new_object();

    json_set_int(json, "train", setup->split.train.count);
    json_set_int(json, "validation", setup->split.validation.count);
    json_set_int(json, "test", worker_setup_test(setup).count);
    return json;
}

/* Makes {"kernels", "classes": {class: {"flops", "bytes"}}} from sums over a graph's phases. */
static struct json_object *cost_json(const double flops[], const double bytes[], double kernels)
{
    struct json_object *json = json_object_new_object(), *classes = json_object_new_object();

    for (int kind = 0; kind < COST_CLASS_COUNT; kind++) {
        struct json_object *class;

        if (!(flops[kind] > 0 || bytes[kind] > 0))
            continue;
        class = json_object_new_object();
        json_set_double(class, "flops", flops[kind]);
        json_set_double(class, "bytes", bytes[kind]);
        json_set(classes, cost_class_to_string((enum cost_class)kind), class);
    }
    json_set_double(json, "kernels", kernels);
    json_set(json, "classes", classes);
    return json;
}

/* Sums the phases of the graphs, each multiplied by its entry in `times`. */
static struct json_object *graph_cost_json(const struct weighted_graphs *graphs,
                                           const double times[GRAPH_UPDATE + 1])
{
    double flops[COST_CLASS_COUNT] = {0}, bytes[COST_CLASS_COUNT] = {0}, kernels = 0;

    for (int i = 0; i < graphs->count; i++) {
        struct graph_cost cost;

        graph_cost_measure(graphs->graph[i], &cost);
        for (int phase = 0; phase <= GRAPH_UPDATE; phase++)
            for (int kind = 0; kind < COST_CLASS_COUNT; kind++) {
                const struct cost *own = &cost.cost[phase][kind];
                double weight = graphs->share[i] * times[phase];

                flops[kind] += weight * own->flops;
                bytes[kind] += weight * own->bytes;
                kernels += weight * (double)own->kernels;
            }
    }
    return cost_json(flops, bytes, kernels);
}

/* Adds what scheduler/predictor.h needs for any device: the costs of a step (an update), of an
 * evaluation of the validation set and of the test, and how often each occurs. */
static void add_cost(struct json_object *plan, const struct worker_setup *setup,
                     struct training *training)
{
    const struct training_config *config = &setup->spec.training;
    const struct weighted_graphs graphs = whole_batches(setup, training, true);
    const struct weighted_graphs evaluation = whole_batches(setup, training, false);
    double accumulate = (double)config->accumulate, batch = (double)config->evaluation_batch;
    struct json_object *cost = json_object_new_object();

    json_set(cost, "step", graph_cost_json(&graphs, (double[]){accumulate, accumulate, 1}));
    json_set_int(cost, "evaluations", training_total_evaluations(training));
    if (evaluation.count && setup->split.validation.count > 0)
        json_set(cost, "evaluation",
                 graph_cost_json(&evaluation,
                                 (double[]){(double)setup->split.validation.count / batch, 0, 0}));
    if (evaluation.count && worker_setup_test(setup).count > 0)
        json_set(cost, "test",
                 graph_cost_json(&evaluation,
                                 (double[]){(double)worker_setup_test(setup).count / batch, 0, 0}));
    json_set(plan, "cost", cost);
}

/* Adds a digest that is equal for steps of equal duration, independent of learning rate, seed and
 * length of the run. It covers the graph's operators, sizes, settings and methods, the number of
 * threads, and how batches are made. */
static void add_step_digest(struct json_object *plan, const struct worker_setup *setup,
                            struct training *training)
{
    const struct weighted_graphs graphs = whole_batches(setup, training, true);
    const struct graph *graph = session_graph(training_session(training));
    const struct training_config *config = &setup->spec.training;
    const struct augmentation *augmentation = &setup->spec.augmentation;
    const struct node_description any_device = {.tasks = 1, .lanes = 1};
    char digest[SHA256_HEX_SIZE], line[OPERATOR_KIND_MAX + CONVOLUTION_CHOICES_MAX + 256];
    struct sha256 hash;
    int length = snprintf(line, sizeof line, "%s %lld %lld %s %d %d %d %d %d %d %d %d %d%s\n",
                          tensor_type_to_string(graph->compute_type), (long long)graph->batch,
                          (long long)config->accumulate, config->direct_convolutions,
                          setup->device_info.threads, config->clip_norm > 0, config->clip_value > 0,
                          (int)setup->train->format, augmentation->crop_padding > 0,
                          augmentation->horizontal_flip, augmentation->cutout_side > 0,
                          augmentation->mixup_alpha > 0, augmentation_needs_host(augmentation),
                          config->nondeterministic ? " nondeterministic" : "");

    sha256_begin(&hash);
    sha256_add(&hash, line, (size_t)length);
    for (int i = 0; i < graphs.count && graphs.count > 1; i++) {
        length = snprintf(line, sizeof line, "%lld steps %.3f\n", (long long)graphs.graph[i]->steps,
                          graphs.share[i]);
        sha256_add(&hash, line, (size_t)length);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct operator_call call;
        double repetitions;

        operator_call_describe(graph, i, &any_device, &call, &repetitions);
        length = snprintf(line, sizeof line, "%s %g %g %g %g %g\n", call.kind, call.extents[0],
                          call.extents[1], call.extents[2], call.extents[3], call.work);
        sha256_add(&hash, line, (size_t)length);
    }
    sha256_end(&hash, digest);
    digest[STEP_DIGEST_LENGTH] = '\0';
    json_set_string(plan, "step_digest", digest);
}

/* Adds the work of one training step, in total and by class of operator. */
static void add_work(struct json_object *plan, const struct graph *graph)
{
    struct json_object *classes = json_object_new_object();
    struct graph_cost cost;
    struct cost total;

    graph_cost_measure(graph, &cost);
    total = graph_cost_total(&cost, PROGRAM_STEP);
    json_set_int(plan, "parameters", cost.parameters);
    json_set_double(plan, "flops_per_batch", total.flops);
    json_set_double(plan, "bytes_per_batch", total.bytes);
    json_set_int(plan, "kernels_per_batch", total.kernels);
    json_set_double(plan, "flops_recomputed", cost.recomputed.flops);
    for (int kind = 0; kind < COST_CLASS_COUNT; kind++) {
        double flops = 0;

        for (int phase = 0; phase <= GRAPH_UPDATE; phase++)
            flops += cost.cost[phase][kind].flops;
        if (flops > 0)
            json_set_double(classes, cost_class_to_string((enum cost_class)kind), flops);
    }
    json_set(plan, "flops_by_class", classes);
}

int worker_estimate_json(const struct worker_setup *setup, const struct worker_choice *choice,
                         struct training *training, const struct worker_calibration *calibration,
                         struct json_object **json, struct error *error)
{
    struct json_object *plan = json_object_new_object(), *notes = json_object_new_array();
    struct worker_warnings warnings;
    int r;

    json_set_string(plan, "digest", setup->spec.digest);
    json_set_string(plan, "device", setup->device_info.name);
    json_set_int(plan, "threads", setup->device_info.threads);
    json_set_string(plan, "precision", tensor_type_to_string(setup->precision.type));
    json_set_string(plan, "precision_reason", setup->precision.reason);
    add_choice(plan, setup, choice, training);
    json_set_bool(plan, "batches_divide",
                  batches_divide(session_graph(training_session(training))));
    json_set(plan, "memory",
             memory_json(setup, training, choice->process_bytes,
                         setup->device_info.owns_memory ? choice->memory_bytes : 0));
    json_set_int(plan, "memory_bytes", (int64_t)choice->memory_bytes);
    json_set_int(plan, "process_bytes", (int64_t)choice->process_bytes);
    add_work(plan, session_graph(training_session(training)));
    add_cost(plan, setup, training);
    add_step_digest(plan, setup, training);
    json_set_int(plan, "steps", training_total_steps(training));
    json_set_int(plan, "epochs", training_total_epochs(training));
    json_set(plan, "samples", samples_json(setup));
    r = add_prediction(plan, setup, training, calibration, error);
    worker_warnings_find(setup, &warnings);
    for (int i = 0; i < warnings.count; i++)
        json_object_array_add(notes, json_object_new_string(warnings.text[i]));
    json_set(plan, "warnings", notes);
    *json = plan;
    return r;
}
