/* help.c: see help.h. */
#include "client/command_line/help.h"

#include "client/view/display.h"

static void options_print(const struct command_option *options, FILE *output)
{
    for (; options && options->name; options++) {
        char text[64];

        snprintf(text, sizeof text, "%s%c%c --%s%s%s", options->letter ? "-" : " ",
                 options->letter ? options->letter : ' ', options->letter ? ',' : ' ',
                 options->name,
                 options->argument && !command_option_is_optional(options) ? "=" : "",
                 options->argument ? options->argument : "");
        fprintf(output, "  %s%*s  %s\n", text,
                display_width(text) < 30 ? (int)(30 - display_width(text)) : 0, "", options->help);
    }
}

static void overview_print(const struct command *const *commands, FILE *output)
{
    fprintf(output, "trainctl: hand training jobs to traind and see what becomes of them\n\n"
                    "Usage: trainctl [OPTION…] COMMAND [OPTION…] [ARGUMENT…]\n\nCommands:\n");
    for (; *commands; commands++)
        if (!(*commands)->hidden)
            fprintf(output, "  %-12s %s\n", (*commands)->name, (*commands)->summary);
    fprintf(output, "\nOptions of every command:\n");
    options_print(command_common_options, output);
    fprintf(output,
            "\nJOB is the number of a job, or the name of the newest of yours that has it.\n"
            "`trainctl help COMMAND` has more, `trainctl help spec` the keys of a job "
            "specification.\n"
            "With --host, files and folders are those of that machine; \"-\" is standard input or "
            "output here.\n\n"
            "Exit status: 0 done; 1 the job failed or was cancelled, or the daemon "
            "refused;\n2 wrong usage; 3 no daemon answers; 130 detached with Ctrl-C, the "
            "job goes on.\n");
}

void help_print(const struct command *const *commands, const struct command *command, FILE *output)
{
    if (!command) {
        overview_print(commands, output);
        return;
    }
    fprintf(output, "Usage: trainctl %s%s%s%s\n\n%s.\n", command->name,
            command->options ? " [OPTION…]" : "", command->arguments ? " " : "",
            command->arguments ? command->arguments : "", command->summary);
    if (command->details)
        fprintf(output, "%s\n", command->details);
    if (command->options) {
        fprintf(output, "\nOptions:\n");
        options_print(command->options, output);
    }
    fprintf(output, "\nOptions of every command:\n");
    options_print(command_common_options, output);
}
