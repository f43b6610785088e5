/* move.c: Pause, Resume, Requeue and Move: id → the job as it is stored then. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/jobs/jobs.h"
#include "daemon/methods/methods.h"
#include "daemon/store/job_rows.h"

#include <errno.h>
#include <stdlib.h>

struct moving {
    struct call *call;
    int64_t id;
    int refusal;        /* -errno; 0: none */
    struct error error; /* of the refusal */
    struct json_object *job;
};

static int read_moved(struct store_connection *connection, void *data, struct error *error)
{
    struct moving *moving = data;

    return job_row_find(connection, moving->id, &moving->job, error);
}

static void answer_refusal(const struct moving *moving)
{
    struct json_object *reply;

    if (moving->refusal != -ERROR_UNSUPPORTED && moving->refusal != -ERROR_DEVICE_LOST) {
        call_fail_state(moving->call, moving->id, json_get_string(moving->job, "state", ""), "%s",
                        moving->error.text);
        return;
    }
    reply = json_object_new_object();
    json_set_int(reply, "id", moving->id);
    call_fail(moving->call, "NotMovable", reply, "%s", moving->error.text);
}

static void on_moved_read(void *data, int result, const struct error *error)
{
    AUTO_FREE struct moving *moving = data;
    JSON_AUTO struct json_object *job = moving->job;
    struct json_object *reply;

    if (result < 0) {
        call_fail_job(moving->call, moving->id, error);
    } else if (moving->refusal) {
        answer_refusal(moving);
    } else {
        reply = json_object_new_object();
        json_set(reply, "job", json_object_get(job));
        call_reply(moving->call, reply);
    }
}

static void on_moved(void *data, int result, const struct error *error)
{
    struct moving *moving = data;
    bool refused = result == -ERROR_NO_SUCH_JOB || result == -EINVAL ||
                   result == -ERROR_UNSUPPORTED || result == -ERROR_DEVICE_LOST;

    if (result < 0 && !refused) {
        call_fail_job(moving->call, moving->id, error);
        free(moving);
        return;
    }
    if (refused) {
        moving->refusal = result;
        moving->error = *error;
    }
    store_read(moving->call->daemon->store, read_moved, on_moved_read, moving);
}

static void begin(struct call *call,
                  void (*change_job)(struct daemon *daemon, int64_t id, struct job_change change))
{
    struct moving *moving = memory_zero(sizeof *moving);

    moving->call = call;
    moving->id = json_get_int(call->parameters, "id", 0);
    change_job(call->daemon, moving->id,
               (struct job_change){.force = json_get_bool(call->parameters, "force", false),
                                   .device = json_get_string(call->parameters, "device", NULL),
                                   .done = on_moved,
                                   .data = moving});
}

static void handle_pause(struct call *call)
{
    begin(call, jobs_pause);
}

METHOD(Pause, handle_pause, ACCESS_OWNER, METHOD_SHORT);

static void handle_resume(struct call *call)
{
    begin(call, jobs_resume);
}

METHOD(Resume, handle_resume, ACCESS_OWNER, METHOD_SHORT);

static void handle_requeue(struct call *call)
{
    begin(call, jobs_requeue);
}

METHOD(Requeue, handle_requeue, ACCESS_OWNER, METHOD_SHORT);

static void handle_move(struct call *call)
{
    begin(call, jobs_move);
}

METHOD(Move, handle_move, ACCESS_OWNER, METHOD_SHORT);
