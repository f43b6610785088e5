/* worker_ranges.c: see worker_ranges.h. */
#include "worker/trainee/worker_ranges.h"

#include "base/cleanup.h"
#include "engine/train/evaluation.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_session(struct worker_setup *setup, const struct checkpoint *checkpoint,
                        const struct loader_config *loader, struct session **session,
                        struct error *error)
{
    int64_t count = loader->view.count, batch = loader->batch;
    struct session_config wanted = {
        .backend = setup->backend,
        .device = setup->device,
        .build = worker_setup_build,
        .build_context = setup,
        .observes = true,
        .direct_convolutions = checkpoint->state.direct_convolutions,
        .evaluation_batches = {count < batch ? count : batch, count % batch},
        .staging_bytes = loader_memory_bytes(loader)};
    int r = session_prepare(&wanted, session, error);

    if (r == 0)
        r = session_allocate(*session, error);
    return r == 0 ? checkpoint_restore(checkpoint, *session, false, NULL, error) : r;
}

static int observe(struct session *session, const struct loader_config *loader, struct error *error)
{
    struct step_metrics sums;
    struct feed *feed = NULL;
    int r = feed_create(
        &(struct feed_config){
            .session = session, .loader = *loader, .memory = session_staging(session), .data = -1},
        &feed, error);

    if (r == 0)
        r = evaluation_run(session, feed, 1, NULL, NULL, NULL, &sums, error);
    feed_free(feed);
    return r;
}

static const char prefix[] = GRAPH_RANGE_PREFIX;

bool worker_ranges_are_learnt(const struct checkpoint *checkpoint)
{
    for (int i = 0; i < checkpoint->file.tensor_count; i++)
        if (strncmp(checkpoint->file.tensors[i].name, prefix, sizeof prefix - 1) == 0)
            return true;
    return false;
}

/* The range that training learnt, unless it saw no batch. */
static bool read_learnt(const struct checkpoint *checkpoint, const char *name, float range[2])
{
    const struct safetensors_tensor *found = safetensors_find(&checkpoint->file, name);
    float learnt[2];

    if (!found || found->type != SAFETENSORS_FLOAT32 || found->bytes != sizeof learnt)
        return false;
    safetensors_read(&checkpoint->file, found, learnt);
    if (learnt[0] == 0 && learnt[1] == 0)
        return false;
    memcpy(range, learnt, sizeof learnt);
    return true;
}

/* Writes the lines of the text. */
static int write_ranges(const struct checkpoint *checkpoint, struct session *session, FILE *text,
                        struct error *error)
{
    struct session_tensor tensor;
    float range[2];
    int r = 0;

    fputs("static\n", text);
    for (int i = 0; r == 0 && session_tensor(session, i, &tensor) == 0; i++) {
        if (strncmp(tensor.name, prefix, sizeof prefix - 1) != 0)
            continue;
        if (!read_learnt(checkpoint, tensor.name, range))
            r = session_read(session, i, range, error);
        if (r == 0 && (!isfinite(range[0]) || !isfinite(range[1])))
            r = error_set(error, -EINVAL,
                          "the model gives numbers that are not finite for samples of the training "
                          "part (%s): it cannot be quantized",
                          tensor.name + sizeof prefix - 1);
        if (r == 0)
            fprintf(text, "%.9g %.9g %s\n", (double)range[0], (double)range[1],
                    tensor.name + sizeof prefix - 1);
    }
    return r;
}

static char *describe_ranges(const struct checkpoint *checkpoint, struct session *session,
                             struct error *error)
{
    char *content = NULL;
    size_t size;
    FILE *text = open_memstream(&content, &size);
    int r;

    if (!text) {
        error_no_memory(error, "the ranges");
        return NULL;
    }
    r = write_ranges(checkpoint, session, text, error);
    if (fclose(text) != 0 && r == 0)
        r = error_no_memory(error, "the ranges");
    if (r == 0)
        return content;
    free(content);
    return NULL;
}

/* Samples that lie evenly in the training part; the caller frees the indices. */
static uint32_t *spread(const struct dataset_view *train, struct dataset_view *view,
                        struct error *error)
{
    int64_t count = train->count < RANGES_SAMPLES ? train->count : RANGES_SAMPLES;
    uint32_t *indices = malloc((size_t)count * sizeof *indices + 1);

    if (!indices) {
        error_no_memory(error, "the samples of the calibration");
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        indices[i] = (uint32_t)dataset_view_index(train, i * train->count / count);
    *view = (struct dataset_view){.dataset = train->dataset, .indices = indices, .count = count};
    return indices;
}

char *worker_ranges_observe(struct worker_setup *setup, const struct checkpoint *checkpoint,
                            int64_t batch, int64_t *samples, struct error *error)
{
    bool symbols = dataset_format_has_symbols(setup->train->format);
    struct loader_config loader = {.batch = batch,
                                   .normalisation = symbols ? NULL : &setup->normalisation};
    struct session *session = NULL;
    AUTO_FREE uint32_t *indices = spread(&setup->split.train, &loader.view, error);
    char *text = NULL;
    int r;

    if (!indices)
        return NULL;
    if (loader.batch > loader.view.count)
        loader.batch = loader.view.count;
    *samples = loader.view.count;
    r = open_session(setup, checkpoint, &loader, &session, error);
    if (r == 0)
        r = observe(session, &loader, error);
    if (r == 0)
        text = describe_ranges(checkpoint, session, error);
    session_free(session);
    return text;
}
