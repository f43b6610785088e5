/* complete.c: `trainctl complete -- WORD…`: what may stand in place of the last word, one candidate
 * a line; "@files" lets the shell offer files. The completions of bash, zsh and fish
 * (client/trainctl.*) ask.
 *
 * A user chooses the name of a job, and whoever presses Tab gets it into the command line, root
 * too. So nothing is offered that any shell reads as more than a plain word. */
#include "client/command_line/command.h"
#include "client/connection/connection.h"
#include "proto/job_spec.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { JOBS_OFFERED = 100 };

/* Where no daemon answers. */
static const char nowhere[] = "/dev/null";

/* Characters of which no shell expands, splits or quotes any. */
static const char plain_characters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:+@%,=/-";

/* `before` is what the shell takes for the beginning of the same word. */
static void candidate_print(const char *word, const char *candidate, const char *before)
{
    if (strncmp(candidate, word, strlen(word)) == 0 &&
        !candidate[strspn(candidate, plain_characters)])
        printf("%s%s\n", before, candidate);
}

/* A name that the daemon told. One that begins with "-" would be an option of the command, "@files"
 * a request to the shell; "%" and "=" mean something to some shells at the beginning of a word. */
static void name_print(const char *word, const char *name, const char *before)
{
    if (isalnum((unsigned char)*name) || *name == '_')
        candidate_print(word, name, before);
}

static void options_print(const struct command_option *options, const char *word)
{
    for (; options->name; options++) {
        char text[64];

        snprintf(text, sizeof text, "--%s%s", options->name, options->argument ? "=" : "");
        candidate_print(word, text, "");
    }
}

/* The argument of the option at word `i`, which the shell may have cut at the "=": `i` moves to the
 * last word of it. NULL: it is another word. */
static const char *option_argument(const struct invocation *invocation, const char *option,
                                   size_t *i)
{
    const char *word = invocation->arguments[*i];
    size_t length = strlen(option), last = invocation->argument_count - 1;

    if (strncmp(word, option, length) != 0 || (word[length] != '\0' && word[length] != '='))
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    *i += *i + 2 < last && strcmp(invocation->arguments[*i + 1], "=") == 0 ? 2 : 1;
    return *i < last ? invocation->arguments[*i] : NULL;
}

/* The command among the words, NULL where it has to be typed yet. The daemon that they name is the
 * one to ask; none on another machine is. */
static const struct command *command_among(struct invocation *invocation)
{
    const struct command *command = NULL;

    for (size_t i = 0; i + 1 < invocation->argument_count; i++) {
        const char *socket = option_argument(invocation, "--socket", &i);

        if (!socket && option_argument(invocation, "--host", &i))
            socket = nowhere;
        if (socket) {
            free(invocation->socket);
            invocation->socket = strdup(socket);
        } else if (!command && i + 1 < invocation->argument_count) {
            command = command_find(invocation->arguments[i]);
        }
    }
    return command;
}

/* Numbers of the newest jobs, and names of one's own, by which others' are not to be acted on
 * (connection.h); silent when there is no daemon to ask. */
static void jobs_print(struct invocation *invocation, const char *word)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *jobs;

    json_set_int(parameters, "limit", JOBS_OFFERED);
    if (!connection_try(invocation, "List", parameters, &reply))
        return;
    jobs = json_get(reply.parameters, "jobs");
    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);
        const char *name = json_get_string(job, "name", "");
        char text[32];

        snprintf(text, sizeof text, "%" PRId64, json_get_int(job, "id", 0));
        candidate_print(word, text, "");
        if (json_get_int(job, "uid", -1) == (int64_t)geteuid())
            name_print(word, name, "");
    }
}

/* Likewise names of devices. */
static void device_names_print(struct invocation *invocation, const char *word, const char *before)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *devices;

    if (!connection_try(invocation, "Devices", NULL, &reply))
        return;
    devices = json_get(reply.parameters, "devices");
    for (size_t i = 0; i < json_object_array_length(devices); i++)
        name_print(word, json_get_string(json_object_array_get_idx(devices, i), "name", ""),
                   before);
}

/* Of a list, whose last part is completed, or, where jobs have to have ended, of those alone. */
static void states_print(const char *word, const char *before, bool ended)
{
    static const char *const states[] = {"done",     "failed",  "cancelled",  "queued",
                                         "starting", "running", "preempting", "paused"};
    enum { ENDED = 3 };
    const char *comma = ended ? NULL : strrchr(word, ',');
    AUTO_FREE char *prefix = NULL;

    if (asprintf(&prefix, "%s%.*s", before, comma ? (int)(comma + 1 - word) : 0, word) < 0)
        prefix = NULL;
    for (size_t i = 0; prefix && i < (ended ? ENDED : sizeof states / sizeof *states); i++)
        candidate_print(comma ? comma + 1 : word, states[i], prefix);
}

/* Keys of a specification; `after` follows each: the "=" of an assignment. */
static void keys_print(const char *word, const char *before, const char *after)
{
    AUTO_FREE char *keys = NULL;
    char *rest = NULL;
    size_t size;
    FILE *file = open_memstream(&keys, &size);

    if (!file)
        return;
    job_spec_print_keys(file);
    fclose(file);
    for (char *key = strtok_r(keys, "\n", &rest); key; key = strtok_r(NULL, "\n", &rest))
        if (strncmp(key, word, strlen(word)) == 0)
            printf("%s%s%s\n", before, key, after);
}

/* The long name of the option whose argument `word` is: "--state=…", or the one before it; NULL for
 * none. bash makes words of the "=" and what stands around it. */
static const char *option_before(const struct invocation *invocation, const struct command *command,
                                 const char **word, char before[64])
{
    size_t count = invocation->argument_count;
    const char *given = count > 1 ? invocation->arguments[count - 2] : "";
    const char *equals = strncmp(*word, "--", 2) == 0 ? strchr(*word, '=') : NULL;

    before[0] = '\0';
    if (strcmp(*word, "=") == 0) {
        *word = "";
    } else if (strcmp(given, "=") == 0 && count > 2) {
        given = invocation->arguments[count - 3];
    } else if (equals) {
        snprintf(before, 64, "%.*s", (int)(equals + 1 - *word), *word);
        given = *word;
        *word = equals + 1;
    }
    for (const struct command_option *option = command ? command->options : NULL;
         option && option->name; option++) {
        size_t length = strlen(option->name);
        bool is_long = strncmp(given, "--", 2) == 0 &&
                       strncmp(given + 2, option->name, length) == 0 &&
                       (given[2 + length] == '\0' || given[2 + length] == '=');

        if (option->argument && (is_long || (option->letter && given[0] == '-' &&
                                             given[1] == option->letter && !given[2])))
            return option->name;
    }
    return NULL;
}

/* What an option's argument may be. */
static void argument_print(struct invocation *invocation, const struct command *command,
                           const char *option, const char *word, const char *before)
{
    if (strcmp(option, "state") == 0)
        states_print(word, before, strcmp(command->name, "clean") == 0);
    else if (strcmp(option, "device") == 0 || strcmp(option, "devices") == 0)
        device_names_print(invocation, word, before);
    else if (strcmp(option, "set") == 0 || strcmp(option, "sweep") == 0 ||
             strcmp(option, "random") == 0)
        keys_print(word, before, "=");
    else if (strcmp(option, "by") == 0)
        keys_print(word, before, "");
    else if (strcmp(option, "after") == 0 || strcmp(option, "after-any") == 0)
        jobs_print(invocation, word);
    else if (strcmp(option, "output") == 0 || strcmp(option, "points") == 0 ||
             strcmp(option, "trace") == 0 || strcmp(option, "directory") == 0)
        puts("@files");
}

enum exit_status command_complete(struct invocation *invocation)
{
    const struct command *command = command_among(invocation);
    const char *word =
        invocation->argument_count ? invocation->arguments[invocation->argument_count - 1] : "";
    char before[64];
    const char *option;

    option = option_before(invocation, command, &word, before);
    if (option) {
        argument_print(invocation, command, option, word, before);
    } else if (word[0] == '-') {
        if (command)
            options_print(command->options, word);
        options_print(common_options, word);
    } else if (command && strcmp(command->name, "help") == 0 && invocation->argument_count > 2) {
        if (strcmp(invocation->arguments[invocation->argument_count - 2], "spec") == 0)
            keys_print(word, "", "");
    } else if (!command || strcmp(command->name, "help") == 0) {
        for (const struct command *each = commands; each->name; each++)
            if (!each->hidden)
                candidate_print(word, each->name, "");
        if (command)
            candidate_print(word, "spec", "");
    } else if (strncmp(command->arguments, "JOB", 3) == 0) {
        jobs_print(invocation, word);
    } else if (strcmp(command->name, "group") == 0) {
        candidate_print(word, "list", "");
        candidate_print(word, "set", "");
    } else if (strncmp(command->arguments + strspn(command->arguments, "["), "DEVICE", 6) == 0) {
        device_names_print(invocation, word, "");
    } else if (*command->arguments) {
        puts("@files");
    }
    return EXIT_STATUS_DONE;
}
