/* training_internal.h: what preparing a run (training.c) and the loop (loop.c) share. */
#pragma once

#include "engine/train/training.h"

struct training {
    struct training_config config;
    struct training_data data;
    struct session *session;
    struct loader *train, *validation, *test; /* NULL where the set is empty */
    struct loader_config loader_configs[3];   /* train, validation, test */
    struct weights_copy best_weights;
    struct profile *profile; /* NULL: none is made */
    struct checkpoint_folder folder;
    struct checkpoint_state state;
    bool classification;
    int64_t total_steps, total_epochs, steps_per_epoch;
};
