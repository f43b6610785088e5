/* data_time.c: measures how long batches take to load: training_measure_data() of training.h. */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "engine/train/training_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { BATCHES_MAX = 33 };
static const double seconds_enough = 0.02;

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median time of a batch. The first batch touches memory and files, so it counts only if there
 * is no other. */
static int time_batches(const struct loader_config *config, struct loader *loader, double *seconds,
                        struct error *error)
{
    double times[BATCHES_MAX], total = 0;
    int count = 0, r = loader_begin_epoch(loader, 0, 0, error);

    while (r == 0 && count < BATCHES_MAX && (count < 3 || total < seconds_enough)) {
        struct loader_batch batch;
        double begin = clock_monotonic();

        r = loader_next(loader, &batch, error);
        if (r < 0 || batch.count < config->batch)
            break;
        loader_release(loader);
        total += times[count++] = clock_monotonic() - begin;
    }
    if (r < 0)
        return r;
    if (count > 1) {
        qsort(times + 1, (size_t)count - 1, sizeof *times, compare_numbers);
        *seconds = times[1 + (count - 1) / 2];
    } else {
        *seconds = count ? times[0] : NAN;
    }
    return 0;
}

int training_measure_data(const struct training *training, double *seconds, bool *overlaps,
                          struct error *error)
{
    struct loader_config config = training->feed_configs[0].loader;
    AUTO_FREE void *memory = NULL;
    struct loader *loader = NULL;
    int r;

    *overlaps = config.threads > 0;
    *seconds = NAN;
    if (config.view.dataset->is_absent)
        return 0;
    if (training->set_count) { /* during the step before */
        *overlaps = true;
        *seconds = 0;
        return 0;
    }
    config.threads = 0;
    memory =
        aligned_alloc(LOADER_ALIGNMENT, align_up(loader_memory_bytes(&config), LOADER_ALIGNMENT));
    if (!memory)
        return error_set_errno(error, -ENOMEM, "cannot time the data");
    r = loader_create(&config, memory, &loader, error);
    if (r == 0)
        r = time_batches(&config, loader, seconds, error);
    loader_free(loader);
    return r;
}
