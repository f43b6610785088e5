/* invocation.c: reads the command line of trainctl with getopt_long(3), and answers what it said.
 */
#include "client/command_line/invocation.h"

#include "base/text.h"
#include "proto/varlink.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPTIONS_MAX = 32,      /* common options and those of one command */
    LONG_OPTION_BASE = 256 /* getopt_long's value of the option at an index, beyond any letter */
};

/* The options that are valid at one place of the command line, in getopt's form too. */
struct option_set {
    const struct command_option *options[OPTIONS_MAX];
    size_t count;
    struct option long_options[OPTIONS_MAX + 1];
    char short_options[2 * OPTIONS_MAX + 3];
};

static void option_set_add(struct option_set *set, const struct command_option *options)
{
    size_t letters = strlen(set->short_options);

    for (; options && options->name && set->count < OPTIONS_MAX; options++) {
        set->options[set->count] = options;
        set->long_options[set->count] =
            (struct option){.name = options->name,
                            .has_arg = options->argument ? required_argument : no_argument,
                            .val = LONG_OPTION_BASE + (int)set->count};
        set->count++;
        if (options->letter) {
            set->short_options[letters++] = options->letter;
            if (options->argument)
                set->short_options[letters++] = ':';
        }
    }
}

/* getopt's value of an option, long or short, as its entry; NULL when it is none of ours. */
static const struct command_option *option_set_find(const struct option_set *set, int value)
{
    if (value >= LONG_OPTION_BASE && (size_t)(value - LONG_OPTION_BASE) < set->count)
        return set->options[value - LONG_OPTION_BASE];
    for (size_t i = 0; i < set->count; i++)
        if (set->options[i]->letter && set->options[i]->letter == value)
            return set->options[i];
    return NULL;
}

static const char *option_set_nearest(const struct option_set *set, const char *word)
{
    const char *names[OPTIONS_MAX];
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; i < set->count; i++)
        names[i] = set->options[i]->name;
    return text_nearest(name, names, set->count);
}

/* Says why getopt_long refused an option. */
static void option_complain(const struct option_set *set, const struct command *command, int kind,
                            const char *word)
{
    const struct command_option *option = optopt ? option_set_find(set, optopt) : NULL;
    char hint[96];

    snprintf(hint, sizeof hint, "`trainctl help%s%s` lists the options", command ? " " : "",
             command ? command->name : "");
    if (option && kind == ':') {
        complain("--%s needs an argument: --%s=%s", option->name, option->name, option->argument);
    } else if (option) {
        complain("--%s takes no argument", option->name);
    } else if (optopt) {
        complain("unknown option -%c; %s", optopt, hint);
    } else {
        const char *nearest = option_set_nearest(set, word + 2);

        if (nearest)
            complain("unknown option %s; did you mean --%s?", word, nearest);
        else
            complain("unknown option %s; %s", word, hint);
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

/* Reads options of argv up to the first argument, or, where arguments may be mixed with options, to
 * the end (getopt_long moves them behind the options). */
static enum exit_status options_parse(struct invocation *invocation, int argc, char **argv,
                                      bool ends_at_argument)
{
    struct option_set set = {0};
    enum exit_status status;
    int value;

    strcpy(set.short_options, ends_at_argument ? "+:" : ":");
    option_set_add(&set, command_common_options);
    if (invocation->command)
        option_set_add(&set, invocation->command->options);
    opterr = 0;
    optind = 0; /* glibc: start anew */
    while ((value = getopt_long(argc, argv, set.short_options, set.long_options, NULL)) != -1) {
        const struct command_option *option;

        if (value == '?' || value == ':') {
            option_complain(&set, invocation->command, value, argv[optind - 1]);
            return EXIT_STATUS_USAGE;
        }
        option = option_set_find(&set, value);
        status = option_add(invocation, option, option->argument ? optarg : NULL);
        if (status)
            return status;
    }
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

enum exit_status invocation_parse(int argc, char **argv, const struct command *const *commands,
                                  struct invocation *invocation)
{
    enum exit_status status;
    int first;

    invocation->commands = commands;
    display_look(STDOUT_FILENO, &invocation->output);
    status = options_parse(invocation, argc, argv, true);
    if (status)
        return status;
    first = optind;
    if (first < argc) {
        invocation->command = command_find(commands, argv[first]);
        if (!invocation->command) {
            const char *nearest = command_nearest(commands, argv[first]);

            if (nearest)
                complain("unknown command \"%s\"; did you mean `trainctl %s`?", argv[first],
                         nearest);
            else
                complain("unknown command \"%s\"; `trainctl help` lists the commands", argv[first]);
            return EXIT_STATUS_USAGE;
        }
        status = options_parse(invocation, argc - first, argv + first,
                               invocation->command->ends_at_argument);
        if (status)
            return status;
        invocation->arguments = argv + first + optind;
        invocation->argument_count = (size_t)(argc - first - optind);
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
