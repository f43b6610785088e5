/* attempt_config.c: reads attempt.json and builds the trainee's environment. */
#include "worker/attempt/attempt_config.h"

#include "base/cleanup.h"
#include "proto/attempt_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/oom.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_FILE_MAX = 4 * 1024 * 1024 };

static int config_read_object(int descriptor, struct json_object **object, struct error *error)
{
    AUTO_FREE char *text = NULL;
    struct stat status;
    ssize_t size;

    if (fstat(descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot open attempt.json");
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
        return error_set(error, -EPERM,
                         "attempt.json does not belong to the user of the daemon; it is not used");
    if (status.st_size > CONFIG_FILE_MAX)
        return error_set(error, -EFBIG, "attempt.json is too large");
    text = malloc((size_t)status.st_size + 1);
    if (!text)
        return error_set(error, -ENOMEM, "not enough memory to read attempt.json");
    size = pread(descriptor, text, (size_t)status.st_size, 0);
    if (size < 0)
        return error_set_errno(error, -errno, "cannot read attempt.json");
    if (json_parse(text, (size_t)size, object, error) < 0)
        return error_prefix(error, "attempt.json");
    return 0;
}

/* Borrows the strings of a JSON array. */
static char **config_strings(struct json_object *array)
{
    size_t count =
        array && json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
    char **strings = calloc(count + 1, sizeof *strings);

    for (size_t i = 0; strings && i < count; i++)
        strings[i] = (char *)json_object_get_string(json_object_array_get_idx(array, i));
    return strings;
}

static int config_groups(struct attempt_config *config)
{
    struct json_object *array = json_get(config->object, "groups");
    size_t count =
        array && json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;

    if (count > ATTEMPT_GROUPS_MAX)
        count = ATTEMPT_GROUPS_MAX;
    config->groups = calloc(count + 1, sizeof *config->groups);
    if (!config->groups)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        config->groups[i] = (gid_t)json_object_get_int64(json_object_array_get_idx(array, i));
    config->group_count = count;
    if (count == 0)
        config->groups[config->group_count++] = config->gid;
    return 0;
}

/* Adds "name=value"; the first addition of a name counts. */
static int environment_add(char **environment, size_t *count, const char *name, const char *value)
{
    size_t length = strlen(name);

    if (!value || length == 0 || strchr(name, '='))
        return 0;
    for (size_t i = 0; i < *count; i++)
        if (strncmp(environment[i], name, length) == 0 && environment[i][length] == '=')
            return 0;
    if (asprintf(&environment[*count], "%s=%s", name, value) < 0)
        return -ENOMEM;
    (*count)++;
    return 0;
}

/* Builds the environment. traind's own variables override the job's, and these override a
 * login's. */
static int config_build_environment(struct attempt_config *config)
{
    static const char path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    struct json_object *given = json_get(config->object, "environment");
    size_t given_count = 0, count = 0;
    char job[24], attempt[24];
    AUTO_FREE char *spool = NULL;
    int result = 0;

    if (given && !json_object_is_type(given, json_type_object))
        return -EINVAL;
    if (given)
        given_count = (size_t)json_object_object_length(given);
    config->environment = calloc(given_count + 11, sizeof *config->environment);
    if (!config->environment || asprintf(&spool, "%s/spool", config->folder) < 0)
        return -ENOMEM;
    snprintf(job, sizeof job, "%lld", (long long)config->job);
    snprintf(attempt, sizeof attempt, "%lld", (long long)config->attempt);
    /* first, because a daemon that looks for processes of this attempt reads only the beginning */
    result |=
        environment_add(config->environment, &count, "TRAIND_ATTEMPT_DIRECTORY", config->folder);
    result |= environment_add(config->environment, &count, "TRAIND_JOB", job);
    result |= environment_add(config->environment, &count, "TRAIND_ATTEMPT", attempt);
    result |= environment_add(config->environment, &count, "TRAIND_SPOOL", spool);
    if (config->command) {
        snprintf(job, sizeof job, "%d", ATTEMPT_METRICS_DESCRIPTOR);
        result |= environment_add(config->environment, &count, "TRAIND_METRICS_FD", job);
    }
    if (given) {
        json_object_object_foreach (given, name, value) {
            if (json_object_is_type(value, json_type_string))
                result |= environment_add(config->environment, &count, name,
                                          json_object_get_string(value));
        }
    }
    result |= environment_add(config->environment, &count, "HOME",
                              json_get_string(config->object, "home", "/"));
    result |= environment_add(config->environment, &count, "USER", config->user);
    result |= environment_add(config->environment, &count, "LOGNAME", config->user);
    result |= environment_add(config->environment, &count, "SHELL",
                              json_get_string(config->object, "shell", "/bin/sh"));
    result |= environment_add(config->environment, &count, "PATH", path);
    return result ? -ENOMEM : 0;
}

/* Reads "cpus": [0, 1]. */
static int config_cpus(struct attempt_config *config)
{
    struct json_object *array = json_get(config->object, "cpus");
    size_t count =
        array && json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;

    if (count == 0)
        return 0;
    config->cpus = calloc(1, sizeof *config->cpus);
    for (size_t i = 0; config->cpus && i < count; i++) {
        int64_t cpu = json_object_get_int64(json_object_array_get_idx(array, i));

        if (cpu >= 0 && cpu < CPU_SETSIZE)
            CPU_SET((size_t)cpu, config->cpus);
    }
    return config->cpus ? 0 : -ENOMEM;
}

int attempt_config_read(struct attempt_config *config, struct error *error)
{
    AUTO_FREE char *folder = getcwd(NULL, 0), *path = NULL;
    AUTO_CLOSE int descriptor = -1;

    if (!folder || asprintf(&path, "%s" ATTEMPT_CONFIG_SUFFIX, folder) < 0)
        return error_set_errno(error, -errno, "cannot tell the attempt's folder");
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    return attempt_config_read_file(config, descriptor, error);
}

int attempt_config_read_file(struct attempt_config *config, int descriptor, struct error *error)
{
    int64_t uid, gid, limit, oom_score_adjust;
    int result;

    config->folder = getcwd(NULL, 0);
    if (!config->folder)
        return error_set_errno(error, -errno, "cannot tell the attempt's folder");
    result = config_read_object(descriptor, &config->object, error);
    if (result < 0)
        return result;
    config->job = json_get_int(config->object, "job", -1);
    config->attempt = json_get_int(config->object, "attempt", -1);
    uid = json_get_int(config->object, "uid", -1);
    gid = json_get_int(config->object, "gid", -1);
    config->user = json_get_string(config->object, "user", "");
    config->directory = json_get_string(config->object, "directory", "/");
    config->any_directory = json_get_bool(config->object, "any_directory", false);
    config->cgroup = json_get_string(config->object, "cgroup", NULL);
    limit = json_get_int(config->object, "memory_limit", 0);
    config->tasks_max = json_get_int(config->object, "tasks_max", 0);
    config->descriptors_max = json_get_int(config->object, "descriptors_max", 0);
    oom_score_adjust = json_get_int(config->object, "oom_score_adjust", 0);
    config->command = json_get_bool(config->object, "command", false);
    if (config->job < 0 || config->attempt < 0 || uid < 0 || uid >= UINT32_MAX || gid < 0 ||
        gid >= UINT32_MAX || limit < 0 || config->tasks_max < 0 || config->descriptors_max < 0 ||
        oom_score_adjust < 0 || oom_score_adjust > OOM_SCORE_ADJ_MAX)
        return error_set(error, -EINVAL,
                         "attempt.json lacks job, attempt, uid or gid, or has a wrong one");
    config->oom_score_adjust = (int)oom_score_adjust;
    config->uid = (uid_t)uid;
    config->gid = (gid_t)gid;
    config->memory_limit = (uint64_t)limit;
    config->arguments = config_strings(json_get(config->object, "argv"));
    if (!config->arguments || config_groups(config) < 0 || config_cpus(config) < 0 ||
        config_build_environment(config) < 0)
        return error_set(error, -EINVAL, "attempt.json has a wrong environment, or memory is out");
    if (!config->arguments[0])
        return error_set(error, -EINVAL, "attempt.json has an empty argv: nothing to start");
    return 0;
}

void attempt_config_release(struct attempt_config *config)
{
    for (size_t i = 0; config->environment && config->environment[i]; i++)
        free(config->environment[i]);
    free(config->environment);
    free(config->arguments);
    free(config->groups);
    free(config->cpus);
    free(config->folder);
    json_object_put(config->object);
    *config = (struct attempt_config){0};
}
