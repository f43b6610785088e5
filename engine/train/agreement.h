/* agreement.h: checks that a run which moves to another device continues as it would have on the
 * old one.
 *
 * The old device computes the loss and the gradient's norm for the next batch, without an update,
 * and the checkpoint stores both. The new device computes them too, from the restored state, before
 * its first step. Neither computation changes any state. */
#pragma once

#include "base/error.h"
#include "engine/train/training.h"

/* The largest relative differences allowed between two devices. */
struct agreement_bounds {
    double loss, gradient_norm;
};
struct agreement_bounds agreement_bounds_of(enum tensor_type compute_type);

/* Computes loss and norm for the next batch on the run's device. It restarts the loader's epoch
 * afterwards, so the caller may not hold a batch. */
int agreement_measure(struct training *training, struct checkpoint_agreement *agreement,
                      struct error *error);

/* The same for the first batch of the first epoch, whatever has been trained since. */
int agreement_measure_first(struct training *training, struct checkpoint_agreement *agreement,
                            struct error *error);

/* After training_resume(): if another device wrote the checkpoint, computes loss and norm and
 * compares them with the stored ones; `compared` says whether it did. -ERROR_DISAGREEMENT with a
 * sentence if they disagree. The run stays as training_resume() left it. */
int agreement_check(struct training *training, const struct checkpoint *checkpoint, bool *compared,
                    struct error *error);
