/* list.c: `trainctl list` lists jobs, newest first, page by page. */
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/view/job.h"

#include <inttypes.h>
#include <string.h>

enum { LIMIT_DEFAULT = 50, PAGE_MAX = 500 };

/* Collects the states of all --state options as a JSON array; NULL: none. EXIT_STATUS_USAGE: a
 * state is unknown. */
static enum exit_status states_collect(const struct invocation *invocation,
                                       struct json_object **states)
{
    const char *argument;

    for (size_t at = 0; (argument = invocation_option_next(invocation, "state", &at));) {
        AUTO_FREE char *copy = strdup(argument);
        char *rest = NULL;

        if (!*states)
            *states = json_object_new_array();
        for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
            const char *nearest = text_nearest(word, job_states, JOB_STATES);
            bool known = nearest && strcmp(nearest, word) == 0;

            if (!known) {
                complain(nearest ? "there is no state \"%s\"; did you mean %s?"
                                 : "there is no state \"%s\"; `trainctl help list` names them",
                         word, nearest);
                return EXIT_STATUS_USAGE;
            }
            json_object_array_add(*states, json_object_new_string(word));
        }
    }
    return EXIT_STATUS_DONE;
}

/* Fetches pages of jobs older than `*before` (0: all) until there are `limit` jobs or none is left.
 * `*before` is then where the next page begins; 0: there is none. */
static enum exit_status jobs_fetch(struct invocation *invocation, struct json_object *states,
                                   int64_t limit, struct json_object *jobs, int64_t *before)
{
    int64_t sweep = 0;

    if (invocation_option_integer(invocation, "sweep", 1, &sweep))
        return EXIT_STATUS_USAGE;
    do {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters = json_object_new_object(), *page;
        int64_t left = limit - (int64_t)json_object_array_length(jobs);
        enum exit_status status;

        if (states)
            json_set(parameters, "states", json_object_get(states));
        if (invocation_option(invocation, "name"))
            json_set_string(parameters, "name", invocation_option(invocation, "name"));
        if (sweep)
            json_set_int(parameters, "sweep", sweep);
        if (*before)
            json_set_int(parameters, "before", *before);
        json_set_int(parameters, "limit", left < PAGE_MAX ? left : PAGE_MAX);
        status = connection_call(invocation, "List", parameters, &reply);
        if (status)
            return status;
        page = json_get(reply.parameters, "jobs");
        for (size_t i = 0; i < json_object_array_length(page); i++)
            json_object_array_add(jobs, json_object_get(json_object_array_get_idx(page, i)));
        *before = json_get_int(reply.parameters, "next", 0);
    } while (*before && (int64_t)json_object_array_length(jobs) < limit);
    return EXIT_STATUS_DONE;
}

/* Whether a sweep may have more points than the list shows. */
static bool any_swept(struct json_object *jobs)
{
    for (size_t i = 0; i < json_object_array_length(jobs); i++)
        if (json_get(json_object_array_get_idx(jobs, i), "sweep"))
            return true;
    return false;
}

/* Prints the sweeps with points that are no jobs yet. */
static enum exit_status sweeps_print(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status =
        connection_call(invocation, "Sweeps", json_object_new_object(), &reply);
    struct json_object *sweeps = status ? NULL : json_get(reply.parameters, "sweeps");

    for (size_t i = 0; sweeps && i < json_object_array_length(sweeps); i++) {
        struct json_object *sweep = json_object_array_get_idx(sweeps, i);
        int64_t left = json_get_int(sweep, "points", 0) - json_get_int(sweep, "expanded", 0);
        const char *given = json_get_string(sweep, "name", "");
        char name[512];

        if (left > 0 && !json_get(sweep, "cancelled"))
            printf("sweep:%" PRId64 " (%s): %" PRId64 " of %" PRId64
                   " jobs are still to come into the queue\n",
                   json_get_int(sweep, "id", 0),
                   text_escape_controls(*given ? given : json_get_string(sweep, "user", ""), name,
                                        sizeof name),
                   left, json_get_int(sweep, "points", 0));
    }
    return status;
}

/* Whether options leave jobs out, so that an empty list does not mean that there are none. */
static bool chooses(const struct invocation *invocation)
{
    return invocation_option(invocation, "state") || invocation_option(invocation, "name") ||
           invocation_option(invocation, "sweep") || invocation_option(invocation, "before");
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *states = NULL, *jobs = json_object_new_array();
    int64_t limit = LIMIT_DEFAULT, before = 0;
    enum exit_status status = invocation_option_integer(invocation, "limit", 1, &limit);

    if (!status)
        status = invocation_option_integer(invocation, "before", 1, &before);
    if (invocation_flag(invocation, "all"))
        limit = INT64_MAX;
    if (!status)
        status = states_collect(invocation, &states);
    if (!status)
        status = jobs_fetch(invocation, states, limit, jobs, &before);
    if (status)
        return status;
    connection_tell_full_disk(invocation);
    if (invocation->json) {
        JSON_AUTO struct json_object *output = json_object_new_object();

        json_set(output, "jobs", json_object_get(jobs));
        json_set(output, "next", before ? json_object_new_int64(before) : NULL);
        json_print(output, stdout);
        return EXIT_STATUS_DONE;
    }
    job_print_table(jobs, &invocation->output, stdout);
    if (json_object_array_length(jobs) == 0) /* not into a pipe that expects rows */
        fputs(chooses(invocation)
                  ? "no job is so; `trainctl list --all` shows all jobs\n"
                  : "no jobs; `trainctl submit SPEC` or `trainctl run -- COMMAND` queues one\n",
              invocation->output.terminal ? stdout : stderr);
    if (before && invocation->output.terminal)
        puts("There are older ones: `trainctl list --all` shows them.");
    return invocation->output.terminal && any_swept(jobs) ? sweeps_print(invocation)
                                                          : EXIT_STATUS_DONE;
}

static const struct command_option list_options[] = {
    {"state", 's', "STATE[,STATE…]", "Only jobs in these states; repeatable", COMPLETE_STATES},
    {"name", 'n', "NAME", "Only jobs of this name", COMPLETE_NOTHING},
    {"sweep", 0, "JOB", "Only jobs of the sweep that begins with this one", COMPLETE_JOBS},
    {"limit", 'l', "N", "The newest N jobs (default: 50)", COMPLETE_NOTHING},
    {"before", 'b', "JOB", "Jobs older than that one: `next` of the page before", COMPLETE_JOBS},
    {"all", 'a', NULL, "All jobs", COMPLETE_NOTHING},
    {0},
};

const struct command command_list = {
    .name = "list",
    .place = 70,
    .summary = "List jobs, newest first",
    .details = "States: queued starting running preempting paused done failed cancelled.",
    .options = list_options,
    .execute = command_execute,
};
