/* submission.c: see submission.h. It calls Submit for one job, SubmitMany for several, and
 * SubmitSweep for a sweep; then follow_jobs() if the options ask for it. */
#include "client/submission/submission.h"

#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/follow.h"
#include "client/connection/sweep.h"
#include "client/submission/data_files.h"
#include "client/submission/device_guess.h"
#include "proto/job_spec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Leaves space for the envelope of a SubmitMany call. */
enum { BATCH_BYTES_MAX = JSON_MESSAGE_MAX - 1024 };

/* Prints the daemon's note on standard error: scripts read the number on standard output. */
static void note_print(const struct invocation *invocation, struct json_object *reply)
{
    const char *note = json_get_string(reply, "note", NULL);
    char escaped[2048];

    if (note && !invocation->json)
        fprintf(stderr, "%s\n", text_escape_controls(note, escaped, sizeof escaped));
}

static enum exit_status submit_one(struct invocation *invocation, struct json_object *spec,
                                   int64_t *id)
{
    struct json_object *parameters = json_object_new_object();
    struct varlink_reply reply;
    enum exit_status status;

    json_set(parameters, "spec", json_object_get(spec));
    status = connection_call(invocation, "Submit", parameters, &reply);
    if (status)
        return status;
    *id = json_get_int(reply.parameters, "id", 0);
    if (invocation->json && !invocation_flag(invocation, "wait") &&
        !invocation_flag(invocation, "follow"))
        json_print(reply.parameters, stdout);
    note_print(invocation, reply.parameters);
    varlink_reply_release(&reply);
    return EXIT_STATUS_DONE;
}

/* Sends specs[first … first + count - 1]. */
static enum exit_status submit_batch(struct invocation *invocation, struct json_object *specs,
                                     size_t first, size_t count, int64_t *ids)
{
    struct json_object *parameters = json_object_new_object(), *batch = json_object_new_array();
    struct varlink_reply reply;
    struct json_object *accepted;
    enum exit_status status;

    for (size_t i = first; i < first + count; i++)
        json_object_array_add(batch, json_object_get(json_object_array_get_idx(specs, i)));
    json_set(parameters, "specs", batch);
    status = connection_call(invocation, "SubmitMany", parameters, &reply);
    if (status)
        return status;
    accepted = json_get(reply.parameters, "ids");
    if (first == 0)
        note_print(invocation, reply.parameters);
    for (size_t i = 0; i < count && i < json_object_array_length(accepted); i++)
        ids[first + i] = json_object_get_int64(json_object_array_get_idx(accepted, i));
    varlink_reply_release(&reply);
    return EXIT_STATUS_DONE;
}

static enum exit_status submit_many(struct invocation *invocation, struct json_object *specs,
                                    int64_t *ids)
{
    size_t count = json_object_array_length(specs), first = 0;

    while (first < count) {
        size_t bytes = 0, last = first, length;
        enum exit_status status;

        for (; last < count; last++) {
            json_text(json_object_array_get_idx(specs, last), &length);
            if (last > first &&
                (bytes + length + 1 > BATCH_BYTES_MAX || last - first == SUBMIT_MANY_MAX))
                break;
            bytes += length + 1;
        }
        status = submit_batch(invocation, specs, first, last - first, ids);
        if (status) {
            if (first > 0)
                complain("the %zu specifications before these were accepted: jobs %" PRId64
                         " to %" PRId64,
                         first, ids[0], ids[first - 1]);
            return status;
        }
        first = last;
    }
    return EXIT_STATUS_DONE;
}

/* Makes one call for each specification; the jobs of one sweep have consecutive numbers. */
static enum exit_status submit_sweeps(struct invocation *invocation, struct json_object *specs,
                                      struct json_object *sweep, struct id_list *list)
{
    for (size_t i = 0; i < json_object_array_length(specs); i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters = json_object_new_object();
        enum exit_status status;
        int64_t first, count, *grown;

        json_set(parameters, "spec", json_object_get(json_object_array_get_idx(specs, i)));
        json_set(parameters, "sweep", json_object_get(sweep));
        status = connection_call(invocation, "SubmitSweep", parameters, &reply);
        if (status)
            return status;
        first = json_get_int(reply.parameters, "first", 0);
        count = json_get_int(reply.parameters, "count", 0);
        grown = realloc(list->ids, (list->count + (size_t)count) * sizeof *grown);
        if (!grown) {
            complain("not enough memory for %" PRId64 " jobs", count);
            return EXIT_STATUS_FAILED;
        }
        list->ids = grown;
        for (int64_t point = 0; point < count; point++)
            list->ids[list->count++] = first + point;
    }
    return EXIT_STATUS_DONE;
}

static void submission_print(const struct invocation *invocation, const int64_t *ids, size_t count)
{
    if (!invocation->json && count == 1) {
        printf("job %" PRId64 " is queued\n", ids[0]);
    } else if (!invocation->json) {
        /* nothing submitted is a failure: NOLINTNEXTLINE(clang-analyzer-core.*) */
        printf("%zu jobs are queued: %" PRId64 " to %" PRId64 "\n", count, ids[0], ids[count - 1]);
    } else if (count > 1) {
        JSON_AUTO struct json_object *output = json_object_new_object();
        struct json_object *list = json_object_new_array();

        for (size_t i = 0; i < count; i++)
            json_object_array_add(list, json_object_new_int64(ids[i]));
        json_set(output, "ids", list);
        json_print(output, stdout);
    }
    fflush(stdout);
}

/* Prints the queued jobs, and waits for them if the options ask for it. */
static enum exit_status submission_follow(struct invocation *invocation, const int64_t *ids,
                                          size_t count)
{
    bool progress = invocation_flag(invocation, "follow");
    bool wait = progress || invocation_flag(invocation, "wait");

    if (!invocation->json || !wait)
        submission_print(invocation, ids, count);
    return wait ? follow_jobs(invocation, ids, count, progress ? FOLLOW_PROGRESS : FOLLOW_QUIETLY)
                : EXIT_STATUS_DONE;
}

/* Makes a schedule of each specification (--every). */
static enum exit_status submission_schedule(struct invocation *invocation,
                                            struct json_object *specs, const char *every)
{
    if (invocation_flag(invocation, "wait") || invocation_flag(invocation, "follow")) {
        complain("--every: there is no job yet that could be waited for; leave out --wait and "
                 "--follow");
        return EXIT_STATUS_USAGE;
    }
    for (size_t i = 0; i < json_object_array_length(specs); i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters = json_object_new_object();
        enum exit_status status;
        char time[64];

        device_guess_add(json_object_array_get_idx(specs, i));
        json_set(parameters, "spec", json_object_get(json_object_array_get_idx(specs, i)));
        json_set_string(parameters, "every", every);
        status = connection_call(invocation, "Schedule", parameters, &reply);
        if (status)
            return status;
        if (invocation->json)
            json_print(reply.parameters, stdout);
        else
            printf("schedule %" PRId64 " makes its next job at %s\n",
                   json_get_int(reply.parameters, "id", 0),
                   display_format_time(json_get_double(reply.parameters, "next", 0), time,
                                       sizeof time));
    }
    return EXIT_STATUS_DONE;
}

/* Whether the specification is one. In a list its place stands before the sentence, as the daemon
 * puts it. */
static int spec_check(struct json_object *specs, size_t index, struct error *error)
{
    JSON_AUTO struct json_object *normalised = NULL;
    struct json_object *spec = json_object_array_get_idx(specs, index);
    int result = job_spec_normalise(spec, &normalised, NULL, error);

    if (result < 0 && json_object_array_length(specs) > 1)
        error_prefix(error, "specs[%zu]", index);
    return result;
}

/* Looks for the files that the specifications name. Where one is missing, a key that is wrong is
 * told before it: the daemon, which knows the keys, is not asked any more. */
static enum exit_status data_check(struct json_object *specs)
{
    size_t count = json_object_array_length(specs);
    struct error error = {0}, wrong = {0};

    for (size_t i = 0; i < count; i++) {
        if (data_files_check(json_object_array_get_idx(specs, i), &error) == 0)
            continue;
        for (size_t k = 0; k < count && !wrong.code; k++)
            spec_check(specs, k, &wrong);
        complain("%s", wrong.code ? wrong.text : error.text);
        return EXIT_STATUS_USAGE;
    }
    return EXIT_STATUS_DONE;
}

enum exit_status submission_send(struct invocation *invocation, struct json_object *specs)
{
    const char *every = invocation_option(invocation, "every");
    size_t count = json_object_array_length(specs);
    AUTO_FREE int64_t *ids = calloc(count, sizeof *ids);
    enum exit_status status;

    if (every)
        return submission_schedule(invocation, specs, every);
    if (!ids) {
        complain("not enough memory for %zu jobs", count);
        return EXIT_STATUS_FAILED;
    }
    status = data_check(specs);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        device_guess_add(json_object_array_get_idx(specs, i));
    status = count == 1 ? submit_one(invocation, json_object_array_get_idx(specs, 0), ids)
                        : submit_many(invocation, specs, ids);
    return status ? status : submission_follow(invocation, ids, count);
}

enum exit_status submission_send_sweeps(struct invocation *invocation, struct json_object *specs,
                                        struct json_object *sweep)
{
    struct id_list list = {0};
    enum exit_status status;

    if (invocation_option(invocation, "every")) {
        complain("--every makes single jobs, no sweeps");
        return EXIT_STATUS_USAGE;
    }
    for (size_t i = 0; i < json_object_array_length(specs); i++)
        device_guess_add(json_object_array_get_idx(specs, i));
    status = submit_sweeps(invocation, specs, sweep, &list);
    if (!status)
        status = submission_follow(invocation, list.ids, list.count);
    free(list.ids);
    return status;
}
