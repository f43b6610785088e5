/* plan_run.c: see plan_run.h. Three unnamed files carry the specification to the worker, and the
 * plan and the worker's errors back. */
#include "client/submission/plan_run.h"

#include "base/file.h"
#include "proto/device_host.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLAN_BYTES_MAX = JSON_MESSAGE_MAX, SPEC_DESCRIPTOR = 3, ARGUMENTS_MAX = 11 };

/* The worker's input and output. */
struct run {
    int spec, output, errors; /* unnamed files */
    struct json_object *devices;
};

/* The last line that the worker wrote on standard error, without the program's name. */
static int failure_read(const struct run *run, int status, struct error *error)
{
    static const char prefix[] = "traind-worker: ";
    char text[ERROR_TEXT_MAX];
    ssize_t length = pread(run->errors, text, sizeof text - 1, 0);
    char *line, *end;

    text[length > 0 ? length : 0] = '\0';
    for (end = text + strlen(text); end > text && end[-1] == '\n';)
        *--end = '\0';
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (strncmp(line, prefix, sizeof prefix - 1) == 0)
        line += sizeof prefix - 1;
    if (*line)
        return error_set(error, -EINVAL, "%s", line);
    if (WIFSIGNALED(status))
        return error_set(error, -EIO, "traind-worker was ended by signal %d", WTERMSIG(status));
    return error_set(error, -EIO, "traind-worker ended with status %d", WEXITSTATUS(status));
}

/* Makes the value of --also: one device of each type with its own backend, and the plugin if the
 * daemon names one; the other types share the CPU's plan. NULL: there is no such device. */
static struct json_object *further_devices(struct json_object *devices)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i), *json;
        const char *model = json_get_string(device, "model", "");
        bool known =
            !json_get_bool(device, "has_backend", false) || !json_get_bool(device, "trains", false);

        for (size_t k = 0; k < json_object_array_length(list); k++)
            known = known || strcmp(json_get_string(json_object_array_get_idx(list, k), "type", ""),
                                    model) == 0;
        if (known)
            continue;
        json = json_object_new_object();
        json_set_string(json, "device", json_get_string(device, "name", ""));
        json_set_string(json, "id", json_get_string(device, "id", ""));
        json_set_string(json, "type", model);
        json_set_string(json, "plugin", json_get_string(device, "backend", NULL));
        json_object_array_add(list, json);
    }
    if (json_object_array_length(list))
        return list;
    json_object_put(list);
    return NULL;
}

/* Fills in argv; `also` must outlive it. The worker plans for the CPU, as the daemon does. Only the
 * daemon knows the device that the specification prefers, for example a simulated one. */
static void arguments_fill(char *arguments[ARGUMENTS_MAX], struct json_object *also)
{
    int count = 0;

    arguments[count++] = (char *)"traind-worker";
    arguments[count++] = (char *)"plan";
    arguments[count++] = (char *)"/dev/fd/3";
    arguments[count++] = (char *)"--json";
    arguments[count++] = (char *)"--device";
    arguments[count++] = (char *)DEVICE_HOST;
    if (also) {
        arguments[count++] = (char *)"--also";
        arguments[count++] = (char *)json_text(also, NULL);
    }
    arguments[count] = NULL;
}

static int worker_spawn(const char *program, const struct run *run, pid_t *pid)
{
    JSON_AUTO struct json_object *also = further_devices(run->devices);
    char *arguments[ARGUMENTS_MAX];
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);

    if (code)
        return -code;
    arguments_fill(arguments, also);
    code = posix_spawn_file_actions_adddup2(&actions, run->output, STDOUT_FILENO);
    if (!code)
        code = posix_spawn_file_actions_adddup2(&actions, run->errors, STDERR_FILENO);
    if (!code)
        code = posix_spawn_file_actions_adddup2(&actions, run->spec, SPEC_DESCRIPTOR);
    if (!code)
        code = posix_spawn(pid, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -code;
}

static int plan_read(const struct run *run, struct json_object **plan, struct error *error)
{
    char path[32];

    snprintf(path, sizeof path, "/dev/fd/%d", run->output);
    return json_parse_file(path, PLAN_BYTES_MAX, plan, error);
}

static int run_worker(const char *program, const struct run *run, struct json_object **plan,
                      struct error *error)
{
    pid_t pid;
    int status, result = worker_spawn(program, run, &pid);

    if (result == -ENOENT)
        return error_set(error, result,
                         "there is no traind-worker at %s: it comes with traind; plan on the "
                         "machine that has it (trainctl -H HOST plan …)",
                         program);
    if (result < 0)
        return error_set_errno(error, result, "cannot start %s", program);
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): worker_spawn() has set it */
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set_errno(error, -errno, "cannot wait for traind-worker");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return failure_read(run, status, error);
    return plan_read(run, plan, error);
}

int plan_run(struct json_object *spec, struct json_object *devices, struct json_object **plan,
             struct error *error)
{
    AUTO_FREE char *program = file_beside_program("traind-worker");
    AUTO_CLOSE int spec_file = memfd_create("specification", MFD_CLOEXEC);
    AUTO_CLOSE int output = memfd_create("plan", MFD_CLOEXEC);
    AUTO_CLOSE int errors = memfd_create("errors", MFD_CLOEXEC);
    size_t length;
    const char *text = json_text(spec, &length);
    struct run run;
    int result;

    if (!program || spec_file < 0 || output < 0 || errors < 0)
        return error_set_errno(error, -errno, "cannot run traind-worker");
    result = file_write_all(spec_file, text, length);
    if (result < 0)
        return error_set_errno(error, result, "cannot hand the specification on");
    run = (struct run){.spec = spec_file, .output = output, .errors = errors, .devices = devices};
    return run_worker(program, &run, plan, error);
}
