/* command.c: see command.h. */
#include "client/command_line/command.h"

#include "base/text.h"

#include <stddef.h>
#include <string.h>

enum { COMMANDS_MAX = 128 };

const struct command_option command_common_options[] = {
    {"socket", 0, "PATH", "Talk to the daemon at this socket (default: $TRAIND_SOCKET)",
     COMPLETE_NOTHING},
    {"host", 'H', "[USER@]HOST",
     "Run this command on another machine through ssh, with the files and folders there",
     COMPLETE_NOTHING},
    {"json", 0, NULL, "Print JSON for programs; one object a line for streams", COMPLETE_NOTHING},
    {"help", 'h', NULL, "Show the help of the command", COMPLETE_NOTHING},
    {"version", 0, NULL, "Show the version", COMPLETE_NOTHING},
    {0},
};

const struct command *command_find(const struct command *const *commands, const char *name)
{
    for (; *commands; commands++)
        if (strcmp((*commands)->name, name) == 0)
            return *commands;
    return NULL;
}

const char *command_nearest(const struct command *const *commands, const char *name)
{
    const char *names[COMMANDS_MAX];
    size_t count = 0;

    for (; *commands && count < COMMANDS_MAX; commands++)
        if (!(*commands)->hidden)
            names[count++] = (*commands)->name;
    return text_nearest(name, names, count);
}

bool command_option_is_optional(const struct command_option *option)
{
    return option->argument && strncmp(option->argument, "[=", 2) == 0;
}
