/* bench_spec.c: see bench_spec.h. */
#include "client/submission/bench_spec.h"

#include "proto/job_spec.h"

#include <stdio.h>

/* The member of the object, created if it is missing. */
static struct json_object *section(struct json_object *spec, const char *key)
{
    struct json_object *object = json_get(spec, key);

    if (!object || !json_object_is_type(object, json_type_object)) {
        object = json_object_new_object();
        json_set(spec, key, object);
    }
    return object;
}

/* Leaves out checkpoints between steps. */
static void checkpoints_leave_out(struct json_object *spec)
{
    struct json_object *checkpoint = json_object_new_object();

    json_set_string(checkpoint, "every", "1000000 epochs");
    json_set_int(checkpoint, "keep", 0);
    json_object_object_add(checkpoint, "best", NULL);
    json_set(spec, "checkpoint", checkpoint);
}

/* Shortens a native job. Its steps are those of the whole job; it leaves out the work between and
 * after steps, which would only take time. */
static void native_shorten(struct json_object *spec, struct json_object *plan, int64_t steps)
{
    static const char *const left_out[] = {"evaluate_every", "early_stop", "schedule", "profile",
                                           "effective_batch_size"};
    struct json_object *train = section(spec, "train"), *data = section(spec, "data");
    struct json_object *choices = json_get(plan, "choices");
    int64_t epochs = json_get_int(plan, "epochs", 1), all = json_get_int(plan, "steps", steps);

    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        json_object_object_del(train, left_out[i]);
    json_set_int(train, "max_steps", steps);
    json_set_int(train, "epochs", epochs * (steps / (all > 0 ? all : 1) + 1));
    if (json_get(choices, "batch_size"))
        json_set(train, "batch_size", json_object_get(json_get(choices, "batch_size")));
    if (json_get(choices, "accumulate"))
        json_set(train, "accumulate", json_object_get(json_get(choices, "accumulate")));
    if (json_get(choices, "recompute"))
        json_set(train, "recompute", json_object_get(json_get(choices, "recompute")));
    json_object_object_del(data, "test");
    json_set_double(data, "validation_fraction", 0);
    checkpoints_leave_out(spec);
}

/* Removes what the job waits for, and its notifications: it might wait for ever, or report an end
 * that is not the job's. */
static void others_leave_out(struct json_object *spec)
{
    static const char *const left_out[] = {"after", "at", "hold", "group", "notify"};

    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        json_object_object_del(spec, left_out[i]);
}

struct json_object *lr_find_spec_new(struct json_object *spec, const char *name, int64_t steps,
                                     double low, double high)
{
    static const char *const left_out[] = {"evaluate_every", "early_stop", "profile"};
    struct json_object *copy = NULL, *train, *schedule = json_object_new_object();
    char text[128];

    if (json_object_deep_copy(spec, &copy, NULL) < 0)
        return NULL;
    snprintf(text, sizeof text, "%.80s (lr-find)", name);
    json_set_string(copy, "name", text);
    json_object_object_del(section(copy, "data"), "test");
    checkpoints_leave_out(copy);
    others_leave_out(copy);
    json_set_int(section(copy, "retry"), "limit", 0);
    train = section(copy, "train");
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        json_object_object_del(train, left_out[i]);
    json_set_int(train, "max_steps", steps);
    json_set_int(train, "epochs", JOB_SPEC_EPOCHS_MAX); /* max_steps ends it */
    json_set_double(section(train, "optimizer"), "lr", high);
    json_set_string(schedule, "name", "exponential");
    json_set_double(schedule, "min_lr", low);
    json_set(train, "schedule", schedule);
    return copy;
}

struct json_object *bench_spec_new(struct json_object *spec, struct json_object *plan,
                                   const char *name, const char *device,
                                   const struct bench_limits *limits)
{
    struct json_object *copy = NULL, *place;
    char text[128];

    if (json_object_deep_copy(spec, &copy, NULL) < 0)
        return NULL;
    snprintf(text, sizeof text, "%.80s (bench on %.32s)", name, device);
    json_set_string(copy, "name", text);
    if (plan)
        native_shorten(copy, plan, limits->steps);
    else
        json_set_double(copy, "time_limit", limits->seconds);
    others_leave_out(copy);
    json_set_int(section(copy, "retry"), "limit", 0);
    place = section(copy, "device");
    json_object_object_del(place, "prefer");
    json_object_object_del(place, "allow");
    json_object_object_del(place, "deny");
    json_set_string(place, "force", device);
    return copy;
}
