/* job_spec_dependencies.c: the value of the key `after`: which jobs must have ended before. */
#include "base/text.h"
#include "proto/job_spec_value.h"

#include <string.h>

static const char *const condition_names[] = {"success", "end", NULL};

static int element_keys_check(struct job_spec_check *check, struct json_object *element)
{
    static const char *const names[] = {"job", "index", "on"};

    json_object_object_foreach (element, name, value) {
        bool known = false;

        (void)value;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            known = known || strcmp(name, names[i]) == 0;
        if (!known)
            return job_spec_fail(check, text_nearest(name, names, sizeof names / sizeof *names),
                                 "%s has the key \"%.64s\"; it may have job, index and on",
                                 check->path, name);
    }
    return 0;
}

/* 12, {"job": 12, "on": "end"} or {"index": 0}: the latter names a specification of the same call.
 */
static int element_normalise(struct job_spec_check *check, struct json_object *element,
                             struct json_object *list)
{
    struct json_object *job = element, *index = NULL, *made;
    const char *on = condition_names[0];
    int r;

    if (json_object_is_type(element, json_type_object)) {
        r = element_keys_check(check, element);
        if (r < 0)
            return r;
        job = json_get(element, "job");
        index = json_get(element, "index");
        on = json_get_string(element, "on", json_get(element, "on") ? "" : on);
    }
    if (strcmp(on, condition_names[0]) != 0 && strcmp(on, condition_names[1]) != 0)
        return job_spec_fail(check, NULL, "%s.on must be \"success\" or \"end\"", check->path);
    if (!job == !index || !json_object_is_type(job ? job : index, json_type_int) ||
        json_object_get_int64(job ? job : index) < (job ? 1 : 0))
        return job_spec_fail(check, NULL,
                             "%s must be a job's number, {\"job\": number, \"on\": \"success\" or "
                             "\"end\"}, or {\"index\": number} of a specification of the same call",
                             check->path);
    made = json_object_new_object();
    json_set(made, job ? "job" : "index", json_object_get(job ? job : index));
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
