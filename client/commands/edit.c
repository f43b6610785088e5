/* edit.c: `trainctl edit` changes the specifications of jobs that have not ended. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/sweep.h"
#include "client/submission/device_guess.h"
#include "client/submission/spec_options.h"
#include "client/submission/start_time.h"
#include "proto/job_spec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Applies device=cuda:0,cpu, as --device of `trainctl run`: the job may run on these devices and on
 * no others, whatever the keys of `device` said before. NULL: where such jobs belong. */
static void set_devices(struct json_object *changes, const char *names)
{
    static const char *const other[] = {"force", "prefer", "deny", "fallback"};
    struct json_object *device = json_get(changes, "device");
    struct json_object *allow = names ? json_object_new_array() : NULL;
    AUTO_FREE char *copy = names ? strdup(names) : NULL;
    char *rest = NULL;

    for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word;
         word = strtok_r(NULL, ",", &rest))
        json_object_array_add(allow, json_object_new_string(word));
    if (!json_object_is_type(device, json_type_object))
        json_set(changes, "device", device = json_object_new_object());
    json_set(device, "allow", allow);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        json_set(device, other[i], NULL);
}

/* Looks again at what the jobs run, where the changes may have made it another command. Jobs of
 * which something else is seen get no guess: one request changes all of them alike. */
static void guess_add(struct invocation *invocation, struct json_object *ids,
                      struct json_object *changes)
{
    JSON_AUTO struct json_object *first = NULL;

    if (!device_guess_rests_on(changes))
        return;
    for (size_t i = 0; i < json_object_array_length(ids); i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        JSON_AUTO struct json_object *seen = NULL;
        struct json_object *parameters = json_object_new_object();

        json_set(parameters, "id", json_object_get(json_object_array_get_idx(ids, i)));
        if (!connection_try(invocation, "Show", parameters, &reply) ||
            json_object_deep_copy(changes, &seen, NULL) < 0)
            return; /* the daemon says what is wrong when it edits */
        device_guess_edit(json_get(reply.parameters, "spec"), seen);
        if (i > 0 && !json_object_equal(first, seen))
            return;
        if (i == 0)
            first = TAKE_POINTER(seen);
    }
    if (json_get(first, "device"))
        json_set(changes, "device", json_object_get(json_get(first, "device")));
}

/* Applies KEY=VALUE, where KEY may be the name of an option of `trainctl run`. */
static int change_add(struct json_object *changes, const char *assignment, struct error *error)
{
    size_t length = strcspn(assignment, "=");
    const char *value = assignment + length + 1;

    if (strncmp(assignment, "device=", 7) == 0 && *value && *value != '{') {
        set_devices(changes, strcmp(value, "null") == 0 ? NULL : value);
        return 0;
    }
    if (strncmp(assignment, "at=", 3) == 0 && strcmp(value, "null") != 0) {
        double at;
        int result = start_time_parse(value, clock_now(), &at, error);

        if (result < 0)
            return error_prefix(error, "at");
        json_set_double(changes, "at", at);
        return 0;
    }
    for (const struct spec_option *o = spec_options; o->option; o++) {
        char path[4096];

        if (strncmp(o->option, assignment, length) != 0 || o->option[length])
            continue;
        snprintf(path, sizeof path, "%s%s%s=%s", o->section ? o->section : "",
                 o->section ? "." : "", o->key, value);
        return job_spec_set(changes, path, error);
    }
    return job_spec_set(changes, assignment, error);
}

static enum exit_status nothing_to_change(void)
{
    complain("name jobs and what to change of them, as in: trainctl edit 12 13 priority=5 "
             "time-limit=2h");
    return EXIT_STATUS_USAGE;
}

/* Divides the arguments into jobs and changes. */
static enum exit_status arguments_read(struct invocation *invocation, struct json_object *ids,
                                       struct json_object *changes)
{
    struct error error = {0};
    bool changes_any = false;
    int64_t id;

    for (size_t i = 0; i < invocation->argument_count; i++)
        changes_any = changes_any || strchr(invocation->arguments[i], '=');
    if (!changes_any)
        return nothing_to_change();
    for (size_t i = 0; i < invocation->argument_count; i++) {
        const char *argument = invocation->arguments[i];
        enum exit_status status;

        if (strchr(argument, '=')) {
            if (change_add(changes, argument, &error) == 0)
                continue;
            complain("%s", error.text);
            return EXIT_STATUS_USAGE;
        }
        if (sweep_named(argument, &id)) {
            complain("%s: a sweep is not edited as a whole; name the jobs that are its points",
                     argument);
            return EXIT_STATUS_USAGE;
        }
        status = connection_find_job(invocation, argument, JOB_IS_ACTED_ON, &id);
        if (status)
            return status;
        json_object_array_add(ids, json_object_new_int64(id));
    }
    if (json_object_array_length(ids) > 0 && json_object_object_length(changes) > 0)
        return EXIT_STATUS_DONE;
    return nothing_to_change();
}

static void edited_print(struct json_object *edited)
{
    for (size_t i = 0; edited && i < json_object_array_length(edited); i++) {
        struct json_object *job = json_object_array_get_idx(edited, i);
        const char *change = json_get_string(job, "change", NULL);
        char text[4096];

        printf("job %" PRId64 ": %s\n", json_get_int(job, "id", 0),
               change ? text_escape_controls(change, text, sizeof text) : "it is so already");
    }
}

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *ids = json_object_new_array(),
                       *changes = json_object_new_object();
    enum exit_status status = arguments_read(invocation, ids, changes);

    if (!status)
        guess_add(invocation, ids, changes);
    json_set(parameters, "ids", ids);
    json_set(parameters, "changes", changes);
    if (status) {
        json_object_put(parameters);
        return status;
    }
    status = connection_call(invocation, "Edit", parameters, &reply);
    if (status)
        return status;
    if (invocation->json)
        json_print(reply.parameters, stdout);
    else
        edited_print(json_get(reply.parameters, "edited"));
    return EXIT_STATUS_DONE;
}

const struct command command_edit = {
    .name = "edit",
    .place = 205,
    .arguments = "JOB… KEY=VALUE…",
    .summary = "Change jobs that have not ended: priority, limits, devices, any key",
    .details =
        "KEY is a key of the specification (`trainctl help spec`) or an option of `trainctl run`: "
        "priority,\ntime-limit, memory, device, name, group, at. null asks for the default. All "
        "changes are made, or none.\nOf a job that runs, priority, name, group, time-limit, time, "
        "retry and notify change; for others,\npause it first.",
    .minimum = 2,
    .maximum = -1,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
