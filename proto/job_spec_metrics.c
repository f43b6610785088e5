/* job_spec_metrics.c: rules on the metrics that a job specification names: those of the list, and
 * those by which checkpoints, early stops and schedules go. */
#include "proto/data_formats.h"
#include "proto/job_spec_value.h"
#include "proto/metric_kinds.h"

#include <stdio.h>
#include <string.h>

#define METRIC(upper, lower, traits, ...) {#lower, traits},
static const struct {
    const char *name;
    unsigned traits;
} metric_kinds[] = {METRIC_KINDS(METRIC)};
#undef METRIC

/* Whether the metric is one of the task. */
static bool metric_fits(const char *name, unsigned task)
{
    for (size_t i = 0; i < sizeof metric_kinds / sizeof *metric_kinds; i++)
        if (strcmp(metric_kinds[i].name, name) == 0)
            return metric_kinds[i].traits & task;
    return false;
}

/* What the specification has to predict, as a trait of metrics and in words. */
static unsigned find_task(struct json_object *normalised, const char **words)
{
    struct json_object *train = json_get(json_get(normalised, "data"), "train");

    if (strcmp(json_get_string(json_get(normalised, "model"), "loss", ""),
               "binary_cross_entropy") == 0) {
        *words = "labels that are 0 or 1 (model.loss binary_cross_entropy)";
        return METRIC_OF_LABELS;
    }
    if (job_spec_loss_is_of_values(json_get(normalised, "model"))) {
        *words = "values (model.loss mse and the like)";
        return METRIC_OF_VALUES;
    }
    if (json_get(json_get(normalised, "model"), "output_heads")) {
        *words = "several labels (model.output_heads)";
        return METRIC_OF_HEADS;
    }
    if (strcmp(json_get_string(json_get(normalised, "model"), "loss", ""), "triplet") == 0) {
        *words = "embeddings (model.loss triplet)";
        return METRIC_OF_EMBEDDINGS;
    }
    if (job_spec_format_traits(json_get_string(train, "format", "")) & DATA_FORMAT_TEXT) {
        *words = "the symbols of a text";
        return METRIC_OF_TEXT;
    }
    *words = "classes";
    return METRIC_OF_CLASSES;
}

/* Whether the metric is the loss of one of the model's heads. */
static bool is_loss_of_head(const char *metric, struct json_object *normalised)
{
    struct json_object *heads = json_get(json_get(normalised, "model"), "output_heads");

    for (size_t i = 0; heads && i < json_object_array_length(heads); i++) {
        const char *head = json_get_string(json_object_array_get_idx(heads, i), "name", "");
        char name[64];

        snprintf(name, sizeof name, METRIC_OF_HEAD, head);
        if (strcmp(name, metric) == 0)
            return true;
    }
    return false;
}

/* Checks that the run measures the metric that a key names. */
static int check_metric(struct job_spec_check *check, const char *path, const char *metric,
                        struct json_object *normalised)
{
    double fraction = json_get_double(json_get(normalised, "data"), "validation_fraction", 0);
    const char *words, *name = strchr(metric, '_') + 1;
    unsigned task = find_task(normalised, &words);

    check->path[0] = '\0';
    job_spec_path_push(check, "", path);
    if (strncmp(metric, "validation_", 11) == 0 && fraction <= 0)
        return job_spec_fail(check, "train_loss",
                             "%s is %s, but data.validation_fraction is 0; use train_loss or set "
                             "samples aside",
                             path, metric);
    if (!metric_fits(name, task) && !is_loss_of_head(metric, normalised))
        return job_spec_fail(check, "validation_loss",
                             "%s is %s, but %s have no %s; use validation_loss", path, metric,
                             words, name);
    return 0;
}

bool job_spec_task_find(struct json_object *normalised, const char **words)
{
    return find_task(normalised, words) & (METRIC_OF_CLASSES | METRIC_OF_EMBEDDINGS);
}

int job_spec_metrics_check_list(struct job_spec_check *check, struct json_object *normalised)
{
    struct json_object *list = json_get(json_get(normalised, "train"), "metrics");
    const char *words;
    unsigned task = find_task(normalised, &words);

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(list, i));

        check->path[0] = '\0';
        job_spec_path_push(check, "", "train.metrics");
        job_spec_path_push_index(check, i);
        if (!metric_fits(name, task))
            return job_spec_fail(check, NULL, "%s is %s, but %s have no %s; leave it out",
                                 check->path, name, words, name);
    }
    return 0;
}

void job_spec_metrics_default_best(struct json_object *spec, struct json_object *normalised)
{
    struct json_object *checkpoint = json_get(normalised, "checkpoint");
    struct json_object *early_stop = json_get(json_get(normalised, "train"), "early_stop");

    if (json_object_object_get_ex(json_get(spec, "checkpoint"), "best", NULL))
        return;
    if (json_get(early_stop, "metric"))
        json_set_string(checkpoint, "best", json_get_string(early_stop, "metric", ""));
    else if (json_get_double(json_get(normalised, "data"), "validation_fraction", 0) <= 0)
        json_set_string(checkpoint, "best", "train_loss");
}

int job_spec_metrics_check(struct job_spec_check *check, struct json_object *normalised)
{
    struct json_object *train = json_get(normalised, "train");
    const struct {
        const char *path, *key;
        struct json_object *section;
    } metrics[] = {
        {"train.early_stop.metric", "metric", json_get(train, "early_stop")},
        {"train.schedule.metric", "metric", json_get(train, "schedule")},
        {"checkpoint.best", "best",
         json_get(normalised, "checkpoint")}, /* also if it follows early_stop */
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof metrics / sizeof *metrics; i++)
        if (json_get(metrics[i].section, metrics[i].key))
            r = check_metric(check, metrics[i].path,
                             json_get_string(metrics[i].section, metrics[i].key, ""), normalised);
    return r;
}
