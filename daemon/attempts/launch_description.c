/* launch_description.c: see launch_description.h. */
#include "daemon/attempts/launch_description.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/attempts/job_environment.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/folder/code_snapshot.h"
#include "daemon/folder/job_cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static void arguments_add_path(struct json_object *arguments, const char *folder, const char *name)
{
    AUTO_FREE char *path = memory_format("%s/%s", folder, name);

    device_argument_add(arguments, path);
}

/* Adds the device that traind-worker opens. */
static void add_device(struct json_object *arguments, const struct attempt_launch *launch)
{
    const struct device *device = launch->device_count ? launch->devices[0] : NULL;
    const char *plugin = device ? device_plugin(device, launch->config) : NULL;

    device_argument_add(arguments, "--device");
    device_argument_add(arguments, device ? device->name : DEVICE_HOST);
    if (plugin && plugin[0]) {
        device_argument_add(arguments, "--plugin");
        device_argument_add(arguments, plugin);
    }
    if (device && device->driver->arguments)
        device->driver->arguments(device, launch->memory_booked, arguments);
}

const char *launch_snapshot(const struct attempt_launch *launch)
{
    return launch->notification || launch->kind != JOB_COMMAND
               ? NULL
               : json_get_string(json_get(launch->spec, "snapshot"), "id", NULL);
}

/* The command, behind the words that unpack its code first, as its user (shim_unpack.c). */
static struct json_object *unpack_arguments(const struct attempt_launch *launch)
{
    struct json_object *arguments = json_object_new_array();
    struct json_object *command = json_get(launch->spec, "command");
    const char *folder = json_get_string(json_get(launch->spec, "snapshot"), "folder", "/");
    const char *directory = json_get_string(launch->spec, "directory", folder);
    char archive[PATH_MAX];

    code_snapshot_path(archive, launch->state_directory, launch->uid, launch_snapshot(launch));
    device_argument_add(arguments, launch->shim_path);
    device_argument_add(arguments, "--unpack");
    device_argument_add(arguments, archive);
    device_argument_add(arguments, launch->snapshot);
    /* job_spec_rules.c has checked that the one lies in the other */
    directory += strnlen(directory, strlen(folder));
    device_argument_add(arguments, directory + strspn(directory, "/"));
    for (size_t i = 0; i < json_object_array_length(command); i++)
        json_object_array_add(arguments, json_object_get(json_object_array_get_idx(command, i)));
    return arguments;
}

static struct json_object *launch_arguments(const struct attempt_launch *launch, const char *folder)
{
    struct json_object *arguments;
    char threads[16], limit[24];

    if (launch->kind == JOB_COMMAND && launch_snapshot(launch))
        return unpack_arguments(launch);
    if (launch->kind == JOB_COMMAND)
        return json_object_get(json_get(launch->spec, "command"));
    arguments = json_object_new_array();
    snprintf(threads, sizeof threads, "%d", launch->threads);
    device_argument_add(arguments, launch->worker_path);
    device_argument_add(arguments, launch->planning ? "plan" : "train");
    arguments_add_path(arguments, folder, "spec.json");
    device_argument_add(arguments, "--spool");
    arguments_add_path(arguments, folder, "spool");
    if (launch->planning) {
        snprintf(limit, sizeof limit, "%llu", (unsigned long long)launch->memory_limit);
        device_argument_add(arguments, "--memory-limit");
        device_argument_add(arguments, limit);
        if (launch->calibration) {
            device_argument_add(arguments, "--calibration");
            arguments_add_path(arguments, folder, "calibration.json");
        }
        if (launch->also) {
            device_argument_add(arguments, "--also");
            device_argument_add(arguments, launch->also);
        }
    } else {
        if (launch->sharing_folder) {
            char option[64];

            snprintf(option, sizeof option, "--%s", launch->devices[0]->driver->sharing->name);
            device_argument_add(arguments, option);
            device_argument_add(arguments, launch->sharing_folder);
        }
        if (launch->choices[0]) {
            device_argument_add(arguments, "--choices");
            device_argument_add(arguments, launch->choices);
        }
        device_argument_add(arguments, "--checkpoints");
        arguments_add_path(arguments, folder, "checkpoints");
        if (launch->files.resume) {
            device_argument_add(arguments, "--resume");
            arguments_add_path(arguments, folder, ATTEMPT_RESUME_FILE);
        }
        if (launch->files.best) {
            device_argument_add(arguments, "--best");
            arguments_add_path(arguments, folder, ATTEMPT_BEST_FILE);
        }
    }
    if (launch->files.weights) {
        device_argument_add(arguments, "--initial-weights");
        arguments_add_path(arguments, folder, ATTEMPT_WEIGHTS_FILE);
    }
    add_device(arguments, launch);
    device_argument_add(arguments, "--threads");
    device_argument_add(arguments, threads);
    return arguments;
}

/* The bytes that the trainee may hold; 0: no limit. A planning run has none: it finds out whether
 * the native job can keep its limit. */
static int64_t launch_memory_limit(const struct attempt_launch *launch)
{
    if (launch->kind == JOB_NATIVE)
        return launch->planning ? 0
                                : json_get_int(json_get(launch->spec, "train"), "memory_limit", 0);
    return json_get_int(json_get(launch->spec, "resources"), "memory", 0);
}

/* The environment of the trainee: the variables of its specification, and those of its
 * placement. */
static struct json_object *launch_environment(const struct attempt_launch *launch)
{
    struct json_object *given[] = {json_get(launch->spec, "shell_environment"),
                                   json_get(launch->spec, "environment")},
                       *made;
    struct json_object *resources = json_get(launch->spec, "resources");
    struct job_environment_device devices[JOB_DEVICES_MAX];
    bool on_cpu = launch->device_count == 0 || launch->devices[0]->driver->kind.is_host;
    struct job_environment environment = {
        .attempt = launch->notification ? 0 : launch->attempt,
        .cores = (int)json_get_int(resources, "cores", launch->threads),
        .memory = on_cpu ? launch->memory_booked : (uint64_t)json_get_int(resources, "memory", 0),
        .device_memory = on_cpu ? 0 : launch->memory_booked,
        .device_memory_declared = json_get(resources, "device_memory") != NULL,
        .checkpoint_directory = launch->checkpoints,
        .devices = devices,
        .device_count = launch->device_count,
        .drivers = launch->drivers,
    };

    for (int i = 0; i < launch->device_count; i++)
        devices[i] = (struct job_environment_device){
            launch->devices[i]->driver, launch->devices[i]->name, launch->devices[i]->id,
            launch->devices[i]->memory_total};
    made = json_object_new_object();
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (!given[i])
            continue;
        json_object_object_foreach (given[i], name, value) {
            json_set(made, name, json_object_get(value));
        }
    }
    if (launch->sharing_folder)
        json_set_string(made, launch->devices[0]->driver->sharing->variable,
                        launch->sharing_folder);
    if (launch->kind == JOB_NATIVE)
        job_environment_add_device(&environment, made);
    else
        job_environment_add(&environment, made);
    return made;
}

/* The list of cores, as in [0, 1]; NULL: the attempt may use all cores. */
static struct json_object *launch_cores(const struct attempt_launch *launch)
{
    struct json_object *cores = launch->cores ? json_object_new_array() : NULL;

    for (size_t core = 0; cores && core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, launch->cores))
            json_object_array_add(cores, json_object_new_int64((int64_t)core));
    return cores;
}

/* Whether the attempt gets a control group: all but IdleCommand, which belongs to no user. */
static bool launch_has_group(const struct attempt_launch *launch)
{
    return launch->job > 0 || launch->service;
}

struct json_object *launch_describe(const struct attempt_launch *launch,
                                    const struct launch_user *user, const char *folder)
{
    struct json_object *attempt = json_object_new_object(), *groups = json_object_new_array();
    char cgroup[PATH_MAX], devices[ATTEMPT_DEVICES_TEXT_MAX];

    json_set_int(attempt, "job", launch->job);
    json_set_int(attempt, "attempt", launch->notification ? launch->last_attempt : launch->attempt);
    json_set_string(attempt, "device",
                    devices_name(launch->devices, launch->device_count, devices, sizeof devices));
    json_set_int(attempt, "uid", launch->uid);
    json_set_int(attempt, "gid", user->gid);
    for (int i = 0; i < user->group_count; i++)
        json_object_array_add(groups, json_object_new_int64(user->groups[i]));
    json_set(attempt, "groups", groups);
    json_set_string(attempt, "user", user->name);
    json_set_string(attempt, "home", user->home);
    json_set_string(attempt, "shell", user->shell);
    json_set_bool(attempt, "any_directory", launch->notification);
    json_set(attempt, "argv", launch_arguments(launch, folder));
    json_set_string(attempt, "directory",
                    launch->snapshot ? launch->snapshot
                                     : json_get_string(launch->spec, "directory", user->home));
    json_set(attempt, "environment", launch_environment(launch));
    json_set_string(attempt, "cgroup",
                    launch_has_group(launch) &&
                            job_cgroup_path(launch->job, launch->attempt, cgroup, sizeof cgroup)
                        ? cgroup
                        : NULL);
    json_set_int(attempt, "memory_limit", launch_memory_limit(launch));
    json_set_int(attempt, "tasks_max", launch->tasks_max);
    json_set_int(attempt, "descriptors_max", launch->descriptors_max);
    json_set_int(attempt, "oom_score_adjust", launch->oom_score_adjust);
    json_set_bool(attempt, "command", launch->kind == JOB_COMMAND);
    if (launch->sharing_folder) /* for the next daemon */
        json_set_bool(attempt, launch->devices[0]->driver->sharing->name, true);
    json_set(attempt, "cpus", launch_cores(launch));
    return attempt;
}
