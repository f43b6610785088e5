/* ping.c: `trainctl ping` checks whether a daemon answers, and shows which one. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"

#include <inttypes.h>
#include <math.h>

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status = connection_call(invocation, "Ping", NULL, &reply);
    struct json_object *notes;
    char text[64];

    if (status)
        return status;
    if (invocation->json) {
        json_set_string(reply.parameters, "socket", invocation->socket);
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    printf("traind %s answers on %s: process %" PRId64 ", %s mode, up %s\n",
           json_get_string(reply.parameters, "version", "?"), invocation->socket,
           json_get_int(reply.parameters, "pid", 0), json_get_string(reply.parameters, "mode", "?"),
           text_format_duration(clock_now() - json_get_double(reply.parameters, "started", NAN),
                                text, sizeof text));
    notes = json_get(reply.parameters, "notes");
    for (size_t i = 0; notes && i < json_object_array_length(notes); i++) {
        char escaped[1024];

        printf("note: %s\n",
               text_escape_controls(json_object_get_string(json_object_array_get_idx(notes, i)),
                                    escaped, sizeof escaped));
    }
    return EXIT_STATUS_DONE;
}

const struct command command_ping = {
    .name = "ping",
    .place = 330,
    .summary = "Ask whether the daemon answers",
    .execute = command_execute,
};
