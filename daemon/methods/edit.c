/* edit.c: Edit: ids and changes → what was changed of each job. */
#include "daemon/jobs/edit.h"

#include "base/memory.h"
#include "daemon/methods/methods.h"
#include "daemon/methods/quota.h"

#include <errno.h>
#include <stdlib.h>

struct edit_call {
    struct job_editing editing;
    struct call *call;
    struct edited_job jobs[]; /* the request's `jobs` points here */
};

static struct json_object *describe(const struct job_editing *editing)
{
    struct json_object *reply = json_object_new_object(), *list = json_object_new_array();

    for (size_t i = 0; i < editing->count; i++) {
        struct json_object *edited = json_object_new_object();
        const char *change = editing->jobs[i].edit.change;

        json_set_int(edited, "id", editing->jobs[i].id);
        json_set_string(edited, "change", *change ? change : NULL);
        json_object_array_add(list, edited);
    }
    json_set(reply, "edited", list);
    return reply;
}

static void refuse_spec(struct call *call, const struct job_spec_fault *fault,
                        const struct error *error)
{
    struct json_object *parameters = json_object_new_object();

    json_set_string(parameters, "path", *fault->path ? fault->path : NULL);
    json_set_string(parameters, "nearest", *fault->nearest ? fault->nearest : NULL);
    call_fail(call, "InvalidSpec", parameters, "%s", error->text);
}

static void on_edited(struct job_editing *editing, int result, const struct error *error)
{
    struct edit_call *edit = editing->data;
    struct call *call = edit->call;
    const char *nothing = editing->count > 1 ? "; nothing was changed" : "";

    if (result == 0)
        call_reply(call, describe(editing));
    else if (result == -EINVAL)
        refuse_spec(call, &editing->fault, error);
    else if (result == -EBUSY)
        call_fail_state(call, editing->refused, job_state_to_string(editing->refused_state), "%s%s",
                        error->text, nothing);
    else
        call_fail_job(call, editing->refused, error);
    jobs_edit_release(editing);
    free(edit);
}

/* Fills in the ids, each once. */
static void take_ids(struct edit_call *edit, struct json_object *ids)
{
    size_t count = json_object_array_length(ids);

    for (size_t i = 0; i < count; i++) {
        int64_t id = json_object_get_int64(json_object_array_get_idx(ids, i));
        size_t k = 0;

        while (k < edit->editing.count && edit->jobs[k].id != id)
            k++;
        if (k == edit->editing.count)
            edit->jobs[edit->editing.count++].id = id;
    }
}

static void handle_edit(struct call *call)
{
    struct json_object *ids = json_get(call->parameters, "ids");
    size_t count = json_object_array_length(ids);
    struct edit_call *edit;

    if (count > JOBS_EDITED_MAX) {
        call_fail(call, "NotPermitted", NULL, "one call edits at most %d jobs", JOBS_EDITED_MAX);
        return;
    }
    edit = memory_zero(sizeof *edit + count * sizeof *edit->jobs);
    edit->call = call;
    edit->editing = (struct job_editing){
        .jobs = edit->jobs,
        .changes = json_get(call->parameters, "changes"),
        .priority_max = quota_priority_max(call),
        .uid = call->peer.uid,
        .done = on_edited,
        .data = edit,
    };
    take_ids(edit, ids);
    jobs_edit(call->daemon, &edit->editing);
}

METHOD(Edit, handle_edit, ACCESS_OWNER, METHOD_LONG);
