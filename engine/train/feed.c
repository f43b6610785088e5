/* feed.c: see feed.h. */
#include "engine/train/feed.h"

#include <errno.h>
#include <stdlib.h>

struct feed {
    struct feed_config config;
    struct loader *loader; /* NULL: the data is on the device */
    struct loader_batch batch;
    bool fetched; /* `batch` has been fetched, but not run yet */
    int held;     /* batches that the session still reads */

    /* for data on the device: the state of the epoch */
    uint32_t *order; /* owned: an order that is being written to the device */
    uint32_t epoch;
    int64_t position;
    int64_t ordered[2]; /* the epochs whose orders the device has; -1: none */
};

/* ---- orders ---- */

/* Even and odd epochs use different places. */
static int turn_of(const struct loader_config *loader, uint32_t epoch)
{
    return loader->shuffle ? (int)(epoch % 2) : 0;
}

static int64_t first_of(const struct feed *feed, uint32_t epoch)
{
    const struct loader_config *loader = &feed->config.loader;

    return feed->config.first_order + turn_of(loader, epoch) * loader->view.count;
}

int64_t feed_orders(const struct loader_config *loader)
{
    return loader->view.count * (loader->shuffle ? 2 : 1);
}

size_t feed_host_bytes(const struct feed_config *config)
{
    return config->data < 0 ? 0 : (size_t)config->loader.view.count * sizeof(uint32_t);
}

static int order_epoch(struct feed *feed, uint32_t epoch, struct error *error)
{
    const struct loader_config *loader = &feed->config.loader;
    int64_t count = loader->view.count, *ordered = &feed->ordered[turn_of(loader, epoch)];
    int64_t shift = 0;
    int r;

    if (loader->shuffle ? *ordered == epoch : *ordered >= 0)
        return 0;
    if (loader->shuffle) {
        loader_draw_order(loader, epoch, feed->order);
        shift = dataset_view_shift(&loader->view, loader->seed, epoch);
    }
    for (int64_t i = 0; i < count; i++)
        feed->order[i] =
            (uint32_t)(shift + dataset_view_index(
                                   &loader->view,
                                   loader_place(loader, loader->shuffle ? feed->order : NULL, i)));
    r = session_write_order(feed->config.session, feed->config.data, first_of(feed, epoch), count,
                            feed->order, error);
    *ordered = r == 0 ? (int64_t)epoch : -1;
    return r;
}

/* ---- life ---- */

int feed_create(const struct feed_config *config, struct feed **feed, struct error *error)
{
    struct feed *made = calloc(1, sizeof *made);
    int r = 0;

    if (!made)
        return error_set_errno(error, -ENOMEM, "cannot prepare the batches");
    made->config = *config;
    made->ordered[0] = made->ordered[1] = -1;
    if (config->data < 0) {
        r = loader_create(&config->loader, config->memory, &made->loader, error);
    } else {
        made->order = malloc(feed_host_bytes(config) + 1);
        if (!made->order)
            r = error_set_errno(error, -ENOMEM, "cannot prepare the batches");
    }
    if (r < 0)
        feed_free(made);
    else
        *feed = made;
    return r;
}

void feed_free(struct feed *feed)
{
    if (!feed)
        return;
    loader_free(feed->loader);
    free(feed->order);
    free(feed);
}

/* ---- epochs ---- */

int feed_begin_epoch(struct feed *feed, uint32_t epoch, int64_t position, struct error *error)
{
    const struct loader_config *loader = &feed->config.loader;
    int r = 0;

    feed->fetched = false;
    feed->held = 0;
    if (feed->loader)
        return loader_begin_epoch(feed->loader, epoch, position, error);
    if (position < 0 || position > loader_epoch_samples(loader) ||
        (position % loader->batch && position != loader_epoch_samples(loader)))
        return error_set(error, -EINVAL,
                         "an epoch of %lld samples in batches of %lld cannot begin at sample %lld",
                         (long long)loader_epoch_samples(loader), (long long)loader->batch,
                         (long long)position);
    r = order_epoch(feed, epoch, error);
    feed->epoch = epoch;
    feed->position = position;
    return r;
}

int feed_prepare_epoch(struct feed *feed, uint32_t epoch, struct error *error)
{
    return feed->loader ? 0 : order_epoch(feed, epoch, error);
}

void feed_end_epoch(struct feed *feed)
{
    while (feed->held > 0) {
        loader_release(feed->loader);
        feed->held--;
    }
}

/* ---- batches ---- */

int feed_fetch(struct feed *feed, int64_t *count, struct error *error)
{
    const struct loader_config *loader = &feed->config.loader;
    int64_t left = loader_epoch_samples(loader) - feed->position;
    int r;

    if (!feed->loader) {
        *count = left < loader->batch ? left : loader->batch;
        return 0;
    }
    if (!feed->fetched) {
        r = loader_next(feed->loader, &feed->batch, error);
        if (r < 0)
            return r;
        feed->fetched = feed->batch.count > 0;
    }
    *count = feed->batch.count;
    return 0;
}

int feed_steps_max(const struct feed *feed)
{
    const struct loader_config *loader = &feed->config.loader;
    int64_t whole = (loader->view.count - feed->position) / loader->batch;

    return feed->loader || whole < 1   ? 1
           : whole < BACKEND_STEPS_MAX ? (int)whole
                                       : BACKEND_STEPS_MAX;
}

int feed_round(int64_t count)
{
    int rounded = 1;

    while (rounded * 2 <= count)
        rounded *= 2;
    return rounded;
}

static int run_loaded(struct feed *feed, bool training, const struct backend_step *step,
                      struct error *error)
{
    const struct session_batch batch = {.count = feed->batch.count,
                                        .steps = feed->batch.steps,
                                        .samples = feed->batch.samples,
                                        .targets = feed->batch.targets,
                                        .lengths = feed->batch.lengths};
    int r = training
                ? session_step(feed->config.session, &batch, step->phases, &step->scalars, error)
                : session_evaluate(feed->config.session, &batch, error);

    feed->fetched = false;
    if (++feed->held == LOADER_HELD_MAX) {
        loader_release(feed->loader);
        feed->held--;
    }
    return r;
}

int feed_run(struct feed *feed, bool training, struct backend_step *steps, int count,
             struct error *error)
{
    const struct loader_config *loader = &feed->config.loader;
    const struct augmentation *augmentation = loader->augmentation;
    int64_t samples;
    int r = feed_fetch(feed, &samples, error);

    if (r < 0)
        return r;
    if (feed->loader)
        return run_loaded(feed, training, steps, error);
    for (int k = 0; k < count; k++) {
        int64_t position = feed->position + k * samples;

        steps[k].batch = (struct backend_batch){
            .first = first_of(feed, feed->epoch) + position,
            .augmented = augmentation != NULL,
            .epoch = feed->epoch,
            .share = augmentation && augmentation->mixup_alpha > 0
                         ? augmentation_mixup_share(augmentation, feed->epoch, position)
                         : 1};
    }
    feed->position += count * samples;
    return session_steps(feed->config.session, training, samples, feed->config.data, steps, count,
                         error);
}

const struct loader_batch *feed_batch(const struct feed *feed)
{
    return feed->loader ? &feed->batch : NULL;
}
