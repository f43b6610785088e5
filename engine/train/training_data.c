/* training_data.c: how the samples of a run reach its device: how long batches of sequences are,
 * what loaders read, and which sets lie in the device's memory. */
#include "base/alignment.h"
#include "engine/train/device_data.h"
#include "engine/train/training_internal.h"

#include <errno.h>
#include <string.h>

/* ---- lengths of sequences ---- */

/* Builds the model for sequences of so many steps. `masks`: whether it leaves padding out. */
static int try_length(int64_t steps, session_build_function build, void *build_context, bool *masks,
                      struct error *error)
{
    struct graph graph;
    int r;

    graph_init(&graph, 1, false);
    graph.steps = steps;
    r = build(build_context, &graph, error);
    *masks = graph.lengths >= 0;
    for (int32_t i = 0; i < graph.node_count; i++)
        *masks |= graph.nodes[i].op == OP_SEQUENCE_LENGTHS;
    graph_release(&graph);
    return r;
}

static int check_lengths(const struct training *training, session_build_function build,
                         void *build_context, struct error *error)
{
    const struct dataset *dataset = training->data.train.dataset;
    bool masks;
    int r;

    if (!dataset->letter_first && !dataset->lengths)
        return error_set(error, -EINVAL,
                         "data.length_buckets needs sequences of different lengths: formats "
                         "csv_sequences and fasta, or npy with lengths; leave it out");
    r = try_length(0, build, build_context, &masks, error);
    if (r == 0 && !masks)
        return error_set(error, -EINVAL,
                         "data.length_buckets: the model reads padding as any other step, so that "
                         "what it gives would depend on the batch's length. lstm, gru, text_cnn, "
                         "and dna_cnn with pooling max or mean leave padding out");
    return r;
}

int training_choose_lengths(struct training *training, session_build_function build,
                            void *build_context, struct error *error)
{
    const struct training_config *config = &training->config;
    struct length_buckets *buckets = &training->buckets;
    bool masks;
    int r;

    if (config->length_buckets < 2)
        return 0;
    r = check_lengths(training, build, build_context, error);
    if (r == 0)
        r = length_buckets_choose(&training->data.train, config->length_buckets, config->batch,
                                  buckets, error);
    while (r == 0 && buckets->count > 1 &&
           try_length(buckets->steps[0], build, build_context, &masks, error) < 0) {
        buckets->count--;
        memmove(buckets->steps, buckets->steps + 1,
                (size_t)buckets->count * sizeof buckets->steps[0]);
    }
    if (buckets->count < 2)
        buckets->count = 0;
    return r;
}

/* ---- loaders ---- */

void training_set_feeds(struct training *training)
{
    const struct training_config *config = &training->config;
    const struct dataset_view *views[] = {&training->data.train, &training->data.validation,
                                          &training->data.test};

    int threads = config->loader_threads;

    if (threads < 0)
        threads = loader_threads_default((size_t)config->batch *
                                             dataset_sample_bytes(training->data.train.dataset),
                                         config->idle_cores);
    for (int i = 0; i < 3; i++) {
        int64_t batch = i == 0 ? config->batch : config->evaluation_batch;

        training->feed_configs[i] = (struct feed_config){
            .loader = {.view = *views[i],
                       .normalisation = training->data.normalisation,
                       .augmentation = i == 0 ? training->data.augmentation : NULL,
                       .batch = batch < views[i]->count ? batch : views[i]->count,
                       .accumulate = config->accumulate,
                       .shuffle = i == 0 && config->shuffle,
                       .balance = i == 0 ? training->data.balance : NULL,
                       .drop_last = i == 0 && config->drop_last,
                       .buckets = batch <= views[i]->count ? training->buckets
                                                           : (struct length_buckets){0},
                       .seed = config->seed,
                       .threads = threads},
            .data = -1};
    }
}

/* ---- sets in the device's memory ---- */

/* The part of the device's memory that data may take. The rest is for models; larger data sets come
 * through loaders. */
static const double data_share = 0.25;

/* The index of the set among those of the device. */
static int find_set(struct training *training, const struct dataset *dataset,
                    const struct augmentation *augmentation)
{
    for (int i = 0; i < training->set_count; i++)
        if (training->set_of[i] == dataset)
            return i;
    training->set_of[training->set_count] = dataset;
    training->sets[training->set_count] =
        device_data_describe(dataset, training->data.normalisation, augmentation);
    return training->set_count++;
}

static void list_sets(struct training *training)
{
    for (int i = 0; i < 3; i++) {
        struct feed_config *feed = &training->feed_configs[i];
        struct backend_data_config *set;

        if (feed->loader.view.count == 0)
            continue;
        feed->data = find_set(training, feed->loader.view.dataset, feed->loader.augmentation);
        set = &training->sets[feed->data];
        feed->first_order = set->orders;
        set->orders += feed_orders(&feed->loader);
        if (set->batch < feed->loader.batch)
            set->batch = feed->loader.batch;
    }
}

void training_place_data(struct training *training, const struct backend *backend,
                         struct backend_device *device)
{
    size_t limit = training->config.memory_limit;
    struct backend_device_info info;
    double sum = 0, memory;
    bool possible = true;

    if (!backend->data_bytes)
        return;
    list_sets(training);
    backend->device_describe(device, &info);
    memory = limit && limit < info.memory_bytes ? (double)limit : (double)info.memory_bytes;
    /* the device makes batches of one length, and all samples count alike */
    possible =
        !training->buckets.count &&
        !(training->data.augmentation && (training->data.augmentation->weights ||
                                          augmentation_needs_host(training->data.augmentation)));
    for (int i = 0; i < training->set_count; i++)
        possible &= device_data_is_possible(training->set_of[i], training->data.normalisation);
    for (int i = 0; i < training->set_count && possible; i++) {
        size_t bytes = backend->data_bytes(device, &training->sets[i]);

        sum += (double)bytes;
        possible &= bytes > 0;
    }
    if (possible && sum <= data_share * memory)
        return;
    training->set_count = 0;
    for (int i = 0; i < 3; i++)
        training->feed_configs[i].data = -1;
}

int training_write_data(struct training *training, const struct backend *backend,
                        struct error *error)
{
    int r = 0;

    for (int i = 0; r == 0 && i < training->set_count; i++)
        r = device_data_write(backend, session_data(training->session, i), training->set_of[i],
                              training->data.augmentation, i == 0 ? &training->data.train : NULL,
                              error);
    return r;
}

size_t training_staging_bytes(const struct feed_config *config)
{
    size_t bytes =
        config->loader.view.count && config->data < 0 ? loader_memory_bytes(&config->loader) : 0;

    return align_up(bytes, MEMORY_ALIGNMENT);
}
