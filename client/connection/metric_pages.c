/* metric_pages.c: see metric_pages.h. */
#include "client/connection/metric_pages.h"

enum { PAGE_ROWS = 2500 /* the daemon gives no more */ };

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
