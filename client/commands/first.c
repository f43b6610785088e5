/* first.c: `trainctl first` puts waiting jobs before their user's others. */
#include "base/clock.h"
#include "client/connection/connection.h"

#include <inttypes.h>

/* The most that a priority may be (`trainctl help spec`). */
enum { PRIORITY_HIGHEST = 1000 };

static enum exit_status job_put_first(struct invocation *invocation, const char *name, double time,
                                      bool all)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters, *ids, *changes;
    enum exit_status status;
    int64_t id;

    status = connection_find_job(invocation, name, JOB_IS_ACTED_ON, &id);
    if (status)
        return status;
    parameters = json_object_new_object();
    ids = json_object_new_array();
    changes = json_object_new_object();
    json_object_array_add(ids, json_object_new_int64(id));
    json_set_double(changes, "put_first", time);
    if (all)
        json_set_int(changes, "priority", PRIORITY_HIGHEST);
    json_set(parameters, "ids", ids);
    json_set(parameters, "changes", changes);
    status = connection_call(invocation, "Edit", parameters, &reply);
    if (status)
        return status;
    if (invocation->json)
        json_print(reply.parameters, stdout);
    else
        printf("job %" PRId64 " goes before %s\n", id,
               all ? "all others" : "its user's others of the same priority");
    return EXIT_STATUS_DONE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    enum exit_status worst = EXIT_STATUS_DONE;
    double now = clock_now();

    /* the last one first, so that they keep their order */
    for (size_t i = invocation->argument_count; i-- > 0;) {
        double time = now + 1e-3 * (double)(invocation->argument_count - i);
        enum exit_status status = job_put_first(invocation, invocation->arguments[i], time,
                                                invocation_flag(invocation, "all"));

        worst = status > worst ? status : worst;
    }
    return worst;
}

static const struct command_option first_options[] = {
    {"all", 0, NULL, "Before the jobs of all users, for administrators: priority 1000",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_first = {
    .name = "first",
    .place = 206,
    .arguments = "JOB…",
    .summary = "Put waiting jobs before your others",
    .details = "They go before your other waiting jobs of the same priority, in the order given. "
               "Against other users'\njobs the first one counts as the most valuable of yours "
               "would. `trainctl edit JOB put_first=null` undoes it.",
    .minimum = 1,
    .maximum = -1,
    .options = first_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
