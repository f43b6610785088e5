/* complete.c: `trainctl complete -- WORD…` prints candidates for the last word, one per line;
 * "@files" tells the shell to offer files. The completions of bash, zsh and fish
 * (client/trainctl.*) call it.
 *
 * Any user may choose the name of a job, and Tab puts it into another user's command line, even
 * root's. So it offers only candidates that every shell reads as plain words. */
#include "client/connection/connection.h"
#include "client/submission/presets.h"
#include "client/view/job.h"
#include "proto/job_spec.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { JOBS_OFFERED = 100 };

/* A socket path where no daemon answers. */
static const char nowhere[] = "/dev/null";

/* Characters that no shell expands, splits at or quotes. */
static const char plain_characters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:+@%,=/-";

/* Prints a candidate. `before`: the part of the word that the shell already has. */
static void candidate_print(const char *word, const char *candidate, const char *before)
{
    if (strncmp(candidate, word, strlen(word)) == 0 &&
        !candidate[strspn(candidate, plain_characters)])
        printf("%s%s\n", before, candidate);
}

/* Prints a name from the daemon if it is safe. "-" at its beginning would make it an option,
 * "@files" is a request to the shell, and "%" and "=" are special to some shells at the beginning
 * of a word. */
static void name_print(const char *word, const char *name, const char *before)
{
    if (isalnum((unsigned char)*name) || *name == '_')
        candidate_print(word, name, before);
}

static void options_print(const struct command_option *options, const char *word)
{
    for (; options && options->name; options++) {
        char text[64];

        snprintf(text, sizeof text, "--%s%s", options->name,
                 options->argument && !command_option_is_optional(options) ? "=" : "");
        candidate_print(word, text, "");
    }
}

/* The value of the option at word `i`, which the shell may have split at the "="; `i` moves to its
 * last word. NULL: word `i` is not this option. */
static const char *option_argument(const struct invocation *invocation, const char *option,
                                   size_t *i)
{
    const char *word = invocation->arguments[*i];
    size_t length = strlen(option), last = invocation->argument_count - 1;

    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): words up to argument_count */
    if (strncmp(word, option, length) != 0 || (word[length] != '\0' && word[length] != '='))
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    *i += *i + 2 < last && strcmp(invocation->arguments[*i + 1], "=") == 0 ? 2 : 1;
    return *i < last ? invocation->arguments[*i] : NULL;
}

/* The command among the words; NULL: it is not typed yet. Also selects the daemon that the words
 * name; a daemon on another machine is never asked. */
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
            command = command_find(invocation->commands, invocation->arguments[i]);
        }
    }
    return command;
}

/* Prints the numbers of the newest jobs, and the names of the caller's jobs. Names do not select
 * other users' jobs for actions (connection.h). Prints nothing if no daemon answers. */
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

/* Prints the names of devices, likewise. */
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

/* Prints states; of a comma-separated list it completes the last part. `ended`: prints only final
 * states. */
static void states_print(const char *word, const char *before, bool ended)
{
    const char *comma = ended ? NULL : strrchr(word, ',');
    AUTO_FREE char *prefix = NULL;

    if (asprintf(&prefix, "%s%.*s", before, comma ? (int)(comma + 1 - word) : 0, word) < 0)
        prefix = NULL;
    for (size_t i = 0; prefix && i < (ended ? JOB_STATES_FINAL : JOB_STATES); i++)
        candidate_print(comma ? comma + 1 : word, job_states[i], prefix);
}

/* Prints keys of a specification, each followed by `after`, such as the "=" of an assignment. */
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

/* Prints names of presets for the part of the word behind the last "+". */
static void presets_print(const char *word)
{
    JSON_AUTO struct json_object *presets = presets_list(NULL);
    const char *plus = strrchr(word, '+');
    AUTO_FREE char *before = NULL;

    if (asprintf(&before, "%.*s", plus ? (int)(plus + 1 - word) : 0, word) < 0)
        return;
    for (size_t i = 0; i < json_object_array_length(presets); i++)
        name_print(plus ? plus + 1 : word,
                   json_get_string(json_object_array_get_idx(presets, i), "name", ""), before);
}

/* Whether a file in the present folder begins with the word, or the word names another folder. The
 * shells offer files only where they get no other candidate. */
static bool file_begins(const char *word)
{
    DIR *folder = strchr(word, '/') ? NULL : opendir(".");
    bool found = folder == NULL;
    struct dirent *entry;

    while (!found && (entry = readdir(folder)))
        found = strncmp(entry->d_name, word, strlen(word)) == 0;
    if (folder)
        closedir(folder);
    return found;
}

/* The option whose value `word` is, as in "--state=…" or after the option; NULL: none. bash splits
 * such a word at the "=". */
static const struct command_option *option_before(const struct invocation *invocation,
                                                  const struct command *command, const char **word,
                                                  char before[64])
{
    size_t count = invocation->argument_count;
    const char *given = count > 1 ? invocation->arguments[count - 2] : "";
    const char *equals = strncmp(*word, "--", 2) == 0 ? strchr(*word, '=') : NULL;
    bool apart = !equals && strcmp(*word, "=") != 0 && strcmp(given, "=") != 0;

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

        if (apart && command_option_is_optional(option))
            continue; /* an optional value follows "=" */
        if (option->argument && (is_long || (option->letter && given[0] == '-' &&
                                             given[1] == option->letter && !given[2])))
            return option;
    }
    return NULL;
}

static void commands_print(const struct command *const *commands, const char *word)
{
    for (; *commands; commands++)
        if (!(*commands)->hidden)
            candidate_print(word, (*commands)->name, "");
}

/* Prints topics of `trainctl help`: commands, or "spec" and a key. */
static void topics_print(struct invocation *invocation, const char *word)
{
    if (invocation->argument_count <= 2) {
        commands_print(invocation->commands, word);
        candidate_print(word, "spec", "");
    } else if (strcmp(invocation->arguments[invocation->argument_count - 2], "spec") == 0) {
        keys_print(word, "", "");
    }
}

/* Prints candidates for an argument. `before`: the part of the word that the shell already has. */
static void argument_print(struct invocation *invocation, enum completion completion,
                           const char *word, const char *before)
{
    switch (completion) {
    case COMPLETE_NOTHING:
        break;
    case COMPLETE_FILES:
        puts("@files");
        break;
    case COMPLETE_PRESETS:
        presets_print(word);
        break;
    case COMPLETE_SPECS:
        puts("@files");
        if (*word && !file_begins(word))
            presets_print(word);
        break;
    case COMPLETE_JOBS:
        jobs_print(invocation, word);
        break;
    case COMPLETE_DEVICES:
        device_names_print(invocation, word, before);
        break;
    case COMPLETE_STATES:
    case COMPLETE_ENDED_STATES:
        states_print(word, before, completion == COMPLETE_ENDED_STATES);
        break;
    case COMPLETE_KEYS:
    case COMPLETE_ASSIGNMENTS:
        keys_print(word, before, completion == COMPLETE_ASSIGNMENTS ? "=" : "");
        break;
    case COMPLETE_TOPICS:
        topics_print(invocation, word);
        break;
    }
}

/* Prints the words that a command's first argument may be. */
static void words_print(const char *words, const char *word)
{
    AUTO_FREE char *copy = strdup(words);
    char *rest = NULL;

    for (char *each = copy ? strtok_r(copy, " ", &rest) : NULL; each;
         each = strtok_r(NULL, " ", &rest))
        candidate_print(word, each, "");
}

static enum exit_status command_execute(struct invocation *invocation)
{
    const struct command *command = command_among(invocation);
    const char *word =
        invocation->argument_count ? invocation->arguments[invocation->argument_count - 1] : "";
    const struct command_option *option;
    char before[64];

    option = option_before(invocation, command, &word, before);
    if (option) {
        argument_print(invocation, option->completion, word, before);
    } else if (word[0] == '-') {
        if (command)
            options_print(command->options, word);
        options_print(command_common_options, word);
    } else if (!command) {
        commands_print(invocation->commands, word);
    } else if (command->words) {
        words_print(command->words, word);
    } else {
        argument_print(invocation, command->completion, word, "");
    }
    return EXIT_STATUS_DONE;
}

const struct command command_complete = {
    .name = "complete",
    .place = 350,
    .arguments = "-- WORD…",
    .summary = "Print what may follow on the command line, for the shell's completion",
    .maximum = -1,
    .ends_at_argument = true,
    .hidden = true,
    .execute = command_execute,
};
