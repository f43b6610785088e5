/* removal.c: see removal.h. */
#include "client/connection/removal.h"

#include "client/connection/connection.h"

#include <inttypes.h>

enum { BATCH_JOBS = 200 };

static struct json_object *removal_parameters(struct json_object *ids, size_t first, size_t count,
                                              bool checkpoints_only)
{
    struct json_object *parameters = json_object_new_object(), *batch = json_object_new_array();

    for (size_t i = first; i < first + count; i++)
        json_object_array_add(batch, json_object_get(json_object_array_get_idx(ids, i)));
    json_set(parameters, "ids", batch);
    if (checkpoints_only)
        json_set_bool(parameters, "checkpoints", true);
    return parameters;
}

enum exit_status removal_run(struct invocation *invocation, struct json_object *ids,
                             bool checkpoints_only, int64_t *removed)
{
    size_t count = json_object_array_length(ids);

    for (size_t first = 0; first < count; first += BATCH_JOBS) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        size_t batch = count - first < BATCH_JOBS ? count - first : BATCH_JOBS;
        enum exit_status status = connection_call(
            invocation, "Remove", removal_parameters(ids, first, batch, checkpoints_only), &reply);

        if (status)
            return status;
        *removed += json_get_int(reply.parameters, "removed", 0);
    }
    return EXIT_STATUS_DONE;
}

/* Splits a refused batch in halves until every refused job is alone. */
static void batch_remove_possible(struct invocation *invocation, struct json_object *ids,
                                  size_t first, size_t count, bool checkpoints_only,
                                  struct json_object *left, int64_t *removed)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    size_t half = count / 2;

    if (connection_try(invocation, "Remove",
                       removal_parameters(ids, first, count, checkpoints_only), &reply)) {
        *removed += json_get_int(reply.parameters, "removed", 0);
    } else if (!invocation->client) { /* the daemon no longer answers */
        return;
    } else if (count == 1) {
        json_object_array_add(left, json_object_get(json_object_array_get_idx(ids, first)));
    } else {
        batch_remove_possible(invocation, ids, first, half, checkpoints_only, left, removed);
        batch_remove_possible(invocation, ids, first + half, count - half, checkpoints_only, left,
                              removed);
    }
}

enum exit_status removal_run_possible(struct invocation *invocation, struct json_object *ids,
                                      bool checkpoints_only, struct json_object *left,
                                      int64_t *removed)
{
    size_t count = json_object_array_length(ids);
    enum exit_status status = connection_open(invocation);

    for (size_t first = 0; first < count && !status && invocation->client; first += BATCH_JOBS)
        batch_remove_possible(invocation, ids, first,
                              count - first < BATCH_JOBS ? count - first : BATCH_JOBS,
                              checkpoints_only, left, removed);
    if (status || invocation->client)
        return status;
    complain("the connection broke after %" PRId64 " of %zu jobs were removed", *removed, count);
    return EXIT_STATUS_UNREACHABLE;
}
