/* help.c: `trainctl help` prints help from the tables of commands and of the job specification. */
#include "client/command_line/help.h"

#include "client/command_line/invocation.h"
#include "proto/job_spec.h"

#include <string.h>

static enum exit_status command_execute(struct invocation *invocation)
{
    const char *topic = invocation->argument_count ? invocation->arguments[0] : NULL;
    const struct command *command = topic ? command_find(invocation->commands, topic) : NULL;

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
        const char *nearest = command_nearest(invocation->commands, topic);

        complain(nearest ? "there is no command \"%s\"; did you mean `trainctl help %s`?"
                         : "there is no command \"%s\"; `trainctl help` lists them",
                 topic, nearest);
        return EXIT_STATUS_USAGE;
    }
    help_print(invocation->commands, command, stdout);
    return EXIT_STATUS_DONE;
}

static const struct command_option help_options[] = {
    {"markdown", 0, NULL, "With `help spec`: as Markdown", COMPLETE_NOTHING},
    {0},
};

const struct command command_help = {
    .name = "help",
    .place = 340,
    .arguments = "[COMMAND | spec [KEY]]",
    .summary = "Show help, or the keys of a job specification",
    .details = "KEY is a key such as train.optimizer.lr, a section such as train.optimizer, or a "
               "part of a name.",
    .maximum = 2,
    .options = help_options,
    .completion = COMPLETE_TOPICS,
    .execute = command_execute,
};
