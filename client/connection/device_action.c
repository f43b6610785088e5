/* device_action.c: see device_action.h. */
#include "client/connection/device_action.h"

#include "base/text.h"
#include "client/connection/connection.h"

#include <stdio.h>
#include <string.h>

enum exit_status device_action_call(struct invocation *invocation, const char *method,
                                    struct json_object *parameters)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status;
    struct json_object *device, *jobs;
    const char *reason;
    char escaped[2048];

    json_set_string(parameters, "device", invocation->arguments[0]);
    status = connection_call(invocation, method, parameters, &reply);
    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    device = json_get(reply.parameters, "device");
    jobs = json_get(device, "jobs");
    reason = json_get_string(device, "health_reason", NULL);
    printf("%s is %s%s%s\n", json_get_string(device, "name", "?"),
           json_get_string(device, "health", "?"), reason ? ": " : "",
           reason ? text_escape_controls(reason, escaped, sizeof escaped) : "");
    if (strcmp(method, "Drain") == 0 && json_object_array_length(jobs) > 0)
        printf("%zu job%s on it still\n", json_object_array_length(jobs),
               json_object_array_length(jobs) == 1 ? " runs" : "s run");
    return EXIT_STATUS_DONE;
}
