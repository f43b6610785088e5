/* metric_pages.c: see metric_pages.h. */
#include "client/connection/metric_pages.h"

#include <math.h>

enum {
    PAGE_ROWS = 2500, /* the daemon gives no more */
    NAME_ROWS = 500   /* in which names are looked for */
};

enum exit_status metric_pages_walk(struct invocation *invocation, int64_t id,
                                   struct json_object *names, int64_t cursor,
                                   enum exit_status (*take)(void *context, struct json_object *rows,
                                                            int64_t cursor),
                                   void *context)
{
    for (;;) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters = json_object_new_object(), *rows;
        enum exit_status status;

        json_set_int(parameters, "id", id);
        if (names)
            json_set(parameters, "names", json_object_get(names));
        json_set_int(parameters, "after", cursor);
        json_set_int(parameters, "limit", PAGE_ROWS);
        status = connection_call(invocation, "Metrics", parameters, &reply);
        if (status)
            return status;
        rows = json_get(reply.parameters, "rows");
        if (json_object_array_length(rows) == 0)
            return EXIT_STATUS_DONE;
        cursor = json_get_int(reply.parameters, "next", cursor);
        status = take(context, rows, cursor);
        if (status)
            return status;
    }
}

enum exit_status metric_pages_append(void *context, struct json_object *rows, int64_t cursor)
{
    (void)cursor;
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        json_object_array_add(context, json_object_get(json_object_array_get_idx(rows, i)));
    return EXIT_STATUS_DONE;
}

void metric_names_complete(struct invocation *invocation, struct json_object *job)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *rows;
    struct json_object *metrics = json_get(job, "metrics");

    json_set_int(parameters, "id", json_get_int(job, "id", 0));
    json_set_int(parameters, "after", 0);
    json_set_int(parameters, "limit", NAME_ROWS);
    if (!connection_try(invocation, "Metrics", parameters, &reply))
        return;
    rows = metrics ? json_get(reply.parameters, "rows") : NULL;
    for (size_t i = 0; rows && i < json_object_array_length(rows); i++) {
        const char *name = json_get_string(json_object_array_get_idx(rows, i), "name", "");

        if (!json_get(metrics, name))
            json_object_object_add(metrics, name, json_object_new_double(NAN));
    }
}
