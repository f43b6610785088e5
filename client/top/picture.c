/* picture.c: see picture.h. */
#include "client/top/picture.h"

#include "client/connection/connection.h"

#include <stdio.h>
#include <string.h>

enum {
    JOBS_MAX =
        500, /* of those that run, and of those that wait: the daemon gives no more at once */
    ANSWER_MILLISECONDS = 1000 /* keys are not read meanwhile */
};

void picture_release(struct picture *picture)
{
    json_object_put(picture->devices);
    json_object_put(picture->running);
    json_object_put(picture->queued);
    json_object_put(picture->ended);
    *picture = (struct picture){0};
}

static int ask(struct invocation *invocation, const char *method, struct json_object *parameters,
               struct json_object **answer, struct error *error)
{
    struct varlink_reply reply;
    int result =
        connection_call_quietly(invocation, ANSWER_MILLISECONDS, method, parameters, &reply, error);

    if (result < 0)
        return result;
    *answer = json_object_get(reply.parameters);
    varlink_reply_release(&reply);
    return 0;
}

static int ask_jobs(struct invocation *invocation, const char *const *states, size_t limit,
                    struct json_object **answer, struct error *error)
{
    struct json_object *parameters = json_object_new_object(), *list = json_object_new_array();

    for (; *states; states++)
        json_object_array_add(list, json_object_new_string(*states));
    json_set(parameters, "states", list);
    json_set_int(parameters, "limit", (int64_t)limit);
    return ask(invocation, "List", parameters, answer, error);
}

int picture_fetch(struct picture *picture, struct invocation *invocation, size_t ended_count,
                  struct error *error)
{
    static const char *const running[] = {"starting", "running", "preempting", "paused", NULL};
    static const char *const queued[] = {"queued", NULL};
    static const char *const ended[] = {"done", "failed", "cancelled", NULL};
    struct picture fetched = {0};
    int result = ask(invocation, "Devices", NULL, &fetched.devices, error);

    if (result == 0)
        result = ask_jobs(invocation, running, JOBS_MAX, &fetched.running, error);
    if (result == 0)
        result = ask_jobs(invocation, queued, JOBS_MAX, &fetched.queued, error);
    if (result == 0)
        result = ask_jobs(invocation, ended, ended_count, &fetched.ended, error);
    if (result < 0) {
        picture_release(&fetched);
        return result;
    }
    picture_release(picture);
    *picture = fetched;
    return 0;
}

struct json_object *picture_jobs(const struct picture *picture)
{
    struct json_object *const lists[] = {picture->running, picture->queued, picture->ended};
    struct json_object *jobs = json_object_new_array();

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct json_object *list = json_get(lists[i], "jobs");

        for (size_t j = 0; list && j < json_object_array_length(list); j++)
            json_object_array_add(jobs, json_object_get(json_object_array_get_idx(list, j)));
    }
    return jobs;
}

size_t picture_count_paused(const struct picture *picture)
{
    struct json_object *jobs = json_get(picture->running, "jobs");
    size_t paused = 0;

    for (size_t i = 0; jobs && i < json_object_array_length(jobs); i++)
        paused +=
            strcmp(json_get_string(json_object_array_get_idx(jobs, i), "state", ""), "paused") == 0;
    return paused;
}

char *picture_count(struct json_object *list, size_t others, char *output, size_t size)
{
    struct json_object *jobs = json_get(list, "jobs");

    snprintf(output, size, "%zu%s", (jobs ? json_object_array_length(jobs) : 0) - others,
             json_get(list, "next") ? "+" : "");
    return output;
}

void picture_print_json(const struct picture *picture)
{
    JSON_AUTO struct json_object *output = json_object_new_object();

    json_set(output, "devices", json_object_get(json_get(picture->devices, "devices")));
    json_set(output, "running", json_object_get(json_get(picture->running, "jobs")));
    json_set(output, "queued", json_object_get(json_get(picture->queued, "jobs")));
    json_set(output, "ended", json_object_get(json_get(picture->ended, "jobs")));
    json_print(output, stdout);
    fflush(stdout);
}
