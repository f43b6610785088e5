/* complete.c: `trainctl complete -- WORD…`: what may stand in place of the last word, one candidate
 * a line; "@files" lets the shell offer files. client/trainctl.bash asks. */
#include "client/command.h"
#include "client/connection.h"

#include <inttypes.h>
#include <string.h>

enum { JOBS_OFFERED = 100 };

static void candidate_print(const char *word, const char *candidate)
{
    if (strncmp(candidate, word, strlen(word)) == 0)
        puts(candidate);
}

static void options_print(const struct command_option *options, const char *word)
{
    for (; options->name; options++) {
        char text[64];

        snprintf(text, sizeof text, "--%s%s", options->name, options->argument ? "=" : "");
        candidate_print(word, text);
    }
}

/* The command among the words, and whether it has to be typed yet. */
static const struct command *command_among(const struct invocation *invocation)
{
    for (size_t i = 0; i + 1 < invocation->argument_count; i++) {
        const struct command *command = command_find(invocation->arguments[i]);

        if (command)
            return command;
    }
    return NULL;
}

/* Numbers of the newest jobs; silent when there is no daemon to ask. */
static void jobs_print(struct invocation *invocation, const char *word)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *jobs;

    json_set_int(parameters, "limit", JOBS_OFFERED);
    if (!freopen("/dev/null", "w", stderr) ||
        connection_call(invocation, "List", parameters, &reply))
        return;
    jobs = json_get(reply.parameters, "jobs");
    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        char text[32];

        snprintf(text, sizeof text, "%" PRId64,
                 json_get_int(json_object_array_get_idx(jobs, i), "id", 0));
        candidate_print(word, text);
    }
}

/* Likewise names of devices. */
static void device_names_print(struct invocation *invocation, const char *word)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *devices;

    if (!freopen("/dev/null", "w", stderr) || connection_call(invocation, "Devices", NULL, &reply))
        return;
    devices = json_get(reply.parameters, "devices");
    for (size_t i = 0; i < json_object_array_length(devices); i++)
        candidate_print(word, json_get_string(json_object_array_get_idx(devices, i), "name", ""));
}

enum exit_status command_complete(struct invocation *invocation)
{
    const struct command *command = command_among(invocation);
    const char *word =
        invocation->argument_count ? invocation->arguments[invocation->argument_count - 1] : "";

    if (word[0] == '-') {
        if (command)
            options_print(command->options, word);
        options_print(common_options, word);
    } else if (!command || strcmp(command->name, "help") == 0) {
        for (const struct command *each = commands; each->name; each++)
            if (!each->hidden)
                candidate_print(word, each->name);
        if (command)
            candidate_print(word, "spec");
    } else if (strncmp(command->arguments, "JOB", 3) == 0) {
        jobs_print(invocation, word);
    } else if (strcmp(command->name, "group") == 0) {
        candidate_print(word, "list");
        candidate_print(word, "set");
    } else if (strncmp(command->arguments + strspn(command->arguments, "["), "DEVICE", 6) == 0) {
        device_names_print(invocation, word);
    } else if (*command->arguments) {
        puts("@files");
    }
    return EXIT_STATUS_DONE;
}
