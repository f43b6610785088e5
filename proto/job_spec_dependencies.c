/* job_spec_dependencies.c: checks the value of the key `after`, which names the jobs that must end
 * first. */
#include "base/text.h"
#include "proto/job_spec_value.h"

#include <string.h>

static const char *const condition_names[] = {"success", "end", NULL};

static const char *const element_keys[] = {"job", "sweep", "index", "on"};
enum { ELEMENT_KEYS = sizeof element_keys / sizeof *element_keys, ELEMENT_TARGETS = 3 };

static int element_keys_check(struct job_spec_check *check, struct json_object *element)
{
    json_object_object_foreach (element, name, value) {
        bool known = false;

        (void)value;
        for (size_t i = 0; i < ELEMENT_KEYS; i++)
            known = known || strcmp(name, element_keys[i]) == 0;
        if (!known)
            return job_spec_fail(check, text_nearest(name, element_keys, ELEMENT_KEYS),
                                 "%s has the key \"%.64s\"; it may have job, sweep, index and on",
                                 check->path, name);
    }
    return 0;
}

/* The only one of job, sweep and index that the element has; NULL: none, or several. */
static const char *element_target(struct json_object *element)
{
    const char *target = NULL;

    for (int i = 0; i < ELEMENT_TARGETS; i++) {
        if (!json_get(element, element_keys[i]))
            continue;
        if (target)
            return NULL;
        target = element_keys[i];
    }
    return target;
}

/* Accepts 12, {"job": 12, "on": "end"}, {"sweep": 14} or {"index": 0}. An index refers to a
 * specification of the same call. */
static int element_normalise(struct job_spec_check *check, struct json_object *element,
                             struct json_object *list)
{
    struct json_object *number = element, *made;
    const char *on = condition_names[0], *target = "job";
    int r;

    if (json_object_is_type(element, json_type_object)) {
        r = element_keys_check(check, element);
        if (r < 0)
            return r;
        target = element_target(element);
        number = target ? json_get(element, target) : NULL;
        on = json_get_string(element, "on", json_get(element, "on") ? "" : on);
    }
    if (strcmp(on, condition_names[0]) != 0 && strcmp(on, condition_names[1]) != 0)
        return job_spec_fail(check, NULL, "%s.on must be \"success\" or \"end\"", check->path);
    if (!json_object_is_type(number, json_type_int) ||
        json_object_get_int64(number) < (strcmp(target, "index") == 0 ? 0 : 1))
        return job_spec_fail(check, NULL,
                             "%s must be a job's number, {\"job\": number, \"on\": \"success\" or "
                             "\"end\"}, {\"sweep\": number} of a sweep's first job, or {\"index\": "
                             "number} of a specification of the same call",
                             check->path);
    made = json_object_new_object();
    json_set(made, target, json_object_get(number));
    json_set_string(made, "on", on);
    json_object_array_add(list, made);
    return 0;
}

int job_spec_dependencies_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                                    struct json_object *value, struct json_object **normalised)
{
    JSON_AUTO struct json_object *list = json_object_new_array();
    bool several = json_object_is_type(value, json_type_array);
    size_t count = several ? json_object_array_length(value) : 1;

    if (count > key->count_maximum)
        return job_spec_fail_value(check, key, value);
    for (size_t i = 0; i < count; i++) {
        size_t length = job_spec_path_push_index(check, i);
        int r =
            element_normalise(check, several ? json_object_array_get_idx(value, i) : value, list);

        if (r < 0)
            return r;
        check->path[length] = '\0';
    }
    *normalised = TAKE_POINTER(list);
    return 0;
}
