/* unschedule.c: `trainctl unschedule` removes schedules. */
#include "client/connection/connection.h"

#include <errno.h>
#include <stdlib.h>

static enum exit_status schedule_remove(struct invocation *invocation, const char *word)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters;
    enum exit_status status;
    char *end;
    long long id;

    errno = 0;
    id = strtoll(word, &end, 10);
    if (errno || end == word || *end || id < 1) {
        complain("\"%s\" is no number of a schedule; `trainctl schedules` lists them", word);
        return EXIT_STATUS_USAGE;
    }
    parameters = json_object_new_object();
    json_set_int(parameters, "id", id);
    status = connection_call(invocation, "Unschedule", parameters, &reply);
    if (!status && !invocation->json)
        printf("schedule %lld is removed\n", id);
    return status;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    enum exit_status worst = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count; i++) {
        enum exit_status status = schedule_remove(invocation, invocation->arguments[i]);

        worst = status > worst ? status : worst;
    }
    return worst;
}

const struct command command_unschedule = {
    .name = "unschedule",
    .place = 226,
    .arguments = "SCHEDULE…",
    .summary = "Remove schedules; the jobs that they have made stay",
    .minimum = 1,
    .maximum = -1,
    .execute = command_execute,
};
