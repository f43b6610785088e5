/* invocation.c: parses the command line of trainctl; see invocation.h. */
#include "client/command_line/invocation.h"

#include "base/cleanup.h"
#include "base/options.h"
#include "proto/varlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTIONS_MAX = 48 /* common options and those of one command */ };

/* The options that are valid at one place of the command line, and their spellings. */
struct option_set {
    const struct command_option *options[OPTIONS_MAX];
    struct option_spelling spellings[OPTIONS_MAX];
    size_t count;
};

static void option_set_add(struct option_set *set, const struct command_option *options)
{
    for (; options && options->name && set->count < OPTIONS_MAX; options++) {
        set->options[set->count] = options;
        set->spellings[set->count++] = (struct option_spelling){
            .name = options->name,
            .letter = options->letter,
            .value = !options->argument                    ? OPTION_VALUE_NONE
                     : command_option_is_optional(options) ? OPTION_VALUE_OPTIONAL
                                                           : OPTION_VALUE_REQUIRED};
    }
}

/* Prints why an option was refused. */
static void option_complain(const struct option_reader *reader, const struct command *command,
                            enum option_event event, const struct option_found *found,
                            const struct command_option *option)
{
    const char *nearest;
    char hint[96];

    snprintf(hint, sizeof hint, "`trainctl help%s%s` lists the options", command ? " " : "",
             command ? command->name : "");
    if (event == OPTION_VALUE_MISSING) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it has its option */
        complain("--%s needs an argument: --%s=%s", option->name, option->name, option->argument);
    } else if (event == OPTION_VALUE_UNWANTED) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it has its option */
        complain("--%s takes no argument", option->name);
    } else if (found->letter) {
        complain("unknown option -%c; %s", found->letter, hint);
    } else {
        nearest = option_nearest(reader, found->value);
        if (nearest)
            complain("unknown option --%s; did you mean --%s?", found->value, nearest);
        else
            complain("unknown option --%s; %s", found->value, hint);
    }
}

static enum exit_status option_add(struct invocation *invocation,
                                   const struct command_option *option, const char *argument)
{
    struct option_use *grown = reallocarray(invocation->options, invocation->option_count + 1,
                                            sizeof *invocation->options);

    if (!grown) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    invocation->options = grown;
    grown[invocation->option_count++] = (struct option_use){option, argument};
    return EXIT_STATUS_DONE;
}

/* Reads the options of argv[1 …]. Without `ends_at_argument`, arguments may stand between options.
 * Moves the arguments to the beginning of argv; `*arguments` is their number. */
static enum exit_status options_parse(struct invocation *invocation, int argc, char **argv,
                                      bool ends_at_argument, size_t *arguments)
{
    struct option_set set = {0};
    struct option_reader reader = {
        .spellings = set.spellings, .abbreviations = true, .argc = argc, .argv = argv, .index = 1};
    struct option_found found;
    enum option_event event;

    option_set_add(&set, command_common_options);
    if (invocation->command)
        option_set_add(&set, invocation->command->options);
    reader.count = set.count;
    *arguments = 0;
    while ((event = option_read(&reader, &found)) != OPTION_END) {
        const struct command_option *option =
            found.spelling ? set.options[found.spelling - set.spellings] : NULL;
        enum exit_status status;

        if (event == OPTION_ARGUMENT) {
            argv[(*arguments)++] = argv[reader.index - 1];
            while (ends_at_argument && reader.index < argc)
                argv[(*arguments)++] = argv[reader.index++];
            continue;
        }
        if (event != OPTION_FOUND) {
            option_complain(&reader, invocation->command, event, &found, option);
            return EXIT_STATUS_USAGE;
        }
        status = option_add(invocation, option, found.value);
        if (status)
            return status;
    }
    invocation->arguments_are_marked = reader.options_are_over;
    return EXIT_STATUS_DONE;
}

static enum exit_status arguments_check(const struct invocation *invocation)
{
    const struct command *command = invocation->command;
    size_t count = invocation->argument_count;

    if (invocation_flag(invocation, "help") || invocation_flag(invocation, "version"))
        return EXIT_STATUS_DONE;
    if (count < (size_t)command->minimum) {
        complain("%s needs %s; see `trainctl help %s`", command->name, command->arguments,
                 command->name);
        return EXIT_STATUS_USAGE;
    }
    if (command->maximum >= 0 && count > (size_t)command->maximum) {
        complain("%s does not take \"%s\"; see `trainctl help %s`", command->name,
                 invocation->arguments[command->maximum], command->name);
        return EXIT_STATUS_USAGE;
    }
    return EXIT_STATUS_DONE;
}

/* Sets the command of that name. */
static enum exit_status command_choose(struct invocation *invocation, const char *name)
{
    const char *nearest;

    invocation->command = command_find(invocation->commands, name);
    if (invocation->command)
        return EXIT_STATUS_DONE;
    nearest = command_nearest(invocation->commands, name);
    if (nearest)
        complain("unknown command \"%s\"; did you mean `trainctl %s`?", name, nearest);
    else
        complain("unknown command \"%s\"; `trainctl help` lists the commands", name);
    return EXIT_STATUS_USAGE;
}

enum exit_status invocation_parse(int argc, char **argv, const struct command *const *commands,
                                  struct invocation *invocation)
{
    size_t count;
    enum exit_status status;

    invocation->commands = commands;
    display_look(STDOUT_FILENO, &invocation->output);
    status = options_parse(invocation, argc, argv, true, &count);
    if (!status && count > 0) {
        status = command_choose(invocation, argv[0]);
        if (!status)
            status =
                options_parse(invocation, (int)count, argv, invocation->command->ends_at_argument,
                              &invocation->argument_count);
        if (status)
            return status;
        invocation->arguments = argv;
        status = arguments_check(invocation);
    }
    invocation->json = invocation_flag(invocation, "json");
    return status;
}

void invocation_release(struct invocation *invocation)
{
    varlink_client_free(invocation->client);
    free(invocation->socket);
    free(invocation->options);
    *invocation = (struct invocation){0};
}

bool invocation_flag(const struct invocation *invocation, const char *name)
{
    for (size_t i = 0; i < invocation->option_count; i++)
        if (strcmp(invocation->options[i].option->name, name) == 0)
            return true;
    return false;
}

const char *invocation_option(const struct invocation *invocation, const char *name)
{
    const char *argument, *last = NULL;

    for (size_t position = 0; (argument = invocation_option_next(invocation, name, &position));)
        last = argument;
    return last;
}

const char *invocation_option_next(const struct invocation *invocation, const char *name,
                                   size_t *position)
{
    while (*position < invocation->option_count) {
        const struct option_use *use = &invocation->options[(*position)++];

        if (strcmp(use->option->name, name) == 0)
            return use->argument;
    }
    return NULL;
}

struct json_object *invocation_option_words(const struct invocation *invocation, const char *name)
{
    struct json_object *words = NULL;
    const char *argument;

    for (size_t at = 0; (argument = invocation_option_next(invocation, name, &at));) {
        AUTO_FREE char *copy = strdup(argument);
        char *rest = NULL;

        if (!words)
            words = json_object_new_array();
        for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word;
             word = strtok_r(NULL, ",", &rest))
            json_object_array_add(words, json_object_new_string(word));
    }
    return words;
}

enum exit_status invocation_option_integer(const struct invocation *invocation, const char *name,
                                           int64_t minimum, int64_t *value)
{
    const char *text = invocation_option(invocation, name);
    long long number;
    char *end;

    if (!text)
        return EXIT_STATUS_DONE;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < minimum) {
        complain("--%s=%s: a whole number of at least %lld is expected", name, text,
                 (long long)minimum);
        return EXIT_STATUS_USAGE;
    }
    *value = number;
    return EXIT_STATUS_DONE;
}
