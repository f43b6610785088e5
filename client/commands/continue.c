/* continue.c: `trainctl continue` lets a job that has ended go on from its last checkpoint, as a
 * new job. */
#include "base/string_table.h"
#include "client/connection/connection.h"
#include "client/submission/graph_input.h"
#include "client/submission/snapshot.h"
#include "client/submission/spec_input.h"
#include "client/submission/submission.h"
#include "proto/job_spec.h"
#include "proto/schedule_kinds.h"

#include <inttypes.h>
#include <string.h>

/* A job that has ended: the reply to Show. */
static enum exit_status job_fetch(struct invocation *invocation, struct varlink_reply *reply)
{
    struct json_object *parameters;
    enum exit_status status = connection_job_parameters(invocation, invocation->arguments[0],
                                                        JOB_IS_ACTED_ON, &parameters);

    return status ? status : connection_call(invocation, "Show", parameters, reply);
}

static enum exit_status refuse(const char *text, int64_t id)
{
    complain("job %" PRId64 " %s", id, text);
    return EXIT_STATUS_FAILED;
}

/* Whether the job can go on at all. */
static enum exit_status job_check(struct json_object *job, struct json_object *spec)
{
    const char *state = json_get_string(job, "state", "");
    int64_t id = json_get_int(job, "id", 0);

    if (!spec || json_object_object_length(spec) == 0)
        return refuse("is somebody else's: its specification is not shown", id);
    if (job_spec_is_command(spec))
        return refuse("is a command: what it goes on from is its own matter; `trainctl resubmit` "
                      "starts it again",
                      id);
    if (strcmp(state, "done") != 0 && strcmp(state, "failed") != 0 &&
        strcmp(state, "cancelled") != 0)
        return refuse("has not ended: it goes on by itself; `trainctl edit` changes it while it "
                      "waits",
                      id);
    return EXIT_STATUS_DONE;
}

/* The epochs that the job has done, by its last checkpoint; below 0: it has none. */
static enum exit_status epochs_done(struct invocation *invocation, int64_t id, double *epochs)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *list;
    enum exit_status status;

    json_set_int(parameters, "id", id);
    status = connection_call(invocation, "Checkpoints", parameters, &reply);
    if (status)
        return status;
    list = json_get(reply.parameters, "checkpoints");
    *epochs = -1;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        double epoch = json_get_double(json_object_array_get_idx(list, i), "epoch", 0);

        *epochs = epoch > *epochs ? epoch : *epochs;
    }
    return EXIT_STATUS_DONE;
}

/* Adds the number to a key of `train`. */
static void lengthen(struct json_object *train, const char *key, int64_t more)
{
    int64_t sum;

    if (__builtin_add_overflow(json_get_int(train, key, 0), more, &sum))
        sum = INT64_MAX; /* which the daemon refuses */
    json_set_int(train, key, sum);
}

/* Makes the training longer by what the options say. */
static enum exit_status train_lengthen(struct invocation *invocation, int64_t id, bool done,
                                       struct json_object *train)
{
    int64_t epochs = 0, steps = 0;
    bool by_steps = json_get(train, "max_steps") != NULL;

    enum exit_status status = invocation_option_integer(invocation, "epochs", 1, &epochs);

    if (!status)
        status = invocation_option_integer(invocation, "steps", 1, &steps);
    if (status)
        return status;
    if (by_steps && epochs)
        return refuse("ends after train.max_steps: say by --steps how many more", id);
    if (!by_steps && steps)
        return refuse("ends after train.epochs: say by --epochs how many more", id);
    if (done && !epochs && !steps && !invocation_option(invocation, "set"))
        return refuse(by_steps ? "is done: say by --steps how many more it shall make"
                               : "is done: say by --epochs how many more it shall make",
                      id);
    if (epochs)
        lengthen(train, "epochs", epochs);
    if (steps) {
        lengthen(train, "max_steps", steps);
        json_set_int(train, "epochs", JOB_SPEC_EPOCHS_MAX);
    }
    return EXIT_STATUS_DONE;
}

/* Schedules whose shape depends on the length of the run. */
static bool schedule_has_end(const char *name)
{
    static const char *const names[] = {"cosine", "linear", "polynomial", "one_cycle",
                                        "exponential"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void tell_of_schedule(struct json_object *train)
{
    const char *name = json_get_string(json_get(train, "schedule"), "name", "constant");

    if (schedule_has_end(name))
        complain("note: the %s schedule is that of the whole longer run. Its learning rate goes on "
                 "where such a run would be now, not where the first one had ended, so the result "
                 "is not that of an uninterrupted run. `--set train.schedule.name=constant "
                 "--set train.optimizer.lr=…` goes on with one learning rate",
                 name);
}

static enum exit_status spec_make(struct invocation *invocation, struct json_object *job,
                                  struct json_object *spec)
{
    struct json_object *train = json_get(spec, "train"), *weights = json_object_new_object();
    bool done = strcmp(json_get_string(job, "state", ""), "done") == 0;
    bool stops_early = json_get(train, "early_stop") != NULL && !json_get(train, "max_steps");
    int64_t id = json_get_int(job, "id", 0), planned = json_get_int(train, "epochs", 0);
    static const char *const dropped[] = {"after", "at", "put_first", "hold"};
    struct error error = {0};
    double epochs;
    enum exit_status status = epochs_done(invocation, id, &epochs);

    if (!status && epochs < 0)
        status = refuse("has no checkpoint to go on from (checkpoint.keep, `trainctl rm "
                        "--checkpoints`)",
                        id);
    if (!status)
        status = train_lengthen(invocation, id, done, train);
    json_set_int(weights, "job", id);
    json_set_bool(weights, "continue", true);
    json_set(spec, "weights", weights);
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        json_object_object_del(spec, dropped[i]);
    if (!status)
        status = spec_options_apply(invocation, spec);
    if (!status && spec_input_complete(invocation, spec, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (!status && done && stops_early && epochs < (double)planned - 0.5 &&
        json_get(json_get(spec, "train"), "early_stop"))
        status = refuse("was stopped early (train.early_stop), and would stop at once again; go on "
                        "without: --set train.early_stop=null",
                        id);
    if (!status)
        tell_of_schedule(json_get(spec, "train"));
    return status;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    JSON_AUTO struct json_object *specs = json_object_new_array();
    struct json_object *job, *spec;
    enum exit_status status = job_fetch(invocation, &reply);

    if (status)
        return status;
    job = json_get(reply.parameters, "job");
    spec = json_get(reply.parameters, "spec");
    status = job_check(job, spec);
    if (!status)
        status = spec_make(invocation, job, spec);
    if (!status)
        status = graph_input_add(invocation, spec);
    json_object_array_add(specs, json_object_get(spec));
    if (!status)
        status = snapshot_add(invocation, specs);
    if (status)
        return status;
    return submission_send(invocation, specs);
}

static const struct command_option continue_options[] = {
    {"epochs", 0, "N", "Train so many epochs more", COMPLETE_NOTHING},
    {"steps", 0, "N", "Make so many updates more, of a job with train.max_steps", COMPLETE_NOTHING},
    SUBMISSION_OPTIONS,
    SPEC_INPUT_OPTION_PROFILE,
    {0},
};

const struct command command_continue = {
    .name = "continue",
    .place = 35,
    .arguments = "JOB",
    .summary = "Train a job further from its last checkpoint, as a new job",
    .details =
        "The new job has the optimizer's state, epochs and order of data of the old one, so it ends "
        "with the bits of a run that was never interrupted. Schedules that depend on the length of "
        "the run (cosine, linear, polynomial, one_cycle) are those of the longer run. Of a job that "
        "failed or was cancelled it trains what is left, unless --epochs says more. --set changes "
        "keys. The old job stays until the new one has ended.",
    .minimum = 1,
    .maximum = 1,
    .options = continue_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
