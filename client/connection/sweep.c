/* sweep.c: see sweep.h. */
#include "client/connection/sweep.h"

#include "base/text.h"
#include "client/connection/job_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sweep_named(const char *text, int64_t *id)
{
    char *end;

    if (strncmp(text, "sweep:", 6) != 0)
        return false;
    errno = 0;
    *id = strtoll(text + 6, &end, 10);
    return end != text + 6 && !*end && !errno && *id > 0;
}

enum exit_status sweep_fetch(struct invocation *invocation, int64_t id, struct varlink_reply *reply)
{
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", id);
    return connection_call(invocation, "ShowSweep", parameters, reply);
}

static enum exit_status ids_add_range(struct id_list *list, int64_t first, int64_t count)
{
    int64_t *grown = realloc(list->ids, (list->count + (size_t)count + 1) * sizeof *grown);

    if (!grown) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    list->ids = grown;
    for (int64_t i = 0; i < count; i++)
        list->ids[list->count++] = first + i;
    return EXIT_STATUS_DONE;
}

struct listing {
    struct id_list *list;
    enum exit_status status;
};

static bool id_add(void *context, struct json_object *job)
{
    struct listing *listing = context;

    listing->status = ids_add_range(listing->list, json_get_int(job, "id", 0), 1);
    return !listing->status;
}

/* Appends the jobs of the sweep below `before` that exist, ascending; the others were removed. */
static enum exit_status ids_add_listed(struct invocation *invocation, int64_t sweep, int64_t before,
                                       struct id_list *list)
{
    struct json_object *filter = json_object_new_object();
    struct listing listing = {list, EXIT_STATUS_DONE};
    size_t first = list->count;
    enum exit_status status;

    json_set_int(filter, "sweep", sweep);
    json_set_int(filter, "before", before);
    status = job_pages_walk(invocation, filter, id_add, &listing);
    for (size_t last = list->count; first + 1 < last; first++) {
        int64_t id = list->ids[--last];

        list->ids[last] = list->ids[first];
        list->ids[first] = id;
    }
    return status ? status : listing.status;
}

static enum exit_status ids_add_sweep(struct invocation *invocation, int64_t id,
                                      struct id_list *list)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status = sweep_fetch(invocation, id, &reply);
    struct json_object *sweep = status ? NULL : json_get(reply.parameters, "sweep");
    int64_t points = json_get_int(sweep, "points", 0);
    int64_t expanded = json_get_int(sweep, "expanded", 0);

    if (status)
        return status;
    if (json_get_int(sweep, "removed", 0) == 0)
        return ids_add_range(list, id, points);
    status = ids_add_listed(invocation, id, id + expanded, list);
    return status ? status : ids_add_range(list, id + expanded, points - expanded);
}

enum exit_status sweep_append_ids(struct invocation *invocation, const char *text,
                                  struct id_list *list)
{
    enum exit_status status;
    int64_t id;

    if (sweep_named(text, &id))
        return ids_add_sweep(invocation, id, list);
    status = connection_find_job(invocation, text, JOB_IS_READ, &id);
    return status ? status : ids_add_range(list, id, 1);
}

void sweep_print_sentence(struct json_object *sweep, FILE *output)
{
    int64_t removed = json_get_int(sweep, "removed", 0);
    char name[512];

    fprintf(output, "sweep %" PRId64 " (%s): %" PRId64 " jobs", json_get_int(sweep, "id", 0),
            text_escape_controls(json_get_string(sweep, "name", ""), name, sizeof name),
            json_get_int(sweep, "points", 0));
    if (json_get(sweep, "states")) {
        json_object_object_foreach (json_get(sweep, "states"), state, count)
            fprintf(output, ", %" PRId64 " %s", json_object_get_int64(count), state);
    }
    if (removed)
        fprintf(output, ", %" PRId64 " removed", removed);
    fputc('\n', output);
}
