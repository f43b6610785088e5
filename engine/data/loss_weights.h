/* loss_weights.h: how much classes and samples count in the loss of training, as by PyTorch's
 * CrossEntropyLoss(weight=). The targets of a batch are probabilities of the classes then, and are
 * multiplied here. Validation and test sets are measured without weights. */
#pragma once

#include "engine/data/augmentation.h"

struct loss_weights {
    float *classes; /* [classes of the set]; owned */
    bool samples;   /* the set's sample_weights count, too */
};

/* Weights that are all 1. -ENOMEM. Release with loss_weights_release(). */
int loss_weights_create(int32_t classes, struct loss_weights *weights, struct error *error);
void loss_weights_release(struct loss_weights *weights);

/* Sets the weight of each class to n / (k count), where the view has n samples of k classes:
 * scikit-learn's class_weight="balanced". -ENOMEM, or what reading a sample fails with. */
int loss_weights_balance(struct loss_weights *weights, const struct dataset_view *view,
                         struct error *error);

/* Refuses weights of which none in the view is 1e-30 or more: losses would vanish in float32.
 * -EINVAL, or 0. */
int loss_weights_check(const struct augmentation *augmentation, const struct dataset_view *view,
                       struct error *error);

/* Whether smoothing gives the samples of a class `*label` more of `*other` than of their own,
 * because the latter weighs so much more: PyTorch's loss, too, then teaches them as that. */
bool loss_weights_outweigh(const struct augmentation *augmentation, int32_t classes, int32_t *label,
                           int32_t *other);

/* What a sample counts: the weight of the class that it is trained with, times its own. */
double loss_weights_of(const struct augmentation *augmentation, const struct dataset *dataset,
                       int64_t index);

/* Multiplies the targets of a batch, [count][classes] probabilities, by the weights of classes and
 * samples and by `factor`: the mean over a batch then is the sum over it of weighted losses,
 * divided by what the samples of the update count. */
void loss_weights_apply(const struct augmentation *augmentation, const struct dataset *dataset,
                        const uint32_t *indices, int64_t count, double factor, float *targets);
