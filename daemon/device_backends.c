/* device_backends.c: see device_backends.h. One question at a time, on the thread pool; the process
 * is killed when it does not answer in time (a driver that hangs). */
#include "daemon/device_backends.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/devices_nvidia.h"
#include "daemon/jobs.h"
#include "daemon/warm_pool.h"
#include "proto/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum {
    PATIENCE_MILLISECONDS = 60000,
    ANSWER_BYTES_MAX = 64 * 1024,
    VARIABLE_MAX = 192,
    /* after which one that could not be opened (its memory was full) is tried again */
    AGAIN_MILLISECONDS = 60000
};

static const char visible[] = "CUDA_VISIBLE_DEVICES=";

struct question {
    uv_work_t work;
    struct daemon *daemon;
    int type;
    const char *worker, *plugin; /* plugin: "" for the installed one */
    char name[DEVICE_NAME_MAX], id[DEVICE_ID_MAX];
    atomic_int abandoned;
    struct json_object *answer;
    struct error error;
};

struct device_backends {
    struct question *asking; /* NULL: nothing is asked */
    bool asked[DEVICE_TYPES_MAX], answered[DEVICE_TYPES_MAX];
    uint64_t again_at[DEVICE_TYPES_MAX]; /* uv_now(); 0: it trains */
    char driver[80];                     /* that was asked under */
    bool stopping;
};

/* ---- asking, on the thread pool ----------------------------------------------------------------
 */

/* The daemon's own environment, but that the process sees the one device. */
static char **question_environment(const struct question *question, char variable[VARIABLE_MAX])
{
    size_t count = 0, used = 0;
    char **list;

    while (environ[count])
        count++;
    list = calloc(count + 2, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        if (strncmp(environ[i], visible, sizeof visible - 1) != 0)
            list[used++] = environ[i];
    snprintf(variable, VARIABLE_MAX, "%s%s", visible, question->id);
    if (list)
        list[used] = variable;
    return list;
}

static int question_spawn(const struct question *question, int output, pid_t *pid)
{
    char *arguments[] = {(char *)"traind-worker",  (char *)"devices",
                         (char *)"--json",         (char *)"--device",
                         (char *)question->name,   question->plugin[0] ? (char *)"--plugin" : NULL,
                         (char *)question->plugin, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char variable[VARIABLE_MAX];
    AUTO_FREE char **environment = question_environment(question, variable);
    sigset_t defaults;
    int code;

    if (!environment)
        return -ENOMEM;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGCHLD); /* ignored here: the kernel reaps children */
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    code = posix_spawn(pid, question->worker, &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -code;
}

/* Reads to the end; -ETIMEDOUT, -ECANCELED. */
static int answer_read(struct question *question, int input, char *text, size_t *length)
{
    uint64_t end = uv_hrtime() / 1000000 + PATIENCE_MILLISECONDS;
    ssize_t part = 1;

    *length = 0;
    while (part != 0 && *length < ANSWER_BYTES_MAX) {
        struct pollfd wait = {.fd = input, .events = POLLIN};

        if (atomic_load(&question->abandoned))
            return -ECANCELED;
        if (uv_hrtime() / 1000000 > end)
            return -ETIMEDOUT;
        if (poll(&wait, 1, 100) <= 0)
            continue;
        part = read(input, text + *length, ANSWER_BYTES_MAX - *length);
        if (part < 0 && errno != EINTR)
            return -errno;
        *length += part > 0 ? (size_t)part : 0;
    }
    return 0;
}

static void ask(uv_work_t *work)
{
    struct question *question = work->data;
    AUTO_FREE char *text = malloc(ANSWER_BYTES_MAX);
    AUTO_CLOSE int input = -1, output = -1;
    size_t length = 0;
    int ends[2], result = text && pipe2(ends, O_CLOEXEC) == 0 ? 0 : -ENOMEM;
    pid_t pid = 0;

    if (result == 0) {
        input = ends[0];
        output = ends[1];
        result = question_spawn(question, output, &pid);
    }
    if (result < 0) {
        error_set_errno(&question->error, result, "traind-worker cannot be asked");
        return;
    }
    close(TAKE_DESCRIPTOR(output));
    result = answer_read(question, input, text, &length);
    if (result < 0)
        kill(pid, SIGKILL);
    if (result == -ETIMEDOUT)
        error_set(&question->error, result, "its driver did not answer within %d seconds",
                  PATIENCE_MILLISECONDS / 1000);
    else if (result < 0 || json_parse(text, length, &question->answer, NULL) < 0)
        error_set(&question->error, -EIO, "traind-worker ended without an answer");
}

/* ---- the loop ----------------------------------------------------------------------------------
 */

static void set_trains(struct daemon *daemon, int type, bool trains, const char *reason)
{
    for (size_t i = 0; i < daemon->devices.count; i++) {
        struct device *device = daemon->devices.list[i];

        if (device->kind != DEVICE_CUDA || device->type != type)
            continue;
        device->trains = trains;
        snprintf(device->trains_reason, sizeof device->trains_reason, "%.*s",
                 (int)sizeof device->trains_reason - 1, reason);
    }
}

static void take_answer(const struct question *question)
{
    struct json_object *list = json_get(question->answer, "devices"), *first;
    struct device_backends *backends = question->daemon->backends;
    const char *reason = question->error.text;
    bool trains;

    first = list && json_object_is_type(list, json_type_array) ? json_object_array_get_idx(list, 0)
                                                               : NULL;
    trains = json_get_bool(first, "trains", false);
    if (first)
        reason = json_get_string(first, "reason", "");
    set_trains(question->daemon, question->type, trains, trains ? "" : reason);
    backends->again_at[question->type] =
        trains ? 0 : uv_now(question->daemon->loop) + AGAIN_MILLISECONDS;
    if (backends->answered[question->type] && !trains)
        return; /* said before */
    backends->answered[question->type] = true;
    if (trains)
        log_info("native jobs train on %s: %s", question->name,
                 json_text(json_get(first, "versions"), NULL));
    else
        log_info("native jobs do not train on %s: %s", question->name, reason);
}

static void on_answer(uv_work_t *work, int status)
{
    struct question *question = work->data;
    struct daemon *daemon = question->daemon;
    struct device_backends *backends = daemon->backends;

    (void)status;
    backends->asking = NULL;
    if (!backends->stopping) {
        take_answer(question);
        daemon_devices_changed(daemon);
        device_backends_ask(daemon);
        warm_pool_tend(daemon);
        if (!device_backends_pending(daemon))
            jobs_backends_known(daemon);
    }
    json_object_put(question->answer);
    free(question);
}

static void question_begin(struct daemon *daemon, const struct device *device)
{
    struct question *question = calloc(1, sizeof *question);

    if (!question)
        return; /* it does not train before the next reading */
    *question = (struct question){.daemon = daemon,
                                  .type = device->type,
                                  .worker = jobs_programs(daemon).worker,
                                  .plugin = device_backends_plugin(daemon)};
    snprintf(question->name, sizeof question->name, "%s", device->name);
    snprintf(question->id, sizeof question->id, "%s", device->id);
    question->work.data = question;
    daemon->backends->asking = question;
    daemon->backends->asked[device->type] = true;
    uv_queue_work(daemon->loop, &question->work, ask, on_answer);
}

/* A device of a type that is to be asked about; NULL: none is left. */
static struct device *next_device(const struct daemon *daemon)
{
    const struct device_backends *backends = daemon->backends;

    for (size_t i = 0; i < daemon->devices.count; i++) {
        struct device *device = daemon->devices.list[i];

        if (device->kind == DEVICE_CUDA && !device->missing &&
            (!backends->asked[device->type] ||
             (backends->again_at[device->type] &&
              uv_now(daemon->loop) >= backends->again_at[device->type])))
            return device;
    }
    return NULL;
}

void device_backends_ask(struct daemon *daemon)
{
    struct device_backends *backends = daemon->backends;
    struct device *device;

    if (!daemon->jobs)
        return;
    if (!backends)
        backends = daemon->backends = calloc(1, sizeof *backends);
    if (!backends || backends->stopping || backends->asking)
        return;
    if (strcmp(backends->driver, devices_nvidia_driver(daemon)) != 0) {
        memset(backends->asked, 0, sizeof backends->asked);
        memset(backends->answered, 0, sizeof backends->answered);
        snprintf(backends->driver, sizeof backends->driver, "%s", devices_nvidia_driver(daemon));
    }
    while ((device = next_device(daemon)) && !backends->asking) {
        if (daemon->config.nvidia_backend[0]) {
            question_begin(daemon, device);
            return;
        }
        backends->asked[device->type] = true;
        set_trains(daemon, device->type, false, "the configuration names no backend (Backend)");
    }
}

const char *device_backends_plugin(const struct daemon *daemon)
{
    return daemon->config.nvidia_backend[0] == '/' ? daemon->config.nvidia_backend : "";
}

bool device_backends_pending(const struct daemon *daemon)
{
    const struct device_backends *backends = daemon->backends;

    return backends && backends->asking && !backends->answered[backends->asking->type];
}

void device_backends_stop(struct daemon *daemon)
{
    if (!daemon->backends)
        return;
    daemon->backends->stopping = true;
    if (daemon->backends->asking)
        atomic_store(&daemon->backends->asking->abandoned, 1);
}
