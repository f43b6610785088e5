/* sharing_services.c: see sharing_services.h. */
#include "daemon/attempts/sharing_services.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/launch.h"
#include "daemon/devices/driver.h"
#include "daemon/folder/attempt_folder.h"
#include "proto/varlink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TEND_MILLISECONDS = 30000,
    KEPT_SECONDS = 60, /* after its end, so that its clients can read why it failed */
    STOP_GRACE_SECONDS = 10
};

/* One service; it stays in memory for a while after its end. */
struct sharing_service {
    struct sharing_service *next;
    struct daemon *daemon;
    const struct device *device;
    uid_t uid;
    struct attempt_launch launch;
    uv_work_t work; /* the start, later the removal of the folder */
    struct error error;
    uv_poll_t poll;
    int socket; /* to its shim; -1: it has ended, or is being started */
    bool starting, polled, failed, removing;
    double ended_at; /* seconds since the epoch; 0: not yet */
    double used_at;  /* clock_monotonic() when a client came or ended last */
    struct varlink_frames replies;
};

/* The control program of a kind of device. */
struct sharing_program {
    struct sharing_program *next;
    const struct device_driver *driver;
    char path[PATH_MAX];
};

struct sharing_services {
    struct sharing_service *first;
    uv_timer_t timer;
    struct sharing_program *programs; /* of the kinds that have a service here; owned */
    int64_t last_folder;
    bool stopping;
};

/* ---- the program ---- */

/* Finds `name` in the folders of PATH, unless it is a path itself. */
static bool find_program(const char *name, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    AUTO_FREE char *copy = memory_copy_text(folders ? folders : "/usr/bin:/bin");
    char *rest = NULL;

    if (strchr(name, '/')) {
        snprintf(path, PATH_MAX, "%s", name);
        return access(path, X_OK) == 0;
    }
    for (char *folder = copy ? strtok_r(copy, ":", &rest) : NULL; folder;
         folder = strtok_r(NULL, ":", &rest)) {
        snprintf(path, PATH_MAX, "%s/%s", folder, name);
        if (access(path, X_OK) == 0)
            return true;
    }
    path[0] = '\0';
    return false;
}

static void on_timer(uv_timer_t *timer);

static void find_programs(const struct daemon *daemon, struct sharing_services *services)
{
    for (size_t i = 0; daemon->devices->drivers[i]; i++) {
        const struct device_driver *driver = daemon->devices->drivers[i];
        const char *name = driver->sharing ? driver->sharing->program(&daemon->config) : "";
        struct sharing_program *program;

        if (!name[0])
            continue;
        program = memory_zero(sizeof *program);
        if (!find_program(name, program->path)) {
            free(program);
            continue;
        }
        program->driver = driver;
        program->next = services->programs;
        services->programs = program;
    }
}

/* The control program of the driver's devices; NULL: there is none. */
static const char *program_of(const struct sharing_services *services,
                              const struct device_driver *driver)
{
    for (const struct sharing_program *program = services->programs; program;
         program = program->next)
        if (program->driver == driver)
            return program->path;
    return NULL;
}

/* The services, which are made at the first call. NULL: the configuration or the machine has
 * none. */
static struct sharing_services *services_of(struct daemon *daemon)
{
    struct sharing_services *services = daemon->sharing_services;

    if (services)
        return services->programs ? services : NULL;
    services = memory_zero(sizeof *services);
    daemon->sharing_services = services;
    find_programs(daemon, services);
    if (!services->programs)
        return NULL;
    uv_timer_init(daemon->loop, &services->timer);
    services->timer.data = daemon;
    uv_timer_start(&services->timer, on_timer, TEND_MILLISECONDS, TEND_MILLISECONDS);
    uv_unref((uv_handle_t *)&services->timer);
    return services;
}

/* ---- which ---- */

static bool is_used(const struct sharing_service *service)
{
    for (size_t i = 0; i < service->device->claim_count; i++) {
        const struct device_claim *claim = service->device->claims[i];

        if (claim->sharing_service == service->launch.attempt && claim->shared_by && !claim->gone)
            return true;
    }
    return false;
}

/* Whether the service takes clients: it must not end before a new client has connected. */
static bool takes_clients(const struct sharing_service *service)
{
    return service->ended_at == 0 &&
           (is_used(service) || clock_monotonic() - service->used_at < SHARING_TAKES_SECONDS);
}

static struct sharing_service *service_find(const struct sharing_services *services,
                                            const struct device *device, uid_t uid)
{
    for (struct sharing_service *service = services->first; service; service = service->next)
        if (service->device == device && service->uid == uid && takes_clients(service))
            return service;
    return NULL;
}

static bool has_failed(const struct sharing_services *services, const struct device *device,
                       uid_t uid)
{
    for (const struct sharing_service *service = services->first; service; service = service->next)
        if (service->device == device && service->uid == uid && service->failed)
            return true;
    return false;
}

bool sharing_service_is_offered(struct daemon *daemon, const struct device *device, uid_t uid)
{
    const struct sharing_services *services =
        device->driver->sharing && device->slots != 1 ? services_of(daemon) : NULL;

    return services && !services->stopping && program_of(services, device->driver) &&
           !has_failed(services, device, uid);
}

bool sharing_service_is_running(const struct daemon *daemon, const struct device *device, uid_t uid)
{
    return daemon->sharing_services && service_find(daemon->sharing_services, device, uid);
}

/* ---- its end ---- */

static void service_free(struct sharing_service *service)
{
    varlink_frames_release(&service->replies);
    attempt_launch_release(&service->launch);
    free(service);
}

static void service_forget(struct sharing_service *service)
{
    struct sharing_service **place = &service->daemon->sharing_services->first;

    while (*place && *place != service)
        place = &(*place)->next;
    if (*place)
        *place = service->next;
    service_free(service);
}

static const struct device_sharing *sharing_of(const struct sharing_service *service)
{
    return service->device->driver->sharing;
}

static void service_end(struct sharing_service *service, bool failed, const char *why)
{
    service->ended_at = clock_now();
    service->failed = failed;
    if (failed && !service->daemon->sharing_services->stopping)
        log_warning("%s: native jobs of user %u take turns there for %d minutes: %s",
                    service->device->name, (unsigned)service->uid, SHARING_PAUSE_SECONDS / 60, why);
    else
        log_debug("%s: the %s service of user %u has ended", service->device->name,
                  sharing_of(service)->title, (unsigned)service->uid);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct sharing_service *service = handle->data;

    service->polled = false;
    if (service->daemon->sharing_services->stopping)
        service_forget(service);
}

/* Closes the connection; the shim then ends. */
static void service_close(struct sharing_service *service)
{
    if (service->polled && !uv_is_closing((uv_handle_t *)&service->poll)) {
        uv_poll_stop(&service->poll);
        uv_close((uv_handle_t *)&service->poll, on_poll_closed);
    }
    if (service->socket >= 0)
        close(TAKE_DESCRIPTOR(service->socket));
}

/* Receives the shim's reply. 1: it is complete; 0: more may come; -EPIPE: the shim is gone. */
static int receive_reply(struct sharing_service *service, const char **text, size_t *length)
{
    char *space;
    size_t size;
    ssize_t got;
    int r = varlink_frames_space(&service->replies, &space, &size);

    if (r < 0)
        return r;
    got = recv(service->socket, space, size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return -EPIPE;
    varlink_frames_added(&service->replies, (size_t)got);
    return varlink_frames_next(&service->replies, text, length);
}

static bool tells_of_failure(const char *text, size_t length)
{
    struct varlink_reply reply;
    bool failed;

    if (varlink_reply_parse(text, length, &reply, NULL) < 0)
        return true;
    failed = json_get_int(json_get(reply.parameters, "exit"), "exit_status", -1) != 0;
    varlink_reply_release(&reply);
    return failed;
}

/* The shim reports the end of the service, or is gone itself. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct sharing_service *service = poll->data;
    char why[PATH_MAX + 64];
    const char *text;
    size_t length;
    int r = receive_reply(service, &text, &length);

    (void)status;
    (void)events;
    if (r == 0)
        return;
    attempt_folder_path(why, service->daemon->state_directory, 0, service->launch.attempt);
    snprintf(why + strlen(why), 64, "/log says why %s failed", sharing_of(service)->title);
    service_end(service, r < 0 || tells_of_failure(text, length), why);
    service_close(service);
}

static void remove_work(uv_work_t *work)
{
    const struct sharing_service *service = work->data;

    attempt_folder_remove(service->launch.state_directory, 0, service->launch.attempt);
}

static void on_removed(uv_work_t *work, int status)
{
    (void)status;
    service_forget(work->data);
}

/* Frees the services that ended long ago. The log of a failed one stays until the next start. */
static void on_timer(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    double now = clock_now();

    for (struct sharing_service *service = daemon->sharing_services->first, *next; service;
         service = next) {
        next = service->next;
        if (service->ended_at == 0 || service->removing || service->polled || service->starting ||
            now - service->ended_at < (service->failed ? SHARING_PAUSE_SECONDS : KEPT_SECONDS))
            continue;
        if (service->failed) {
            service_forget(service);
            continue;
        }
        service->removing = true;
        service->work.data = service;
        daemon_queue_work(daemon, &service->work, remove_work, on_removed);
    }
}

/* ---- its start ---- */

/* The environment that the device's libraries read when they start. */
static struct json_object *make_environment(const struct sharing_service *service)
{
    static const char *const inherited[] = {"PATH", "LD_LIBRARY_PATH"};
    struct json_object *environment = json_object_new_object();

    device_environment_see(service->launch.drivers, service->device, environment);
    for (size_t i = 0; i < sizeof inherited / sizeof *inherited; i++)
        if (getenv(inherited[i]))
            json_set_string(environment, inherited[i], getenv(inherited[i]));
    return environment;
}

static struct json_object *make_spec(const struct sharing_service *service, const char *worker,
                                     const char *folder)
{
    const char *name = sharing_of(service)->name;
    const char *program = program_of(service->daemon->sharing_services, service->device->driver);
    char option[64];
    const char *words[] = {worker, name, option, folder, "--control", program};
    struct json_object *spec = json_object_new_object(), *command = json_object_new_array();

    snprintf(option, sizeof option, "--%s", name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        json_object_array_add(command, json_object_new_string(words[i]));
    json_set(spec, "command", command);
    json_set_string(spec, "directory", "/");
    json_set(spec, "environment", make_environment(service));
    return spec;
}

static void start_work(uv_work_t *work)
{
    struct sharing_service *service = work->data;

    if (attempt_launch_run(&service->launch, &service->error) == 0)
        service->socket = service->launch.socket;
}

static int service_watch(struct sharing_service *service)
{
    int r = uv_poll_init(service->daemon->loop, &service->poll, service->socket);

    if (r < 0)
        return r;
    service->poll.data = service;
    service->polled = true;
    return uv_poll_start(&service->poll, UV_READABLE | UV_DISCONNECT, on_readable);
}

static void on_started(uv_work_t *work, int status)
{
    static const char wait[] = "{\"method\":\"io.traind.Worker.Wait\"}";
    struct sharing_service *service = work->data;

    (void)status;
    service->starting = false;
    if (service->socket < 0) {
        service_end(service, true, service->error.text);
    } else if (send(service->socket, wait, sizeof wait, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        service_end(service, true, "its shim has gone");
        service_close(service);
    } else if (!service->daemon->sharing_services->stopping) {
        if (service_watch(service) == 0)
            return;
        service_end(service, true, "its shim cannot be watched");
        service_close(service);
    }
    if (service->daemon->sharing_services->stopping) {
        service_close(service);
        service_forget(service);
    }
}

static int64_t next_folder(struct sharing_services *services)
{
    int64_t number = (int64_t)(clock_now() * 1000);

    services->last_folder = number > services->last_folder ? number : services->last_folder + 1;
    return services->last_folder;
}

static void service_folder(const struct sharing_service *service, char folder[PATH_MAX])
{
    attempt_folder_path(folder, service->daemon->state_directory, 0, service->launch.attempt);
    snprintf(folder + strlen(folder), PATH_MAX - strlen(folder), "/%s", sharing_of(service)->name);
}

static struct sharing_service *service_start(const struct sharing_order *order)
{
    struct sharing_services *services = order->daemon->sharing_services;
    struct sharing_service *service = memory_zero(sizeof *service);
    char folder[PATH_MAX];

    *service =
        (struct sharing_service){.next = services->first,
                                 .daemon = order->daemon,
                                 .device = order->device,
                                 .uid = order->uid,
                                 .socket = -1,
                                 .starting = true,
                                 .launch = {.state_directory = order->daemon->state_directory,
                                            .drivers = order->daemon->devices->drivers,
                                            .config = &order->daemon->config,
                                            .shim_path = order->shim_path,
                                            .worker_path = order->worker_path,
                                            .attempt = next_folder(services),
                                            .service = true,
                                            .uid = order->uid,
                                            .kind = JOB_COMMAND,
                                            .threads = 1,
                                            .tasks_max = order->tasks_max,
                                            .descriptors_max = order->daemon->job_descriptors,
                                            .oom_score_adjust = order->oom_score_adjust,
                                            .warm = -1}};
    service_folder(service, folder);
    service->launch.spec = make_spec(service, order->worker_path, folder);
    service->work.data = service;
    daemon_queue_work(order->daemon, &service->work, start_work, on_started);
    services->first = service;
    return service;
}

int64_t sharing_service_join(const struct sharing_order *order, char **folder)
{
    char path[PATH_MAX];
    struct sharing_service *service =
        service_find(order->daemon->sharing_services, order->device, order->uid);

    if (!service)
        service = service_start(order);
    service->used_at = clock_monotonic();
    service_folder(service, path);
    *folder = memory_copy_text(path);
    return service->launch.attempt;
}

void sharing_service_part(struct daemon *daemon, int64_t number)
{
    struct sharing_service *service =
        daemon->sharing_services && number ? daemon->sharing_services->first : NULL;

    while (service && service->launch.attempt != number)
        service = service->next;
    if (service)
        service->used_at = clock_monotonic();
}

/* ---- the daemon's end ---- */

void sharing_services_stop(struct daemon *daemon)
{
    struct sharing_services *services = daemon->sharing_services;
    char text[160];

    if (!services || services->stopping)
        return;
    services->stopping = true;
    for (struct sharing_service *service = services->first, *next; service; service = next) {
        next = service->next;
        snprintf(text, sizeof text,
                 "{\"method\":\"io.traind.Worker.Stop\",\"oneway\":true,\"parameters\":"
                 "{\"grace_seconds\":%d,\"signal\":15}}",
                 STOP_GRACE_SECONDS);
        if (service->socket >= 0 && !is_used(service) &&
            send(service->socket, text, strlen(text) + 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            log_debug("the shim of a sharing service has gone");
        service_close(service);
        if (!service->polled && !service->starting && !service->removing)
            service_forget(service);
    }
    if (services->programs)
        uv_close((uv_handle_t *)&services->timer, NULL); /* memory: sharing_services_free() */
}

bool sharing_services_are_stopped(struct daemon *daemon)
{
    services_of(daemon);
    return daemon->sharing_services->stopping;
}

void sharing_services_free(struct daemon *daemon)
{
    struct sharing_services *services = daemon->sharing_services;
    struct sharing_program *program;

    while (services && (program = services->programs)) {
        services->programs = program->next;
        free(program);
    }
    free(services);
    daemon->sharing_services = NULL;
}
