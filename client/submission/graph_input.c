/* graph_input.c: see graph_input.h. */
#include "client/submission/graph_input.h"

#include "base/clock.h"
#include "client/connection/connection.h"
#include "client/connection/sweep.h"
#include "client/submission/start_time.h"

#include <stdlib.h>
#include <string.h>

/* Appends the job or the sweep that the word names. A sweep is one entry, because it may have a
 * hundred thousand jobs. */
static enum exit_status dependency_add(struct invocation *invocation, const char *word,
                                       const char *condition, struct json_object *after)
{
    struct json_object *dependency;
    enum exit_status status = EXIT_STATUS_DONE;
    int64_t id;
    bool sweep = sweep_named(word, &id);

    if (!sweep)
        status = connection_find_job(invocation, word, JOB_IS_ACTED_ON, &id);
    if (status)
        return status;
    dependency = json_object_new_object();
    json_set_int(dependency, sweep ? "sweep" : "job", id);
    json_set_string(dependency, "on", condition);
    json_object_array_add(after, dependency);
    return EXIT_STATUS_DONE;
}

/* Appends the jobs of all uses of the option to `after`. */
static enum exit_status dependencies_add(struct invocation *invocation, const char *option,
                                         const char *condition, struct json_object *after)
{
    const char *argument;

    for (size_t at = 0; (argument = invocation_option_next(invocation, option, &at));) {
        AUTO_FREE char *copy = strdup(argument);
        char *rest = copy, *word;
        enum exit_status status;

        if (!copy) {
            complain("not enough memory");
            return EXIT_STATUS_FAILED;
        }
        while ((word = strsep(&rest, ","))) {
            if (!*word) { /* perhaps a script's empty variable: the job would start at once */
                complain("--%s=%s: a job is missing; name jobs as in --%s 12,sweep:14, or leave "
                         "the option out",
                         option, argument, option);
                return EXIT_STATUS_USAGE;
            }
            status = dependency_add(invocation, word, condition, after);
            if (status)
                return status;
        }
    }
    return EXIT_STATUS_DONE;
}

enum exit_status graph_input_add(struct invocation *invocation, struct json_object *spec)
{
    const char *group = invocation_option(invocation, "group");
    const char *at_text = invocation_option(invocation, "at");
    struct error error = {0};
    double at = 0;
    struct json_object *after = json_get(spec, "after");
    enum exit_status status;

    if (group)
        json_set_string(spec, "group", group);
    if (invocation_flag(invocation, "hold"))
        json_set_bool(spec, "hold", true);
    if (at_text && start_time_parse(at_text, clock_now(), &at, &error) < 0) {
        complain("--at: %s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (at_text)
        json_set_double(spec, "at", at);
    if (!invocation_option(invocation, "after") && !invocation_option(invocation, "after-any"))
        return EXIT_STATUS_DONE;
    if (!json_object_is_type(after, json_type_array)) {
        struct json_object *list = json_object_new_array();

        if (after)
            json_object_array_add(list, json_object_get(after));
        json_set(spec, "after", list);
        after = list;
    }
    status = dependencies_add(invocation, "after", "success", after);
    return status ? status : dependencies_add(invocation, "after-any", "end", after);
}
