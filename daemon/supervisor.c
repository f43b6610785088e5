/* supervisor.c: see supervisor.h. */
#include "daemon/supervisor.h"

#include "base/log.h"
#include "daemon/device_backends.h"
#include "daemon/job_cgroup.h"
#include "daemon/jobs_internal.h"
#include "daemon/warm_pool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STOP_REPLY_MILLISECONDS = 5000,
    STOP_OVERDUE_MILLISECONDS = 5000,   /* after the grace period */
    LEFTOVERS_PAUSE_MILLISECONDS = 500, /* between two searches for processes that do not die */
};

static void attempt_is_gone(struct attempt *attempt);
static void attempt_lose(struct attempt *attempt);
static void on_stop_overdue(uv_timer_t *timer);

/* ---- memory ---------------------------------------------------------------------------------- */

struct attempt *attempt_new(struct daemon *daemon, const struct attempt_events *events,
                            struct job *job, int64_t number)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);

    if (!attempt)
        return NULL;
    attempt->daemon = daemon;
    attempt->events = events;
    attempt->job = job;
    attempt->job_id = job->id;
    attempt->uid = job->uid;
    attempt->number = number;
    attempt->planning = number == 0;
    attempt->work_socket = -1;
    attempt->resumed_from_step = -1;
    attempt->progress = (struct job_progress){.step = -1,
                                              .steps = -1,
                                              .epochs = -1,
                                              .epoch = NAN,
                                              .loss = NAN,
                                              .samples_per_second = NAN,
                                              .seconds_left = NAN,
                                              .fraction = NAN};
    spool_ingest_init(&attempt->spool);
    return attempt;
}

void attempt_release(struct attempt *attempt)
{
    if (!(attempt->finish || attempt->detached) || attempt->working || attempt->spool.busy ||
        attempt->open_handles > 0)
        return;
    if (attempt->spool.file >= 0)
        close(attempt->spool.file);
    if (attempt->spool.folder >= 0)
        close(attempt->spool.folder);
    spool_batch_release(&attempt->spool.batch);
    varlink_frames_release(&attempt->frames);
    json_object_put(attempt->exit);
    json_object_put(attempt->plan);
    json_object_put(attempt->launch.spec);
    free(attempt->launch.calibration);
    free(attempt->launch.also);
    free(attempt->resume);
    free(attempt->message);
    free(attempt);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct attempt *attempt = handle->data;

    attempt->open_handles--;
    attempt_release(attempt);
}

static void pipe_close(struct attempt *attempt)
{
    if (!attempt->pipe_open)
        return;
    attempt->pipe_open = false;
    uv_close((uv_handle_t *)&attempt->pipe, on_handle_closed);
}

static void timer_close(struct attempt_timer *timer)
{
    if (!timer->open)
        return;
    timer->open = false;
    uv_close((uv_handle_t *)&timer->handle, on_handle_closed);
}

static void timer_start(struct attempt *attempt, struct attempt_timer *timer, uv_timer_cb callback,
                        uint64_t milliseconds)
{
    if (!timer->open) {
        uv_timer_init(attempt->daemon->loop, &timer->handle);
        timer->handle.data = attempt;
        timer->open = true;
        attempt->open_handles++;
    }
    uv_timer_start(&timer->handle, callback, milliseconds, 0);
}

static void timers_close(struct attempt *attempt)
{
    timer_close(&attempt->deadline);
    timer_close(&attempt->leftovers);
}

/* ---- io.traind.Worker ------------------------------------------------------------------------ */

struct message_write {
    uv_write_t request;
    char text[];
};

static void on_message_written(uv_write_t *request, int status)
{
    (void)status; /* a peer that is gone shows itself at the next read */
    free(request);
}

/* Sends `count` calls without parameters in one write. */
static void worker_call(struct attempt *attempt, const char *const *methods, size_t count)
{
    static const size_t frame = sizeof "{\"method\":\"io.traind.Worker.\"}";
    struct message_write *message;
    size_t size = 0;
    uv_buf_t buffer;

    for (size_t i = 0; i < count; i++)
        size += frame + strlen(methods[i]);
    message = malloc(sizeof *message + size);
    if (!message)
        return;
    size = 0;
    for (size_t i = 0; i < count; i++)
        size += (size_t)sprintf(message->text + size, "{\"method\":\"io.traind.Worker.%s\"}",
                                methods[i]) +
                1;
    buffer = uv_buf_init(message->text, (unsigned)size);
    if (uv_write(&message->request, (uv_stream_t *)&attempt->pipe, &buffer, 1, on_message_written) <
        0)
        free(message);
}

static void on_time_limit(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;

    attempt_stop(attempt, ENDING_TIMED_OUT);
}

/* How it is asked to make room, where that is what it is asked for. */
static struct job_preemption attempt_preemption(const struct attempt *attempt)
{
    const struct job_details *details = attempt->job ? attempt->job->details : NULL;

    if (attempt->intent == ENDING_PREEMPTED && details && details->preemption.possible)
        return details->preemption;
    return (struct job_preemption){.grace_seconds = -1};
}

/* Between being asked to end and being killed. */
static double attempt_grace_seconds(const struct attempt *attempt)
{
    double grace_seconds = attempt_preemption(attempt).grace_seconds;

    return grace_seconds >= 0 ? grace_seconds : attempt->daemon->config.stop_grace_seconds;
}

/* Whether it answers or not: an attempt that is to end is killed after a while, another one is
 * stopped at its time limit. */
static void deadline_start(struct attempt *attempt, double started)
{
    double left = started + attempt->time_limit - daemon_time();

    if (attempt->intent != ENDING_NONE)
        timer_start(attempt, &attempt->deadline, on_stop_overdue,
                    (uint64_t)(1000 * attempt_grace_seconds(attempt)) + STOP_OVERDUE_MILLISECONDS);
    else if (attempt->time_limit > 0)
        timer_start(attempt, &attempt->deadline, on_time_limit,
                    left > 0 ? (uint64_t)(left * 1000) : 0);
}

static void take_status(struct attempt *attempt, struct json_object *parameters)
{
    attempt->status_received = true;
    attempt->pid = (pid_t)json_get_int(parameters, "pid", 0);
    if (attempt->started == 0)
        attempt->started = daemon_time();
    if (attempt->pid > 0)
        deadline_start(attempt, attempt->started);
    if (attempt->pid > 0)
        attempt_find_cores(attempt);
    if (attempt->pid > 0)
        spool_ingest_begin(attempt, attempt->started_here);
    if (attempt->pid > 0 && attempt->events->started)
        attempt->events->started(attempt);
    if (attempt->intent != ENDING_NONE) { /* wanted before there was anything to stop */
        enum ending intent = attempt->intent;

        attempt->intent = ENDING_NONE;
        attempt_stop(attempt, intent);
    }
}

static void take_exit(struct attempt *attempt, struct json_object *record)
{
    attempt->exit = json_object_get(record);
    attempt->started = json_get_double(record, "started", attempt->started);
    attempt->ended = json_get_double(record, "ended", daemon_time());
    attempt_is_gone(attempt);
}

static void take_reply(struct attempt *attempt, const struct varlink_reply *reply)
{
    struct json_object *record = json_get(reply->parameters, "exit");

    if (!attempt->status_received && !reply->error)
        take_status(attempt, reply->parameters);
    else if (!attempt->exit && record)
        take_exit(attempt, record);
}

static void on_read_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct attempt *attempt = handle->data;
    size_t size;

    (void)suggested;
    if (varlink_frames_space(&attempt->frames, &buffer->base, &size) < 0)
        *buffer = uv_buf_init(NULL, 0); /* libuv reports UV_ENOBUFS */
    else
        buffer->len = size;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct attempt *attempt = stream->data;
    const char *message;
    size_t length;
    int result = 0;

    (void)buffer;
    if (size > 0)
        varlink_frames_added(&attempt->frames, (size_t)size);
    while (size > 0 && (result = varlink_frames_next(&attempt->frames, &message, &length)) > 0) {
        struct varlink_reply reply;

        result = varlink_reply_parse(message, length, &reply, NULL);
        if (result < 0)
            break;
        take_reply(attempt, &reply);
        varlink_reply_release(&reply);
    }
    if (size < 0 || result < 0) {
        pipe_close(attempt);
        if (!attempt->exit && !attempt->detached)
            attempt_lose(attempt);
    }
}

/* Talks with the shim over a connected descriptor, which it takes over. */
static void worker_connect(struct attempt *attempt, int descriptor)
{
    static const char *const calls[] = {"Status", "Wait"};

    varlink_frames_release(&attempt->frames);
    attempt->frames = (struct varlink_frames){0};
    uv_pipe_init(attempt->daemon->loop, &attempt->pipe, 0);
    attempt->pipe.data = attempt;
    attempt->pipe_open = true;
    attempt->open_handles++;
    if (uv_pipe_open(&attempt->pipe, descriptor) < 0)
        close(descriptor);
    worker_call(attempt, calls, 2);
    if (uv_read_start((uv_stream_t *)&attempt->pipe, on_read_buffer, on_read) < 0) {
        pipe_close(attempt);
        attempt_lose(attempt);
    }
}

/* ---- end ------------------------------------------------------------------------------------- */

static void on_leftovers_due(uv_timer_t *timer);

static void leftovers_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;
    int folder;

    folder = attempt_folder_open(attempt->daemon->state_directory, attempt->job_id, attempt->number,
                                 &attempt->work_error);
    attempt->trace = ATTEMPT_NEVER_STARTED;
    if (folder >= 0) {
        attempt->trace = attempt_folder_examine(folder, attempt->uid, &attempt->exit);
        close(folder);
    }
    /* also beside a record: it is in the user's folder, and the lock alone is no promise */
    if (attempt->trace != ATTEMPT_ALIVE &&
        attempt_kill_leftovers(attempt->daemon->state_directory, attempt->job_id, attempt->number) >
            0) {
        json_object_put(attempt->exit);
        attempt->exit = NULL;
        attempt->trace = ATTEMPT_ALIVE;
    }
}

static void on_leftovers_searched(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;

    (void)status;
    attempt->working = false;
    if (attempt->detached) {
        attempt_release(attempt);
        return;
    }
    if (attempt->trace == ATTEMPT_ALIVE) {
        timer_start(attempt, &attempt->leftovers, on_leftovers_due, LEFTOVERS_PAUSE_MILLISECONDS);
        return;
    }
    attempt->never_started = attempt->trace == ATTEMPT_NEVER_STARTED;
    attempt->ended = daemon_time();
    if (attempt->exit) {
        struct json_object *record = attempt->exit;

        attempt->exit = NULL;
        take_exit(attempt, record);
        json_object_put(record);
        return;
    }
    attempt_is_gone(attempt);
}

/* Either the shim lives and only the connection broke, or processes of a dead one are dying. */
static void on_leftovers_due(uv_timer_t *timer)
{
    attempt_attach(timer->data);
}

/* The shim is gone and has told nothing: a record may be there all the same, and processes may. */
static void attempt_lose(struct attempt *attempt)
{
    attempt->work.data = attempt;
    attempt->working = true;
    uv_queue_work(attempt->daemon->loop, &attempt->work, leftovers_work, on_leftovers_searched);
}

/* No process remains: the slot is free at once; what is left in the spool is stored before the end.
 */
static void attempt_is_gone(struct attempt *attempt)
{
    attempt->gone = true;
    job_cgroup_remove(attempt->job_id, attempt->number);
    attempt_leave_cores(attempt);
    timers_close(attempt);
    attempt->events->gone(attempt);
    /* told by the job's own user, who alone can lose by a lie */
    if (attempt->never_started ||
        (attempt->exit && json_get_int(attempt->exit, "spool_bytes", -1) == 0))
        attempt->events->ended(attempt);
    else
        spool_ingest_finish(attempt);
}

/* ---- start ----------------------------------------------------------------------------------- */

void attempt_refuse_launch(struct attempt *attempt, const struct error *error)
{
    attempt->work_error = *error;
    log_error("job %lld, attempt %lld: %s", (long long)attempt->job_id, (long long)attempt->number,
              attempt->work_error.text);
    attempt->never_started = true;
    attempt->ended = daemon_time();
    attempt_is_gone(attempt);
}

static void launch_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;

    attempt_launch_run(&attempt->launch, &attempt->work_error);
    if (attempt->launch.warm >= 0)
        close(attempt->launch.warm);
}

static void on_launched(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;
    int descriptor = attempt->launch.socket;

    (void)status;
    attempt->working = false;
    json_object_put(attempt->launch.spec);
    attempt->launch.spec = NULL;
    if (attempt->detached) { /* the shim runs on; the next daemon finds it */
        if (descriptor >= 0)
            close(descriptor);
        attempt_release(attempt);
        return;
    }
    if (descriptor >= 0) {
        attempt->started_here = true;
        deadline_start(attempt, daemon_time());
        worker_connect(attempt, descriptor);
        return;
    }
    attempt_refuse_launch(attempt, &attempt->work_error);
}

/* The most that placement lets a job have. */
static uint64_t planning_memory_limit(const struct daemon *daemon)
{
    double ratio = daemon->config.high_watermark_ratio;

    return ratio > 0 ? (uint64_t)(ratio * (double)daemon->cpu.memory_total)
                     : daemon->cpu.memory_total;
}

void attempt_launch(struct attempt *attempt, struct json_object *spec, char *resume, int threads,
                    const char *choices)
{
    struct jobs_programs programs = jobs_programs(attempt->daemon);

    attempt->resume = resume;
    attempt_take_cores(attempt, spec, threads);
    attempt->launch = (struct attempt_launch){
        .state_directory = attempt->daemon->state_directory,
        .shim_path = programs.shim,
        .worker_path = programs.worker,
        .job = attempt->job_id,
        .attempt = attempt->number,
        .uid = attempt->uid,
        .kind = (enum job_kind)attempt->job->kind,
        .planning = attempt->planning,
        .devices = (const struct device *const *)attempt->devices,
        .device_count = attempt->device_count,
        .memory_booked = attempt->memory_booked,
        .threads = threads,
        .cores = attempt->keeps_to_cores ? &attempt->own_cores : NULL,
        .spec = json_object_get(spec),
        .resume = resume,
        .memory_limit = planning_memory_limit(attempt->daemon),
        .plugin = device_backends_plugin(attempt->daemon),
        .warm = -1,
        .socket = -1,
    };
    snprintf(attempt->launch.choices, sizeof attempt->launch.choices, "%s", choices);
    if (attempt->planning)
        jobs_hand_facts(attempt->daemon, &attempt->launch);
    else if (attempt->job->kind == JOB_NATIVE && attempt->device_count == 1)
        attempt->launch.warm = warm_pool_take(attempt->daemon, attempt->devices[0], spec);
    attempt->work.data = attempt;
    attempt->working = true;
    uv_queue_work(attempt->daemon->loop, &attempt->work, launch_work, on_launched);
}

static void attach_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;
    int folder = attempt_folder_open(attempt->daemon->state_directory, attempt->job_id,
                                     attempt->number, &attempt->work_error);

    if (folder < 0)
        return;
    attempt->work_socket = attempt_folder_connect(folder, attempt->uid, &attempt->work_error);
    close(folder);
}

static void on_attached(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;
    int descriptor = TAKE_DESCRIPTOR(attempt->work_socket);

    (void)status;
    attempt->working = false;
    if (attempt->detached) {
        if (descriptor >= 0)
            close(descriptor);
        attempt_release(attempt);
        return;
    }
    if (descriptor >= 0)
        worker_connect(attempt, descriptor);
    else
        attempt_lose(attempt);
}

void attempt_attach(struct attempt *attempt)
{
    if (!attempt->deadline.open && attempt->started > 0)
        deadline_start(attempt, attempt->started);
    attempt->work.data = attempt;
    attempt->working = true;
    uv_queue_work(attempt->daemon->loop, &attempt->work, attach_work, on_attached);
}

/* ---- stop ------------------------------------------------------------------------------------ */

/* A Stop goes over a connection of its own, since the other one waits; it is small enough to be
 * done by a blocking call on the thread pool. */
struct stop_request {
    uv_work_t work;
    char *state_directory;
    int64_t job, attempt;
    uid_t uid;
    double grace_seconds;
    int signal; /* to the trainee alone; 0: SIGTERM to the whole job */
};

static void stop_work(uv_work_t *work)
{
    struct stop_request *request = work->data;
    struct varlink_client *client = NULL;
    struct json_object *parameters;
    struct varlink_reply reply;
    struct error error = {0};
    int folder, descriptor = -1;

    folder = attempt_folder_open(request->state_directory, request->job, request->attempt, &error);
    if (folder >= 0) {
        descriptor = attempt_folder_connect(folder, request->uid, &error);
        close(folder);
    }
    if (descriptor < 0 || varlink_client_from_descriptor(descriptor, &client) < 0)
        return; /* gone already: the other connection tells */
    parameters = json_object_new_object();
    json_set_double(parameters, "grace_seconds", request->grace_seconds);
    if (request->signal)
        json_set_int(parameters, "signal", request->signal);
    if (varlink_client_send(client, "io.traind.Worker.Stop", parameters, false, &error) == 0 &&
        varlink_client_receive(client, STOP_REPLY_MILLISECONDS, &reply, &error) == 0)
        varlink_reply_release(&reply);
    varlink_client_free(client);
}

static void on_stop_sent(uv_work_t *work, int status)
{
    struct stop_request *request = work->data;

    (void)status;
    free(request->state_directory);
    free(request);
}

static void force_work(uv_work_t *work)
{
    struct stop_request *request = work->data;

    attempt_kill_by_force(request->state_directory, request->job, request->attempt, request->uid);
}

static struct stop_request *stop_request_new(const struct attempt *attempt)
{
    struct stop_request *request = calloc(1, sizeof *request);

    if (!request)
        return NULL;
    request->work.data = request;
    request->state_directory = strdup(attempt->daemon->state_directory);
    request->job = attempt->job_id;
    request->attempt = attempt->number;
    request->uid = attempt->uid;
    request->grace_seconds = attempt_grace_seconds(attempt);
    request->signal = attempt_preemption(attempt).signal;
    return request;
}

/* The grace period is over for long: the shim is stopped, or the job has taken its socket away. */
static void on_stop_overdue(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;
    struct stop_request *request = stop_request_new(attempt);

    if (request) {
        log_warning("job %lld, attempt %lld: its shim has not stopped it; it is killed",
                    (long long)attempt->job_id, (long long)attempt->number);
        uv_queue_work(attempt->daemon->loop, &request->work, force_work, on_stop_sent);
    }
    timer_start(attempt, &attempt->deadline, on_stop_overdue, STOP_OVERDUE_MILLISECONDS);
}

void attempt_stop(struct attempt *attempt, enum ending intent)
{
    struct stop_request *request;

    if (attempt->intent != ENDING_NONE || attempt->gone)
        return;
    attempt->intent = intent;
    /* at once: the trainee may stop its shim before that has told of it */
    deadline_start(attempt, attempt->started);
    if (!attempt->status_received) /* take_status() comes back to it */
        return;
    request = stop_request_new(attempt);
    if (request)
        uv_queue_work(attempt->daemon->loop, &request->work, stop_work, on_stop_sent);
}

/* ---- farewell -------------------------------------------------------------------------------- */

static void on_acknowledged(uv_write_t *request, int status)
{
    struct attempt *attempt = request->data;

    (void)status;
    free(request);
    pipe_close(attempt);
}

static void worker_acknowledge(struct attempt *attempt)
{
    /* oneway: the shim goes at once and would write its answer to nobody */
    static char text[] = "{\"method\":\"io.traind.Worker.Acknowledge\",\"oneway\":true}";
    uv_write_t *request = malloc(sizeof *request);
    uv_buf_t buffer = uv_buf_init(text, sizeof text);

    if (!request) {
        pipe_close(attempt);
        return;
    }
    request->data = attempt;
    uv_read_stop((uv_stream_t *)&attempt->pipe);
    if (uv_write(request, (uv_stream_t *)&attempt->pipe, &buffer, 1, on_acknowledged) < 0) {
        free(request);
        pipe_close(attempt);
    }
}

void attempt_finish(struct attempt *attempt)
{
    attempt->finish = true;
    if (attempt->detached) {
        attempt_release(attempt);
        return;
    }
    spool_ingest_close(attempt);
    timers_close(attempt);
    if (attempt->pipe_open)
        worker_acknowledge(attempt);
    attempt_release(attempt);
}

void attempt_detach(struct attempt *attempt)
{
    attempt->detached = true;
    spool_ingest_close(attempt);
    timers_close(attempt);
    pipe_close(attempt);
    attempt_release(attempt);
}
