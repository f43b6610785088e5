/* augmentation.h: random changes to samples and labels of training batches. Every draw is a
 * function of (seed, epoch, index of the sample), that of MixUp of (seed, epoch, place of the
 * batch). So neither the number of loader threads nor a resume changes the result. Validation and
 * test sets are gathered with dataset_gather(), without changes. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loss_weights;

/* The settings, which are applied in this order. All zero: no change. */
struct augmentation {
    uint64_t seed;
    /* A label becomes another class, each equally likely, with this probability: a function of
     * (seed, index), the same in every epoch. */
    double label_noise;
    /* The image is framed with this many raw zeros (black). Then a part of its original size is cut
     * out at a uniformly drawn place: torchvision's RandomCrop(size, padding). */
    int64_t crop_padding;
    bool horizontal_flip; /* mirrored with probability 1/2 */
    bool vertical_flip;   /* turned upside down with probability 1/2 */
    /* Changes to images of bytes (augmentation_images.h), each 0: none. Before the crop above and
     * in this order: the least share of the area for RandomResizedCrop, the magnitude of
     * RandAugment, strengths of ColorJitter, degrees of RandomRotation */
    double crop_scale, rand_augment, brightness, contrast, saturation, hue, rotation;
    /* A square of this side around a uniformly drawn pixel, as far as it lies in the image, is set
     * to 0 after normalisation: DeVries and Taylor 2017, arXiv:1708.04552. */
    int64_t cutout_side;
    /* With this probability a box of 2 to 33 % of the image is set to 0 after normalisation:
     * v2.RandomErasing, Zhong and others 2017, arXiv:1708.04896. */
    double erasing;
    /* With lambda from Beta(alpha, alpha), one for each batch, sample i becomes lambda x_i +
     * (1 - lambda) x_(i-1), the first one's partner being the last, and likewise the targets:
     * Zhang, Cisse, Dauphin and Lopez-Paz 2018, arXiv:1710.09412, paired as by torchvision's
     * v2.MixUp. */
    double mixup_alpha;
    /* A box of sample i is that of sample i-1, and targets are mixed by its share: Yun and others
     * 2019, arXiv:1905.04899, v2.CutMix. With both, each batch draws one of them. */
    double cutmix_alpha;
    /* Targets become (1 - smoothing) p + smoothing / classes: PyTorch's CrossEntropyLoss. */
    double label_smoothing;
    /* What classes and samples count (loss_weights.h), which the loader multiplies the targets
     * with; NULL: all count alike. Outlives the settings */
    const struct loss_weights *weights;
};

bool augmentation_is_none(const struct augmentation *augmentation);

/* Whether samples are mixed with others: MixUp or CutMix. */
bool augmentation_mixes(const struct augmentation *augmentation);

/* Whether targets are probabilities, float32 [count][classes], instead of labels. */
bool augmentation_is_soft(const struct augmentation *augmentation);

/* Whether batches can only be made by augmentation_gather(): no device has its changes. */
bool augmentation_needs_host(const struct augmentation *augmentation);

/* Checks that the augmentation suits the set: -EINVAL with a sentence. */
int augmentation_check(const struct augmentation *augmentation, const struct dataset *dataset,
                       struct error *error);

/* Bytes of one sample's target, and of scratch that augmentation_gather() needs. */
size_t augmentation_target_bytes(const struct augmentation *augmentation,
                                 const struct dataset *dataset);
size_t augmentation_scratch_bytes(const struct augmentation *augmentation,
                                  const struct dataset *dataset);

/* dataset_gather() for a batch of `epoch` that begins at its sample `position`. Thread-safe as long
 * as each thread has a `scratch` (aligned to 4 bytes) of its own; allocates nothing. */
int augmentation_gather(const struct augmentation *augmentation, const struct dataset *dataset,
                        const struct dataset_normalisation *normalisation, uint32_t epoch,
                        int64_t position, const uint32_t *indices, int64_t count, void *samples,
                        void *targets, void *scratch, struct error *error);

/* The label that sample `index` is trained with. */
int32_t augmentation_label(const struct augmentation *augmentation, int32_t classes, int64_t index,
                           int32_t label);
/* lambda of the batch. */
float augmentation_mixup_share(const struct augmentation *augmentation, uint32_t epoch,
                               int64_t position);
