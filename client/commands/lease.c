/* lease.c: `trainctl lease` is the job of `trainctl shell`: it runs a shell for its terminal. */
#include "base/text.h"
#include "client/connection/lease_shell.h"

#include <string.h>

static enum exit_status command_execute(struct invocation *invocation)
{
    size_t words = invocation->argument_count - 3;
    AUTO_FREE char **command = calloc(words + 1, sizeof *command); /* ends with NULL */
    struct lease_terms terms = {.name = invocation->arguments[0], .command = command};
    struct error error = {0};

    if (!command) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    memcpy(command, invocation->arguments + 3, words * sizeof *command);

    if (text_parse_duration(invocation->arguments[1], &terms.seconds) < 0 ||
        text_parse_duration(invocation->arguments[2], &terms.idle_seconds) < 0) {
        complain("`trainctl shell` starts this");
        return EXIT_STATUS_USAGE;
    }
    if (lease_shell_run(invocation, &terms, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    return EXIT_STATUS_DONE;
}

const struct command command_lease = {
    .name = "lease",
    .place = 351,
    .arguments = "NAME SECONDS IDLE-SECONDS COMMAND…",
    .summary = "Run a shell for the terminal of `trainctl shell`",
    .minimum = 4,
    .maximum = -1,
    .ends_at_argument = true,
    .hidden = true,
    .execute = command_execute,
};
