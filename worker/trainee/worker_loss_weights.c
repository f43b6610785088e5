/* worker_loss_weights.c: see worker_loss_weights.h. */
#include "worker/trainee/worker_loss_weights.h"

#include "engine/data/description.h"
#include "proto/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The number of the class; -1: there is none of that name. */
static int32_t find_class(const struct dataset *dataset, const char *label)
{
    char *end;
    long number;

    for (int32_t i = 0; i < dataset->class_count; i++)
        if (strcmp(dataset->class_names[i], label) == 0)
            return i;
    number = strtol(label, &end, 10);
    return !dataset->class_names && *label && !*end && number >= 0 && number < dataset->classes
               ? (int32_t)number
               : -1;
}

static int weights_by_label(struct json_object *json, const struct dataset *dataset,
                            struct loss_weights *weights, struct error *error)
{
    json_object_object_foreach (json, label, weight) {
        int32_t class = find_class(dataset, label);

        if (class < 0)
            return error_set(error, -EINVAL,
                             "train.class_weights names the label \"%.100s\", which the training "
                             "data lack; correct or remove it",
                             label);
        weights->classes[class] = (float)json_object_get_double(weight);
    }
    return 0;
}

static int weights_by_number(struct json_object *json, const struct dataset *dataset,
                             struct loss_weights *weights, struct error *error)
{
    size_t count = json_object_array_length(json);

    if (count != (size_t)dataset->classes)
        return error_set(error, -EINVAL,
                         "train.class_weights has %zu numbers, but there are %d classes", count,
                         dataset->classes);
    for (size_t i = 0; i < count; i++)
        weights->classes[i] = (float)json_object_get_double(json_object_array_get_idx(json, i));
    return 0;
}

static int class_weights_read(struct worker_setup *setup, struct json_object *json,
                              struct error *error)
{
    if (json_object_is_type(json, json_type_object))
        return weights_by_label(json, setup->train, &setup->loss_weights, error);
    if (json_object_is_type(json, json_type_array))
        return weights_by_number(json, setup->train, &setup->loss_weights, error);
    return loss_weights_balance(&setup->loss_weights, &setup->split.train, error);
}

static void warn_of_smoothing(struct worker_setup *setup)
{
    const struct dataset *train = setup->train;
    char text[WORKER_WARNING_BYTES], label_made[DATASET_CLASS_BYTES],
        other_made[DATASET_CLASS_BYTES];
    int32_t label, other;

    if (!loss_weights_outweigh(&setup->spec.augmentation, train->classes, &label, &other))
        return;
    snprintf(
        text, sizeof text,
        "train.label_smoothing %g gives samples of class \"%.100s\" more of \"%.100s\" than of their "
        "own, because train.class_weights are %.3g and %.3g: they would be learnt as that; "
        "take less smoothing, or weights that are closer",
        setup->spec.augmentation.label_smoothing, dataset_class_name(train, label, label_made),
        dataset_class_name(train, other, other_made), (double)setup->loss_weights.classes[label],
        (double)setup->loss_weights.classes[other]);
    setup->data_events.warning(setup->data_events.context, text);
}

int worker_loss_weights_make(struct worker_setup *setup, struct error *error)
{
    struct json_object *json = json_get(json_get(setup->spec.normalised, "train"), "class_weights");
    const struct dataset *train = setup->train;
    int r;

    if (!json && !train->sample_weights)
        return 0;
    r = loss_weights_create(train->classes, &setup->loss_weights, error);
    if (r < 0)
        return r;
    setup->loss_weights.samples = train->sample_weights != NULL;
    setup->spec.augmentation.weights = &setup->loss_weights;
    if (train->is_absent) /* a plan gathers no batches */
        return 0;
    r = json ? class_weights_read(setup, json, error) : 0;
    if (r == 0)
        warn_of_smoothing(setup);
    return r < 0 ? r : loss_weights_check(&setup->spec.augmentation, &setup->split.train, error);
}
