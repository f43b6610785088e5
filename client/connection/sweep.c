/* sweep.c: see sweep.h. */
#include "client/connection/sweep.h"

#include "base/text.h"
#include "client/connection/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_ROWS = 1000 };

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

/* Appends the jobs of the sweep below `before` that exist, ascending; the others were removed. */
static enum exit_status ids_add_listed(struct invocation *invocation, int64_t sweep, int64_t before,
                                       struct id_list *list)
{
    size_t first = list->count;
    enum exit_status status = EXIT_STATUS_DONE;

    while (before && !status) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters = json_object_new_object(), *page;

        json_set_int(parameters, "sweep", sweep);
        json_set_int(parameters, "before", before);
        json_set_int(parameters, "limit", PAGE_ROWS);
        status = connection_call(invocation, "List", parameters, &reply);
        page = status ? NULL : json_get(reply.parameters, "jobs");
        for (size_t i = 0; page && i < json_object_array_length(page) && !status; i++)
            status =
                ids_add_range(list, json_get_int(json_object_array_get_idx(page, i), "id", 0), 1);
        before = status ? 0 : json_get_int(reply.parameters, "next", 0);
    }
    for (size_t last = list->count; first + 1 < last; first++) {
        int64_t id = list->ids[--last];

        list->ids[last] = list->ids[first];
        list->ids[first] = id;
    }
    return status;
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
