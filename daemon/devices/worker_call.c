/* worker_call.c: see worker_call.h. The kernel reaps the process (SIGCHLD is ignored), so the end
 * of its output marks its end. */
#include "daemon/devices/worker_call.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 1 << 20, PART_BYTES = 1 << 16 };

struct worker_call {
    worker_call_done done; /* NULL: the call was abandoned, or `done` has run */
    void *data;
    uint64_t patience;
    pid_t pid;
    int process; /* a pidfd; -1: the process had ended already */
    uv_pipe_t output;
    uv_timer_t timer;
    int open_handles;
    char *text; /* owned */
    size_t length, capacity;
};

/* ---- starting -------------------------------------------------------------------------------- */

/* Whether the list sets the same variable as `entry`. */
static bool is_among(char *const *list, const char *entry)
{
    size_t length = strcspn(entry, "=") + 1;

    while (*list && strncmp(*list, entry, length) != 0)
        list++;
    return *list != NULL;
}

/* The daemon's own environment with the changed variables. The texts belong to those two. */
static char **environment_make(char *const *changed)
{
    size_t count = 0, used = 0;
    char **list;

    for (char *const *entry = environ; *entry; entry++)
        count++;
    for (char *const *entry = changed; *entry; entry++)
        count++;
    list = calloc(count + 1, sizeof *list);
    for (char *const *entry = environ; list && *entry; entry++)
        if (!is_among(changed, *entry))
            list[used++] = *entry;
    for (char *const *entry = changed; list && *entry; entry++)
        list[used++] = *entry;
    return list;
}

static char **environment_changes(const struct worker_call_options *options)
{
    JSON_AUTO struct json_object *variables = json_object_new_object();

    device_environment_see(options->drivers, options->device, variables);
    if (options->cache)
        json_set_string(variables, "XDG_CACHE_HOME", options->cache);
    return device_environment_list(variables);
}

static int spawn(const struct worker_call_options *options, int output, pid_t *pid)
{
    AUTO_FREE char **changes = environment_changes(options);
    AUTO_FREE char **environment = changes ? environment_make(changes) : NULL;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    int code;

    if (!environment)
        return -ENOMEM;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGCHLD);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    code = posix_spawn(pid, options->worker, &actions, &attributes,
                       (char *const *)options->arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -code;
}

/* ---- its answer ------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle)
{
    struct worker_call *call = handle->data;

    if (--call->open_handles > 0)
        return;
    if (call->process >= 0)
        close(call->process);
    free(call->text);
    free(call);
}

static void call_close(struct worker_call *call)
{
    if (call->process >= 0)
        pidfd_send_signal(call->process, SIGKILL, NULL, 0);
    uv_close((uv_handle_t *)&call->output, on_closed);
    uv_close((uv_handle_t *)&call->timer, on_closed);
}

/* Reports the answer or the failure, and closes the call. Killing a process that has ended does
 * nothing. */
static void call_end(struct worker_call *call, const struct error *failure)
{
    worker_call_done done = TAKE_POINTER(call->done);
    JSON_AUTO struct json_object *answer = NULL;
    struct error error = {0};

    if (!done)
        return;
    if (failure)
        error = *failure;
    else if (json_parse(call->text ? call->text : "", call->length, &answer, NULL) < 0)
        error_set(&error, -EIO, "traind-worker ended without an answer");
    done(call->data, answer, &error);
    call_close(call);
}

static void on_late(uv_timer_t *timer)
{
    struct worker_call *call = timer->data;
    struct error error;

    error_set(&error, -ETIMEDOUT, "traind-worker did not answer within %d seconds",
              (int)(call->patience / 1000));
    call_end(call, &error);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct worker_call *call = handle->data;

    (void)suggested;
    if (call->capacity - call->length < PART_BYTES && call->capacity < ANSWER_BYTES_MAX) {
        char *grown = realloc(call->text, call->capacity + PART_BYTES);

        if (grown) {
            call->text = grown;
            call->capacity += PART_BYTES;
        }
    }
    *buffer = uv_buf_init(call->text ? call->text + call->length : NULL,
                          (unsigned)(call->capacity - call->length));
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct worker_call *call = stream->data;

    (void)buffer;
    if (length > 0)
        call->length += (size_t)length;
    else if (length < 0) /* the end of the output, or the output is too long */
        call_end(call, NULL);
}

struct worker_call *worker_call_begin(uv_loop_t *loop, const struct worker_call_options *options,
                                      worker_call_done done, void *data, struct error *error)
{
    struct worker_call *call = memory_zero(sizeof *call);
    AUTO_CLOSE int input = -1, output = -1;
    int ends[2], result = pipe2(ends, O_CLOEXEC) == 0 ? 0 : -errno;

    if (result == 0) {
        input = ends[0];
        output = ends[1];
        result = spawn(options, output, &call->pid);
    }
    if (result < 0) {
        free(call);
        error_set_errno(error, result, "traind-worker cannot be asked");
        return NULL;
    }
    call->process = pidfd_open(call->pid, 0);
    call->done = done;
    call->data = data;
    call->patience = options->patience;
    uv_pipe_init(loop, &call->output, 0);
    uv_timer_init(loop, &call->timer);
    call->open_handles = 2;
    call->output.data = call->timer.data = call;
    result = uv_pipe_open(&call->output, input);
    if (result == 0) {
        (void)TAKE_DESCRIPTOR(input);
        result = uv_read_start((uv_stream_t *)&call->output, on_allocate, on_read);
    }
    if (result < 0) {
        worker_call_abandon(call);
        error_set(error, result, "the answer of traind-worker cannot be read: %s",
                  uv_strerror(result));
        return NULL;
    }
    uv_timer_start(&call->timer, on_late, options->patience, 0);
    return call;
}

void worker_call_abandon(struct worker_call *call)
{
    if (!call->done)
        return;
    call->done = NULL;
    call_close(call);
}

pid_t worker_call_pid(const struct worker_call *call)
{
    return call->pid;
}
