/* clean.c: `trainctl clean` removes the caller's jobs that ended long ago, or their checkpoints. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/job_pages.h"
#include "client/connection/removal.h"
#include "client/view/display.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const double older_default = 30 * 86400.0; /* seconds */

/* Which jobs are selected. */
struct selection {
    double before; /* jobs that ended before this time */
    const char *state, *name;
    int64_t uid;
    struct json_object *ids; /* their numbers */
};

static bool is_selected(const struct selection *selection, struct json_object *job)
{
    double ended = json_get_double(job, "ended", NAN);

    return json_get_int(job, "uid", -1) == selection->uid && !isnan(ended) &&
           ended < selection->before;
}

static bool job_select(void *context, struct json_object *job)
{
    const struct selection *selection = context;

    if (is_selected(selection, job))
        json_object_array_add(selection->ids, json_object_get(json_get(job, "id")));
    return true;
}

static enum exit_status jobs_select(struct invocation *invocation, struct selection *selection)
{
    static const char *const ended[] = {"done", "failed", "cancelled"};
    struct json_object *filter = json_object_new_object(), *states = json_object_new_array();

    for (size_t i = 0; i < sizeof ended / sizeof *ended; i++)
        if (!selection->state || strcmp(selection->state, ended[i]) == 0)
            json_object_array_add(states, json_object_new_string(ended[i]));
    json_set(filter, "states", states);
    if (selection->name)
        json_set_string(filter, "name", selection->name);
    json_set_bool(filter, "own", true); /* leaves out other users' jobs */
    return job_pages_walk(invocation, filter, job_select, selection);
}

static enum exit_status selection_read(const struct invocation *invocation,
                                       struct selection *selection)
{
    const char *older = invocation_option(invocation, "older");
    double seconds = older_default;

    *selection = (struct selection){.state = invocation_option(invocation, "state"),
                                    .name = invocation_option(invocation, "name"),
                                    .uid = (int64_t)geteuid()};
    if (older && text_parse_duration(older, &seconds) < 0) {
        complain("--older=%s is no duration such as \"12 h\" or \"30 min\"", older);
        return EXIT_STATUS_USAGE;
    }
    if (selection->state && strcmp(selection->state, "done") != 0 &&
        strcmp(selection->state, "failed") != 0 && strcmp(selection->state, "cancelled") != 0) {
        complain("--state=%s: jobs that leave are done, failed or cancelled", selection->state);
        return EXIT_STATUS_USAGE;
    }
    selection->before = clock_now() - seconds;
    return EXIT_STATUS_DONE;
}

static void result_print(struct json_object *ids, struct json_object *left, int64_t removed,
                         bool checkpoints, bool dry)
{
    size_t count = dry ? json_object_array_length(ids) : (size_t)removed;
    size_t left_count = json_object_array_length(left);

    for (size_t i = 0; dry && i < json_object_array_length(ids); i++)
        printf("%" PRId64 "\n", json_object_get_int64(json_object_array_get_idx(ids, i)));
    printf("%s of %zu job%s %s removed\n", checkpoints ? "checkpoints" : "everything", count,
           count == 1 ? "" : "s", dry ? "would be" : "was");
    if (left_count > 0)
        complain("%zu job%s stayed, job %" PRId64 " among them: processes of theirs are still to "
                 "go, or somebody else removed them; `trainctl rm` says which",
                 left_count, left_count == 1 ? "" : "s",
                 json_object_get_int64(json_object_array_get_idx(left, 0)));
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *ids = json_object_new_array(), *left = json_object_new_array();
    bool checkpoints = invocation_flag(invocation, "checkpoints");
    bool dry = invocation_flag(invocation, "dry-run");
    struct selection selection;
    int64_t removed = 0;
    enum exit_status status = selection_read(invocation, &selection);

    selection.ids = ids;
    if (!status)
        status = jobs_select(invocation, &selection);
    if (!status && !dry)
        status = removal_run_possible(invocation, ids, checkpoints, left, &removed);
    if (status)
        return status;
    if (invocation->json) {
        JSON_AUTO struct json_object *result = json_object_new_object();

        json_set(result, "ids", json_object_get(ids));
        json_set(result, "left", json_object_get(left));
        json_set_int(result, "removed", removed);
        json_print(result, stdout);
    } else {
        result_print(ids, left, removed, checkpoints, dry);
    }
    return EXIT_STATUS_DONE;
}

static const struct command_option clean_options[] = {
    {"older", 0, "DURATION", "Jobs that ended longer ago, such as \"12 h\" (default: 30 days)",
     COMPLETE_NOTHING},
    {"state", 's', "STATE", "Only those that are done, failed or cancelled", COMPLETE_ENDED_STATES},
    {"name", 'n', "NAME", "Only jobs of this name", COMPLETE_NOTHING},
    REMOVAL_OPTION_CHECKPOINTS,
    {"dry-run", 0, NULL, "Print the numbers of the jobs and remove nothing", COMPLETE_NOTHING},
    {0},
};

const struct command command_clean = {
    .name = "clean",
    .place = 240,
    .summary = "Remove your jobs that ended long ago, or their checkpoints",
    .options = clean_options,
    .execute = command_execute,
};
