/* supervisor_stop.c: ends an attempt: when it is wanted or its time is over, and by force where its
 * shim does not. */
#include "base/log.h"
#include "daemon/jobs_internal.h"
#include "daemon/supervisor_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    STOP_REPLY_MILLISECONDS = 5000,
    STOP_OVERDUE_MILLISECONDS = 5000, /* after the grace period */
};

static void on_stop_overdue(uv_timer_t *timer);

/* ---- deadline -------------------------------------------------------------------------------- */

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

void attempt_deadline_start(struct attempt *attempt, double started)
{
    double left = started + attempt->time_limit - daemon_time();

    if (attempt->intent != ENDING_NONE)
        attempt_timer_start(attempt, &attempt->deadline, on_stop_overdue,
                            (uint64_t)(1000 * attempt_grace_seconds(attempt)) +
                                STOP_OVERDUE_MILLISECONDS);
    else if (attempt->time_limit > 0)
        attempt_timer_start(attempt, &attempt->deadline, on_time_limit,
                            left > 0 ? (uint64_t)(left * 1000) : 0);
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
    attempt_timer_start(attempt, &attempt->deadline, on_stop_overdue, STOP_OVERDUE_MILLISECONDS);
}

void attempt_stop(struct attempt *attempt, enum ending intent)
{
    struct stop_request *request;

    if (attempt->intent != ENDING_NONE || attempt->gone)
        return;
    attempt->intent = intent;
    /* at once: the trainee may stop its shim before that has told of it */
    attempt_deadline_start(attempt, attempt->started);
    if (!attempt->status_received) /* supervisor_worker.c comes back to it */
        return;
    request = stop_request_new(attempt);
    if (request)
        uv_queue_work(attempt->daemon->loop, &request->work, stop_work, on_stop_sent);
}
