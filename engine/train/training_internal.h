/* training_internal.h: what preparing a run (training.c) and the loop (loop.c) share. */
#pragma once

#include "engine/train/feed.h"
#include "engine/train/training.h"

struct training {
    struct training_config config;
    struct training_data data;
    struct session *session;
    struct feed *train, *validation, *test; /* NULL where the set is empty */
    struct feed_config feed_configs[3];     /* train, validation, test; session and memory later */
    /* Sets that lie in the device's memory, as the session's data; none: loaders read them. */
    struct backend_data_config sets[SESSION_DATA_MAX];
    const struct dataset *set_of[SESSION_DATA_MAX];
    int set_count;
    const struct backend *backend;
    struct weights_copy best_weights;
    struct profile *profile; /* NULL: none is made */
    struct checkpoint_folder folder;
    struct checkpoint_state state;
    bool classification;
    int64_t total_steps, total_epochs, steps_per_epoch;
};
