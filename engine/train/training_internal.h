/* training_internal.h: a run, which training.c prepares and loop.c trains. */
#pragma once

#include "engine/train/feed.h"
#include "engine/train/training.h"

struct training {
    struct training_config config;
    struct training_data data;
    struct session *session;
    struct feed *train, *validation, *test; /* NULL where the set is empty */
    /* train, validation, test; allocation sets session and memory */
    struct feed_config feed_configs[3];
    /* Sets in the device's memory, in the order of the session's data; set_count 0: loaders read
     * all sets. */
    struct backend_data_config sets[SESSION_DATA_MAX];
    const struct dataset *set_of[SESSION_DATA_MAX];
    int set_count;
    const struct backend *backend;
    struct weights_copy best_weights;
    struct profile *profile; /* NULL: the run is not profiled */
    struct checkpoint_folder folder;
    struct checkpoint_state state;
    struct metrics *metrics; /* NULL: none that reads outputs */
    metric_set measured[METRIC_SUBSETS];
    metric_set watched; /* by the best checkpoint, the early stop or the schedule */
    bool classification;
    struct length_buckets buckets;
    int64_t epoch_samples; /* of the training set, that an epoch trains on */
    int64_t total_steps, total_epochs, steps_per_epoch;
    /* how many steps more the run has done than its epochs have now: it goes on from a checkpoint
     * with updates of another size, or data of another length. The schedule counts without them */
    int64_t steps_before;
};

/* ---- training_data.c, in this order ---- */

/* Chooses the lengths of batches by the training part. Lengths that are too short for the model are
 * left out. -EINVAL with a sentence. */
int training_choose_lengths(struct training *training, session_build_function build,
                            void *build_context, struct error *error);
/* Describes the loaders of the three sets. */
void training_set_feeds(struct training *training);
/* Lets the device keep the data, if it can make the batches and has room. */
void training_place_data(struct training *training, const struct backend *backend,
                         struct backend_device *device);
/* Writes the sets that the device keeps into its memory, once it is allocated. */
int training_write_data(struct training *training, const struct backend *backend,
                        struct error *error);
/* How many bytes of the plan's staging a set's loader takes. */
size_t training_staging_bytes(const struct feed_config *config);
