/* trial_model.h: a small model and the batches that it is trained on for a few steps, to compare
 * how devices calculate: `traind-worker verify` and tests/cuda/compare_trajectories do. */
#pragma once

#include "base/error.h"
#include "engine/models/models.h"
#include "engine/train/session.h"

enum { TRIAL_CLASSES = 10 };

struct trial_model {
    struct model_config config;
    int64_t batch, shape[3]; /* of a sample */
    int rank;
    int64_t vocabulary; /* samples are symbols below it, and targets, too; 0: they are numbers */
    bool each;          /* every symbol of the text has a target, some of which do not count */
    bool padded;        /* the last symbol fills up the end of texts */
    const struct loss_head *heads; /* that share the output; NULL: classes */
    int head_count;
};

/* For session_config.build, with the model as its context. */
int trial_model_build(void *model, struct graph *graph, struct error *error);

/* Draws batch `number`, the same each time: samples of a class are shifted to one side, so that
 * there is something to learn. Release with trial_batch_release(), also after -ENOMEM. */
int trial_batch_make(const struct trial_model *model, int number, struct session_batch *batch,
                     struct error *error);
void trial_batch_release(struct session_batch *batch);

/* Makes step number `step` from 1 with products of `type`, by a constant rate, and waits for the
 * device. `*loss` is that of the batch before the update. As session_step(). */
int trial_step(struct session *session, const struct session_batch *batch, int64_t step,
               enum tensor_type type, float learning_rate, double *loss, struct error *error);
