/* device_guess.c: see device_guess.h. */
#include "client/submission/device_guess.h"

#include "client/inspection/command_look.h"
#include "proto/job_spec.h"

#include <stdlib.h>
#include <string.h>

/* Whether the specification says where its job is to run. Other keys of `device` only exclude. */
static bool names_device(struct json_object *spec)
{
    struct json_object *device = json_get(spec, "device"), *resources = json_get(spec, "resources");
    const char *prefer = json_get_string(device, "prefer", "auto");

    return json_get(device, "allow") || json_get(device, "force") || strcmp(prefer, "auto") != 0 ||
           json_get(resources, "device_memory");
}

/* Hands CUDA_VISIBLE_DEVICES on if it hides all GPUs. Within a job the variable is the daemon's, so
 * it says nothing about jobs that the job submits. */
static void hidden_gpus_add(struct json_object *spec)
{
    static const char name[] = "CUDA_VISIBLE_DEVICES";
    const char *value = getenv(name);
    struct json_object *environment = json_get(spec, "environment");

    if (!value || (*value && strcmp(value, "-1") != 0) || getenv("TRAIND_JOB") ||
        json_object_object_get_ex(environment, name, NULL))
        return;
    if (!environment)
        json_set(spec, "environment", environment = json_object_new_object());
    if (json_object_is_type(environment, json_type_object))
        json_set_string(environment, name, value);
}

static bool is_guessed(struct json_object *spec)
{
    struct json_object *device = json_get(spec, "device");

    return json_get(spec, "command") && !names_device(spec) &&
           (!device || json_object_is_type(device, json_type_object));
}

/* Takes the look, and writes into `target` what it says of the command of `spec`. */
static void guess_write(struct json_object *spec, struct json_object *target)
{
    struct json_object *device = json_get(target, "device");
    struct command_look look;

    command_look(spec, &look);
    if (look.use == COMMAND_LOOK_UNKNOWN)
        return;
    if (!json_object_is_type(device, json_type_object))
        json_set(target, "device", device = json_object_new_object());
    json_set_string(device, "guess", look.use == COMMAND_LOOK_GPU ? "gpu" : "cpu");
    json_set_string(device, "guess_reason", look.reason);
}

void device_guess_add(struct json_object *spec)
{
    if (!is_guessed(spec))
        return;
    hidden_gpus_add(spec);
    guess_write(spec, spec);
}

bool device_guess_rests_on(struct json_object *changes)
{
    static const char *const seen[] = {"command", "directory", "environment", "shell_environment",
                                       "device"};
    bool one = false;

    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        one = one || json_object_object_get_ex(changes, seen[i], NULL);
    return one && !json_get(json_get(changes, "device"), "guess");
}

void device_guess_edit(struct json_object *spec, struct json_object *changes)
{
    if (!spec)
        return;
    job_spec_drop_defaults(spec);
    job_spec_merge(spec, changes);
    if (is_guessed(spec))
        guess_write(spec, changes);
}
