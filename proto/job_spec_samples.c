/* job_spec_samples.c: rules between the keys that choose the samples that train and validate. */
#include "proto/job_spec_value.h"

#include <string.h>

/* The keys of a split by the parts that a column names. */
static int check_split_column(struct job_spec_check *check, struct json_object *data)
{
    struct json_object *split = json_get(data, "split");
    const char *by = json_get_string(split, "by", "");
    bool named = json_get(split, "validation_values") || json_get(split, "test_values");

    if (strcmp(by, "column") != 0)
        return named ? job_spec_fail_at(check, "data.split.by",
                                        "data.split.validation_values and data.split.test_values "
                                        "name parts, so data.split.by has to be column")
                     : 0;
    if (json_get(split, "folds"))
        return job_spec_fail_at(check, "data.split.folds",
                                "data.split.by is column, so the column says which samples "
                                "validate; leave out data.split.folds");
    if (json_get_double(data, "validation_fraction", 0) <= 0)
        return job_spec_fail_at(check, "data.validation_fraction",
                                "data.split.by is column, so the column says which samples "
                                "validate; leave out data.validation_fraction");
    return 0;
}

/* The parts of the split have to fit the data, and each other. */
static int check_split(struct job_spec_check *check, struct json_object *data)
{
    struct json_object *split = json_get(data, "split");
    const char *by = json_get_string(split, "by", "");
    const char *format = json_get_string(json_get(data, "train"), "format", "");
    bool in_order = strcmp(format, "text") == 0 || strcmp(format, "time_series") == 0;

    if (!split)
        return 0;
    if (in_order &&
        (json_get(split, "folds") || (strcmp(by, "random") != 0 && strcmp(by, "order") != 0)))
        return job_spec_fail_at(check, "data.split",
                                "texts and time series are cut at one place, and their end "
                                "validates; leave out data.split");
    if (json_get(split, "folds") && json_get_double(data, "validation_fraction", 0) <= 0)
        return job_spec_fail_at(check, "data.validation_fraction",
                                "data.split.folds lets a part of the samples validate, but "
                                "data.validation_fraction is 0; leave it out");
    if (json_get(split, "folds") &&
        json_get_int(split, "fold", 0) >= json_get_int(split, "folds", 0))
        return job_spec_fail_at(
            check, "data.split.fold",
            "data.split.fold counts from 0 and has to be below data.split.folds");
    if (json_get_int(split, "fold", 0) > 0 && !json_get(split, "folds"))
        return job_spec_fail_at(check, "data.split.folds",
                                "data.split.fold names a fold, but data.split.folds does not say "
                                "how many there are");
    if (json_get(split, "column") && strcmp(format, "table") != 0)
        return job_spec_fail_at(check, "data.split.column",
                                "data.split.column names a column, which only data of the format "
                                "table have; leave it out, or read the file as a table");
    if (strcmp(by, "group") == 0 && !json_get(split, "column"))
        return job_spec_fail_at(check, "data.split.column",
                                "data.split.by is group, so data.split.column has to name the "
                                "column whose texts are the groups");
    if (strcmp(by, "column") == 0 && !json_get(split, "column"))
        return job_spec_fail_at(check, "data.split.column",
                                "data.split.by is column, so data.split.column has to name the "
                                "column that says which samples validate");
    if (json_get(split, "column") && (strcmp(by, "random") == 0 || strcmp(by, "stratified") == 0))
        return job_spec_fail_at(
            check, "data.split.column",
            "data.split.column is for data.split.by column, group or order; leave it out");
    return check_split_column(check, data);
}

/* Weights multiply the cross entropy of classes. */
static int check_loss_weights(struct job_spec_check *check, struct json_object *normalised,
                              bool has_classes)
{
    struct json_object *data = json_get(normalised, "data"), *train = json_get(data, "train");
    struct json_object *augment = json_get(data, "augment");
    const char *loss = json_get_string(json_get(normalised, "model"), "loss", "cross_entropy");
    const char *samples = json_get(train, "weight_column")    ? "data.train.weight_column"
                          : json_get(train, "sample_weights") ? "data.train.sample_weights"
                                                              : NULL;
    bool classes = json_get(json_get(normalised, "train"), "class_weights") != NULL, mixes = false;
    const char *path = classes ? "train.class_weights" : samples;

    if (!path)
        return 0;
    for (size_t i = 0; augment && i < json_object_array_length(augment); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(augment, i));

        mixes |= strncmp(name, "mixup:", 6) == 0 || strncmp(name, "cutmix:", 7) == 0;
    }
    check->path[0] = '\0';
    job_spec_path_push(check, "", path);
    if (!has_classes || strcmp(loss, "cross_entropy") != 0)
        return job_spec_fail(check, NULL,
                             "%s needs a class for each sample and the loss cross_entropy; leave "
                             "it out",
                             path);
    if (samples && mixes)
        return job_spec_fail(
            check, NULL,
            "%s gives each sample a weight, but mixup and cutmix mix samples; leave out "
            "one",
            samples);
    return 0;
}

int job_spec_samples_check(struct job_spec_check *check, struct json_object *normalised,
                           bool has_classes, const char *words)
{
    struct json_object *data = json_get(normalised, "data");
    struct json_object *train = json_get(normalised, "train");
    int r = check_split(check, data);

    if (r == 0)
        r = check_loss_weights(check, normalised, has_classes);
    if (r < 0 || strcmp(json_get_string(train, "sampling", ""), "balanced") != 0)
        return r;
    if (!has_classes) {
        check->path[0] = '\0';
        job_spec_path_push(check, "", "train.sampling");
        return job_spec_fail(
            check, "shuffled",
            "train.sampling is balanced, but %s have no class for each sample; use shuffled",
            words);
    }
    if (json_get_int(data, "length_buckets", 1) > 1)
        return job_spec_fail_at(check, "train.sampling",
                                "train.sampling is balanced, which draws samples whatever their "
                                "length; leave out data.length_buckets");
    return 0;
}
