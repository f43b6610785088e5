/* loss_weights.c: see loss_weights.h. */
#include "engine/data/loss_weights.h"

#include "base/cleanup.h"
#include "engine/data/gather.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <stdlib.h>

int loss_weights_create(int32_t classes, struct loss_weights *weights, struct error *error)
{
    *weights = (struct loss_weights){.classes = calloc((size_t)classes + 1, sizeof(float))};
    if (!weights->classes)
        return error_no_memory(error, "the weights of the classes");
    for (int32_t i = 0; i < classes; i++)
        weights->classes[i] = 1;
    return 0;
}

void loss_weights_release(struct loss_weights *weights)
{
    free(weights->classes);
    *weights = (struct loss_weights){0};
}

int loss_weights_balance(struct loss_weights *weights, const struct dataset_view *view,
                         struct error *error)
{
    const struct dataset *dataset = view->dataset;
    AUTO_FREE int64_t *sizes = calloc((size_t)dataset->classes + 1, sizeof *sizes);
    int64_t classes = 0;

    if (!sizes)
        return error_no_memory(error, "the weights of the classes");
    for (int64_t i = 0; i < view->count; i++) {
        int64_t index = dataset_view_index(view, i);
        const uint8_t *raw = gather_sample(dataset, index, error);

        if (!raw)
            return error->code;
        classes += sizes[gather_label(dataset, index, raw)]++ == 0;
    }
    for (int32_t i = 0; i < dataset->classes; i++)
        if (sizes[i])
            weights->classes[i] =
                (float)((double)view->count / ((double)classes * (double)sizes[i]));
    return 0;
}

double loss_weights_of(const struct augmentation *augmentation, const struct dataset *dataset,
                       int64_t index)
{
    const struct loss_weights *weights = augmentation->weights;
    int32_t label = augmentation_label(augmentation, dataset->classes, index,
                                       gather_label(dataset, index, reader_sample(dataset, index)));

    return (double)weights->classes[label] *
           (weights->samples ? (double)dataset->sample_weights[index] : 1);
}

int loss_weights_check(const struct augmentation *augmentation, const struct dataset_view *view,
                       struct error *error)
{
    static const double least = 1e-30;

    for (int64_t i = 0; i < view->count; i++)
        if (loss_weights_of(augmentation, view->dataset, dataset_view_index(view, i)) >= least)
            return 0;
    return error_set(error, -EINVAL,
                     "no sample of the training part has a weight above %g, so there is nothing to "
                     "learn: correct train.class_weights and the weights of the samples, or "
                     "multiply them",
                     least);
}

bool loss_weights_outweigh(const struct augmentation *augmentation, int32_t classes, int32_t *label,
                           int32_t *other)
{
    const float *weights = augmentation->weights->classes;
    double rest = augmentation->label_smoothing / classes,
           own = 1 - augmentation->label_smoothing + rest;

    *label = *other = 0;
    for (int32_t c = 1; c < classes; c++) {
        *label = weights[c] < weights[*label] ? c : *label;
        *other = weights[c] > weights[*other] ? c : *other;
    }
    return (double)weights[*label] * own < (double)weights[*other] * rest;
}

void loss_weights_apply(const struct augmentation *augmentation, const struct dataset *dataset,
                        const uint32_t *indices, int64_t count, double factor, float *targets)
{
    const struct loss_weights *weights = augmentation->weights;

    for (int64_t i = 0; i < count; i++) {
        float *row = targets + i * dataset->classes;
        double own = factor * (weights->samples ? (double)dataset->sample_weights[indices[i]] : 1);

        for (int32_t c = 0; c < dataset->classes; c++)
            row[c] = (float)(own * (double)weights->classes[c] * (double)row[c]);
    }
}
