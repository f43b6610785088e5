/* worker_data_check.c: see worker_data_check.h. */
#include "worker/trainee/worker_data_check.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/description.h"
#include "proto/json.h"
#include "worker/trainee/pytorch_module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void described_close(struct dataset **described)
{
    dataset_close(*described);
}

/* The name of class i, or "" if there is none. */
static const char *name_of(struct json_object *names, size_t i)
{
    const char *name = json_object_get_string(json_object_array_get_idx(names, i));

    return name ? name : "";
}

/* The names of the columns of a sample of csv, and of a time series of those to predict as well;
 * NULL for other data. */
static struct json_object *columns_of(const struct dataset *dataset)
{
    const struct dataset_series *series = &dataset->series;
    bool is_series = dataset->format == DATASET_TIME_SERIES;
    char *const *names = is_series                        ? series->names
                         : dataset->format == DATASET_CSV ? dataset->column_names
                                                          : NULL;
    int64_t count = is_series ? series->features + series->values : dataset->sample_elements;
    struct json_object *list = names ? json_object_new_array() : NULL;

    for (int64_t i = 0; list && i < count; i++)
        json_object_array_add(list, json_object_new_string(names[i]));
    return list;
}

/* Names that a checkpoint keeps of its data. */
struct kept_names {
    const char *key; /* in the description of the model; NULL: they follow from that of the data */
    const char *things; /* "classes" */
    struct json_object *(*list)(const struct dataset *train);
    bool numbered; /* where they have no names they are numbers, which mean something else */
};

static int report_named(const struct kept_names *kept, struct json_object *own, const char *path,
                        struct error *error)
{
    char now[256];

    return error_set(error, -EINVAL,
                     "%s was trained on %s that are numbers, and those of the data have names, "
                     "such as \"%s\": use data with the same %s",
                     path, kept->things, text_escape_controls(name_of(own, 0), now, sizeof now),
                     kept->things);
}

static int check_names(const struct kept_names *kept, struct json_object *trained,
                       struct json_object *own, const char *path, struct error *error)
{
    size_t count, i = 0;
    char before[256], now[256];

    if (!trained && own && kept->numbered)
        return report_named(kept, own, path, error);
    if (!trained || (own && json_object_equal(trained, own)))
        return 0;
    if (!own)
        return error_set(error, -EINVAL,
                         "%s was trained on %s with names, such as \"%s\", and those of the "
                         "data are numbers: use data with the same %s",
                         path, kept->things,
                         text_escape_controls(name_of(trained, 0), before, sizeof before),
                         kept->things);
    count = json_object_array_length(trained);
    while (i < count && strcmp(name_of(trained, i), name_of(own, i)) == 0)
        i++;
    return error_set(error, -EINVAL,
                     "%s was trained on %zu %s, of which number %zu is \"%s\", and the data "
                     "has %zu, of which it is \"%s\": use data with the same %s",
                     path, count, kept->things, i,
                     text_escape_controls(name_of(trained, i), before, sizeof before),
                     json_object_array_length(own),
                     text_escape_controls(name_of(own, i), now, sizeof now), kept->things);
}

static const struct kept_names class_names = {"class_names", "classes", pytorch_module_classes,
                                              true},
                               features = {"features", "features", pytorch_module_features, false},
                               targets = {"targets", "values to predict", pytorch_module_targets,
                                          false},
                               columns = {NULL, "columns", columns_of, false};

/* Compares the names of `kept`, a list that NULL ends. */
static int check_all(const struct kept_names *const *kept, const struct checkpoint_texts *texts,
                     const struct dataset *train, const char *path, struct error *error)
{
    const char *module = texts->module;
    JSON_AUTO struct json_object *description = NULL;
    CLEANUP(described_close) struct dataset *described = NULL;
    int r = 0;

    if (!module || json_parse(module, strlen(module), &description, NULL) < 0)
        return r;
    if (texts->data && (r = dataset_description_parse(texts->data, &described, error)) < 0)
        return r;
    for (; *kept && r == 0; kept++) {
        const char *key = (*kept)->key;
        JSON_AUTO struct json_object *own = (*kept)->list(train), *trained = NULL;

        if (key ? !json_object_object_get_ex(description, key, &trained) : !described)
            continue; /* of an earlier version */
        trained = key ? json_object_get(trained) : (*kept)->list(described);
        r = check_names(*kept, trained, own, path, error);
    }
    return r;
}

int worker_data_check(const struct checkpoint_texts *texts, const struct dataset *train,
                      const char *path, struct error *error)
{
    static const struct kept_names *const kept[] = {&class_names, &features, &targets, &columns,
                                                    NULL};

    return check_all(kept, texts, train, path, error);
}

int worker_data_check_inputs(const struct checkpoint_texts *texts, const struct dataset *train,
                             const char *path, struct error *error)
{
    static const struct kept_names *const kept[] = {&features, &columns, NULL};
    AUTO_FREE char *own = texts->vocabulary && dataset_format_has_symbols(train->format)
                              ? dataset_vocabulary_format(&train->vocabulary)
                              : NULL;

    if (own && strcmp(own, texts->vocabulary) != 0)
        return error_set(error, -EINVAL, "%s was trained on other symbols than those of the data",
                         path);
    return check_all(kept, texts, train, path, error);
}
