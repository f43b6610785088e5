/* job_pages.c: see job_pages.h. */
#include "client/connection/job_pages.h"

#include "base/cleanup.h"

enum { PAGE_JOBS = 500 };

enum exit_status job_pages_walk(struct invocation *invocation, struct json_object *filter,
                                bool (*visit)(void *context, struct json_object *job),
                                void *context)
{
    JSON_AUTO struct json_object *parameters = filter ? filter : json_object_new_object();
    int64_t before = 0;

    json_set_int(parameters, "limit", PAGE_JOBS);
    do {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *page;
        enum exit_status status;

        if (before)
            json_set_int(parameters, "before", before);
        status = connection_call(invocation, "List", json_object_get(parameters), &reply);
        if (status)
            return status;
        page = json_get(reply.parameters, "jobs");
        for (size_t i = 0; i < json_object_array_length(page); i++)
            if (!visit(context, json_object_array_get_idx(page, i)))
                return EXIT_STATUS_DONE;
        before = json_get_int(reply.parameters, "next", 0);
    } while (before);
    return EXIT_STATUS_DONE;
}
