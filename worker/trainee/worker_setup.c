/* worker_setup.c: see worker_setup.h. */
#include "worker/trainee/worker_setup.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/data/description.h"
#include "worker/trainee/pytorch_module.h"
#include "worker/trainee/worker_add_norm.h"
#include "worker/trainee/worker_heads.h"
#include "worker/trainee/worker_loss_weights.h"
#include "worker/trainee/worker_precision.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const worker_stage_names[] = {[WORKER_STAGE_SPECIFICATION] = "specification",
                                                 [WORKER_STAGE_DATA] = "data",
                                                 [WORKER_STAGE_DEVICE] = "device",
                                                 [WORKER_STAGE_PLAN] = "plan",
                                                 [WORKER_STAGE_CHECKPOINT] = "checkpoint",
                                                 [WORKER_STAGE_AGREEMENT] = "agreement",
                                                 [WORKER_STAGE_TRAINING] = "training"};
DEFINE_STRING_TABLE(worker_stage, enum worker_stage, worker_stage_names)

static void on_data_warning(void *context, const char *text)
{
    struct worker_warnings *warnings = context;

    if (warnings->count < WORKER_WARNINGS_MAX / 2) /* the rest is for warnings of the plan */
        snprintf(warnings->text[warnings->count++], WORKER_WARNING_BYTES, "%s", text);
}

static void on_data_progress(void *context, const char *what, int64_t done, int64_t count)
{
    (void)context;
    if (count > 0)
        log_info("%s: %lld of %lld", what, (long long)done, (long long)count);
    else
        log_info("%s", what);
}

static double *numbers_copy(struct json_object *list)
{
    size_t count = list ? json_object_array_length(list) : 0;
    double *numbers = memory_zero((count + 1) * sizeof *numbers);

    for (size_t i = 0; i < count; i++)
        numbers[i] = json_object_get_double(json_object_array_get_idx(list, i));
    return numbers;
}

/* The constants that the specification gives, else those of the training part. */
static int constants_make(const struct worker_setup *setup, struct dataset_normalisation *constants,
                          struct error *error)
{
    const struct dataset_view *train = &setup->split.train;
    struct json_object *data = json_get(setup->spec.normalised, "data");
    struct json_object *means = json_get(data, "normalize_mean");
    struct json_object *deviations = json_get(data, "normalize_deviation");
    size_t count = means ? json_object_array_length(means) : 0;
    AUTO_FREE double *mean = numbers_copy(means), *deviation = numbers_copy(deviations);

    if (!means && !deviations)
        return dataset_normalisation_measure(setup->spec.normalisation, train, constants, error);
    if (!means || !deviations || json_object_array_length(deviations) != count)
        return error_set(error, -EINVAL,
                         "data.normalize_mean and data.normalize_deviation belong together: give "
                         "as many numbers in both");
    return dataset_normalisation_given(mean, deviation, count, train, constants, error);
}

/* Takes over the constants of a checkpoint, and warns if the data or the job has others now. */
static int constants_adopt(struct worker_setup *setup, const char *stored, struct error *error)
{
    struct dataset_normalisation measured = {0};
    AUTO_FREE char *own = NULL;
    int r = dataset_normalisation_parse(stored, setup->train, &setup->normalisation, error);

    if (r < 0 || setup->train->is_absent)
        return r;
    if (setup->normalisation.kind != setup->spec.normalisation) {
        on_data_warning(&setup->data_warnings,
                        "data.normalize has changed since the checkpoint was written; that of the "
                        "checkpoint is used");
        return 0;
    }
    r = constants_make(setup, &measured, error);
    if (r < 0)
        return r;
    own = dataset_normalisation_format(&measured);
    dataset_normalisation_release(&measured);
    if (!own)
        return error_set_errno(error, -ENOMEM, "cannot compare the data's mean and deviation");
    if (strcmp(own, stored) != 0)
        on_data_warning(&setup->data_warnings,
                        "the data has changed since the checkpoint was written: its mean and "
                        "deviation differ; those of the checkpoint are used");
    return 0;
}

/* Reads symbols and cuts sequences as a checkpoint's model was trained. */
static int symbols_adopt(struct worker_setup *setup, const struct checkpoint_texts *trained,
                         struct error *error)
{
    struct dataset_config *config = &setup->spec.train.config;
    int r;

    if (!trained || !trained->vocabulary || !dataset_format_has_symbols(config->format))
        return 0;
    r = dataset_vocabulary_parse(trained->vocabulary, &setup->vocabulary, error);
    if (r < 0)
        return r;
    config->vocabulary = &setup->vocabulary;
    if (!config->sequence.length)
        config->sequence.length = pytorch_module_sequence_length(trained->module);
    return 0;
}

static int open_data(struct worker_setup *setup, const struct checkpoint_texts *trained,
                     struct error *error)
{
    struct worker_spec *spec = &setup->spec;
    int r = symbols_adopt(setup, trained, error);

    if (r == 0)
        r = dataset_open(&spec->train.config, NULL, &setup->train, error);
    if (r == 0 && spec->has_test)
        r = dataset_open(&spec->test.config, setup->train, &setup->test, error);
    if (r == 0)
        r = augmentation_check(&spec->augmentation, setup->train, error);
    if (r == 0)
        r = dataset_split(setup->train, &spec->split, &setup->split, error);
    if (r == 0)
        r = worker_loss_weights_make(setup, error);
    if (r == 0 && setup->test && setup->split.test.count)
        r = error_set(error, -EINVAL,
                      "the column of data.split names samples for the test, and data.test has "
                      "others; leave out one");
    if (r == 0 && spec->is_balanced && !setup->train->is_absent)
        r = class_balance_create(&setup->split.train, &setup->balance, error);
    if (r < 0 || dataset_format_has_symbols(spec->train.config.format))
        return r;
    if (trained && trained->normalisation)
        r = constants_adopt(setup, trained->normalisation, error);
    else if (!setup->train->is_absent) /* a plan gathers no batches */
        r = constants_make(setup, &setup->normalisation, error);
    if (r < 0)
        return r;
    r = dataset_normalise_targets(&setup->normalisation, setup->train, error);
    if (r == 0 && setup->test)
        r = dataset_normalise_targets(&setup->normalisation, setup->test, error);
    return r;
}

/* How many numbers the model makes of a sample: those of model.embedding_size or, if it is absent,
 * those that a model whose layers say it gives, or else the usual. */
static int describe_embedding(struct worker_setup *setup, struct error *error)
{
    enum { USUAL_EMBEDDING = 64 };
    enum model_kind kind = setup->spec.model.kind;
    struct model_data *data = &setup->model_data;
    int64_t *size = &setup->spec.embedding_size;
    int r = 0;

    if (!*size && (kind == MODEL_LAYERS || kind == MODEL_GRAPH || kind == MODEL_ONNX))
        r = model_count_outputs(&setup->spec.model, data, size, error);
    else if (!*size)
        *size = USUAL_EMBEDDING;
    data->outputs = *size;
    return r;
}

/* Describes what the model must match: the samples' shape and the number of outputs. */
static int describe_data(struct worker_setup *setup, struct error *error)
{
    const struct dataset *train = setup->train;
    struct model_data *data = &setup->model_data;
    bool text = dataset_format_is_text(train->format);
    bool symbols = dataset_format_has_symbols(train->format);

    *data = (struct model_data){
        .type = symbols ? TENSOR_INT32 : TENSOR_FLOAT32,
        .rank = train->rank,
        .vocabulary = symbols ? dataset_vocabulary_size(&train->vocabulary) : 0,
        .has_lengths = train->lengths != NULL,
        .padded = symbols && train->vocabulary.is_padded,
        .nucleotides = symbols && train->vocabulary.tokens == DATASET_TOKENS_NUCLEOTIDES,
        .soft_targets = augmentation_is_soft(&setup->spec.augmentation),
        .loss = setup->spec.loss,
        .loss_parameter = setup->spec.loss_parameter,
        .loss_numbers = setup->spec.loss_numbers,
        .loss_number_count = setup->spec.loss_number_count,
        .triplet = setup->spec.triplet};
    memcpy(data->sample_shape, train->shape, (size_t)train->rank * sizeof *train->shape);
    if (data->loss == LOSS_HEADS)
        return worker_heads_describe(setup, error);
    if (model_loss_is_of_values(data->loss)) {
        data->outputs = train->target_width *
                        (data->loss == LOSS_QUANTILES ? (int64_t)data->loss_number_count : 1);
        return 0;
    }
    if (!text && train->target_width > 1)
        return error_set(error, -EINVAL,
                         "each sample has %d labels, but the model predicts one class; take one "
                         "label, and of a time series a horizon of 1",
                         train->target_width);
    data->outputs = setup->spec.classes && !text ? setup->spec.classes : train->classes;
    if (data->outputs < 2 && text)
        return error_set(error, -EINVAL,
                         "the text has one symbol alone: there is nothing to predict; use a text "
                         "with others");
    if (data->outputs < 2)
        return error_set(error, -EINVAL,
                         "all labels of the training data%s%s%s are the same: there is nothing to "
                         "tell apart; check the label column, or set model.classes",
                         train->target_name ? ", in the column \"" : "",
                         train->target_name ? train->target_name : "",
                         train->target_name ? "\"," : "");
    return data->loss == LOSS_TRIPLET ? describe_embedding(setup, error) : 0;
}

/* Begins to open a slow device in the background; open_device() waits for it. */
static void begin_device(const struct worker_options *options, const atomic_int *stop,
                         struct worker_setup *setup)
{
    worker_device_begin(options, options->device ? options->device : setup->spec.device,
                        options->threads ? options->threads : setup->spec.threads, stop,
                        &setup->device_opening);
}

/* The elements of all weights, as a double: a specification may ask for more than integers hold. */
static double count_weights(const struct graph *graph)
{
    double sum = 0;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_shape *shape = &graph->tensors[i].shape;
        double elements = 1;

        for (int k = 0; k < shape->rank; k++)
            elements *= (double)shape->extent[k];
        sum += graph->tensors[i].role == TENSOR_PARAMETER ? elements : 0;
    }
    return sum;
}

/* Refuses a model whose weights alone need more memory than there is, before anything is planned
 * or tried, which takes long for such a model. Other errors are left to the plan, which names
 * them. */
static int check_weights(struct worker_setup *setup, struct error *error)
{
    bool pure = strncmp(setup->spec.precision, "pure_", sizeof "pure_" - 1) == 0;
    double available = (double)setup->device_info.memory_bytes, bytes = 0;
    char needed[32], present[32];
    struct error ignored = {0};
    struct graph graph;

    graph_init(&graph, 2, true); /* batch norm wants two samples */
    if (worker_setup_build(setup, &graph, &ignored) == 0)
        bytes = count_weights(&graph) * (pure ? sizeof(uint16_t) : sizeof(float));
    graph_release(&graph);
    if (available == 0 || bytes <= available)
        return 0;
    setup->stage = WORKER_STAGE_PLAN;
    return error_set(error, -ERROR_DEVICE_MEMORY,
                     "the model's weights alone need %s of memory, and %s has %s; take a smaller "
                     "model",
                     text_format_bytes((uint64_t)fmin(bytes, 0x1p63), needed, sizeof needed),
                     setup->device_info.name,
                     text_format_bytes((uint64_t)available, present, sizeof present));
}

static int open_device(const struct worker_options *options, bool evaluates,
                       struct worker_setup *setup, struct error *error)
{
    struct worker_device opened;
    int r = worker_device_end(&setup->device_opening, &setup->simulation, &opened, error);

    if (r < 0)
        return r;
    setup->backend = opened.backend;
    setup->device = opened.device;
    setup->device_info = opened.info;
    if ((r = check_weights(setup, error)) < 0)
        return r;
    worker_add_norm_choose(setup);
    return worker_precision_choose(options, evaluates, setup, error);
}

/* The number of cores that this process may use but the training does not. */
static int count_idle_cores(const struct worker_setup *setup)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) < 0)
        return 0;
    return CPU_COUNT(&cores) > setup->device_info.threads
               ? CPU_COUNT(&cores) - setup->device_info.threads
               : 0;
}

static void configure_data(const struct worker_options *options,
                           const struct worker_opening *opening, struct worker_setup *setup)
{
    struct dataset_config *configs[] = {&setup->spec.train.config, &setup->spec.test.config};
    int threads = options->threads ? options->threads : setup->spec.threads;

    setup->data_events = (struct dataset_events){.context = &setup->data_warnings,
                                                 .warning = on_data_warning,
                                                 .progress = on_data_progress,
                                                 .stop = opening->stop};
    for (int i = 0; i < 2; i++) {
        configs[i]->events = &setup->data_events;
        configs[i]->describes = opening->plans;
        configs[i]->generate.processes = threads; /* as many as the cores booked */
    }
}

int worker_setup_open_device(const struct worker_options *options, struct worker_setup *setup,
                             struct error *error)
{
    begin_device(options, NULL, setup);
    return open_device(options, setup->vocabulary.count > 0, setup, error);
}

int worker_setup_open(const struct worker_options *options, const struct worker_opening *opening,
                      struct worker_setup *setup, struct error *error)
{
    size_t before;
    int r;

    *setup = (struct worker_setup){.stage = WORKER_STAGE_SPECIFICATION};
    if (options->mps_refused)
        snprintf(setup->data_warnings.text[setup->data_warnings.count++], WORKER_WARNING_BYTES,
                 "takes turns with others on the GPU, without MPS: %.900s", options->mps_refused);
    worker_startup_begin(&setup->startup, options->taken_at);
    r = worker_spec_load(options->input, &setup->spec, error);
    if (r < 0)
        return r;
    setup->rounds = setup->spec.quantization_aware && !opening->evaluates;
    setup->spec.training.checkpoint_directory = options->checkpoints;
    if (options->initial_weights)
        setup->spec.weights_file = options->initial_weights;
    setup->stage = WORKER_STAGE_DATA;
    worker_startup_enter(&setup->startup, STARTUP_DATA);
    if (!opening->plans) /* a plan measures what only the data add to the process */
        begin_device(options, opening->stop, setup);
    configure_data(options, opening, setup);
    before = worker_resident_bytes();
    if ((r = open_data(setup, opening->trained, error)) < 0 ||
        (r = describe_data(setup, error)) < 0)
        return r;
    setup->data_resident = worker_resident_bytes() - before;
    setup->stage = WORKER_STAGE_DEVICE;
    worker_startup_enter(&setup->startup, STARTUP_DEVICE);
    if (opening->plans)
        begin_device(options, opening->stop, setup);
    r = open_device(options, opening->evaluates, setup, error);
    if (r < 0)
        return r;
    setup->spec.training.idle_cores = count_idle_cores(setup);
    setup->stage = WORKER_STAGE_PLAN;
    worker_startup_enter(&setup->startup, STARTUP_PLAN);
    return 0;
}

int worker_setup_open_data(const struct worker_options *options, const char *specification,
                           struct worker_setup *setup, struct error *error)
{
    const struct worker_opening opening = {0};
    int r;

    *setup = (struct worker_setup){.stage = WORKER_STAGE_SPECIFICATION};
    r = worker_spec_parse(specification, options->input, &setup->spec, error);
    if (r < 0)
        return r;
    setup->stage = WORKER_STAGE_DATA;
    configure_data(options, &opening, setup);
    r = open_data(setup, NULL, error);
    return r < 0 ? r : describe_data(setup, error);
}

int worker_setup_vary(const struct worker_options *options, const char *specification,
                      struct worker_setup *setup, struct error *error)
{
    const struct loss_weights *weights = setup->spec.augmentation.weights; /* of the data */
    int r = worker_spec_parse(specification, "what is measured", &setup->spec, error);

    if (r < 0)
        return r;
    setup->spec.augmentation.weights = weights;
    setup->rounds = setup->spec.quantization_aware;
    r = augmentation_check(&setup->spec.augmentation, setup->train, error);
    if (r == 0)
        r = describe_data(setup, error);
    setup->stage = WORKER_STAGE_DEVICE;
    if (r == 0)
        r = worker_setup_open_device(options, setup, error);
    if (r < 0)
        return r;
    setup->spec.training.idle_cores = count_idle_cores(setup);
    setup->stage = WORKER_STAGE_PLAN;
    return 0;
}

int worker_setup_open_text(const struct worker_options *options, const char *vocabulary,
                           struct worker_setup *setup, struct error *error)
{
    int r;

    *setup = (struct worker_setup){.stage = WORKER_STAGE_SPECIFICATION};
    r = worker_spec_load(options->input, &setup->spec, error);
    if (r < 0)
        return r;
    if (!dataset_format_is_text(setup->spec.train.config.format) || !vocabulary)
        return error_set(error, -EINVAL,
                         "only a language model writes text: the job's data is %s, not text",
                         dataset_format_to_string(setup->spec.train.config.format));
    setup->stage = WORKER_STAGE_CHECKPOINT;
    r = dataset_vocabulary_parse(vocabulary, &setup->vocabulary, error);
    if (r < 0)
        return r;
    setup->model_data = (struct model_data){.type = TENSOR_INT32,
                                            .rank = 1,
                                            .sample_shape = {setup->spec.train.config.text.context},
                                            .vocabulary = setup->vocabulary.count,
                                            .outputs = setup->vocabulary.count,
                                            .loss = LOSS_CROSS_ENTROPY};
    setup->stage = WORKER_STAGE_DEVICE;
    return worker_setup_open_device(options, setup, error);
}

int worker_setup_describe(const char *path, const struct checkpoint_texts *texts,
                          struct worker_setup *setup, struct error *error)
{
    static const struct worker_options options;
    struct worker_opening opening = {.trained = texts, .plans = true};
    int r;

    *setup = (struct worker_setup){.stage = WORKER_STAGE_SPECIFICATION};
    r = worker_spec_load(path, &setup->spec, error);
    if (r < 0)
        return r;
    setup->spec.has_test = false; /* only evaluations use it */
    setup->stage = WORKER_STAGE_DATA;
    configure_data(&options, &opening, setup);
    r = open_data(setup, opening.trained, error);
    return r < 0 ? r : describe_data(setup, error);
}

int worker_setup_try(const char *specification, struct error *error)
{
    static const struct worker_options options;
    struct worker_opening opening = {.plans = true};
    struct worker_setup setup = {.stage = WORKER_STAGE_SPECIFICATION};
    int r = worker_spec_parse(specification, "what is suggested", &setup.spec, error);

    if (r < 0)
        return r;
    configure_data(&options, &opening, &setup);
    r = open_data(&setup, NULL, error);
    if (r == 0)
        r = describe_data(&setup, error);
    worker_setup_release(&setup);
    return r;
}

/* Makes the specification and a training set without samples of what the checkpoint keeps. */
static int adopt_description(const struct checkpoint_texts *texts, const char *path,
                             struct worker_setup *setup, struct error *error)
{
    int r = worker_spec_parse(texts->job, path, &setup->spec, error);

    setup->stage = WORKER_STAGE_CHECKPOINT;
    if (r == 0)
        r = dataset_description_parse(texts->data, &setup->train, error);
    if (r == 0)
        setup->train->plain_targets = setup->spec.train.config.plain_targets;
    if (r == 0 && texts->normalisation)
        r = dataset_normalisation_parse(texts->normalisation, setup->train, &setup->normalisation,
                                        error);
    return r < 0 ? r : describe_data(setup, error);
}

int worker_setup_open_model(const struct worker_options *options,
                            const struct checkpoint *checkpoint, const char *path,
                            struct worker_setup *setup, struct error *error)
{
    int r;

    *setup = (struct worker_setup){.stage = WORKER_STAGE_SPECIFICATION};
    if (checkpoint->texts.job && checkpoint->texts.data)
        r = adopt_description(&checkpoint->texts, path, setup, error);
    else if (options->specification)
        r = worker_setup_describe(options->specification, &checkpoint->texts, setup, error);
    else
        r = error_set(error, -ERROR_UNSUPPORTED,
                      "an earlier traind wrote %s, which does not describe its job: give the "
                      "specification with --spec, and have the training data in their place",
                      path);
    if (r < 0)
        return r;
    setup->stage = WORKER_STAGE_DEVICE;
    begin_device(options, NULL, setup);
    r = open_device(options, true, setup, error);
    worker_precision_adopt(&checkpoint->state, true, setup);
    return r;
}

void worker_setup_release(struct worker_setup *setup)
{
    worker_device_abandon(&setup->device_opening);
    if (setup->device)
        setup->backend->device_close(setup->device);
    worker_simulation_release(&setup->simulation);
    dataset_vocabulary_release(&setup->vocabulary);
    dataset_normalisation_release(&setup->normalisation);
    class_balance_free(setup->balance);
    loss_weights_release(&setup->loss_weights);
    dataset_split_release(&setup->split);
    if (setup->test)
        dataset_close(setup->test);
    if (setup->train)
        dataset_close(setup->train);
    worker_spec_release(&setup->spec);
}

int worker_setup_build(void *setup, struct graph *graph, struct error *error)
{
    struct worker_setup *s = setup;
    int r;

    graph->frozen = s->spec.frozen;
    graph->frozen_count = s->spec.frozen_count;
    r = model_build(&s->spec.model, &s->model_data, graph, error);
    if (r == 0 && s->rounds)
        r = graph_make_quantization_aware(graph, error);
    return r == 0 && graph->training ? graph_check_frozen(graph, error) : r;
}

int worker_setup_loader_threads(const struct worker_setup *setup, int64_t batch)
{
    const struct training_config *config = &setup->spec.training;

    if (config->loader_threads >= 0)
        return config->loader_threads;
    return loader_threads_default((size_t)batch * dataset_sample_bytes(setup->train),
                                  config->idle_cores);
}

struct dataset_view worker_setup_test(const struct worker_setup *setup)
{
    return setup->test ? dataset_view_all(setup->test) : setup->split.test;
}

struct training_data worker_setup_data(const struct worker_setup *setup)
{
    struct training_data data = {
        .train = setup->split.train,
        .validation = setup->split.validation,
        .balance = setup->balance,
        .normalisation =
            dataset_format_has_symbols(setup->train->format) ? NULL : &setup->normalisation,
        .augmentation =
            augmentation_is_none(&setup->spec.augmentation) ? NULL : &setup->spec.augmentation};

    data.heads = worker_heads(setup);
    data.test = worker_setup_test(setup);
    return data;
}

size_t worker_resident_bytes(void)
{
    AUTO_FCLOSE FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (!file || fscanf(file, "%*u %lu", &pages) != 1)
        return 0;
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

size_t worker_setup_data_bytes(const struct worker_setup *setup)
{
    size_t bytes = setup->train->memory_bytes + setup->train->mapped_bytes;

    if (setup->test)
        bytes += setup->test->memory_bytes + setup->test->mapped_bytes;
    if (setup->split.indices)
        bytes += (size_t)setup->train->count * sizeof *setup->split.indices;
    if (setup->balance)
        bytes += class_balance_bytes(setup->balance, setup->split.train.count);
    return bytes;
}
