/* worker_data_check.c: see worker_data_check.h. */
#include "worker/trainee/worker_data_check.h"

#include "base/text.h"
#include "proto/json.h"
#include "worker/trainee/pytorch_module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The name of class i, or "" if there is none. */
static const char *name_of(struct json_object *names, size_t i)
{
    const char *name = json_object_get_string(json_object_array_get_idx(names, i));

    return name ? name : "";
}

/* Names that a checkpoint keeps of its data. */
struct kept_names {
    const char *key;    /* in the description of the model */
    const char *things; /* "classes" */
    struct json_object *(*list)(const struct dataset *train);
};

static int check_names(const struct kept_names *kept, struct json_object *description,
                       const struct dataset *train, const char *path, struct error *error)
{
    JSON_AUTO struct json_object *own = kept->list(train);
    struct json_object *trained = json_get(description, kept->key);
    size_t count, i = 0;
    char before[256], now[256];

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

int worker_data_check(const struct checkpoint_texts *texts, const struct dataset *train,
                      const char *path, struct error *error)
{
    static const struct kept_names kept[] = {
        {"class_names", "classes", pytorch_module_classes},
        {"features", "features", pytorch_module_features},
    };
    const char *module = texts->module;
    JSON_AUTO struct json_object *description = NULL;
    int r = 0;

    if (!module || json_parse(module, strlen(module), &description, NULL) < 0)
        return r;
    for (size_t i = 0; i < sizeof kept / sizeof *kept && r == 0; i++)
        r = check_names(&kept[i], description, train, path, error);
    return r;
}
