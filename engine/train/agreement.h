/* agreement.h: whether a run that moves to another device goes on as it would have where it was.
 *
 * The device that a run leaves computes the loss and the gradient's norm of the batch that comes
 * next, without an update, and stores both in the checkpoint. The one that it arrives at computes
 * them too, from the restored state, before its first step. Neither changes any state. */
#pragma once

#include "base/error.h"
#include "engine/train/training.h"

/* How far two devices may differ, as a part of the value. */
struct agreement_bounds {
    double loss, gradient_norm;
};
struct agreement_bounds agreement_bounds_of(enum tensor_type compute_type);

/* What the run's device computes for the batch that comes next; the loader's epoch begins anew
 * afterwards, so nobody may hold a batch. */
int agreement_measure(struct training *training, struct checkpoint_agreement *agreement,
                      struct error *error);

/* After training_resume(): compares with what the checkpoint holds, when another device wrote it;
 * `compared` says whether. -ERROR_DISAGREEMENT with a sentence when the two disagree. The run is
 * then as training_resume() left it. */
int agreement_check(struct training *training, const struct checkpoint *checkpoint, bool *compared,
                    struct error *error);
