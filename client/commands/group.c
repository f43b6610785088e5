/* group.c: `trainctl group` sets and shows how many jobs of a group may run at once. */
#include "client/connection/connection.h"
#include "client/view/table.h"

#include <stdlib.h>
#include <string.h>

static enum exit_status group_list(struct invocation *invocation)
{
    static const struct table_column columns[] = {{"GROUP", false, 8},  {"LIMIT", true, 0},
                                                  {"RUNNING", true, 0}, {"NEXT", true, 0},
                                                  {"WAITING", true, 0}, {"UID", true, 0}};
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status =
        connection_call(invocation, "Groups", json_object_new_object(), &reply);
    struct json_object *groups;
    struct table *table;

    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    groups = json_get(reply.parameters, "groups");
    table = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < json_object_array_length(groups); i++) {
        struct json_object *group = json_object_array_get_idx(groups, i);

        table_add(table, json_get_string(group, "name", ""), STYLE_PLAIN);
        if (json_get(group, "limit"))
            table_add_integer(table, json_get_int(group, "limit", 0));
        else
            table_add(table, "none", STYLE_PLAIN);
        table_add_integer(table, json_get_int(group, "running", 0));
        table_add_integer(table, json_get_int(group, "next", 0));
        table_add_integer(table, json_get_int(group, "waiting", 0));
        table_add_integer(table, json_get_int(group, "uid", 0));
    }
    table_print(table, &invocation->output, stdout);
    table_free(table);
    return EXIT_STATUS_DONE;
}

static enum exit_status group_set(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters;
    const char *text = invocation_option(invocation, "limit");
    bool unlimited = text && strcmp(text, "none") == 0;
    int64_t limit = -1;

    if (invocation->argument_count != 2 || !text) {
        complain("a limit is set with: trainctl group set NAME --limit=N (or none)");
        return EXIT_STATUS_USAGE;
    }
    if (!unlimited && invocation_option_integer(invocation, "limit", 0, &limit))
        return EXIT_STATUS_USAGE;
    parameters = json_object_new_object();
    json_set_string(parameters, "name", invocation->arguments[1]);
    if (unlimited)
        json_set(parameters, "limit", NULL);
    else
        json_set_int(parameters, "limit", limit);
    return connection_call(invocation, "SetGroup", parameters, &reply);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    if (strcmp(invocation->arguments[0], "list") == 0 && invocation->argument_count == 1)
        return group_list(invocation);
    if (strcmp(invocation->arguments[0], "set") == 0)
        return group_set(invocation);
    complain("`trainctl group list` or `trainctl group set NAME --limit=N`");
    return EXIT_STATUS_USAGE;
}

static const struct command_option group_options[] = {
    {"limit", 'l', "N", "Jobs of the group that run at once; 0: none starts; none: no limit",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_group = {
    .name = "group",
    .place = 220,
    .arguments = "list | set NAME",
    .summary = "Limit how many jobs of a group run at once",
    .details = "A job belongs to a group by --group or the key `group` of its specification; the "
               "groups of\ntwo users are two. NEXT are jobs that may start but find no device "
               "yet.",
    .minimum = 1,
    .maximum = 2,
    .options = group_options,
    .words = "list set",
    .execute = command_execute,
};
