/* training.c: prepares a run; loop.c runs it. See training.h. training_data.c places its data,
 * training_resume.c reads its checkpoint. */
#include "base/alignment.h"
#include "engine/graph/optimizer.h"
#include "engine/train/training_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int check_config(const struct training_config *config, const struct training_data *data,
                        struct error *error)
{
    if (data->train.count < 1)
        return error_set(error, -EINVAL, "the training set has no samples");
    if (config->batch < 1 || config->evaluation_batch < 1 || config->accumulate < 1)
        return error_set(error, -EINVAL, "batch sizes and accumulation must be at least 1");
    if (config->epochs < 1 && config->steps < 1)
        return error_set(error, -EINVAL, "the run has neither epochs nor steps to do");
    if (config->drop_last && config->batch > data->train.count)
        return error_set(
            error, -EINVAL,
            "train.drop_last leaves no batch: the training set has %lld samples, fewer "
            "than train.batch_size %lld; set a smaller batch",
            (long long)data->train.count, (long long)config->batch);
    return 0;
}

/* Checks that the run will know the metric after each epoch, and notes that it is watched. */
static int check_metric(struct training *training, const char *metric, const char *use,
                        struct error *error)
{
    unsigned task = metric_task(training->data.train.dataset, &training->data.heads);
    bool validation = metric && strncmp(metric, "validation_", 11) == 0;
    int kind = metric ? metric_of_name(metric) : -1;
    bool of_head = metric && metric_head_of_name(&training->data.heads, metric) >= 0;

    if (!metric)
        return 0;
    if (!of_head && (kind < 0 || (!validation && kind != METRIC_LOSS && kind != METRIC_ACCURACY)))
        return error_set(error, -EINVAL,
                         "%s: \"%s\" is not measured in every epoch; choose train_loss, "
                         "train_accuracy, validation_loss or another metric of the validation set",
                         use, metric);
    if (validation && training->data.validation.count == 0)
        return error_set(error, -EINVAL,
                         "%s: %s needs a validation set; set data.validation_fraction", use,
                         metric);
    if (of_head) /* which is always measured */
        return 0;
    if (!metric_has((enum metric_kind)kind, task))
        return error_set(error, -EINVAL, "%s: a %s has no %s; take the loss", use,
                         task == METRIC_OF_VALUES       ? "regression"
                         : task == METRIC_OF_TEXT       ? "language model"
                         : task == METRIC_OF_LABELS     ? "multi-label classification"
                         : task == METRIC_OF_EMBEDDINGS ? "model of embeddings"
                                                        : "classification",
                         metric);
    if (validation)
        training->watched |= metric_bit((enum metric_kind)kind);
    return 0;
}

metric_set training_metrics(const struct training_config *config, const struct dataset *dataset,
                            const struct metric_heads *heads, enum metric_subset subset)
{
    unsigned task = metric_task(dataset, heads);
    metric_set wanted =
        config->metrics_given ? config->metrics : metrics_usual(dataset, task, subset);

    return (wanted & metrics_of_trait(task)) | metrics_of_sums(task);
}

static struct metrics_config metrics_config(const struct training *training)
{
    const struct training_data *data = &training->data;
    struct metrics_config config = {.dataset = data->train.dataset,
                                    .heads = data->heads,
                                    .batch = training->config.evaluation_batch,
                                    .count = data->validation.count};

    if (data->validation.count)
        config.kinds |= training->measured[METRIC_VALIDATION];
    if (data->test.count)
        config.kinds |= training->measured[METRIC_TEST] | training->measured[METRIC_LAST_TEST];
    if (config.count < data->test.count)
        config.count = data->test.count;
    if (config.batch > config.count)
        config.batch = config.count;
    return config;
}

/* Converts lengths that are given in epochs into steps. */
static void set_schedule(struct training *training)
{
    const struct training_config *config = &training->config;
    struct schedule_config *schedule = &training->config.schedule;

    schedule->total_steps = training->total_steps;
    if (config->schedule_every_epochs)
        schedule->every_steps = config->schedule_every_epochs * training->steps_per_epoch;
    if (config->schedule_warmup_epochs)
        schedule->warmup_steps = config->schedule_warmup_epochs * training->steps_per_epoch;
    for (int i = 0; config->milestones_are_epochs && i < schedule->milestone_count; i++)
        schedule->milestones[i] *= training->steps_per_epoch;
}

static void set_totals(struct training *training)
{
    struct training_config *config = &training->config;
    int64_t count = training->data.train.count, batches;

    training->epoch_samples = count - (config->drop_last ? count % config->batch : 0);
    batches = divide_up(training->epoch_samples, config->batch);
    training->steps_per_epoch = divide_up(batches, config->accumulate);
    training->total_steps = config->epochs * training->steps_per_epoch;
    if (config->steps && (!config->epochs || config->steps < training->total_steps))
        training->total_steps = config->steps;
    training->total_epochs = divide_up(training->total_steps, training->steps_per_epoch);
    set_schedule(training);
    if (!config->evaluate_every_steps && !config->evaluate_every_epochs)
        config->evaluate_every_epochs = 1;
}

/* Adds the batch sizes of a view of `count` samples: whole batches and the last one. */
static void add_sizes(int64_t count, int64_t batch, int64_t sizes[SESSION_BATCH_SIZES_MAX],
                      int *used)
{
    if (count >= batch)
        sizes[(*used)++] = batch;
    if (count % batch)
        sizes[(*used)++] = count % batch;
}

bool training_averages(const struct training_config *config)
{
    return config->average_decay > 0 || optimizer_of(&config->optimizer)->averages_itself;
}

static int prepare_session(struct training *training, const struct backend *backend,
                           struct backend_device *device, session_build_function build,
                           void *build_context, struct error *error)
{
    const struct training_config *config = &training->config;
    const struct training_data *data = &training->data;
    struct session_config session = {.backend = backend,
                                     .device = device,
                                     .build = build,
                                     .build_context = build_context,
                                     .optimizer = config->optimizer,
                                     .groups = config->groups,
                                     .group_count = config->group_count,
                                     .layer_decay = config->layer_decay,
                                     .accumulate = config->accumulate > 1,
                                     .direct_convolutions = config->direct_convolutions,
                                     .average = training_averages(config),
                                     .compute_type = config->compute_type,
                                     .rounds_parameters = config->rounds_parameters,
                                     .nondeterministic = config->nondeterministic,
                                     .recompute = config->recompute,
                                     .seed = config->seed};
    int used = 0;

    add_sizes(training->epoch_samples, config->batch, session.training_batches, &used);
    used = 0;
    session.evaluation_batches[used] = config->evaluation_batch;
    if (data->validation.count >= config->evaluation_batch ||
        data->test.count >= config->evaluation_batch)
        used++;
    session.evaluation_batches[used++] = data->validation.count % config->evaluation_batch;
    session.evaluation_batches[used++] = data->test.count % config->evaluation_batch;
    for (int i = 0; i < training->buckets.count - 1; i++)
        session.lengths[session.length_count++] = training->buckets.steps[i];
    for (int i = 0; i < 3; i++)
        session.staging_bytes += training_staging_bytes(&training->feed_configs[i]);
    for (int i = 0; i < training->set_count; i++)
        session.data[i] = training->sets[i];
    session.data_count = training->set_count;
    return session_prepare(&session, &training->session, error);
}

/* The batches of the data hold the labels or values that the model's graph reads. */
static int check_targets(const struct training *training, struct error *error)
{
    const struct graph *graph = session_graph(training->session);
    size_t given = loader_target_bytes(&training->feed_configs[0].loader);
    size_t wanted = session_input_bytes(graph, graph->target);

    if (align_up((size_t)graph->batch * given, MEMORY_ALIGNMENT) == wanted)
        return 0;
    return error_set(error, -EINVAL,
                     "a batch of %lld samples has %zu bytes of labels or values, but the model "
                     "wants %zu: its last layer does not fit the data",
                     (long long)graph->batch, (size_t)graph->batch * given, wanted);
}

static void name_precision(struct training *training, struct backend_device *device)
{
    struct checkpoint_state *state = &training->state;
    struct backend_device_info info = {0};

    training->backend->device_describe(device, &info);
    snprintf(state->precision, sizeof state->precision, "%s",
             tensor_type_to_string(training->config.compute_type));
    snprintf(state->precision_model, sizeof state->precision_model, "%.*s",
             (int)sizeof state->precision_model - 1, info.model);
}

static int prepare(struct training *training, const struct backend *backend,
                   struct backend_device *device, session_build_function build, void *build_context,
                   struct error *error)
{
    const struct training_config *config = &training->config;
    int r;

    if ((r = check_config(config, &training->data, error)) < 0)
        return r;
    training->classification = training->data.train.dataset->target == DATASET_TARGET_CLASS &&
                               training->data.heads.count == 0 &&
                               training->data.heads.embedding == 0;
    set_totals(training);
    if ((r = check_metric(training, config->early_metric, "train.early_stop.metric", error)) < 0 ||
        (r = check_metric(training, config->best_metric, "checkpoint.best", error)) < 0 ||
        (r = check_metric(training, config->schedule.plateau.metric, "train.schedule.metric",
                          error)) < 0 ||
        (r = schedule_check(&config->schedule, error)) < 0)
        return r;
    for (int i = 0; i < METRIC_SUBSETS; i++)
        training->measured[i] =
            training_metrics(config, training->data.train.dataset, &training->data.heads, i) |
            training->watched;
    if ((r = training_choose_lengths(training, build, build_context, error)) < 0)
        return r;
    training_set_feeds(training);
    training_place_data(training, backend, device);
    training->backend = backend;
    training->state.seed = config->seed;
    loss_scale_begin(&training->state.loss_scale, config->compute_type == TENSOR_FLOAT16);
    training->state.momentum_product = 1;
    training->state.batch = config->batch;
    snprintf(training->state.direct_convolutions, sizeof training->state.direct_convolutions, "%s",
             config->direct_convolutions);
    name_precision(training, device);
    training->state.accumulate = config->accumulate;
    tracker_init(&training->state.best, config->best_metric, 0, 0);
    tracker_init(&training->state.early, config->early_metric, config->early_patience,
                 config->early_minimum_change);
    plateau_init(&training->state.plateau, &config->schedule.plateau,
                 config->schedule.learning_rate);
    r = prepare_session(training, backend, device, build, build_context, error);
    return r == 0 ? check_targets(training, error) : r;
}

int training_prepare(const struct training_config *config, const struct training_data *data,
                     const struct backend *backend, struct backend_device *device,
                     session_build_function build, void *build_context, struct training **training,
                     struct error *error)
{
    struct training *made = calloc(1, sizeof *made);
    int r;

    if (!made)
        return error_set_errno(error, -ENOMEM, "cannot prepare the run");
    made->config = *config;
    made->data = *data;
    r = prepare(made, backend, device, build, build_context, error);
    if (r < 0) {
        training_free(made);
        return r;
    }
    *training = made;
    return 0;
}

static int64_t profile_batches(const struct training *training)
{
    return training->config.profile_steps * training->config.accumulate;
}

int training_allocate(struct training *training, struct error *error)
{
    struct feed **feeds[] = {&training->train, &training->validation, &training->test};
    struct metrics_config metrics;
    uint8_t *memory;
    int r = session_allocate(training->session, error);

    if (r == 0)
        r = training_write_data(training, training->backend, error);
    if (r < 0)
        return r;
    memory = session_staging(training->session);
    for (int i = 0; i < 3; i++) {
        struct feed_config *config = &training->feed_configs[i];

        if (config->loader.view.count == 0)
            continue;
        config->session = training->session;
        config->memory = memory;
        r = feed_create(config, feeds[i], error);
        if (r < 0)
            return r;
        memory += training_staging_bytes(config);
    }
    metrics = metrics_config(training);
    r = metrics_create(&metrics, &training->metrics, error);
    if (r == 0 && training->config.early_metric && training->config.restore_best)
        r = weights_copy_init(&training->best_weights, training->session, error);
    if (r == 0 && training->config.profile_steps)
        r = profile_create(training->session, profile_batches(training), &training->profile, error);
    if (r == 0)
        r = checkpoint_folder_init(&training->folder, training->config.checkpoint_keep, error);
    return r;
}

int training_rehearse(struct training *training, struct error *error)
{
    return session_rehearse(training->session, error);
}

void training_free(struct training *training)
{
    if (!training)
        return;
    feed_free(training->train);
    feed_free(training->validation);
    feed_free(training->test);
    weights_copy_release(&training->best_weights);
    metrics_free(training->metrics);
    profile_free(training->profile);
    checkpoint_folder_release(&training->folder);
    session_free(training->session);
    free(training);
}

struct session *training_session(struct training *training)
{
    return training->session;
}

const struct profile *training_profile(const struct training *training)
{
    return training->profile;
}

const struct checkpoint_state *training_state(const struct training *training)
{
    return &training->state;
}

const struct length_buckets *training_lengths(const struct training *training,
                                              double shares[LENGTH_BUCKETS_MAX])
{
    length_buckets_shares(&training->buckets, &training->data.train, shares);
    return &training->buckets;
}

int64_t training_total_steps(const struct training *training)
{
    return training->total_steps;
}

int64_t training_total_epochs(const struct training *training)
{
    return training->total_epochs;
}

int64_t training_total_evaluations(const struct training *training)
{
    const struct training_config *config = &training->config;

    if (config->evaluate_every_steps)
        return divide_up(training->total_steps, config->evaluate_every_steps);
    return divide_up(training->total_epochs, config->evaluate_every_epochs);
}

/* The heap that the header of a checkpoint takes for each tensor while it is written. Models of 700
 * to 1,500 tensors took 0.9 to 1.9 KB. */
enum { CHECKPOINT_TENSOR_BYTES = 1700 };

size_t training_host_bytes(const struct training *training)
{
    struct session_tensor tensor;
    struct metrics_config metrics = metrics_config(training);
    size_t bytes = session_scratch_bytes(training->session) + metrics_host_bytes(&metrics);

    for (int i = 0; session_tensor(training->session, i, &tensor) == 0; i++)
        bytes += CHECKPOINT_TENSOR_BYTES;

    for (int i = 0; i < 3; i++)
        bytes += feed_host_bytes(&training->feed_configs[i]);
    if (training->config.profile_steps)
        bytes += profile_memory_bytes(training->session, profile_batches(training));
    if (!training->config.early_metric || !training->config.restore_best)
        return bytes;
    for (int i = 0; session_tensor(training->session, i, &tensor) == 0; i++)
        bytes += tensor.evaluated ? tensor.bytes : 0;
    return bytes;
}
