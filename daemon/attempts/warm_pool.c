/* warm_pool.c: see warm_pool.h. */
#include "daemon/attempts/warm_pool.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/launch_shim.h"
#include "daemon/devices/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TEND_MILLISECONDS = 500,    /* after a worker was taken, because that job's start comes first */
    PAUSE_MILLISECONDS = 10000, /* after a worker ended before it was ready */
};

/* A shim with its worker. */
struct warm {
    struct warm *next;
    struct daemon *daemon;
    const struct device *device;
    uv_work_t work; /* starts it */
    struct error error;
    uv_poll_t poll;
    int socket; /* -1: the worker is being started, or was taken */
    bool starting, polled, ready;
};

struct warm_pool {
    struct warm *first;
    uv_timer_t timer;
    bool stopping;
};

/* ---- the start ---- */

/* The environment that a worker needs when it starts; the rest comes with the job. */
static char **make_environment(const struct daemon *daemon, const struct device *device)
{
    JSON_AUTO struct json_object *variables = json_object_new_object();
    const char *path = getenv("LD_LIBRARY_PATH");

    device_environment_see(daemon->devices->drivers, device, variables);
    if (path)
        json_set_string(variables, "LD_LIBRARY_PATH", path);
    return device_environment_list(variables);
}

static void start_work(uv_work_t *work)
{
    struct warm *warm = work->data;
    const char *plugin = device_plugin(warm->device, &warm->daemon->config);
    AUTO_FREE char **environment = make_environment(warm->daemon, warm->device);
    AUTO_FREE char *title = launch_shim_title(warm->daemon->state_directory);
    char *arguments[] = {(char *)"traind-shim",
                         (char *)"--warm",
                         title,
                         (char *)warm->daemon->worker_path,
                         (char *)"warm",
                         (char *)"--device",
                         (char *)warm->device->name,
                         plugin && plugin[0] ? (char *)"--plugin" : NULL,
                         (char *)plugin,
                         NULL};

    warm->socket =
        title && environment
            ? launch_shim_server(warm->daemon->shim_path, arguments, environment, &warm->error)
            : error_no_memory(&warm->error, "the start of a warm worker");
}

/* ---- the loop ---- */

static void pool_schedule(struct daemon *daemon, uint64_t milliseconds);

static void warm_forget(struct warm *warm)
{
    struct warm **place = &warm->daemon->warm_pool->first;

    while (*place && *place != warm)
        place = &(*place)->next;
    if (*place)
        *place = warm->next;
}

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Ends the worker, unless its socket was taken. */
static void warm_close(struct warm *warm)
{
    warm_forget(warm);
    if (warm->polled)
        uv_poll_stop(&warm->poll);
    if (warm->socket >= 0)
        close(warm->socket);
    if (warm->polled)
        uv_close((uv_handle_t *)&warm->poll, on_poll_closed);
    else
        free(warm);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct warm *warm = poll->data;
    char text[16];
    ssize_t got = recv(warm->socket, text, sizeof text, MSG_DONTWAIT);

    (void)status;
    (void)events;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0) {
        warm->ready = true;
        log_info("a warm worker waits on %s", warm->device->name);
        return;
    }
    log_warning("a warm worker of %s has ended", warm->device->name);
    pool_schedule(warm->daemon, PAUSE_MILLISECONDS);
    warm_close(warm);
}

static void on_started(uv_work_t *work, int status)
{
    struct warm *warm = work->data;
    struct daemon *daemon = warm->daemon;
    int result;

    (void)status;
    warm->starting = false;
    if (daemon->warm_pool->stopping || warm->socket < 0) {
        if (warm->socket < 0 && !daemon->warm_pool->stopping) {
            log_warning("a warm worker cannot be started: %s", warm->error.text);
            pool_schedule(daemon, PAUSE_MILLISECONDS);
        }
        warm_close(warm);
        return;
    }
    result = uv_poll_init(daemon->loop, &warm->poll, warm->socket);
    if (result < 0) {
        log_warning("a warm worker cannot be waited for: %s", uv_strerror(result));
        pool_schedule(daemon, PAUSE_MILLISECONDS);
        warm_close(warm);
        return;
    }
    warm->poll.data = warm;
    warm->polled = true;
    uv_poll_start(&warm->poll, UV_READABLE | UV_DISCONNECT, on_readable);
}

static void warm_start(struct daemon *daemon, const struct device *device)
{
    struct warm *warm = memory_zero(sizeof *warm);

    *warm = (struct warm){.next = daemon->warm_pool->first,
                          .daemon = daemon,
                          .device = device,
                          .socket = -1,
                          .starting = true};
    daemon->warm_pool->first = warm;
    warm->work.data = warm;
    daemon_queue_work(daemon, &warm->work, start_work, on_started);
}

/* ---- how many ---- */

static bool device_is_open(const struct device *device)
{
    return device->trains && !device->missing && device->health == DEVICE_HEALTHY;
}

static int workers_wanted(const struct daemon *daemon, const struct device *device)
{
    return device->driver->warm_workers && device_is_open(device)
               ? (int)device->driver->warm_workers(&daemon->config)
               : 0;
}

static bool are_wanted(const struct daemon *daemon)
{
    for (size_t i = 0; daemon->devices->drivers[i]; i++) {
        const struct device_driver *driver = daemon->devices->drivers[i];

        if (driver->warm_workers && driver->warm_workers(&daemon->config) > 0)
            return true;
    }
    return false;
}

static int pool_count(const struct warm_pool *pool, const struct device *device)
{
    int count = 0;

    for (const struct warm *warm = pool->first; warm; warm = warm->next)
        count += warm->device == device;
    return count;
}

static void on_timer(uv_timer_t *timer)
{
    warm_pool_tend(timer->data);
}

static void pool_schedule(struct daemon *daemon, uint64_t milliseconds)
{
    struct warm_pool *pool = daemon->warm_pool;

    if (!pool->stopping)
        uv_timer_start(&pool->timer, on_timer, milliseconds, 0);
}

/* The pool, which is made when it is first needed. */
static struct warm_pool *pool_of(struct daemon *daemon)
{
    if (daemon->warm_pool || !are_wanted(daemon))
        return daemon->warm_pool;
    daemon->warm_pool = memory_zero(sizeof *daemon->warm_pool);
    uv_timer_init(daemon->loop, &daemon->warm_pool->timer);
    daemon->warm_pool->timer.data = daemon;
    uv_unref((uv_handle_t *)&daemon->warm_pool->timer);
    return daemon->warm_pool;
}

void warm_pool_tend(struct daemon *daemon)
{
    struct warm_pool *pool = pool_of(daemon);

    if (!pool || pool->stopping || !daemon->jobs ||
        uv_is_active((const uv_handle_t *)&pool->timer)) /* the timer will tend it */
        return;
    for (struct warm *warm = pool->first, *next; warm; warm = next) {
        next = warm->next;
        if (!device_is_open(warm->device) && !warm->starting)
            warm_close(warm);
    }
    for (size_t i = 0; i < daemon->devices->count; i++) {
        const struct device *device = daemon->devices->list[i];

        for (int n = pool_count(pool, device); n < workers_wanted(daemon, device); n++)
            warm_start(daemon, device);
    }
}

/* ---- taking one ---- */

static bool begins_with_any(const char *name, const char *const *prefixes)
{
    for (; prefixes && *prefixes; prefixes++)
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

/* Whether the job sets variables that the dynamic linker or the device's libraries read only when a
 * program starts. */
static bool wants_own_start(const struct device *device, struct json_object *spec)
{
    static const char *const of_linker[] = {"LD_", NULL};
    struct json_object *environment = json_get(spec, "environment");

    if (!environment || !json_object_is_type(environment, json_type_object))
        return false;
    json_object_object_foreach (environment, name, value) {
        const char *own = getenv(name);

        if ((begins_with_any(name, of_linker) ||
             begins_with_any(name, device->driver->start_variables)) &&
            (!own || strcmp(own, json_object_get_string(value)) != 0))
            return true;
    }
    return false;
}

int warm_pool_take(struct daemon *daemon, const struct device *device, struct json_object *spec)
{
    struct warm_pool *pool = daemon->warm_pool;
    int socket;

    for (struct warm *warm = pool ? pool->first : NULL; warm; warm = warm->next) {
        if (warm->device != device || !warm->ready || wants_own_start(device, spec))
            continue;
        socket = TAKE_DESCRIPTOR(warm->socket);
        warm_close(warm);
        pool_schedule(daemon, TEND_MILLISECONDS);
        return socket;
    }
    return -1;
}

void warm_pool_stop(struct daemon *daemon)
{
    struct warm_pool *pool = daemon->warm_pool;

    if (!pool)
        return;
    pool->stopping = true;
    for (struct warm *warm = pool->first, *next; warm; warm = next) {
        next = warm->next;
        if (!warm->starting) /* else on_started() closes it */
            warm_close(warm);
    }
    if (!uv_is_closing((uv_handle_t *)&pool->timer))
        uv_close((uv_handle_t *)&pool->timer, NULL); /* memory: daemon_run() */
}
