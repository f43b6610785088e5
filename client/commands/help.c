/* help.c: `trainctl help`: written from the tables of commands and of the job specification. */
#include "client/command_line/command.h"
#include "proto/job_spec.h"

#include <string.h>

static void options_print(const struct command_option *options, FILE *output)
{
    for (; options->name; options++) {
        char text[64];

        snprintf(text, sizeof text, "%s%c%c --%s%s%s", options->letter ? "-" : " ",
                 options->letter ? options->letter : ' ', options->letter ? ',' : ' ',
                 options->name, options->argument ? "=" : "",
                 options->argument ? options->argument : "");
        fprintf(output, "  %s%*s  %s\n", text,
                display_width(text) < 30 ? (int)(30 - display_width(text)) : 0, "", options->help);
    }
}

static void overview_print(FILE *output)
{
    fprintf(output, "trainctl: hand training jobs to traind and see what becomes of them\n\n"
                    "Usage: trainctl [OPTION…] COMMAND [OPTION…] [ARGUMENT…]\n\nCommands:\n");
    for (const struct command *command = commands; command->name; command++)
        if (!command->hidden)
            fprintf(output, "  %-12s %s\n", command->name, command->summary);
    fprintf(output, "\nOptions of every command:\n");
    options_print(common_options, output);
    fprintf(output,
            "\nJOB is the number of a job, or the name of the newest of yours that has it.\n"
            "`trainctl help COMMAND` has more, `trainctl help spec` the keys of a job "
            "specification.\n\n"
            "Exit status: 0 done; 1 the job failed or was cancelled, or the daemon "
            "refused;\n2 wrong usage; 3 no daemon answers; 130 detached with Ctrl-C, the "
            "job goes on.\n");
}

void help_print(const struct command *command, FILE *output)
{
    if (!command) {
        overview_print(output);
        return;
    }
    fprintf(output, "Usage: trainctl %s%s%s%s\n\n%s.\n", command->name,
            command->options->name ? " [OPTION…]" : "", *command->arguments ? " " : "",
            command->arguments, command->summary);
    if (command->details)
        fprintf(output, "%s\n", command->details);
    if (command->options->name) {
        fprintf(output, "\nOptions:\n");
        options_print(command->options, output);
    }
    fprintf(output, "\nOptions of every command:\n");
    options_print(common_options, output);
}

enum exit_status command_help(struct invocation *invocation)
{
    const char *topic = invocation->argument_count ? invocation->arguments[0] : NULL;
    const struct command *command = topic ? command_find(topic) : NULL;

    if (topic && strcmp(topic, "spec") == 0 && invocation->argument_count > 1) {
        if (job_spec_print_key_help(invocation->arguments[1], stdout) > 0)
            return EXIT_STATUS_DONE;
        complain("no key of a specification has \"%s\" in it; `trainctl help spec` lists them",
                 invocation->arguments[1]);
        return EXIT_STATUS_USAGE;
    }
    if (invocation->argument_count > 1) {
        complain("help takes one topic; `trainctl help` lists the commands");
        return EXIT_STATUS_USAGE;
    }
    if (topic && strcmp(topic, "spec") == 0) {
        job_spec_print_help(invocation_flag(invocation, "markdown") ? JOB_SPEC_HELP_MARKDOWN
                                                                    : JOB_SPEC_HELP_TEXT,
                            stdout);
        return EXIT_STATUS_DONE;
    }
    if (topic && !command) {
        const char *nearest = command_nearest(topic);

        complain(nearest ? "there is no command \"%s\"; did you mean `trainctl help %s`?"
                         : "there is no command \"%s\"; `trainctl help` lists them",
                 topic, nearest);
        return EXIT_STATUS_USAGE;
    }
    help_print(command, stdout);
    return EXIT_STATUS_DONE;
}
