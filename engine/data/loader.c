/* loader.c: a ring of batches that threads fill ahead of the caller.
 *
 * Batches have consecutive numbers that never restart. Batch n uses slot n modulo the number of
 * slots. A mutex guards `claimed`, `consumed` and `limit` (the end of the epoch). A thread holds it
 * for a few instructions for each batch, and gathers the samples without it. A slot announces its
 * batch through the atomic `ready`. The caller reads that for a short while before it sleeps.
 * Without threads, the caller gathers into the same slots and takes no lock. */
#include "engine/data/loader.h"

#include "base/alignment.h"
#include "base/cleanup.h"
#include "engine/data/loss_weights.h"
#include "engine/data/sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS_MAX = 2000 /* takes 20 to 60 microseconds, about as long as to sleep and wake up */ };

struct loader_slot {
    _Atomic int64_t ready; /* the number of the batch in it; -1: none */
    uint8_t *samples, *targets, *scratch;
    int32_t *lengths; /* NULL: the set has none */
    uint32_t *indices;
    int64_t position, count;
    int64_t steps;      /* 0: those of the set */
    struct error error; /* from gathering; its code is 0 if all went well */
};

struct loader {
    struct loader_config config;
    int64_t batches; /* of an epoch */
    size_t sample_bytes, target_bytes;
    uint32_t *order; /* of this epoch; NULL: that of the view */
    struct loader_slot *slots;
    int slot_count;

    /* used by the caller alone */
    int64_t next; /* the number of the batch that loader_next() returns */
    int held;
    uint32_t epoch;
    int64_t shift;       /* of this epoch's samples: dataset_view_shift() */
    int64_t epoch_first; /* the number that batch 0 of this epoch has, or would have */
    bool begun;

    pthread_mutex_t mutex;
    /* signalled if a slot is free, an epoch begins, or the threads are to stop */
    pthread_cond_t work;
    pthread_cond_t filled; /* signalled if a slot is ready, or a thread has become idle */
    int64_t claimed;       /* the number of the next batch to prepare */
    int64_t consumed;      /* how many batches were released */
    int64_t limit;         /* the number of the first batch behind the epoch */
    int busy;              /* how many threads are gathering */
    bool caller_sleeps, stopping;
    pthread_t threads[LOADER_THREADS_MAX];
    int thread_count;
};

/* ---- memory ---- */

static int slot_count(const struct loader_config *config)
{
    return LOADER_HELD_MAX + 2 * config->threads;
}

size_t loader_target_bytes(const struct loader_config *config)
{
    return config->augmentation
               ? augmentation_target_bytes(config->augmentation, config->view.dataset)
               : dataset_target_bytes(config->view.dataset);
}

static size_t scratch_bytes(const struct loader_config *config)
{
    return config->augmentation
               ? augmentation_scratch_bytes(config->augmentation, config->view.dataset)
               : 0;
}

static size_t lengths_bytes(const struct loader_config *config)
{
    return config->view.dataset->lengths ? (size_t)config->batch * sizeof(int32_t) : 0;
}

static size_t slot_bytes(const struct loader_config *config)
{
    size_t batch = (size_t)config->batch;

    return align_up(batch * dataset_sample_bytes(config->view.dataset), LOADER_ALIGNMENT) +
           align_up(batch * loader_target_bytes(config), LOADER_ALIGNMENT) +
           align_up(lengths_bytes(config), LOADER_ALIGNMENT) +
           align_up(batch * sizeof(uint32_t), LOADER_ALIGNMENT) +
           align_up(scratch_bytes(config), LOADER_ALIGNMENT);
}

int loader_threads_default(size_t batch_bytes, int idle_cores)
{
    /* below this size, to prepare a batch takes less time than to hand it over from a thread */
    enum { LARGE_BATCH = 64 * 1024 };

    return batch_bytes >= LARGE_BATCH && idle_cores > 0;
}

static bool has_order(const struct loader_config *config)
{
    return config->shuffle || config->buckets.count;
}

size_t loader_memory_bytes(const struct loader_config *config)
{
    size_t order = has_order(config)
                       ? align_up((size_t)config->view.count * sizeof(uint32_t), LOADER_ALIGNMENT)
                       : 0;

    return order + (size_t)slot_count(config) * slot_bytes(config);
}

static void slots_lay_out(struct loader *loader, uint8_t *memory)
{
    const struct loader_config *config = &loader->config;
    size_t batch = (size_t)config->batch;

    for (int i = 0; i < loader->slot_count; i++) {
        struct loader_slot *slot = &loader->slots[i];
        uint8_t *lengths;

        slot->samples = memory;
        slot->targets = slot->samples + align_up(batch * loader->sample_bytes, LOADER_ALIGNMENT);
        lengths = slot->targets + align_up(batch * loader->target_bytes, LOADER_ALIGNMENT);
        slot->lengths = lengths_bytes(config) ? (int32_t *)lengths : NULL;
        slot->indices = (uint32_t *)(lengths + align_up(lengths_bytes(config), LOADER_ALIGNMENT));
        slot->scratch =
            (uint8_t *)slot->indices + align_up(batch * sizeof *slot->indices, LOADER_ALIGNMENT);
        slot->ready = -1;
        memory += slot_bytes(config);
    }
    if (has_order(config))
        loader->order = (uint32_t *)memory;
}

/* ---- gathering ---- */

/* The steps of a batch: those of the bucket of its longest sample. */
static int64_t batch_steps(const struct loader_config *config, const struct loader_slot *slot)
{
    const struct length_buckets *buckets = &config->buckets;
    int most = 0;

    if (!buckets->count || slot->count < config->batch)
        return 0;
    for (int64_t i = 0; i < slot->count; i++) {
        int64_t length = dataset_sample_length(config->view.dataset, slot->indices[i]);
        int bucket = length_buckets_find(buckets, length);

        most = bucket > most ? bucket : most;
    }
    return most == buckets->count - 1 ? 0 : buckets->steps[most];
}

/* Moves the rows together that have been gathered with all of their padding. */
static void cut_rows(const struct loader *loader, struct loader_slot *slot)
{
    size_t whole = loader->sample_bytes, kept;

    if (!slot->steps)
        return;
    kept = whole / (size_t)loader->config.view.dataset->shape[0] * (size_t)slot->steps;
    for (size_t i = 1; i < (size_t)slot->count; i++)
        memmove(slot->samples + i * kept, slot->samples + i * whole, kept);
}

/* The number of samples of an update, divided by what they count: the update of the batch that
 * begins at `position` of the epoch. */
static double update_factor(const struct loader *loader, int64_t position)
{
    const struct loader_config *config = &loader->config;
    int64_t size = config->batch * (config->accumulate > 1 ? config->accumulate : 1);
    int64_t first = position / size * size, end = first + size;
    double sum = 0;

    if (augmentation_mixes(config->augmentation)) /* PyTorch: a mean over probabilities */
        return 1;
    if (end > loader_epoch_samples(config))
        end = loader_epoch_samples(config);
    for (int64_t i = first; i < end; i++)
        sum += loss_weights_of(
            config->augmentation, config->view.dataset,
            dataset_view_index(&config->view, loader_place(config, loader->order, i)));
    return sum > 0 ? (double)(end - first) / sum : 0;
}

static void slot_fill(struct loader *loader, struct loader_slot *slot, int64_t number)
{
    const struct loader_config *config = &loader->config;
    int64_t position = (number - loader->epoch_first) * config->batch;
    int64_t left = loader_epoch_samples(config) - position;

    slot->position = position;
    slot->count = left < config->batch ? left : config->batch;
    for (int64_t i = 0; i < slot->count; i++) {
        int64_t place = loader_place(config, loader->order, position + i);

        slot->indices[i] = (uint32_t)(dataset_view_index(&config->view, place) + loader->shift);
    }
    slot->error.code = 0;
    slot->steps = batch_steps(config, slot);
    if (slot->lengths)
        dataset_gather_lengths(config->view.dataset, slot->indices, slot->count, slot->lengths);
    if (config->augmentation)
        augmentation_gather(config->augmentation, config->view.dataset, config->normalisation,
                            loader->epoch, position, slot->indices, slot->count, slot->samples,
                            slot->targets, slot->scratch, &slot->error);
    else
        dataset_gather(config->view.dataset, config->normalisation, slot->indices, slot->count,
                       slot->samples, slot->targets, &slot->error);
    if (slot->error.code == 0 && config->augmentation && config->augmentation->weights)
        loss_weights_apply(config->augmentation, config->view.dataset, slot->indices, slot->count,
                           update_factor(loader, position), (float *)(void *)slot->targets);
    if (slot->error.code == 0)
        cut_rows(loader, slot);
}

static bool work_waits(const struct loader *loader)
{
    return loader->claimed < loader->limit &&
           loader->claimed < loader->consumed + loader->slot_count;
}

static void *thread_run(void *argument)
{
    struct loader *loader = argument;

    pthread_mutex_lock(&loader->mutex);
    for (;;) {
        while (!loader->stopping && !work_waits(loader))
            pthread_cond_wait(&loader->work, &loader->mutex);
        if (loader->stopping)
            break;
        int64_t number = loader->claimed++;
        loader->busy++;
        pthread_mutex_unlock(&loader->mutex);

        struct loader_slot *slot = &loader->slots[number % loader->slot_count];
        slot_fill(loader, slot, number);
        atomic_store_explicit(&slot->ready, number, memory_order_release);

        pthread_mutex_lock(&loader->mutex);
        loader->busy--;
        if (loader->caller_sleeps)
            pthread_cond_signal(&loader->filled);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

/* ---- life ---- */

static int check_config(const struct loader_config *config, struct error *error)
{
    if (config->view.count < 1)
        return error_set(error, -EINVAL, "there are no samples to load");
    if (config->batch < 1)
        return error_set(error, -EINVAL, "the batch size is %lld; it must be at least 1",
                         (long long)config->batch);
    if (config->threads < 0 || config->threads > LOADER_THREADS_MAX)
        return error_set(error, -EINVAL, "%d loader threads; there may be 0 to %d", config->threads,
                         LOADER_THREADS_MAX);
    return 0;
}

static int threads_start(struct loader *loader, struct error *error)
{
    sigset_t all, before;
    int result = 0;

    /* signals go to the threads that handle them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (loader->thread_count < loader->config.threads && result == 0) {
        result = pthread_create(&loader->threads[loader->thread_count], NULL, thread_run, loader);
        loader->thread_count += result == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result == 0 ? 0 : error_set_errno(error, -result, "cannot start a loader thread");
}

int loader_create(const struct loader_config *config, void *memory, struct loader **loader,
                  struct error *error)
{
    int result = check_config(config, error);
    struct loader *made;

    if (result < 0)
        return result;
    made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "not enough memory for a loader");
    made->config = *config;
    made->batches = (loader_epoch_samples(config) - 1) / config->batch + 1;
    made->sample_bytes = dataset_sample_bytes(config->view.dataset);
    made->target_bytes = loader_target_bytes(config);
    made->slot_count = slot_count(config);
    made->slots = calloc((size_t)made->slot_count, sizeof *made->slots);
    if (!made->slots) {
        free(made);
        return error_set(error, -ENOMEM, "not enough memory for a loader");
    }
    slots_lay_out(made, memory);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->work, NULL);
    pthread_cond_init(&made->filled, NULL);
    result = threads_start(made, error);
    if (result < 0)
        loader_free(made);
    else
        *loader = made;
    return result;
}

void loader_free(struct loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->stopping = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    for (int i = 0; i < loader->thread_count; i++)
        pthread_join(loader->threads[i], NULL);
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->filled);
    pthread_mutex_destroy(&loader->mutex);
    free(loader->slots);
    free(loader);
}

int64_t loader_batches_per_epoch(const struct loader *loader)
{
    return loader->batches;
}

/* ---- epochs ---- */

/* Lets no thread begin another batch, and waits for those that are gathering. */
static void threads_quiesce(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader->limit = loader->claimed;
    loader->caller_sleeps = true;
    while (loader->busy > 0)
        pthread_cond_wait(&loader->filled, &loader->mutex);
    loader->caller_sleeps = false;
    pthread_mutex_unlock(&loader->mutex);
}

static void order_epoch(struct loader *loader, uint32_t epoch)
{
    const struct loader_config *config = &loader->config;
    int64_t count = config->view.count, batches = count / config->batch;

    if (config->shuffle) {
        loader_draw_order(config, epoch, loader->order);
        loader->shift = dataset_view_shift(&config->view, config->seed, epoch);
    }
    if (!config->buckets.count)
        return;
    for (int64_t i = 0; i < count && !config->shuffle; i++)
        loader->order[i] = (uint32_t)i;
    length_buckets_sort(&config->buckets, &config->view, loader->order,
                        config->shuffle ? batches * config->batch : count);
    if (config->shuffle)
        sampler_permute_batches(config->seed, epoch, config->batch, batches, loader->order);
}

int loader_begin_epoch(struct loader *loader, uint32_t epoch, int64_t position, struct error *error)
{
    const struct loader_config *config = &loader->config;
    int64_t count = loader_epoch_samples(config), batch;
    int result = dataset_check_files(config->view.dataset, error);

    if (result < 0)
        return result;
    if (position < 0 || position > count || (position % config->batch && position != count))
        return error_set(error, -EINVAL,
                         "an epoch of %lld samples in batches of %lld cannot begin at sample %lld",
                         (long long)count, (long long)config->batch, (long long)position);
    batch = position == count ? loader->batches : position / config->batch;
    threads_quiesce(loader);
    order_epoch(loader, epoch);

    pthread_mutex_lock(&loader->mutex);
    loader->next = loader->claimed;
    loader->consumed = loader->claimed;
    loader->epoch = epoch;
    loader->epoch_first = loader->next - batch;
    loader->limit = loader->epoch_first + loader->batches;
    loader->held = 0;
    loader->begun = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    return 0;
}

static bool slot_is_ready(struct loader_slot *slot, int64_t number)
{
    return atomic_load_explicit(&slot->ready, memory_order_acquire) == number;
}

static void wait_for_slot(struct loader *loader, struct loader_slot *slot)
{
    for (int spin = 0; spin < SPINS_MAX; spin++) {
        if (slot_is_ready(slot, loader->next))
            return;
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&loader->mutex);
    loader->caller_sleeps = true;
    while (!slot_is_ready(slot, loader->next))
        pthread_cond_wait(&loader->filled, &loader->mutex);
    loader->caller_sleeps = false;
    pthread_mutex_unlock(&loader->mutex);
}

int loader_next(struct loader *loader, struct loader_batch *batch, struct error *error)
{
    struct loader_slot *slot = &loader->slots[loader->next % loader->slot_count];

    *batch = (struct loader_batch){.position = loader_epoch_samples(&loader->config)};
    if (!loader->begun)
        return error_set(error, -EINVAL, "loader_begin_epoch() has not been called");
    if (loader->next == loader->epoch_first + loader->batches)
        return 0;
    if (loader->held == LOADER_HELD_MAX)
        return error_set(error, -EBUSY, "%d batches are held already; release one first",
                         loader->held);
    if (loader->thread_count == 0)
        slot_fill(loader, slot, loader->next);
    else
        wait_for_slot(loader, slot);
    if (slot->error.code < 0) {
        if (error)
            *error = slot->error;
        return slot->error.code;
    }
    *batch = (struct loader_batch){.samples = slot->samples,
                                   .targets = slot->targets,
                                   .lengths = slot->lengths,
                                   .indices = slot->indices,
                                   .steps = slot->steps,
                                   .count = slot->count,
                                   .position = slot->position};
    loader->next++;
    loader->held++;
    return 0;
}

void loader_release(struct loader *loader)
{
    if (loader->held == 0)
        return;
    loader->held--;
    if (loader->thread_count == 0)
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->consumed++;
    /* To wake a thread takes longer than a small batch, so wait until half of the ring is empty.
     * Half of a ring is more than the caller may hold, so the caller never waits for a batch for
     * which no thread was woken. */
    if (loader->claimed - loader->consumed <= loader->slot_count / 2)
        pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
}
