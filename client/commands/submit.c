/* submit.c: `trainctl submit` submits specifications from files. */
#include "client/submission/graph_input.h"
#include "client/submission/snapshot.h"
#include "client/submission/spec_input.h"
#include "client/submission/submission.h"
#include "client/submission/sweep_options.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *specs = json_object_new_array(), *sweep = NULL;
    struct error error = {0};

    for (size_t i = 0; i < invocation->argument_count; i++) {
        if (spec_input_read(invocation, invocation->arguments[i], specs, &error) < 0) {
            complain("%s", error.text);
            return EXIT_STATUS_USAGE;
        }
    }
    for (size_t i = 0; i < json_object_array_length(specs); i++) {
        struct json_object *spec = json_object_array_get_idx(specs, i);

        if (spec_options_apply(invocation, spec))
            return EXIT_STATUS_USAGE;
        if (spec_input_complete(invocation, spec, &error) < 0) {
            complain("%s", error.text);
            return EXIT_STATUS_USAGE;
        }
    }
    for (size_t i = 0; i < json_object_array_length(specs); i++) {
        enum exit_status status = graph_input_add(invocation, json_object_array_get_idx(specs, i));

        if (status)
            return status;
    }
    if (sweep_options_read(invocation, specs, &sweep, &error) < 0) {
        if (error.code) /* else that was complained of already */
            complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (snapshot_add(invocation, specs))
        return EXIT_STATUS_FAILED;
    return sweep ? submission_send_sweeps(invocation, specs, sweep)
                 : submission_send(invocation, specs);
}

static const struct command_option submit_options[] = {
    SUBMISSION_OPTIONS,
    {"sweep", 0, "A.B=V1,V2,…",
     "A job for each value of a key (JSON or words); several make a grid; repeatable",
     COMPLETE_ASSIGNMENTS},
    {"folds", 0, "N",
     "A cross-validation: a job for each of N parts of data.train, which validates; see compare",
     COMPLETE_NOTHING},
    {"random", 0, "A.B=HOW:V1,V2,…",
     "Draw a key's value: uniform:FROM,TO log_uniform:FROM,TO integer:FROM,TO choice:V1,V2,…",
     COMPLETE_ASSIGNMENTS},
    {"count", 0, "N", "With --random: how many jobs", COMPLETE_NOTHING},
    {"sample-seed", 0, "N", "With --random: another seed, other draws (default: 0)",
     COMPLETE_NOTHING},
    {"points", 0, "FILE", "A job for each object {\"a.b\": value, …} of a JSON array",
     COMPLETE_FILES},
    {"search", 0, "FILE",
     "Trials of a search, which stops bad ones early; FILE is its JSON, or the JSON itself",
     COMPLETE_FILES},
    SPEC_INPUT_OPTION_PROFILE,
    {0},
};

const struct command command_submit = {
    .name = "submit",
    .place = 10,
    .arguments = "SPEC…",
    .summary = "Queue the jobs that JSON specifications describe",
    .details = "SPEC is a file, or - for standard input; it holds one specification or an array "
               "of them.\nSeveral are accepted together or not at all (in batches of 1 MiB). "
               "`trainctl help spec` lists the keys.\n"
               "`directory` is the current one unless SPEC says otherwise; PATH, LANG, "
               "VIRTUAL_ENV, CONDA_PREFIX,\nPYTHONPATH and LD_LIBRARY_PATH are handed on.",
    .minimum = 1,
    .maximum = -1,
    .options = submit_options,
    .completion = COMPLETE_SPECS,
    .execute = command_execute,
};
